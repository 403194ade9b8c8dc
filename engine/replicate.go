package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

// ErrSequence: a write of the master does not follow the last write of this database.
var ErrSequence = errors.New("the sequence number is not the next one")

// lockedRetry is the time until a master's writes are tried again after a transaction has made them fail.
const lockedRetry = 10 * time.Millisecond

// CheckUpdate checks a write batch from the master of this database, which must be that of a replica. The batch must be
// well-formed and name only existing families. Records that a newer version has written are accepted.
func (db *DB) CheckUpdate(rep []byte) (*ExternalBatch, error) { return db.checkBatch(rep, true) }

// Sequence returns the sequence number of the first record of a batch from a master, and how many numbers the batch
// takes.
func (b *ExternalBatch) Sequence() (first uint64, n int) {
	return binary.LittleEndian.Uint64(b.rep), int(binary.LittleEndian.Uint32(b.rep[8:]))
}

// ApplyUpdates writes batches of the master unchanged, so that records and sequence numbers in the log are the
// master's. Consecutive batches share one write, as in a group commit, so the boundaries of the master's writes are
// lost. The in-memory state of the keys is updated, as by [Tx.Apply]. committed, which may be nil, is called for each
// batch after its write while the locks of all batches are held, and must not read through the transaction.
// ApplyUpdates returns how many batches were written.
//
// With exact, a batch that does not follow the last write of the database fails with [ErrSequence]. Without it other
// transactions may write too, and the sequence numbers need not be the master's. Until stop is closed, ApplyUpdates
// waits for transactions that make others fail.
func (db *DB) ApplyUpdates(updates []*ExternalBatch, exact bool, stop <-chan struct{},
	committed func(tx *Tx, b *ExternalBatch)) (applied int, err error) {
	tx := db.txPool.Get().(*Tx)
	defer db.txPool.Put(tx)
	tx.Begin("")
	defer tx.Release()
	if err := tx.acquireForUpdates(updates, stop); err != nil {
		return 0, err
	}
	for len(updates) > 0 {
		n := 1
		if updates[0].records > 0 { // log data alone takes no sequence number
			first, _ := updates[0].Sequence()
			if last := db.LatestSequence(); exact && first != last+1 {
				return applied, fmt.Errorf("%w: %d comes after %d", ErrSequence, first, last)
			}
			n = runOf(updates, exact)
			if err := tx.applyRun(updates[:n]); err != nil {
				return applied, err
			}
			if committed != nil {
				for _, b := range updates[:n] {
					committed(tx, b)
				}
			}
		}
		applied += n
		updates = updates[n:]
	}
	return applied, nil
}

// maxRunBytes bounds one write of the master's batches.
const maxRunBytes = 1 << 20

// runOf returns how many batches share one write.
func runOf(updates []*ExternalBatch, exact bool) (n int) {
	first, records := updates[0].Sequence()
	next, size := first+uint64(records), len(updates[0].rep)
	for n = 1; n < len(updates) && !updates[0].alone; n++ {
		b := updates[n]
		first, records := b.Sequence()
		if size += len(b.rep); b.alone || b.records == 0 || exact && first != next || size > maxRunBytes {
			break
		}
		next += uint64(records)
	}
	return n
}

// applyRun writes batches with one write. The locks must be held.
func (tx *Tx) applyRun(run []*ExternalBatch) error {
	tx.reset()
	tx.cacheOK, tx.foreign, tx.update = true, true, true
	tx.now = time.Now().UnixMilli()
	defer tx.SwitchNamespace(tx.ns)
	newest := uint64(0)
	for _, b := range run {
		if b.collections {
			tx.forget(b)
		}
		newest = max(newest, b.newest)
	}
	if err := tx.prefetchReplaced(run); err != nil {
		return err
	}
	for _, b := range run {
		if err := tx.adopt(b); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if newest != 0 {
		tx.db.raiseReplicaClock(versionTime(newest) - VersionMargin)
	}
	return nil
}

// prefetchReplaced is PrefetchBlind for the metadata records of batches.
func (tx *Tx) prefetchReplaced(run []*ExternalBatch) error {
	l := tx.Keys()
	tx.hashes = tx.hashes[:0]
	var r batch.Reader
	for _, b := range run {
		if err := r.Reset(b.rep); err != nil {
			return err
		}
		for rec, ok := r.Next(); ok; rec, ok = r.Next() {
			if rec.Family == cf.Metadata && rec.Kind <= batch.SingleDelete {
				l.Add(rec.Key)
				tx.hashes = append(tx.hashes, tx.db.presence.Hash(rec.Key))
			}
		}
	}
	if l.Len() < 2 {
		return nil
	}
	return tx.prefetchHashed(l)
}

// adopt copies the records of a batch unchanged, and notes what they change.
func (tx *Tx) adopt(b *ExternalBatch) error {
	shift := tx.batch.AppendRep(b.rep)
	var r batch.Reader
	if err := r.Reset(b.rep); err != nil {
		return err
	}
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		if !rec.Kind.Counted() || rec.Family >= cf.NumFamilies {
			continue // no in-memory state depends on an unknown family
		}
		if err := tx.follow(&rec); err != nil {
			return err
		}
		if rec.Family == cf.Search && rec.Kind != batch.DeleteRange {
			tx.changeNode(rec.Key)
		}
		// An undecodable record, perhaps of a newer version, is written nevertheless, and does not count.
		switch rec.Kind {
		case batch.Put:
			if rec.Family == cf.Metadata {
				if m, _, err := cf.DecodeMeta(rec.Value); err == nil {
					tx.noteForeign(rec.Key, &m)
				}
			}
			tx.over.write(rec.Family, rec.Key, rec.ValueOffset+shift, len(rec.Value), written)
		case batch.Delete, batch.SingleDelete:
			if rec.Family == cf.Metadata {
				tx.noteForeign(rec.Key, nil)
			}
			tx.over.write(rec.Family, rec.Key, rec.ValueOffset+shift, 0, deleted)
		case batch.DeleteRange:
			if rec.Family == cf.Metadata {
				if err := tx.countOff(rec.Key, rec.Value); err != nil {
					return err
				}
			}
			if rec.Family == cf.Search {
				tx.changeNodes()
			}
			tx.over.deleteRange(rec.Family, rec.Key, rec.Value)
		}
	}
	return r.Err()
}

// acquireForUpdates takes the locks for several batches.
func (tx *Tx) acquireForUpdates(updates []*ExternalBatch, stop <-chan struct{}) error {
	for {
		err := tx.usable()
		if err != nil {
			return err
		}
		all := ExternalBatch{}
		for _, b := range updates {
			all.allLocks = all.allLocks || b.allLocks
			all.locks = append(all.locks, b.locks...)
		}
		all.compactLocks()
		if err = tx.AcquireFor(&all); err == nil {
			return nil
		}
		tx.Release() // Replace waits for transactions that have begun
		select {
		case <-stop:
			return err
		case <-time.After(lockedRetry):
		}
		tx.Begin("")
	}
}

// HoldsNSKey reports whether the transaction has the lock of a metadata key for writing.
func (tx *Tx) HoldsNSKey(nsKey []byte) bool { return tx.locks.Writes(tx.db.locks.Name(nsKey)) }
