package report

import (
	"testing"

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
