package bitmap_test

import (
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// defaultRecords counts the records of the default family.
func defaultRecords(t *testing.T, db *engine.DB) (n uint64) {
	t.Helper()
	view(t, db, nil, func(tx *engine.Tx) (err error) {
		n, err = tx.Count(cf.Default, []byte{0}, []byte{0xff})
		return err
	})
	return n
}

// TestLargeResult: a large result is in one batch. It outlives compactions after every batch, here and at a server that
// applies the batches one by one; nobody sees anything of one that fails.
func TestLargeResult(t *testing.T) {
	db, replica := enginetest.Open(t), enginetest.Open(t)
	src, dest := []byte("src"), []byte("dest")
	keys := [][]byte{src, dest}
	const fragments = 10000
	const far = fragments*8192 - 1
	update(t, db, keys, func(tx *engine.Tx) error {
		_, err := bitmap.SetBit(tx, src, far, true, maxLen)
		_, err2 := bitmap.SetBit(tx, dest, 7, true, maxLen)
		return errors.Join(err, err2)
	})
	compact := func(db *engine.DB) {
		t.Helper()
		require.NoError(t, db.CompactRange(cf.Default, nil, nil))
	}
	counted := func(db *engine.DB, when string, want uint64) {
		t.Helper()
		view(t, db, keys, func(tx *engine.Tx) error {
			n, err := bitmap.Count(tx, dest, bitmap.All)
			if n != want {
				t.Errorf("%s: %d bits, want %d", when, n, want)
			}
			return err
		})
	}
	errFailed := errors.New("failed")
	for _, fails := range []bool{true, false} {
		before := db.Stats.Commits.Load()
		err := db.Update(ns, keys, func(tx *engine.Tx) error {
			n, err := bitmap.Combine(tx, bitmap.Not, dest, [][]byte{src})
			if err != nil || n != fragments*1024 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			if n, err := bitmap.Count(tx, dest, bitmap.All); n != far || err != nil {
				t.Errorf("%d bits, %v", n, err)
			}
			if fails {
				return errFailed
			}
			return nil
		})
		if fails != (err == errFailed) || !fails && err != nil {
			t.Fatal(err)
		}
		want, commits, records := uint64(far), uint64(1), uint64(fragments+1)
		if fails {
			want, commits, records = 1, 0, 2
		}
		if n := db.Stats.Commits.Load() - before; n != commits {
			t.Errorf("failed %v: %d commits", fails, n)
		}
		compact(db)
		counted(db, "after a compaction", want)
		if n := defaultRecords(t, db); n != records {
			t.Errorf("failed %v: %d records after a compaction", fails, n)
		}
	}
	for _, rep := range enginetest.LogFrom(t, db, 0) {
		apply(t, replica, rep)
		compact(replica)
	}
	counted(replica, "the replica", far)
}

// apply commits a batch of another server.
func apply(t *testing.T, db *engine.DB, rep []byte) {
	t.Helper()
	b, err := db.CheckBatch(rep)
	require.NoError(t, err)
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	require.NoError(t, errors.Join(tx.AcquireFor(b), tx.Apply(b), tx.Commit()))
}

// TestResultBeyondBatch: a result that no batch may hold is refused while it is made.
func TestResultBeyondBatch(t *testing.T) {
	db := enginetest.Open(t)
	src, dest := []byte("src"), []byte("dest")
	keys := [][]byte{src, dest}
	update(t, db, keys, func(tx *engine.Tx) error {
		_, err := bitmap.SetBit(tx, src, 10000*8192-1, true, maxLen)
		return err
	})
	const limit = 1 << 20
	db.SetMaxBatchBytes(limit)
	err := db.Update(ns, keys, func(tx *engine.Tx) error {
		_, err := bitmap.Combine(tx, bitmap.Not, dest, [][]byte{src})
		if n := tx.Size(); n > 2*limit {
			t.Errorf("the batch holds %d bytes", n)
		}
		return err
	})
	if !errors.Is(err, engine.ErrBatchSize) {
		t.Errorf("BITOP: %v", err)
	}
	db.SetMaxBatchBytes(0)
	if n := defaultRecords(t, db); n != 1 {
		t.Errorf("%d records", n)
	}
}
