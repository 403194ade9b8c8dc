package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
	"github.com/basaltdb/basalt/server/cluster/peertest"
)

// slots records the steps, including the commands of the destination.
type slots struct {
	mu  sync.Mutex
	did []string
}

func (s *slots) note(what string) {
	s.mu.Lock()
	s.did = append(s.did, what)
	s.mu.Unlock()
}

func (s *slots) Forbid(cf.SlotRange) error { s.note("forbid"); return nil }
func (s *slots) Allow(cf.SlotRange)        { s.note("allow") }

// TestMigrate: the order of the steps, when the destination agrees and when it does not.
func TestMigrate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(cmd []string) (string, bool)
		moved  error
		want   []string
		err    string
	}{
		{"success", func([]string) (string, bool) { return "", true }, nil,
			[]string{"IMPORT 0", "IMPORT 64", "APPLYBATCH", "APPLYBATCH", "leaving", "forbid", "IMPORT 1", "moved",
				"IMPORT 65"}, ""},
		{"not redirected", func([]string) (string, bool) { return "", true }, errors.New("written"),
			[]string{"IMPORT 0", "IMPORT 64", "APPLYBATCH", "APPLYBATCH", "leaving", "forbid", "IMPORT 1", "moved",
				"allow", "stays", "IMPORT 2"}, "written"},
		{"refused", func(cmd []string) (string, bool) {
			if cmd[len(cmd)-1] == "0" {
				return "-ERR no\r\n", true
			}
			return "", true
		}, nil, []string{"IMPORT 0", "IMPORT 2"}, "ERR no"},
		{"failed at the end", func(cmd []string) (string, bool) {
			if cmd[len(cmd)-1] == "1" {
				return "-ERR the import of the slots has ended\r\n", true
			}
			return "", true
		}, nil, []string{"IMPORT 0", "IMPORT 64", "APPLYBATCH", "APPLYBATCH", "leaving", "forbid", "IMPORT 1", "allow",
			"stays", "IMPORT 2"}, "has ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
			enginetest.Update(t, db, enginetest.Bytes("{foo}a"), func(tx *engine.Tx) error {
				_, err := str.Set(tx, []byte("{foo}a"), []byte("v"), str.SetOptions{})
				return err
			})
			s := &slots{}
			node := &peertest.Node{Answer: func(cmd []string) (string, bool) {
				switch cmd[0] {
				case "COMMAND":
					if cmd[2] == "applybatch" {
						return "*1\r\n*1\r\n$1\r\nx\r\n", true
					}
					return "*1\r\n*-1\r\n", true
				case "CLUSTER":
					s.note("IMPORT " + cmd[3])
				default:
					s.note(cmd[0])
				}
				return tt.answer(cmd)
			}}
			src := New(Options{DB: db, Slots: s, Dial: node.Dial, Log: zap.NewNop(), Settings: func() Settings {
				return Settings{Raw: true, Gap: 100, Settings: carry.Settings{Pipeline: 16, BatchBytes: 1 << 10}}
			}, Limits: func() Limits { return Limits{Rest: time.Minute, Answer: time.Minute, Confirm: time.Minute} }})
			defer src.Close()
			done := make(chan error, 1)
			slot := cf.Slot([]byte("foo"))
			to := Target{ID: "d", Addr: "d:1",
				Leaving: func(cf.SlotRange) error { s.note("leaving"); return nil },
				Stays:   func(cf.SlotRange) { s.note("stays") },
				Moved: func(_ cf.SlotRange, first func()) error {
					s.note("moved")
					if tt.moved == nil {
						first()
					}
					return tt.moved
				}}
			require.NoError(t, src.Migrate(cf.SlotRange{First: slot, Last: slot}, to, func(err error) { done <- err }))
			err := <-done
			state := StateFailed
			if tt.err == "" {
				state = StateSuccess
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) ||
				src.Status().State != state {
				t.Errorf("%v, %+v", err, src.Status())
			}
			src.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(s.did, tt.want) {
				t.Errorf("did %q, want %q", s.did, tt.want)
			}
			if err := src.Migrate(cf.SlotRange{}, to, nil); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// busyClock is a clock whose time passes only in Sleep, while clients write.
type busyClock struct {
	now   time.Time
	write func(d time.Duration)
}

func (c *busyClock) Now() time.Time { return c.now }

func (c *busyClock) Sleep(ctx context.Context, d time.Duration) error {
	if c.now = c.now.Add(max(d, 0)); d > 0 {
		c.write(d)
	}
	return ctx.Err()
}

// busy is a database whose clients write to one slot.
type busy struct {
	t    *testing.T
	db   *engine.DB
	last int
}

// set writes n new keys.
func (b *busy) set(n int) {
	var keys [][]byte
	for range n {
		b.last++
		keys = append(keys, fmt.Appendf(nil, "{foo}%d", b.last))
	}
	enginetest.Update(b.t, b.db, keys, func(tx *engine.Tx) error {
		for _, k := range keys {
			if _, err := str.Set(tx, k, k, str.SetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// migrate moves the slot and returns the result.
func (b *busy) migrate(src *Source) error {
	b.t.Helper()
	done := make(chan error, 1)
	slot := cf.Slot([]byte("foo"))
	to := Target{ID: "d", Addr: "d:1", Leaving: func(cf.SlotRange) error { return nil }, Stays: func(cf.SlotRange) {},
		Moved: func(_ cf.SlotRange, first func()) error { first(); return nil }}
	require.NoError(b.t, src.Migrate(cf.SlotRange{First: slot, Last: slot}, to, func(err error) { done <- err }))
	return <-done
}

// TestOutrun: clients write three times as much as the limit of the rate lets go. The migration ends nevertheless.
func TestOutrun(t *testing.T) {
	for _, raw := range []bool{false, true} {
		b := &busy{t: t, db: enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})}
		b.set(1000)
		const speed, factor, recordSize = 1000, 3, 40
		clock := &busyClock{now: time.Unix(1e9, 0)}
		began, owed := clock.now, 0.0
		node := &peertest.Node{Answer: func(cmd []string) (string, bool) {
			if cmd[0] == "COMMAND" {
				return "*1\r\n*1\r\n$1\r\nx\r\n", true
			}
			return "", true
		}}
		src := New(Options{DB: b.db, Slots: &slots{}, Dial: node.Dial, Log: zap.NewNop(), Clock: clock,
			Settings: func() Settings {
				return Settings{Raw: raw, Gap: 10, Settings: carry.Settings{Speed: speed, Pipeline: 16, BatchBytes: 1 << 10,
					BatchRate: speed * recordSize}}
			}, Limits: func() Limits { return Limits{Rest: time.Minute, Answer: time.Minute, Confirm: time.Minute} }})
		clock.write = func(d time.Duration) {
			if clock.now.Sub(began) > time.Minute {
				src.Cancel(errors.New("it takes too long"), func(cf.SlotRange, string) bool { return true })
				return
			}
			owed += d.Seconds() * speed * factor
			b.set(int(owed))
			owed -= float64(int(owed))
		}
		if err := b.migrate(src); err != nil {
			t.Errorf("raw %v: %v", raw, err)
		}
		src.Close()
	}
}

// TestLimitAfterPause: when the pause of writes was too short, and clients write again, the limit of the rate holds for
// what they write.
func TestLimitAfterPause(t *testing.T) {
	const speed, written = 1000, 500
	b := &busy{t: t, db: enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})}
	b.set(10)
	node := &peertest.Node{Answer: func(cmd []string) (string, bool) {
		if cmd[0] == "COMMAND" {
			return "*1\r\n*-1\r\n", true
		}
		return "", true
	}}
	clock := &busyClock{now: time.Unix(1e9, 0), write: func(time.Duration) {}}
	ended, pauses := make(ends, 10), 0
	var again time.Time // when clients could write again
	src := New(Options{DB: b.db, Slots: ended, Dial: node.Dial, Log: zap.NewNop(), Clock: clock,
		Settings: func() Settings { return Settings{Gap: 10, Settings: carry.Settings{Speed: speed, Pipeline: 16}} },
		Limits: func() Limits {
			if pauses == 1 {
				return Limits{Rest: 1}
			}
			return Limits{Rest: time.Minute, Answer: time.Minute, Confirm: time.Minute}
		}, Step: func(s stage.Stage) {
			switch {
			case s == stage.Forbidden:
				pauses++
			case s == stage.Success && pauses == 1:
				<-ended
				again = clock.now
				b.set(written)
			}
		}})
	defer src.Close()
	if err := b.migrate(src); err != nil || pauses != 2 {
		t.Errorf("%v, %d pauses", err, pauses)
	}
	// A pause that was too short doubles the limit.
	if took, least := clock.now.Sub(again), written*time.Second/(2*speed)*4/5; took < least {
		t.Errorf("%d writes were sent in %v, want %v at least", written, took, least)
	}
}

// ends tells when a pause of writes ends.
type ends chan struct{}

func (e ends) Forbid(cf.SlotRange) error { return nil }
func (e ends) Allow(cf.SlotRange)        { e <- struct{}{} }

// TestOutrunFails: the destination takes longer for a write than clients for two, and the pause of the writes does not
// last until it has the rest. The migration fails instead of going on for ever.
func TestOutrunFails(t *testing.T) {
	b := &busy{t: t, db: enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})}
	b.set(100)
	node := &peertest.Node{Answer: func(cmd []string) (string, bool) {
		switch cmd[0] {
		case "COMMAND":
			return "*1\r\n*-1\r\n", true
		case "SET":
			b.set(2)
		}
		return "", true
	}}
	ended := make(ends, 10)
	core, logs := observer.New(zap.WarnLevel)
	src := New(Options{DB: b.db, Slots: ended, Dial: node.Dial, Log: zap.New(core), Settings: func() Settings {
		return Settings{Gap: 10, Settings: carry.Settings{Pipeline: 16}}
	}, Limits: func() Limits { return Limits{Rest: 1, Answer: time.Minute, Confirm: time.Minute} },
		Step: func(s stage.Stage) {
			if s == stage.Success { // all was sent
				<-ended
			}
		}})
	defer src.Close()
	if err := b.migrate(src); !errors.Is(err, errOutrun) || src.Status().State != StateFailed {
		t.Errorf("%v, %+v", err, src.Status())
	}
	if b.last > 100<<(mostGrown+4) {
		t.Errorf("%d keys were written meanwhile", b.last)
	}
	for _, l := range logs.All() {
		if strings.Contains(l.Message, "limit is raised") {
			t.Errorf("there is no limit, and the log says: %s", l.Message)
		}
	}
}
