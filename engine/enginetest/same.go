package enginetest

import (
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// everything returns all records of the known families, by family, key and value.
func everything(t testing.TB, db *engine.DB) (all [cf.Index + 1][][2]string) {
	t.Helper()
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	for id := range cf.Index + 1 {
		if id == cf.PubSub { // any compaction may drop messages
			continue
		}
		it := tx.Iter(id, engine.IterOptions{})
		for it.Next() {
			if string(it.Key()) == cf.PropagateScriptFlush { // garbage, which any compaction drops
				continue
			}
			all[id] = append(all[id], [2]string{string(it.Key()), string(it.Value())})
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
		it.Close()
	}
	return all
}

// SameRecords compares all records of two databases byte by byte.
func SameRecords(t testing.TB, a, b *engine.DB) {
	t.Helper()
	x, y := everything(t, a), everything(t, b)
	for id := range cf.Index + 1 {
		for i := range max(len(x[id]), len(y[id])) {
			if i >= len(x[id]) || i >= len(y[id]) || x[id][i] != y[id][i] {
				t.Errorf("family %s: %d and %d records, which differ from record %d on: %q and %q", id, len(x[id]),
					len(y[id]), i, x[id][i:min(i+1, len(x[id]))], y[id][i:min(i+1, len(y[id]))])
				break
			}
		}
	}
	if p, q := a.LatestSequence(), b.LatestSequence(); p != q {
		t.Errorf("sequence numbers %d and %d", p, q)
	}
}

// SameData is SameRecords after a compaction of both databases, which drops garbage. It also compares the numbers of
// keys.
func SameData(t testing.TB, a, b *engine.DB) {
	t.Helper()
	for _, db := range []*engine.DB{a, b} {
		if err := db.CompactNamespace(""); err != nil {
			t.Error(err)
		}
	}
	SameRecords(t, a, b)
	keys, expires := a.Count(cf.DefaultNamespace)
	if k, e := b.Count(cf.DefaultNamespace); k != keys || e != expires {
		t.Errorf("DBSIZE %d with %d that expire, and %d with %d", keys, expires, k, e)
	}
}
