// Package keys has the operations on keys of any type: delete, expire, copy, rename, find.
//
// The functions work in a transaction that holds the locks of the keys. They take the users' keys; the transaction
// knows the namespace. A key exists when it has a record in the metadata family that has not expired and is not that of
// an empty collection. The functions read only that record, except when they copy a key.
//
// A caller that works on many keys calls [engine.Tx.Prefetch] with them first, so that their records are read in
// batches.
package keys

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Del deletes keys of any type and returns how many existed. It deletes only the metadata records; the subkeys become
// unreachable, and compaction drops them.
func Del(tx *engine.Tx, keys ...[]byte) (int, error) {
	n := 0
	for _, k := range keys {
		rec, err := tx.LoadHead(k)
		if err != nil {
			return n, err
		}
		if !rec.Exists {
			continue
		}
		if n == 0 {
			tx.LogData(cf.LogDel)
		}
		tx.Drop(&rec)
		n++
	}
	return n, nil
}

// Exists returns how many of the keys exist; a repeated key counts repeatedly.
func Exists(tx *engine.Tx, keys ...[]byte) (int, error) {
	n := 0
	for _, k := range keys {
		rec, err := tx.LoadHead(k)
		if err != nil {
			return n, err
		}
		if rec.Exists {
			n++
		}
	}
	return n, nil
}

// TypeOf returns the type of a key, TypeNone when the key does not exist.
func TypeOf(tx *engine.Tx, key []byte) (cf.Type, error) {
	rec, err := tx.LoadHead(key)
	return rec.Type, err
}

// ExpireTime returns when a key expires, in milliseconds since the epoch, 0 = never.
func ExpireTime(tx *engine.Tx, key []byte) (at uint64, exists bool, err error) {
	rec, err := tx.LoadHead(key)
	return rec.Expire, rec.Exists, err
}

// Condition restricts when Expire changes an expiry. Several conditions must all hold.
type Condition uint8

// The conditions.
const (
	IfNone    Condition = 1 << iota // the key has no expiry
	IfSome                          // the key has an expiry
	IfLater                         // the new expiry is later; no expiry counts as the latest
	IfEarlier                       // the new expiry is earlier
)

func (c Condition) allows(old uint64, at int64) bool {
	has := old != 0
	switch {
	case c&IfNone != 0 && has, c&IfSome != 0 && !has:
		return false
	case c&IfLater != 0 && (!has || at < 0 || uint64(at) <= old):
		return false
	case c&IfEarlier != 0 && has && at >= 0 && uint64(at) >= old:
		return false
	}
	return true
}

// Expire sets the expiry of a key, in milliseconds since the epoch, and reports whether it did. A time in the past
// deletes the key.
//
// Only the metadata record is rewritten, whatever the type and the size of the key.
func Expire(tx *engine.Tx, key []byte, at int64, when Condition) (bool, error) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists || !when.allows(rec.Expire, at) {
		return false, err
	}
	if at <= tx.Now() {
		tx.LogData(cf.LogDel)
		tx.Drop(&rec)
		return true, nil
	}
	return true, setExpire(tx, &rec, uint64(at))
}

// Persist removes the expiry of a key and reports whether it had one.
func Persist(tx *engine.Tx, key []byte) (bool, error) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists || rec.Expire == 0 {
		return false, err
	}
	return true, setExpire(tx, &rec, 0)
}

func setExpire(tx *engine.Tx, rec *engine.Record, at uint64) error {
	rec.Expire = at
	tx.LogData(cf.LogExpire)
	return tx.SaveHead(rec)
}
