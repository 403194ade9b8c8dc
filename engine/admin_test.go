package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestCheckpointHasEverythingAcknowledged takes checkpoints while writers are at work. Each opens as a database
// and holds what was acknowledged before it was taken, and of every transaction all or nothing.
func TestCheckpointHasEverythingAcknowledged(t *testing.T) {
	enginetest.Deadline(t, 5*time.Minute)
	db := enginetest.Open(t)
	const writers = 4
	var mu sync.Mutex
	acked := [writers]int{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := putHash(db, fmt.Sprintf("w%d-%d", w, i), "a", "b"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				acked[w] = i
				mu.Unlock()
				if i%50 == 0 && w == 0 {
					if err := db.FlushMemtable(cf.Default); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	type copied struct {
		dir  string
		want [writers]int
	}
	var copies []copied
	for range 4 {
		for from := db.LatestSequence(); db.LatestSequence() < from+300 && !t.Failed(); {
			runtime.Gosched() // until there is something new to copy
		}
		mu.Lock()
		c := copied{t.TempDir() + "/copy", acked}
		mu.Unlock()
		require.NoError(t, db.Checkpoint(c.dir))
		copies = append(copies, c)
	}
	close(stop)
	wg.Wait()
	if err := db.Checkpoint(copies[0].dir); err == nil {
		t.Error("a checkpoint went into a directory that exists")
	}
	for _, c := range copies {
		db := enginetest.OpenWith(t, engine.Options{Dir: c.dir})
		found := 0
		for w, n := range c.want {
			for i := 1; ; i++ {
				key := fmt.Sprintf("w%d-%d", w, i)
				there := false
				if err := db.View(ns, keys(key), func(tx *engine.Tx) error {
					rec, err := tx.Load([]byte(key), cf.TypeHash)
					if err != nil || !rec.Exists {
						return err
					}
					there = true
					for _, f := range []string{"a", "b"} {
						if v, ok, err := tx.Get(cf.Default, tx.Subkey(&rec, []byte(f))); err != nil || !ok || string(v) != "v"+f {
							t.Errorf("%s %s = %q %v %v", key, f, v, ok, err)
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if !there {
					if i <= n {
						t.Errorf("%s was acknowledged before the checkpoint (%d were) and is not in it", key, n)
					}
					break
				}
				found++
			}
		}
		wantCount(t, db, ns, found, 0)
		if n := records(t, db, cf.Default); n != 2*found {
			t.Errorf("%d subkeys of %d keys", n, found)
		}
		setHash(t, db, "new", "f") // it can be written to, and that does not reach the original
	}
	require.NoError(t, db.View(ns, keys("new"), func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte("new"))
		if rec.Exists {
			t.Error("a write to a checkpoint is seen in the original")
		}
		return err
	}))
}

// readWAL reads the log from a sequence number to its end and returns, by sequence number, the metadata keys
// that were put.
func readWAL(t *testing.T, db *engine.DB, from uint64) (puts map[uint64]string, logData []string, err error) {
	t.Helper()
	w, err := db.WAL(from)
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	puts = map[uint64]string{}
	for {
		rep, seq, err := w.Next()
		if err != nil || rep == nil {
			return puts, logData, err
		}
		r, err := batch.NewReader(rep)
		require.NoError(t, err)
		if r.Sequence() != seq {
			t.Errorf("the batch at %d says %d", seq, r.Sequence())
		}
		for _, rec := range enginetest.Records(t, rep) {
			switch {
			case rec.Kind == batch.LogData:
				logData = append(logData, string(rec.Value))
			case rec.Kind == batch.Put && rec.Family == cf.Metadata:
				_, user, err := cf.SplitNSKey(rec.Key, false)
				require.NoError(t, err)
				puts[seq] = string(user)
			}
			if rec.Kind.Counted() {
				seq++
			}
		}
	}
}

// TestWALFromASequenceNumber reads the log from every number that there is; also one in the middle of a batch,
// which then comes whole.
func TestWALFromASequenceNumber(t *testing.T) {
	db := enginetest.Open(t)
	want := map[uint64]string{}
	for i := range 20 {
		key := fmt.Sprint("k", i)
		require.NoError(t, db.Update(ns, keys(key), func(tx *engine.Tx) error {
			tx.LogData([]byte("2 " + key))
			h := tx.Fresh([]byte(key), cf.TypeHash)
			h.Size = 2
			tx.Put(cf.Default, tx.Subkey(&h, []byte("a")), nil)
			tx.Put(cf.Default, tx.Subkey(&h, []byte("b")), nil)
			tx.Save(&h, nil)
			return nil
		}))
		want[uint64(3*i+3)] = key
		if i == 10 { // the log goes on in another file
			for id := range cf.NumFamilies {
				require.NoError(t, db.FlushMemtable(id))
			}
		}
	}
	last := db.LatestSequence()
	if last != 60 {
		t.Fatalf("the latest sequence number is %d, want 60", last)
	}
	for from := range last + 1 {
		puts, logData, err := readWAL(t, db, from)
		if err != nil {
			t.Fatalf("from %d: %v", from, err)
		}
		first := (max(from, 1) - 1) / 3 // index of the first batch
		if len(puts) != 20-int(first) || len(logData) != len(puts) || logData[0] != fmt.Sprint("2 k", first) {
			t.Errorf("from %d: %d keys, log data %q, want %d", from, len(puts), logData, 20-first)
		}
		for seq, key := range puts {
			if want[seq] != key {
				t.Errorf("from %d: %q at %d, want %q", from, key, seq, want[seq])
			}
		}
	}
	if _, err := db.WAL(last + 2); err == nil {
		t.Error("the log was opened beyond its end")
	}
	w, err := db.WAL(last)
	require.NoError(t, err)
	defer w.Close()
	for i := range 3 {
		if rep, seq, err := w.Next(); err != nil || (rep == nil) != (i > 0) || i == 0 && seq != 58 {
			t.Errorf("batch %d at the end: %d bytes at %d, %v", i, len(rep), seq, err)
		}
	}
}

// purgeLog makes everything in the log of a database that keeps nothing of it unneeded, and waits until it is gone:
// RocksDB may delete a file after whoever waits for the flush was told of its end, and has no event for the end of a
// log.
func purgeLog(t *testing.T, db *engine.DB) {
	t.Helper()
	for id := range cf.NumFamilies {
		require.NoError(t, db.FlushMemtable(id))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		logs, err := filepath.Glob(db.Dir() + "/*.log")
		require.NoError(t, err)
		if len(logs) == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the log is still in %q", logs)
		}
	}
}

// TestWALGap: when the log was purged, reading from a number that is gone is an error and not a silent skip.
func TestWALGap(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB = 0, 0 // files go as soon as they are not needed
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	for i := range 30 {
		setHash(t, db, fmt.Sprint("k", i), "f")
		if i == 9 || i == 19 {
			purgeLog(t, db)
		}
	}
	for _, tt := range []struct {
		from uint64
		gap  bool
	}{{0, true}, {1, true}, {20, true}, {39, true}, {40, true}, {41, false}, {42, false}, {43, false}, {60, false}} {
		puts, _, err := readWAL(t, db, tt.from)
		if errors.Is(err, engine.ErrWALGap) != tt.gap || !tt.gap && (err != nil || len(puts) == 0) {
			t.Errorf("from %d: %d keys, %v", tt.from, len(puts), err)
		}
	}
}

func TestOptionsAtRunTime(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct {
		name       string
		set        func(key, value string) error
		key, value string
		ok         bool
	}{
		{"family", db.SetFamilyOption, "write_buffer_size", "2097152", true},
		{"family", db.SetFamilyOption, "disable_auto_compactions", "true", true},
		{"family", db.SetFamilyOption, "level0_slowdown_writes_trigger", "30", true},
		{"family", db.SetFamilyOption, "no_such_option", "1", false},
		{"family", db.SetFamilyOption, "write_buffer_size", "much", false},
		{"family", db.SetFamilyOption, "num_levels", "3", false}, // cannot change
		{"family", db.SetFamilyOption, "max_open_files", "100", false},
		{"family", db.SetFamilyOption, "", "", false},
		{"database", db.SetDBOption, "max_open_files", "100", true},
		{"database", db.SetDBOption, "max_background_jobs", "2", true},
		{"database", db.SetDBOption, "no_such_option", "1", false},
		{"database", db.SetDBOption, "max_open_files", "many", false},
		{"database", db.SetDBOption, "write_buffer_size", "1", false},
		{"database", db.SetDBOption, "wal_dir", "/tmp", false}, // cannot change
		{"database", db.SetDBOption, "", "", false},
	} {
		if err := tt.set(tt.key, tt.value); (err == nil) != tt.ok {
			t.Errorf("%s option %q = %q: %v", tt.name, tt.key, tt.value, err)
		} else if err != nil && tt.key != "" && !strings.Contains(err.Error(), tt.key) &&
			!strings.Contains(err.Error(), tt.value) {
			t.Errorf("the error does not name the option %s: %v", tt.key, err)
		}
	}
	// RocksDB keeps its options in a file: what was set is there, in every family; what was refused is not.
	files, err := os.ReadDir(db.Dir())
	require.NoError(t, err)
	newest := ""
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "OPTIONS-") {
			newest = max(newest, f.Name())
		}
	}
	b := require.File(t, db.Dir()+"/"+newest)
	for line, want := range map[string]int{
		"  write_buffer_size=2097152\n": int(cf.NumFamilies), "  level0_slowdown_writes_trigger=30\n": int(cf.NumFamilies),
		"  disable_auto_compactions=true\n": int(cf.NumFamilies), "  max_open_files=100\n": 1, "  max_background_jobs=2\n": 1,
	} {
		if got := bytes.Count(b, []byte(line)); got != want {
			t.Errorf("%s has %q %d times, want %d", newest, line, got, want)
		}
	}
	// RocksDB 9 and later do not have the option.
	if bytes.Contains(b, []byte("access_hint_on_compaction_start=NORMAL")) {
		t.Errorf("%s: compactions make the kernel read ahead in their input files, for every reader", newest)
	}
	setHash(t, db, "h", "f")
	wantCount(t, db, ns, 1, 0)
}

func TestMaxBatchBytes(t *testing.T) {
	db := enginetest.Open(t)
	put := func(key string, n int) error {
		return db.Update(ns, keys(key), func(tx *engine.Tx) error {
			tx.Put(cf.Default, []byte(key), make([]byte, n))
			return nil
		})
	}
	db.SetMaxBatchBytes(1000)
	var wg sync.WaitGroup
	for i := range 40 { // in one group: the big ones fail, the small ones do not
		wg.Go(func() {
			n, key := 10, fmt.Sprint("k", i)
			if i%4 == 0 {
				n = 1000
			}
			if err := put(key, n); (err != nil) != (n == 1000) {
				t.Errorf("a value of %d bytes: %v", n, err)
			} else if e := new(engine.Error); err != nil && (!errors.As(err, &e) || e.Code != "ERR" ||
				!strings.Contains(e.Text, "write_batch_max_bytes")) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	wg.Wait()
	if n := records(t, db, cf.Default); n != 30 {
		t.Errorf("%d records, want 30", n)
	}
	db.SetMaxBatchBytes(0)
	if err := put("big", 1<<20); err != nil {
		t.Error(err)
	}
}

// TestBatchBeyondItsLimit writes far more than fits into a batch: the memory that it takes is bounded, and a
// transaction can be rolled back to what fits.
func TestBatchBeyondItsLimit(t *testing.T) {
	db := enginetest.Open(t)
	const limit = 100_000
	db.SetMaxBatchBytes(limit)
	for name, write := range map[string]func(tx *engine.Tx, rec *engine.Record, key []byte){
		"put":    func(tx *engine.Tx, rec *engine.Record, key []byte) { tx.PutSubkey(rec, cf.Default, key, nil) },
		"delete": func(tx *engine.Tx, _ *engine.Record, key []byte) { tx.DeleteSubkey(cf.Default, key) },
	} {
		most := 0
		flood := func(tx *engine.Tx) {
			rec := tx.Fresh([]byte("big"), cf.TypeSet)
			for i := range uint64(20 * limit / 30) {
				write(tx, &rec, tx.SubkeyU64(&rec, i))
			}
			rec.Size = 1
			tx.Save(&rec, nil)
			most = tx.Size()
		}
		err := db.Update(ns, keys("big"), func(tx *engine.Tx) error {
			flood(tx)
			return nil
		})
		if !errors.Is(err, engine.ErrBatchSize) || most > limit+200 {
			t.Errorf("%s: a batch of %d bytes: %v", name, most, err)
		}
		require.NoError(t, db.Update(ns, keys("small", "big"), func(tx *engine.Tx) error {
			tx.Put(cf.Default, []byte("small"), nil)
			mark := tx.Savepoint()
			flood(tx)
			if err := tx.BatchError(); err == nil {
				t.Errorf("%s: no error", name)
			}
			return tx.Rollback(mark)
		}))
	}
	if n := records(t, db, cf.Default); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

func TestProperties(t *testing.T) {
	db := enginetest.Open(t)
	for i := range 100 {
		setHash(t, db, fmt.Sprint("h", i), "a", "b")
	}
	if n, ok := db.FamilyIntProperty(cf.Default, "rocksdb.num-entries-active-mem-table"); !ok || n != 200 {
		t.Errorf("%d entries in the memtable, %v, want 200", n, ok)
	}
	if db.DiskSize() != 0 {
		t.Errorf("%d bytes on disk before the first flush", db.DiskSize())
	}
	compact(t, db)
	if n, ok := db.FamilyIntProperty(cf.Metadata, "rocksdb.estimate-num-keys"); !ok || n != 100 {
		t.Errorf("about %d keys, %v, want 100", n, ok)
	}
	if n, ok := db.FamilyIntProperty(cf.ZSetScore, "rocksdb.total-sst-files-size"); !ok || n != 0 {
		t.Errorf("zset_score has %d bytes on disk, %v", n, ok)
	}
	if db.DiskSize() == 0 || db.ApproximateSize(cf.Default, nil, []byte{0xff}) == 0 {
		t.Errorf("%d bytes on disk, about %d of them subkeys", db.DiskSize(),
			db.ApproximateSize(cf.Default, nil, []byte{0xff}))
	}
	if p := db.FamilyProperty(cf.Default, "rocksdb.levelstats"); !strings.Contains(p, "Level Files Size(MB)") {
		t.Errorf("rocksdb.levelstats is %q", p)
	}
	if _, ok := db.FamilyIntProperty(cf.Default, "rocksdb.no-such-property"); ok ||
		db.FamilyProperty(cf.Default, "nonsense") != "" {
		t.Error("an unknown property has a value")
	}
	if s := db.Statistics(); !strings.Contains(s, "rocksdb.number.keys.written COUNT : 300") {
		t.Errorf("300 records were written, the statistics say:\n%s", s)
	}
	if n := db.Stats.Flushes.Load(); n == 0 {
		t.Error("no flush was reported")
	}
	used, pinned, capacity := db.CacheUsage()
	if used < pinned || used == 0 || capacity < used {
		t.Errorf("the block cache holds %d bytes of %d, %d of them pinned", used, capacity, pinned)
	}
}

// The look-ups in the block cache are counted for each family, and RocksDB counts as many in total.
func TestCacheLookups(t *testing.T) {
	if _, _, ok := enginetest.Open(t).CacheLookups(cf.Metadata); ok {
		t.Error("look-ups are counted that nobody wants to know")
	}
	options := engine.DefaultRocksOptions()
	options.CountLookups = true
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir(), Rocks: options})
	for i := range 1000 {
		setHash(t, db, fmt.Sprint("h", i), "a", "b")
	}
	compact(t, db)
	type lookups struct{ hits, misses uint64 }
	counted := func() (family [cf.NumFamilies]lookups, total lookups) {
		for id := range cf.NumFamilies {
			family[id].hits, family[id].misses, _ = db.CacheLookups(id)
		}
		total.hits, _ = db.Ticker("block.cache.hit")
		total.misses, _ = db.Ticker("block.cache.miss")
		return family, total
	}
	read := func(id cf.ID) {
		tx := db.NewTx()
		defer tx.Release()
		tx.Begin(cf.DefaultNamespace)
		it := tx.Iter(id, engine.IterOptions{})
		defer it.Close()
		n := 0
		for it.Next() {
			n++
		}
		if err := it.Err(); err != nil || n < 1000 {
			t.Fatal(n, err)
		}
	}
	db.DropBlockCache()
	for _, round := range []string{"cold", "warm"} {
		for _, id := range []cf.ID{cf.Metadata, cf.Default} {
			before, totalBefore := counted()
			read(id)
			after, total := counted()
			for other := range cf.NumFamilies {
				if other != id && after[other] != before[other] {
					t.Errorf("%s: reading %s counts for %s", round, id, other)
				}
			}
			have := lookups{after[id].hits - before[id].hits, after[id].misses - before[id].misses}
			want := lookups{total.hits - totalBefore.hits, total.misses - totalBefore.misses}
			if have != want || (have.misses > 0) != (round == "cold") || round == "warm" && have.hits == 0 {
				t.Errorf("%s: reading %s counts %+v, RocksDB %+v", round, id, have, want)
			}
		}
	}
	if _, _, ok := db.CacheLookups(cf.PubSub); ok {
		t.Error("messages are read from a cache of their own")
	}
}

// TestCompactNamespace compacts the records of one namespace only.
func TestCompactNamespace(t *testing.T) {
	db := openQuiet(t)
	for _, n := range []string{"a", "b"} {
		require.NoError(t, db.Update(n, nil, func(tx *engine.Tx) error {
			rec := tx.Fresh([]byte("gone"), cf.TypeHash)
			tx.Put(cf.Default, tx.Subkey(&rec, []byte("f")), nil)
			return nil
		}))
		if err := db.FlushMemtable(cf.Default); err != nil { // a file for each namespace
			t.Fatal(err)
		}
	}
	for i, n := range []string{"a", ""} {
		require.NoError(t, db.CompactNamespace(n))
		if got := records(t, db, cf.Default); got != 1-i {
			t.Errorf("after the compaction of namespace %q %d records are left, want %d", n, got, 1-i)
		}
	}
}
