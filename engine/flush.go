package engine

import (
	"bytes"
	"time"

	"github.com/basaltdb/basalt/cf"
)

// FlushNamespace deletes all keys of a namespace. It waits for the running transactions and meanwhile holds off new
// ones.
func (db *DB) FlushNamespace(ns string) error {
	return db.exclusive(ns, func(tx *Tx) error { return tx.FlushNamespace() })
}

// FlushAll deletes all keys of all namespaces.
func (db *DB) FlushAll() error {
	return db.exclusive(cf.DefaultNamespace, func(tx *Tx) error { return tx.FlushAll() })
}

// exclusive runs f in a transaction that holds all locks, and commits it.
func (db *DB) exclusive(ns string, f func(tx *Tx) error) error {
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	if err := tx.AcquireAll(); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// AcquireAll takes the locks of all keys, existing or not, in place of the requested locks. The error is as that of
// Acquire.
func (tx *Tx) AcquireAll() error {
	if err := tx.locks.AcquireAll(tx.db.locks); err != nil {
		return err
	}
	tx.cacheOK = true
	return nil
}

// FlushNamespace deletes all keys of the transaction's namespace, the transaction's own writes so far included, by one
// range tombstone over the metadata records. AcquireAll must have been called.
func (tx *Tx) FlushNamespace() error {
	prefix := cf.AppendNSPrefix(nil, tx.ns)
	end, ok := cf.AppendSuccessor(nil, prefix)
	if !ok {
		return NewError("ERR", "the namespace cannot be flushed: its name has no successor")
	}
	tx.deltas = append(tx.deltas, countDelta{c: tx.counter(), kind: keysGone, now: time.Now().UnixMilli()})
	tx.flushRange(prefix, end)
	tx.OnCommit(func() { tx.db.flushes.Add(1) })
	return nil
}

// FlushAll deletes all keys of all namespaces. AcquireAll must have been called.
//
// FlushAll does not look up the first and the last key: their records may have hundreds of megabytes, and RocksDB reads
// a whole record to find its key. If nothing was written since the last FlushAll it does nothing.
func (tx *Tx) FlushAll() error {
	if err := tx.usable(); err != nil {
		return err
	}
	if tx.Empty() && tx.db.LatestSequence() == tx.db.flushedAt.Load() {
		return nil
	}
	end := metadataEnd
	if tx.db.counts.find(lastNamespace) != nil || tx.db.counts.partial.Load() {
		it := tx.Iter(cf.Metadata, IterOptions{KeysOnly: true, Limit: 1, Reverse: true})
		if it.Next() && bytes.Compare(it.Key(), end) >= 0 {
			end = append(bytes.Clone(it.Key()), 0)
		}
		it.Close()
		if err := it.Err(); err != nil {
			return err
		}
	}
	now := time.Now().UnixMilli()
	tx.db.counts.mu.RLock()
	for _, c := range tx.db.counts.byNS {
		tx.deltas = append(tx.deltas, countDelta{c: c, kind: keysGone, now: now})
	}
	tx.db.counts.mu.RUnlock()
	tx.flushRange(nil, end)
	tx.OnCommit(func() { tx.db.flushes.Add(1) })
	records := tx.batch.Count()
	tx.OnCommit(func() {
		// The locks are still held, so no other transaction has written a key. Later writes of this transaction are not
		// deleted.
		if tx.batch.Count() == records {
			tx.db.flushedAt.Store(tx.db.LatestSequence())
			tx.db.counts.partial.Store(false)
		}
	})
	return nil
}

// metadataEnd is above all keys but those of one namespace: the one with the longest possible name, of 0xff bytes only.
var (
	metadataEnd   = bytes.Repeat([]byte{0xff}, 256)
	lastNamespace = string(metadataEnd[:255])
)

// Flushes returns how often all keys of a namespace, or of the database, were deleted since the database was opened, or
// replaced by those of another database.
func (db *DB) Flushes() uint64 { return db.flushes.Load() }

func (tx *Tx) flushRange(begin, end []byte) {
	tx.DeleteRange(cf.Metadata, begin, end)
	tx.touched = append(tx.touched, touch{all: true})
	tx.OnCommit(tx.db.derived.Clear) // each range delete clears the record cache anyway
}
