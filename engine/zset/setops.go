package zset

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Aggregate says how the scores of a member in several sets are combined.
type Aggregate uint8

// The kinds of aggregation.
const (
	Sum Aggregate = iota
	Min
	Max
	CountSets // the sum, with every score taken for 1
)

// add combines two scores. The sum of infinity and minus infinity is 0.
func (a Aggregate) add(x, y float64) float64 {
	switch {
	case a == Min && y < x, a == Max && y > x:
		return y
	case a == Min, a == Max:
		return x
	}
	if x += y; math.IsNaN(x) {
		return 0
	}
	return x
}

// Operands are the inputs of a union, an intersection or a difference: sorted sets, sets (whose members have the score
// 1), and missing keys, which count as empty.
type Operands struct {
	tx   *engine.Tx
	sets []operand
}

type operand struct {
	rec    engine.Record
	weight float64
	plain  bool // all scores are 1: a set, or with CountSets
	same   bool // the same key as the first operand, after sorting
}

func (o *operand) size() uint64 {
	if !o.rec.Exists {
		return 0
	}
	return o.rec.Size
}

// Open loads the operands. All keys must stay locked for reading until the operation is done.
func Open(tx *engine.Tx, keys [][]byte) (*Operands, error) {
	o := &Operands{tx: tx, sets: make([]operand, len(keys))}
	for i, k := range keys {
		rec, err := tx.LoadHead(k) // neither sets nor sorted sets have a tail
		if err != nil {
			return nil, err
		}
		if rec.Exists && rec.Type != cf.TypeZSet && rec.Type != cf.TypeSet {
			return nil, engine.ErrWrongType
		}
		o.sets[i] = operand{rec: rec, weight: 1, plain: rec.Type == cf.TypeSet}
	}
	return o, nil
}

// smallestFirst assigns the weights (nil = 1 each) to the operands and sorts the operands by size. The order matters:
// sums of doubles depend on it.
func (o *Operands) smallestFirst(weights []float64, agg Aggregate) {
	for i := range weights {
		o.sets[i].weight = weights[i]
	}
	for i := range o.sets {
		o.sets[i].plain = o.sets[i].plain || agg == CountSets
	}
	slices.SortStableFunc(o.sets, func(a, b operand) int { return cmp.Compare(a.size(), b.size()) })
	for i := range o.sets[1:] {
		o.sets[1+i].same = bytes.Equal(o.sets[1+i].rec.NSKey(), o.sets[0].rec.NSKey())
	}
}

