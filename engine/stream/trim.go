package stream

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// TrimBy is the rule that selects the old entries to remove.
type TrimBy uint8

// The rules.
const (
	TrimNone   TrimBy = iota
	TrimMaxLen        // entries in excess of a max number
	TrimMinID         // entries with smaller ids
)

// Trim says which of the oldest entries to remove.
type Trim struct {
	By     TrimBy
	MaxLen uint64
	MinID  ID
	// Approx removes multiples of [TrimNode] entries, and none when fewer are in excess: one removal in a hundred calls
	// instead of one in every call.
	Approx bool
	Limit  uint64 // with Approx: max entries to remove; 0 = no limit
	Refs   Refs   // how references to removed entries are treated
}

// TrimNode is how many entries an approximate trim removes together: the size of a node in Redis with default settings.
// Fewer are removed together when they are all.
const TrimNode = 100

// bulkTrim is the number of entries from which one DeleteRange replaces single deletions.
const bulkTrim = 10000

// TrimOld removes the oldest entries and returns their number.
func TrimOld(tx *engine.Tx, key []byte, t *Trim) (removed uint64, err error) {
	s, err := load(tx, key)
	if err != nil || s.rec.Size == 0 {
		return 0, err
	}
	n := s.excess(t, s.rec.Size)
	if n == 0 {
		return 0, nil
	}
	removed, _, err = s.trimRefs(t, nil, func() (bool, error) {
		r := trimmer{s: &s, logs: true}
		defer r.close()
		if t.By == TrimMaxLen {
			return true, r.remove(n)
		}
		return true, r.byID(t, s.rec.Size, s.meta.Last)
	})
	if err != nil || removed == 0 {
		return 0, err
	}
	s.save()
	return removed, nil
}

// trimRefs calls trim, which removes entries from the low end, and then treats the references to them; with OnlyIfAcked
// it removes the entries itself. adding is the id of the entry that will be added, nil = none. keep says whether that
// entry stays; removed does not count it.
func (s *stream) trimRefs(t *Trim, adding *ID, trim func() (keep bool, err error)) (removed uint64, keep bool,
	err error) {
	before := s.rec.Size
	if t.Refs == KeepRefs || before == 0 && t.Refs == DeleteRefs {
		keep, err := trim()
		return before - s.rec.Size, keep, err
	}
	r, err := s.references()
	if err != nil {
		return 0, false, err
	}
	if t.Refs == OnlyIfAcked && len(r.groups) > 0 {
		return s.trimAcked(t, r, adding)
	}
	r.groups = slices.DeleteFunc(r.groups, func(g *referrer) bool { return g.value.Pending == 0 })
	if len(r.groups) == 0 {
		keep, err := trim()
		return before - s.rec.Size, keep, err
	}
	// a snapshot that still has the entries that trim removes
	it := s.iterate(s.meta.First, s.meta.Last, engine.IterOptions{KeysOnly: true})
	defer it.Close()
	if keep, err = trim(); err != nil {
		return 0, false, err
	}
	removed = before - s.rec.Size
	return removed, keep, r.dropRefs(&it, removed)
}

// trimToAdd removes the entries that are in excess once an entry is added, and reports whether the added entry itself
// stays.
func (s *stream) trimToAdd(t *Trim, id ID) (keep bool, err error) {
	total := s.rec.Size + 1
	n := s.excess(t, total)
	if n == 0 {
		return true, nil
	}
	_, keep, err = s.trimRefs(t, &id, func() (bool, error) {
		r := trimmer{s: s}
		defer r.close()
		if t.By == TrimMinID {
			err := r.byID(t, total, id)
			return r.removed < total, err
		}
		return n < total, r.remove(min(n, s.rec.Size))
	})
	return keep, err
}

