package set_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/set"
)

// pick returns one of a few members; some begin with others, and some are no text.
func pick(r *rand.Rand) string {
	odd := []string{"", "a", "a\x00", "aa", "\x00", "\xff", "\xff\xff"}
	if r.IntN(2) == 0 {
		return odd[r.IntN(len(odd))]
	}
	return fmt.Sprintf("m%d", r.IntN(300))
}

func picks(r *rand.Rand) []string {
	n := 1 + r.IntN(3)
	if r.IntN(6) == 0 {
		n = 50 // beyond what is compared each with each
	}
	list := make([]string, n)
	for i := range list {
		list[i] = pick(r)
	}
	return list
}

// step does one random operation to a set and to its model, and compares.
func step(tx *engine.Tx, r *rand.Rand, key []byte, have map[string]bool) error {
	before := len(have)
	switch r.IntN(7) {
	case 0, 1, 2:
		members := picks(r)
		for _, m := range members {
			have[m] = true
		}
		added, err := set.Add(tx, key, raw(members...))
		if err == nil && added != len(have)-before {
			err = fmt.Errorf("add %q: %d added, want %d", members, added, len(have)-before)
		}
		return err
	case 3:
		members := picks(r)
		for _, m := range members {
			delete(have, m)
		}
		removed, err := set.Remove(tx, key, raw(members...))
		if err == nil && removed != before-len(have) {
			err = fmt.Errorf("remove %q: %d removed, want %d", members, removed, before-len(have))
		}
		return err
	case 4:
		n := r.IntN(6)
		if r.IntN(10) == 0 {
			n = 1000 // everything
		}
		var odd error
		err := set.Pop(tx, key, uint64(n), func(m []byte) {
			if !have[string(m)] {
				odd = fmt.Errorf("popped %q, which is not there", m)
			}
			delete(have, string(m))
		})
		if odd == nil && before-len(have) != min(n, before) {
			odd = fmt.Errorf("%d of %d popped, want %d", before-len(have), before, min(n, before))
		}
		return errors.Join(err, odd)
	case 5:
		asked := picks(r)
		has, err := set.Contains(tx, key, raw(asked...))
		for i, m := range asked {
			if err == nil && has[i] != have[m] {
				err = fmt.Errorf("contains %q: %v", m, has[i])
			}
		}
		one, err2 := set.IsMember(tx, key, []byte(asked[0]))
		if err2 == nil && one != have[asked[0]] {
			err2 = fmt.Errorf("%q is a member: %v", asked[0], one)
		}
		return errors.Join(err, err2)
	}
	return same(tx, key, have)
}

func same(tx *engine.Tx, key []byte, have map[string]bool) error {
	got, err := all(tx, key)
	if want := slices.Sorted(maps.Keys(have)); err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("the set holds %q, want %q", got, want)
	}
	n, err2 := set.Card(tx, key)
	if err2 == nil && n != uint64(len(have)) {
		err2 = fmt.Errorf("%d members, want %d", n, len(have))
	}
	return errors.Join(err, err2)
}

// TestModel does random operations to a set and to a map, several in a transaction, some of which are rolled back.
func TestModel(t *testing.T) {
	abandoned := errors.New("abandoned")
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			r := rand.New(rand.NewPCG(seed, 2))
			key := []byte("s")
			keys := [][]byte{key}
			have := map[string]bool{}
			for round := range 400 {
				before := maps.Clone(have)
				abandon := r.IntN(5) == 0
				err := db.Update(ns, keys, func(tx *engine.Tx) error {
					for range 1 + r.IntN(8) {
						if err := step(tx, r, key, have); err != nil {
							return err
						}
					}
					if abandon {
						return abandoned
					}
					return same(tx, key, have)
				})
				if abandon && errors.Is(err, abandoned) {
					have, err = before, nil
				}
				if err == nil {
					err = db.View(ns, keys, func(tx *engine.Tx) error { return same(tx, key, have) })
				}
				if err != nil {
					t.Fatalf("transaction %d: %v", round, err)
				}
			}
		})
	}
}

// TestConcurrent lets some add members, others pop them and others move them on, while readers go over the sets:
// every member must turn up exactly once, and no reader may see a number of members other than the metadata's.
func TestConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	a, b := []byte("a"), []byte("b")
	keys := [][]byte{a, b}
	const adders, each = 3, 200
	var mu sync.Mutex
	popped := map[string]int{}
	var adding, others sync.WaitGroup
	done := make(chan struct{})
	for w := range adders {
		adding.Go(func() {
			for i := range each {
				if err := db.Update(ns, keys[:1], func(tx *engine.Tx) error {
					n, err := set.Add(tx, a, raw(fmt.Sprintf("%d:%d", w, i)))
					if err == nil && n != 1 {
						err = errors.New("a new member was there already")
					}
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	repeat := func(f func() error) {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		repeat(func() error {
			var got []string
			err := db.Update(ns, keys[:1], func(tx *engine.Tx) error {
				got = got[:0]
				return set.Pop(tx, a, 2, func(m []byte) { got = append(got, string(m)) })
			})
			mu.Lock()
			defer mu.Unlock()
			for _, m := range got {
				popped[m]++
			}
			return err
		})
	}
	repeat(func() error {
		return db.Update(ns, keys, func(tx *engine.Tx) error {
			var member []byte
			err := set.Random(tx, a, 1, func(m []byte) bool { member = slices.Clone(m); return true })
			if err != nil || member == nil {
				return err
			}
			moved, _, err := set.Move(tx, a, b, member)
			if err == nil && !moved {
				err = fmt.Errorf("%q was drawn and could not be moved", member)
			}
			return err
		})
	})
	repeat(func() error {
		return db.View(ns, keys[:1], func(tx *engine.Tx) error { _, err := all(tx, a); return err })
	})
	repeat(func() error {
		return db.View(ns, keys, func(tx *engine.Tx) error {
			return set.Intersect(tx, keys, func(m []byte) bool {
				t.Errorf("%q is in both sets", m)
				return false
			})
		})
	})
	adding.Wait()
	close(done)
	others.Wait()
	view(t, db, keys, func(tx *engine.Tx) error {
		for _, k := range keys {
			members, err := all(tx, k)
			if err != nil {
				return err
			}
			for _, m := range members {
				popped[m]++
			}
		}
		return nil
	})
	for w := range adders {
		for i := range each {
			if m := fmt.Sprintf("%d:%d", w, i); popped[m] != 1 {
				t.Errorf("%q turned up %d times", m, popped[m])
			}
		}
	}
	if len(popped) != adders*each {
		t.Errorf("%d members, want %d", len(popped), adders*each)
	}
}
