package engine

import (
	"time"

	"github.com/basaltdb/basalt/cf"
)

// SameEpoch reports whether two keys of the default namespace have the same epoch.
func (db *DB) SameEpoch(a, b []byte) bool {
	epoch := func(k []byte) any {
		return db.locks.Epoch(db.locks.Name(cf.AppendNSKey(nil, cf.DefaultNamespace, k, db.slots)))
	}
	return epoch(a) == epoch(b)
}

// Kept returns how many bytes of buffers the transaction object holds; after Begin, what it has kept of the one before.
func (tx *Tx) Kept() int {
	return cap(tx.arena.buf) + tx.batch.Cap() + cap(tx.missBuf) + cap(tx.keyBuf) + cap(tx.valBuf) +
		tx.buffers.bytes()
}

// OnExchangeStep lets f be called before each step of Replace, until the returned function is called.
func OnExchangeStep(f func(step int)) (restore func()) {
	old := exchangeStep
	exchangeStep = f
	return func() { exchangeStep = old }
}

// FilesChanged does what a flush or a compaction does for the key count.
func (db *DB) FilesChanged() { db.counts.filesChanged() }

// SetClockForward does for compactions what a step of the system's clock does.
func (db *DB) SetClockForward(d time.Duration) {
	db.clock.Now(time.Now().Add(-d).UnixMilli(), time.Since(db.counts.origin))
}

// Watching returns the number of watched keys; a key counts once for each watch.
func (db *DB) Watching() int64 {
	n := db.watches.n.Load()
	if db.watches.observer.Load() != nil {
		n--
	}
	return n
}

// CompactionFailed does what a compaction does that finds no space.
func (db *DB) CompactionFailed() { db.onBackgroundError("No space left on device", severitySoft) }

// DrawFromPools is Sample without the reading of the whole collection.
func (tx *Tx) DrawFromPools(id cf.ID, prefix []byte, size uint64, n int) ([][]byte, error) {
	return tx.drawFromPools(id, prefix, size, n)
}
