package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// smallCache is nearly the smallest record cache that there is: two shards of four segments of 64 KiB. Some
// thousand keys displace each other in it all the time.
const smallCache = 600 << 10

// numbered is a key to which writers give the numbers 1, 2, 3 ... in turn. Number n is a string that begins with
// n and whose length follows from n, so that some fit into the cache and some do not; every seventh is a delete.
type numbered struct {
	key     []byte
	started atomic.Uint64 // the highest number whose write has begun
	known   atomic.Uint64 // the highest one that was acknowledged or seen by a reader
}

func numberDeletes(n uint64) bool { return n%7 == 0 }

func (k *numbered) value(n uint64) []byte {
	size := []int{8, 9, 100, 200, 240, 256, 257, 300, 400, 768, 1000, 1024, 5000, 16300, 16400,
		20000}[n*0x9e3779b97f4a7c15>>60]
	v := bytes.Repeat([]byte{byte(n)}, size)
	binary.BigEndian.PutUint64(v, n)
	return v
}

// parse returns the number that a record holds, 0 for no record.
func (k *numbered) parse(t *testing.T, rec *engine.Record) uint64 {
	if !rec.Exists {
		return 0
	}
	n := binary.BigEndian.Uint64(rec.Tail)
	if !bytes.Equal(rec.Tail, k.value(n)) {
		t.Errorf("%s holds %d bytes that are not those of number %d", k.key, len(rec.Tail), n)
	}
	return n
}

// know raises known: acknowledgements may come in another order than the commits.
func (k *numbered) know(n uint64) {
	for {
		have := k.known.Load()
		if have >= n || k.known.CompareAndSwap(have, n) {
			return
		}
	}
}

