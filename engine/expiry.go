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

// firstExpiry returns when the key of a metadata record expires or the first of its fields, 0 = never. Of fields, it
// may be a time at which none does, but not one after.
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

// NextEnd returns from when on a key, or a field of it that is there now, is no longer there if nobody writes to it, in
// milliseconds since the epoch, 0 = never. Of fields, it may be a time at which none goes, but not one after. If some
// that have expired are still stored, a hash of up to most fields is gone over, and of a bigger one only the key's
// end counts.
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

// firstField returns when the first of those fields expires that have not yet, 0 = never.
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

// EachExpiring calls f for the keys that expire, or have fields that do, at until (ms) or before, or have expired,
// until it returns false or the database is closed or interrupted.
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

// Ended says why a key is gone whose record is still there.
type Ended uint8

// The ends of a key.
const (
	NotEnded      Ended = iota // it is live, or there is no record
	KeyExpired                 // its expiry has passed
	FieldsExpired              // all fields of the hash have expired, before the key itself
)

// Ended returns why a key has ended that nobody has deleted. A writer who puts something else in its place asks before,
// and again after: its end is noticed then, and by nobody later.
func (tx *Tx) Ended(userKey []byte) (Ended, error) {
	value, _, found, err := tx.read(cf.Metadata, tx.NSKey(userKey), cf.MaxHead, nil)
	if err != nil || !found {
		return NotEnded, err
	}
	m, _, err := cf.DecodeMeta(value)
	switch {
	case err != nil || m.End() == 0 || int64(m.End()) >= tx.Now() || m.Size == 0 && !m.Type.MayBeEmpty(): // emptied before
		return NotEnded, err
	case m.Expired(tx.Now()):
		return KeyExpired, nil
	}
	return FieldsExpired, nil
}

// DeleteExpired deletes the record of a key that has ended, and returns how; NotEnded when it has not. While the
// key's lock is held, and so both must be quick, may is called before, whose error ends it, and deleted after the
// commit. Each may be nil.
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
