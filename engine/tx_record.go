package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/rocks"
)

// Record is the metadata record of one key as a transaction sees it.
type Record struct {
	cf.Meta
	// Tail is the rest of the record behind the common head: the value of a string, the type-specific fields of other
	// types. It must not be changed, and becomes invalid with a Save of the same key.
	Tail []byte
	// Rest is how many bytes of the tail are missing behind Tail, see [Tx.LoadHead].
	Rest int
	// Exists says whether the key exists: it is neither missing nor expired nor an emptied collection. If it does not
	// exist, the record has the requested type and a fresh version, ready to be filled and saved.
	Exists bool

	key    []byte // metadata key
	prefix []byte // prefix of the subkeys, made when it is first needed
}

// NSKey returns the metadata key of the record.
func (r *Record) NSKey() []byte { return r.key }

// UserKey returns the key as the user names it.
func (tx *Tx) UserKey(r *Record) []byte {
	n := 1 + int(r.key[0]) // the name of its namespace, which need not be the transaction's
	if tx.db.slots {
		n += 2
	}
	return r.key[n:]
}

// Load reads the record of a key that must be of type want. A live key of another type is [ErrWrongType]; its Tail may
// be cut off as that of [Tx.LoadHead].
func (tx *Tx) Load(userKey []byte, want cf.Type) (Record, error) {
	most := 0
	if !want.SingleRecord() { // only strings and JSON documents are long
		most = cf.MaxHead
	}
	r, err := tx.loadOf(userKey, want, most)
	if err == nil && r.Exists {
		err = tx.LoadRest(&r)
	}
	return r, err
}

// LoadShort is Load for a caller that cannot use a Tail of more than n bytes: such a Tail may be cut off as that of
// [Tx.LoadHead].
func (tx *Tx) LoadShort(userKey []byte, want cf.Type, n int) (Record, error) {
	r, err := tx.loadOf(userKey, want, cf.MaxHead)
	if err == nil && r.Exists && len(r.Tail)+r.Rest <= n {
		err = tx.LoadRest(&r)
	}
	return r, err
}

// loadOf is load of a key that must be of type want.
func (tx *Tx) loadOf(userKey []byte, want cf.Type, most int) (Record, error) {
	r, err := tx.load(userKey, most)
	if err != nil {
		return r, err
	}
	if r.Exists {
		if r.Type != want {
			err = ErrWrongType
		}
		return r, err
	}
	r.Meta = cf.Meta{Type: want}
	if !want.SingleRecord() {
		r.Version = tx.db.versions.next()
	}
	r.Tail = nil
	return r, nil
}

// LoadAny reads the record of a key of any type. When the key does not exist the record is empty, of TypeNone.
func (tx *Tx) LoadAny(userKey []byte) (Record, error) { return tx.load(userKey, 0) }

// Peek is Load for a key whose lock is not held. The record is not kept for the rest of the transaction, where it could
// be taken for that of a locked key.
func (tx *Tx) Peek(userKey []byte, want cf.Type) (Record, error) {
	r := Record{key: tx.NSKey(userKey)}
	keys := tx.Keys()
	keys.Add(r.key)
	values, err := tx.multiGet(cf.Metadata, keys, 0)
	if err != nil {
		return r, err
	}
	err = tx.decode(&r, userKey, values[0], len(values[0]), values[0] != nil)
	if err == nil && r.Exists && r.Type != want {
		err = ErrWrongType
	}
	return r, err
}

// LoadHead is LoadAny for a caller that needs no Tail. Tail may be cut off: a string of hundreds of megabytes is not
// copied to learn that it exists, or how long it is.
func (tx *Tx) LoadHead(userKey []byte) (Record, error) { return tx.load(userKey, cf.MaxHead) }

