package engine

// Scripts call commands one after the other and may touch keys that nobody has declared. What is here lets them take
// locks on the way, keep those that they have, and undo everything at once.

// HoldsAll reports whether the transaction has every lock, see AcquireAll.
func (tx *Tx) HoldsAll() bool { return tx.locks.all }

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
