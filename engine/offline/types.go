package offline

import (
	"bytes"
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/json"
)

// collection returns the check of a key's members in family default.
func (c *checker) collection(o *owner) collection {
	m := members{c: c, o: o, id: cf.Default}
	switch o.meta.Type {
	case cf.TypeHash:
		h := &hashCheck{members: m}
		h.ttl, h.on, _ = cf.DecodeHashTail(o.tail)
		return h
	case cf.TypeSet:
		return &setCheck{members: m}
	case cf.TypeZSet:
		return &zsetCheck{members: m}
	case cf.TypeList:
		l := &listCheck{members: m}
		l.head, l.tail, _ = cf.DecodeListTail(o.tail)
		return l
	case cf.TypeBitmap:
		return &bitmapCheck{members: m}
	case cf.TypeSortedInt:
		return &setCheck{members: m, sub: func(sub []byte) error {
			_, err := cf.ParseU64Sub(sub)
			return err
		}}
	case cf.TypeBloom:
		b := &bloomCheck{members: m}
		b.meta, _ = cf.DecodeBloomMeta(o.tail)
		return b
	case cf.TypeCuckooFilter:
		f := &cuckooCheck{members: m}
		f.meta, _ = cf.DecodeCuckooMeta(o.tail)
		return f
	case cf.TypeHyperLogLog:
		return &hllCheck{members: m}
	case cf.TypeTDigest:
		d := &digestCheck{members: m}
		d.meta, _ = cf.DecodeTDigestMeta(o.tail)
		return d
	}
	return nil
}

// members is the common part of the checks of all types.
type members struct {
	c     *checker
	o     *owner
	id    cf.ID
	count uint64 // number of decodable members
}

func (m *members) key(sub []byte) []byte { return append(bytes.Clone(m.o.prefix), sub...) }

// whole returns the value of a member, of which the first memberMax bytes were read.
func (m *members) whole(sub, value []byte) ([]byte, error) {
	if len(value) < memberMax {
		return value, nil
	}
	value, _, err := m.c.r.Get(m.id, m.key(sub), nil)
	return value, err
}

// bad reports a member that cannot be decoded; a repair drops it.
func (m *members) bad(kind Kind, sub []byte, err error) {
	key := m.key(sub)
	m.c.problem(m.o.problem(kind, "member %s: %v", Show(sub), err),
		func(d *mender) string { return d.drop(m.id, key, string(kind)) })
}

// sized compares the count with the size in the record.
func (m *members) sized(what string) {
	if m.count == m.o.meta.Size {
		return
	}
	m.c.problem(m.o.problem(WrongCount, "the record says %d %s, there are %d", m.o.meta.Size, what, m.count), m.resize)
}

// resize stores the count in the record; a collection without members is dropped.
func (m *members) resize(d *mender) string {
	meta := m.o.meta
	if meta.Size = m.count; m.count == 0 && !meta.Type.MayBeEmpty() {
		return d.drop(cf.Metadata, m.o.nsKey, "without members")
	}
	d.batch.Put(cf.Metadata, m.o.nsKey, append(meta.Append(nil), m.o.tail...))
	m.o.meta = meta
	return fmt.Sprintf("the record says %d now", m.count)
}

// setCheck checks a set or a sortedint.
type setCheck struct {
	members
	sub func([]byte) error // nil = any bytes are valid
}

func (s *setCheck) add(sub, _ []byte) {
	if s.sub != nil {
		if err := s.sub(sub); err != nil {
			s.bad(BadValue, sub, err)
			return
		}
	}
	s.count++
}

func (s *setCheck) end() { s.sized("members") }

// hashCheck checks a hash, whose fields may expire.
type hashCheck struct {
	members
	ttl            cf.HashTTL
	on             bool
	persist        uint64
	lowest, latest uint64 // expiries of the existing fields
}

func (h *hashCheck) add(sub, value []byte) {
	if h.on {
		expire, _, err := cf.DecodeHashValue(value)
		if err != nil {
			h.bad(BadValue, sub, err)
			return
		}
		if expire == 0 {
			h.persist++
		} else {
			if h.lowest == 0 || expire < h.lowest {
				h.lowest = expire
			}
			h.latest = max(h.latest, expire)
		}
	}
	h.count++
}

