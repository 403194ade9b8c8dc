package engine_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// compact writes everything to files and compacts all families, metadata last, so that the filters judge every
// record.
func compact(t testing.TB, db *engine.DB) {
	t.Helper()
	for id := range cf.NumFamilies {
		require.NoError(t, db.FlushMemtable(id))
	}
	for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream, cf.PubSub, cf.Propagate, cf.Search, cf.Metadata} {
		require.NoError(t, db.CompactRange(id, nil, nil))
	}
}

// records counts the records of a family whose key contains nothing but what RocksDB still has.
func records(t testing.TB, db *engine.DB, id cf.ID) int {
	t.Helper()
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	it := tx.Iter(id, engine.IterOptions{KeysOnly: true})
	defer it.Close()
	n := int(it.Skip(1 << 40))
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return n
}

// openQuiet opens a database that compacts only when it is told to: RocksDB would otherwise move a file that the
// collector has marked out of the hands of a manual compaction.
func openQuiet(t testing.TB) *engine.DB {
	t.Helper()
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	return enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
}

func update(t testing.TB, db *engine.DB, key string, f func(tx *engine.Tx, rec *engine.Record)) {
	t.Helper()
	require.NoError(t, db.Update(ns, keys(key), func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte(key))
		if err != nil {
			return err
		}
		f(tx, &rec)
		return nil
	}))
}

func TestCompactionDropsWhatIsUnreachable(t *testing.T) {
	now := time.Now().UnixMilli()
	expireAt := func(ms int64) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, rec *engine.Record) { rec.Expire = uint64(ms); tx.SaveAppend(rec, rec.Tail) }
	}
	tests := []struct {
		name         string
		do           func(tx *engine.Tx, rec *engine.Record)
		wantSubkeys  int
		wantMetadata int
	}{
		{"a live key stays", func(tx *engine.Tx, rec *engine.Record) {}, 3, 1},
		{"deleted", func(tx *engine.Tx, rec *engine.Record) { tx.Drop(rec) }, 0, 0},
		{"a new version", func(tx *engine.Tx, rec *engine.Record) {
			tx.NewVersion(rec)
			rec.Size = 1
			tx.Put(cf.Default, tx.Subkey(rec, []byte("new")), nil)
			tx.Save(rec, nil)
		}, 1, 1},
		{"overwritten by a string", func(tx *engine.Tx, rec *engine.Record) {
			s := tx.Fresh([]byte("h"), cf.TypeString)
			tx.SaveAppend(&s, []byte("v"))
		}, 0, 1},
		{"emptied", func(tx *engine.Tx, rec *engine.Record) { rec.Size = 0; tx.Save(rec, nil) }, 0, 0},
		{"expires later", expireAt(now + 3600_000), 3, 1},
		{"expired within the grace period: subkeys stay", expireAt(now - 60_000), 3, 0},
		{"expired long ago", expireAt(now - 301_000), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := openQuiet(t)
			setHash(t, db, "h", "a", "b", "c")
			update(t, db, "h", tt.do)
			compact(t, db)
			if got := records(t, db, cf.Default); got != tt.wantSubkeys {
				t.Errorf("%d subkeys are left, want %d", got, tt.wantSubkeys)
			}
			if got := records(t, db, cf.Metadata); got != tt.wantMetadata {
				t.Errorf("%d metadata records are left, want %d", got, tt.wantMetadata)
			}
			compact(t, db) // without its metadata record a key is gone for good
			if tt.wantMetadata == 0 {
				if got := records(t, db, cf.Default); got != 0 {
					t.Errorf("%d subkeys without metadata are left", got)
				}
			}
		})
	}
}

// TestCompactionAfterClockStep: keys that have expired only since the system's clock was set forward stay, for it may
// be set back.
func TestCompactionAfterClockStep(t *testing.T) {
	db := openQuiet(t)
	hour := time.Now().Add(-time.Hour)
	update(t, db, "h", func(tx *engine.Tx, _ *engine.Record) {
		h := tx.Fresh([]byte("h"), cf.TypeHash)
		h.Size, h.Expire = 1, uint64(hour.UnixMilli())
		tx.Put(cf.Default, tx.Subkey(&h, []byte("f")), []byte("v"))
		tx.Save(&h, nil)
	})
	db.SetClockForward(2 * time.Hour)
	compact(t, db)
	for _, id := range []cf.ID{cf.Default, cf.Metadata} {
		if got := records(t, db, id); got != 1 {
			t.Errorf("%s: %d records are left", id, got)
		}
	}
	if _, err := db.CompactExpired(1, db.CompactionClock()); err != nil || db.CompactionClock() > hour.UnixMilli() {
		t.Error(err, db.CompactionClock())
	}
}

func TestCompactionOfOtherFamilies(t *testing.T) {
	db := openQuiet(t)
	update(t, db, "bm", func(tx *engine.Tx, rec *engine.Record) {
		b := tx.Fresh([]byte("bm"), cf.TypeBitmap)
		b.Size = 2048
		tx.Put(cf.Default, tx.Subkey(&b, []byte("0")), make([]byte, 16))
		tx.Put(cf.Default, tx.Subkey(&b, []byte("1024")), []byte{0, 1})
		tx.Save(&b, nil)
		tx.Put(cf.PubSub, []byte("channel"), []byte("message"))
		tx.Put(cf.Propagate, []byte("script"), []byte("flush"))
		tx.Put(cf.Propagate, []byte("lua_f_x"), []byte("return 1"))
		tx.Put(cf.Search, []byte("idx"), []byte("x"))
	})
	compact(t, db)
	for id, want := range map[cf.ID]int{cf.Default: 1, cf.PubSub: 0, cf.Propagate: 1, cf.Search: 1, cf.Metadata: 1} {
		if got := records(t, db, id); got != want {
			t.Errorf("%s: %d records are left, want %d", id, got, want)
		}
	}
}