// LoadRest completes the Tail of a record whose Rest is missing. The key's lock must have been held since the read.
func (tx *Tx) LoadRest(r *Record) error {
	if r.Rest == 0 {
		return nil
	}
	value, found, err := tx.Get(cf.Metadata, r.key)
	if err != nil {
		return err
	}
	if !found {
		value = nil
	}
	_, r.Tail, err = cf.DecodeMeta(value)
	r.Rest = 0
	return err
}

// SaveHead writes a record with a changed head and the same tail, as SaveAppend does. If Rest is missing, it is copied
// into the batch directly from the database. The key's lock must have been held since the record was read.
func (tx *Tx) SaveHead(r *Record) error {
	if r.Rest == 0 {
		tx.SaveAppend(r, r.Tail)
		return nil
	}
	_, err := tx.SaveFrom(r, r, len(r.Tail)+r.Rest)
	return err
}

// SaveFrom writes a record, as SaveAppend does, with a tail of n bytes: the tail of src, truncated or padded with
// zeros. src may be r, or the record of another key. If the Rest of src is missing, it is copied into the batch
// directly from the database. The lock of the key of src must have been held since it was read. SaveFrom returns the
// tail in the batch, which the caller may change until it next uses the transaction.
func (tx *Tx) SaveFrom(r, src *Record, n int) (tail []byte, err error) {
	var held rocks.Held
	defer held.Close()
	var old cf.Meta
	seen := false
	from, begin, all := src.Tail, 0, len(src.Tail)
	if src.Rest > 0 {
		value, size, found, err := tx.read(cf.Metadata, src.key, cf.MaxHead, &held)
		if err != nil {
			return nil, err
		}
		if !found {
			value = nil
		}
		var meta cf.Meta
		if meta, from, err = cf.DecodeMeta(value); err != nil {
			return nil, err
		}
		begin, all = len(value)-len(from), size-len(value)+len(from)
		if string(src.key) == string(r.key) {
			old, seen = meta, true
		}
	}
	if seen {
		tx.note(r.key, old, true, &r.Meta)
	} else {
		tx.replace(r.key, &r.Meta)
	}
	tx.valBuf = r.Meta.Append(tx.valBuf[:0])
	at, tail := tx.batch.PutRoom(cf.Metadata, r.key, tx.valBuf, n)
	had := tail[:min(n, all)]
	if held.Size() > 0 {
		held.Copy(begin, had)
	} else {
		copy(had, from)
	}
	clear(tail[len(had):])
	tx.over.write(cf.Metadata, r.key, at, len(tx.valBuf)+n, written)
	return tail, nil
}

// LoadPart is LoadAny for a caller that needs only a part of the Tail. part is called, if the key exists, with its type
// and the length of the tail, and returns the range [from, to) that Tail must contain.
func (tx *Tx) LoadPart(userKey []byte, part func(t cf.Type, n int) (from, to int)) (Record, error) {
	r := Record{key: tx.NSKey(userKey)}
	var held rocks.Held
	value, size, found, err := tx.read(cf.Metadata, r.key, cf.MaxHead, &held)
	if err == nil {
		err = tx.decode(&r, userKey, value, size, found)
	}
	if err == nil && r.Exists {
		n := len(r.Tail) + r.Rest
		from, to := part(r.Type, n)
		from = min(max(from, 0), n)
		to = min(max(to, from), n)
		if to > len(r.Tail) {
			tail := make([]byte, to-from)
			held.Copy(size-n+from, tail)
			r.Tail = tail
		} else {
			r.Tail = r.Tail[from:to:to]
		}
		r.Rest = 0
	}
	held.Close()
	return r, err
}

// load reads a record; most is that of read.
func (tx *Tx) load(userKey []byte, most int) (Record, error) {
	r := Record{key: tx.NSKey(userKey)}
	value, size, found, err := tx.read(cf.Metadata, r.key, most, nil)
	if err != nil {
		return r, err
	}
	err = tx.decode(&r, userKey, value, size, found)
	return r, err
}

