package engine

import (
	"github.com/basaltdb/basalt/cf"
)

// An expired key is gone for everybody at the moment of its expiry, and its record goes with some compaction after
// that. Who wants to know when keys expire watches for them with the functions of this file.

// expiryHook is told of committed records that have an expiry.
type expiryHook func(ns string, userKey []byte, at int64)

// OnExpiry sets a function that is called for every committed record of a key that expires or has fields that do, in
// milliseconds since the epoch, while the key's lock is held: it must be quick, and copy the key. nil ends that.
func (db *DB) OnExpiry(f func(ns string, userKey []byte, at int64)) {
	if f == nil {
		db.expiry.Store(nil)
		return
	}
	h := expiryHook(f)
	db.expiry.Store(&h)
}

// OnFieldsExpired sets a function that is called when fields of a hash that have expired were deleted by a transaction
// that came by, after its commit, while the key's lock is held: it must be quick, and copy the key. nil ends that.
func (db *DB) OnFieldsExpired(f func(ns string, userKey []byte)) {
	if f == nil {
		db.fieldsExpired.Store(nil)
		return
	}
	db.fieldsExpired.Store(&f)
}

// FieldsExpired is for package hash: the transaction deletes fields of a hash that have expired. It may be called
// several times for one key.
func (tx *Tx) FieldsExpired(userKey []byte) {
	f := tx.db.fieldsExpired.Load()
	if f == nil {
		return
	}
	ns, key := tx.ns, string(userKey)
	tx.OnCommit(func() { (*f)(ns, []byte(key)) })
}

// firstExpiry returns when the key of a metadata record expires or the first of its fields, 0 = never. Of fields, it may
// be a time at which none does, but not one after.
func firstExpiry(value []byte) int64 {
	m, tail, err := cf.DecodeMeta(value)
	if err != nil {
		return 0
	}
	at := m.End()
	if m.Type == cf.TypeHash && len(tail) > 0 && m.Size > 0 {
		t, _, err := cf.DecodeHashTail(tail)
		if err == nil && t.Lower != 0 && m.Size > t.Persist && (at == 0 || t.Lower < at) {
			at = t.Lower
		}
	}
	return int64(at)
}

// reportExpiries calls the hook for what the transaction has committed.
func (tx *Tx) reportExpiries(f expiryHook) {
	for i := range tx.over.ents {
		e := &tx.over.ents[i]
		if e.kind != written || e.id != cf.Metadata {
			continue
		}
		at := firstExpiry(tx.over.valueOf(e))
		if at == 0 {
			continue
		}
		if ns, key, err := cf.SplitNSKey(tx.over.keyOf(e), tx.db.slots); err == nil {
			f(string(ns), key, at)
		}
	}
}

// EachExpiring calls f for the keys that expire, or have fields that do, at until (ms) or before, or have expired, until
// it returns false or the database is closed or interrupted.
func (db *DB) EachExpiring(until int64, f func(ns, userKey []byte, at int64) bool) error {
	tx := db.NewTx()
	tx.Begin("")
	defer tx.Release()
	it := tx.Iter(cf.Metadata, IterOptions{ValueMax: cf.MaxHead, NoFill: true})
	defer it.Close()
	for n := 0; it.Next(); n++ {
		if n&1023 == 0 && (db.interrupted.Load() || db.isClosing()) {
			break
		}
		at := firstExpiry(it.Value())
		if at == 0 || at > until {
			continue
		}
		ns, key, err := cf.SplitNSKey(it.Key(), db.slots)
		if err == nil && !f(ns, key, at) {
			break
		}
	}
	return it.Err()
}

// DeleteExpired deletes the record of a key if it has expired, and reports whether it has done so; and whether it was a
// hash whose fields have all expired, while the key itself had no expiry or a later one.
func (db *DB) DeleteExpired(ns string, userKey []byte) (deleted, byFields bool, err error) {
	err = db.Update(ns, [][]byte{userKey}, func(tx *Tx) error {
		rec, err := tx.Look(userKey)
		if err != nil || rec.Exists {
			return err
		}
		value, found, err := tx.get(cf.Metadata, rec.NSKey(), cf.MaxHead)
		if err != nil || !found {
			return err
		}
		m, _, err := cf.DecodeMeta(value)
		if err != nil || m.End() == 0 || int64(m.End()) > tx.Now() {
			return err
		}
		byFields = !m.Expired(tx.Now())
		tx.LogData(cf.LogDel)
		tx.Drop(&rec)
		deleted = true
		return nil
	})
	return deleted && err == nil, byFields, err
}
