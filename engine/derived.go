package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/derived"
)

// State that was derived from collections is in one registry, see package derived. A state belongs to a prefix of
// subkeys, which holds database, namespace, key and version: a key that is deleted, renamed or made anew never meets
// an old one. Beyond that there are two rules of validity.
//
// State that writers keep current, at once with what they write, is stamped with the epoch of the bucket of the key's
// lock. The epoch grows when it may have followed writes that never come (a rollback, a transaction that is dropped,
// a failed commit), or when it has not followed some that do (a batch from outside). So only collections of the same
// bucket are forgotten with the one that was written. What changes all keys (FLUSHALL) clears the registry.
//
// State that nobody keeps current is stamped with the generation of the bucket, see [Tx.ReadGeneration], and is gone
// with the next write.

// Derived returns the registry.
func (db *DB) Derived() *derived.Registry { return db.derived }

// epoch returns the stamp of the states of a key, given by its metadata key, that writers keep current.
func (db *DB) epoch(nsKey []byte) uint64 { return db.locks.Epoch(db.locks.Name(nsKey)).Load() }

// FindState returns the state of a collection that writers keep current, nil when there is none. The key's lock is
// held.
func FindState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record) (p P) {
	if !k.Any(tx.db.derived) {
		return p
	}
	return k.Find(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(rec.key))
}

// HaveState is FindState for writers, who keep the state current but have no use for it.
func HaveState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record) (p P) {
	if !k.Any(tx.db.derived) {
		return p
	}
	return k.Have(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(rec.key))
}

// KeepState puts a state of a collection that writers keep current from now on. The key's lock is held.
func KeepState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record, p P, bytes int) bool {
	return k.Put(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(rec.key), p, bytes)
}

// WorthState reports whether a state of so many bytes should be made, see [derived.Kind.Worth].
func WorthState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record, bytes int) bool {
	return k.Worth(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(rec.key), bytes)
}

// AskedState notes that a state was wanted, see [derived.Kind.Asked].
func AskedState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record) {
	k.Asked(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(rec.key))
}

// doubt forgets what may have been derived from what the transaction has written and not committed. The locks are
// still held.
func (tx *Tx) doubt() {
	forget := func(id cf.ID, key []byte) {
		switch id {
		case cf.Metadata:
		case cf.Default, cf.ZSetScore, cf.Stream:
			var err error
			if key, err = cf.AppendNSKeyOf(tx.keyBuf[:0], key, tx.db.slots); err != nil {
				return // no subkey: nothing is derived from it
			}
			tx.keyBuf = key
		default:
			return
		}
		tx.db.locks.Epoch(tx.db.locks.Name(key)).Add(1)
	}
	for i := range tx.over.ents {
		if e := &tx.over.ents[i]; e.kind >= written {
			forget(e.id, tx.over.keyOf(e))
		}
	}
	for _, r := range tx.over.ranges {
		if r.id == cf.Metadata {
			tx.db.derived.Clear()
		} else {
			forget(r.id, r.begin)
		}
	}
}

// forget forgets what may have been derived from what a batch changes. Its locks are held.
func (tx *Tx) forget(b *ForeignBatch) {
	if b.allLocks {
		tx.db.derived.Clear()
		return
	}
	for _, name := range b.locks {
		tx.db.locks.Epoch(name).Add(1)
	}
}
