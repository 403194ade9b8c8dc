package engine

import (
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
)

// FlushNamespace deletes all keys of a namespace. It waits for the transactions that run and holds off new ones
// meanwhile.
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

// AcquireAll takes the locks of all keys that there are or may be, in place of those that were asked for. The error
// is that of a transaction that turns others away.
func (tx *Tx) AcquireAll() error {
	<-tx.db.counts.ready // the first count must not add what is deleted here
	tx.locks.want = tx.locks.want[:0]
	tx.db.locks.lockAll()
	if err := tx.db.Refusing(); err != nil {
		tx.db.locks.unlockAll()
		return err
	}
	tx.locks.all = true
	tx.cacheOK = true
	return nil
}

// FlushNamespace deletes all keys of the transaction's namespace, its own writes so far included: one range
// tombstone over the metadata records. AcquireAll must have been called.
func (tx *Tx) FlushNamespace() error {
	prefix := cf.AppendNSPrefix(nil, tx.ns)
	end, ok := cf.AppendSuccessor(nil, prefix)
	if !ok {
		return NewError("ERR", "the namespace cannot be flushed: its name has no successor")
	}
	tx.deltas = append(tx.deltas, countDelta{c: tx.counter(), reset: true, now: time.Now().UnixMilli()})
	tx.flushRange(prefix, end)
	return nil
}

// FlushAll deletes all keys of all namespaces. AcquireAll must have been called.
func (tx *Tx) FlushAll() error {
	var begin, end []byte
	for _, reverse := range []bool{false, true} {
		it := tx.Iter(cf.Metadata, IterOptions{KeysOnly: true, Limit: 1, Reverse: reverse})
		ok, err := it.Next(), it.Err()
		if ok && reverse {
			end = append(slices.Clone(it.Key()), 0)
		} else if ok {
			begin = slices.Clone(it.Key())
		}
		it.Close()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
	}
	now := time.Now().UnixMilli()
	tx.db.counts.mu.RLock()
	for _, c := range tx.db.counts.byNS {
		tx.deltas = append(tx.deltas, countDelta{c: c, reset: true, now: now})
	}
	tx.db.counts.mu.RUnlock()
	tx.flushRange(begin, end)
	return nil
}

func (tx *Tx) flushRange(begin, end []byte) {
	tx.DeleteRange(cf.Metadata, begin, end)
	tx.touched = append(tx.touched, touch{all: true})
	tx.OnCommit(tx.db.hints.clear) // the record cache is cleared with every range
}

// reset forgets all keys.
func (c *counter) reset(now int64) { c.become(newCounter(now)) }

// become takes over what another counter, which is not used any more, has counted. Transactions keep a pointer to the
// counter, so it stays the same object.
func (c *counter) become(fresh *counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exact, c.secs, c.mins, c.ttl, c.upTo, c.near = fresh.exact, fresh.secs, fresh.mins, fresh.ttl, fresh.upTo, fresh.near
	c.plain.Store(fresh.plain.Load())
}
