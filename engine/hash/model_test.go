package hash_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
)

// fields are few, so that operations meet; some begin with others, and some are no text.
var fields = []string{"", "a", "a\x00", "aa", "ab", "b", "\x00", "\xff", "\xff\xff", "field:1", "field:2", "field:10"}

var values = []string{"", "v", "1", "-7", "9223372036854775807", "3.5", "\x00\xff", strings.Repeat("long", 200)}

// model is a hash in memory, with random operations that are done to it and to the stored hash alike.
type model struct {
	r    *rand.Rand
	key  []byte
	have map[string]string
}

func (m *model) field() string { return fields[m.r.IntN(len(fields))] }

// step does one operation and returns an error where the stored hash behaves otherwise.
func (m *model) step(tx *engine.Tx) error {
	switch m.r.IntN(8) {
	case 0, 1:
		return m.set(tx)
	case 2:
		return m.delete(tx)
	case 3:
		return m.incr(tx)
	case 4:
		return m.get(tx)
	case 5:
		return m.random(tx)
	case 6:
		return m.rangeByLex(tx)
	}
	return m.check(tx)
}

func (m *model) set(tx *engine.Tx) error {
	n := 1 + m.r.IntN(3)
	if m.r.IntN(8) == 0 {
		n = 30 // beyond what is compared each with each
	}
	missing := m.r.IntN(3) == 0
	pairs := make([]string, 2*n)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = m.field(), values[m.r.IntN(len(values))]
	}
	before := maps.Clone(m.have)
	for i := 0; i < len(pairs); i += 2 {
		if _, ok := before[pairs[i]]; !ok || !missing {
			m.have[pairs[i]] = pairs[i+1]
		}
	}
	f := hash.Set
	if missing {
		f = hash.SetMissing
	}
	added, err := f(tx, m.key, raw(pairs...))
	if err == nil && added != len(m.have)-len(before) {
		err = fmt.Errorf("set %q, missing %v: %d added, want %d", pairs, missing, added, len(m.have)-len(before))
	}
	return err
}

func (m *model) delete(tx *engine.Tx) error {
	n := 1 + m.r.IntN(3)
	if m.r.IntN(8) == 0 {
		n = 40
	}
	gone := make([]string, n)
	before := len(m.have)
	for i := range gone {
		gone[i] = m.field()
		delete(m.have, gone[i])
	}
	deleted, err := hash.Delete(tx, m.key, raw(gone...))
	if err == nil && deleted != before-len(m.have) {
		err = fmt.Errorf("delete %q: %d deleted, want %d", gone, deleted, before-len(m.have))
	}
	return err
}

func (m *model) incr(tx *engine.Tx) error {
	f, by := m.field(), int64(m.r.IntN(100)-50)
	sum, err := hash.IncrBy(tx, m.key, []byte(f), by)
	old, ok := m.have[f]
	n := int64(0)
	var want error
	if ok {
		var bad error
		n, bad = strconv.ParseInt(old, 10, 64)
		switch {
		case bad != nil:
			want = hash.ErrNotInteger
		case by > 0 && n+by < n:
			want = hash.ErrOverflow
		}
	}
	if !errors.Is(err, want) {
		return fmt.Errorf("increment of %q by %d: error %v, want %v", old, by, err, want)
	}
	if want != nil {
		return nil
	}
	if sum != n+by {
		return fmt.Errorf("increment of %q by %d: %d", old, by, sum)
	}
	m.have[f] = strconv.FormatInt(sum, 10)
	return nil
}

func (m *model) get(tx *engine.Tx) error {
	asked := []string{m.field(), m.field(), m.field()}
	got, err := hash.GetMany(tx, m.key, raw(asked...))
	if err != nil {
		return err
	}
	for i, f := range asked {
		if want, ok := m.have[f]; ok != (got[i] != nil) || string(got[i]) != want {
			return fmt.Errorf("field %q: %q, want %q, there is one: %v", f, got[i], want, ok)
		}
	}
	v, found, err := hash.Get(tx, m.key, []byte(asked[0]))
	if want, ok := m.have[asked[0]]; err == nil && (found != ok || string(v) != want) {
		err = fmt.Errorf("field %q: %q and %v, want %q and %v", asked[0], v, found, want, ok)
	}
	return err
}

func (m *model) random(tx *engine.Tx) error {
	n := m.r.IntN(len(fields) + 3)
	seen := map[string]string{}
	err := hash.RandomDistinct(tx, m.key, uint64(n), true, func(f, v []byte) bool {
		seen[string(f)] = string(v)
		return true
	})
	for f, v := range seen {
		if want, ok := m.have[f]; !ok || v != want {
			return fmt.Errorf("random field %q with %q, want %q, there is one: %v", f, v, want, ok)
		}
	}
	if err == nil && len(seen) != min(n, len(m.have)) {
		err = fmt.Errorf("%d random fields of %d: %d came", n, len(m.have), len(seen))
	}
	return err
}

