package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// fill writes n subkeys below a prefix and returns them.
func fill(t testing.TB, db *engine.DB, prefix string, n int, sub func(i int) string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for i := 0; i < n; i += 1000 {
		require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
			for j := i; j < min(n, i+1000); j++ {
				s := sub(j)
				all[s] = true
				tx.Put(cf.Default, []byte(prefix+s), nil)
			}
			return nil
		}))
	}
	return all
}

func number(i int) string { return fmt.Sprintf("element:%012d", i) }

func TestSampleDrawsLiveSubkeys(t *testing.T) {
	db := enginetest.Open(t)
	for _, n := range []int{1, 3, 100, 5000} {
		prefix := fmt.Sprintf("s%d:", n)
		all := fill(t, db, prefix, n, number)
		tx := db.NewTx()
		tx.Begin(ns)
		got, err := tx.Sample(cf.Default, []byte(prefix), uint64(n), 2*n)
		if err != nil || len(got) != 2*n {
			t.Fatalf("Sample of %d: %d results, %v", n, len(got), err)
		}
		distinct, err := tx.SampleDistinct(cf.Default, []byte(prefix), uint64(n), (n+4)/5)
		if err != nil || len(distinct) != (n+4)/5 {
			t.Fatalf("SampleDistinct of %d: %d results, %v", n, len(distinct), err)
		}
		seen := map[string]bool{}
		for _, k := range distinct {
			if seen[string(k)] {
				t.Fatalf("SampleDistinct returned %s twice", k)
			}
			seen[string(k)] = true
		}
		pooled, err := tx.DrawFromPools(cf.Default, []byte(prefix), uint64(n), 2*n)
		if err != nil || len(pooled) != 2*n {
			t.Fatalf("%d of %d drawn from pools: %v", len(pooled), n, err)
		}
		for _, k := range slices.Concat(got, distinct, pooled) {
			if !all[string(k)] {
				t.Fatalf("sampled %q, which is not in the collection", k)
			}
		}
		tx.Release()
	}
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	if got, err := tx.Sample(cf.Default, []byte("none:"), 0, 3); err != nil || len(got) != 0 {
		t.Errorf("Sample of nothing = %q, %v", got, err)
	}
}

// TestSampleOfTooLargeASize draws from a collection of fewer subkeys than its metadata record says, as of a hash whose
// expired fields were compacted away.
func TestSampleOfTooLargeASize(t *testing.T) {
	db := enginetest.Open(t)
	const n, size, draws = 10, 1000, 200
	fill(t, db, "f:", n, number)
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	for name, draw := range map[string]struct {
		f    func(id cf.ID, prefix []byte, size uint64, n int) ([][]byte, error)
		want int
	}{"Sample": {tx.Sample, draws}, "SampleDistinct": {tx.SampleDistinct, n}} {
		got, err := draw.f(cf.Default, []byte("f:"), size, draws)
		if err != nil || len(got) != draw.want {
			t.Errorf("%s: %d drawn, want %d, %v", name, len(got), draw.want, err)
		}
		slices.SortFunc(got, bytes.Compare)
		if different := len(slices.CompactFunc(got, bytes.Equal)); different != n {
			t.Errorf("%s: %d different ones of %d", name, different, n)
		}
	}
}

// TestSampleOfAShare draws a great part of a collection, which is read whole for that, and repeatedly drawn from.
func TestSampleOfAShare(t *testing.T) {
	db := enginetest.Open(t)
	const n, rounds = 2000, 200
	fill(t, db, "w:", n, number)
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	count, first := map[string]int{}, map[string]int{}
	for range rounds {
		again, err := tx.Sample(cf.Default, []byte("w:"), n, n/4)
		if err != nil || len(again) != n/4 {
			t.Fatalf("Sample: %d results, %v", len(again), err)
		}
		distinct, err := tx.SampleDistinct(cf.Default, []byte("w:"), n, n/4)
		if err != nil || len(distinct) != n/4 {
			t.Fatalf("SampleDistinct: %d results, %v", len(distinct), err)
		}
		for _, k := range append(again, distinct...) {
			count[string(k)]++
		}
		first[string(again[0])]++
		first[string(distinct[0])]++
	}
	// Each is drawn 100 times on average, with a standard deviation of 9.
	if len(count) != n {
		t.Errorf("%d of %d were drawn", len(count), n)
	}
	for k, c := range count {
		if c < 20 || c > 180 {
			t.Errorf("%s was drawn %d times of 100", k, c)
		}
	}
	if len(first) < rounds { // of 400, some 37 come twice
		t.Errorf("only %d different ones came first in %d draws", len(first), 2*rounds)
	}
}

