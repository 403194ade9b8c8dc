package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// Record is the metadata record of one key as a transaction sees it.
type Record struct {
	cf.Meta
	// Tail is what follows the common head: the value of a string, the type-specific fields of other types. It
	// must not be changed, and after a Save of the same key it is no longer valid.
	Tail []byte
	// Exists tells whether the key is there: neither missing nor expired nor an emptied collection. When it is
	// not, the record has the type that was asked for and a fresh version, ready to be filled and saved.
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

// Load reads the record of a key that shall be of type want. A live key of another type is [ErrWrongType].
func (tx *Tx) Load(userKey []byte, want cf.Type) (Record, error) {
	r, err := tx.LoadAny(userKey)
	if err != nil {
		return r, err
	}
	if r.Exists {
		if r.Type != want {
			return r, ErrWrongType
		}
		return r, nil
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

// Look is LoadAny for a caller who needs no Tail, which may have been cut off: a string of hundreds of megabytes is not
// copied to learn that it exists.
func (tx *Tx) Look(userKey []byte) (Record, error) { return tx.load(userKey, cf.MaxHead) }

// load reads a record, or with most above 0 what get does of it.
func (tx *Tx) load(userKey []byte, most int) (Record, error) {
	r := Record{key: tx.NSKey(userKey)}
	value, found, err := tx.get(cf.Metadata, r.key, most)
	if err != nil {
		return r, err
	}
	if found {
		if r.Meta, r.Tail, err = cf.DecodeMeta(value); err != nil {
			return Record{key: r.key}, fmt.Errorf("key %q: %w", userKey, err)
		}
		r.Exists = r.Live(tx.now)
	}
	if r.Exists {
		tx.db.Stats.Hits.Add(1)
	} else {
		tx.db.Stats.Misses.Add(1)
		r.Meta, r.Tail = cf.Meta{}, nil
	}
	return r, nil
}

// Glance returns the record of a live key of a type for reading ahead: it does not count as a look-up, and an error is
// left to the Load that follows.
func (tx *Tx) Glance(userKey []byte, want cf.Type) (r Record, ok bool) {
	r.key = tx.NSKey(userKey)
	value, found, err := tx.Get(cf.Metadata, r.key)
	if err != nil || !found {
		return r, false
	}
	if r.Meta, r.Tail, err = cf.DecodeMeta(value); err != nil {
		return r, false
	}
	r.Exists = r.Type == want && r.Live(tx.now)
	return r, r.Exists
}

// AheadSubkey adds the internal key of a subkey to a list of what is read ahead, if the key is live and of that type.
func (tx *Tx) AheadSubkey(userKey []byte, t cf.Type, sub []byte, keys *KeyList) {
	if r, ok := tx.Glance(userKey, t); ok {
		keys.Add(tx.Subkey(&r, sub))
	}
}

// Fresh makes a record for a key that is written without regard to what was there: a new version, no expiry,
// size 0.
func (tx *Tx) Fresh(userKey []byte, t cf.Type) Record {
	r := Record{key: tx.NSKey(userKey), Meta: cf.Meta{Type: t}}
	if !t.SingleRecord() {
		r.Version = tx.db.versions.next()
	}
	return r
}

// NewVersion gives the record a fresh version: the subkeys of the old one are unreachable from then on, and
// compaction drops them.
func (tx *Tx) NewVersion(r *Record) {
	r.Version = tx.db.versions.next()
	r.prefix = nil
}

// Save writes the record with the given tail. When this transaction has saved the same key before, and the
// length is the same, that record is overwritten in place: a pipelined run of pushes to one list writes its
// metadata once.
func (tx *Tx) Save(r *Record, tail []byte) { tx.save(r, tail, true) }

// SaveAppend is Save, but always writes a record of its own. Records that mean something at their place in the
// WAL (strings, expiry) need that.
func (tx *Tx) SaveAppend(r *Record, tail []byte) { tx.save(r, tail, false) }

func (tx *Tx) save(r *Record, tail []byte, inPlaceOK bool) {
	tx.valBuf = append(r.Meta.Append(tx.valBuf[:0]), tail...)
	old, oldOK := tx.known(r.key)
	tx.note(r.key, old, oldOK, &r.Meta)
	if inPlaceOK && tx.overwrite(cf.Metadata, r.key, tx.valBuf) {
		return
	}
	e := tx.put(cf.Metadata, r.key, tx.valBuf)
	e.saved = inPlaceOK
	if cap(tx.valBuf) > 64<<10 {
		tx.valBuf = nil
	}
}

// Drop deletes the record: the key is gone, its subkeys are unreachable.
func (tx *Tx) Drop(r *Record) {
	old, oldOK := tx.known(r.key)
	tx.note(r.key, old, oldOK, nil)
	tx.Delete(cf.Metadata, r.key)
}

// known returns what the transaction knows of a metadata record, reading it if need be; of a key that is known
// to exist without an expiry only that. An unreadable record counts as none: it only matters to the key count.
func (tx *Tx) known(nsKey []byte) (cf.Meta, bool) {
	if !tx.overlaid(cf.Metadata, nsKey) && tx.db.known.has(nsKey) {
		return cf.Meta{Type: cf.TypeString}, true
	}
	value, found, err := tx.get(cf.Metadata, nsKey, cf.MaxHead)
	if err != nil || !found {
		return cf.Meta{}, false
	}
	m, _, err := cf.DecodeMeta(value)
	return m, err == nil
}

// SubkeyPrefix returns what all subkeys of the record begin with; valid until the end of the transaction.
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