func (h *hashCheck) end() {
	if !h.on {
		h.sized("fields")
		return
	}
	var wrong string
	size := h.o.meta.Size
	switch {
	case h.persist != h.ttl.Persist:
		wrong = fmt.Sprintf("the record says %d fields without an expiry, there are %d", h.ttl.Persist, h.persist)
	case h.count > size:
		wrong = fmt.Sprintf("the record says %d fields, there are %d", size, h.count)
	case h.count < size && uint64(h.c.now) <= h.ttl.Lower: // none has expired yet, so no compaction dropped a field
		wrong = fmt.Sprintf("the record says %d fields of which none has expired, there are %d", size, h.count)
	case h.lowest != 0 && (h.lowest < h.ttl.Lower || h.latest > h.ttl.Upper):
		wrong = fmt.Sprintf("fields expire from %d to %d, the record says from %d to %d", h.lowest, h.latest,
			h.ttl.Lower, h.ttl.Upper)
	default:
		return
	}
	h.c.problem(h.o.problem(WrongCount, "%s", wrong), func(d *mender) string {
		h.o.tail = cf.AppendHashTail(nil, cf.HashTTL{Persist: h.persist, Lower: h.lowest, Upper: h.latest})
		return h.resize(d)
	})
}

// listCheck checks a list: its elements must have the indexes from head to tail.
type listCheck struct {
	members
	head, tail uint64
	next       uint64 // the expected next index, after the first element
	begun      bool
	gaps       uint64
	first      uint64 // index of the first element
}

func (l *listCheck) add(sub, _ []byte) {
	i, err := cf.ParseU64Sub(sub)
	if err != nil {
		l.bad(BadValue, sub, err)
		return
	}
	if i < l.head || i >= l.tail {
		l.c.report.Garbage.Outside++ // Kvrocks leaves some; they are overwritten when the list grows to their indexes
		return
	}
	if !l.begun {
		l.first, l.begun, l.next = i, true, i
	}
	l.gaps += i - l.next
	l.next = i + 1
	l.count++
}

func (l *listCheck) end() {
	if l.count == l.tail-l.head && l.count == l.o.meta.Size {
		return
	}
	l.c.problem(l.o.problem(WrongCount, "the record says %d elements at %d indexes, there are %d", l.o.meta.Size,
		l.tail-l.head, l.count), l.close)
}

// close moves the elements to consecutive indexes.
func (l *listCheck) close(d *mender) string {
	if l.gaps > 0 {
		if err := d.moveTogether(l.o.prefix, l.first, l.tail); err != nil {
			return ""
		}
	}
	l.o.tail = cf.AppendListTail(nil, l.first, l.first+l.count)
	return l.resize(d)
}

// bitmapCheck checks a bitmap.
type bitmapCheck struct {
	members
	last uint64 // the byte after the last one
}

func (b *bitmapCheck) add(sub, value []byte) {
	at, err := cf.ParseBitmapSub(sub)
	if err == nil && len(value) > cf.BitmapFragment {
		err = fmt.Errorf("%w: a fragment of %d bytes or more", cf.ErrCorrupt, len(value))
	}
	if err != nil {
		b.bad(BadValue, sub, err)
		return
	}
	// A fragment may be longer than what was written, filled with zeros.
	b.last = max(b.last, at+uint64(len(bytes.TrimRight(value, "\x00"))))
}

func (b *bitmapCheck) end() {
	if b.count = b.last; b.last > b.o.meta.Size {
		b.c.problem(b.o.problem(WrongCount, "the record says %d bytes, there are %d", b.o.meta.Size, b.last), b.resize)
	}
}

// hllCheck checks a HyperLogLog.
type hllCheck struct{ members }

func (h *hllCheck) add(sub, value []byte) {
	_, err := cf.ParseHLLSub(sub)
	if err == nil && len(value) != cf.HLLSegmentLen {
		err = fmt.Errorf("%w: a segment of %d bytes", cf.ErrCorrupt, len(value))
	}
	if err != nil {
		h.bad(BadValue, sub, err)
	}
}

