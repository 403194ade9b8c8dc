package hll

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/str"
)

func TestHyperLogLog(t *testing.T) {
	db := enginetest.Open(t)
	a, b, c := []byte("a"), []byte("b"), []byte("c")
	all := [][]byte{a, b, c}
	update(t, db, all, func(tx *engine.Tx) error {
		add := func(key []byte, want bool, elements ...string) {
			t.Helper()
			if changed, err := Add(tx, key, raw(elements...)); err != nil || changed != want {
				t.Errorf("add %q to %s: %v %v", elements, key, changed, err)
			}
		}
		count := func(want uint64, keys ...[]byte) {
			t.Helper()
			if n, err := Count(tx, keys...); err != nil || n != want {
				t.Errorf("count %q: %d %v, want %d", keys, n, err, want)
			}
		}
		count(0, a)
		count(0, a, b)
		add(a, true)
		add(a, false)
		count(0, a)
		add(a, true, "x", "y", "x")
		add(a, false, "y")
		add(b, true, "y", "z")
		count(2, a)
		count(3, a, b)
		count(3, a, b, c, a)
		if err := Merge(tx, c, a, b); err != nil {
			return err
		}
		count(3, c)
		count(2, a)
		if _, err := keys.Del(tx, a); err != nil {
			return err
		}
		count(0, a)
		return Merge(tx, a)
	})
	view(t, db, all, func(tx *engine.Tx) error {
		if values, found, err := Values(tx, a); err != nil || !found || *values != [Registers]uint8{} {
			t.Errorf("merged of nothing: %v %v", found, err)
		}
		_, found, err := Values(tx, []byte("missing"))
		if found {
			t.Error("a missing one is found")
		}
		return err
	})
}

func TestOtherTypes(t *testing.T) {
	db := enginetest.Open(t)
	s, list, h := []byte("string"), []byte("set"), []byte("h")
	update(t, db, [][]byte{s, list, h}, func(tx *engine.Tx) error {
		if _, err := str.Set(tx, s, []byte("v"), str.SetOptions{}); err != nil {
			return err
		}
		if _, err := set.Add(tx, list, raw("a")); err != nil {
			return err
		}
		for key, want := range map[string]error{"string": ErrString, "set": engine.ErrWrongType} {
			k := []byte(key)
			_, err1 := Add(tx, k, raw("x"))
			_, err2 := Count(tx, k)
			_, err3 := Count(tx, h, k)
			_, _, err4 := Values(tx, k)
			for i, err := range []error{err1, err2, err3, err4, Merge(tx, k, h), Merge(tx, h, k)} {
				if err != want {
					t.Errorf("%s, %d: %v, want %v", key, i, err, want)
				}
			}
		}
		rec, err := tx.LoadAny(h)
		if rec.Exists {
			t.Error("a failed merge has made its destination")
		}
		return err
	})
}

// Merge keeps the expiry, as Redis does.
func TestExpiry(t *testing.T) {
	db := enginetest.Open(t)
	a, b := []byte("a"), []byte("b")
	update(t, db, [][]byte{a, b}, func(tx *engine.Tx) error {
		for _, k := range [][]byte{a, b} {
			if _, err := Add(tx, k, [][]byte{k}); err != nil {
				return err
			}
		}
		at := tx.Now() + 1_000_000
		if _, err := keys.Expire(tx, a, at, 0); err != nil {
			return err
		}
		if err := Merge(tx, a, b); err != nil {
			return err
		}
		if _, err := Add(tx, a, raw("more")); err != nil {
			return err
		}
		got, _, err := keys.ExpireTime(tx, a)
		if got != uint64(at) {
			t.Errorf("it expires at %d, want %d", got, at)
		}
		return err
	})
}

// The estimate is off by no more than four standard errors.
func TestAccuracy(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	elements := numbered(200_000)
	for n := 0; n < len(elements); n += 10_000 {
		update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			if _, err := Add(tx, key, elements[n:n+10_000]); err != nil {
				return err
			}
			got, err := Count(tx, key)
			want := float64(n + 10_000)
			if off := math.Abs(float64(got)-want) / want; off > 4*1.04/math.Sqrt(Registers) {
				t.Errorf("%d for %v elements", got, want)
			}
			return err
		})
	}
}

// model is what a HyperLogLog must hold.
type model [Registers]uint8

func (m *model) add(elements [][]byte) (changed bool) {
	for _, e := range elements {
		if i, rank := place(e); rank > m[i] {
			m[i], changed = rank, true
		}
	}
	return changed
}

