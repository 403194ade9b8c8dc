package rocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/engine/batch"
)

func memtableOptions(skipList bool) *Options {
	return &Options{
		Families: []FamilySpec{{Name: "default", Kind: Subkeys}}, SkipListMemtable: skipList,
		BlockSize: 4096, BlockCacheSize: 8 << 20, WriteBufferSize: 1 << 30, MaxWriteBufferNumber: 4,
		TargetFileSizeBase: 1 << 20, MaxOpenFiles: -1, MaxBackgroundCompactions: -1, MaxBackgroundFlushes: -1,
		MaxBackgroundJobs: 2, Compression: "no", CompressionLevel: 32767, Level0SlowdownWritesTrigger: 20,
		Level0StopWritesTrigger: 40, Level0FileNumCompactionTrigger: 4, MaxBytesForLevelBase: 256 << 20,
		MaxBytesForLevelMultiplier: 10, RateLimitBytes: 1 << 40,
	}
}

// openMemtable opens a database that keeps everything in memtables.
func openMemtable(t testing.TB, skipList bool) *DB {
	t.Helper()
	before := LiveObjects()
	d, err := Open(t.TempDir()+"/db", []string{"default"}, memtableOptions(skipList))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close(false)
		if n := LiveObjects(); n != before {
			t.Errorf("%d native objects were left open", n-before)
		}
	})
	return d
}

// memtableKeys are shapes of keys that take different ways through the tree.
var memtableKeys = []struct {
	name string
	key  func(r *rand.Rand, i int) []byte
}{
	{"random", func(r *rand.Rand, _ int) []byte {
		return fmt.Appendf(nil, "\x0b__namespacekey:%012d", r.IntN(3000))
	}},
	{"ascending", func(_ *rand.Rand, i int) []byte { return binary.BigEndian.AppendUint64([]byte("list"), uint64(i)) }},
	{"descending", func(_ *rand.Rand, i int) []byte {
		return binary.BigEndian.AppendUint64([]byte("list"), uint64(1<<40-i))
	}},
	{"few", func(r *rand.Rand, _ int) []byte { return []byte{'k', byte(r.IntN(3))} }},
	{"prefixes of each other", func(r *rand.Rand, _ int) []byte { return bytes.Repeat([]byte{0}, r.IntN(200)) }},
	{"two bytes in use", func(r *rand.Rand, _ int) []byte {
		k := make([]byte, r.IntN(14))
		for i := range k {
			k[i] = byte(r.IntN(2)) * 0xff
		}
		return k
	}},
	{"of one length, longer than a head", func(r *rand.Rand, _ int) []byte {
		k := make([]byte, 12)
		for i := range k {
			k[i] = byte(r.IntN(2))
		}
		return k
	}},
	{"of two lengths, mostly one", func(r *rand.Rand, _ int) []byte {
		k := fmt.Appendf(nil, "key:%06d", r.IntN(2000))
		if r.IntN(100) == 0 {
			k = append(k, 0)
		}
		return k
	}},
	{"long", func(r *rand.Rand, _ int) []byte {
		return append(bytes.Repeat([]byte("x"), 300), byte(r.IntN(256)), byte(r.IntN(256)))
	}},
}

