package hash_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
)

// item is a field of the model.
type item struct {
	value  string
	expire int64
}

// ttlModel is a hash whose fields expire, in memory, with a clock of its own.
type ttlModel struct {
	r    *rand.Rand
	key  []byte
	now  int64
	have map[string]item // without those that have expired
}

func (m *ttlModel) field() string { return fields[m.r.IntN(len(fields))] }

func (m *ttlModel) value() string { return values[m.r.IntN(len(values))] }

func (m *ttlModel) fields(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = m.field()
	}
	return all
}

// time draws an expiry, now and then one that has passed.
func (m *ttlModel) time() int64 { return max(m.now+int64(m.r.IntN(60)-8), 0) }

// tick moves the clock on.
func (m *ttlModel) tick() {
	m.now += int64(m.r.IntN(12))
	maps.DeleteFunc(m.have, func(_ string, it item) bool { return it.expire != 0 && it.expire < m.now })
}

// step does one operation and returns an error where the stored hash behaves otherwise.
func (m *ttlModel) step(tx *engine.Tx) error {
	m.tick()
	tx.Tick(m.now)
	steps := []func(*engine.Tx) error{m.set, m.set, m.delete, m.incr, m.expire, m.expire, m.expire, m.persist,
		m.setEx, m.setEx, m.getEx, m.getDelete,
		m.times, m.rangeByLex, m.random, m.compact}
	if err := steps[m.r.IntN(len(steps))](tx); err != nil {
		return err
	}
	return m.check(tx)
}

func (m *ttlModel) set(tx *engine.Tx) error {
	n := 1 + m.r.IntN(3)
	if m.r.IntN(8) == 0 {
		n = 30 // beyond what is compared each with each
	}
	missing := m.r.IntN(3) == 0
	var pairs []string
	before := maps.Clone(m.have)
	for range n {
		f, v := m.field(), m.value()
		pairs = append(pairs, f, v)
		if _, ok := before[f]; !ok || !missing {
			m.have[f] = item{v, 0}
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

func (m *ttlModel) delete(tx *engine.Tx) error {
	gone := m.fields(1 + m.r.IntN(4))
	before := len(m.have)
	for _, f := range gone {
		delete(m.have, f)
	}
	n, err := hash.Delete(tx, m.key, raw(gone...))
	if err == nil && n != before-len(m.have) {
		err = fmt.Errorf("delete %q: %d, want %d", gone, n, before-len(m.have))
	}
	return err
}

func (m *ttlModel) incr(tx *engine.Tx) error {
	f := m.field()
	old, ok := m.have[f]
	n, bad := int64(0), error(nil)
	if ok {
		n, bad = strconv.ParseInt(old.value, 10, 64)
	}
	sum, err := hash.IncrBy(tx, m.key, []byte(f), 3)
	switch {
	case bad != nil || n > math.MaxInt64-3:
		if err == nil {
			return fmt.Errorf("increment of %q worked", old.value)
		}
		return nil
	case err != nil || sum != n+3:
		return fmt.Errorf("increment of %q: %d, %v", old.value, sum, err)
	}
	m.have[f] = item{strconv.FormatInt(sum, 10), old.expire}
	return nil
}

func (m *ttlModel) expire(tx *engine.Tx) error {
	fs, at, when := m.fields(1+m.r.IntN(4)), m.time(), hash.Condition(m.r.IntN(5))
	if m.r.IntN(10) == 0 {
		fs = m.fields(20)
	}
	want := make([]int64, len(fs))
	for i, f := range fs {
		old, ok := m.have[f]
		has := old.expire != 0
		met := when == hash.Always || when == hash.IfNone && !has || when == hash.IfSome && has ||
			when == hash.IfLater && has && at > old.expire || when == hash.IfEarlier && (!has || at < old.expire)
		switch {
		case !ok:
			want[i] = hash.NoField
		case !met:
			want[i] = hash.NotMet
		case at <= m.now:
			want[i] = hash.Deleted
			delete(m.have, f)
		default:
			want[i] = hash.Done
			m.have[f] = item{old.value, at}
		}
	}
	got, err := hash.Expire(tx, m.key, raw(fs...), at, when)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("expire %q at %d, now %d, condition %d: %d, want %d", fs, at, m.now, when, got, want)
	}
	return err
}

func (m *ttlModel) persist(tx *engine.Tx) error {
	fs := m.fields(1 + m.r.IntN(3))
	want := make([]int64, len(fs))
	for i, f := range fs {
		old, ok := m.have[f]
		switch {
		case !ok:
			want[i] = hash.NoField
		case old.expire == 0:
			want[i] = hash.NoExpiry
		default:
			want[i] = hash.Done
			m.have[f] = item{old.value, 0}
		}
	}
	got, err := hash.Persist(tx, m.key, raw(fs...))
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("persist %q: %d, want %d", fs, got, want)
	}
	return err
}

func (m *ttlModel) times(tx *engine.Tx) error {
	fs := m.fields(1 + m.r.IntN(3))
	want := make([]int64, len(fs))
	for i, f := range fs {
		if old, ok := m.have[f]; !ok {
			want[i] = hash.NoField
		} else if want[i] = old.expire; old.expire == 0 {
			want[i] = hash.NoExpiry
		}
	}
	got, err := hash.ExpireTimes(tx, m.key, raw(fs...))
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("times of %q: %d, want %d", fs, got, want)
	}
	return err
}

