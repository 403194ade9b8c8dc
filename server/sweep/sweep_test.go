package sweep

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// fixture is a sweep whose events come through a channel, and whose pauses the test begins and ends.
type fixture struct {
	*Sweep
	events chan string
	held   atomic.Pointer[error] // what MayExpire returns, nil = nothing holds
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{events: make(chan string, 1000)}
	tell := func(format string, args ...any) { f.events <- fmt.Sprintf(format, args...) }
	f.Sweep = New(Options{DB: enginetest.Open(t), Log: zap.NewNop(),
		MayExpire: func() error {
			if err := f.held.Load(); err != nil {
				return *err
			}
			return nil
		},
		PausedUntil: func() (time.Time, bool) {
			err := f.held.Load()
			return time.Now().Add(time.Hour), err != nil && *err == ErrPaused
		},
		KeyEnded: func(_ string, key []byte, how engine.Ended) {
			if how == engine.FieldsExpired {
				tell("ended with its fields %s", key)
			} else {
				tell("ended %s", key)
			}
		},
		FieldsExpired: func(_ string, key []byte) { tell("fields %s", key) },
		HashEmptied:   func(_ string, key []byte) { tell("emptied %s", key) },
	})
	t.Cleanup(func() {
		f.Stop()
		f.Wait()
	})
	return f
}

func (f *fixture) hold(err error) { f.held.Store(&err) }

// update runs a transaction on a key.
func (f *fixture) update(t *testing.T, key string, do func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, f.DB.Update(cf.DefaultNamespace, [][]byte{[]byte(key)}, do))
}

// set writes a string that expires after a time.
func (f *fixture) set(t *testing.T, key string, life time.Duration) {
	t.Helper()
	f.update(t, key, func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte(key), []byte("v"), str.SetOptions{Expire: after(tx, life)})
		return err
	})
}

// after returns a time by the transaction's clock: what expires by then is not deleted now, however slow the test is.
func after(tx *engine.Tx, life time.Duration) int64 { return tx.Now() + life.Milliseconds() }

func (f *fixture) want(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		select {
		case got := <-f.events:
			if got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		case <-time.After(10 * time.Minute):
			t.Fatalf("%s did not happen", want)
		}
	}
}

// Keys that were there before and those that come are deleted at their time, while that is wanted.
func TestKeys(t *testing.T) {
	f := newFixture(t)
	f.set(t, "early", time.Millisecond)
	f.set(t, "late", time.Hour)
	f.Want(true, false)
	f.want(t, "ended early")
	f.set(t, "soon", time.Millisecond)
	f.want(t, "ended soon")
	f.Want(false, false)
	if n := f.Len(); n != 0 {
		t.Errorf("%d keys are kept although nobody wants to hear of them", n)
	}
	f.set(t, "unheard", time.Millisecond)
	f.Listen(true)
	f.want(t, "ended unheard")
	f.Listen(false)
}

// Keys expire in the order of their times. A pause has the sweep begin with all of them, although they come one after
// the other.
func TestOrder(t *testing.T) {
	f := newFixture(t)
	f.Want(true, false)
	f.hold(ErrPaused)
	keys := [][]byte{[]byte("third"), []byte("first"), []byte("second")}
	require.NoError(t, f.DB.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		for i, life := range []time.Duration{3, 1, 2} {
			o := str.SetOptions{Expire: after(tx, life*time.Millisecond)}
			if _, err := str.Set(tx, keys[i], []byte("v"), o); err != nil {
				return err
			}
		}
		return nil
	}))
	f.held.Store(nil)
	f.Wake()
	f.want(t, "ended first", "ended second", "ended third")
}

// After a pause the keys expire that have waited for its end; on a replica none does.
func TestPause(t *testing.T) {
	f := newFixture(t)
	f.Want(true, true)
	f.hold(ErrPaused)
	f.set(t, "held", time.Millisecond)
	if _, err := f.DB.DeleteExpired(cf.DefaultNamespace, []byte("held"), f.MayExpire, nil); err != ErrPaused {
		t.Errorf("in a pause: %v", err)
	}
	f.held.Store(nil)
	f.Wake()
	f.want(t, "ended held")

	f.hold(ErrNotHere)
	f.set(t, "replicated", time.Millisecond)
	for f.Len() != 0 { // the sweep has seen the key, and left it alone
		time.Sleep(time.Millisecond)
	}
	f.held.Store(nil)
	f.Refresh()
	f.want(t, "ended replicated")
}

func TestStop(t *testing.T) {
	f := newFixture(t)
	f.Stop()
	f.Stop()
	f.Want(true, true) // does no harm
	f.Wait()
	f = newFixture(t)
	f.Want(true, true)
	f.Stop()
	f.Wait()
}

// Fields are deleted at their time, and the hash with the last one.
func TestFields(t *testing.T) {
	f := newFixture(t)
	f.Want(false, true)
	key := []byte("h")
	f.update(t, "h", func(tx *engine.Tx) error {
		_, err := hash.Set(tx, key, [][]byte{[]byte("a"), []byte("1"), []byte("b"), []byte("2")})
		return err
	})
	expire := func(field string, life time.Duration) {
		t.Helper()
		f.update(t, "h", func(tx *engine.Tx) error {
			_, err := hash.Expire(tx, key, [][]byte{[]byte(field)}, after(tx, life), hash.Always)
			return err
		})
	}
	expire("a", 20*time.Millisecond)
	f.want(t, "fields h")
	expire("b", 20*time.Millisecond)
	f.want(t, "ended with its fields h")
}
