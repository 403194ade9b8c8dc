package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/lock"
)

// Scripts call commands one after the other and may touch keys that nobody has declared. What is here lets them take
// locks on the way, keep those that they have, and undo everything at once.

// HoldsAll reports whether the transaction has every lock, see AcquireAll.
func (tx *Tx) HoldsAll() bool { return tx.locks.All() }

// AppendLocks appends the locks that the transaction has, if it has not all, for AddLocks of a later transaction.
func (tx *Tx) AppendLocks(to []Lock) []Lock {
	return append(to, tx.locks.Held()...)
}

// LockIn returns the lock of a key of a namespace.
func (tx *Tx) LockIn(ns string, userKey []byte, write bool) Lock {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], ns, userKey, tx.db.slots)
	return lock.Of(tx.db.locks.Name(tx.keyBuf), write)
}

// AddLocks asks for locks, as AddLock does.
func (tx *Tx) AddLocks(locks []Lock) { tx.locks.Add(locks...) }

// SavepointIn is Savepoint, but the transaction can still be rolled back to outer, an earlier one.
func (tx *Tx) SavepointIn(outer Mark) Mark {
	// An overwrite of what was written after outer is of no use to it: that is cut off.
	kept := tx.undo[:tx.mark.undo]
	for _, u := range tx.undo[tx.mark.undo:] {
		if u.at < outer.at {
			kept = append(kept, u)
		}
	}
	tx.undo = kept
	tx.mark = Mark{batch: tx.batch.Mark(), at: tx.batch.Len(), deltas: len(tx.deltas), touched: len(tx.touched), hooks: len(tx.hooks), undo: len(kept)}
	return tx.mark
}
