package bitmap_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// TestChangesOfLongString: SETBIT and BITFIELD do to strings of all lengths what they do to bits, whether the string
// was committed before or is the transaction's own.
func TestChangesOfLongString(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("k")
	rnd := rand.New(rand.NewPCG(3, 4))
	update := func(f func(tx *engine.Tx) error) {
		t.Helper()
		require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{key}, f))
	}
	lengths := []int{1, 20, 511, 2047, 2100, 30_000}
	for round := range 300 {
		want := make([]byte, lengths[rnd.IntN(len(lengths))])
		for i := range want {
			want[i] = byte(rnd.Uint32())
		}
		bit := func(at int) bool { return at/8 < len(want) && want[at/8]>>(7-at%8)&1 != 0 }
		put := func(at int, on bool) {
			if at/8 >= len(want) {
				want = append(want[:len(want):len(want)], make([]byte, at/8+1-len(want))...)
			}
			want[at/8] &^= 0x80 >> (at % 8)
			if on {
				want[at/8] |= 0x80 >> (at % 8)
			}
		}
		set := func(tx *engine.Tx) error {
			_, err := str.Set(tx, key, want, str.SetOptions{})
			want = append([]byte(nil), want...)
			return err
		}
		change := func(tx *engine.Tx) error {
			if rnd.IntN(2) == 0 {
				at, on := rnd.IntN(8*len(want)+100), rnd.IntN(2) == 0
				old, err := bitmap.SetBit(tx, key, uint64(at), on, 1<<20)
				if old != bit(at) {
					t.Errorf("bit %d was %v", at, old)
				}
				put(at, on)
				return err
			}
			ops := make([]bitmap.FieldOp, rnd.IntN(5))
			results := make([]int64, len(ops))
			for i := range ops {
				at, width := rnd.IntN(8*len(want)+100), 1+rnd.IntN(63)
				op := bitmap.FieldOp{Type: bitmap.FieldType{Bits: uint8(width)}, Offset: uint64(at)}
				if rnd.IntN(2) == 0 {
					op.Kind = bitmap.FieldSet
					op.Value = rnd.Int64N(1 << (width - 1))
				}
				for j := range width {
					results[i] <<= 1
					if bit(at + j) {
						results[i]++
					}
				}
				if op.Kind == bitmap.FieldSet {
					for j := range width {
						put(at+j, op.Value>>(width-1-j)&1 != 0)
					}
				}
				ops[i] = op
			}
			got, err := bitmap.Fields(tx, key, ops, bitmap.FieldOptions{MaxLen: 1 << 20}, nil)
			for i, r := range got {
				if r.Value != results[i] || r.None {
					t.Errorf("round %d, %d of %v: %v, want %d", round, i, ops, r, results[i])
				}
			}
			return err
		}
		if rnd.IntN(2) == 0 {
			update(set)
			update(change)
		} else {
			update(func(tx *engine.Tx) error { return errors.Join(set(tx), change(tx), change(tx)) })
		}
		update(func(tx *engine.Tx) error {
			got, _, err := str.Get(tx, key)
			if string(got) != string(want) {
				t.Fatalf("round %d: %d bytes, want %d", round, len(got), len(want))
			}
			return err
		})
	}
}

// TestFieldsOfLongStringAreNotCopied: reading fields copies no more of a string than they lie in.
func TestFieldsOfLongStringAreNotCopied(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("k")
	const size = 8 << 20
	value := make([]byte, size)
	value[size/2] = 7
	require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := str.Set(tx, key, value, str.SetOptions{})
		return err
	}))
	require.NoError(t, db.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		u8 := bitmap.FieldType{Bits: 8}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := bitmap.Fields(tx, key, []bitmap.FieldOp{{Type: u8, Offset: size / 2 * 8},
			{Type: u8, Offset: size/2*8 + 4}, {Type: u8, Offset: size/2*8 - 4}}, bitmap.FieldOptions{}, nil)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > size/8 {
			t.Errorf("%d bytes are allocated", n)
		}
		for i, want := range []int64{7, 0x70, 0} {
			if got[i].Value != want {
				t.Errorf("field %d is %d, want %d", i, got[i].Value, want)
			}
		}
		return err
	}))
}
