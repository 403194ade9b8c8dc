package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/require"
)

// flushAll writes all memtables to files.
func flushAll(t testing.TB, db *engine.DB) {
	t.Helper()
	for id := range cf.NumFamilies {
		require.NoError(t, db.FlushMemtable(id))
	}
}

// putHashes writes hashes of ten fields that expire at a time (ms, 0 = never).
func putHashes(t testing.TB, db *engine.DB, prefix string, n int, expire uint64) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint(prefix, i)
		update(t, db, key, func(tx *engine.Tx, _ *engine.Record) {
			var fields [][]byte
			for f := range 10 {
				fields = append(fields, []byte(fmt.Sprint("field", f)), make([]byte, 50))
			}
			if _, err := hash.Set(tx, []byte(key), fields); err != nil {
				t.Fatal(err)
			}
			rec, err := tx.LoadAny([]byte(key))
			require.NoError(t, err)
			rec.Expire = expire
			tx.SaveAppend(&rec, rec.Tail)
		})
	}
}

// putStrings writes strings that expire at a time (ms, 0 = never).
func putStrings(t testing.TB, db *engine.DB, prefix string, n int, expire uint64) {
	t.Helper()
	for i := range n {
		update(t, db, fmt.Sprint(prefix, i), func(tx *engine.Tx, rec *engine.Record) {
			rec.Meta = cf.Meta{Type: cf.TypeString, Expire: expire}
			tx.SaveAppend(rec, make([]byte, 50))
		})
	}
}

func compactExpired(t testing.TB, db *engine.DB, now int64) int {
	t.Helper()
	n, err := db.CompactExpired(30, now)
	require.NoError(t, err)
	return n
}

// Expired strings and collections go when their time has come, although nobody writes and no compaction is due; what
// lives on stays.
func TestCompactExpired(t *testing.T) {
	var db *engine.DB
	var soon time.Time
	for wait := 500 * time.Millisecond; ; wait *= 2 { // all is to be written before anything expires
		db, soon = openQuiet(t), time.Now().Add(wait)
		end := uint64(soon.UnixMilli())
		// The first half lies in deeper files, whose filter has told when they expire; the other half was only flushed.
		for i := range 2 {
			putStrings(t, db, "s", 100, end)
			putStrings(t, db, "stays", 10, 0)
			putHashes(t, db, "h", 20, end)
			putHashes(t, db, "staysh", 2, 0)
			if i == 0 {
				compact(t, db)
			}
		}
		flushAll(t, db)
		if time.Now().Before(soon) {
			break
		}
	}
	if n := compactExpired(t, db, soon.UnixMilli()-10_000); n != 0 {
		t.Errorf("%d files compacted before anything has expired", n)
	}
	time.Sleep(time.Until(soon.Add(time.Millisecond)))
	// The points of expiry are whole seconds, and the subkeys have a grace as long as their metadata record is there.
	compactExpired(t, db, soon.UnixMilli()+1000)
	if got := records(t, db, cf.Metadata); got != 12 {
		t.Errorf("%d metadata records are left, want 12", got)
	}
	compactExpired(t, db, soon.UnixMilli()+1000+compaction.Grace)
	if got := records(t, db, cf.Default); got != 20 {
		t.Errorf("%d subkeys are left, want 20", got)
	}
	if n := compactExpired(t, db, soon.UnixMilli()+1000+compaction.Grace); n != 0 {
		t.Errorf("%d files were compacted once more", n)
	}
}

// Flushed files of subkeys tell no expiries: they are compacted once, when enough collections were dropped.
func TestCompactExpiredFlushed(t *testing.T) {
	db := openQuiet(t)
	past := time.Now().Add(-time.Minute).UnixMilli() // they have expired when they are written
	putHashes(t, db, "h", 20, uint64(past))
	putHashes(t, db, "staysh", 2, 0)
	flushAll(t, db)
	compactExpired(t, db, past+1000)
	if got := records(t, db, cf.Default); got != 20 {
		t.Errorf("%d subkeys are left, want 20", got)
	}
	putHashes(t, db, "more", 3, 0)
	flushAll(t, db)
	if n := compactExpired(t, db, past+1000); n != 0 {
		t.Errorf("%d files in which nothing has expired were compacted", n)
	}
}

// Ingested files of subkeys lie deep and tell no expiries: they are compacted when enough collections were dropped.
func TestCompactExpiredIngested(t *testing.T) {
	db := openQuiet(t)
	past := time.Now().Add(-time.Minute).UnixMilli()
	has := func(string) bool { return true }
	load, err := db.NewLoad(t.TempDir()+"/load", has, func() error { return nil }, nil)
	require.NoError(t, err)
	defer load.Close()
	s := engine.NewSorter(1 << 20)
	for i := range 22 {
		m := cf.Meta{Type: cf.TypeHash, Version: s.Version(), Size: 10}
		if i < 20 {
			m.Expire = uint64(past)
		}
		key := cf.AppendNSKey(nil, cf.DefaultNamespace, fmt.Append(nil, "h", i), false)
		for f := range 10 {
			sub := append(cf.AppendSubkeyPrefix(nil, key, false, m.Version), byte('a'+f))
			require.NoError(t, s.Put(cf.Default, sub, []byte("value")))
		}
		require.NoError(t, s.Put(cf.Metadata, key, m.Append(nil)))
	}
	require.NoError(t, s.Batches(1<<20, load.Add))
	require.NoError(t, load.Commit())
	if files, err := db.FileProperties(cf.Default); err != nil || len(files) != 1 || files[0].Level == 0 {
		t.Fatalf("%+v, %v: want one file in a deep level", files, err)
	}
	compactExpired(t, db, past+1000)
	if got := records(t, db, cf.Default); got != 20 {
		t.Errorf("%d subkeys are left, want 20", got)
	}
	if n := compactExpired(t, db, past+1000+compaction.Grace); n != 0 {
		t.Errorf("%d files were compacted once more", n)
	}
}

// The few points that a file keeps are never too early, and late by a small part of the time that they span on average.
func TestExpiriesOfFiles(t *testing.T) {
	db := openQuiet(t)
	now := time.Now().Unix()
	for i := range 300 {
		second := now + 1000 + int64(i*i%977)
		putStrings(t, db, fmt.Sprintf("%03d-", i), 1, uint64(second)*1000)
	}
	putStrings(t, db, "stays", 50, 0)
	flushAll(t, db)
	files, err := db.FileProperties(cf.Metadata)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	f := files[0]
	if len(f.Expiries) < 2 || len(f.Expiries) > 16 {
		t.Fatalf("%d points: %v", len(f.Expiries), f.Expiries)
	}
	const each = uint64(8 + 1 + len(ns) + 5 + 9 + 50) // sequence number, key, head of the record, value
	var late, all uint64                              // byte-seconds, bytes
	for second := now + 1000; second < now+2000; second++ {
		var want uint64
		for i := range 300 {
			if now+1000+int64(i*i%977) <= second {
				want += each
			}
		}
		got := f.Expiries.Expired(second * 1000)
		if got > want {
			t.Fatalf("at %d: %d bytes have expired, too early: want %d", second-now, got, want)
		}
		late, all = late+want-got, want
	}
	if all != f.Expiries.Expired(1<<60) || late/all > 977/8 {
		t.Errorf("%d bytes are late by %d seconds on average", all, late/all)
	}
	if want := f.Expiries.Expired(1<<60) + 50*50; f.RawBytes < want {
		t.Errorf("the file has %d bytes, want more than %d", f.RawBytes, want)
	}
}
