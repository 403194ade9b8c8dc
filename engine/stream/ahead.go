package stream

import (
	"slices"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// An ahead is a copy of the entries that a group hands out next. Consumers ask for one or a few entries at a time, and
// to open an iterator for those costs more than all the rest; so more of them are read at once, the more often it was
// used up, and kept for the next calls.
//
// Entries do not change, and new ones come only behind the last. So a copy is right until entries are removed:
// trimming leaves those before the first entry by the metadata record, which are passed over; Delete and SetID, after
// which an id may come back, make it forgotten.
type ahead struct {
	after ID // all entries behind this one up to the last of ids are there
	ids   []ID
	ends  []int // of the values in data
	sizes []int // Entry.Len
	data  []byte
	want  int // how many were to be read last time
}

// aheads are those of the groups of one stream, by name.
type aheads struct {
	derived.Entry
	groups map[string]*ahead
	bytes  int // that they take
}

const (
	aheadMaxGroups = 128      // of a stream
	aheadBytes     = 16 << 10 // of the values of one ahead, about
	aheadFirst     = 4
	aheadMost      = 64
	aheadCount     = 16 // who asks for more entries reads them with an iterator
)

var aheadKind = derived.Kind[*aheads]{ID: derived.Aheads}

// dropAheads forgets what was read ahead of the stream.
func (s *stream) dropAheads() {
	if a := engine.HaveState(s.tx, aheadKind, &s.rec); a != nil {
		a.Drop()
	}
}

// of returns the ahead of a group.
func (a *aheads) of(group []byte) *ahead {
	x := a.groups[string(group)]
	if x == nil {
		if len(a.groups) >= aheadMaxGroups {
			for k, other := range a.groups {
				a.bytes -= other.memory()
				delete(a.groups, k)
				break
			}
		}
		if a.groups == nil {
			a.groups = map[string]*ahead{}
		}
		x = new(ahead)
		a.bytes += x.memory() + len(group)
		a.groups[string(group)] = x
	}
	return x
}

// memory returns how many bytes it takes.
func (a *ahead) memory() int { return 192 + cap(a.data) + 16*cap(a.ids) + 8*(cap(a.ends)+cap(a.sizes)) }

// next calls f with the entries of the stream behind the last one that the group has handed out, at most count of
// them. f moves the group on.
func (g *Group) next(count uint64, f func(e *Entry)) error {
	if count == 0 || count > aheadCount {
		from, _ := Next(g.value.LastDelivered)
		return g.s.scan(RangeOptions{From: from, To: MaxID, Count: count}, f)
	}
	all := engine.FindState(g.s.tx, aheadKind, &g.s.rec)
	if all == nil {
		all = &aheads{}
		engine.KeepState(g.s.tx, aheadKind, &g.s.rec, all, 0)
	}
	a := all.of(g.name)
	for count > 0 && g.HasNew() {
		i, ok := a.find(greater(g.value.LastDelivered, before(g.s.meta.First)))
		if !ok {
			all.bytes -= a.memory()
			err := a.read(g, count)
			all.bytes += a.memory()
			all.Resize(all.bytes)
			if err != nil {
				return err
			}
			if i = 0; len(a.ids) == 0 {
				return nil
			}
		}
		for ; count > 0 && i < len(a.ids); i++ {
			e := a.entry(i)
			f(&e)
			count--
		}
	}
	return nil
}

// before returns the id before another one; 0-0 has none and is returned itself.
func before(id ID) ID {
	switch {
	case id.Seq > 0:
		return ID{Ms: id.Ms, Seq: id.Seq - 1}
	case id.Ms > 0:
		return ID{Ms: id.Ms - 1, Seq: ^uint64(0)}
	}
	return id
}

// find returns the place of the first entry behind an id; false when that was not read.
func (a *ahead) find(id ID) (int, bool) {
	if len(a.ids) == 0 || id.Compare(a.after) < 0 || id.Compare(a.ids[len(a.ids)-1]) >= 0 {
		return 0, false
	}
	i, found := slices.BinarySearchFunc(a.ids, id, ID.Compare)
	if found {
		i++
	}
	return i, true
}

// read puts the next entries in the place of those that were read before.
func (a *ahead) read(g *Group, count uint64) error {
	after := g.value.LastDelivered
	if len(a.ids) > 0 && after == a.ids[len(a.ids)-1] { // all of it was used
		a.want = min(max(2*a.want, aheadFirst), aheadMost)
	} else {
		a.want = aheadFirst
	}
	want := max(count, uint64(a.want))
	a.after, a.ids, a.ends, a.sizes, a.data = after, a.ids[:0], a.ends[:0], a.sizes[:0], a.data[:0]
	if cap(a.data) > 4*aheadBytes {
		a.data = nil
	}
	from, _ := Next(after)
	return g.s.scanWhile(RangeOptions{From: from, To: MaxID, Count: want}, func(e *Entry) bool {
		a.ids = append(a.ids, e.ID)
		a.sizes = append(a.sizes, e.n)
		a.data = append(a.data, e.rest...)
		a.ends = append(a.ends, len(a.data))
		return len(a.data) < aheadBytes
	})
}

func (a *ahead) entry(i int) Entry {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return Entry{ID: a.ids[i], n: a.sizes[i], rest: a.data[from:a.ends[i]:a.ends[i]]}
}
