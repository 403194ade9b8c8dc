package engine

import (
	"math"

	"github.com/basaltdb/basalt/cf"
)

// An expired key is invisible from the moment of its expiry, and a later compaction drops its record. The functions of
// this file let a caller learn when keys expire.

// expiryHook is called for committed records that have an expiry.
type expiryHook func(ns string, userKey []byte, at int64)

// OnExpiry sets a function that is called for every committed record of a key that expires or has fields that do, with
// the time in milliseconds since the epoch. The key's lock is held during the call, so the function must be quick, and
// must copy the key. nil ends the calls.
func (db *DB) OnExpiry(f func(ns string, userKey []byte, at int64)) {
	if f == nil {
		db.expiry.Store(nil)
		return
	}
	h := expiryHook(f)
	db.expiry.Store(&h)
}

// OnFieldsExpired sets a function that is called after the commit of a transaction that has deleted expired fields of a
// hash. The key's lock is held during the call, so the function must be quick, and must copy the key. nil ends the
// calls.
func (db *DB) OnFieldsExpired(f func(ns string, userKey []byte)) {
	if f == nil {
		db.fieldsExpired.Store(nil)
		return
	}
	db.fieldsExpired.Store(&f)
}

// FieldExpired is for package hash: it counts a field that the transaction removes after its expiry.
func (tx *Tx) FieldExpired() { tx.db.Stats.ExpiredFields.Add(1) }

// FieldsExpired is for package hash: it notes that the transaction deletes expired fields of a hash. It may be called
// several times for one key.
func (tx *Tx) FieldsExpired(userKey []byte) {
	f := tx.db.fieldsExpired.Load()
	if f == nil {
		return
	}
	ns, key := tx.ns, string(userKey)
	tx.OnCommit(func() { (*f)(ns, []byte(key)) })
}

// firstExpiry returns when the key of a metadata record or the first of its fields expires, 0 = never. For fields the
// time may be earlier than the first expiry, but not later.
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
	return int64(min(at, math.MaxInt64))
}

// NextEnd returns the time from which the key, or a field that it has now, is gone if no command writes to it, in
// milliseconds since the epoch, 0 = never. For fields the time may be earlier than the first expiry, but not later. If
// expired fields may still be stored, NextEnd reads the fields of a hash of up to most fields; for a bigger hash it
// uses the end of the key.
func (tx *Tx) NextEnd(rec *Record, most uint64) uint64 {
	end := rec.Expire
	if rec.Type != cf.TypeHash || len(rec.Tail) == 0 {
		return end
	}
	t, on, err := cf.DecodeHashTail(rec.Tail)
	if err != nil || !on || rec.Size == t.Persist {
		return end
	}
	first := t.Lower
	if cf.FieldExpired(first, tx.Now()) {
		if first = t.FieldsEnd(); rec.Size <= most {
			first = tx.firstField(rec)
		}
	}
	if first != 0 && (end == 0 || first < end) {
		return first + 1
	}
	return end
}

// firstField returns the earliest expiry that lies ahead among the fields of a hash, 0 = never.
func (tx *Tx) firstField(rec *Record) (first uint64) {
	it := tx.Iter(cf.Default, IterOptions{Prefix: tx.SubkeyPrefix(rec), ValueMax: cf.HashValueHead})
	defer it.Close()
	for it.Next() {
		expire, _, err := cf.DecodeHashValue(it.Value())
		if err == nil && expire != 0 && !cf.FieldExpired(expire, tx.Now()) && (first == 0 || expire < first) {
			first = expire
		}
	}
	return first
}

// reportExpiries calls the hook for the records that the transaction has committed.
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

// EachExpiring calls f for the keys that expire, or have fields that expire, at until (ms) or before, the expired keys
// included. It stops when f returns false or the database is closed or interrupted.
func (db *DB) EachExpiring(until int64, f func(ns, userKey []byte, at int64) bool) error {
	tx := db.NewTx()
	tx.Begin("")
	defer tx.Release()
	it := tx.Iter(cf.Metadata, IterOptions{ValueMax: cf.MaxHead, NoFill: true})
	defer it.Close()
	for n := 0; it.Next(); n++ {
		if n&1023 == 0 && (db.interrupted.Load() || db.ending()) {
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

// Ended is the reason why a key is gone whose record is still stored.
type Ended uint8

// The ends of a key.
const (
	NotEnded      Ended = iota // the key is live, or has no record
	KeyExpired                 // its expiry has passed
	FieldsExpired              // all fields of the hash have expired, before the key itself
)

// Ended returns why a key that no command has deleted is gone. A writer that replaces the key calls Ended before its
// write and again after it: the end must be reported then, because no later caller can notice it.
func (tx *Tx) Ended(userKey []byte) (Ended, error) {
	value, _, found, err := tx.read(cf.Metadata, tx.NSKey(userKey), cf.MaxHead, nil)
	if err != nil || !found {
		return NotEnded, err
	}
	m, _, err := cf.DecodeMeta(value)
	switch {
	case err != nil || m.End() == 0 || m.End() >= uint64(tx.Now()):
		return NotEnded, err
	case m.Size == 0 && !m.Type.MayBeEmpty(): // emptied before
		return NotEnded, nil
	case m.Expired(tx.Now()):
		return KeyExpired, nil
	}
	return FieldsExpired, nil
}

// DeleteExpired deletes the record of a key that has ended, and returns how it has ended; NotEnded when it has not. It
// calls may before the deletion, whose error cancels it, and deleted after the commit. The key's lock is held during
// both calls, so both must be quick. Each may be nil.
func (db *DB) DeleteExpired(ns string, userKey []byte, may func() error, deleted func(Ended)) (how Ended, err error) {
	err = db.Update(ns, [][]byte{userKey}, func(tx *Tx) error {
		if may != nil {
			if err := may(); err != nil {
				return err
			}
		}
		if how, err = tx.Ended(userKey); how == NotEnded || err != nil {
			return err
		}
		rec, err := tx.LoadHead(userKey)
		if err != nil {
			return err
		}
		tx.LogData(cf.LogDel)
		tx.Drop(&rec)
		if deleted != nil {
			tx.OnCommit(func() { deleted(how) })
		}
		return nil
	})
	if err != nil {
		how = NotEnded
	}
	return how, err
}