// decode fills a record from its value; size is the length of the stored value.
func (tx *Tx) decode(r *Record, userKey, value []byte, size int, found bool) error {
	if found {
		var err error
		if r.Meta, r.Tail, err = cf.DecodeMeta(value); err != nil {
			*r = Record{key: r.key}
			return fmt.Errorf("key %q: %w", userKey, err)
		}
		r.Rest = size - len(value)
		r.Exists = r.Live(tx.Now())
	}
	if r.Exists {
		tx.db.Stats.Hits.Add(1)
	} else {
		tx.db.Stats.Misses.Add(1)
		r.Meta, r.Tail, r.Rest = cf.Meta{}, nil, 0
	}
	return nil
}

// Reread reads a record again, not from what the transaction has cached. The key's lock need not be held. If the key
// does not exist any more, the result has no type.
func (tx *Tx) Reread(old *Record) (Record, error) {
	r := Record{key: old.key}
	it := tx.Iter(cf.Metadata, IterOptions{Lower: r.key, Upper: append(bytes.Clone(r.key), 0), Limit: 1})
	defer it.Close()
	if !it.Next() {
		return r, it.Err()
	}
	m, tail, err := cf.DecodeMeta(bytes.Clone(it.Value()))
	if err != nil {
		return r, fmt.Errorf("key %q: %w", tx.UserKey(&r), err)
	}
	if m.Live(tx.Now()) {
		r.Meta, r.Tail, r.Exists = m, tail, true
	}
	return r, nil
}

// Glance returns the record of a live key of a type, for prefetching: it does not count as a look-up, and an error is
// left to the Load that follows. Its Tail may be cut off as that of [Tx.LoadHead].
func (tx *Tx) Glance(userKey []byte, want cf.Type) (r Record, ok bool) {
	r, ok = tx.GlanceAny(userKey)
	r.Exists = ok && r.Type == want
	return r, r.Exists
}

// GlanceAny is Glance for a key of any type.
func (tx *Tx) GlanceAny(userKey []byte) (r Record, ok bool) {
	r.key = tx.NSKey(userKey)
	value, size, found, err := tx.read(cf.Metadata, r.key, cf.MaxHead, nil)
	if err != nil || !found {
		return r, false
	}
	if r.Meta, r.Tail, err = cf.DecodeMeta(value); err != nil {
		return r, false
	}
	r.Rest, r.Exists = size-len(value), r.Live(tx.Now())
	return r, r.Exists
}

// PrefetchSubkey adds the internal key of a subkey to a list for prefetching, if the key is live and of that type.
func (tx *Tx) PrefetchSubkey(userKey []byte, t cf.Type, sub []byte, keys *KeyList) {
	if r, ok := tx.Glance(userKey, t); ok {
		keys.Add(tx.Subkey(&r, sub))
	}
}

// Fresh makes a record for a key that is overwritten regardless of its previous value: a new version, no expiry, size
// 0.
func (tx *Tx) Fresh(userKey []byte, t cf.Type) Record {
	r := Record{key: tx.NSKey(userKey), Meta: cf.Meta{Type: t}}
	if !t.SingleRecord() {
		r.Version = tx.db.versions.next()
	}
	return r
}

// NewVersion gives the record a fresh version: the subkeys of the old version become unreachable, and compaction drops
// them.
func (tx *Tx) NewVersion(r *Record) {
	r.Version = tx.db.versions.next()
	r.prefix = nil
}

// Renew gives the record a fresh version for subkeys that are all written again: PutSubkey treats them as those of a
// collection that did not exist.
func (tx *Tx) Renew(r *Record) {
	tx.NewVersion(r)
	r.Exists = false
}

// Save writes the record with the given tail. If this transaction has saved the same key before, with the same length,
// that record is overwritten in place: a pipelined run of pushes to one list writes its metadata once.
func (tx *Tx) Save(r *Record, tail []byte) { tx.save(r, tail, true) }

