package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// Values that a batch has read are held once while the transaction lasts; what is kept for the next one is bounded.
func TestBatchedReadHoldsValuesOnce(t *testing.T) {
	const kept = 512<<10 + 32<<10 // a block, and small buffers
	for _, c := range []struct{ size, keys int }{
		{100, 16}, {100, 1000}, {16 << 10, 16}, {16 << 10, 100}, {60 << 10, 16}, {2 << 20, 4},
	} {
		t.Run(fmt.Sprint(c.keys, " of ", c.size), func(t *testing.T) {
			db := enginetest.Open(t)
			names := make([][]byte, c.keys)
			value := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, c.size/2) }
			for i := range names {
				names[i] = []byte(fmt.Sprint("key", i))
				require.NoError(t, db.Update(ns, names[i:i+1], func(tx *engine.Tx) error {
					rec, err := tx.Load(names[i], cf.TypeString)
					tx.SaveAppend(&rec, value(i))
					return err
				}))
			}
			tx := db.NewTx()
			defer tx.End()
			for range 3 {
				tx.Begin(ns)
				if got := tx.Kept(); got > kept {
					t.Errorf("%d bytes are kept for the next transaction", got)
				}
				require.NoError(t, tx.Prefetch(names))
				if c.keys == 16 {
					if got, most := tx.Kept(), c.size*c.keys*3/2+(32<<10); got > most {
						t.Errorf("%d bytes are held by one batch, want at most %d", got, most)
					}
				}
				for i, name := range names {
					rec, err := tx.Load(name, cf.TypeString)
					if err != nil || !bytes.Equal(rec.Tail, value(i)) {
						t.Fatalf("%s: %d bytes, not the value; %v", name, len(rec.Tail), err)
					}
				}
				tx.Release()
			}
		})
	}
}
