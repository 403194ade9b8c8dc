package engine

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// Scripts call commands one after the other and may touch keys that nobody has declared. What is here lets them take
// locks on the way, keep those that they have, and undo everything at once.

// HoldsAll reports whether the transaction has every lock, see AcquireAll.
func (tx *Tx) HoldsAll() bool { return tx.locks.all }

// TryRLock takes one more lock for reading if that is possible without waiting, and reports whether the transaction
// has it, for reading or writing.
func (tx *Tx) TryRLock(userKey []byte) bool {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	i := tx.db.locks.index(tx.keyBuf)
	if tx.locks.holds(i) || slices.Contains(tx.locks.held, i<<1|1) {
		return true
	}
	if !tx.db.locks.stripes[i].TryRLock() {
		return false
	}
	tx.locks.held = append(tx.locks.held, i<<1|1)
	return true
}

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
