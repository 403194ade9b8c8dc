package engine

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// TestCachedReadsAreBounded: a transaction does not keep all that it reads, found or missing.
func TestCachedReadsAreBounded(t *testing.T) {
	db := openForJobs(t)
	const keys = 100
	value := make([]byte, maxCachedReads/keys*2)
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "k%d", i)
	}
	require.NoError(t, db.Update("a", names, func(tx *Tx) error {
		for _, k := range names {
			tx.Put(cf.Metadata, tx.NSKey(k), value)
		}
		return nil
	}))
	require.NoError(t, db.Update("a", names, func(tx *Tx) error {
		require.NoError(t, tx.Prefetch(names))
		read := 0
		for _, v := range tx.vals {
			read += len(v)
		}
		if most := maxCachedReads + multiGetBatch*len(value); read > most {
			t.Errorf("%d bytes are read ahead, want up to %d", read, most)
		}
		for _, k := range names {
			v, found, err := tx.Get(cf.Metadata, tx.NSKey(k))
			require.NoError(t, err)
			if !found || len(v) != len(value) {
				t.Fatalf("%s: found %v, %d bytes", k, found, len(v))
			}
		}
		for i := range 20_000 {
			_, found, err := tx.Get(cf.Metadata, tx.NSKey(fmt.Appendf(nil, "missing%d", i)))
			require.NoError(t, err)
			if found {
				t.Fatal("found a key that does not exist")
			}
		}
		held := 0
		for i := range tx.over.ents {
			e := &tx.over.ents[i]
			held += 16 + len(e.key) + len(e.value)
		}
		if held < maxCachedReads/2 || held > maxCachedReads {
			t.Errorf("%d bytes of reads are remembered, want up to %d", held, maxCachedReads)
		}
		return nil
	}))
}
