package bitmap_test

import (
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
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

// TestLargeResult: the fragments of a large result are not in the transaction's batch. They outlive a compaction
// before the transaction commits, nobody sees them until then, and those of one that fails go with a compaction.
func TestLargeResult(t *testing.T) {
	db := enginetest.Open(t)
	src, dest := []byte("src"), []byte("dest")
	keys := [][]byte{src, dest}
	const fragments = 10000
	const far = fragments*8192 - 1
	update(t, db, keys, func(tx *engine.Tx) error {
		_, err := bitmap.SetBit(tx, src, far, true, maxLen)
		_, err2 := bitmap.SetBit(tx, dest, 7, true, maxLen)
		return errors.Join(err, err2)
	})
	compact := func() {
		t.Helper()
		if err := db.CompactRange(cf.Default, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	errFailed := errors.New("failed")
	for _, fails := range []bool{true, false} {
		err := db.Update(ns, keys, func(tx *engine.Tx) error {
			n, err := bitmap.Combine(tx, bitmap.Not, dest, [][]byte{src})
			if err != nil || n != fragments*1024 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			if size := tx.Size(); size > 1024 {
				t.Errorf("a write batch of %d bytes", size)
			}
			compact()
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
		want := uint64(far)
		if fails {
			want = 1
		}
		compact()
		view(t, db, keys, func(tx *engine.Tx) error {
			n, err := bitmap.Count(tx, dest, bitmap.All)
			if n != want {
				t.Errorf("failed %v: %d bits, want %d", fails, n, want)
			}
			return err
		})
		if n := defaultRecords(t, db); fails && n != 2 || !fails && n != fragments+1 {
			t.Errorf("failed %v: %d records after a compaction", fails, n)
		}
	}
}
