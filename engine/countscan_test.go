package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keycount"
	"github.com/basaltdb/basalt/internal/require"
)

// onDisk returns options with which nearly everything that is not in a memtable is on the disk only: blocks leave
// the cache as soon as they were read, and there is no cache of records. Filters and indexes stay in memory.
func onDisk(dir string) engine.Options {
	r := engine.DefaultRocksOptions()
	r.BlockCacheSize, r.CacheIndexAndFilterBlocks, r.Compression = 1<<10, false, "no"
	return engine.Options{Dir: dir, Rocks: r, RecordCache: -1}
}

// load writes n strings of so many random bytes, and compacts them into files. Its block cache holds them all, so the
// keys are counted exactly.
func load(t testing.TB, o engine.Options, namespaces []string, n, size int) {
	t.Helper()
	rocks := *o.Rocks
	rocks.BlockCacheSize, o.Rocks = 1<<30, &rocks
	db := enginetest.OpenPlain(t, o)
	rng := rand.NewChaCha8([32]byte{})
	value := make([]byte, size)
	for _, ns := range namespaces {
		for i := 0; i < n; {
			require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
				for ; tx.Size() < 1<<20 && i < n; i++ {
					rng.Read(value)
					s := tx.Fresh(loadedKey(i), cf.TypeString)
					tx.SaveAppend(&s, value)
				}
				return nil
			}))
		}
	}
	compact(t, db)
	require.NoError(t, db.Close())
}

func loadedKey(i int) []byte { return fmt.Appendf(nil, "key:%08d", i) }

// ioBytes returns how many bytes this process has read, from the disk or from the page cache.
func ioBytes(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("no /proc/self/io")
	}
	var n int
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStartReadsLittle: opening a large database costs what RocksDB reads of it, after a crash as well. Closed in
// order, it knows its keys; after a crash it estimates their number and counts on request.
func TestStartReadsLittle(t *testing.T) {
	const n, size = 3000, 20_000 // 60 MB
	dir := t.TempDir() + "/db"
	o := onDisk(dir)
	load(t, o, []string{ns}, n, size)
	for _, crash := range []bool{false, true} {
		if crash { // whatever else a crash leaves behind, it does not save the counts
			require.NoError(t, os.Remove(filepath.Join(dir, keycount.FileName)))
		}
		before := ioBytes(t)
		db := enginetest.OpenPlain(t, o)
		if read := ioBytes(t) - before; read > 4<<20 {
			t.Errorf("crash %v: the start reads %d bytes", crash, read)
		}
		k := db.KeyCount(ns)
		if k.Keys != n || k.Exact == crash || k.Scanning {
			t.Errorf("crash %v: %+v", crash, k)
		}
		if crash {
			if err := db.ScanKeys(ns); err != nil {
				t.Error(err)
			}
			db.WaitScans()
			if k := db.KeyCount(ns); k.Keys != n || !k.Exact || k.Scanned.IsZero() {
				t.Errorf("after a scan: %+v", k)
			}
		}
		require.NoError(t, db.Close())
	}
}

// TestEstimateAtStart: the estimate of a large database goes by namespaces and says how far it may be off.
func TestEstimateAtStart(t *testing.T) {
	const n, size = 600, 20_000
	dir := t.TempDir() + "/db"
	o := onDisk(dir)
	load(t, o, []string{ns, "other"}, n, size)
	load(t, o, []string{ns}, n, size) // again
	require.NoError(t, os.Remove(filepath.Join(dir, keycount.FileName)))
	db := enginetest.OpenWith(t, o)
	if got := db.Namespaces(); len(got) != 2 || !slices.Contains(got, "other") {
		t.Errorf("namespaces %q", got)
	}
	for _, name := range []string{ns, "other"} {
		k := db.KeyCount(name)
		if k.Exact || k.Keys-k.Bound > n || k.Keys+k.Bound < n || k.Keys < n/2 || k.Keys > 3*n {
			t.Errorf("%q: %+v", name, k)
		}
	}
	// Nobody waits for the count, and what deletes everything makes it exact: a range delete of a master, too, be it
	// from the first key to the last one, as Kvrocks's FLUSHALL.
	require.NoError(t, db.FlushNamespace(ns))
	mustApply(t, db, func(b *batch.Builder) {
		b.DeleteRange(cf.Metadata, nsKey("other", string(loadedKey(0))), nsKey("other", string(loadedKey(n))))
	})
	for _, name := range []string{ns, "other"} {
		if k := db.KeyCount(name); k.Keys != 0 || !k.Exact {
			t.Errorf("%q after a flush: %+v", name, k)
		}
	}
}

// TestSavedCountsHold: the file of counts is used only for the state that it was written for.
func TestSavedCountsHold(t *testing.T) {
	dir := t.TempDir() + "/db"
	file := filepath.Join(dir, keycount.FileName)
	open := func() *engine.DB {
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
		if _, err := os.Stat(file); err == nil {
			t.Error("the file outlives the start")
		}
		return db
	}
	close := func(db *engine.DB) []byte {
		require.NoError(t, db.Close())
		b := require.File(t, file)
		return b
	}
	db := open()
	setString(t, db, "a", 0)
	old := close(db)
	db = open()
	wantCount(t, db, ns, 1, 0)
	setString(t, db, "b", 0)
	now := close(db)
	others := bytes.Replace(now, []byte("MANIFEST-"), []byte("MANIFEST-1"), 1)
	for _, b := range [][]byte{old, now, now[:len(now)-1], others, nil} {
		require.NoError(t, os.WriteFile(file, b, 0o644))
		db := open()
		wantCount(t, db, ns, 2, 0)
		close(db)
	}
}

