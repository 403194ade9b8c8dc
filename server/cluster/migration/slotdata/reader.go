// Package slotdata reads the data of slots: the keys of a snapshot, and the changes in the log.
package slotdata

import (
	"bytes"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Reader reads the keys of slots from a snapshot.
type Reader struct {
	db   *engine.DB
	snap *engine.Snapshot
	Seq  uint64 // sequence number of the newest write in the snapshot
	now  int64  // time of the snapshot in Unix milliseconds
	keys *engine.Tx
	subs *engine.Tx
}

// NewReader takes a snapshot at a time in Unix milliseconds. The reader must be closed before the database.
func NewReader(db *engine.DB, now int64) *Reader {
	r := &Reader{db: db, snap: db.NewSnapshot(), now: now, keys: db.NewTx(), subs: db.NewTx()}
	r.Seq = r.snap.Sequence()
	return r
}

func (r *Reader) Close() {
	r.keys.End()
	r.subs.End()
	r.snap.Close()
}

// Key is a key of a slot. Its slices are valid until the next key is read.
type Key struct {
	NSKey  []byte
	Name   []byte // as clients name it
	Record []byte // its metadata record
	Meta   cf.Meta
	Tail   []byte // the part of the record behind the common head
}

// ParseKey parses a metadata record.
func ParseKey(nsKey, record []byte) (k Key, err error) {
	k.NSKey, k.Record = nsKey, record
	if _, k.Name, err = cf.SplitNSKey(nsKey, true); err != nil {
		return k, err
	}
	if k.Meta, k.Tail, err = cf.DecodeMeta(record); err != nil {
		return k, fmt.Errorf("key %q: %w", k.Name, err)
	}
	return k, nil
}

// live reports whether a key existed at the time of the snapshot. A key that has expired since counts: a PERSIST may
// have come before the expiry, and the elements of the key are not in the log.
func (r *Reader) live(k *Key) bool { return k.Meta.Live(r.now) }

// Each calls f for all live keys of a range of slots, in slot order.
func (r *Reader) Each(slots cf.SlotRange, f func(k *Key) error) error {
	lower, upper := engine.SlotBounds(slots)
	r.keys.Begin(cf.DefaultNamespace)
	defer r.keys.Release()
	it := r.keys.Iter(cf.Metadata, engine.IterOptions{Lower: lower, Upper: upper, Snapshot: r.snap, NoFill: true})
	defer it.Close()
	for it.Next() {
		k, err := ParseKey(it.Key(), it.Value())
		if err != nil {
			return err
		}
		if !r.live(&k) {
			continue
		}
		if err := f(&k); err != nil {
			return err
		}
	}
	return it.Err()
}

// Size returns the approximate size in bytes of a range of slots in a family.
func (r *Reader) Size(id cf.ID, slots cf.SlotRange) uint64 {
	lower, upper := engine.SlotBounds(slots)
	return r.db.ApproximateSize(id, lower, upper)
}

// Find returns a key, nil when it does not exist.
func (r *Reader) Find(nsKey []byte) (*Key, error) {
	r.keys.Begin(cf.DefaultNamespace)
	defer r.keys.Release()
	it := r.keys.Iter(cf.Metadata, engine.IterOptions{Lower: nsKey, Upper: append(append([]byte(nil), nsKey...), 0),
		Snapshot: r.snap, Limit: 1})
	defer it.Close()
	if !it.Next() {
		return nil, it.Err()
	}
	k, err := ParseKey(append([]byte(nil), nsKey...), append([]byte(nil), it.Value()...))
	if err != nil || !r.live(&k) {
		return nil, err
	}
	return &k, nil
}

// Element is one record of a collection.
type Element struct {
	Family cf.ID
	Key    []byte // the whole internal key
	Sub    []byte // the part of the key that follows the prefix of the collection
	Value  []byte
}

// Elements calls f for all records of a collection, except those of zset_score, which follow from the others.
func (r *Reader) Elements(k *Key, f func(e *Element) error) error {
	if k.Meta.Type.SingleRecord() {
		return nil
	}
	id := k.Meta.Type.Family()
	r.subs.Begin(cf.DefaultNamespace)
	defer r.subs.Release()
	prefix := cf.AppendSubkeyPrefix(nil, k.NSKey, true, k.Meta.Version)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	it := r.subs.Iter(id, engine.IterOptions{Lower: prefix, Upper: upper, Snapshot: r.snap, NoFill: true})
	defer it.Close()
	e := Element{Family: id}
	for it.Next() {
		e.Key, e.Value = it.Key(), it.Value()
		e.Sub = e.Key[len(prefix):]
		if err := f(&e); err != nil {
			return err
		}
	}
	return it.Err()
}

// Subkeys calls f for the records in a family that belong to live keys of a range of slots, in key order.
func (r *Reader) Subkeys(id cf.ID, slots cf.SlotRange, f func(key, value []byte) error) error {
	lower, upper := engine.SlotBounds(slots)
	r.subs.Begin(cf.DefaultNamespace)
	defer r.subs.Release()
	it := r.subs.Iter(id, engine.IterOptions{Lower: lower, Upper: upper, Snapshot: r.snap, NoFill: true})
	defer it.Close()
	var prefix, nsKey []byte // of the current collection
	wanted := false
	for it.Next() {
		if len(prefix) == 0 || !bytes.HasPrefix(it.Key(), prefix) {
			sub, err := cf.ParseSubkey(it.Key(), true)
			if err != nil {
				return err
			}
			prefix = append(prefix[:0], it.Key()[:len(it.Key())-len(sub.Sub)]...)
			if nsKey, err = cf.AppendNSKeyOf(nsKey[:0], prefix, true); err != nil {
				return err
			}
			k, err := r.Find(nsKey)
			if err != nil {
				return err
			}
			own, holds := cf.ID(0), false
			if k != nil {
				own, holds = k.Meta.Type.Family(), !k.Meta.Type.SingleRecord()
			}
			wanted = holds && k.Meta.Version == sub.Version &&
				(own == id || id == cf.ZSetScore && k.Meta.Type == cf.TypeZSet)
		}
		if !wanted {
			continue
		}
		if err := f(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Err()
}

// UserKey returns the key as clients name it.
func UserKey(nsKey []byte) []byte {
	_, key, err := cf.SplitNSKey(nsKey, true)
	if err != nil {
		return nsKey
	}
	return key
}