func notNaN(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// Union returns the members of all operands, in byte order. The scores of operand i are multiplied by weights[i], which
// is not NaN; weights may be nil.
func (o *Operands) Union(weights []float64, agg Aggregate) ([]Entry, error) {
	o.smallestFirst(weights, agg)
	var all []Entry
	var runs []int // the ends of the operands' members in all
	var names arena
	for i := range o.sets {
		s := &o.sets[i]
		err := s.each(o.tx, nil, nil, func(member []byte, score float64) error {
			all = append(all, Entry{names.copy(member), notNaN(score * s.weight)})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if n := len(all); n > 0 && (len(runs) == 0 || runs[len(runs)-1] < n) {
			runs = append(runs, n)
		}
	}
	all = mergeRuns(all, runs)
	out := all[:0]
	for _, e := range all {
		if n := len(out); n > 0 && bytes.Equal(out[n-1].Member, e.Member) {
			out[n-1].Score = agg.add(out[n-1].Score, e.Score)
		} else {
			out = append(out, e)
		}
	}
	return out, nil
}

// mergeRuns sorts entries that consist of sorted runs; runs holds the ends of the runs. Equal members keep their order.
func mergeRuns(all []Entry, runs []int) []Entry {
	if len(runs) < 2 {
		return all
	}
	other := make([]Entry, 0, len(all))
	for len(runs) > 1 {
		other = other[:0]
		from, ends := 0, 0
		for i := 0; i < len(runs); i += 2 {
			a, b := all[from:runs[i]], []Entry(nil)
			from = runs[i]
			if i+1 < len(runs) {
				b = all[from:runs[i+1]]
				from = runs[i+1]
			}
			for len(a) > 0 && len(b) > 0 {
				if bytes.Compare(a[0].Member, b[0].Member) <= 0 {
					other, a = append(other, a[0]), a[1:]
				} else {
					other, b = append(other, b[0]), b[1:]
				}
			}
			other = append(append(other, a...), b...)
			runs[ends] = len(other)
			ends++
		}
		runs = runs[:ends]
		all, other = other, all
	}
	return all
}

// Inter returns the members that all operands contain, in byte order.
func (o *Operands) Inter(weights []float64, agg Aggregate) ([]Entry, error) {
	o.smallestFirst(weights, agg)
	first := &o.sets[0]
	entries, err := first.all(o.tx)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	sums := make([]float64, len(entries))
	for i := range entries {
		sums[i] = notNaN(entries[i].Score * first.weight)
	}
	for j := range o.sets[1:] {
		s := &o.sets[1+j]
		n := 0
		keep := func(i int, score float64, found bool) {
			if found {
				entries[n], sums[n] = entries[i], agg.add(sums[i], float64(score*s.weight)) // not fused
				n++
			}
		}
		if s.same {
			for i := range entries {
				keep(i, entries[i].Score, true)
			}
		} else if err := s.probe(o.tx, entries, keep); err != nil {
			return nil, err
		}
		if entries, sums = entries[:n], sums[:n]; n == 0 {
			break
		}
	}
	for i := range entries {
		entries[i].Score = sums[i]
	}
	return entries, nil
}

// interChunk is how many members of the smallest operand a limited intersection checks at a time.
const interChunk = 1024

// InterCard returns how many members all operands contain, at most limit; limit 0 = no limit.
func (o *Operands) InterCard(limit uint64) (uint64, error) {
	o.smallestFirst(nil, Sum)
	entries, err := o.sets[0].all(o.tx)
	if err != nil {
		return 0, err
	}
	if limit == 0 {
		limit = math.MaxUint64
	}
	var count uint64
	for len(entries) > 0 && count < limit {
		part := entries[:min(len(entries), int(max(min(limit, math.MaxInt64/2), interChunk)))]
		entries = entries[len(part):]
		for j := range o.sets[1:] {
			if o.sets[1+j].same {
				continue
			}
			n := 0
			err := o.sets[1+j].probe(o.tx, part, func(i int, _ float64, found bool) {
				if found {
					part[n] = part[i]
					n++
				}
			})
			if err != nil {
				return 0, err
			}
			part = part[:n]
		}
		count += uint64(len(part))
	}
	return min(count, limit), nil
}

// Diff returns the members of the first operand that no other operand contains, with their scores, in byte order.
func (o *Operands) Diff() ([]Entry, error) {
	entries, err := o.sets[0].all(o.tx)
	for j := range o.sets[1:] {
		if err != nil || len(entries) == 0 {
			break
		}
		s := &o.sets[1+j]
		if bytes.Equal(s.rec.NSKey(), o.sets[0].rec.NSKey()) {
			return nil, nil
		}
		n := 0
		err = s.probe(o.tx, entries, func(i int, _ float64, found bool) {
			if !found {
				entries[n] = entries[i]
				n++
			}
		})
		entries = entries[:n]
	}
	return entries, err
}

// each calls f with the members from lower to upper (keys of the default family, nil = no bound) in byte order.
func (s *operand) each(tx *engine.Tx, lower, upper []byte, f func(member []byte, score float64) error) error {
	if s.size() == 0 {
		return nil
	}
	limit := int(min(s.rec.Size, 1<<20))
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&s.rec), Lower: lower, Upper: upper,
		KeysOnly: s.plain, Limit: limit})
	defer it.Close()
	for it.Next() {
		score := 1.0
		if !s.plain {
			var err error
			if score, err = parseScore(tx, &s.rec, it.Value()); err != nil {
				return err
			}
		}
		if err := f(it.Key(), score); err != nil {
			return err
		}
	}
	return it.Err()
}