// TestScanWithWriters counts while others write, expire, delete and flush; the result is that of a scan in peace.
func TestScanWithWriters(t *testing.T) {
	dir := t.TempDir() + "/db"
	o := onDisk(dir)
	load(t, o, []string{ns}, 20_000, 100)
	db := enginetest.OpenWith(t, o)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for i := range 1500 {
				k := string(loadedKey(rng.IntN(30_000)))
				if err := db.Update(ns, keys(k), func(tx *engine.Tx) error { return randomWrite(tx, k, rng) }); err != nil {
					t.Error(err)
				}
				if i == 700 && w == 0 {
					if err := db.FlushNamespace(ns); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := db.ScanKeys(ns); err != nil && err != engine.ErrScanning {
				t.Error(err)
			}
			db.WaitScans()
		}
	})
	wg.Wait()
	require.NoError(t, db.ScanKeys(ns))
	db.WaitScans()
	want, expires := scanCount(t, db, ns)
	if k := db.KeyCount(ns); int(k.Keys) != want || int(k.Expires) != expires || !k.Exact {
		t.Errorf("%+v, want %d, %d", k, want, expires)
	}
}

// TestBlindWritesEstimate: with data on the disk, SETs of keys that exist and of keys that do not keep the count within
// its bound, and a count that cannot be off is exact.
func TestBlindWritesEstimate(t *testing.T) {
	const n, writes = 20_000, 6000
	dir := t.TempDir() + "/db"
	o := onDisk(dir)
	load(t, o, []string{ns}, n, 100)
	db := enginetest.OpenWith(t, o)
	rng := rand.New(rand.NewPCG(3, 4))
	truth := map[int]bool{}
	before := ioBytes(t)
	for range writes / 100 {
		require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
			var list [][]byte
			for range 100 {
				i := rng.IntN(2 * n)
				truth[i] = true
				list = append(list, loadedKey(i))
			}
			if err := tx.PrefetchBlind(list); err != nil {
				return err
			}
			for _, k := range list {
				s := tx.Fresh(k, cf.TypeString)
				tx.SaveAppend(&s, []byte("v"))
			}
			return nil
		}))
	}
	if read := (ioBytes(t) - before) / writes; read > 1000 {
		t.Errorf("a SET reads %d bytes", read)
	}
	want := n
	for i := range truth {
		if i >= n {
			want++
		}
	}
	k := db.KeyCount(ns)
	// Of some 23 writes that look at what they replace, every other one finds that the guess was wrong.
	if k.Exact || k.Bound > 4000 {
		t.Errorf("%+v", k)
	}
	// The bound holds with 95 %, twice of it practically always.
	if d := k.Keys - int64(want); max(d, -d) > 2*k.Bound {
		t.Errorf("%+v, want %d", k, want)
	}
	// New keys, and those that this process has written, are known.
	dir = t.TempDir() + "/db"
	for _, where := range []string{"memory", "the log", "files that fit the cache"} {
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
		setString(t, db, "a", uint64(time.Now().Add(time.Hour).UnixMilli()))
		setString(t, db, "a", 0)
		if k := db.KeyCount(ns); k.Keys != 1 || !k.Exact {
			t.Errorf("in %s: %+v", where, k)
		}
		if where == "the log" {
			compact(t, db)
		}
		require.NoError(t, db.Close())
	}
}

// TestScanPassesDamage: a damaged block costs the keys that are in it and little more, and the count says so.
func TestScanPassesDamage(t *testing.T) {
	const n = 100_000
	dir := t.TempDir() + "/db"
	o := onDisk(dir)
	load(t, o, []string{ns}, n, 100)
	ssts, err := filepath.Glob(dir + "/*.sst")
	require.NoError(t, err)
	var file string
	var size int64
	for _, f := range ssts {
		if st, err := os.Stat(f); err == nil && st.Size() > size {
			file, size = f, st.Size()
		}
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	for _, part := range []int64{3, 5} {
		if _, err := f.WriteAt([]byte("damage"), size*part/8); err != nil {
			t.Fatal(err)
		}
	}
	var logged *observer.ObservedLogs
	var core zapcore.Core
	core, logged = observer.New(zapcore.ErrorLevel)
	o.Logger = zap.New(core)
	check := func(db *engine.DB) {
		t.Helper()
		k := db.KeyCount(ns)
		lost := n - k.Keys
		if k.Exact || lost <= 0 || lost > 2000 || k.Unread < lost/2 || k.Unread > 3*lost || k.Bound < k.Unread {
			t.Errorf("%+v", k)
		}
		lines := logged.FilterMessageSnippet("cannot be read").TakeAll()
		if len(lines) < 2 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), "checksum") {
			t.Errorf("%d lines: %+v", len(lines), lines)
		}
	}
	t.Run("at the start", func(t *testing.T) { // of a small database without a file of counts
		require.NoError(t, os.Remove(filepath.Join(dir, keycount.FileName)))
		check(enginetest.OpenWith(t, o))
	})
	t.Run("after an exchange", func(t *testing.T) {
		base := t.TempDir()
		require.NoError(t, os.CopyFS(base+"/other", os.DirFS(dir)))
		o := o
		o.Dir = base + "/db"
		db := enginetest.OpenWith(t, o)
		logged.TakeAll()
		require.NoError(t, db.Replace(base+"/other", nil))
		check(db)
	})
	db := enginetest.OpenWith(t, o)
	logged.TakeAll()
	require.NoError(t, db.ScanKeys(ns))
	db.WaitScans()
	check(db)
}