// drawn returns draws random ones of n subkeys, which are in a memtable or in a file.
func drawn(t *testing.T, n, draws int, flushed bool, sub func(i int) string) [][]byte {
	t.Helper()
	db := enginetest.Open(t)
	fill(t, db, "c:", n, sub)
	if flushed {
		require.NoError(t, db.FlushMemtable(cf.Default))
	}
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	got, err := tx.DrawFromPools(cf.Default, []byte("c:"), uint64(n), draws)
	require.NoError(t, err)
	return got
}

// TestSampleSpreads draws from a set of numbers and expects every tenth of it to be met about equally often, in a
// memtable and in a file.
func TestSampleSpreads(t *testing.T) {
	const n, draws = 10000, 200_000
	for _, flushed := range []bool{false, true} {
		got := drawn(t, n, draws, flushed, number)
		var tenth [10]int
		for _, k := range got {
			var i int
			fmt.Sscanf(string(k), "element:%d", &i)
			tenth[i/(n/10)]++
		}
		t.Logf("flushed %v: %d", flushed, tenth)
		// Some 160 pools of 8 runs are drawn from: by chance these counts differ by 9 %. What RocksDB tells of the sizes
		// differs more.
		for i, c := range tenth {
			if c < draws/10/2 || c > draws/10*2 {
				t.Errorf("flushed %v: tenth %d was drawn %d times of %d", flushed, i, c, draws)
			}
		}
	}
}

// TestSampleReachesTheEnds draws until every subkey is due, and expects the first and the last ones as often as the
// others: no run of neighbours begins before the first one. Both a collection that is pooled whole and one that is not.
func TestSampleReachesTheEnds(t *testing.T) {
	db := enginetest.Open(t)
	for _, n := range []int{300, 6000} {
		const mean, edge = 250, 16
		prefix := fmt.Sprintf("e%d:", n)
		fill(t, db, prefix, n, number)
		tx := db.NewTx()
		tx.Begin(ns)
		defer tx.Release()
		got, err := tx.DrawFromPools(cf.Default, []byte(prefix), uint64(n), mean*n)
		if err != nil || len(got) != mean*n {
			t.Fatalf("%d draws, %v", len(got), err)
		}
		count := make([]int, n)
		for _, k := range got {
			var i int
			fmt.Sscanf(string(k), "element:%d", &i)
			count[i]++
		}
		first, last := 0, 0
		for i := range edge {
			first += count[i]
			last += count[n-1-i]
		}
		// Some 1500 pools of 512 are drawn from 6000: by chance these sums differ by 9 %.
		if want := mean * edge; first < want/2 || first > want*2 || last < want/2 || last > want*2 {
			t.Errorf("of %d, the first %d were drawn %d times and the last %d times, not about %d", n, edge, first, last, want)
		}
	}
}