// all returns all members in byte order.
func (s *operand) all(tx *engine.Tx) ([]Entry, error) {
	entries := make([]Entry, 0, min(s.size(), 1<<16))
	var names arena
	err := s.each(tx, nil, nil, func(member []byte, score float64) error {
		entries = append(entries, Entry{names.copy(member), score})
		return nil
	})
	return entries, err
}

// lookUpCost is the cost of looking an entry up in a batched read, relative to reading an entry in a scan.
const lookUpCost = 6

// probe calls f with the score of each entry's member in the operand. The entries must be sorted by member. probe looks
// the members up or scans the operand, whichever it estimates to be cheaper. f may overwrite entries up to i.
func (s *operand) probe(tx *engine.Tx, entries []Entry, f func(i int, score float64, found bool)) error {
	if s.size() == 0 {
		for i := range entries {
			f(i, 0, false)
		}
		return nil
	}
	if uint64(len(entries))*lookUpCost < s.rec.Size {
		return s.lookUp(tx, entries, f)
	}
	prefix := tx.SubkeyPrefix(&s.rec)
	lower := memberBound(prefix, entries[0].Member, false)
	upper := memberBound(prefix, entries[len(entries)-1].Member, true)
	i := 0
	err := s.each(tx, lower, upper, func(member []byte, score float64) error {
		for i < len(entries) {
			c := bytes.Compare(entries[i].Member, member)
			if c > 0 {
				break
			}
			f(i, score, c == 0)
			i++
			if c == 0 {
				break
			}
		}
		return nil
	})
	for ; i < len(entries) && err == nil; i++ {
		f(i, 0, false)
	}
	return err
}

func (s *operand) lookUp(tx *engine.Tx, entries []Entry, f func(i int, score float64, found bool)) error {
	const batch = 256
	for from := 0; from < len(entries); from += batch {
		part := entries[from:min(from+batch, len(entries))]
		keys := tx.Keys()
		for i := range part {
			keys.Add(tx.Subkey(&s.rec, part[i].Member))
		}
		values, err := tx.MultiGet(cf.Default, keys)
		if err != nil {
			return err
		}
		for i, v := range values {
			score := 1.0
			if v != nil && !s.plain {
				if score, err = parseScore(tx, &s.rec, v); err != nil {
					return err
				}
			}
			f(from+i, score, v != nil)
		}
	}
	return nil
}

// SortByScore sorts entries into the order of a sorted set: by score, then by member.
func SortByScore(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		switch {
		case a.Score < b.Score:
			return -1
		case a.Score > b.Score:
			return 1
		}
		return bytes.Compare(a.Member, b.Member)
	})
}

// Store replaces whatever a key holds by the entries, whose members must be distinct. With no entries the key is
// deleted; if it did not exist, nothing is written.
func Store(tx *engine.Tx, key []byte, entries []Entry) error {
	if len(entries) == 0 {
		if old, err := tx.LoadHead(key); err != nil || !old.Exists {
			return err
		}
	}
	w := writer{tx: tx, rec: tx.Fresh(key, cf.TypeZSet)}
	w.log()
	for i := range entries {
		w.put(entries[i].Member, false, 0, entries[i].Score)
	}
	w.rec.Size = uint64(len(entries))
	tx.Save(&w.rec, nil)
	return nil
}

// arena stores copies of members in a few large blocks.
type arena struct{ block []byte }

func (a *arena) copy(b []byte) []byte {
	if cap(a.block)-len(a.block) < len(b) {
		a.block = make([]byte, 0, max(min(2*cap(a.block), 256<<10), 1<<10, len(b)))
	}
	at := len(a.block)
	a.block = append(a.block, b...)
	return a.block[at:len(a.block):len(a.block)]
}
