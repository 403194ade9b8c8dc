package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

// Kvrocks's BITFIELD numbers the bits of a bitmap differently from Redis. A record of the propagate family
// ([cf.PropagateBitOrder]) marks a database whose bitmaps are in Redis's order; the first write to an empty database
// carries the record. Kvrocks ignores and keeps it. A database without the record was made by Kvrocks, or by a basalt
// that followed Kvrocks's order.
//
// The record is not written earlier: a replica without data must have the sequence number 0, and gets the record, if at
// all, from its master.

// markBitOrder appends the record to the first batch of an empty database.
func (db *DB) markBitOrder(b *batch.Builder) {
	if db.unmarked.Load() {
		if db.empty() {
			b.Put(cf.Propagate, []byte(cf.PropagateBitOrder), []byte(cf.BitOrderRedis))
		} else {
			db.unmarked.Store(false)
		}
	}
}

// empty reports whether nothing was ever written.
func (db *DB) empty() bool { return db.LatestSequence() == 0 }

// RedisBitOrder reports whether BITFIELD numbers the bits of bitmaps as in Redis, because the database is marked so or
// this transaction will mark it; see [Options.RedisBitOrder].
func (tx *Tx) RedisBitOrder() (bool, error) {
	if tx.db.unmarked.Load() && tx.db.empty() {
		return true, nil
	}
	value, found, err := tx.Get(cf.Propagate, []byte(cf.PropagateBitOrder))
	return found && string(value) == cf.BitOrderRedis, err
}
