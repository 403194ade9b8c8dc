package bitmap_test

import (
	"errors"
	"math/bits"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// FuzzStored works on a bitmap of any length with any fragment: what is no bitmap is an error that names the key or
// does not matter, and the functions agree on what is one.
func FuzzStored(f *testing.F) {
	f.Add(uint64(3), "0", []byte{1, 2, 4})
	f.Add(uint64(3000), "2048", []byte("fragment"))
	f.Add(uint64(3), "0", []byte(strings.Repeat("more than there is", 100)))
	f.Add(uint64(5000), "1025", []byte{1})
	f.Add(uint64(5000), "01024", []byte{1})
	f.Add(uint64(5000), "-1024", []byte{1})
	f.Add(uint64(5000), "18446744073709550592", []byte{1})
	f.Add(uint64(5000), "18446744073709551616", []byte{1})
	f.Add(uint64(5000), "", []byte{1})
	f.Add(uint64(0), "0", []byte{1})
	f.Add(uint64(1)<<63, "0", []byte{1})
	db := enginetest.Open(f)
	key := []byte("bm")
	keys := raw("bm", "d")
	undo := errors.New("undo")
	f.Fuzz(func(t *testing.T, size uint64, sub string, value []byte) {
		if size > 1<<20 {
			size |= 1 << 32 // longer than any bitmap, lest the fuzzer spend its time on long ones
		}
		err := db.Update(ns, keys, func(tx *engine.Tx) error {
			put := func() {
				rec := tx.Fresh(key, cf.TypeBitmap)
				rec.Size = size
				tx.Save(&rec, nil)
				tx.Put(cf.Default, tx.Subkey(&rec, []byte(sub)), value)
			}
			put()
			check(t, tx, key)
			for name, call := range calls(key) {
				put()
				if err := call(tx); err != nil && (!errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "bm"`)) {
					t.Errorf("%s: %v", name, err)
				}
			}
			return undo
		})
		if err != undo {
			t.Error(err)
		}
	})
}

// check compares the bits of a bitmap with its value, if it has one.
func check(t *testing.T, tx *engine.Tx, key []byte) {
	value, found, err := bitmap.Value(tx, key, 1<<20)
	if err != nil || !found {
		return
	}
	sum, first := uint64(0), int64(-1)
	for i, c := range value {
		if c != 0 && first < 0 {
			first = int64(i*8 + bits.LeadingZeros8(c))
		}
		sum += uint64(bits.OnesCount8(c))
	}
	if n, err := bitmap.Count(tx, key, bitmap.All); err != nil || n != sum {
		t.Errorf("%d bits are set, want %d, %v", n, sum, err)
	}
	if at, err := bitmap.Pos(tx, key, true, bitmap.All); err != nil || at != first {
		t.Errorf("the first bit is %d, want %d, %v", at, first, err)
	}
	for i := range uint64(min(len(value), 2000)) {
		bit, err := bitmap.GetBit(tx, key, i*8+i%8)
		if want := value[i]>>(7-i%8)&1 != 0; err != nil || bit != want {
			t.Errorf("bit %d is %v, want %v, %v", i*8+i%8, bit, want, err)
		}
	}
}
