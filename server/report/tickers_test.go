package report

import (
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// RocksDB has the counters whose rates INFO shows; another name is no panic.
func TestTickers(t *testing.T) {
	db := enginetest.Open(t)
	names := []string{tickKeysReadTogether}
	for _, r := range rated {
		names = append(names, r.ticker)
	}
	for _, name := range names {
		if _, ok := db.Ticker(name); !ok {
			t.Errorf("RocksDB has no %s", name)
		}
	}
	if n, ok := db.Ticker("no.such.counter"); ok || n != 0 {
		t.Errorf("%d, %v", n, ok)
	}
}

// The rates of INFO count keys that are read one by one, and keys that are read in a batch.
func TestReadsAreCounted(t *testing.T) {
	db := enginetest.Open(t)
	r := &Report{Options: Options{DB: db}}
	for name, read := range map[string]func(tx *engine.Tx) error{
		"one by one": func(tx *engine.Tx) error {
			_, err := tx.LoadAny([]byte("a"))
			return err
		},
		"in a batch": func(tx *engine.Tx) error {
			list := tx.Keys()
			for _, key := range enginetest.Bytes("b", "c", "d") {
				list.Add(key)
			}
			_, err := tx.MultiGet(cf.Default, list)
			return err
		},
	} {
		before := r.rateTicker(tickKeysRead)
		enginetest.View(t, db, enginetest.Bytes("a"), read)
		if now := r.rateTicker(tickKeysRead); now <= before {
			t.Errorf("%s: %d keys read, before %d", name, now, before)
		}
	}
}