// TestMemtableIsAMap writes keys of every shape and compares reads of all kinds with a Go map, also through a
// snapshot of half way.
func TestMemtableIsAMap(t *testing.T) {
	for _, shape := range memtableKeys {
		t.Run(shape.name, func(t *testing.T) {
			d := openMemtable(t, false)
			r := rand.New(rand.NewPCG(1, 2))
			model := map[string]string{}
			var half map[string]string
			var snap *Snapshot
			const writes = 20000
			var b batch.Builder
			for i := range writes {
				if i == writes/2 {
					snap, half = d.NewSnapshot(), map[string]string{}
					defer snap.Close()
					maps.Copy(half, model)
				}
				b.Reset()
				for range 1 + r.IntN(3) {
					k := shape.key(r, i)
					if r.IntN(5) == 0 {
						b.Delete(0, k)
						delete(model, string(k))
					} else {
						v := fmt.Sprint(i)
						b.Put(0, k, []byte(v))
						model[string(k)] = v
					}
				}
				if _, err := d.Write(b.Bytes(), DisableWAL); err != nil {
					t.Fatal(err)
				}
			}
			checkMap(t, d, r, model, nil)
			checkMap(t, d, r, half, snap)
			for range 2000 {
				k := shape.key(r, r.IntN(writes))
				got, found, err := d.Get(d.Family(0), k, nil)
				want, there := model[string(k)]
				if err != nil || found != there || string(got) != want {
					t.Fatalf("Get(%q) = %q, %v, %v; want %q, %v", k, got, found, err, want, there)
				}
			}
		})
	}
}