func (m *model) rangeByLex(tx *engine.Tx) error {
	low, high := m.field(), m.field()
	r := hash.LexRange{
		Min:     hash.LexBound{Field: []byte(low), Open: m.r.IntN(2) == 0, Inf: m.r.IntN(4) == 0},
		Max:     hash.LexBound{Field: []byte(high), Open: m.r.IntN(2) == 0, Inf: m.r.IntN(4) == 0},
		Reverse: m.r.IntN(2) == 0, Offset: int64(m.r.IntN(3)), Limit: int64(m.r.IntN(6) - 1),
	}
	var want []string
	for _, f := range slices.Sorted(maps.Keys(m.have)) {
		if (r.Min.Inf || f > low || f == low && !r.Min.Open) && (r.Max.Inf || f < high || f == high && !r.Max.Open) {
			want = append(want, f)
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	want = want[min(int(r.Offset), len(want)):]
	if r.Limit >= 0 {
		want = want[:min(int(r.Limit), len(want))]
	}
	var got []string
	err := hash.RangeByLex(tx, m.key, r, func(f, v []byte) {
		if m.have[string(f)] == string(v) {
			got = append(got, string(f))
		}
	})
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("range %+v: %q, want %q", r, got, want)
	}
	return err
}

// check compares everything.
func (m *model) check(tx *engine.Tx) error {
	var want []string
	for _, f := range slices.Sorted(maps.Keys(m.have)) {
		want = append(want, f, m.have[f])
	}
	got, err := all(tx, m.key)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the hash holds %q, want %q", got, want)
	}
	n, err := hash.Len(tx, m.key)
	if err == nil && n != uint64(len(m.have)) {
		err = fmt.Errorf("%d fields, want %d", n, len(m.have))
	}
	return err
}

var errAbandon = errors.New("abandoned")

// TestModel does random operations to a hash and to a map, several in a transaction, some of which are rolled back.
func TestModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			m := &model{r: rand.New(rand.NewPCG(seed, 1)), key: []byte("h"), have: map[string]string{}}
			for round := range 400 {
				before := maps.Clone(m.have)
				abandon := m.r.IntN(5) == 0
				err := db.Update(ns, [][]byte{m.key}, func(tx *engine.Tx) error {
					for range 1 + m.r.IntN(8) {
						if err := m.step(tx); err != nil {
							return err
						}
					}
					if abandon {
						return errAbandon
					}
					return m.check(tx)
				})
				if abandon && errors.Is(err, errAbandon) {
					m.have, err = before, nil
				}
				if err == nil {
					err = db.View(ns, [][]byte{m.key}, m.check)
				}
				if err != nil {
					t.Fatalf("transaction %d: %v", round, err)
				}
			}
		})
	}
}

// TestConcurrent lets writers add and delete fields of one hash while readers go over it: no reader may see a
// number of fields other than the metadata's, and none may be lost.
func TestConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	const writers, each = 4, 150
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
					own, shared := fmt.Sprintf("%d:%d", w, i), fmt.Sprintf("shared:%d", i)
					if _, err := hash.Set(tx, key, raw(own, "v", shared, "v")); err != nil {
						return err
					}
					if _, err := hash.IncrBy(tx, key, []byte("count"), 1); err != nil {
						return err
					}
					if i%3 == 2 {
						_, err := hash.Delete(tx, key, raw(fmt.Sprintf("%d:%d", w, i-1)))
						return err
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := db.View(ns, [][]byte{key}, func(tx *engine.Tx) error { _, err := all(tx, key); return err }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	view(t, db, key, func(tx *engine.Tx) error {
		kv, err := all(tx, key)
		if want := writers*(each-each/3) + each + 1; len(kv)/2 != want {
			t.Errorf("%d fields, want %d", len(kv)/2, want)
		}
		v, _, err2 := hash.Get(tx, key, []byte("count"))
		if string(v) != strconv.Itoa(writers*each) {
			t.Errorf("counted to %s, want %d", v, writers*each)
		}
		return errors.Join(err, err2)
	})
}

// TestLastFieldLeavesRecord: a hash without fields stays as a record of size 0, which no one sees; the next field
// belongs to a new version.
func TestLastFieldLeavesRecord(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	var first uint64
	update(t, db, key, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, key, raw("f", "v"))
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(key)
		first = rec.Version
		return err
	})
	update(t, db, key, func(tx *engine.Tx) error {
		_, err := hash.Delete(tx, key, raw("f"))
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		value, found, err := tx.Get(cf.Metadata, tx.NSKey(key))
		if err != nil || !found {
			t.Fatalf("the metadata record exists: %v, error %v", found, err)
		}
		meta, _, err := cf.DecodeMeta(value)
		if meta.Size != 0 || meta.Version != first {
			t.Errorf("metadata %+v", meta)
		}
		if rec, _ := tx.LoadAny(key); rec.Exists {
			t.Error("an empty hash exists")
		}
		return err
	})
	update(t, db, key, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, key, raw("f", "v"))
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(key)
		if rec.Version <= first || rec.Size != 1 {
			t.Errorf("version %d after %d, size %d", rec.Version, first, rec.Size)
		}
		return err
	})
}