func (m *ttlModel) setEx(tx *engine.Tx) error {
	ttl := hash.TTL{Do: hash.TTLAction(m.r.IntN(3)), At: m.time()}
	when := hash.FieldCondition(m.r.IntN(3))
	fs := m.fields(1 + m.r.IntN(3))
	met := true
	for _, f := range fs {
		_, ok := m.have[f]
		met = met && (when == hash.AnyField || ok == (when == hash.OldOnly))
	}
	var pairs []string
	for _, f := range fs {
		v := m.value()
		pairs = append(pairs, f, v)
		if !met {
			continue
		}
		switch old := m.have[f]; {
		case ttl.Do == hash.KeepTTL:
			m.have[f] = item{v, old.expire}
		case ttl.Do == hash.NoTTL:
			m.have[f] = item{v, 0}
		case ttl.At <= m.now:
			delete(m.have, f)
		default:
			m.have[f] = item{v, ttl.At}
		}
	}
	done, err := hash.SetEx(tx, m.key, raw(pairs...), ttl, when)
	if err == nil && done != met {
		err = fmt.Errorf("set %q %+v, condition %d: %v, want %v", pairs, ttl, when, done, met)
	}
	return err
}

func (m *ttlModel) getEx(tx *engine.Tx) error {
	ttl := hash.TTL{At: m.time()}
	if m.r.IntN(2) == 0 {
		ttl.Do = []hash.TTLAction{hash.SetTTL, hash.DropTTL}[m.r.IntN(2)]
	}
	fs := m.fields(1 + m.r.IntN(3))
	var want, got []string
	wantChanged := false
	for _, f := range fs {
		old, ok := m.have[f]
		want = append(want, fmt.Sprint(old.value, ok))
		wantChanged = wantChanged || ok && (ttl.Do == hash.SetTTL || ttl.Do == hash.DropTTL && old.expire != 0)
		switch {
		case !ok || ttl.Do == hash.NoTTL:
		case ttl.Do == hash.DropTTL:
			m.have[f] = item{old.value, 0}
		case ttl.At <= m.now:
			delete(m.have, f)
		default:
			m.have[f] = item{old.value, ttl.At}
		}
	}
	changed, err := hash.GetEx(tx, m.key, raw(fs...), ttl, func(v []byte,
		found bool) {
		got = append(got, fmt.Sprint(string(v), found))
	})
	if err == nil && (!slices.Equal(got, want) || changed != wantChanged) {
		err = fmt.Errorf("get %q %+v: %q, changed %v, want %q, %v", fs, ttl, got, changed, want, wantChanged)
	}
	return err
}

func (m *ttlModel) getDelete(tx *engine.Tx) error {
	fs := m.fields(1 + m.r.IntN(2))
	var want, got []string
	for _, f := range fs {
		old, ok := m.have[f]
		want = append(want, fmt.Sprint(old.value, ok))
		delete(m.have, f)
	}
	err := hash.GetDelete(tx, m.key, raw(fs...), func(v []byte, found bool) {
		got = append(got,
			fmt.Sprint(string(v), found))
	})
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("get and delete %q: %q, want %q", fs, got, want)
	}
	return err
}

