package bitmap_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestValueWithoutLock reads values without a lock while a writer goes on. The writer sets bits from the first on, far
// from each other, and with each of them bit 1, which says whether there are odd numbers of them. A value that lacks
// a bit, has another length than its last bit says, or not the right bit 1, was none at any moment. Now and then the
// bitmap begins anew.
func TestValueWithoutLock(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("bm")
	keys := [][]byte{key}
	const bits, step = 400, 1000 // bits, and how far from each other
	done := make(chan struct{})
	var readers sync.WaitGroup
	read := func(value func(tx *engine.Tx) ([]byte, error)) {
		readers.Go(func() {
			tx := db.NewTx()
			for {
				select {
				case <-done:
					return
				default:
				}
				tx.Begin(ns)
				v, err := value(tx)
				if err == nil {
					err = checkPrefix(v, step)
				}
				tx.Release()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	read(func(tx *engine.Tx) ([]byte, error) { v, _, err := bitmap.Value(tx, key, noLimit); return v, err })
	read(func(tx *engine.Tx) ([]byte, error) { return bitmap.ValueRange(tx, key, noLimit, 0, 1<<20) })
	for round := range 6 {
		for i := range uint64(bits) {
			if err := db.Update(ns, keys, func(tx *engine.Tx) error {
				if i == 0 {
					rec, err := tx.LoadAny(key)
					if err != nil {
						return err
					}
					if rec.Exists {
						tx.Drop(&rec)
					}
				}
				_, err := bitmap.SetBit(tx, key, 1, i%2 == 0, maxLen)
				_, err2 := bitmap.SetBit(tx, key, i*step, true, maxLen)
				return errors.Join(err, err2)
			}); err != nil {
				t.Fatal(round, err)
			}
		}
	}
	close(done)
	readers.Wait()
}

// checkPrefix: every bit at a multiple of step is set up to the last one, which lies in the last byte.
func checkPrefix(v []byte, step int) error {
	odd := false
	for i := 0; i/8 < len(v); i += step {
		odd = !odd
		if v[i/8]>>(7-i%8)&1 == 0 {
			return fmt.Errorf("bit %d of %d bytes is not set", i, len(v))
		}
	}
	if n := len(v); n > 0 {
		if odd != (v[0]>>6&1 == 1) {
			return fmt.Errorf("bit 1 of %d bytes is wrong", n)
		}
		if last := (n*8 - 1) / step * step; last/8 != n-1 {
			return fmt.Errorf("%d bytes, but the last bit is %d", n, last)
		}
	}
	return nil
}