// excess returns how many of total entries are in excess. By id it only says whether any may be.
func (s *stream) excess(t *Trim, total uint64) uint64 {
	switch {
	case t.By == TrimMinID && (s.rec.Size == 0 || s.meta.First.Compare(t.MinID) < 0):
		return 1
	case t.By != TrimMaxLen || total <= t.MaxLen:
		return 0
	case !t.Approx:
		return total - t.MaxLen
	}
	n := (total - t.MaxLen) / TrimNode * TrimNode
	if t.Limit > 0 {
		n = min(n, t.Limit/TrimNode*TrimNode)
	}
	// the last entries, fewer than a node
	if t.MaxLen == 0 && total-n < TrimNode && (t.Limit == 0 || total <= t.Limit) {
		n = total
	}
	return n
}

// trimmer removes entries from the low end of a stream.
type trimmer struct {
	s       *stream
	logs    bool // the removal must begin with its own log data
	removed uint64
	run     *run
	it      entriesIter // the entries after the run; opened when the run is used up
}

func (t *trimmer) close() {
	if t.it.Iter != nil {
		t.it.Close()
	}
}

// remove removes the n oldest entries. n is at most the number of entries.
func (t *trimmer) remove(n uint64) error {
	if n > bulkTrim {
		return t.removeRange(n)
	}
	for ; n > 0; n-- {
		if err := t.removeFirst(); err != nil {
			return err
		}
	}
	return nil
}

// byID removes the entries with smaller ids from total entries, the last of which is or will be last. It also counts
// the entry that will be added, if its id is too small.
func (t *trimmer) byID(o *Trim, total uint64, last ID) error {
	s := t.s
	adding := total - s.rec.Size // 1 if an entry will be added, otherwise 0
	bulk := false                // a bulk removal was done as far as possible
	for total > t.removed {
		n := uint64(1)
		if o.Approx {
			n = min(TrimNode, total-t.removed)
			if o.Limit > 0 && t.removed+n > o.Limit {
				return nil
			}
		}
		if t.removed >= bulkTrim && !bulk && s.rec.Size > 0 {
			bulk = true
			if o.Approx {
				if err := t.removeNodesBelow(o); err != nil {
					return err
				}
				continue
			}
			if err := t.removeBelow(o.MinID); err != nil {
				return err
			}
			if t.removed == total {
				return nil
			}
		}
		edge := last
		if n < total-t.removed {
			var err error
			if edge, err = t.at(int(n) - 1); err != nil {
				return err
			}
		}
		if edge.Compare(o.MinID) >= 0 {
			return nil
		}
		if n > s.rec.Size { // the entry that will be added is removed as well
			n -= adding
			t.removed += adding
		}
		if err := t.remove(n); err != nil {
			return err
		}
	}
	return nil
}

// log writes the log data before the first change.
func (t *trimmer) log() {
	if t.logs {
		t.s.tx.LogData(cf.LogStream)
		t.logs = false
	}
}

// at returns the id of the i-th oldest entry, counted from 0.
func (t *trimmer) at(i int) (ID, error) {
	s := t.s
	if s.rec.Size == 1 && i == 0 && s.meta.First == s.meta.Last {
		return s.meta.First, nil
	}
	if t.run == nil {
		t.run = s.runOf(true)
	}
	for t.run.left() <= i {
		more, err := t.fill(i + 1)
		if err != nil {
			return ID{}, err
		}
		if !more {
			return ID{}, s.corrupt("%d entries, the metadata says %d", t.run.left(), s.rec.Size)
		}
	}
	return t.run.ids[t.run.pos+i], nil
}

// fill appends ids to the run until it has n, or until the stream has no more.
func (t *trimmer) fill(n int) (more bool, err error) {
	s, r := t.s, t.run
	n = r.grow(n)
	if t.it.Iter == nil {
		from := s.meta.First
		if k := len(r.ids); k > r.pos {
			from, _ = Next(r.ids[k-1])
		}
		if from.Compare(s.meta.Last) > 0 {
			return false, nil
		}
		t.it = s.iterate(from, s.meta.Last, engine.IterOptions{KeysOnly: true, Limit: n})
	}
	for r.left() < n && t.it.Next() {
		id, err := s.idOf(t.it.Key())
		if err != nil {
			return false, err
		}
		r.ids = append(r.ids, id)
		more = true
	}
	if r.left() < n {
		r.end = s.meta.Last
	}
	r.resize()
	return more, t.it.Err()
}

