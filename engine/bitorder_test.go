package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

func redisBitOrder(t *testing.T, db *engine.DB) (redis bool) {
	t.Helper()
	require.NoError(t, db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) (err error) {
		redis, err = tx.RedisBitOrder()
		return err
	}))
	return redis
}

// TestBitOrder: who makes a database says in which order BITFIELD numbers bits, and that is remembered.
func TestBitOrder(t *testing.T) {
	open := func(dir string, marks bool) *engine.DB {
		t.Helper()
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir, RedisBitOrder: marks})
		return db
	}
	write := func(db *engine.DB) {
		t.Helper()
		require.NoError(t, db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
			tx.Put(cf.Propagate, []byte("what"), []byte("ever"))
			return nil
		}))
	}
	// A batch from elsewhere, as a replica of a Kvrocks gets it.
	foreign := func(db *engine.DB) {
		t.Helper()
		var b batch.Builder
		b.Put(cf.Propagate, []byte("what"), []byte("ever"))
		f, err := db.CheckBatch(b.Bytes())
		require.NoError(t, err)
		tx := db.NewTx()
		tx.Begin(cf.DefaultNamespace)
		defer tx.Release()
		require.NoError(t, tx.AcquireFor(f))
		require.NoError(t, tx.Apply(f))
		require.NoError(t, tx.Commit())
	}
	for _, tt := range []struct {
		name        string
		marks       bool
		first       func(db *engine.DB)
		atOnce      bool // before the first write
		then, after bool // after it, and when it was opened again by a server that marks
		sequence    uint64
	}{
		{"made by a basalt", true, write, true, true, true, 2},
		{"made by others", false, write, false, false, false, 1},
		{"made by a replica", true, foreign, true, false, false, 1},
		{"made and left empty", false, func(*engine.DB) {}, false, false, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			db := open(dir, tt.marks)
			if got := redisBitOrder(t, db); got != tt.atOnce {
				t.Errorf("before the first write: %v", got)
			}
			tt.first(db)
			if got := db.LatestSequence(); got != tt.sequence {
				t.Errorf("sequence number %d, want %d", got, tt.sequence)
			}
			write(db)
			if got := redisBitOrder(t, db); got != tt.then {
				t.Errorf("after the first write: %v", got)
			}
			if tt.sequence == 0 { // nothing was written before the next opening
				db.Close()
				dir = filepath.Join(t.TempDir(), "empty")
				db = open(dir, tt.marks)
			} else if err := db.FlushAll(); err != nil {
				t.Fatal(err)
			}
			require.NoError(t, db.Close())
			db = open(dir, true)
			defer db.Close()
			write(db)
			if got := redisBitOrder(t, db); got != tt.after {
				t.Errorf("opened again: %v", got)
			}
		})
	}
}

// TestBitOrderIngested: table files that come first do not leave the database without the order.
func TestBitOrderIngested(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true, RedisBitOrder: true})
	require.NoError(t, ingest(t, db, ingestRange, slotRecords(t, ingestRange, 10)))
	if !redisBitOrder(t, db) {
		t.Error("the order is Kvrocks's")
	}
}