// TestModel does random operations to HyperLogLogs and to their registers, several in a transaction, some of which
// are rolled back. There are few keys, so that they are kept in memory soon.
func TestModel(t *testing.T) {
	abandoned := errors.New("abandoned")
	db := enginetest.Open(t)
	r := rand.New(rand.NewPCG(3, 1))
	names := raw("a", "b", "c")
	have := map[string]*model{}
	step := func(tx *engine.Tx) error {
		key := names[r.IntN(len(names))]
		old := have[string(key)]
		switch op := r.IntN(40); {
		case op == 0:
			delete(have, string(key))
			n, err := keys.Del(tx, key)
			if (n == 1) != (old != nil) {
				return fmt.Errorf("%d deleted", n)
			}
			return err
		case op == 1:
			now := &model{}
			if old != nil {
				*now = *old
			}
			from := names[r.IntN(len(names))]
			if src := have[string(from)]; src != nil {
				for i, v := range src {
					now[i] = max(now[i], v)
				}
			}
			have[string(key)] = now
			return Merge(tx, key, from)
		default:
			elements := make([][]byte, 1)
			if r.IntN(5) == 0 {
				elements = make([][]byte, r.IntN(30))
			}
			for i := range elements {
				elements[i] = fmt.Appendf(nil, "%d", r.IntN(20000))
			}
			now := &model{}
			if old != nil {
				*now = *old
			}
			want := now.add(elements) || old == nil
			have[string(key)] = now
			changed, err := Add(tx, key, elements)
			if err == nil && changed != want {
				err = fmt.Errorf("add %q: %v, want %v", elements, changed, want)
			}
			return err
		}
	}
	same := func(tx *engine.Tx) error {
		for _, key := range names {
			values, found, err := Values(tx, key)
			if err != nil {
				return err
			}
			want := have[string(key)]
			if found != (want != nil) || found && *values != *want {
				return fmt.Errorf("%s: there %v, want %v, or other registers", key, found, want != nil)
			}
		}
		return nil
	}
	for round := range 600 {
		before := map[string]*model{}
		// a model is replaced, not changed
		maps.Copy(before, have)
		abandon := r.IntN(6) == 0
		err := db.Update(ns, names, func(tx *engine.Tx) error {
			for range 1 + r.IntN(20) {
				if err := step(tx); err != nil {
					return err
				}
			}
			if abandon {
				return abandoned
			}
			return same(tx)
		})
		if abandon && errors.Is(err, abandoned) {
			have, err = before, nil
		}
		if err == nil && round%10 == 0 {
			err = db.View(ns, names, same)
		}
		if err != nil {
			t.Fatalf("transaction %d: %v", round, err)
		}
	}
}

// TestConcurrent adds the same and other elements from several sides while they are counted.
func TestConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	key, one := []byte("h"), []byte("one")
	elements := numbered(3000)
	var want model
	want.add(elements)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 5))
			for _, i := range r.Perm(len(elements)) {
				if err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
					_, err := Add(tx, key, elements[i:i+1])
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		last := uint64(0)
		for range 300 {
			err := db.View(ns, [][]byte{key, one}, func(tx *engine.Tx) error {
				n, err := Count(tx, key)
				if n < last {
					t.Errorf("%d after %d", n, last)
				}
				last = n
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		values, _, err := Values(tx, key)
		if err == nil && *values != want {
			t.Error("the registers are not those of the elements")
		}
		return err
	})
}

// Many keys are read in another way.
func TestManyKeys(t *testing.T) {
	db := enginetest.Open(t)
	var names [][]byte
	elements := numbered(manyKeys * 10)
	var want model
	want.add(elements)
	for i := range manyKeys + 1 {
		names = append(names, fmt.Appendf(nil, "h%d", i))
		if i < manyKeys {
			update(t, db, names[i:], func(tx *engine.Tx) error {
				for _, e := range elements[10*i:][:10] { // written several times
					if _, err := Add(tx, names[i], [][]byte{e}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	view(t, db, names, func(tx *engine.Tx) error {
		values, err := merged(tx, names)
		if err == nil && *values != want {
			t.Error("the registers are not those of all elements")
		}
		return err
	})
}

// Records that cannot be read are errors that name the key.
func TestCorrupt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(tx *engine.Tx, rec *engine.Record)
	}{
		{"no encoding", func(tx *engine.Tx, rec *engine.Record) { tx.Save(rec, nil) }},
		{"another encoding", func(tx *engine.Tx, rec *engine.Record) { tx.Save(rec, []byte{1}) }},
		{"a short segment", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, subkey(tx, rec, 3),
				[]byte("short"))
		}},
		{"a long segment", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, subkey(tx, rec, 3), make([]byte, cf.HLLSegmentLen+1))
		}},
	} {
		db := enginetest.Open(t)
		key, other := []byte("bad"), []byte("good")
		all := [][]byte{key, other}
		update(t, db, all, func(tx *engine.Tx) error {
			if _, err := Add(tx, key, raw("x")); err != nil {
				return err
			}
			rec, err := load(tx, key)
			tt.spoil(tx, &rec)
			return err
		})
		for what, f := range map[string]func(tx *engine.Tx) error{
			"Add":     func(tx *engine.Tx) error { _, err := Add(tx, key, numbered(100)); return err },
			"Count":   func(tx *engine.Tx) error { _, err := Count(tx, key); return err },
			"Count 2": func(tx *engine.Tx) error { _, err := Count(tx, other, key); return err },
			"Count n": func(tx *engine.Tx) error {
				_, err := Count(tx, append(make([][]byte, manyKeys), key)...)
				return err
			},
			"Values": func(tx *engine.Tx) error { _, _, err := Values(tx, key); return err },
			"Merge":  func(tx *engine.Tx) error { return Merge(tx, other, key) },
		} {
			err := db.Update(ns, all, f)
			if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "bad"`) {
				t.Errorf("%s, %s: %v", tt.name, what, err)
			}
		}
	}
	db := enginetest.Open(t)
	key := []byte("bad")
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := Add(tx, key, raw("x"))
		rec, _ := load(tx, key)
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("16")), make([]byte, cf.HLLSegmentLen))
		return err
	})
	err := db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := Count(tx, append(make([][]byte, manyKeys), key)...)
		return err
	})
	if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "bad"`) {
		t.Errorf("a segment too many: %v", err)
	}
}