// TestSampleOfCrowdedPrefixes has most subkeys begin alike, and a few not. Those few are drawn about as often as
// their share, where sizes tell RocksDB how the subkeys are spread: in memtables, and in files of many blocks.
func TestSampleOfCrowdedPrefixes(t *testing.T) {
	const n, few, draws = 20000, 20, 20000
	sub := func(i int) string {
		if i < few {
			return string(rune('a'+i)) + "-rare"
		}
		return fmt.Sprintf("user:profile:%d", i) // not padded: short numbers are beginnings of long ones
	}
	for _, flushed := range []bool{false, true} {
		got := drawn(t, n, draws, flushed, sub)
		rare, distinct := 0, map[string]bool{}
		for _, k := range got {
			if strings.HasSuffix(string(k), "-rare") {
				rare++
			}
			distinct[string(k)] = true
		}
		t.Logf("flushed %v: the %d rare ones were drawn %d times of %d, %d different ones of %d", flushed, few, rare,
			draws, len(distinct), n)
		if len(distinct) < n/6 { // of draws from 8 pools of 1250, neighbours mostly, about 7000 are different
			t.Errorf("flushed %v: %d different ones came in %d draws from %d", flushed, len(distinct), draws, n)
		}
		if rare > draws/20 {
			t.Errorf("flushed %v: the %d rare ones of %d were drawn %d times of %d", flushed, few, n, rare, draws)
		}
	}
}

// TestPopSampleEmptiesACollection pops everything; the last pops must not be slowed down by the tombstones of
// the first: RocksDB counts those that it passes over.
func TestPopSampleEmptiesACollection(t *testing.T) {
	db := enginetest.Open(t)
	const n = 20000
	left := fill(t, db, "p:", n, number)
	const last = n / 4
	before := 0
	for i := range n {
		if i == n-last {
			before = ticker(t, db, "rocksdb.number.iter.skip")
		}
		require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
			got, err := tx.PopSample(cf.Default, []byte("p:"), uint64(n-i), 1)
			if err != nil {
				return err
			}
			if len(got) != 1 || !left[string(got[0])] {
				return fmt.Errorf("pop %d returned %q", i, got)
			}
			delete(left, string(got[0]))
			tx.Delete(cf.Default, append([]byte("p:"), got[0]...))
			return nil
		}))
	}
	if len(left) != 0 {
		t.Errorf("%d members were never popped", len(left))
	}
	// What is left is read whole now and then, about n tombstones at a time; a walk to each would pass as many.
	if passed := ticker(t, db, "rocksdb.number.iter.skip") - before; passed > 20*last {
		t.Errorf("the last %d pops passed over %d entries", last, passed)
	}
}

