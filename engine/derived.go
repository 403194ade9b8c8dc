package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/derived"
)

// State that is derived from collections is in one registry, see package derived. A state belongs to a prefix of
// subkeys, which holds database, namespace, key and version. So a key that is deleted, renamed or created anew never
// finds an old state. Beyond that two rules of validity exist.
//
// State that writers keep current together with their writes is stamped with the epoch of the bucket of the key's lock.
// The epoch grows when the state may have followed writes that are never committed (a rollback, a dropped transaction,
// a failed commit), and when the state has not followed writes that are committed (a batch from outside). So only the
// collections of one bucket are forgotten together. A change of all keys (FLUSHALL) clears the registry.
//
// State that writers do not keep current is stamped with the generation of the bucket, see [Tx.ReadGeneration], and
// becomes invalid with the next write.

// Derived returns the registry.
func (db *DB) Derived() *derived.Registry { return db.derived }

// The steps of an epoch.
const (
	epochForeign = 1       // after a batch from outside
	epochDoubt   = 1 << 32 // after writes that may not be committed
)

// followKind is the kind of the states that follow batches from outside.
var followKind = derived.Kind[derived.Follower]{ID: derived.Ranks}

// epoch returns the stamp of the states of a kind that writers keep current, for a key given by its metadata key.
func (db *DB) epoch(kind derived.ID, nsKey []byte) uint64 {
	e := db.locks.Epoch(db.locks.Name(nsKey)).Load()
	if kind == followKind.ID {
		e /= epochDoubt
	}
	return e
}

// FindState returns the state of a collection that writers keep current, nil when none exists. The key's lock must be
// held.
func FindState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record) (p P) {
	if !k.Any(tx.db.derived) {
		return p
	}
	return k.Find(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(k.ID, rec.key))
}

// HaveState is FindState for writers, which keep the state current but do not use it.
func HaveState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record) (p P) {
	if !k.Any(tx.db.derived) {
		return p
	}
	return k.Have(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(k.ID, rec.key))
}

// KeepState stores a state of a collection that writers keep current from now on. The key's lock must be held.
func KeepState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record, p P, bytes int) bool {
	return k.Put(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(k.ID, rec.key), p, bytes)
}

// WorthState reports whether a state of so many bytes should be computed, see [derived.Kind.Worth].
func WorthState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record, bytes int) bool {
	return k.Worth(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(k.ID, rec.key), bytes)
}

// AskedState notes that a state was wanted, see [derived.Kind.Asked].
func AskedState[P derived.State](tx *Tx, k derived.Kind[P], rec *Record) {
	k.Asked(tx.db.derived, tx.SubkeyPrefix(rec), tx.db.epoch(k.ID, rec.key))
}

// doubt forgets the state that may have been derived from uncommitted writes of the transaction. The locks must still
// be held.
func (tx *Tx) doubt() {
	forget := func(id cf.ID, key []byte) {
		switch id {
		case cf.Metadata:
		case cf.Default, cf.ZSetScore, cf.Stream:
			var err error
			if key, err = cf.AppendNSKeyOf(tx.keyBuf[:0], key, tx.db.slots); err != nil {
				return // not a subkey: no state is derived from it
			}
			tx.keyBuf = key
		default:
			return
		}
		tx.db.locks.Epoch(tx.db.locks.Name(key)).Add(epochDoubt)
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

// forget forgets the state that may have been derived from the keys that a batch changes, unless it follows the batch.
// The locks of the batch must be held.
func (tx *Tx) forget(b *ExternalBatch) {
	if b.allLocks {
		tx.db.derived.Clear()
		return
	}
	for _, name := range b.locks {
		tx.db.locks.Epoch(name).Add(epochForeign)
	}
}

// follow lets the counts of a sorted set follow a record of a batch from outside, before the transaction has it. Only
// an entry that appears or goes counts: Kvrocks also puts entries that exist.
func (tx *Tx) follow(rec *batch.Record) error {
	if rec.Family != cf.ZSetScore || !followKind.Any(tx.db.derived) {
		return nil
	}
	sub, err := cf.ParseSubkey(rec.Key, tx.db.slots)
	if err == nil {
		tx.keyBuf, err = cf.AppendNSKeyOf(tx.keyBuf[:0], rec.Key, tx.db.slots)
	}
	if err != nil {
		return nil // not the entry of a set: all locks are held, and forget has cleared the registry
	}
	nsKey := tx.keyBuf
	if rec.Kind == batch.DeleteRange {
		tx.db.locks.Epoch(tx.db.locks.Name(nsKey)).Add(epochDoubt)
		return nil
	}
	prefix := rec.Key[:len(rec.Key)-len(sub.Sub)]
	f := followKind.Have(tx.db.derived, prefix, tx.db.epoch(followKind.ID, nsKey))
	if f == nil {
		return nil
	}
	_, found, err := tx.Get(cf.ZSetScore, rec.Key)
	switch {
	case err != nil:
		return err
	case rec.Kind == batch.Put && !found:
		f.Follow(sub.Sub, 1)
	case rec.Kind != batch.Put && found:
		f.Follow(sub.Sub, -1)
	}
	return nil
}