// writeNext writes the next number of each key in one transaction.
func writeNext(t *testing.T, db *engine.DB, ks ...*numbered) {
	var names [][]byte
	for _, k := range ks {
		names = append(names, k.key)
	}
	wrote := make([]uint64, len(ks))
	if err := db.Update(ns, names, func(tx *engine.Tx) error {
		for i, k := range ks {
			rec, err := tx.LoadAny(k.key)
			if err != nil {
				return err
			}
			n := k.started.Load() // only those who hold the key's lock change it
			if have := k.parse(t, &rec); have != n && !(have == 0 && numberDeletes(n)) {
				t.Errorf("%s: a writer finds number %d after %d was written", k.key, have, n)
			}
			n++
			wrote[i] = n
			k.started.Store(n)
			if numberDeletes(n) {
				tx.Drop(&rec)
				continue
			}
			s := tx.Fresh(k.key, cf.TypeString)
			tx.SaveAppend(&s, k.value(n))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for i, k := range ks {
		k.know(wrote[i])
	}
}

// check compares what was read with the numbers that it may be: known is what was known before the read.
func (k *numbered) check(t *testing.T, how string, known, got uint64) {
	started := k.started.Load()
	if got == 0 { // a delete, or the time before the first write
		for n := known; n <= started; n++ {
			if numberDeletes(n) {
				return
			}
		}
		t.Errorf("%s: %s finds nothing; numbers %d to %d were written meanwhile, none is a delete", k.key, how, known,
			started)
		return
	}
	if got < known || got > started {
		t.Errorf("%s: %s returns number %d; %d was known before, %d is the last one begun", k.key, how, got, known, started)
	}
	k.know(got)
}

// readers are the ways to read a record.
var readers = []struct {
	name string
	read func(db *engine.DB, tx *engine.Tx, ks []*numbered, f func(k *numbered, rec *engine.Record)) error
}{
	{"a lock-free read", func(_ *engine.DB, tx *engine.Tx, ks []*numbered, f func(*numbered, *engine.Record)) error {
		tx.Begin(ns)
		defer tx.Release()
		return loadEach(tx, ks, f)
	}},
	{"a lock-free batched read", func(_ *engine.DB, tx *engine.Tx, ks []*numbered,
		f func(*numbered, *engine.Record)) error {
		tx.Begin(ns)
		defer tx.Release()
		var names [][]byte
		for _, k := range ks {
			names = append(names, k.key)
		}
		if err := tx.Prefetch(names); err != nil {
			return err
		}
		return loadEach(tx, ks, f)
	}},
	{"a read with the locks held", func(db *engine.DB, _ *engine.Tx, ks []*numbered,
		f func(*numbered, *engine.Record)) error {
		var names [][]byte
		for _, k := range ks {
			names = append(names, k.key)
		}
		return db.View(ns, names, func(tx *engine.Tx) error { return loadEach(tx, ks, f) })
	}},
	{"an iterator, which passes by the cache", func(_ *engine.DB, tx *engine.Tx, ks []*numbered,
		f func(*numbered, *engine.Record)) error {
		tx.Begin(ns)
		defer tx.Release()
		for _, k := range ks {
			key := tx.NSKey(k.key)
			it := tx.Iter(cf.Metadata, engine.IterOptions{Lower: key, Upper: append(bytes.Clone(key), 0), Limit: 1})
			var rec engine.Record
			err := it.Err()
			if it.Next() {
				rec.Exists = true
				_, rec.Tail, err = cf.DecodeMeta(it.Value())
			}
			if err == nil {
				f(k, &rec)
			}
			it.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}},
}

func loadEach(tx *engine.Tx, ks []*numbered, f func(*numbered, *engine.Record)) error {
	for _, k := range ks {
		rec, err := tx.LoadAny(k.key)
		if err != nil {
			return err
		}
		f(k, &rec)
	}
	return nil
}

// TestRecordCacheIsNeverStale has writers and readers on the same few keys, others that read so many more that
// they displace each other in the cache, and one that makes the cache forget everything, again and again: then
// what readers got from RocksDB races with what writers commit. No reader may see a number that is older than one
// that was acknowledged, or seen by any reader, before it began. In the end cache and RocksDB agree.
func TestRecordCacheIsNeverStale(t *testing.T) {
	for _, tt := range []struct {
		name             string
		keys, cold       int
		cache            int
		grow             int // how many times bigger the cache may become
		writes           int // a writer
		writers, readers int
	}{
		{"few keys", 4, 0, 0, 0, 3000, 4, 4},
		{"one key", 1, 0, 0, 0, 3000, 3, 4},
		{"more keys than room", 4, 10000, smallCache, 0, 8000, 2, 4},
		{"more keys than room, which grows", 4, 20000, smallCache, 32, 4000, 2, 4},
		{"without a cache", 4, 0, -1, 0, 500, 4, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", RecordCache: tt.cache,
				RecordCacheMax: tt.grow * tt.cache})
			all := make([]*numbered, tt.keys+tt.cold)
			for i := range all {
				all[i] = &numbered{key: fmt.Append(nil, "key", i)}
			}
			hot, cold := all[:tt.keys], all[tt.keys:]
			for rest := range slices.Chunk(cold, 100) {
				writeNext(t, db, rest...)
			}
			some := func(rng *rand.Rand, n int) []*numbered {
				var out []*numbered
				for _, i := range rng.Perm(len(hot))[:min(n, len(hot))] {
					out = append(out, hot[i])
				}
				return out
			}
			var writers, others sync.WaitGroup
			var done atomic.Bool
			for w := range tt.writers {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 2))
					writes := tt.writes
					if raceEnabled || testing.Short() { // with the race detector everything takes ten times as long
						writes /= 5
					}
					for range writes {
						writeNext(t, db, some(rng, 1+rng.IntN(3))...)
					}
				})
			}
			others.Go(func() {
				for !done.Load() && !t.Failed() {
					// Nothing is in the range, but range deletes do not name their keys.
					if err := db.Update(ns, nil, func(tx *engine.Tx) error {
						tx.DeleteRange(cf.Default, []byte("a"), []byte("b"))
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
			for r := range tt.readers {
				others.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(r), 3))
					tx := db.NewTx()
					for !done.Load() && !t.Failed() {
						how := readers[rng.IntN(len(readers))]
						ks := some(rng, 1+rng.IntN(4))
						if r%2 == 1 && len(cold) > 0 {
							// A batch takes long: time for a writer of the one that is hot.
							at := rng.IntN(len(cold) - 15)
							ks = append([]*numbered{hot[rng.IntN(len(hot))]}, cold[at:at+15]...)
							how = readers[1]
						}
						known := make([]uint64, len(ks))
						for i, k := range ks {
							known[i] = k.known.Load()
						}
						i := 0
						if err := how.read(db, tx, ks, func(k *numbered, rec *engine.Record) {
							k.check(t, how.name, known[i], k.parse(t, rec))
							i++
						}); err != nil {
							t.Error(err)
						}
						runtime.Gosched() // a reader that never waits would keep the writers from running
					}
				})
			}
			writers.Wait()
			done.Store(true)
			others.Wait()
			agree(t, db, all)

			// A failed commit changes nothing, and what the cache has stays true.
			db.InjectWriteError(errors.New("disk full"))
			for _, k := range all[:min(len(all), 50)] {
				if err := db.Update(ns, [][]byte{k.key}, func(tx *engine.Tx) error {
					s := tx.Fresh(k.key, cf.TypeString)
					tx.SaveAppend(&s, k.value(k.started.Load()+1))
					return nil
				}); err == nil {
					t.Error("a commit succeeded in spite of the injected error")
				}
			}
			db.InjectWriteError(nil)
			agree(t, db, all)
		})
	}
}

