package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/internal/require"
)

// fillHash makes a hash of n fields of 100 bytes.
func fillHash(t *testing.T, db *engine.DB, key string, n int) {
	t.Helper()
	pairs := make([][]byte, 0, 2*n)
	for i := range n {
		pairs = append(pairs, fmt.Appendf(nil, "f%09d", i), make([]byte, 100))
	}
	enginetest.Update(t, db, enginetest.Bytes(key), func(tx *engine.Tx) error {
		_, err := hash.Set(tx, []byte(key), pairs)
		return err
	})
}

// TestOpenCopy: a copy has what was there when it was made, also elements that compactions have dropped since.
func TestOpenCopy(t *testing.T) {
	db := enginetest.Open(t)
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "left"), 0o755))
	fillHash(t, db, "h", 500)
	setStrings(t, db, "before", 3)
	c, err := db.OpenCopy(dir)
	require.NoError(t, err)
	if c.LatestSequence() != db.LatestSequence() {
		t.Errorf("sequence number %d, want %d", c.LatestSequence(), db.LatestSequence())
	}
	setStrings(t, db, "after", 3)
	enginetest.Update(t, db, enginetest.Bytes("h"), func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte("h"))
		tx.Drop(&rec)
		return err
	})
	require.NoError(t, db.CompactNamespace(""))
	mustGet(t, c.DB, "k1", "before")
	mustGet(t, db, "k1", "after")
	n := 0
	enginetest.View(t, c.DB, nil, func(tx *engine.Tx) error {
		return hash.Each(tx, []byte("h"), false, func(uint64) {}, func(_, _ []byte) { n++ })
	})
	if n != 500 {
		t.Errorf("%d fields", n)
	}
	require.NoError(t, c.Discard())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

// TestStopReading: the function that is called with elements ends the iteration after those in memory.
func TestStopReading(t *testing.T) {
	db := enginetest.Open(t)
	const fields = 10_000
	fillHash(t, db, "h", fields)
	for range 2 { // the next transaction reads again
		n := 0
		err := db.View(ns, nil, func(tx *engine.Tx) error {
			return hash.Each(tx, []byte("h"), false, func(uint64) {}, func(_, _ []byte) {
				if n++; n == 100 {
					tx.StopReading()
				}
			})
		})
		if !errors.Is(err, rocks.ErrStopped) || n < 100 || n > fields/2 {
			t.Errorf("%d fields, %v", n, err)
		}
	}
}
