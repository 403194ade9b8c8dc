package rdb

import (
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// A stream, where an id is two numbers ms and seq, a raw id 16 bytes, and a time 8 bytes of milliseconds:
//
//	length · (string: raw id · string: listpack)   nodes: the first id of each, and the entries
//	length of the stream · id of the last entry ever
//	id of the first entry · greatest id that was deleted · entries ever added   from the second form on
//	length · group
//
// and a group:
//
//	string: name · id delivered last
//	entries read                                              from the second form on
//	length · (raw id · time delivered · times delivered)      pending
//	length · (string: name · time seen · time active          the latter from the third form on
//	          · length · raw id)                              pending for this consumer
//
// A node's listpack consists of numbers and strings. It begins with a head, of which the fields are those that most
// entries have:
//
//	entries · deleted entries · length · fields · 0
//
// Then come the entries, ids given by how much they exceed the node's, and at the end of each the number of elements
// that it has, for reading backwards:
//
//	flags · ms · seq · values · elements                           the fields are the head's
//	flags · ms · seq · length · (field · value) · elements         otherwise
const (
	entryDeleted    = 1
	entrySameFields = 2
)

// stream reads a stream of the type t.
func (r *reader) stream(t byte, v *Value) {
	s := &StreamValue{}
	v.Stream = s
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		r.cut(v)
		r.node(s)
	}
	length := r.length()
	s.Last = r.id()
	if t == typeStream {
		s.EntriesAdded = length
	} else {
		r.id()
		s.MaxDeleted = r.id()
		s.EntriesAdded = r.length()
	}
	switch {
	case r.err != nil:
		return
	case length != s.read:
		r.failf("stream of %d entries, not %d", s.read, length)
	case length > 0 && s.latest.Compare(s.Last) > 0:
		r.failf("entry after the last id of a stream")
	}
	for n := r.count(5); n > 0 && r.err == nil; n-- {
		s.Groups = append(s.Groups, r.group(t, s))
		r.spend(2 * elemCost)
	}
	names := make([][]byte, len(s.Groups))
	for i := range names {
		names[i] = s.Groups[i].Name
	}
	if repeats(names, 1) {
		r.failf("two groups of one name")
	}
}

// packed is the elements of a node, taken one after the other.
type packed struct {
	r *reader
	b []byte
}

func (p *packed) next() (elem []byte, n int64, isInt bool) {
	if p.r.err != nil || p.b[0] == 0xff {
		p.r.failf("a node of a stream ends early")
		return nil, 0, true
	}
	elem, n, isInt, size := listpackElem(p.b)
	p.b = p.b[size+backLen(size):]
	return elem, n, isInt
}

func (p *packed) int() int64 {
	elem, n, isInt := p.next()
	if !isInt {
		// A number that Redis did not take for one when it wrote it does not exist.
		p.r.failf("%.40q in the place of a number", elem)
	}
	return n
}

func (p *packed) string() []byte {
	elem, n, isInt := p.next()
	if isInt {
		return p.r.int(n)
	}
	p.r.spend(elemCost)
	return elem
}

// count reads how many items follow.
func (p *packed) count() int {
	n := p.int()
	if n < 0 || n > int64(len(p.b)) {
		p.r.failf("%d items in a node of %d bytes", n, len(p.b))
		return 0
	}
	return int(n)
}

