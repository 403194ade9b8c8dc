package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// ticker returns a counter of RocksDB's statistics.
func ticker(t *testing.T, db *engine.DB, name string) int {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(name) + ` COUNT : (\d+)`).FindStringSubmatch(db.Statistics())
	if m == nil {
		t.Fatalf("RocksDB has no ticker %s", name)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// walSyncs returns how often RocksDB has synced the log to the disk.
func walSyncs(t *testing.T, db *engine.DB) int {
	t.Helper()
	return ticker(t, db, "rocksdb.wal.synced")
}

// TestConcurrentCommitsAreDurable has many writers commit at the same time, copies the files as a crash would
// leave them, without closing the database, and finds every acknowledged write in the copy. With sync on, every
// group was synced before it was acknowledged.
func TestConcurrentCommitsAreDurable(t *testing.T) {
	for _, sync_ := range []bool{false, true} {
		t.Run(fmt.Sprint("sync=", sync_), func(t *testing.T) {
			dir := t.TempDir() + "/db"
			db := enginetest.OpenWith(t, engine.Options{Dir: dir, Sync: sync_})
			const writers, rounds = 24, 40
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range rounds {
						if err := putHash(db, fmt.Sprintf("k%d-%d", w, i), "f"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			commits, txs := db.Stats.Commits.Load(), db.Stats.GroupedTx.Load()
			if txs != writers*rounds || commits > txs {
				t.Errorf("%d transactions in %d writes, want %d transactions", txs, commits, writers*rounds)
			}
			syncs := walSyncs(t, db)
			switch {
			case sync_ && syncs != int(commits):
				t.Errorf("the log was synced %d times in %d writes", syncs, commits)
			case !sync_ && syncs != 0:
				t.Errorf("the log was synced %d times without sync", syncs)
			}
			crash := t.TempDir() + "/crash"
			copyFiles(t, dir, crash)
			after := enginetest.OpenWith(t, engine.Options{Dir: crash})
			wantCount(t, after, ns, writers*rounds, 0)
			if n := records(t, after, cf.Default); n != writers*rounds {
				t.Errorf("%d subkeys, want %d", n, writers*rounds)
			}
		})
	}
}

// putHash is setHash for goroutines other than the test's own: it returns its error.
func putHash(db *engine.DB, key string, fields ...string) error {
	return db.Update(ns, keys(key), func(tx *engine.Tx) error {
		rec, err := tx.Load([]byte(key), cf.TypeHash)
		if err != nil {
			return err
		}
		for _, f := range fields {
			tx.Put(cf.Default, tx.Subkey(&rec, []byte(f)), []byte("v"+f))
			rec.Size++
		}
		tx.Save(&rec, nil)
		return nil
	})
}

// copyFiles copies the files of an open database, as they are, to a new directory. The lock file is not touched:
// closing it would give back the lock of this process (fcntl(2)).
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() == "LOCK" || e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if errors.Is(err, fs.ErrNotExist) { // RocksDB has just deleted what it no longer needs
			continue
		}
		require.NoError(t, err)
		write(t, to, e.Name(), string(b))
	}
}

// TestGroupIsBiggerThanItsBound: what does not fit into one write of a group goes with the next; nothing is lost
// and no one waits for ever.
func TestGroupIsBiggerThanItsBound(t *testing.T) {
	db := enginetest.Open(t)
	const writers = 12
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range 3 {
				key := fmt.Sprintf("k%d-%d", w, i)
				if err := db.Update(ns, keys(key), func(tx *engine.Tx) error {
					s := tx.Fresh([]byte(key), cf.TypeString)
					tx.SaveAppend(&s, make([]byte, 1<<20+w))
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantCount(t, db, ns, 3*writers, 0)
	for w := range writers {
		key := fmt.Sprintf("k%d-2", w)
		require.NoError(t, db.View(ns, keys(key), func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte(key))
			if len(rec.Tail) != 1<<20+w {
				t.Errorf("%s has %d bytes", key, len(rec.Tail))
			}
			return err
		}))
	}
}

// TestCommitsAroundClose: transactions that are open when the database closes are committed, every one of them, and
// Close waits for them.
func TestCommitsAroundClose(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	setHash(t, db, "before", "f")
	txs := make([]*engine.Tx, 20)
	for i := range txs {
		txs[i] = db.NewTx()
		txs[i].Begin(ns)
		rec := txs[i].Fresh(fmt.Append(nil, "k", i), cf.TypeString)
		txs[i].SaveAppend(&rec, nil)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	untilClosing(db)
	var wg sync.WaitGroup
	for _, tx := range txs {
		wg.Go(func() {
			if err := tx.Commit(); err != nil {
				t.Errorf("Commit: %v", err)
			}
			tx.Release()
		})
	}
	wg.Wait()
	require.NoError(t, <-closed)
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	wantCount(t, db, ns, 1+len(txs), 0)
}

// TestHooksRunAfterTheCommit: with the locks held, in order, and not when the commit failed or was rolled back.
func TestHooksRunAfterTheCommit(t *testing.T) {
	db := enginetest.Open(t)
	var ran []string
	hook := func(name string) func() { return func() { ran = append(ran, name) } }
	fail := errors.New("no")
	for _, inject := range []error{fail, nil} {
		db.InjectWriteError(inject)
		err := db.Update(ns, keys("k"), func(tx *engine.Tx) error {
			tx.Put(cf.Default, []byte("k"), nil)
			tx.OnCommit(hook("first"))
			m := tx.Savepoint()
			tx.Put(cf.Default, []byte("l"), nil)
			tx.OnCommit(hook("rolled back"))
			if err := tx.Rollback(m); err != nil {
				t.Error(err)
			}
			tx.OnCommit(hook("second"))
			return nil
		})
		if !errors.Is(err, inject) {
			t.Errorf("Update: %v, want %v", err, inject)
		}
		if inject != nil && len(ran) != 0 {
			t.Errorf("after a failed commit the hooks %q ran", ran)
		}
	}
	if fmt.Sprint(ran) != "[first second]" {
		t.Errorf("the hooks %q ran", ran)
	}
}
