package set_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/set"
)

const ns = cf.DefaultNamespace

var (
	update = enginetest.Update
	view   = enginetest.View
	raw    = enginetest.Bytes
)

func add(t testing.TB, db *engine.DB, key []byte, members ...string) {
	t.Helper()
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := set.Add(tx, key, raw(members...))
		return err
	})
}

// all returns the members of a set in their order, by Each, which checks their number.
func all(tx *engine.Tx, key []byte) ([]string, error) {
	var members []string
	announced := uint64(0)
	err := set.Each(tx, key, func(n uint64) { announced = n }, func(m []byte) { members = append(members, string(m)) })
	if err == nil && announced != uint64(len(members)) {
		err = fmt.Errorf("%d members announced, %d came", announced, len(members))
	}
	return members, err
}

// numbered returns n members p000000, p000001, ...
func numbered(p string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%06d", p, i)
	}
	return list
}

func goOn([]byte) bool { return true }

// calls are all functions of the package, each on one key.
func calls(key []byte) map[string]func(tx *engine.Tx) error {
	none := func([]byte) {}
	keys := [][]byte{key}
	return map[string]func(tx *engine.Tx) error{
		"Card":           func(tx *engine.Tx) error { _, err := set.Card(tx, key); return err },
		"Contains":       func(tx *engine.Tx) error { _, err := set.Contains(tx, key, raw("a")); return err },
		"IsMember":       func(tx *engine.Tx) error { _, err := set.IsMember(tx, key, key); return err },
		"Add":            func(tx *engine.Tx) error { _, err := set.Add(tx, key, raw("a")); return err },
		"Remove":         func(tx *engine.Tx) error { _, err := set.Remove(tx, key, raw("a")); return err },
		"Move from":      func(tx *engine.Tx) error { _, _, err := set.Move(tx, key, []byte("other"), key); return err },
		"Each":           func(tx *engine.Tx) error { return set.Each(tx, key, func(uint64) {}, none) },
		"Pop":            func(tx *engine.Tx) error { return set.Pop(tx, key, 1, none) },
		"Pop of nothing": func(tx *engine.Tx) error { return set.Pop(tx, key, 0, none) },
		"Random":         func(tx *engine.Tx) error { return set.Random(tx, key, 1, goOn) },
		"RandomDistinct": func(tx *engine.Tx) error { return set.RandomDistinct(tx, key, 1, none) },
		"Union":          func(tx *engine.Tx) error { return set.Union(tx, keys, goOn) },
		"Diff":           func(tx *engine.Tx) error { return set.Diff(tx, keys, goOn) },
		"Intersect":      func(tx *engine.Tx) error { return set.Intersect(tx, keys, goOn) },
	}
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	key, other := []byte("s"), []byte("set")
	keys := [][]byte{key, other}
	update(t, db, keys, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	})
	for name, f := range calls(key) {
		if err := db.Update(ns, keys, f); !errors.Is(err, engine.ErrWrongType) {
			t.Errorf("%s of a string: %v", name, err)
		}
	}
	// A second key of another type counts as well, also where the result is known without it.
	missing := []byte("missing")
	for name, f := range map[string]func(tx *engine.Tx) error{
		"Union":     func(tx *engine.Tx) error { return set.Union(tx, [][]byte{missing, key}, goOn) },
		"Diff":      func(tx *engine.Tx) error { return set.Diff(tx, [][]byte{missing, key}, goOn) },
		"Intersect": func(tx *engine.Tx) error { return set.Intersect(tx, [][]byte{missing, key}, goOn) },
	} {
		if err := db.View(ns, [][]byte{missing, key}, f); !errors.Is(err, engine.ErrWrongType) {
			t.Errorf("%s of a missing key and a string: %v", name, err)
		}
	}
	add(t, db, other, "a")
	err := db.Update(ns, keys, func(tx *engine.Tx) error {
		_, _, err := set.Move(tx, other, key, []byte("a"))
		return err
	})
	if !errors.Is(err, engine.ErrWrongType) {
		t.Errorf("Move to a string: %v", err)
	}
	// Redis looks at the source first.
	update(t, db, [][]byte{missing, key}, func(tx *engine.Tx) error {
		moved, _, err := set.Move(tx, missing, key, []byte("a"))
		if moved {
			t.Error("moved out of a missing set")
		}
		return err
	})
}

