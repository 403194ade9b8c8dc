package rdb

import (
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/rdb/internal/raw"
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
// A node's listpack consists of numbers and strings. It begins with a head, whose fields are those of
// most entries:
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

func (r *reader) stream(t byte, v *Value) {
	s := &StreamValue{}
	v.Stream = s
	for n := r.Count(2); n > 0 && r.Err == nil; n-- {
		r.cut(v)
		r.node(s)
	}
	length := r.Length()
	s.Last = r.ID()
	if t == typeStream {
		s.EntriesAdded = length
	} else {
		r.ID()
		s.MaxDeleted = r.ID()
		s.EntriesAdded = r.Length()
	}
	switch {
	case r.Err != nil:
		return
	case length != s.read:
		r.Failf("stream of %d entries, not %d", s.read, length)
	case length > 0 && s.latest.Compare(s.Last) > 0:
		r.Failf("entry after the last id of a stream")
	}
	for n := r.Count(5); n > 0 && r.Err == nil; n-- {
		s.Groups = append(s.Groups, r.group(t, s))
		r.Spend(2 * raw.ElemCost)
	}
	names := make([][]byte, len(s.Groups))
	for i := range names {
		names[i] = s.Groups[i].Name
	}
	if raw.Repeats(names, 1) {
		r.Failf("two groups of one name")
	}
}

func (r *reader) node(s *StreamValue) {
	key := r.String()
	b := r.String()
	if r.Err != nil {
		return
	}
	if len(key) != 16 {
		r.Failf("node of a stream with a key of %d bytes", len(key))
		return
	}
	k := raw.NewReader(key, 0)
	first := k.RawID()
	total := 0
	if r.EachListpack(b, func([]byte, int64, bool) { total++ }); r.Err != nil {
		return
	}
	p := r.Elements(b)
	live, deleted := p.Count(), p.Count()
	if int64(live)+int64(deleted) > int64(total) {
		r.Failf("node of a stream with %d entries in %d elements", live+deleted, total)
		return
	}
	var master [][]byte
	for n := p.Count(); n > 0 && r.Err == nil; n-- {
		master = append(master, p.String())
	}
	if p.Int() != 0 {
		r.Failf("head of a node of a stream")
	}
	for ; live+deleted > 0 && r.Err == nil; p.Int() {
		flags := p.Int()
		ms, seq := uint64(p.Int()), uint64(p.Int())
		id := cf.StreamID{Ms: first.Ms + ms, Seq: first.Seq + seq}
		e := StreamEntry{ID: id}
		if flags&entrySameFields != 0 {
			for _, f := range master {
				if !r.Spend(raw.ElemCost + len(f)) { // the bytes count: whoever keeps the entry copies them
					break
				}
				e.Fields = append(e.Fields, f, p.String())
			}
		} else {
			for n := p.Count(); n > 0 && r.Err == nil; n-- {
				e.Fields = append(e.Fields, p.String())
				e.Fields = append(e.Fields, p.String())
			}
		}
		if flags&entryDeleted != 0 {
			deleted--
			if deleted < 0 {
				r.Failf("node of a stream with more deleted entries than it says")
			}
			continue
		}
		live--
		switch {
		case r.Err != nil:
		case live < 0:
			r.Failf("node of a stream with more entries than it says")
		case id.Compare(s.latest) <= 0: // the id 0-0 is none, too
			r.Failf("entries of a stream out of order")
		case len(e.Fields) == 0:
			r.Failf("entry of a stream without fields")
		}
		r.Spend(raw.ElemCost)
		if s.read == 0 {
			s.first = id
		}
		s.latest = id
		s.read++
		s.Entries = append(s.Entries, e)
	}
	if r.Err == nil && !p.Done() {
		r.Failf("node of a stream that goes on after its last entry")
	}
}

// group reads a consumer group.
func (r *reader) group(t byte, s *StreamValue) StreamGroup {
	g := StreamGroup{Name: r.String(), Last: r.ID(), EntriesRead: UnknownReads}
	if t != typeStream {
		g.EntriesRead = int64(r.Length())
	} else {
		g.EntriesRead = readsUpTo(s, g.Last)
	}
	if r.Err == nil && g.EntriesRead < UnknownReads {
		r.Failf("group that has read %d entries", g.EntriesRead)
	}
	const pendingLen = 16 + 8 + 1
	for n := r.Count(pendingLen); n > 0 && r.Err == nil; n-- {
		p := StreamPending{ID: r.RawID(), Delivered: r.U64(), Deliveries: r.Length(), Consumer: -1}
		r.Spend(raw.ElemCost)
		if i := len(g.Pending); i > 0 && g.Pending[i-1].ID.Compare(p.ID) >= 0 {
			r.Failf("pending entries out of order")
		}
		g.Pending = append(g.Pending, p)
	}
	assigned := 0
	for n := r.Count(1 + 8 + 1); n > 0 && r.Err == nil; n-- {
		c := StreamConsumer{Name: r.String(), Seen: r.U64()}
		c.Active = c.Seen
		if t == typeStream3 {
			c.Active = r.U64()
		}
		if c.Active > math.MaxInt64 { // -1: never
			c.Active = 0
		}
		if c.Seen > math.MaxInt64 {
			r.Failf("consumer that was seen at %d", int64(c.Seen))
		}
		r.Spend(raw.ElemCost)
		for n := r.Count(16); n > 0 && r.Err == nil; n-- {
			id := r.RawID()
			i, found := slices.BinarySearchFunc(g.Pending, id, func(p StreamPending,
				id cf.StreamID) int {
				return p.ID.Compare(id)
			})
			if !found || g.Pending[i].Consumer >= 0 {
				r.Failf("entry that is pending for a consumer, but not for the group, or for two")
				break
			}
			g.Pending[i].Consumer = len(g.Consumers)
			assigned++
		}
		g.Consumers = append(g.Consumers, c)
	}
	if r.Err == nil && assigned != len(g.Pending) {
		r.Failf("entries that are pending for no consumer")
	}
	names := make([][]byte, len(g.Consumers))
	for i := range names {
		names[i] = g.Consumers[i].Name
	}
	if raw.Repeats(names, 1) {
		r.Failf("two consumers of one name")
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