// SaveAppend is Save, but always appends a new record. It is for records whose position in the WAL matters (strings,
// expiry).
func (tx *Tx) SaveAppend(r *Record, tail []byte) { tx.save(r, tail, false) }

func (tx *Tx) save(r *Record, tail []byte, inPlaceOK bool) {
	tx.valBuf = r.Meta.Append(tx.valBuf[:0])
	tx.replace(r.key, &r.Meta)
	if !inPlaceOK {
		at := tx.batch.PutParts(cf.Metadata, r.key, tx.valBuf, tail)
		tx.over.write(cf.Metadata, r.key, at, len(tx.valBuf)+len(tail), written)
		return
	}
	tx.valBuf = append(tx.valBuf, tail...)
	if tx.overwrite(cf.Metadata, r.key, tx.valBuf) {
		return
	}
	tx.put(cf.Metadata, r.key, tx.valBuf).saved = true
	if cap(tx.valBuf) > 64<<10 {
		tx.valBuf = nil
	}
}

// SaveString is SaveAppend for a changed string, with LogString before it. A record that SaveString has written in this
// transaction is overwritten in place if the length is the same: a script, or a pipeline, that increments one key
// repeatedly writes it once. Readers of the WAL see one SET instead of many.
func (tx *Tx) SaveString(r *Record, value []byte) {
	tx.valBuf = r.Meta.Append(tx.valBuf[:0])
	e := tx.over.find(cf.Metadata, r.key)
	if e != nil && e.kind == written && e.saved && e.valN == len(tx.valBuf)+len(value) {
		// With the same type and the same expiry nothing changes for the key count.
		if at := tx.over.valueOf(e); bytes.HasPrefix(at, tx.valBuf) {
			if e.valAt < tx.mark.at { // written before the savepoint
				tx.undo = append(tx.undo, inPlace{e.valAt, tx.arena.copy(at)})
			}
			copy(at[len(tx.valBuf):], value)
			return
		}
	}
	tx.LogData(cf.LogString)
	tx.replace(r.key, &r.Meta)
	at := tx.batch.PutParts(cf.Metadata, r.key, tx.valBuf, value)
	tx.over.write(cf.Metadata, r.key, at, len(tx.valBuf)+len(value), written).saved = true
}

// Drop deletes the record: the key no longer exists, its subkeys are unreachable.
func (tx *Tx) Drop(r *Record) {
	tx.replace(r.key, nil)
	tx.Delete(cf.Metadata, r.key)
}

// SubkeyPrefix returns the common prefix of all subkeys of the record; valid until the end of the transaction.
func (tx *Tx) SubkeyPrefix(r *Record) []byte {
	if r.prefix == nil {
		b := tx.arena.take(len(r.key) + 12)
		r.prefix = tx.arena.keep(cf.AppendSubkeyPrefix(b, r.key, tx.db.slots, r.Version))
	}
	return r.prefix
}

// Subkey returns the internal key of a subkey; valid until the next call of a method that builds a key.
func (tx *Tx) Subkey(r *Record, sub []byte) []byte {
	tx.keyBuf = append(append(tx.keyBuf[:0], tx.SubkeyPrefix(r)...), sub...)
	return tx.keyBuf
}

// SubkeyU64 returns the internal key of a subkey that is a big-endian u64.
func (tx *Tx) SubkeyU64(r *Record, sub uint64) []byte {
	tx.keyBuf = binary.BigEndian.AppendUint64(append(tx.keyBuf[:0], tx.SubkeyPrefix(r)...), sub)
	return tx.keyBuf
}

// ScoreKey returns the key of a member in the zset_score family.
func (tx *Tx) ScoreKey(r *Record, score float64, member []byte) []byte {
	tx.keyBuf = append(cf.AppendDouble(append(tx.keyBuf[:0], tx.SubkeyPrefix(r)...), score), member...)
	return tx.keyBuf
}
