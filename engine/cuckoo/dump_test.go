package cuckoo

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestDump loads the pieces of a chain, whose dump is then the same.
func TestDump(t *testing.T) {
	defer func(n int) { maxChunk = n }(maxChunk)
	maxChunk = 5000 // two pages
	db := enginetest.Open(t)
	from, to := []byte("from"), []byte("to")
	run := func(f func(tx *engine.Tx) error) {
		t.Helper()
		require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{from, to}, f))
	}
	type piece struct {
		next uint64
		data []byte
	}
	dump := func(key []byte) (pieces []piece) {
		run(func(tx *engine.Tx) error {
			for p := (piece{}); ; pieces = append(pieces, p) {
				var err error
				if p.next, p.data, err = Dump(tx, key, p.next); err != nil || p.next == 0 {
					return err
				}
			}
		})
		return pieces
	}
	var items [][]byte
	for i := range 20000 {
		items = append(items, strconv.AppendInt(nil, int64(i), 10))
	}
	o := Options{Capacity: 5000, BucketSize: 3, MaxIterations: 20, Expansion: 2}
	run(func(tx *engine.Tx) error { return Add(tx, from, items, false, &o, func(Result) {}) })
	pieces := dump(from)
	if len(pieces) < 10 {
		t.Fatalf("%d pieces", len(pieces))
	}
	for _, p := range pieces {
		run(func(tx *engine.Tx) error { return Load(tx, to, p.next, p.data) })
	}
	for i, p := range dump(to) {
		if p.next != pieces[i].next || !bytes.Equal(p.data, pieces[i].data) {
			t.Errorf("piece %d differs", i)
		}
	}
}
