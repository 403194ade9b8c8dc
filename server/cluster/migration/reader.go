package migration

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// reader reads keys of slots as a snapshot holds them.
type reader struct {
	db   *engine.DB
	snap *engine.Snapshot
	seq  uint64 // of the newest write that it sees
	now  int64  // its time, milliseconds
	keys *engine.Tx
	subs *engine.Tx
}

func newReader(db *engine.DB, now int64) *reader {
	r := &reader{db: db, snap: db.NewSnapshot(), now: now, keys: db.NewTx(), subs: db.NewTx()}
	r.seq = r.snap.Sequence()
	return r
}

func (r *reader) close() {
	r.keys.End()
	r.subs.End()
	r.snap.Close()
}

// key is a key of a slot. The slices are valid until the next one is read.
type key struct {
	nsKey  []byte
	name   []byte // as clients know it
	record []byte // its metadata record
	meta   cf.Meta
	tail   []byte // of the record, behind what all have
}

func parseKey(nsKey, record []byte) (k key, err error) {
	k.nsKey, k.record = nsKey, record
	if _, k.name, err = cf.SplitNSKey(nsKey, true); err != nil {
		return k, err
	}
	if k.meta, k.tail, err = cf.DecodeMeta(record); err != nil {
		return k, fmt.Errorf("key %q: %w", k.name, err)
	}
	return k, nil
}

// live reports whether a key was there at the time of the snapshot. One that has expired since counts: a PERSIST may
// have come before its end, and its elements are not in the log.
func (r *reader) live(k *key) bool { return k.meta.Live(r.now) }

// each calls f for all live keys of a range of slots, in the order of their slots.
func (r *reader) each(slots cf.SlotRange, f func(k *key) error) error {
	lower, upper := engine.SlotBounds(slots)
	r.keys.Begin(cf.DefaultNamespace)
	defer r.keys.Release()
	it := r.keys.Iter(cf.Metadata, engine.IterOptions{Lower: lower, Upper: upper, Snapshot: r.snap, NoFill: true})
	defer it.Close()
	for it.Next() {
		k, err := parseKey(it.Key(), it.Value())
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

// find returns a key, nil when it is not there.
func (r *reader) find(nsKey []byte) (*key, error) {
	r.keys.Begin(cf.DefaultNamespace)
	defer r.keys.Release()
	it := r.keys.Iter(cf.Metadata, engine.IterOptions{Lower: nsKey, Upper: append(append([]byte(nil), nsKey...), 0),
		Snapshot: r.snap, Limit: 1})
	defer it.Close()
	if !it.Next() {
		return nil, it.Err()
	}
	k, err := parseKey(append([]byte(nil), nsKey...), append([]byte(nil), it.Value()...))
	if err != nil || !r.live(&k) {
		return nil, err
	}
	return &k, nil
}

// subFamily returns where a type has its elements; ok is false when it has none.
func subFamily(t cf.Type) (id cf.ID, ok bool) {
	switch {
	case t.SingleRecord():
		return 0, false
	case t == cf.TypeStream:
		return cf.Stream, true
	}
	return cf.Default, true
}

// element is a record of a collection.
type element struct {
	family cf.ID
	key    []byte // whole
	sub    []byte // what tells it from others of the collection
	value  []byte
}

// elements calls f for all records of a collection but those of zset_score, which follow from the others.
func (r *reader) elements(k *key, f func(e *element) error) error {
	id, ok := subFamily(k.meta.Type)
	if !ok {
		return nil
	}
	r.subs.Begin(cf.DefaultNamespace)
	defer r.subs.Release()
	prefix := cf.AppendSubkeyPrefix(nil, k.nsKey, true, k.meta.Version)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	it := r.subs.Iter(id, engine.IterOptions{Lower: prefix, Upper: upper, Snapshot: r.snap, NoFill: true})
	defer it.Close()
	e := element{family: id}
	for it.Next() {
		e.key, e.value = it.Key(), it.Value()
		e.sub = e.key[len(prefix):]
		if err := f(&e); err != nil {
			return err
		}
	}
	return it.Err()
}
