package engine

import (
	"bytes"
	"hash/maphash"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

// An overlay knows, for every key that a transaction has written or cached, where its newest value is. It is an
// open-addressing hash table whose entries point into the write batch (own writes) or into the transaction's
// arena (cached reads); it allocates only to grow.
type overlay struct {
	slots  []uint32 // index into entries + 1; 0 = free
	ents   []entry
	last   int // index of the entry that find or insert has returned last
	seed   maphash.Seed
	batch  *batch.Builder
	writes [cf.Index + 1]int // how many keys of each family were written
	ranges []rangeDelete
	cached int  // bytes of the cached reads
	behind int  // offset in the batch of the first record that is not indexed, see late; 0 = none
	gone   bool // some of the records that are not indexed are deletes
}

type entryKind uint8

const (
	cachedMissing entryKind = iota // a read found nothing
	cachedValue                    // a read found the value
	cachedHead                     // a read found a value of valN bytes; only its beginning is kept
	written                        // put by this transaction
	deleted                        // deleted by this transaction
)

// entry is the knowledge of one key. For own writes key and value are offsets into the write batch, which moves when it
// grows; for cached reads key and value are slices of the arena.
type entry struct {
	hash        uint32
	kind        entryKind
	saved       bool // written by Save: may be overwritten in place
	id          cf.ID
	keyAt, keyN int
	valAt, valN int
	key, value  []byte
}

func (o *overlay) keyOf(e *entry) []byte {
	if e.kind >= written {
		return o.batch.Bytes()[e.keyAt : e.keyAt+e.keyN]
	}
	return e.key
}

func (o *overlay) valueOf(e *entry) []byte {
	if e.kind == written {
		return o.batch.Bytes()[e.valAt : e.valAt+e.valN : e.valAt+e.valN]
	}
	return e.value
}

type rangeDelete struct {
	id         cf.ID
	begin, end []byte
}

const minOverlay = 64

func (o *overlay) reset() {
	if len(o.ents) == 0 && len(o.ranges) == 0 {
		return
	}
	if len(o.slots) > 4096 { // do not keep the memory of one big transaction
		o.slots, o.ents = nil, nil
	} else {
		clear(o.slots)
		clear(o.ents)
		o.ents = o.ents[:0]
	}
	o.ranges, o.last, o.cached, o.behind, o.gone = o.ranges[:0], 0, 0, 0, false
	o.writes = [cf.Index + 1]int{}
}

func (o *overlay) hash(id cf.ID, key []byte) uint32 {
	return uint32(maphash.Bytes(o.seed, key)) ^ uint32(id)*0x9e3779b1
}

// find returns the entry of a key, nil when none exists. A command that reads a key and then writes it asks several
// times: the entry that was found last is compared first, without hashing the key.
func (o *overlay) find(id cf.ID, key []byte) *entry {
	if len(o.ents) == 0 {
		return nil
	}
	o.catchUp(id)
	if e := &o.ents[o.last]; e.id == id && bytes.Equal(o.keyOf(e), key) {
		return e
	}
	h := o.hash(id, key)
	mask := uint32(len(o.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		n := o.slots[i]
		if n == 0 {
			return nil
		}
		e := &o.ents[n-1]
		if e.hash == h && e.id == id && bytes.Equal(o.keyOf(e), key) {
			o.last = int(n - 1)
			return e
		}
	}
}

// insert adds an entry for a key that find did not find.
func (o *overlay) insert(e entry) *entry {
	if (len(o.ents)+1)*2 > len(o.slots) {
		o.grow()
	}
	e.hash = o.hash(e.id, o.keyOf(&e))
	o.ents = append(o.ents, e)
	o.last = len(o.ents) - 1
	o.place(o.last)
	return &o.ents[o.last]
}

func (o *overlay) place(i int) {
	mask := uint32(len(o.slots) - 1)
	p := o.ents[i].hash & mask
	for o.slots[p] != 0 {
		p = (p + 1) & mask
	}
	o.slots[p] = uint32(i + 1)
}

func (o *overlay) grow() {
	n := max(minOverlay, 2*len(o.slots))
	o.slots = make([]uint32, n)
	for i := range o.ents {
		o.place(i)
	}
}

// deletedByRange reports whether a DeleteRange of this transaction covers the key.
func (o *overlay) deletedByRange(id cf.ID, key []byte) bool {
	for _, r := range o.ranges {
		if r.id == id && bytes.Compare(key, r.begin) >= 0 && bytes.Compare(key, r.end) < 0 {
			return true
		}
	}
	return false
}

// overlaid returns the head of the value that the transaction has written to a key, or remembers for it. known: the
// transaction has written, deleted or remembered the key.
func (tx *Tx) overlaid(id cf.ID, key []byte) (head []byte, found, known bool) {
	if len(tx.over.ents) > 0 {
		if e := tx.over.find(id, key); e != nil {
			switch {
			case e.kind == written || e.kind == cachedValue:
				return tx.over.valueOf(e), true, true
			case e.kind == cachedHead:
				return e.value, true, true
			}
			return nil, false, true
		}
	}
	if len(tx.over.ranges) > 0 && tx.over.deletedByRange(id, key) {
		return nil, false, true
	}
	return nil, false, false
}

// dirty reports whether reads of a family must look at the overlay beyond point look-ups.
func (o *overlay) dirty(id cf.ID) bool {
	o.catchUp(id)
	if o.writes[id] > 0 {
		return true
	}
	for _, r := range o.ranges {
		if r.id == id {
			return true
		}
	}
	return false
}

// late is called before a record is added to the batch that is not indexed until catchUp.
func (o *overlay) late() {
	if o.behind == 0 {
		o.behind = o.batch.Len()
	}
}

// eachLate calls f with the records that are not indexed, and with those between them that are.
func (o *overlay) eachLate(f func(rec *batch.Record)) {
	if o.behind == 0 {
		return
	}
	r := batch.NewReaderAt(o.batch.Bytes(), o.behind)
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		f(&rec)
	}
}

// catchUp indexes the whole batch before a family is asked for. Metadata records are always indexed.
func (o *overlay) catchUp(id cf.ID) {
	if o.behind == 0 || id == cf.Metadata {
		return
	}
	o.eachLate(func(rec *batch.Record) {
		o.behind, o.gone = 0, false
		switch {
		case rec.Family == cf.Metadata:
		case rec.Kind == batch.Put:
			o.write(rec.Family, rec.Key, rec.ValueOffset, len(rec.Value), written)
		case rec.Kind == batch.Delete:
			o.write(rec.Family, rec.Key, rec.ValueOffset, 0, deleted)
		}
	})
}

// rebuild indexes the batch anew after a rollback of part of it. Cached reads are forgotten.
func (o *overlay) rebuild() error {
	o.reset()
	r, err := batch.NewReader(o.batch.Bytes())
	if err != nil {
		return err
	}
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		switch rec.Kind {
		case batch.Put:
			o.write(rec.Family, rec.Key, rec.ValueOffset, len(rec.Value), written)
		case batch.Delete, batch.SingleDelete:
			o.write(rec.Family, rec.Key, rec.ValueOffset, 0, deleted)
		case batch.DeleteRange:
			o.deleteRange(rec.Family, rec.Key, rec.Value)
		}
	}
	return r.Err()
}

// write notes an own write: the key lies in the batch before its value, whose offset is valAt (for a delete:
// the end of the record).
func (o *overlay) write(id cf.ID, key []byte, valAt, valN int, kind entryKind) *entry {
	e := o.find(id, key)
	if e == nil {
		e = o.insert(entry{id: id, key: key})
	}
	if e.kind < written {
		o.writes[id]++
	}
	e.kind, e.saved, e.key, e.value = kind, false, nil, nil
	e.keyAt, e.keyN, e.valAt, e.valN = valAt-len(key), len(key), valAt, valN
	if kind == written {
		e.keyAt -= uvarintLen(uint64(valN))
	}
	return e
}

// deleteRange forgets the entries of a family in a range and remembers that the range is deleted.
func (o *overlay) deleteRange(id cf.ID, begin, end []byte) {
	o.catchUp(id)
	for i := range o.ents {
		e := &o.ents[i]
		key := o.keyOf(e)
		if e.id == id && bytes.Compare(key, begin) >= 0 && bytes.Compare(key, end) < 0 {
			e.key, e.value = bytes.Clone(key), nil
			e.kind = cachedMissing
		}
	}
	o.ranges = append(o.ranges, rangeDelete{id, bytes.Clone(begin), bytes.Clone(end)})
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}
