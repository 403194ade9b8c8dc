package engine

import (
	"slices"

	"github.com/basaltdb/basalt/engine/reccache"
)

// DropCaches forgets the records that were read, so that the next reads ask RocksDB.
func (db *DB) DropCaches() {
	if db.cache != nil {
		db.cache.Clear()
	}
	db.derived.Clear()
}

// markWrites tells the cache which keys the transaction is about to commit. Nothing may be written to the overlay
// until writesDone.
func (tx *Tx) markWrites() {
	c := tx.db.cache
	if c == nil {
		return
	}
	tx.hashes = tx.hashes[:0]
	for i := range tx.over.ents {
		if e := &tx.over.ents[i]; e.kind >= written && reccache.Holds(e.id) {
			tx.hashes = append(tx.hashes, c.Hash(e.id, tx.over.keyOf(e)))
		}
	}
	c.TouchSets(tx.hashes)
	for _, h := range tx.hashes {
		c.Mark(h)
	}
}

// writesDone tells the cache how the commit went.
func (tx *Tx) writesDone(ok bool) {
	c := tx.db.cache
	if c == nil {
		return
	}
	tx.touchedSum += c.Touch(tx.hashes)
	n := 0
	for i := range tx.over.ents {
		if e := &tx.over.ents[i]; e.kind >= written && reccache.Holds(e.id) {
			c.Done(tx.hashes[n], e.id, tx.over.keyOf(e), tx.over.valueOf(e), e.kind == deleted, ok)
			n++
		}
	}
	// What a range delete hits is not known here. Those of streams, for one, hit nothing that is kept.
	if ok && slices.ContainsFunc(tx.over.ranges, func(r rangeDelete) bool { return reccache.Holds(r.id) }) {
		c.Clear()
	}
}