func (m *ttlModel) rangeByLex(tx *engine.Tx) error {
	r := hash.LexRange{Min: hash.LexBound{Field: []byte(m.field())}, Max: hash.LexBound{Inf: true},
		Reverse: m.r.IntN(2) == 0,
		Offset:  int64(m.r.IntN(3)), Limit: int64(m.r.IntN(6) - 1)}
	var want, got []string
	for _, f := range slices.Sorted(maps.Keys(m.have)) {
		if f >= string(r.Min.Field) {
			want = append(want, f+"="+m.have[f].value)
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	want = want[min(int(r.Offset), len(want)):]
	if r.Limit >= 0 {
		want = want[:min(int(r.Limit), len(want))]
	}
	err := hash.RangeByLex(tx, m.key, r, func(f, v []byte) { got = append(got, string(f)+"="+string(v)) })
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("range %+v: %q, want %q", r, got, want)
	}
	return err
}

func (m *ttlModel) random(tx *engine.Tx) error {
	n := m.r.IntN(len(fields) + 3)
	seen := map[string]bool{}
	var bad error
	err := hash.RandomDistinct(tx, m.key, uint64(n), true, func(f, v []byte) bool {
		if it, ok := m.have[string(f)]; !ok || it.value != string(v) || seen[string(f)] {
			bad = fmt.Errorf("random field %q with %q, seen: %v", f, v, seen[string(f)])
		}
		seen[string(f)] = true
		return true
	})
	if err == nil && bad == nil && len(seen) != min(n, len(m.have)) {
		bad = fmt.Errorf("%d random fields of %d: %d came", n, len(m.have), len(seen))
	}
	count := 0
	err2 := hash.Random(tx, m.key, uint64(n), false, func(f, _ []byte) bool {
		if _, ok := m.have[string(f)]; !ok {
			bad = fmt.Errorf("random field %q", f)
		}
		count++
		return true
	})
	if want := min(n, n*len(m.have)); count != want && bad == nil {
		bad = fmt.Errorf("%d random fields, want %d", count, want)
	}
	return errors.Join(err, err2, bad)
}

// compact drops the records of fields that have expired, as a compaction may at any time.
func (m *ttlModel) compact(tx *engine.Tx) error {
	rec, err := tx.LoadAny(m.key)
	if err != nil || !rec.Exists || len(rec.Tail) == 0 {
		return err
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec)})
	defer it.Close()
	for it.Next() {
		expire, _, err := cf.DecodeHashValue(it.Value())
		if err != nil {
			return err
		}
		if cf.FieldExpired(expire, m.now) && m.r.IntN(2) == 0 {
			tx.Delete(cf.Default, tx.Subkey(&rec, it.Key()))
		}
	}
	return it.Err()
}

// check compares everything, and the metadata with what it may say.
func (m *ttlModel) check(tx *engine.Tx) error {
	tx.Tick(m.now)
	var want []string
	for _, f := range slices.Sorted(maps.Keys(m.have)) {
		want = append(want, f, m.have[f].value)
	}
	got, err := all(tx, m.key)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the hash holds %q, want %q", got, want)
	}
	if n, err := hash.Len(tx, m.key); err != nil || n != uint64(len(m.have)) {
		return fmt.Errorf("%d fields, want %d, %v", n, len(m.have), err)
	}
	f := m.field()
	v, found, err := hash.Get(tx, m.key, []byte(f))
	if old, ok := m.have[f]; err != nil || found != ok || string(v) != old.value {
		return fmt.Errorf("field %q: %q %v, %v", f, v, found, err)
	}
	many, err := hash.GetMany(tx, m.key, raw(f, "no such field", f))
	if err != nil || (many[0] != nil) != found || many[1] != nil || string(many[2]) != string(v) {
		return fmt.Errorf("field %q: %q, %v", f, many, err)
	}
	return m.checkMeta(tx)
}

func (m *ttlModel) checkMeta(tx *engine.Tx) error {
	rec, err := tx.LoadAny(m.key)
	if err != nil || rec.Exists != (len(m.have) > 0) {
		return fmt.Errorf("the key exists: %v, %d fields, %v", rec.Exists, len(m.have), err)
	}
	if !rec.Exists {
		return nil
	}
	ttl, on, err := cf.DecodeHashTail(rec.Tail)
	if err != nil || !on {
		for f, it := range m.have {
			if it.expire != 0 {
				return fmt.Errorf("a plain hash with the field %q that expires, %v", f, err)
			}
		}
		return err
	}
	persist := uint64(0)
	for f, it := range m.have {
		if it.expire == 0 {
			persist++
		} else if uint64(it.expire) < ttl.Lower || uint64(it.expire) > ttl.Upper {
			return fmt.Errorf("field %q expires at %d, metadata %+v", f, it.expire, ttl)
		}
	}
	if ttl.Persist != persist || rec.Size < uint64(len(m.have)) || (rec.Size == persist) != (ttl.Upper == 0) ||
		(ttl.Lower == 0) != (ttl.Upper == 0) {
		return fmt.Errorf("size %d, %+v for %d fields, %d without an expiry", rec.Size, ttl, len(m.have), persist)
	}
	return nil
}

// TestTTLModel does random operations to a hash whose fields expire and to a map, several in a transaction, some of
// which are rolled back, while time goes by and compactions drop what has expired.
func TestTTLModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			// The clock runs ahead of the real one, because a transaction does not go back in time.
			m := &ttlModel{r: rand.New(rand.NewPCG(seed, 7)), key: []byte("h"), now: time.Now().UnixMilli() +
				3600_000, have: map[string]item{}}
			for round := range 500 {
				before := maps.Clone(m.have)
				abandon := m.r.IntN(6) == 0
				err := db.Update(ns, [][]byte{m.key}, func(tx *engine.Tx) error {
					for range 1 + m.r.IntN(6) {
						if err := m.step(tx); err != nil {
							return err
						}
					}
					if abandon {
						return errAbandon
					}
					return nil
				})
				if abandon && errors.Is(err, errAbandon) {
					m.have, err = before, nil
					m.tick()
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
