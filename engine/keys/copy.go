package keys

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ErrNoSuchKey is returned by Rename when the key does not exist.
var ErrNoSuchKey = engine.NewError("ERR", "no such key")

// ErrBound is the error for a key of a type that a newer version has made: other records may refer to its name.
var ErrBound = engine.NewError("ERR",
	"a key of this type can be neither renamed, moved nor copied: other records may refer to its name")

// Rename renames a key, including its expiry, and reports whether it did. An existing key with the new name is
// replaced, or with keep, nothing is changed. Renaming a key to itself has no effect.
//
// All records of the key are written again, in one batch.
func Rename(tx *engine.Tx, from, to []byte, keep bool) (bool, error) {
	src, err := tx.LoadHead(from)
	if err != nil {
		return false, err
	}
	if !src.Exists {
		return false, ErrNoSuchKey
	}
	if err := movable(tx, &src); err != nil {
		return false, err
	}
	if string(from) == string(to) {
		return !keep, nil
	}
	if keep {
		dst, err := tx.LoadHead(to)
		if err != nil || dst.Exists {
			return false, err
		}
	}
	logType(tx, &src)
	return true, move(tx, &src, func() error { return write(tx, &src, to, false, tx.BatchError) })
}

// move drops src and writes the copy. If the Rest of the record was not loaded, it writes first, because write reads
// the Rest.
func move(tx *engine.Tx, src *engine.Record, write func() error) error {
	if src.Rest == 0 {
		tx.Drop(src)
		return write()
	}
	err := write()
	if err == nil {
		tx.Drop(src)
	}
	return err
}

// Move moves a key to another namespace, including its expiry, and reports whether it did. It does nothing if the key
// does not exist, or if the other namespace has a key of this name. The transaction must hold the locks of both keys,
// see [engine.Tx.AddLockIn].
//
// All records of the key are written again, in one batch.
func Move(tx *engine.Tx, key []byte, ns string) (bool, error) {
	if ns == tx.Namespace() {
		return false, nil
	}
	src, err := tx.LoadHead(key)
	if err != nil || !src.Exists {
		return false, err
	}
	if err := movable(tx, &src); err != nil {
		return false, err
	}
	if there, err := existsIn(tx, ns, key); err != nil || there {
		return false, err
	}
	logType(tx, &src)
	return true, move(tx, &src, func() error {
		return tx.InNamespace(ns, func() error { return write(tx, &src, key, false, tx.BatchError) })
	})
}

// Copy copies a key, including its expiry, and reports whether it did. It does nothing if the source does not exist, or
// if the destination exists and replace is false. The two keys must differ.
func Copy(tx *engine.Tx, from, to []byte, replace bool) (bool, error) {
	return CopyTo(tx, from, tx.Namespace(), to, replace)
}

// CopyTo is Copy to a key of any namespace. The transaction must hold the locks of both keys, see
// [engine.Tx.AddLockIn].
func CopyTo(tx *engine.Tx, from []byte, ns string, to []byte, replace bool) (bool, error) {
	src, err := tx.LoadHead(from)
	if err != nil || !src.Exists {
		return false, err
	}
	if err := copyable(tx, &src); err != nil {
		return false, err
	}
	if !replace {
		if there, err := existsIn(tx, ns, to); err != nil || there {
			return false, err
		}
	}
	logType(tx, &src)
	return true, tx.InNamespace(ns, func() error { return write(tx, &src, to, false, tx.BatchError) })
}

func existsIn(tx *engine.Tx, ns string, key []byte) (there bool, err error) {
	err = tx.InNamespace(ns, func() error {
		rec, err := tx.LoadHead(key)
		there = rec.Exists
		return err
	})
	return there, err
}

func logType(tx *engine.Tx, src *engine.Record) {
	if src.Type == cf.TypeHash && len(src.Tail) > 0 {
		tx.LogData(cf.LogHashTTL)
		return
	}
	var text [2]byte
	tx.LogData(cf.AppendLogType(text[:0], src.Type))
}

// write writes the record and all subkeys of src under the key to of the transaction's namespace. If the Rest of the
// record was not loaded, src must still exist. The iteration is streamed; the batch holds everything, because it is
// committed at once. So full is asked before each subkey, not after gigabytes; its error ends the copy.
//
// Kvrocks keeps the version. Here the copy gets a new version: the destination key may have old subkeys of the same
// version, if it was a copy of the same key before, and they would become visible again.
//
// With rules, a time series keeps its rules and its source.
func write(tx *engine.Tx, src *engine.Record, to []byte, rules bool, full func() error) error {
	dst := tx.Fresh(to, src.Type)
	version := dst.Version
	dst.Meta = src.Meta
	dst.Version = version
	if src.Type == cf.TypeTimeSeries && !rules {
		if err := saveWithoutSource(tx, &dst, src.Tail); err != nil {
			return err
		}
	} else if _, err := tx.SaveFrom(&dst, src, len(src.Tail)+src.Rest); err != nil || src.Type.SingleRecord() {
		return err
	}
	id := src.Type.Family()
	it := tx.Iter(id, engine.IterOptions{Prefix: tx.SubkeyPrefix(src), NoFill: src.Size > fillMax})
	defer it.Close()
	var scoreKey []byte
	for it.Next() {
		if err := full(); err != nil {
			return err
		}
		sub, value := it.Key(), it.Value()
		if src.Type == cf.TypeTimeSeries {
			keep, err := followSeries(tx, to, sub, value, rules)
			if err != nil {
				return err
			}
			if !keep {
				continue
			}
		}
		tx.PutSubkey(&dst, id, tx.Subkey(&dst, sub), value)
		if src.Type == cf.TypeZSet {
			if len(value) != 8 {
				return fmt.Errorf("key %q: the score of a member has %d bytes", tx.UserKey(src), len(value))
			}
			// The value is the score in the encoding of the index.
			scoreKey = append(append(append(scoreKey[:0], tx.SubkeyPrefix(&dst)...), value...), sub...)
			tx.PutSubkey(&dst, cf.ZSetScore, scoreKey, nil)
		}
	}
	return it.Err()
}

// fillMax is the size of a collection above which a copy does not fill the block cache.
const fillMax = 10000
