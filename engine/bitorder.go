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

// BitOrderBatch returns a write batch that gives a database without keys the order of this database. Without the batch
// the destination of a slot migration would read the bitmaps that come in its own order.
func (db *DB) BitOrderBatch() (rep []byte, err error) {
	var b batch.Builder
	err = db.View(cf.DefaultNamespace, nil, func(tx *Tx) error {
		redis, err := tx.RedisBitOrder()
		if redis {
			b.Put(cf.Propagate, []byte(cf.PropagateBitOrder), []byte(cf.BitOrderRedis))
		} else {
			b.Delete(cf.Propagate, []byte(cf.PropagateBitOrder))
		}
		return err
	})
	return b.Bytes(), err
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
