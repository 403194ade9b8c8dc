package set_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/set"
)

type op func(tx *engine.Tx, keys [][]byte, f func(member []byte) bool) error

var ops = map[string]op{"Union": set.Union, "Diff": set.Diff, "Intersect": set.Intersect}

// collect appends the members that an operation yields.
func collect(to *[]string) func(member []byte) bool {
	return func(m []byte) bool {
		*to = append(*to, string(m))
		return true
	}
}

// expected is what an operation on maps yields, sorted.
func expected(name string, sets []map[string]bool) []string {
	result := map[string]bool{}
	for i, s := range sets {
		switch {
		case i == 0:
			result = maps.Clone(s)
		case name == "Union":
			maps.Copy(result, s)
		case name == "Diff":
			maps.DeleteFunc(result, func(m string, _ bool) bool { return s[m] })
		default:
			maps.DeleteFunc(result, func(m string, _ bool) bool { return !s[m] })
		}
	}
	return slices.Sorted(maps.Keys(result))
}

// TestOps compares the operations on random sets of very different sizes with those on maps, on what is committed
// and with writes of the transaction's own.
func TestOps(t *testing.T) {
	db := enginetest.Open(t)
	r := rand.New(rand.NewPCG(7, 7))
	sizes := []int{0, 1, 3, 20, 70, 200, 1500}
	var keys [][]byte
	models := map[string]map[string]bool{}
	for i, size := range append(sizes, sizes...) {
		key := fmt.Appendf(nil, "set:%d", i)
		keys = append(keys, key)
		m := map[string]bool{}
		for len(m) < size {
			// Out of few enough that the sets overlap.
			m[fmt.Sprintf("m%d", r.IntN(1+2*size))] = true
			if r.IntN(50) == 0 {
				m[""] = true
			}
		}
		models[string(key)] = m
		if size > 0 {
			add(t, db, key, slices.Collect(maps.Keys(m))...)
		}
	}
	verify := func(tx *engine.Tx) error {
		for name, f := range ops {
			for range 15 {
				var some [][]byte
				var sets []map[string]bool
				for range 1 + r.IntN(4) { // the same one perhaps twice
					k := keys[r.IntN(len(keys))]
					some = append(some, k)
					sets = append(sets, models[string(k)])
				}
				var got []string
				if err := f(tx, some, collect(&got)); err != nil {
					return err
				}
				if want := expected(name, sets); !slices.Equal(got, want) {
					return fmt.Errorf("%s of %q: %d members, want %d\n%.300q\n%.300q", name, some, len(got), len(want), got, want)
				}
			}
		}
		return nil
	}
	for range 10 {
		// Each View is one command's worth: an operation gives its locks back, so one operation a transaction.
		update(t, db, keys, verify)
	}
	update(t, db, keys, func(tx *engine.Tx) error {
		for range 40 {
			k := keys[r.IntN(len(keys))]
			m := fmt.Sprintf("m%d", r.IntN(50))
			var err error
			if r.IntN(2) == 0 {
				_, err = set.Add(tx, k, raw(m))
				models[string(k)][m] = true
			} else {
				_, err = set.Remove(tx, k, raw(m))
				delete(models[string(k)], m)
			}
			if err != nil {
				return err
			}
		}
		return verify(tx)
	})
	for name, f := range ops {
		view(t, db, keys[3:6], func(tx *engine.Tx) error {
			var got []string
			err := f(tx, keys[3:6], collect(&got))
			want := expected(name, []map[string]bool{models["set:3"], models["set:4"], models["set:5"]})
			if !slices.Equal(got, want) {
				t.Errorf("%s by a reader: %q, want %q", name, got, want)
			}
			return err
		})
	}
}

// TestOpsStop: an operation yields no more when f has returned false, whether members are looked up or read along.
func TestOpsStop(t *testing.T) {
	db := enginetest.Open(t)
	small, big, other := []byte("small"), []byte("big"), []byte("other")
	add(t, db, small, numbered("m", 100)...)
	add(t, db, big, numbered("m", 2000)...)
	add(t, db, other, numbered("o", 2000)...)
	for name, lists := range map[string][][][]byte{
		"Union":     {{small, small}, {small, big}, {big, other}},
		"Diff":      {{small, other}, {small}, {big, other}, {big, small}},
		"Intersect": {{small, small}, {small, big}, {big, small}},
	} {
		for _, keys := range lists {
			view(t, db, keys, func(tx *engine.Tx) error {
				calls := 0
				err := ops[name](tx, keys, func([]byte) bool { calls++; return calls < 5 })
				if calls != 5 {
					t.Errorf("%s of %q: %d calls after f returned false at the fifth", name, keys, calls)
				}
				return err
			})
		}
	}
}

func TestStore(t *testing.T) {
	db := enginetest.Open(t)
	a, b, dst := []byte("a"), []byte("b"), []byte("dst")
	keys := [][]byte{a, b, dst}
	add(t, db, a, "1", "2", "3", "4")
	add(t, db, b, "3", "4", "5")
	store := func(to []byte, f op, from ...[]byte) int {
		t.Helper()
		var n int
		update(t, db, keys, func(tx *engine.Tx) (err error) {
			n, err = set.Store(tx, to, func(add func(member []byte) bool) error { return f(tx, from, add) })
			return err
		})
		return n
	}
	check := func(what string, n int, key []byte, want ...string) {
		t.Helper()
		view(t, db, keys, func(tx *engine.Tx) error {
			got, err := all(tx, key)
			if n != len(want) || !slices.Equal(got, want) {
				t.Errorf("%s: returned %d and left %q, want %q", what, n, got, want)
			}
			return err
		})
	}
	check("union into a new key", store(dst, set.Union, a, b), dst, "1", "2", "3", "4", "5")
	check("difference over it", store(dst, set.Diff, a, b), dst, "1", "2")
	check("into a source", store(a, set.Intersect, a, b), a, "3", "4")
	check("nothing", store(dst, set.Intersect, a, []byte("missing")), dst)
	view(t, db, keys, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(dst)
		if rec.Exists {
			t.Error("an empty result leaves a key")
		}
		return err
	})
	err := db.Update(ns, keys, func(tx *engine.Tx) error {
		_, err := set.Store(tx, a, func(add func(member []byte) bool) error {
			add([]byte("x"))
			return errors.New("half way")
		})
		return err
	})
	if err == nil {
		t.Error("the error of produce was lost")
	}
	check("after a failure", 2, a, "3", "4")
}
