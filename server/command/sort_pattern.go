package command

import (
	"bytes"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
)

// sortPattern is what BY and GET of SORT name: # is the element itself; otherwise the element takes the place of the
// first star, and that is a key that holds a string or, with -> and a field behind it, a hash.
//
// Such keys are not known when the locks are taken, and it is too late once they are: to take more of them while
// holding some could end in a deadlock. They are read without locks, so
//
//   - every value is one that its key had at some time while the command ran, or the transaction's own; a string is
//     never seen half written;
//   - values of different keys, or of one key for BY and again for GET, may be of different times: a client that
//     changes several of them at once, even in a transaction, can be seen half way, and the order may be that of
//     weights that were never there together;
//   - a field whose hash is deleted or replaced meanwhile is the one of the hash as it was, or seems not to be there.
//
// A client that needs more puts SORT into a transaction or script that names the keys. What is read so is never kept
// for the rest of the transaction, where it might be taken for something that is locked.
type sortPattern struct {
	star           bool
	self           bool
	prefix, suffix []byte // around the element
	field          []byte // nil = the key is a string
}

// parseSortPattern reads a pattern. Like Redis, which takes it for a C string there, it looks for the star, and the
// arrow behind it, up to the first zero byte only.
func parseSortPattern(b []byte) (p sortPattern) {
	text := cString(b)
	p.self = string(text) == "#"
	star := bytes.IndexByte(text, '*')
	if star < 0 {
		return p
	}
	p.star = true
	p.prefix, p.suffix = b[:star], b[star+1:]
	if arrow := bytes.Index(text[star+1:], []byte("->")); arrow >= 0 && star+1+arrow+2 < len(text) {
		p.suffix, p.field = b[star+1:star+1+arrow], b[star+1+arrow+2:]
	}
	return p
}

// appendKey appends the key for an element.
func (p *sortPattern) appendKey(dst, elem []byte) []byte {
	return append(append(append(dst, p.prefix...), elem...), p.suffix...)
}

// sortBatch is how many keys of a pattern are looked up at once.
const sortBatch = 128

// lookUp calls f with the index of each item and its value, nil = no value. Values are valid until the end of the
// transaction.
func (p *sortPattern) lookUp(c *Ctx, items []sortItem, f func(i int, value []byte) error) error {
	if !p.star {
		for i := range items {
			var value []byte
			if p.self {
				value = items[i].elem
			}
			if err := f(i, value); err != nil {
				return err
			}
		}
		return nil
	}
	l := sortLookUp{p: p, c: c}
	for at := 0; at < len(items); at += sortBatch {
		some := items[at:min(at+sortBatch, len(items))]
		if err := l.batch(some); err != nil {
			return err
		}
		for i := range some {
			if err := f(at+i, l.values[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sortLookUp looks the keys of a pattern up.
type sortLookUp struct {
	p          *sortPattern
	c          *Ctx
	key, nsKey []byte
	sub        []byte
	list       engine.KeyList
	records    [sortBatch][]byte
	values     [sortBatch][]byte
	fields     []sortField
}

// sortField is a field that is read for an item.
type sortField struct {
	item int
	ttl  bool // fields of its hash may expire
}

// batch looks up the values of at most sortBatch items.
func (l *sortLookUp) batch(items []sortItem) error {
	tx := l.c.Tx
	ns, slots := tx.Namespace(), tx.DB().Slots()
	l.list.Reset()
	for i := range items {
		l.key = l.p.appendKey(l.key[:0], items[i].elem)
		l.nsKey = cf.AppendNSKey(l.nsKey[:0], ns, l.key, slots)
		l.list.Add(l.nsKey)
	}
	// Not by Load, which would keep the records.
	records, err := tx.MultiGet(cf.Metadata, &l.list)
	if err != nil {
		return err
	}
	copy(l.records[:], records) // the reads below may reuse the slice
	l.list.Reset()
	l.fields = l.fields[:0]
	for i, record := range l.records[:len(items)] {
		l.values[i] = nil
		if record == nil {
			continue
		}
		l.key = l.p.appendKey(l.key[:0], items[i].elem)
		m, tail, err := cf.DecodeMeta(record)
		if err != nil {
			return fmt.Errorf("key %q: %w", l.key, err)
		}
		if !m.Live(tx.Now()) {
			continue
		}
		switch {
		case l.p.field != nil && m.Type == cf.TypeHash:
			_, ttl, err := cf.DecodeHashTail(tail)
			if err != nil {
				return fmt.Errorf("key %q: %w", l.key, err)
			}
			l.nsKey = cf.AppendNSKey(l.nsKey[:0], ns, l.key, slots)
			l.sub = append(cf.AppendSubkeyPrefix(l.sub[:0], l.nsKey, slots, m.Version), l.p.field...)
			l.list.Add(l.sub)
			l.fields = append(l.fields, sortField{i, ttl})
		case l.p.field == nil && m.Type == cf.TypeString:
			l.values[i] = notNil(tail)
		case l.p.field == nil && m.Type == cf.TypeBitmap:
			if l.values[i], _, err = bitmap.Value(tx, l.key, bitmapLimit(l.c)); err != nil {
				return err
			}
		}
	}
	if len(l.fields) == 0 {
		return nil
	}
	values, err := tx.MultiGet(cf.Default, &l.list)
	if err != nil {
		return err
	}
	for j, f := range l.fields {
		if l.values[f.item] = values[j]; !f.ttl || values[j] == nil {
			continue
		}
		expire, value, err := cf.DecodeHashValue(values[j])
		if err != nil {
			return fmt.Errorf("key %q: %w", l.p.appendKey(nil, items[f.item].elem), err)
		}
		if l.values[f.item] = notNil(value); cf.FieldExpired(expire, tx.Now()) {
			l.values[f.item] = nil
		}
	}
	return nil
}

// notNil makes a nil value an empty value, which counts as existing.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
