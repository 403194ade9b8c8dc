package bloom

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestDumpInChunks loads the chunks of long filters, one in a transaction and all in one.
func TestDumpInChunks(t *testing.T) {
	defer func(n int) { maxChunk = n }(maxChunk)
	maxChunk = 100
	db := enginetest.Open(t)
	from, to, at := []byte("from"), []byte("to"), []byte("at once")
	run := func(f func(tx *engine.Tx) error) {
		t.Helper()
		require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{from, to, at}, f))
	}
	var items [][]byte
	for i := range 1000 {
		items = append(items, strconv.AppendInt(nil, int64(i), 10))
	}
	type piece struct {
		next uint64
		data []byte
	}
	var pieces []piece
	run(func(tx *engine.Tx) error {
		return Add(tx, from, items, &Options{Capacity: 150, ErrorRate: 0.01, Expansion: 2}, func(Result) {})
	})
	run(func(tx *engine.Tx) error {
		for p := (piece{}); ; pieces = append(pieces, p) {
			var err error
			if p.next, p.data, err = Dump(tx, from, p.next); err != nil || p.next == 0 {
				return err
			}
			p.data = bytes.Clone(p.data)
		}
	})
	if len(pieces) < 20 {
		t.Fatalf("%d pieces", len(pieces))
	}
	for _, p := range pieces {
		run(func(tx *engine.Tx) error { return Load(tx, to, p.next, p.data) })
	}
	run(func(tx *engine.Tx) error {
		for _, p := range pieces {
			if err := Load(tx, at, p.next, p.data); err != nil {
				return err
			}
		}
		return nil
	})
	run(func(tx *engine.Tx) error {
		for _, key := range [][]byte{to, at} {
			for _, want := range pieces {
				position := uint64(0)
				if want.next > 1 {
					position = want.next - uint64(len(want.data))
				}
				next, data, err := Dump(tx, key, position)
				if err != nil || next != want.next || !bytes.Equal(data, want.data) {
					t.Fatalf("%s at %d: position %d, %d bytes, %v", key, position, next, len(data), err)
				}
			}
		}
		return nil
	})
}
