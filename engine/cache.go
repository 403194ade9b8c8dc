package engine

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/reccache"
)

// DropCaches empties the record cache, so that the next reads ask RocksDB.
func (db *DB) DropCaches() {
	if db.cache != nil {
		db.cache.Clear()
	}
	db.derived.Clear()
}

// recordCacheGrown takes the memory by which the record cache has grown from the block cache.
func (db *DB) recordCacheGrown() { db.rocks.ShrinkCache(db.cache.Grown()) }

// markWrites tells the cache which keys the transaction is about to commit. The overlay must not be changed until
// writesDone.
func (tx *Tx) markWrites() {
	c := tx.db.cache
	if c == nil {
		return
	}
	if tx.deletesUnnamed() {
		c.MarkAll()
	}
	tx.hashes = tx.hashes[:0]
	for i := range tx.over.ents {
		if e := &tx.over.ents[i]; e.kind >= written && reccache.Holds(e.id) {
			tx.hashes = append(tx.hashes, c.Hash(e.id, tx.over.keyOf(e)))
		}
	}
	tx.eachLateDelete(func(id cf.ID, key []byte) { tx.hashes = append(tx.hashes, c.Hash(id, key)) })
	tx.touchedSum += c.TouchSets(tx.hashes)
	for _, h := range tx.hashes {
		c.Mark(h)
	}
}

// writesDone tells the cache whether the commit has succeeded.
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
	tx.eachLateDelete(func(id cf.ID, key []byte) {
		c.Done(tx.hashes[n], id, key, nil, true, ok)
		n++
	})
	if tx.deletesUnnamed() {
		c.DoneAll(ok)
	}
}

// eachLateDelete calls f with the deleted keys that the overlay does not have and the cache may have. What was put late
// is new, and the cache does not take it up.
func (tx *Tx) eachLateDelete(f func(id cf.ID, key []byte)) {
	if !tx.over.gone {
		return
	}
	tx.over.eachLate(func(rec *batch.Record) {
		if rec.Kind == batch.Delete && rec.Family == cf.Default {
			f(rec.Family, rec.Key)
		}
	})
}

// deletesUnnamed reports whether the transaction deletes cached records without their keys, by range. Range deletes of
// streams, for example, hit no cached record.
func (tx *Tx) deletesUnnamed() bool {
	return slices.ContainsFunc(tx.over.ranges, func(r rangeDelete) bool { return reccache.Holds(r.id) })
}
