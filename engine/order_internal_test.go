package engine

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// TestReadsInOrder: a transaction without locks does not find the second of two keys older than the first one, although
// the record cache has the second one and the first one comes from RocksDB, at once or later.
func TestReadsInOrder(t *testing.T) {
	db := openForJobs(t)
	keys := [][]byte{[]byte("first"), []byte("second")}
	set := func(key []byte, value string) {
		t.Helper()
		require.NoError(t, db.Update("a", [][]byte{key}, func(tx *Tx) error {
			rec := tx.Fresh(key, cf.TypeString)
			tx.SaveAppend(&rec, []byte(value))
			return nil
		}))
	}
	tx := db.NewTx()
	get := func(key []byte) string {
		t.Helper()
		v, _, err := tx.Get(cf.Metadata, tx.NSKey(key))
		require.NoError(t, err)
		return string(v)
	}
	for name, first := range map[string]string{
		"not in the cache":          strings.Repeat("1", 5000),
		"too long to be prefetched": strings.Repeat("1", prefetchMost+1),
	} {
		set(keys[0], first)
		set(keys[1], "old")
		tx.Begin("a")
		get(keys[1]) // fills the cache
		tx.Release()

		tx.Begin("a")
		l := tx.Keys()
		for _, k := range keys {
			l.Add(tx.NSKey(k))
		}
		if _, err := tx.multiGet(cf.Metadata, l, prefetchMost); err != nil {
			t.Fatal(err)
		}
		if len(tx.early) != 1 {
			t.Fatalf("%s: %d keys were found in the cache", name, len(tx.early))
		}
		if n := tx.inOrder(l); n != 2 && len(first) <= prefetchMost {
			t.Errorf("%s: %d values count, although nothing has changed", name, n)
		}
		set(keys[1], "new")
		if n := tx.inOrder(l); n > 1 {
			t.Errorf("%s: %d values count, although the second one has changed", name, n)
		}
		tx.Release()

		tx.Begin("a")
		require.NoError(t, tx.Prefetch(keys))
		set(keys[0], first+"2")
		set(keys[1], "newer")
		if len(first) > prefetchMost && !strings.HasSuffix(get(keys[1]), "newer") {
			t.Errorf("%s: the first key, read later, is new, and the second one is old", name)
		}
		tx.Release()
	}
}

// TestFlushInOrder: from the commit of a flush on, no reader without locks finds a key that the record cache had.
func TestFlushInOrder(t *testing.T) {
	db := openForJobs(t)
	key := []byte("key")
	reader := db.NewTx()
	found := func() bool {
		t.Helper()
		reader.Begin("a")
		defer reader.Release()
		_, found, err := reader.Get(cf.Metadata, reader.NSKey(key))
		require.NoError(t, err)
		return found
	}
	require.NoError(t, db.Update("a", [][]byte{key}, func(tx *Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("value"))
		return nil
	}))
	if !found() {
		t.Fatal("the key is not there")
	}
	tx := db.NewTx()
	tx.Begin("a")
	defer tx.Release()
	require.NoError(t, tx.AcquireAll())
	require.NoError(t, tx.FlushNamespace())
	tx.markWrites()
	require.NoError(t, db.commit(tx))
	if found() {
		t.Error("the key is found after the commit that has deleted it")
	}
	tx.writesDone(true)
	if found() {
		t.Error("the key is found after the flush")
	}
}