// removeFirst removes the oldest entry and finds the next one.
func (t *trimmer) removeFirst() error {
	s := t.s
	id, err := t.at(0)
	if err != nil {
		return err
	}
	t.log()
	s.tx.Delete(cf.Stream, s.entryKey(id))
	s.rec.Size--
	t.removed++
	if t.run != nil && t.run.left() > 0 { // the run need not hold the very last entry
		t.run.pos++
	}
	if s.rec.Size == 0 {
		s.emptied()
		return nil
	}
	// The id after the removed one is a valid lower bound; the iterator or the run then gives the entry itself.
	s.meta.First, _ = Next(id)
	next, err := t.at(0)
	s.meta.First, s.meta.RecordedFirst = next, next
	return err
}

// emptied updates the metadata when no entry is left.
func (s *stream) emptied() {
	s.meta.First, s.meta.RecordedFirst, s.meta.Last = ID{}, ID{}, ID{}
}

// removeRange removes the n oldest entries with one DeleteRange.
func (t *trimmer) removeRange(n uint64) error {
	s := t.s
	if n >= s.rec.Size {
		return t.cut(MaxID, s.rec.Size)
	}
	it := s.iterate(s.meta.First, s.meta.Last, engine.IterOptions{KeysOnly: true, NoFill: true})
	defer it.Close()
	if skipped := it.Skip(n); skipped < n || !it.Next() {
		if err := it.Err(); err != nil {
			return err
		}
		return s.corrupt("%d entries, the metadata says %d", skipped, s.rec.Size)
	}
	first, err := s.idOf(it.Key())
	if err != nil {
		return err
	}
	return t.cut(first, n)
}

// removeBelow removes all entries with smaller ids with one DeleteRange.
func (t *trimmer) removeBelow(id ID) error {
	s := t.s
	switch {
	case id.Compare(s.meta.First) <= 0:
		return nil
	case id.Compare(s.meta.Last) > 0:
		return t.cut(MaxID, s.rec.Size)
	}
	n, err := s.count(s.meta.First, before(id))
	if err != nil {
		return err
	}
	if n >= s.rec.Size {
		return s.corrupt("%d entries below %s, the metadata says %d in all", n, text(id), s.rec.Size)
	}
	first, err := s.edge(id, s.meta.Last, false)
	if err != nil {
		return err
	}
	return t.cut(first, n)
}

// removeNodesBelow is removeBelow for an approximate trim.
func (t *trimmer) removeNodesBelow(o *Trim) error {
	s := t.s
	if o.MinID.Compare(s.meta.First) <= 0 {
		return nil
	}
	n, err := s.count(s.meta.First, smaller(before(o.MinID), s.meta.Last))
	if err != nil {
		return err
	}
	if o.Limit > 0 {
		n = min(n, o.Limit-t.removed)
	}
	if n = n / TrimNode * TrimNode; n == 0 {
		return nil
	}
	return t.removeRange(n)
}

// cut removes the n entries before first, which becomes the first entry. first is ignored when n is the number of all
// entries.
func (t *trimmer) cut(first ID, n uint64) error {
	s := t.s
	t.log()
	last := s.meta.Last
	if n < s.rec.Size {
		last = before(first)
	}
	s.deleteEntries(s.meta.First, last)
	t.close()
	t.it, t.run = entriesIter{}, nil
	if r := s.runOf(false); r != nil {
		r.empty()
	}
	s.rec.Size -= n
	t.removed += n
	if s.rec.Size == 0 {
		s.emptied()
		return nil
	}
	s.meta.First, s.meta.RecordedFirst = first, first
	return nil
}

// under returns the prefix followed by the encoded id.
func under(prefix []byte, id ID) []byte {
	return id.Append(append(make([]byte, 0, len(prefix)+16), prefix...))
}