func TestMissing(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("missing")
	for name, f := range calls(key) {
		if name == "Add" {
			continue
		}
		if err := db.Update(ns, [][]byte{key, []byte("other")}, f); err != nil {
			t.Errorf("%s of a missing key: %v", name, err)
		}
	}
	view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		if rec, _ := tx.LoadAny(key); rec.Exists {
			t.Error("the key exists now")
		}
		has, err := set.Contains(tx, key, raw("a", "b"))
		if !slices.Equal(has, []bool{false, false}) {
			t.Errorf("contains %v", has)
		}
		return err
	})
}

func TestMove(t *testing.T) {
	db := enginetest.Open(t)
	a, b := []byte("a"), []byte("b")
	keys := [][]byte{a, b}
	add(t, db, a, "1", "2", "3")
	add(t, db, b, "3")
	for _, c := range []struct {
		from, to []byte
		member   string
		moved    bool
		a, b     string
	}{
		{a, b, "9", false, "1 2 3", "3"},
		{a, b, "1", true, "2 3", "1 3"},
		{a, b, "3", true, "2", "1 3"}, // there already
		{a, a, "2", true, "2", "1 3"},
		{a, a, "9", false, "2", "1 3"},
		{a, b, "2", true, "", "1 2 3"},
		{a, b, "2", false, "", "1 2 3"},
		{b, a, "2", true, "2", "1 3"}, // into a set that is gone
	} {
		update(t, db, keys, func(tx *engine.Tx) error {
			moved, _, err := set.Move(tx, c.from, c.to, []byte(c.member))
			if moved != c.moved {
				t.Errorf("%s from %s to %s: moved %v", c.member, c.from, c.to, moved)
			}
			return err
		})
		view(t, db, keys, func(tx *engine.Tx) error {
			inA, err := all(tx, a)
			if err != nil {
				return err
			}
			inB, err := all(tx, b)
			if x, y := strings.Join(inA, " "), strings.Join(inB, " "); x != c.a || y != c.b {
				t.Errorf("%s from %s to %s leaves %q and %q, want %q and %q", c.member, c.from, c.to, x, y, c.a, c.b)
			}
			return err
		})
	}
}

// TestPop empties sets in pieces: every member comes once, and what is left is counted right.
func TestPop(t *testing.T) {
	for _, c := range []struct{ size, most int }{{1, 1}, {100, 1}, {100, 7}, {1500, 1}, {1500, 40}, {300, 1000}} {
		t.Run(fmt.Sprintf("%d by %d", c.size, c.most), func(t *testing.T) {
			db := enginetest.Open(t)
			key := []byte("s")
			keys := [][]byte{key}
			add(t, db, key, numbered("m", c.size)...)
			seen := map[string]bool{}
			for len(seen) < c.size {
				update(t, db, keys, func(tx *engine.Tx) error {
					for range 4 { // several pops in one transaction see each other
						n := uint64(min(c.most, c.size-len(seen)))
						popped := uint64(0)
						err := set.Pop(tx, key, uint64(c.most), func(m []byte) {
							if seen[string(m)] {
								t.Errorf("%q came twice", m)
							}
							seen[string(m)] = true
							popped++
						})
						if err != nil {
							return err
						}
						if popped != n {
							t.Fatalf("%d members popped, want %d", popped, n)
						}
						if left, err := set.Card(tx, key); err != nil || left != uint64(c.size-len(seen)) {
							t.Fatalf("%d are left, want %d (error %v)", left, c.size-len(seen), err)
						}
					}
					return nil
				})
				view(t, db, keys, func(tx *engine.Tx) error {
					left, err := all(tx, key)
					if len(left) != c.size-len(seen) {
						t.Errorf("%d are left, want %d", len(left), c.size-len(seen))
					}
					return err
				})
			}
			view(t, db, keys, func(tx *engine.Tx) error {
				_, found, err := tx.Get(cf.Metadata, tx.NSKey(key))
				if rec, _ := tx.LoadAny(key); rec.Exists || !found {
					t.Errorf("the empty set exists: %v, its record is there: %v", rec.Exists, found)
				}
				return err
			})
		})
	}
}

