package engine_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// iterModel is what a transaction should see of the default family.
type iterModel map[string]string

// pair is one entry as an iterator returns it.
type pair struct{ key, value string }

// entries returns what an iterator with these options should return, by the words of IterOptions.
func (m iterModel) entries(o engine.IterOptions) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b := []byte(k)
		if !bytes.HasPrefix(b, o.Prefix) || len(o.Lower) > 0 && bytes.Compare(b, o.Lower) < 0 || len(o.Upper) > 0 &&
			bytes.Compare(b, o.Upper) >= 0 {
			continue
		}
		p := pair{k[len(o.Prefix):], m[k]}
		if o.ValueMax > 0 && len(p.value) > o.ValueMax {
			p.value = p.value[:o.ValueMax]
		}
		if o.KeysOnly {
			p.value = ""
		}
		out = append(out, p)
	}
	if o.Reverse {
		slices.Reverse(out)
	}
	return out[min(o.Skip, uint64(len(out))):]
}

// iterGen makes the keys, values and options of the model test. Its keys share few prefixes, so that puts,
// deletes and ranges meet.
type iterGen struct{ *rand.Rand }

func (g iterGen) key() []byte {
	return fmt.Appendf(nil, "%s%02d", []string{"a", "ab", "b", "\xff", "\xff\xff"}[g.IntN(5)], g.IntN(25))
}

// value returns mostly short values, some that fill a chunk of the native iterator and some that are longer than
// its biggest buffer.
func (g iterGen) value() []byte {
	n := g.IntN(20)
	switch g.IntN(40) {
	case 0:
		n = 5 << 10
	case 1:
		n = 70 << 10
	}
	return bytes.Repeat([]byte{byte('a' + g.IntN(26))}, n)
}

func (g iterGen) options() engine.IterOptions {
	o := engine.IterOptions{Reverse: g.IntN(2) == 0, KeysOnly: g.IntN(3) == 0, NoFill: g.IntN(4) == 0}
	o.Limit = []int{0, 0, 1, 3, 40}[g.IntN(5)]
	if g.IntN(3) == 0 {
		o.Skip = uint64(g.IntN(40))
	}
	if g.IntN(4) == 0 {
		o.ValueMax = 1 + g.IntN(6000)
	}
	if g.IntN(3) > 0 {
		o.Prefix = []byte([]string{"a", "ab", "b", "\xff", "\xff\xff", "c"}[g.IntN(6)])
	}
	// Bounds lie within the prefix, as IterOptions demands.
	if k := g.key(); g.IntN(2) == 0 && bytes.HasPrefix(k, o.Prefix) {
		o.Lower = k
	}
	if k := g.key(); g.IntN(2) == 0 && bytes.HasPrefix(k, o.Prefix) {
		o.Upper = k
	}
	return o
}

// change writes to the transaction and the model alike.
func (g iterGen) change(tx *engine.Tx, m iterModel) {
	switch k := g.key(); g.IntN(10) {
	case 0:
		a, b := k, g.key()
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		tx.DeleteRange(cf.Default, a, b)
		maps.DeleteFunc(m, func(k, _ string) bool { return k >= string(a) && k < string(b) })
	case 1, 2, 3:
		tx.Delete(cf.Default, k)
		delete(m, string(k))
	default:
		v := g.value()
		tx.Put(cf.Default, k, v)
		m[string(k)] = string(v)
	}
}

// drain reads an iterator to its end, with a Skip now and then.
func (g iterGen) drain(t *testing.T, it *engine.Iter, want []pair) {
	t.Helper()
	for len(want) > 0 {
		if g.IntN(10) == 0 {
			n := uint64(g.IntN(8))
			expect := min(n, uint64(len(want)))
			if got := it.Skip(n); got != expect {
				t.Fatalf("Skip(%d) passed over %d of %d entries", n, got, len(want))
			}
			want = want[expect:]
			continue
		}
		if !it.Next() {
			t.Fatalf("the iterator ended with %d entries to come, %v", len(want), it.Err())
		}
		if got := (pair{string(it.Key()), string(it.Value())}); got != want[0] {
			t.Fatalf("%q = %.20q (%d bytes), want %q = %.20q (%d bytes)", got.key, got.value, len(got.value),
				want[0].key, want[0].value, len(want[0].value))
		}
		want = want[1:]
	}
	if it.Next() || it.Err() != nil {
		t.Fatalf("after the last entry: %q, %v", it.Key(), it.Err())
	}
	if n := it.Skip(1); n != 0 {
		t.Fatalf("Skip passed over %d entries after the end", n)
	}
}

