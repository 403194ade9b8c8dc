package zset_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
)

// TestPopsReadAhead looks at what is remembered between pops, and what ends it.
func TestPopsReadAhead(t *testing.T) {
	for _, highest := range []bool{false, true} {
		db := enginetest.Open(t)
		key := []byte("z")
		const n = 1000
		fill(t, db, key, n)
		next := 0 // place of the next member from the end that is popped
		at := func(place int) zset.Entry {
			if highest {
				place = n - 1 - place
			}
			return zset.Entry{Member: fmt.Appendf(nil, "m%08d", place), Score: float64(place)}
		}
		pop := func(tx *engine.Tx, want zset.Entry) {
			t.Helper()
			got := ""
			err := zset.Pop(tx, key, 1, highest, func(member []byte, _ float64) { got = string(member) })
			if err != nil || got != string(want.Member) {
				t.Fatalf("highest %v: popped %q, %v, want %q", highest, got, err, want.Member)
			}
		}
		popNext := func(tx *engine.Tx) {
			t.Helper()
			pop(tx, at(next))
			next++
		}
		var ahead int
		do := func(what string, wantLess bool, f func(tx *engine.Tx) error) {
			t.Helper()
			update(t, db, "z", func(tx *engine.Tx) error {
				for zset.Ahead(tx, key, highest) < 20 {
					popNext(tx)
				}
				return nil
			})
			update(t, db, "z", func(tx *engine.Tx) error {
				ahead = zset.Ahead(tx, key, highest)
				err := f(tx)
				if now := zset.Ahead(tx, key, highest); now < ahead != wantLess {
					t.Errorf("highest %v, %s: %d members are remembered, before %d", highest, what, now, ahead)
				}
				return err
			})
			update(t, db, "z", func(tx *engine.Tx) error {
				popNext(tx)
				return nil
			})
		}
		do("nothing", false, func(tx *engine.Tx) error { return nil })
		do("a pop", true, func(tx *engine.Tx) error {
			popNext(tx)
			if now := zset.Ahead(tx, key, highest); now != ahead-1 {
				t.Errorf("highest %v: %d are remembered after a pop, before it %d", highest, now, ahead)
			}
			return nil
		})
		do("a member behind the run", false, func(tx *engine.Tx) error {
			e := at(n / 2)
			_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: []byte("middle"), Score: e.Score + 0.5}})
			return err
		})
		do("a member inside the run", true, func(tx *engine.Tx) error {
			e := at(next + 5)
			if _, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: []byte("new"), Score: e.Score + 0.5}}); err != nil {
				return err
			}
			_, err := zset.Remove(tx, key, [][]byte{[]byte("new")})
			return err
		})
		do("a new first member", true, func(tx *engine.Tx) error {
			e := at(-1)
			if _, _, err := zset.Add(tx, key, 0, []zset.Entry{e}); err != nil {
				return err
			}
			pop(tx, e)
			return nil
		})
		do("a removed member", true, func(tx *engine.Tx) error {
			e := at(next + 1)
			if _, err := zset.Remove(tx, key, [][]byte{e.Member}); err != nil {
				return err
			}
			_, _, err := zset.Add(tx, key, 0, []zset.Entry{e})
			return err
		})
		do("a pop that is rolled back", true, func(tx *engine.Tx) error {
			mark := tx.Savepoint()
			pop(tx, at(next))
			return tx.Rollback(mark)
		})
		// A commit that fails takes back what was popped.
		db.InjectWriteError(errors.New("disk full"))
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			pop(tx, at(next))
			return nil
		})
		db.InjectWriteError(nil)
		if err == nil {
			t.Error("the commit did not fail")
		}
		// The other end takes what is left, the remembered members included.
		left := 0
		update(t, db, "z", func(tx *engine.Tx) error {
			popNext(tx)
			size, err := zset.Card(tx, key)
			if err != nil {
				return err
			}
			if err := zset.Pop(tx, key, size-3, !highest, func([]byte, float64) { left++ }); err != nil {
				return err
			}
			popNext(tx)
			return nil
		})
		view(t, db, key, func(tx *engine.Tx) {
			if size, err := zset.Card(tx, key); err != nil || size != 2 {
				t.Errorf("%d members are left, %v", size, err)
			}
			consistent(t, tx, key)
		})
	}
}
