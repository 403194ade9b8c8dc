package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/reccache"
	"github.com/basaltdb/basalt/engine/rocks"
)

// maxPrefetchRange is the max number of bytes of values that PrefetchRange keeps.
const maxPrefetchRange = 64 << 10

// Saved reports whether the transaction has written the metadata record itself: it works on the collection for at least
// the second time, and may well do so again.
func (tx *Tx) Saved(r *Record) bool {
	e := tx.over.find(cf.Metadata, r.key)
	return e != nil && e.kind == written
}

// Near reports whether Get will probably find a key in memory.
func (tx *Tx) Near(id cf.ID, key []byte) bool {
	if _, _, known := tx.overlaid(id, key); known {
		return true
	}
	c := tx.db.cache
	return c != nil && reccache.Holds(id) && c.SeemsToHold(c.Hash(id, key))
}

// PrefetchRange reads up to n keys of [lower, upper) at once, so that the Get of each is served from memory: one scan
// costs as much as a few point reads. It does nothing unless the lock of the keys' collection is held.
func (tx *Tx) PrefetchRange(id cf.ID, lower, upper []byte, n int) error {
	if !tx.cacheOK || len(tx.over.ranges) > 0 {
		return nil
	}
	if err := tx.usable(); err != nil {
		return err
	}
	r := rocks.Range{Lower: lower, Upper: upper, Limit: n, Lane: tx.lane}
	it := tx.db.rocks.NewIter(tx.db.family(id), &r, tx.buffers.take())
	bytes := 0
	for ; n > 0 && bytes < maxPrefetchRange && it.Next(); n-- {
		tx.cache(id, it.Key(), tx.arena.copy(it.Value()), true)
		bytes += len(it.Value())
	}
	err := it.Err()
	it.Close()
	tx.buffers.put(it.Buffer())
	return err
}
