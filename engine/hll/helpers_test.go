package hll

import (
	"encoding/binary"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

const ns = cf.DefaultNamespace

func update(t testing.TB, db *engine.DB, keys [][]byte, f func(tx *engine.Tx) error) {
	t.Helper()
	if err := db.Update(ns, keys, f); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, db *engine.DB, keys [][]byte, f func(tx *engine.Tx) error) {
	t.Helper()
	if err := db.View(ns, keys, f); err != nil {
		t.Fatal(err)
	}
}

func raw(words ...string) [][]byte {
	list := make([][]byte, len(words))
	for i, w := range words {
		list[i] = []byte(w)
	}
	return list
}

// numbered returns n distinct elements.
func numbered(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = binary.LittleEndian.AppendUint64(nil, uint64(i))
	}
	return list
}
