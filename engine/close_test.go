package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// closable opens a database with a set of 3000 members, in a file and in the memtable.
func closable(t *testing.T, dir string) *engine.DB {
	t.Helper()
	db, err := engine.Open(engine.Options{Dir: dir})
	require.NoError(t, err)
	for part := range 2 {
		require.NoError(t, db.Update(ns, [][]byte{[]byte("set")}, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte("set"))
			if err != nil {
				return err
			}
			if !rec.Exists {
				if rec, err = tx.Load([]byte("set"), cf.TypeSet); err != nil {
					return err
				}
			}
			for i := range 1500 {
				tx.Put(cf.Default, tx.SubkeyU64(&rec, uint64(part*1500+i)), nil)
			}
			rec.Size = uint64(part+1) * 1500
			tx.Save(&rec, nil)
			return nil
		}))
		if part == 0 {
			require.NoError(t, db.FlushMemtable(cf.Default))
		}
	}
	return db
}

// inSet calls f with the set that closable has made.
func inSet(db *engine.DB, f func(tx *engine.Tx, rec *engine.Record) error) error {
	return db.View(ns, [][]byte{[]byte("set")}, func(tx *engine.Tx) error {
		rec, err := tx.Load([]byte("set"), cf.TypeSet)
		if err != nil {
			return err
		}
		if !rec.Exists || rec.Size != 3000 {
			return fmt.Errorf("the set has %d members", rec.Size)
		}
		return f(tx, &rec)
	})
}

// uses are what a database is used for, by many goroutines at a time; each fails with ErrClosed once the database is
// closed, or answers nothing.
func uses(db *engine.DB, dir string) map[string]func() error {
	var copies, writes atomic.Uint64
	return map[string]func() error{
		"View":         func() error { return inSet(db, func(*engine.Tx, *engine.Record) error { return nil }) },
		"Update":       func() error { return putHash(db, fmt.Sprint("hash", writes.Add(1)), "f", "v") },
		"UpdateOne":    func() error { return putHash(db, "hash", "f", fmt.Sprint(writes.Add(1))) },
		"Snapshot":     func() error { return readSnapshot(db) },
		"Flush":        func() error { return db.FlushMemtable(cf.Default) },
		"CompactRange": func() error { return db.CompactRange(cf.Default, nil, nil) },
		"Checkpoint":   func() error { return db.Checkpoint(filepath.Join(dir, fmt.Sprint("copy", copies.Add(1)))) },
		"SyncWAL":      db.SyncWAL,
		"SetDBOption":  func() error { return db.SetDBOption("stats_dump_period_sec", "600") },
		"SetFamily":    func() error { return db.SetFamilyOption("max_write_buffer_number", "4") },
		"Expiring": func() error {
			return db.EachExpiring(time.Now().UnixMilli(), func(_, _ []byte, _ int64) bool { return true })
		},
		"DeleteExpired": func() error {
			_, err := db.DeleteExpired(ns, []byte("set"), nil, nil)
			return err
		},
		"MultiGet": func() error {
			return inSet(db, func(tx *engine.Tx, rec *engine.Record) error {
				l := tx.Keys()
				for i := range 40 {
					l.Add(tx.SubkeyU64(rec, uint64(i*70)))
				}
				vals, err := tx.MultiGet(cf.Default, l)
				for i, v := range vals {
					if v == nil {
						return fmt.Errorf("member %d is missing", i*70)
					}
				}
				return err
			})
		},
		"Iter": func() error {
			return inSet(db, func(tx *engine.Tx, rec *engine.Record) error {
				it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), Limit: 10})
				defer it.Close()
				tx.ReadsDone()
				n := 0
				for ; it.Next(); n++ {
					runtime.Gosched()
				}
				if it.Err() == nil && n != 3000 {
					return fmt.Errorf("%d members", n)
				}
				return it.Err()
			})
		},
		"Count": func() error {
			return inSet(db, func(tx *engine.Tx, rec *engine.Record) error {
				from := tx.SubkeyPrefix(rec)
				to, _ := cf.AppendSuccessor(nil, from)
				n, err := tx.Count(cf.Default, from, to)
				if err == nil && n != 3000 {
					return fmt.Errorf("%d members", n)
				}
				return err
			})
		},
		"Sample": func() error {
			return inSet(db, func(tx *engine.Tx, rec *engine.Record) error {
				got, err := tx.Sample(cf.Default, tx.SubkeyPrefix(rec), rec.Size, 100)
				if err == nil && len(got) != 100 {
					return fmt.Errorf("%d samples", len(got))
				}
				return err
			})
		},
		"Parts": func() error {
			return inSet(db, func(tx *engine.Tx, rec *engine.Record) error {
				_, found, err := tx.GetSlices(cf.Default, tx.SubkeyU64(rec, 7), nil, nil)
				if err == nil && !found {
					return errors.New("no member 7")
				}
				return err
			})
		},
		"WAL": func() error {
			w, err := db.WAL(0)
			if err != nil {
				return err
			}
			defer w.Close()
			if _, _, err = w.Next(); errors.Is(err, engine.ErrWALGap) {
				return nil // a flush is just putting the log aside
			}
			return err
		},
		"TableProperties": func() error {
			_, err := db.TableProperties(cf.Default)
			return err
		},
		// The following cannot fail; one of those that can comes along to tell that the database is closed.
		"Properties": func() error {
			db.FamilyProperty(cf.Default, "rocksdb.stats")
			db.FamilyIntProperty(cf.Default, "rocksdb.estimate-num-keys")
			db.Ticker("wal.bytes")
			db.Statistics()
			db.CacheUsage()
			db.LatestSequence()
			db.DiskSize()
			db.ApproximateSize(cf.Default, []byte{0}, []byte{255})
			db.SetRateLimit(1 << 40)
			db.Count(ns)
			return db.SyncWAL()
		},
	}
}