// checkMap compares ranges in both directions with the model.
func checkMap(t *testing.T, d *DB, r *rand.Rand, model map[string]string, snap *Snapshot) {
	t.Helper()
	keys := make([]string, 0, len(model))
	for k := range model {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i := range 60 {
		from, to := 0, len(keys)
		if i >= 2 && len(keys) > 0 {
			from = r.IntN(len(keys))
			to = from + r.IntN(len(keys)-from+1)
		}
		rg := Range{Snapshot: snap}
		if i >= 2 {
			if from < len(keys) {
				rg.Lower = []byte(keys[from])
			}
			if to < len(keys) {
				rg.Upper = []byte(keys[to])
				if len(rg.Upper) == 0 { // the empty key cannot be a bound
					continue
				}
			}
		}
		want := slices.Clone(keys[from:to])
		if i%2 == 1 {
			rg.Flags = Reverse
			slices.Reverse(want)
		}
		it := d.NewIter(d.Family(0), &rg, nil)
		for n, k := range want {
			if !it.Next() || string(it.Key()) != k || string(it.Value()) != model[k] {
				t.Fatalf("range %d, entry %d: %q=%q, want %q=%q (%v)", i, n, it.Key(), it.Value(), k, model[k], it.Err())
			}
		}
		if it.Next() {
			t.Fatalf("range %d: %q is beyond the end", i, it.Key())
		}
		it.Close()
	}
}

// TestMemtableSizes: what a memtable says of the size of a range is near the truth for small and for large ones,
// whether keys came in order or not. Sizes are in proportion to the number of entries.
func TestMemtableSizes(t *testing.T) {
	const n = 50000
	key := func(i int) []byte { return fmt.Appendf(nil, "key:%06d", i) }
	for _, inOrder := range []bool{true, false} {
		d := openMemtable(t, false)
		for i := range n {
			at := i
			if !inOrder {
				at = i * 7919 % n // 7919 is a prime that does not divide n: a permutation
			}
			put(t, d, 0, key(at), []byte("v"))
		}
		all := d.ApproximateSize(d.Family(0), key(0), []byte("z"))
		for _, r := range [][2]int{{0, n}, {0, n / 2}, {n / 2, n}, {n / 10, n / 5}, {1000, 1500}, {49000, 49100},
			{7, 8}, {30, 30}} {
			part := float64(d.ApproximateSize(d.Family(0), key(r[0]), key(r[1]))) / float64(all)
			want := float64(r[1]-r[0]) / n
			if part < want*0.6 || part > want*1.6 {
				t.Errorf("in order %v: entries %d to %d take %.5f of the size, not %.5f", inOrder, r[0], r[1], part, want)
			}
		}
		sizes := make([]uint64, 3)
		if !d.ApproximateParts(d.Family(0), []byte("key:0"), []byte("key:1"), []uint16{'0', '1', '3', 256}, sizes) {
			t.Fatal("no sizes")
		}
		for i, want := range []float64{1. / 5, 2. / 5, 2. / 5} { // of 50,000 keys, none of which begins with more than key:04
			if part := float64(sizes[i]) / float64(all); part < want*0.6 || part > want*1.6 {
				t.Errorf("in order %v: part %d takes %.3f of the size, not %.3f", inOrder, i, part, want)
			}
		}
	}
}

// TestMemtableReadersBesideAWriter scans in both directions while a writer splits nodes: every key that was
// written before the scan began is there, once and in order.
func TestMemtableReadersBesideAWriter(t *testing.T) {
	d := openMemtable(t, false)
	const n = 60000
	key := func(i int) []byte { // a permutation, so that inserts go everywhere
		return binary.BigEndian.AppendUint32([]byte("key:"), uint32(i)*2654435761)
	}
	var written atomic.Int64
	var wg sync.WaitGroup
	scan := func(flags IterFlags) {
		defer wg.Done()
		for done := false; !done; {
			before := int(written.Load())
			done = before == n
			it := d.NewIter(d.Family(0), &Range{Flags: flags | KeysOnly}, nil)
			var last []byte
			count := 0
			for ; it.Next(); count++ {
				if c := bytes.Compare(last, it.Key()); count > 0 && (flags == Reverse && c <= 0 || flags != Reverse && c >= 0) {
					t.Errorf("%x after %x", it.Key(), last)
					break
				}
				last = append(last[:0], it.Key()...)
			}
			if it.Close(); it.Err() != nil || count < before {
				t.Errorf("%d keys, %d had been written: %v", count, before, it.Err())
				return
			}
		}
	}
	lookUp := func() {
		defer wg.Done()
		r := rand.New(rand.NewPCG(3, 4))
		var buf []byte
		for {
			before := int(written.Load())
			if before == 0 {
				continue
			}
			i := r.IntN(before)
			got, found, err := d.Get(d.Family(0), key(i), buf[:0])
			if err != nil || !found || binary.BigEndian.Uint32(got) != uint32(i) {
				t.Errorf("key %d of %d: %x, %v, %v", i, before, got, found, err)
				return
			}
			if buf = got; before == n {
				return
			}
		}
	}
	wg.Add(3)
	go scan(0)
	go scan(Reverse)
	go lookUp()
	var b batch.Builder
	for i := range n {
		b.Reset()
		b.Put(0, key(i), binary.BigEndian.AppendUint32(nil, uint32(i)))
		if _, err := d.Write(b.Bytes(), DisableWAL); err != nil {
			t.Fatal(err)
		}
		written.Store(int64(i + 1))
	}
	wg.Wait()
}

// BenchmarkMemtable inserts 64 random keys a batch, and reads 100 backwards, with each kind of memtable.
func BenchmarkMemtable(b *testing.B) {
	for _, skipList := range []bool{false, true} {
		name := "tree"
		if skipList {
			name = "skiplist"
		}
		fill := func(b *testing.B, d *DB, n int) {
			r := rand.New(rand.NewPCG(5, 6))
			var rep batch.Builder
			value := make([]byte, 128)
			for i := 0; i < n; {
				rep.Reset()
				for range 64 {
					rep.Put(0, fmt.Appendf(nil, "\x0b__namespacekey:%012d", r.IntN(100000)), value)
					i++
				}
				if _, err := d.Write(rep.Bytes(), DisableWAL); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run("insert/"+name, func(b *testing.B) {
			d := openMemtable(b, skipList)
			fill(b, d, 300000)
			b.ResetTimer()
			fill(b, d, b.N)
		})
		b.Run("reverse100/"+name, func(b *testing.B) {
			d := openMemtable(b, skipList)
			fill(b, d, 300000)
			r := rand.New(rand.NewPCG(7, 8))
			var buf []byte
			for b.Loop() {
				upper := fmt.Appendf(nil, "\x0b__namespacekey:%012d", 200+r.IntN(90000))
				it := d.NewIter(d.Family(0), &Range{Upper: upper, Flags: Reverse, Limit: 100}, buf)
				for range 100 {
					if !it.Next() {
						b.Fatal("too few")
					}
				}
				buf = it.Buffer()
				it.Close()
			}
		})
	}
}
