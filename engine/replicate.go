package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrSequence: a write of the master does not follow the last one of this database.
var ErrSequence = errors.New("the sequence number is not the next one")

// lockedRetry is the time until the writes of a master are tried again that a transaction has turned away.
const lockedRetry = 10 * time.Millisecond

// CheckUpdate checks a write batch from the master of this database, which is the database of a replica. It must be
// well-formed and name only families that there are. What a newer version has written is let through.
func (db *DB) CheckUpdate(rep []byte) (*ForeignBatch, error) { return db.checkBatch(rep, true) }

// Sequence returns the sequence number of the first record of a batch from a master, and how many it takes.
func (b *ForeignBatch) Sequence() (first uint64, n int) {
	return binary.LittleEndian.Uint64(b.rep), int(binary.LittleEndian.Uint32(b.rep[8:]))
}

// ApplyUpdates writes batches of the master, each by one write as it is, so that log and sequence numbers are the
// master's. All that is kept in memory of the keys follows, as with [Tx.Apply]. committed, which may be nil, is
// called after each write while the locks of all batches are held, and must not read through the transaction. It
// returns how many were written.
//
// With exact a batch fails with [ErrSequence] that does not follow the last write of the database; without it others
// may write too, and the sequence numbers need not be the master's. Transactions that turn others away are waited for
// until stop is closed.
func (db *DB) ApplyUpdates(updates []*ForeignBatch, exact bool, stop <-chan struct{},
	committed func(tx *Tx, b *ForeignBatch)) (applied int, err error) {
	tx := db.txPool.Get().(*Tx)
	defer db.txPool.Put(tx)
	tx.Begin("")
	defer tx.Release()
	if err := tx.acquireForUpdates(updates, stop); err != nil {
		return 0, err
	}
	for _, b := range updates {
		if b.records == 0 { // log data alone takes no sequence number
			applied++
			continue
		}
		first, _ := b.Sequence()
		if last := db.LatestSequence(); exact && first != last+1 {
			return applied, fmt.Errorf("%w: %d comes after %d", ErrSequence, first, last)
		}
		tx.reset()
		tx.cacheOK = true
		tx.now = time.Now().UnixMilli()
		if err := tx.Apply(b); err != nil {
			return applied, err
		}
		tx.update = b.rep
		if err := tx.Commit(); err != nil {
			return applied, err
		}
		applied++
		if b.newest != 0 {
			db.MasterTime(versionTime(b.newest) - VersionMargin)
		}
		if committed != nil {
			committed(tx, b)
		}
	}
	return applied, nil
}

// acquireForUpdates takes the locks for several batches.
func (tx *Tx) acquireForUpdates(updates []*ForeignBatch, stop <-chan struct{}) error {
	for {
		err := tx.usable()
		if err != nil {
			return err
		}
		all := ForeignBatch{}
		for _, b := range updates {
			all.allLocks = all.allLocks || b.allLocks
			all.locks = append(all.locks, b.locks...)
		}
		all.compactLocks()
		if err = tx.AcquireFor(&all); err == nil {
			return nil
		}
		tx.Release() // Replace waits for those who have begun
		select {
		case <-stop:
			return err
		case <-time.After(lockedRetry):
		}
		tx.Begin("")
	}
}

// writeUpdate writes a batch of the master.
func (db *DB) writeUpdate(rep []byte) error {
	db.Stats.Commits.Add(1)
	db.Stats.GroupedTx.Add(1)
	return db.write(rep, db.flags)
}

// HoldsNSKey reports whether the transaction has the lock of a metadata key for writing.
func (tx *Tx) HoldsNSKey(nsKey []byte) bool { return tx.locks.Writes(tx.db.locks.Name(nsKey)) }