func TestBoundsFollowAdds(t *testing.T) {
	db := enginetest.Open(t)
	key, other := []byte("z"), []byte("other")
	for db.SameEpoch(key, other) {
		other = append(other, '.')
	}
	load := func(tx *engine.Tx, key []byte) (*engine.Record, func(sub string) []byte) {
		rec, err := tx.Load(key, cf.TypeZSet)
		require.NoError(t, err)
		return &rec, func(sub string) []byte { return bytes.Clone(tx.Subkey(&rec, []byte(sub))) }
	}
	for _, k := range [][]byte{key, other} {
		enginetest.Update(t, db, [][]byte{k}, func(tx *engine.Tx) error {
			rec, _ := load(tx, k)
			rec.Size = 1
			tx.Save(rec, nil)
			return nil
		})
	}
	bound := func(what, low, high string) {
		t.Helper()
		enginetest.View(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			rec, sub := load(tx, key)
			gotLow, gotHigh := tx.Bounds(rec, tx.SubkeyPrefix(rec))
			for _, b := range []struct {
				got  []byte
				want string
			}{{gotLow, low}, {gotHigh, high}} {
				if b.want == "" && b.got != nil || b.want != "" && !bytes.Equal(b.got, sub(b.want)) {
					t.Errorf("%s: a bound is %q, want %q", what, b.got, b.want)
				}
			}
			return nil
		})
	}
	change := func(keys [][]byte, f func(tx *engine.Tx, rec *engine.Record, sub func(string) []byte) error) error {
		return db.Update(ns, keys, func(tx *engine.Tx) error {
			rec, sub := load(tx, keys[0])
			return f(tx, rec, sub)
		})
	}
	set := func(low, high string) {
		change([][]byte{key}, func(tx *engine.Tx, rec *engine.Record, sub func(string) []byte) error {
			tx.SetLowBound(rec, tx.SubkeyPrefix(rec), sub(low))
			tx.SetHighBound(rec, tx.SubkeyPrefix(rec), sub(high))
			return nil
		})
	}
	add := func(s string) {
		change([][]byte{key}, func(tx *engine.Tx, rec *engine.Record, sub func(string) []byte) error {
			tx.KeyAdded(rec, tx.SubkeyPrefix(rec), sub(s))
			return nil
		})
	}
	bound("nothing is known", "", "")
	set("m", "s")
	add("p")
	bound("an entry between them", "m", "s")
	add("c")
	bound("an entry below", "c", "s")
	add("s")
	bound("an entry at the upper one", "c", "s\x00")

	// What may have followed writes that never come is forgotten, and nothing else is.
	put := func(tx *engine.Tx, _ *engine.Record, sub func(string) []byte) error {
		tx.Put(cf.ZSetScore, sub("a"), nil)
		return nil
	}
	for _, tt := range []struct {
		what string
		f    func(keys [][]byte) error
	}{
		{"a rollback", func(keys [][]byte) error {
			return change(keys, func(tx *engine.Tx, rec *engine.Record, sub func(string) []byte) error {
				m := tx.Savepoint()
				put(tx, rec, sub)
				return tx.Rollback(m)
			})
		}},
		{"a transaction that is dropped", func(keys [][]byte) error {
			err := change(keys, func(tx *engine.Tx, rec *engine.Record, sub func(string) []byte) error {
				put(tx, rec, sub)
				return engine.ErrWrongType
			})
			if err != engine.ErrWrongType {
				return fmt.Errorf("the transaction ended with %v", err)
			}
			return nil
		}},
		{"a failed commit", func(keys [][]byte) error {
			db.InjectWriteError(errors.New("disk full"))
			defer db.InjectWriteError(nil)
			if change(keys, put) == nil {
				return errors.New("the commit did not fail")
			}
			return nil
		}},
	} {
		set("m", "s")
		require.NoError(t, tt.f([][]byte{other, key}))
		bound(tt.what+" of another key", "m", "s")
		require.NoError(t, tt.f([][]byte{key}))
		bound(tt.what, "", "")
	}
	set("m", "s")
	require.NoError(t, db.FlushAll())
	if n := db.Derived().Used(); n != 0 {
		t.Errorf("%d bytes are kept of a flushed database", n)
	}
}

// TestDrawReturnsValues draws a great part of a collection with its values, and more than may be in memory.
func TestDrawReturnsValues(t *testing.T) {
	const n = 2000
	for _, c := range []struct {
		most           int64 // Options.MaxResultBytes
		values, refuse bool
	}{
		{0, true, false},
		{n * 16, false, false}, // a quarter of it is too little for the values
		{n / 4 * 31, false, true},
	} {
		db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir(), MaxResultBytes: c.most})
		value := func(sub string) string { return fmt.Sprintf("value %4s", sub) }
		enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
			for i := range n {
				tx.Put(cf.Default, []byte("w:"+number(i)), []byte(value(number(i))))
			}
			return nil
		})
		for _, distinct := range []bool{false, true} {
			enginetest.View(t, db, nil, func(tx *engine.Tx) error {
				d, err := tx.Draw(cf.Default, []byte("w:"), n, n/4, distinct, true)
				if c.refuse {
					if !errors.Is(err, engine.ErrResultSize) {
						t.Errorf("at most %d bytes: %d drawn, %v", c.most, len(d.Subs), err)
					}
					return nil
				}
				if len(d.Subs) != n/4 || (d.Values != nil) != c.values || c.values && len(d.Values) != n/4 {
					t.Errorf("at most %d bytes: %d subkeys, %d values", c.most, len(d.Subs), len(d.Values))
				}
				for i, v := range d.Values {
					if string(v) != value(string(d.Subs[i])) {
						t.Fatalf("distinct %v: %q has %q", distinct, d.Subs[i], v)
					}
				}
				return err
			})
		}
	}
}
