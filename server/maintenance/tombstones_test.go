package maintenance

import (
	"fmt"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/internal/require"
)

// TestTombstones: when reads of a small set pass many members that were removed, its memtable is flushed.
func TestTombstones(t *testing.T) {
	f := newFixture(t)
	key := []byte("s")
	members := make([][]byte, manyDeleted+100)
	for i := range members {
		members[i] = fmt.Appendf(nil, "m%08d", i)
	}
	update := func(do func(tx *engine.Tx, key []byte, members [][]byte) (int, error), members [][]byte) {
		t.Helper()
		require.NoError(t, f.DB.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
			_, err := do(tx, key, members)
			return err
		}))
	}
	update(set.Add, members)
	update(set.Remove, members[50:manyDeleted+50]) // tombstones between members
	read := func() {
		t.Helper()
		require.NoError(t, f.DB.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
			n := 0
			err := set.Each(tx, key, func(uint64) {}, func([]byte) { n++ })
			if n != 100 {
				t.Fatalf("%d members", n)
			}
			return err
		}))
	}
	deleted := func() uint64 {
		n, ok := f.DB.FamilyIntProperty(cf.Default, "rocksdb.num-deletes-active-mem-table")
		if !ok {
			t.Fatal("no such property")
		}
		return n
	}
	check := func() {
		f.checkTombstones(time.Now())
		f.idle()
	}
	check()
	read()
	check()
	if n := deleted(); n != manyDeleted {
		t.Errorf("after one read %d tombstones are in the memtable, want %d", n, manyDeleted)
	}
	for range manyPassed/manyDeleted + 2 {
		read()
	}
	check()
	if n := deleted(); n != 0 {
		t.Errorf("after many reads %d tombstones are in the memtable", n)
	}
	read()
	if f.logs.FilterMessageSnippet("flushed a memtable").Len() != 1 {
		t.Errorf("log: %v", f.logs.All())
	}
	// With few tombstones in the memtable a flush would not help.
	update(set.Remove, members[:10])
	f.passed = 0
	check()
	if n := deleted(); n != 10 {
		t.Errorf("%d tombstones are in the memtable, want 10", n)
	}
}
