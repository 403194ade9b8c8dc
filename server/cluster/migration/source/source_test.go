package source

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/peertest"
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
		want   []string
		err    string
	}{
		{"success", func([]string) (string, bool) { return "", true },
			[]string{"IMPORT 0", "IMPORT 64", "APPLYBATCH", "APPLYBATCH", "leaving", "forbid", "IMPORT 1", "moved",
				"IMPORT 65"}, ""},
		{"refused", func(cmd []string) (string, bool) {
			if cmd[len(cmd)-1] == "0" {
				return "-ERR no\r\n", true
			}
			return "", true
		}, []string{"IMPORT 0", "IMPORT 2"}, "ERR no"},
		{"failed at the end", func(cmd []string) (string, bool) {
			if cmd[len(cmd)-1] == "1" {
				return "-ERR the import of the slots has ended\r\n", true
			}
			return "", true
		}, []string{"IMPORT 0", "IMPORT 64", "APPLYBATCH", "APPLYBATCH", "leaving", "forbid", "IMPORT 1", "allow", "stays",
			"IMPORT 2"}, "has ended"},
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
				Moved:   func(_ cf.SlotRange, first func()) error { s.note("moved"); first(); return nil }}
			if err := src.Migrate(cf.SlotRange{First: slot, Last: slot}, to, func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
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