// node reads a node.
func (r *reader) node(s *StreamValue) {
	key := r.string()
	b := r.string()
	if r.err != nil {
		return
	}
	if len(key) != 16 {
		r.failf("node of a stream with a key of %d bytes", len(key))
		return
	}
	k := reader{b: key}
	first := k.rawID()
	total := 0
	if r.eachListpack(b, func([]byte, int64, bool) { total++ }); r.err != nil {
		return
	}
	p := packed{r: r, b: b[listpackHead:]}
	live, deleted := p.count(), p.count()
	if int64(live)+int64(deleted) > int64(total) {
		r.failf("node of a stream with %d entries in %d elements", live+deleted, total)
		return
	}
	var master [][]byte
	for n := p.count(); n > 0 && r.err == nil; n-- {
		master = append(master, p.string())
	}
	if p.int() != 0 {
		r.failf("head of a node of a stream")
	}
	for ; live+deleted > 0 && r.err == nil; p.int() {
		flags := p.int()
		ms, seq := uint64(p.int()), uint64(p.int())
		id := cf.StreamID{Ms: first.Ms + ms, Seq: first.Seq + seq}
		e := StreamEntry{ID: id}
		if flags&entrySameFields != 0 {
			for _, f := range master {
				if !r.spend(elemCost + len(f)) { // the bytes count: whoever keeps the entry copies them
					break
				}
				e.Fields = append(e.Fields, f, p.string())
			}
		} else {
			for n := p.count(); n > 0 && r.err == nil; n-- {
				e.Fields = append(e.Fields, p.string())
				e.Fields = append(e.Fields, p.string())
			}
		}
		if flags&entryDeleted != 0 {
			deleted--
			if deleted < 0 {
				r.failf("node of a stream with more deleted entries than it says")
			}
			continue
		}
		live--
		switch {
		case r.err != nil:
		case live < 0:
			r.failf("node of a stream with more entries than it says")
		case id.Compare(s.latest) <= 0: // the id 0-0 is none, too
			r.failf("entries of a stream out of order")
		case len(e.Fields) == 0:
			r.failf("entry of a stream without fields")
		}
		r.spend(elemCost)
		if s.read == 0 {
			s.first = id
		}
		s.latest = id
		s.read++
		s.Entries = append(s.Entries, e)
	}
	if r.err == nil && p.b[0] != 0xff {
		r.failf("node of a stream that goes on after its last entry")
	}
}

// group reads a consumer group.
func (r *reader) group(t byte, s *StreamValue) StreamGroup {
	g := StreamGroup{Name: r.string(), Last: r.id(), EntriesRead: UnknownReads}
	if t != typeStream {
		g.EntriesRead = int64(r.length())
	} else {
		g.EntriesRead = readsUpTo(s, g.Last)
	}
	if r.err == nil && g.EntriesRead < UnknownReads {
		r.failf("group that has read %d entries", g.EntriesRead)
	}
	const pendingLen = 16 + 8 + 1
	for n := r.count(pendingLen); n > 0 && r.err == nil; n-- {
		p := StreamPending{ID: r.rawID(), Delivered: r.u64(), Deliveries: r.length(), Consumer: -1}
		r.spend(elemCost)
		if i := len(g.Pending); i > 0 && g.Pending[i-1].ID.Compare(p.ID) >= 0 {
			r.failf("pending entries out of order")
		}
		g.Pending = append(g.Pending, p)
	}
	assigned := 0
	for n := r.count(1 + 8 + 1); n > 0 && r.err == nil; n-- {
		c := StreamConsumer{Name: r.string(), Seen: r.u64()}
		c.Active = c.Seen
		if t == typeStream3 {
			c.Active = r.u64()
		}
		if c.Active > math.MaxInt64 { // -1: never
			c.Active = 0
		}
		if c.Seen > math.MaxInt64 {
			r.failf("consumer that was seen at %d", int64(c.Seen))
		}
		r.spend(elemCost)
		for n := r.count(16); n > 0 && r.err == nil; n-- {
			id := r.rawID()
			i, found := slices.BinarySearchFunc(g.Pending, id, func(p StreamPending,
				id cf.StreamID) int {
				return p.ID.Compare(id)
			})
			if !found || g.Pending[i].Consumer >= 0 {
				r.failf("entry that is pending for a consumer, but not for the group, or for two")
				break
			}
			g.Pending[i].Consumer = len(g.Consumers)
			assigned++
		}
		g.Consumers = append(g.Consumers, c)
	}
	if r.err == nil && assigned != len(g.Pending) {
		r.failf("entries that are pending for no consumer")
	}
	names := make([][]byte, len(g.Consumers))
	for i := range names {
		names[i] = g.Consumers[i].Name
	}
	if repeats(names, 1) {
		r.failf("two consumers of one name")
	}
	return g
}

// readsUpTo estimates, as Redis does for the first form, how many entries a group has got when the last one of them
// has an id.
func readsUpTo(s *StreamValue, id cf.StreamID) int64 {
	n := int64(min(s.read, math.MaxInt64))
	added := int64(min(s.EntriesAdded, math.MaxInt64))
	switch c := id.Compare(s.Last); {
	case added == 0:
		return 0
	case n == 0 && c < 1, c == 0:
		return added
	case c > 0:
		return UnknownReads
	}
	switch c := id.Compare(s.first); {
	case c < 0:
		return added - n
	case c == 0:
		return added - n + 1
	}
	return UnknownReads
}
