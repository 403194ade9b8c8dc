package bitmap_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestFieldsInTheOrderOfKvrocks does random operations on fields of a bitmap that nothing else writes. Their results
// are those of Redis; the stored bytes are those of the string in Redis, so that as a bitmap each has its bits
// reversed.
func TestFieldsInTheOrderOfKvrocks(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("bm")
	w := &world{Rand: rand.New(rand.NewPCG(1, 9)), far: 40000}
	var m model
	for round := range 300 {
		update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			ops := make([]bitmap.FieldOp, 1+w.IntN(6))
			end := uint64(0)
			for i := range ops {
				ops[i] = w.fieldOp()
				if ops[i].Kind != bitmap.FieldGet {
					end = max(end, (ops[i].Offset+uint64(ops[i].Type.Bits)+7)/8)
				}
			}
			got, err := bitmap.Fields(tx, key, ops, bitmap.FieldOptions{}, nil)
			if err != nil {
				return err
			}
			m.grow(end)
			for i := range ops {
				if want := m.do(&ops[i]); got[i] != want {
					return fmt.Errorf("round %d, %+v: %+v, want %+v", round, ops[i], got[i], want)
				}
			}
			value, _, err := bitmap.Value(tx, key, noLimit)
			if err == nil && len(value) != len(m) {
				err = fmt.Errorf("round %d: %d bytes, want %d", round, len(value), len(m))
			}
			for i := range min(len(value), len(m)) {
				if value[i] != bits.Reverse8(m[i]) {
					return fmt.Errorf("round %d, byte %d: %08b, want %08b reversed", round, i, value[i], m[i])
				}
			}
			return err
		})
	}
}