func readSnapshot(db *engine.DB) error {
	snap := db.NewSnapshot()
	defer snap.Close()
	return db.View(ns, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Metadata, engine.IterOptions{Snapshot: snap})
		defer it.Close()
		for it.Next() {
		}
		return it.Err()
	})
}

// TestCloseWhileInUse closes databases that many goroutines use for everything that there is. They find out by
// ErrClosed and by nothing else.
func TestCloseWhileInUse(t *testing.T) {
	for round := range 5 {
		t.Run(fmt.Sprint("round ", round), closeWhileInUse)
		if t.Failed() {
			return
		}
	}
}

func closeWhileInUse(t *testing.T) {
	enginetest.Deadline(t, 5*time.Minute)
	before := engine.LiveObjects()
	dir := t.TempDir()
	db := closable(t, dir+"/db")
	var ready, done sync.WaitGroup
	for name, use := range uses(db, dir) {
		ready.Add(1)
		done.Go(func() {
			err := use()
			if err != nil {
				t.Errorf("%s before Close: %v", name, err)
			}
			ready.Done()
			for err == nil {
				err = use()
			}
			if !errors.Is(err, engine.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	ready.Wait()
	require.NoError(t, db.Close())
	done.Wait()
	for name, use := range uses(db, dir) {
		if err := use(); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := db.Close(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if n := engine.LiveObjects() - before; n != 0 {
		t.Errorf("%d native objects were left open", n)
	}
}

// untilClosing waits until the database lets nobody in any more.
func untilClosing(db *engine.DB) {
	for !errors.Is(db.View(ns, nil, func(*engine.Tx) error { return nil }), engine.ErrClosed) {
		runtime.Gosched()
	}
}

// TestCloseWaits: what was begun before Close goes on to its end, and is there when the database is opened again.
func TestCloseWaits(t *testing.T) {
	enginetest.Deadline(t, 5*time.Minute)
	dir := t.TempDir() + "/db"
	db := closable(t, dir)
	closed := make(chan error, 1)
	tx := db.NewTx()
	tx.Begin(ns)
	tx.AddLock([]byte("set"), true)
	tx.Acquire()
	go func() { closed <- db.Close() }()
	untilClosing(db)
	rec, err := tx.Load([]byte("set"), cf.TypeSet)
	if err != nil || rec.Size != 3000 {
		t.Fatalf("%d, %v", rec.Size, err)
	}
	prefix := tx.SubkeyPrefix(&rec)
	tx.Put(cf.Default, tx.SubkeyU64(&rec, 3000), nil)
	rec.Size++
	tx.Save(&rec, nil)
	require.NoError(t, tx.Commit())
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix, Limit: 1})
	tx.Release()
	if _, _, err := tx.Get(cf.Default, prefix); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a read after Release: %v", err)
	}
	// The iterator outlives its transaction, and it alone keeps the database open now.
	n := uint64(0)
	for ; it.Next(); n++ {
		if n%500 == 0 {
			select {
			case err := <-closed:
				t.Fatalf("closed under an iterator: %v", err)
			default:
			}
		}
		if got := binary.BigEndian.Uint64(it.Key()); got != n {
			t.Fatalf("member %d, want %d", got, n)
		}
	}
	if it.Err() != nil || n != 3001 {
		t.Errorf("%d members, %v", n, it.Err())
	}
	it.Close()
	require.NoError(t, <-closed)
	db, err = engine.Open(engine.Options{Dir: dir})
	require.NoError(t, err)
	if err := db.View(ns, nil, func(tx *engine.Tx) error {
		rec, err := tx.Load([]byte("set"), cf.TypeSet)
		if rec.Size != 3001 {
			t.Errorf("%d members after the next start", rec.Size)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestBegunOnClosed: a transaction that was begun on a closed database can be used to its end and does nothing.
func TestBegunOnClosed(t *testing.T) {
	db := closable(t, t.TempDir()+"/db")
	tx := db.NewTx()
	require.NoError(t, db.Close())
	tx.Begin(ns)
	defer tx.Release()
	tx.AddLock([]byte("new"), true)
	tx.Acquire()
	tx.Put(cf.Default, []byte("key"), []byte("value"))
	if v, found, err := tx.Get(cf.Default, []byte("key")); string(v) != "value" || !found || err != nil {
		t.Errorf("its own write: %q, %v, %v", v, found, err)
	}
	it := tx.Iter(cf.Default, engine.IterOptions{})
	if it.Next() || !errors.Is(it.Err(), engine.ErrClosed) {
		t.Errorf("an iterator: %v", it.Err())
	}
	it.Close()
	if err := tx.Commit(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("commit: %v", err)
	}
}

// TestInterrupt ends compactions, and looks for expired keys, without closing the database.
func TestInterrupt(t *testing.T) {
	db := enginetest.Open(t)
	require.NoError(t, putHash(db, "h", "f", "v"))
	db.Interrupt()
	db.Interrupt()
	if err := db.CompactNamespace(""); err == nil || errors.Is(err, engine.ErrClosed) {
		t.Errorf("a compaction after Interrupt: %v", err)
	}
	if err := putHash(db, "h", "f", "w"); err != nil {
		t.Error(err)
	}
}
