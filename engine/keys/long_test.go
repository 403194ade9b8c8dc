package keys_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// TestLongValues: a value of which only the beginning is looked at arrives whole under its new key, whether it was
// committed before or is the transaction's own.
func TestLongValues(t *testing.T) {
	db := enginetest.Open(t)
	const other = "other"
	for _, size := range []int{10, 2000, 5000, 100_000} {
		text := strings.Repeat("v", size-1) + "e"
		const expire = 9e12
		set := func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("a"), []byte(text), str.SetOptions{Expire: expire})
			return err
		}
		for _, c := range []struct {
			name, ns, key string
			stays         bool // under its old key
			f             func(tx *engine.Tx) (bool, error)
		}{
			{"copy", ns, "b", true, func(tx *engine.Tx) (bool, error) { return keys.Copy(tx, []byte("a"), []byte("b"), true) }},
			{"copy to another namespace", other, "b", true, func(tx *engine.Tx) (bool, error) {
				return keys.CopyTo(tx, []byte("a"), other, []byte("b"), true)
			}},
			{"rename", ns, "b", false, func(tx *engine.Tx) (bool, error) {
				return keys.Rename(tx, []byte("a"),
					[]byte("b"), false)
			}},
			{"move", other, "a", false, func(tx *engine.Tx) (bool, error) { return keys.Move(tx, []byte("a"), other) }},
		} {
			for _, own := range []bool{false, true} {
				for _, where := range []string{ns, other} {
					require.NoError(t, db.Update(where, [][]byte{[]byte("a"), []byte("b")}, func(tx *engine.Tx) error {
						_, errA := keys.Del(tx, []byte("a"))
						_, errB := keys.Del(tx, []byte("b"))
						return errors.Join(errA, errB)
					}))
				}
				do := func(tx *engine.Tx) error {
					done, err := c.f(tx)
					if !done {
						t.Errorf("%s was not done", c.name)
					}
					return err
				}
				tx := db.NewTx()
				steps := [][]func(tx *engine.Tx) error{{set}, {do}}
				if own {
					steps = [][]func(tx *engine.Tx) error{{set, do}}
				}
				for _, step := range steps {
					tx.Begin(ns)
					for _, k := range []string{"a", "b"} {
						tx.AddLock([]byte(k), true)
						tx.AddLockIn(other, []byte(k), true)
					}
					err := tx.Acquire()
					for _, f := range step {
						err = errors.Join(err, f(tx))
					}
					if err = errors.Join(err, tx.Commit()); err != nil {
						t.Fatal(err)
					}
					tx.Release()
				}
				read := func(ns, key string) (value string, expires bool) {
					require.NoError(t, db.View(ns, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
						rec, err := tx.LoadAny([]byte(key))
						value, expires = string(rec.Tail), rec.Expire == expire
						return err
					}))
					return value, expires
				}
				if got, expires := read(c.ns, c.key); got != text || !expires {
					t.Errorf("%s of %d bytes (own: %v): %d bytes, expires: %v", c.name, size, own, len(got), expires)
				}
				if got, _ := read(ns, "a"); (got == text) != c.stays {
					t.Errorf("%s of %d bytes (own: %v): %d bytes are left", c.name, size, own, len(got))
				}
			}
		}
	}
}