// agree compares what point reads return, which may come from the cache, with an iterator, which reads RocksDB.
func agree(t *testing.T, db *engine.DB, all []*numbered) {
	t.Helper()
	stored := map[string][]byte{}
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	prefix := cf.AppendNSPrefix(nil, ns)
	it := tx.Iter(cf.Metadata, engine.IterOptions{Prefix: prefix})
	defer it.Close()
	for it.Next() {
		_, tail, err := cf.DecodeMeta(it.Value())
		require.NoError(t, err)
		stored[string(it.Key())] = bytes.Clone(tail)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	for range 2 { // the second time from the cache
		for _, k := range all {
			rec, err := tx.LoadAny(k.key)
			require.NoError(t, err)
			want, there := stored[string(k.key)]
			if rec.Exists != there || !bytes.Equal(rec.Tail, want) {
				t.Errorf("%s: a read returns %.20x (%v), RocksDB holds %.20x (%v)", k.key, rec.Tail, rec.Exists, want, there)
			}
			n := k.started.Load()
			if got := k.parse(t, &rec); n != k.known.Load() || got != n && !(got == 0 && numberDeletes(n)) {
				t.Errorf("%s: number %d is read, %d was written last", k.key, got, n)
			}
		}
	}
}

// TestRecordCacheForgetsFlushedKeys reads without locks while the database is filled and flushed in turn. What
// was written before a flush must not be seen after it.
func TestRecordCacheForgetsFlushedKeys(t *testing.T) {
	db := enginetest.Open(t)
	const rounds, keyN = 20, 8
	var flushed atomic.Uint64 // rounds up to this one are gone
	var done atomic.Bool
	var wg sync.WaitGroup
	for r := range 4 {
		wg.Go(func() {
			tx := db.NewTx()
			for i := r; !done.Load() && !t.Failed(); i++ {
				key := fmt.Append(nil, "k", i%keyN)
				gone := flushed.Load()
				tx.Begin(ns)
				rec, err := tx.LoadAny(key)
				if err != nil {
					t.Error(err)
				}
				if rec.Exists && binary.BigEndian.Uint64(rec.Tail) <= gone {
					t.Errorf("%s of round %d is there, round %d was flushed", key, binary.BigEndian.Uint64(rec.Tail), gone)
				}
				tx.Release()
				runtime.Gosched() // a reader that never waits would keep the flush from running
			}
		})
	}
	for round := range uint64(rounds) {
		for i := range keyN {
			key := fmt.Append(nil, "k", i)
			if err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				s := tx.Fresh(key, cf.TypeString)
				tx.SaveAppend(&s, binary.BigEndian.AppendUint64(nil, round+1))
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		flush := db.FlushAll
		if round%2 == 0 {
			flush = func() error { return db.FlushNamespace(ns) }
		}
		if err := flush(); err != nil {
			t.Error(err)
		}
		flushed.Store(round + 1)
	}
	done.Store(true)
	wg.Wait()
	wantCount(t, db, ns, 0, 0)
}

// TestRecordCacheHoldsSubkeys: point reads of subkeys go through the cache as well, and a new version of the key
// hides them.
func TestRecordCacheHoldsSubkeys(t *testing.T) {
	db := enginetest.Open(t)
	read := func() (value string, found bool) {
		t.Helper()
		require.NoError(t, db.View(ns, keys("h"), func(tx *engine.Tx) error {
			rec, err := tx.Load([]byte("h"), cf.TypeHash)
			if err != nil || !rec.Exists {
				return err
			}
			v, ok, err := tx.Get(cf.Default, tx.Subkey(&rec, []byte("f")))
			value, found = string(v), ok
			return err
		}))
		return value, found
	}
	for _, tt := range []struct {
		name  string
		do    func(tx *engine.Tx, rec *engine.Record)
		value string
		found bool
	}{
		{"made", func(tx *engine.Tx, _ *engine.Record) {
			rec := tx.Fresh([]byte("h"), cf.TypeHash)
			rec.Size = 1
			tx.Put(cf.Default, tx.Subkey(&rec, []byte("f")), []byte("v1"))
			tx.Save(&rec, nil)
		}, "v1", true},
		{"overwritten by what does not fit into a small slot", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), bytes.Repeat([]byte("x"), 300))
		}, string(bytes.Repeat([]byte("x"), 300)), true},
		{"overwritten by a fragment", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), bytes.Repeat([]byte("y"), 1024))
		}, string(bytes.Repeat([]byte("y"), 1024)), true},
		{"overwritten by what does not fit anywhere", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), bytes.Repeat([]byte("z"), 3000))
		}, string(bytes.Repeat([]byte("z"), 3000)), true},
		{"overwritten by an empty value", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), nil)
		}, "", true},
		{"deleted", func(tx *engine.Tx, rec *engine.Record) { tx.Delete(cf.Default, tx.Subkey(rec, []byte("f"))) },
			"", false},
		{"again", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), []byte("v2"))
		}, "v2", true},
		{"deleted by a range", func(tx *engine.Tx, rec *engine.Record) {
			p := tx.SubkeyPrefix(rec)
			end, _ := cf.AppendSuccessor(nil, p)
			tx.DeleteRange(cf.Default, p, end)
		}, "", false},
		{"in the range again", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), []byte("v3"))
		}, "v3", true},
		{"a new version", func(tx *engine.Tx, rec *engine.Record) {
			tx.NewVersion(rec)
			tx.Save(rec, nil)
		}, "", false},
	} {
		update(t, db, "h", tt.do)
		for range 3 {
			if v, found := read(); v != tt.value || found != tt.found {
				t.Errorf("%s: %.10q %v, want %.10q %v", tt.name, v, found, tt.value, tt.found)
			}
		}
	}
}