// TestPersistRacesWithCompaction lets a writer find a key alive, holds it up until the key has expired and
// compactions have seen it expired, and then lets it make the key persistent. The key must be whole.
func TestPersistRacesWithCompaction(t *testing.T) {
	for life := 300 * time.Millisecond; !persistRacesWithCompaction(t, life); life *= 2 {
		t.Logf("the machine is too slow to find a key alive that lives %v", life)
	}
}

// persistRacesWithCompaction is the test with a key that lives so long. It reports whether the writer has found it
// alive.
func persistRacesWithCompaction(t *testing.T, life time.Duration) bool {
	db := openQuiet(t)
	const fields = 50
	var names []string
	for i := range fields {
		names = append(names, fmt.Sprint("f", i))
	}
	setHash(t, db, "h", names...)
	expiry := time.Now().Add(life)
	update(t, db, "h", func(tx *engine.Tx, rec *engine.Record) {
		rec.Expire = uint64(expiry.UnixMilli())
		tx.SaveAppend(rec, nil)
	})
	seen, compacted, done := make(chan bool), make(chan struct{}), make(chan error)
	go func() {
		done <- db.Update(ns, keys("h"), func(tx *engine.Tx) error {
			rec, err := tx.Load([]byte("h"), cf.TypeHash)
			seen <- rec.Exists
			<-compacted
			rec.Expire = 0
			tx.SaveAppend(&rec, nil)
			return err
		})
	}()
	if !<-seen {
		close(compacted)
		require.NoError(t, <-done)
		return false
	}
	time.Sleep(time.Until(expiry.Add(2 * time.Millisecond))) // the event awaited is the clock
	// The metadata record goes first: then nothing but the lock protects the subkeys.
	for _, id := range []cf.ID{cf.Metadata, cf.Default} {
		require.NoError(t, db.FlushMemtable(id))
		require.NoError(t, db.CompactRange(id, nil, nil))
	}
	if n := records(t, db, cf.Metadata); n != 0 {
		t.Fatalf("%d metadata records: the compaction did not see the key expired", n)
	}
	close(compacted)
	require.NoError(t, <-done)
	compact(t, db)
	db.View(ns, keys("h"), func(tx *engine.Tx) error {
		rec, err := tx.Load([]byte("h"), cf.TypeHash)
		if err != nil || !rec.Exists {
			t.Errorf("the persisted key: exists %v, %v", rec.Exists, err)
		}
		return err
	})
	if n := records(t, db, cf.Default); n != fields {
		t.Errorf("%d of %d subkeys are left", n, fields)
	}
	return true
}

func TestTablePropertiesCountDeletes(t *testing.T) {
	db := openQuiet(t)
	setHash(t, db, "h", "a", "b", "c")
	require.NoError(t, db.FlushMemtable(cf.Default))
	update(t, db, "h", func(tx *engine.Tx, rec *engine.Record) {
		tx.Delete(cf.Default, tx.Subkey(rec, []byte("a")))
		tx.Put(cf.Default, tx.Subkey(rec, []byte("b")), []byte("x"))
	})
	require.NoError(t, db.FlushMemtable(cf.Default))
	files, err := db.TableProperties(cf.Default)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	got := map[string]bool{}
	for _, f := range files {
		got[fmt.Sprintf("%s/%s", f.DeletedKeys, f.TotalKeys)] = true
		s, err := cf.ParseSubkey(f.StartKey, false)
		if err != nil || string(s.UserKey) != "h" {
			t.Errorf("start key %q: %v", f.StartKey, err)
		}
	}
	if !got["0/3"] || !got["1/2"] {
		t.Errorf("deleted/total of the files = %v, want 0/3 and 1/2", got)
	}
}

func TestVersionsGrow(t *testing.T) {
	db := openQuiet(t)
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	rec := tx.Fresh([]byte("k"), cf.TypeHash)
	first := rec.Version
	tx.NewVersion(&rec)
	if rec.Version == first || rec.Version>>11 < first>>11 {
		t.Errorf("versions %d, %d", first, rec.Version)
	}
	if age := time.Now().UnixMicro() - int64(first>>11); age < 0 || age > int64(time.Minute/time.Microsecond) {
		t.Errorf("a version's time is %d us ago", age)
	}
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], rec.Version)
	if got := tx.Subkey(&rec, []byte("f")); string(got[len(got)-9:len(got)-1]) != string(key[:]) {
		t.Errorf("subkey %q does not hold the version %x", got, key)
	}
}

// TestCompactionDuringOpen opens a database whose level 0 demands a compaction at once, before Open has returned.
func TestCompactionDuringOpen(t *testing.T) {
	dir := t.TempDir() + "/db"
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir, Rocks: o})
	for i := range 12 {
		setHash(t, db, fmt.Sprint("h", i%3), fmt.Sprint("f", i))
		require.NoError(t, db.FlushMemtable(cf.Default))
	}
	require.NoError(t, db.Close())
	for range 5 {
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
		if n := records(t, db, cf.Default); n != 12 {
			t.Errorf("%d of 12 subkeys are left", n)
		}
		require.NoError(t, db.Close())
	}
}
