package engine

import (
	"github.com/basaltdb/basalt/cf"
)

// An expired key is gone for everybody at the moment of its expiry, and its record goes with some compaction after
// that. Who wants to know when keys expire watches for them with the functions of this file.

// expiryHook is told of committed records that have an expiry.
type expiryHook func(ns string, userKey []byte, at int64)

// OnExpiry sets a function that is called for every committed record with an expiry, in milliseconds since the epoch,
// while the key's lock is held: it must be quick, and copy the key. nil ends that.
func (db *DB) OnExpiry(f func(ns string, userKey []byte, at int64)) {
	if f == nil {
		db.expiry.Store(nil)
		return
	}
	h := expiryHook(f)
	db.expiry.Store(&h)
}

// reportExpiries calls the hook for what the transaction has committed.
func (tx *Tx) reportExpiries(f expiryHook) {
	for i := range tx.over.ents {
		e := &tx.over.ents[i]
		if e.kind != written || e.id != cf.Metadata {
			continue
		}
		m, _, err := cf.DecodeMeta(tx.over.valueOf(e))
		if err != nil || m.End() == 0 {
			continue
		}
		if ns, key, err := cf.SplitNSKey(tx.over.keyOf(e), tx.db.slots); err == nil {
			f(string(ns), key, int64(m.End()))
		}
	}
}

// EachExpiring calls f for the keys that expire at until (ms) or before, or have expired, until it returns false or
// the database is closed or interrupted.
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
		m, _, err := cf.DecodeMeta(it.Value())
		if err != nil || m.End() == 0 || int64(m.End()) > until {
			continue
		}
		ns, key, err := cf.SplitNSKey(it.Key(), db.slots)
		if err == nil && !f(ns, key, int64(m.End())) {
			break
		}
	}
	return it.Err()
}

// DeleteExpired deletes the record of a key if it has expired, and reports whether it has done so.
func (db *DB) DeleteExpired(ns string, userKey []byte) (deleted bool, err error) {
	err = db.Update(ns, [][]byte{userKey}, func(tx *Tx) error {
		rec, err := tx.LoadAny(userKey)
		if err != nil || rec.Exists {
			return err
		}
		value, found, err := tx.Get(cf.Metadata, rec.NSKey())
		if err != nil || !found {
			return err
		}
		m, _, err := cf.DecodeMeta(value)
		if err != nil || m.End() == 0 || int64(m.End()) > tx.Now() {
			return err
		}
		tx.LogData(cf.LogDel)
		tx.Drop(&rec)
		deleted = true
		return nil
	})
	return deleted && err == nil, err
}
