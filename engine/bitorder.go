package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

// BITFIELD of Kvrocks numbers the bits of a bitmap otherwise than Redis. A database remembers that its bitmaps were
// written in Redis's order by a record of the propagate family ([cf.PropagateBitOrder]), which the first write to an
// empty database carries. Kvrocks ignores and keeps the record; a database without it was made by Kvrocks, or by a
// basalt that followed Kvrocks's order.
//
// The record does not come earlier: a replica that has nothing must have the sequence number 0, and gets the record
// from its master or not at all.

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

// RedisBitOrder reports whether BITFIELD numbers the bits of bitmaps as in Redis, because the database was made by a
// basalt that does so, or will be marked by this transaction; see [Options.RedisBitOrder].
func (tx *Tx) RedisBitOrder() (bool, error) {
	if tx.db.unmarked.Load() && tx.db.empty() {
		return true, nil
	}
	value, found, err := tx.Get(cf.Propagate, []byte(cf.PropagateBitOrder))
	return found && string(value) == cf.BitOrderRedis, err
}