func (h *hllCheck) end() {}

// bloomCheck checks a chain of Bloom filters.
type bloomCheck struct {
	members
	meta  cf.BloomMeta
	bytes uint64
}

func (b *bloomCheck) add(sub, value []byte) {
	n, err := cf.ParseBloomSub(sub)
	if err == nil && n >= b.meta.Filters {
		err = fmt.Errorf("filter %d of %d", n, b.meta.Filters)
	}
	if err != nil {
		b.bad(BadValue, sub, err)
		return
	}
	b.count++
	if value, err = b.whole(sub, value); err != nil {
		b.bad(BadValue, sub, err)
		return
	}
	b.bytes += uint64(len(value))
}

func (b *bloomCheck) end() {
	if b.count != uint64(b.meta.Filters) || b.bytes != uint64(b.meta.Bytes) {
		b.c.problem(b.o.problem(NoMembers, "the record says %d filters of %d bytes, there are %d of %d; delete the key",
			b.meta.Filters, b.meta.Bytes, b.count, b.bytes), nil)
	}
}

// cuckooCheck checks a cuckoo filter: it has as many fingerprints as items.
type cuckooCheck struct {
	members
	meta cf.CuckooMeta
}

func (f *cuckooCheck) add(sub, value []byte) {
	filter, page, err := cf.ParseCuckooSub(sub)
	want := 0
	if err == nil && filter < f.meta.Filters {
		want = f.meta.PageLen(f.meta.FilterBuckets(int(filter)), page)
	}
	if err == nil {
		value, err = f.whole(sub, value)
	}
	if err == nil && len(value) != want {
		err = fmt.Errorf("page %d of filter %d of %d bytes instead of %d", page, filter, len(value), want)
	}
	if err != nil {
		f.c.problem(f.o.problem(BadValue, "%v; delete the key", err), nil)
	}
	f.count += uint64(len(value) - bytes.Count(value, []byte{0}))
}

func (f *cuckooCheck) end() { f.sized("items") }

// digestCheck checks a t-digest.
type digestCheck struct {
	members
	meta     cf.TDigestMeta
	weight   float64
	buffered bool
}

func (d *digestCheck) add(sub, value []byte) {
	var err error
	if bytes.Equal(sub, cf.AppendTDigestBufferSub(nil)) {
		d.buffered = true
		if value, err = d.whole(sub, value); err == nil {
			_, err = cf.AppendTDigestBuffer(nil, value, d.meta.Unmerged)
		}
	} else if _, err = cf.ParseTDigestCentroidSub(sub); err == nil {
		var w float64
		if w, err = cf.ParseTDigestWeight(value); err == nil {
			d.weight += w
			d.count++
		}
	}
	if err != nil {
		d.c.problem(d.o.problem(BadValue, "%v; delete the key", err), nil)
	}
}

func (d *digestCheck) end() {
	switch {
	case d.count != d.meta.Merged:
		d.c.problem(d.o.problem(WrongCount, "the record says %d centroids, there are %d; delete the key", d.meta.Merged,
			d.count), nil)
	case math.Abs(d.weight-float64(d.meta.MergedWeight)) > 1e-6*d.weight:
		d.c.problem(d.o.problem(WrongCount, "the record says a weight of %d, it is %v; delete the key",
			d.meta.MergedWeight, d.weight), nil)
	case d.meta.Unmerged > 0 && !d.buffered:
		d.c.problem(d.o.problem(NoMembers, "the buffer of %d observations is missing; delete the key",
			d.meta.Unmerged), nil)
	}
}

func (c *checker) document(o *owner) error {
	if len(o.raw) == jsonMax { // or longer
		raw, _, err := c.r.Get(cf.Metadata, o.nsKey, nil)
		if err != nil {
			return nil // the pass that reads in key order reports the damage
		}
		if _, o.tail, err = cf.DecodeMeta(raw); err != nil {
			return err
		}
	}
	format, doc, err := cf.SplitJSONTail(o.tail)
	if err != nil {
		return err
	}
	_, err = json.ParseStored(format, string(doc))
	return err
}