// TestIterAgainstModel compares iterators of all options with a sorted map, over committed data in a file and in
// the memtable, with and without writes of the transaction itself. An iterator sees what was there when it was
// opened, whatever the transaction writes after that.
func TestIterAgainstModel(t *testing.T) {
	db := enginetest.Open(t)
	g := iterGen{rand.New(rand.NewPCG(3, 4))}
	model := iterModel{}
	for round := range 40 {
		tx := db.NewTx()
		tx.Begin(ns)
		work := maps.Clone(model)
		for step := range 25 {
			if step > 4 { // the first ones read without own writes
				g.change(tx, work)
			}
			o, o2 := g.options(), g.options()
			it, want := tx.Iter(cf.Default, o), work.entries(o)
			it2, want2 := tx.Iter(cf.Default, o2), work.entries(o2) // two at a time
			later := maps.Clone(work)
			if step > 4 && g.IntN(3) == 0 {
				for range 1 + g.IntN(20) {
					g.change(tx, later)
				}
			}
			g.drain(t, it2, want2)
			g.drain(t, it, want)
			it.Close()
			it2.Close()
			it2.Close() // twice is allowed
			work = later
			n, err := tx.Count(cf.Default, o.Lower, o.Upper)
			if all := work.entries(engine.IterOptions{Lower: o.Lower, Upper: o.Upper}); err != nil || int(n) != len(all) {
				t.Fatalf("Count(%q, %q) = %d, %v, want %d", o.Lower, o.Upper, n, err, len(all))
			}
		}
		if round%4 != 3 {
			require.NoError(t, tx.Commit())
			model = work
		}
		tx.Release()
		if round%10 == 5 {
			require.NoError(t, db.FlushMemtable(cf.Default))
		}
	}
}

// TestIterSnapshot: an iterator over a snapshot does not see what was committed later, nor does it keep the
// snapshot open.
func TestIterSnapshot(t *testing.T) {
	db := enginetest.Open(t)
	put := func(value string) {
		t.Helper()
		require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
			for i := range 300 {
				tx.Put(cf.Default, fmt.Appendf(nil, "k%03d", i), []byte(value))
			}
			tx.Delete(cf.Default, []byte("k299"))
			tx.Put(cf.Default, []byte(value), nil)
			return nil
		}))
	}
	put("old")
	snap := db.NewSnapshot()
	defer snap.Close()
	put("new")
	for _, tt := range []struct {
		snap    *engine.Snapshot
		want    string
		entries int
	}{{snap, "old", 300}, {nil, "new", 301}} {
		tx := db.NewTx()
		tx.Begin(ns)
		defer tx.Release()
		it := tx.Iter(cf.Default, engine.IterOptions{Snapshot: tt.snap})
		n := 0
		for ; it.Next(); n++ {
			if it.Key()[0] == 'k' && string(it.Value()) != tt.want {
				t.Fatalf("%s = %s, want %s", it.Key(), it.Value(), tt.want)
			}
		}
		if it.Err() != nil || n != tt.entries {
			t.Errorf("%s: %d entries, %v, want %d", tt.want, n, it.Err(), tt.entries)
		}
		it.Close()
	}
}

// TestIterMaxSkip: an iteration that meets too many tombstones ends with an error instead of walking over all.
func TestIterMaxSkip(t *testing.T) {
	db := enginetest.Open(t)
	require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
		for i := range 1000 {
			tx.Put(cf.Default, fmt.Appendf(nil, "k%03d", i), nil)
		}
		return nil
	}))
	require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
		for i := range 999 {
			tx.Delete(cf.Default, fmt.Appendf(nil, "k%03d", i))
		}
		return nil
	}))
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	for _, tt := range []struct {
		maxSkip uint64
		found   bool
	}{{100, false}, {0, true}, {5000, true}} {
		it := tx.Iter(cf.Default, engine.IterOptions{MaxSkip: tt.maxSkip})
		if found := it.Next(); found != tt.found || (it.Err() == nil) != tt.found {
			t.Errorf("MaxSkip %d: found %v, %v", tt.maxSkip, found, it.Err())
		}
		it.Close()
	}
}

// TestIterErrorEndsMerge: writes of the transaction behind a place that cannot be read are not returned as if nothing
// was before them.
func TestIterErrorEndsMerge(t *testing.T) {
	db := enginetest.Open(t)
	key := func(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		for i := range 60 {
			tx.Put(cf.Propagate, key(i), nil)
		}
		return nil
	})
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		for i := 10; i < 50; i++ { // ten tombstones more than an iterator passes, with keys on both sides
			tx.Delete(cf.Propagate, key(i))
		}
		return nil
	})
	enginetest.View(t, db, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, key(5), []byte("own"))
		tx.Put(cf.Propagate, key(70), nil)
		tx.Put(cf.Propagate, []byte("j"), nil)
		for _, reverse := range []bool{false, true} {
			it := tx.Iter(cf.Propagate, engine.IterOptions{Reverse: reverse, MaxSkip: 30, Limit: 1})
			var got []string
			for it.Next() {
				got = append(got, string(it.Key()))
			}
			first, last := "j", "k09"
			if reverse {
				first, last = "k70", "k50"
			}
			if len(got) != 11 || got[0] != first || got[10] != last || it.Err() == nil {
				t.Errorf("reverse %v: %v, %v", reverse, got, it.Err())
			}
			it.Close()
		}
		return nil
	})
}
