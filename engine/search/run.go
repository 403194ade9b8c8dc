package search

import (
	"bytes"
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// candidates is how many keys a query reads in one batch.
const candidates = 16

// keyScan finds the keys of an index's prefixes, each once, in the order of the prefixes.
type keyScan struct {
	tx       *engine.Tx
	snap     *engine.Snapshot
	ix       *Index
	prefixes [][]byte
	it       *engine.Iter
	key      []byte
}

func newKeyScan(tx *engine.Tx, snap *engine.Snapshot, ix *Index) *keyScan {
	return &keyScan{tx: tx, snap: snap, ix: ix, prefixes: ix.disjoint()}
}

// disjoint returns the index's prefixes in ascending order, without those that another one covers.
func (ix *Index) disjoint() (prefixes [][]byte) {
	for _, p := range slices.SortedFunc(slices.Values(ix.Prefixes), bytes.Compare) {
		if n := len(prefixes); n == 0 || !bytes.HasPrefix(p, prefixes[n-1]) {
			prefixes = append(prefixes, p)
		}
	}
	if len(prefixes) == 0 {
		prefixes = [][]byte{nil}
	}
	return prefixes
}

// next returns the next key, which is valid until the next call.
func (s *keyScan) next() (key []byte, ok bool, err error) {
	for {
		if s.it == nil {
			if len(s.prefixes) == 0 {
				return nil, false, nil
			}
			s.it = s.tx.Iter(cf.Metadata, engine.IterOptions{KeysOnly: true, NoFill: true, Snapshot: s.snap,
				Prefix: append(cf.AppendNSPrefix(nil, s.ix.Namespace), s.prefixes[0]...)})
		}
		if s.it.Next() {
			s.key = append(append(s.key[:0], s.prefixes[0]...), s.it.Key()...)
			return s.key, true, nil
		}
		err := s.it.Err()
		s.close()
		if err != nil {
			return nil, false, err
		}
		s.prefixes = s.prefixes[1:]
	}
}

func (s *keyScan) close() {
	if s.it != nil {
		s.it.Close()
		s.it = nil
	}
}

// candidate is a key that a scan has found.
type candidate struct {
	key []byte
	num float64 // of a NUMERIC scan: the value in the entry
}

// source returns the candidates of a scan one by one.
func (s *scan) source(tx *engine.Tx, snap *engine.Snapshot, ix *Index) (next func() (candidate, bool, error),
	done func()) {
	if s.field == nil {
		keys := newKeyScan(tx, snap, ix)
		return func() (candidate, bool, error) {
			key, ok, err := keys.next()
			return candidate{key: key}, ok, err
		}, keys.close
	}
	if s.near != nil {
		return s.vectors(tx, snap, ix), func() {}
	}
	prefix, lower, upper := s.entries(ix)
	if bytes.Compare(lower, upper) >= 0 {
		return func() (candidate, bool, error) { return candidate{}, false, nil }, func() {}
	}
	it := tx.Iter(cf.Search, engine.IterOptions{Prefix: prefix, Lower: lower, Upper: upper, KeysOnly: true,
		Reverse: s.desc, Snapshot: snap})
	return func() (c candidate, ok bool, err error) {
		for it.Next() {
			rest := it.Key()
			if s.field.Type != cf.SearchTag {
				if c.num, err = cf.ParseDouble(rest); err != nil {
					continue // a corrupt entry finds nothing
				}
				rest = rest[cf.ScoreLen:]
			}
			if key, rest, err := cf.CutSized(rest); err == nil && len(rest) == 0 {
				c.key = key
				return c, true, nil
			}
		}
		return c, false, it.Err()
	}, it.Close
}

// entries returns the range of the entries that a scan of a TAG or a NUMERIC field reads, and what they begin with.
func (s *scan) entries(ix *Index) (prefix, lower, upper []byte) {
	prefix = ix.fieldData(s.field)
	if s.field.Type == cf.SearchTag {
		prefix = cf.AppendSized(prefix, s.tag)
		upper, _ = cf.AppendSuccessor(nil, prefix)
		return prefix, prefix, upper
	}
	lo, hi := s.lo, s.hi+0 // -0 has an entry of its own, before that of 0
	if lo == 0 {
		lo = math.Copysign(0, -1)
	}
	upper, _ = cf.AppendSuccessor(nil, cf.AppendDouble(bytes.Clone(prefix), hi))
	return prefix, cf.AppendDouble(bytes.Clone(prefix), lo), upper
}

// vectors returns the keys that the graph of a VECTOR field finds, in the order of their distances. As a graph may have
// nodes of keys that a compaction has removed, there may be more of the nearest keys than the query wants.
func (s *scan) vectors(tx *engine.Tx, snap *engine.Snapshot, ix *Index) (next func() (candidate, bool, error)) {
	ef, radius := bounded(s.field.Vector.EFRuntime, maxSorted), s.near.radius()
	if s.near.op == opNearest {
		ef, radius = max(ef, int(s.near.k)), math.Inf(-1)
	}
	var near []found
	returned := map[string]bool{}
	last := false // a further search would find no more
	return func() (candidate, bool, error) {
		for {
			for len(near) > 0 {
				n := near[0]
				if near = near[1:]; !returned[n.key] {
					returned[n.key] = true
					return candidate{key: []byte(n.key)}, true, nil
				}
			}
			if last {
				return candidate{}, false, nil
			}
			g, err := ix.graph(tx, snap, s.field)
			if err != nil {
				return candidate{}, false, err
			}
			g.query = true
			p := newPoint(s.field.Vector.Metric, s.near.vec)
			if near, err = g.nearest(&p, ef, radius); err != nil {
				return candidate{}, false, err
			}
			last = s.near.op == opRange || len(near) < ef || ef >= maxSorted
			ef *= 2
		}
	}
}

// each calls visit with the rows that meet the condition, in the order of the scans, until visit returns false.
func (p *plan) each(tx *engine.Tx, snap *engine.Snapshot, now int64, visit func(r *Row) bool) error {
	for i, s := range p.scans {
		more, err := p.scan(tx, snap, now, i, s, visit)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (p *plan) scan(tx *engine.Tx, snap *engine.Snapshot, now int64, at int, s *scan, visit func(r *Row) bool) (
	more bool, err error) {
	next, done := s.source(tx, snap, p.ix)
	defer done()
	var found []candidate
	var keys [][]byte
	left := int64(math.MaxInt64) // how many keys the scan has yet to find
	if s.near != nil && s.near.op == opNearest {
		left = s.near.k
	}
	for more = true; more && left > 0; {
		found, keys = found[:0], keys[:0]
		for int64(len(found)) < min(candidates, left) {
			var c candidate
			if c, more, err = next(); err != nil {
				return false, err
			}
			if !more {
				break
			}
			c.key = bytes.Clone(c.key)
			found, keys = append(found, c), append(keys, c.key)
		}
		if len(found) == 0 {
			break
		}
		rows, err := p.ix.rows(tx, snap, now, keys)
		if err != nil {
			return false, err
		}
		i := 0
		for j := range rows {
			for !bytes.Equal(found[i].key, rows[j].Key) {
				i++
			}
			if s.near != nil && !rows[j].Value(s.field).Exists {
				continue // the node of a key that was removed and made anew since
			}
			left--
			if p.accepts(&rows[j], at, s, &found[i]) && !visit(&rows[j]) {
				return false, nil
			}
			i++
		}
	}
	return true, nil
}

// accepts reports whether a row meets the condition, and no other scan, and no other entry of the scan, finds it too.
func (p *plan) accepts(r *Row, at int, s *scan, c *candidate) bool {
	if !p.where.holds(r) {
		return false
	}
	// An entry may be out of date: the key had expired, and was removed without its entries, before it got another value.
	switch {
	case s.field == nil || s.near != nil:
	case s.field.Type == cf.SearchNumeric:
		if v := r.Value(s.field); !v.Exists || v.Num != c.num || math.Signbit(v.Num) != math.Signbit(c.num) {
			return false
		}
	case !s.finds(r):
		return false
	}
	return !slices.ContainsFunc(p.scans[:at], func(earlier *scan) bool { return earlier.finds(r) })
}

func (s *scan) finds(r *Row) bool {
	v := r.Value(s.field)
	switch {
	case s.near != nil:
		return s.near.holds(r)
	case !v.Exists:
		return false
	case s.field.Type == cf.SearchNumeric:
		return s.lo <= v.Num && v.Num <= s.hi
	}
	return slices.ContainsFunc(v.Tags, func(tag []byte) bool { return s.field.isTag(tag, s.tag) })
}

// Run executes a query on the transaction's namespace. It calls visit with each result in turn: the key, and the fields
// that the reply must have, of which the missing ones are left out. It ends when visit returns false.
//
// It reads a snapshot, with the transaction's own writes. Besides 16 rows it holds only the keys that must be sorted in
// memory.
func (r *Registry) Run(tx *engine.Tx, q *Query, visit func(row *Row, fields []*Field) bool) error {
	p, err := r.plan(tx.Namespace(), q)
	if err != nil || q.Count == 0 || p.where.op == opNone {
		return err
	}
	snap := tx.DB().NewSnapshot()
	defer snap.Close()
	if q.order != nil && !p.sorted {
		return p.runSorted(tx, snap, visit)
	}
	skip, left := q.Offset, q.Count
	return p.each(tx, snap, tx.Now(), func(r *Row) bool {
		if skip > 0 {
			skip--
			return true
		}
		left--
		return visit(r, p.present(r)) && left != 0
	})
}

// present returns the fields of a reply that a row has.
func (p *plan) present(r *Row) []*Field {
	return slices.DeleteFunc(slices.Clone(p.ret), func(f *Field) bool { return !r.Value(f).Exists })
}

// ranked is a heap of keys, the last in the order at the top.
type ranked struct {
	list []candidate
	desc bool
}

// order compares as the entries of a NUMERIC field do: by number, then by the length of the key, then by the key.
func (h *ranked) order(a, b *candidate) int {
	n := cmp.Or(cmp.Compare(a.num, b.num), cmp.Compare(len(a.key), len(b.key)), bytes.Compare(a.key, b.key))
	if h.desc {
		return -n
	}
	return n
}

func (h *ranked) Len() int           { return len(h.list) }
func (h *ranked) Less(i, j int) bool { return h.order(&h.list[i], &h.list[j]) > 0 }
func (h *ranked) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *ranked) Push(x any)         { h.list = append(h.list, x.(candidate)) }
func (h *ranked) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// runSorted keeps the first offset+count keys of the order in a heap, and reads their rows again at the end.
func (p *plan) runSorted(tx *engine.Tx, snap *engine.Snapshot, visit func(row *Row, fields []*Field) bool) error {
	h := &ranked{desc: p.q.order.desc}
	limit := int(min(p.q.Offset, maxSorted) + min(p.q.Count, maxSorted)) // LIMIT may be larger: there are not more keys
	if p.q.Count < 0 {
		limit = int(p.scans[0].near.k)
	}
	now := tx.Now()
	err := p.each(tx, snap, now, func(r *Row) bool {
		v := r.Value(p.q.order.field)
		if !v.Exists {
			return true
		}
		c := candidate{key: r.Key, num: v.Num}
		switch {
		case len(h.list) < limit:
			heap.Push(h, c)
		case h.order(&c, &h.list[0]) < 0:
			h.list[0] = c
			heap.Fix(h, 0)
		}
		return true
	})
	if err != nil {
		return err
	}
	slices.SortFunc(h.list, func(a, b candidate) int { return h.order(&a, &b) })
	for part := range slices.Chunk(h.list[min(int(p.q.Offset), len(h.list)):], candidates) {
		keys := make([][]byte, len(part))
		for i := range part {
			keys[i] = part[i].key
		}
		rows, err := p.ix.rows(tx, snap, now, keys)
		if err != nil {
			return err
		}
		for i := range rows {
			if !visit(&rows[i], p.present(&rows[i])) {
				return nil
			}
		}
	}
	return nil
}

// Tags calls visit with the tags of a field of an index, each once, in ascending order of their lengths, until visit
// returns false. A field that is missing, or is not a TAG field, has none.
func (r *Registry) Tags(tx *engine.Tx, index, field string, visit func(tag []byte) bool) error {
	ix, err := r.Find(tx.Namespace(), index)
	if err != nil {
		return err
	}
	f := ix.Field(field)
	if f == nil || f.Type != cf.SearchTag {
		return nil
	}
	it := tx.Iter(cf.Search, engine.IterOptions{Prefix: ix.fieldData(f), KeysOnly: true})
	defer it.Close()
	var last []byte
	for first := true; it.Next(); {
		tag, _, err := cf.CutSized(it.Key())
		if err != nil || !first && bytes.Equal(tag, last) {
			continue
		}
		first, last = false, append(last[:0], tag...)
		if !visit(tag) {
			break
		}
	}
	return it.Err()
}
