package engine_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// blocksWanted returns how many data blocks of files were looked for, whether they were in the block cache or not.
func blocksWanted(db *engine.DB) uint64 {
	missed, _ := db.Ticker("block.cache.data.miss")
	hit, _ := db.Ticker("block.cache.data.hit")
	return missed + hit
}

// TestFlushReadsNothing: FLUSHALL and FLUSHDB do not read what they delete.
func TestFlushReadsNothing(t *testing.T) {
	for _, f := range []struct {
		name  string
		flush func(db *engine.DB) error
	}{
		{"all", func(db *engine.DB) error { return db.FlushAll() }},
		{"namespace", func(db *engine.DB) error { return db.FlushNamespace(cf.DefaultNamespace) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			db := enginetest.Open(t)
			for _, key := range []string{"first", "last"} {
				storeString(t, db, cf.DefaultNamespace, key, bytes.Repeat([]byte("v"), 1<<20))
			}
			require.NoError(t, db.FlushMemtable(cf.Metadata))
			db.DropCaches()
			before := blocksWanted(db)
			if !exists(t, db, cf.DefaultNamespace, "first") || blocksWanted(db) == before {
				t.Fatal("looking for a key reads nothing: the test shows nothing")
			}
			before = blocksWanted(db)
			require.NoError(t, f.flush(db))
			if n := blocksWanted(db) - before; n > 0 {
				t.Errorf("%d blocks were looked for", n)
			}
			if exists(t, db, cf.DefaultNamespace, "first") || exists(t, db, cf.DefaultNamespace, "last") {
				t.Error("a key is left")
			}
		})
	}
}

// TestFlushAll: whatever the namespace, nothing is left; and it is written only when there is something to delete.
func TestFlushAll(t *testing.T) {
	db := enginetest.Open(t)
	flush := func(writes bool) {
		t.Helper()
		before := db.LatestSequence()
		require.NoError(t, db.FlushAll())
		if wrote := db.LatestSequence() != before; wrote != writes {
			t.Errorf("written: %v", wrote)
		}
	}
	flush(false)
	spaces := []string{cf.DefaultNamespace, "a", strings.Repeat("a", 255), strings.Repeat("\xff", 254),
		strings.Repeat("\xff", 255)}
	keys := []string{"", "k", strings.Repeat("\xff", 300)}
	for _, ns := range spaces {
		for _, key := range keys {
			storeString(t, db, ns, key, []byte("v"))
		}
	}
	flush(true)
	for _, ns := range spaces {
		for _, key := range keys {
			if exists(t, db, ns, key) {
				t.Errorf("%.10q in %.10q is left", key, ns)
			}
		}
		if n, _ := db.Count(ns); n != 0 {
			t.Errorf("%d keys are counted in %.10q", n, ns)
		}
	}
	flush(false)

	// What a transaction writes after it has flushed stays, and counts as new; the next FLUSHALL deletes it.
	storeString(t, db, cf.DefaultNamespace, "again", nil)
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	require.NoError(t, tx.AcquireAll())
	rec := tx.Fresh([]byte("before"), cf.TypeString)
	tx.SaveAppend(&rec, nil)
	require.NoError(t, tx.FlushAll())
	for _, key := range []string{"after", "again"} {
		rec = tx.Fresh([]byte(key), cf.TypeString)
		tx.SaveAppend(&rec, nil)
	}
	require.NoError(t, tx.Commit())
	tx.Release()
	if exists(t, db, cf.DefaultNamespace, "before") || !exists(t, db, cf.DefaultNamespace, "after") {
		t.Error("a transaction that flushes keeps what it has written before, or loses what it writes after")
	}
	wantCount(t, db, cf.DefaultNamespace, 2, 0)
	flush(true)
	if exists(t, db, cf.DefaultNamespace, "after") {
		t.Error("the key is left")
	}
}

// TestLook: it tells of a key what LoadAny tells, without the value of a long string.
func TestLook(t *testing.T) {
	db := enginetest.Open(t)
	long := bytes.Repeat([]byte("v"), 3<<20)
	storeString(t, db, cf.DefaultNamespace, "long", long)
	storeString(t, db, cf.DefaultNamespace, "short", []byte("v"))
	for _, flushed := range []bool{false, true} {
		enginetest.View(t, db, enginetest.Bytes("long", "short", "none"), func(tx *engine.Tx) error {
			for key, there := range map[string]bool{"long": true, "short": true, "none": false} {
				look, err := tx.LoadHead([]byte(key))
				if err != nil || look.Exists != there || there && look.Type != cf.TypeString || len(look.Tail) > 4<<10 {
					t.Errorf("%s, flushed %v: %v with %d bytes, %v", key, flushed, look.Exists, len(look.Tail), err)
				}
			}
			// nothing of the part is remembered
			if rec, err := tx.LoadAny([]byte("long")); err != nil || !bytes.Equal(rec.Tail, long) {
				t.Errorf("flushed %v: %d bytes, %v", flushed, len(rec.Tail), err)
			}
			return nil
		})
		require.NoError(t, db.FlushMemtable(cf.Metadata))
		db.DropCaches()
	}
}

func storeString(t *testing.T, db *engine.DB, ns, key string, value []byte) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte(key), cf.TypeString)
		tx.SaveAppend(&rec, value)
		return nil
	}))
}

func exists(t *testing.T, db *engine.DB, ns, key string) (there bool) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
		rec, err := tx.LoadHead([]byte(key))
		there = rec.Exists
		return err
	}))
	return there
}