// TestPopRolledBack: members whose pop was rolled back are there, and can be popped again.
func TestPopRolledBack(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	keys := [][]byte{key}
	add(t, db, key, numbered("m", 500)...)
	abandon := errors.New("abandoned")
	for range 20 {
		err := db.Update(ns, keys, func(tx *engine.Tx) error {
			if err := set.Pop(tx, key, 30, func([]byte) {}); err != nil {
				return err
			}
			return abandon
		})
		if !errors.Is(err, abandon) {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	update(t, db, keys, func(tx *engine.Tx) error {
		return set.Pop(tx, key, 500, func(m []byte) { seen[string(m)] = true })
	})
	if len(seen) != 500 {
		t.Errorf("%d of 500 members could be popped", len(seen))
	}
}

func TestRandom(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	keys := [][]byte{key}
	for _, size := range []int{1, 4, 100, 900} {
		members := numbered("m", size)
		add(t, db, key, members...)
		for _, n := range []int{0, 1, 3, size - 1, size, size + 5} {
			view(t, db, keys, func(tx *engine.Tx) error {
				seen := map[string]bool{}
				err := set.RandomDistinct(tx, key, uint64(n), func(m []byte) {
					if _, ok := slices.BinarySearch(members, string(m)); !ok || seen[string(m)] {
						t.Errorf("of %d: %q, seen before: %v", size, m, seen[string(m)])
					}
					seen[string(m)] = true
				})
				if len(seen) != min(n, size) {
					t.Errorf("%d of %d distinct members: %d came", n, size, len(seen))
				}
				return err
			})
			view(t, db, keys, func(tx *engine.Tx) error {
				count := 0
				err := set.Random(tx, key, uint64(n), func(m []byte) bool {
					if _, ok := slices.BinarySearch(members, string(m)); !ok {
						t.Errorf("of %d: %q", size, m)
					}
					count++
					return true
				})
				if count != n {
					t.Errorf("%d of %d members: %d came", n, size, count)
				}
				return err
			})
		}
	}
}

func TestMetadataDisagrees(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	keys := [][]byte{key}
	add(t, db, key, "a", "b")
	update(t, db, keys, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeSet)
		tx.Delete(cf.Default, tx.Subkey(&rec, []byte("a")))
		return err
	})
	err := db.View(ns, keys, func(tx *engine.Tx) error { _, err := all(tx, key); return err })
	if !errors.Is(err, cf.ErrCorrupt) {
		t.Errorf("error %v, want %v", err, cf.ErrCorrupt)
	}
}

// TestNoAllocation: a pipelined run of commands on one member allocates nothing.
func TestNoAllocation(t *testing.T) {
	db := enginetest.Open(t)
	key, member := []byte("s"), []byte("m0000")
	one := [][]byte{member}
	next := func() { // counts the member up
		i := len(member) - 1
		for ; member[i] == '9'; i-- {
			member[i] = '0'
		}
		member[i]++
	}
	tx := db.NewTx()
	tx.Begin(ns)
	tx.AddLock(key, true)
	tx.Acquire()
	defer tx.Release()
	for _, c := range []struct {
		name string
		f    func() error
	}{
		{"Add", func() error { next(); _, err := set.Add(tx, key, one); return err }},
		{"Add again", func() error { _, err := set.Add(tx, key, one); return err }},
		{"IsMember", func() error { _, err := set.IsMember(tx, key, member); return err }},
		{"Remove", func() error {
			next()
			if _, err := set.Add(tx, key, one); err != nil {
				return err
			}
			_, err := set.Remove(tx, key, one)
			return err
		}},
	} {
		enginetest.NoAllocs(t, c.name, c.f)
	}
}
