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
//
// Sets and sorted sets are stored in the byte order of their members, so all of them are read at the same time, and
// only the result is in memory.
type Operands struct {
	tx   *engine.Tx
	sets []operand
	// What the result may take, see Bound.
	room        int64
	each, times int
	full        error
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
	o := &Operands{tx: tx, sets: make([]operand, len(keys)), room: math.MaxInt64}
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

// Bound lets the operation fail with [engine.ErrResultSize] when the result would take more than so many bytes of
// memory, about.
func (o *Operands) Bound(bytes int64) {
	o.room, o.each, o.times, o.full = bytes, entryBytes, 1, engine.ErrResultSize
}

// BoundStored lets the operation fail when Store could not write the result to a key.
func (o *Operands) BoundStored(key []byte) {
	rec := o.tx.Fresh(key, cf.TypeZSet)
	o.room, o.full = o.tx.BatchRoom(), engine.ErrBatchSize
	o.each, o.times = storedBytes(len(o.tx.SubkeyPrefix(&rec))), 2
}

// entryBytes is the memory in bytes of an Entry without its member, in a slice that grows.
const entryBytes = 48

// storedBytes returns how many bytes of a write batch a member takes, without the member itself, which is stored twice.
func storedBytes(prefix int) int { return 2*(prefix+engine.MinRecord+cf.ScoreLen) + 1 }

// result is the growing result of an operation. It copies the members.
type result struct {
	entries []Entry
	names   arena
	o       *Operands
}

// add adds a member. It returns false when the result has become too large.
func (r *result) add(member []byte, score float64) bool {
	if !r.fits(member) {
		return false
	}
	r.entries = append(r.entries, Entry{r.names.copy(member), score})
	return true
}

// addAll adds members. whole: they come from all of an operand, which is in memory anyway, so they need not be copied.
func (r *result) addAll(entries []Entry, whole bool) bool {
	for i := range entries {
		e := &entries[i]
		if whole && !r.fits(e.Member) || !whole && !r.add(e.Member, e.Score) {
			return false
		}
	}
	if whole {
		r.entries = entries
	}
	return true
}

// fits takes the room for a member.
func (r *result) fits(member []byte) bool {
	o := r.o
	o.room -= int64(o.each + o.times*len(member))
	return o.room >= 0
}

// done returns the result; err is the error of reading.
func (r *result) done(err error) ([]Entry, error) {
	if err == nil && r.o.room < 0 {
		err = r.o.full
	}
	return r.entries, err
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
	var its []*engine.Iter
	defer func() {
		for _, it := range its {
			it.Close()
		}
	}()
	size, empty := uint64(0), 0 // empty operands come first
	for i := range o.sets {
		s := &o.sets[i]
		if s.size() == 0 {
			empty++
			continue
		}
		size += s.size()
		its = append(its, s.iter(o.tx, nil, nil, len(o.sets)))
	}
	r := result{o: o, entries: make([]Entry, 0, min(size, maxChunk))}
	var corrupt error
	err := engine.Merge(its, func(member []byte, at []int) bool {
		sum := 0.0
		for n, i := range at {
			s := &o.sets[empty+i]
			score, err := s.score(o.tx, its[i].Value())
			if err != nil {
				corrupt = err
				return false
			}
			if score = notNaN(score * s.weight); n > 0 {
				score = agg.add(sum, score)
			}
			sum = score
		}
		return r.add(member, sum)
	})
	return r.done(cmp.Or(corrupt, err))
}

// Inter returns the members that all operands contain, in byte order.
func (o *Operands) Inter(weights []float64, agg Aggregate) ([]Entry, error) {
	o.smallestFirst(weights, agg)
	first := &o.sets[0]
	r := result{o: o}
	var sums []float64
	err := first.chunks(o.tx, maxChunk, func(entries []Entry) (goOn bool, err error) {
		part := float64(len(entries)) / float64(first.size())
		sums = slices.Grow(sums[:0], len(entries))[:len(entries)]
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
			} else if err := s.probe(o.tx, entries, part, keep); err != nil {
				return false, err
			}
			entries, sums = entries[:n], sums[:n]
		}
		for i := range entries {
			entries[i].Score = sums[i]
		}
		return r.addAll(entries, part == 1), nil
	})
	return r.done(err)
}

// InterCard returns how many members all operands contain, at most limit; limit 0 = no limit.
func (o *Operands) InterCard(limit uint64) (count uint64, err error) {
	o.smallestFirst(nil, Sum)
	if limit == 0 {
		limit = math.MaxUint64
	}
	first := &o.sets[0]
	err = first.chunks(o.tx, int(min(max(limit, minChunk), maxChunk)), func(entries []Entry) (goOn bool, err error) {
		part := float64(len(entries)) / float64(first.size())
		for j := range o.sets[1:] {
			if !o.sets[1+j].same {
				if entries, err = o.sets[1+j].filter(o.tx, entries, part, true); err != nil {
					return false, err
				}
			}
		}
		count += uint64(len(entries))
		return count < limit, nil
	})
	return min(count, limit), err
}

// Diff returns the members of the first operand that no other operand contains, with their scores, in byte order.
func (o *Operands) Diff() ([]Entry, error) {
	first := &o.sets[0]
	for j := range o.sets[1:] {
		if bytes.Equal(o.sets[1+j].rec.NSKey(), first.rec.NSKey()) {
			return nil, nil
		}
	}
	r := result{o: o}
	err := first.chunks(o.tx, maxChunk, func(entries []Entry) (goOn bool, err error) {
		part := float64(len(entries)) / float64(first.size())
		for j := range o.sets[1:] {
			if entries, err = o.sets[1+j].filter(o.tx, entries, part, false); err != nil {
				return false, err
			}
		}
		return r.addAll(entries, part == 1), nil
	})
	return r.done(err)
}

// iter returns an iterator over the members from lower to upper (keys of the default family, nil = no bound) in byte
// order; beside is how many are read at the same time.
func (s *operand) iter(tx *engine.Tx, lower, upper []byte, beside int) *engine.Iter {
	return tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&s.rec), Lower: lower, Upper: upper,
		KeysOnly: s.plain, Limit: int(min(s.rec.Size, 1<<20)), Buffer: engine.MergeBuffer(beside)})
}

// score returns the score of a member from its record's value.
func (s *operand) score(tx *engine.Tx, value []byte) (float64, error) {
	if s.plain {
		return 1, nil
	}
	return parseScore(tx, &s.rec, value)
}

// Members of the first operand that are looked for in the others at a time: at least and at most, and their max size in
// bytes. An operand of fewer members is read whole.
const (
	minChunk      = 1 << 10
	maxChunk      = 1 << 14
	maxChunkBytes = 4 << 20
)

// chunks calls f with all members in byte order, at most most at a time, until f returns false. f may overwrite them.
func (s *operand) chunks(tx *engine.Tx, most int, f func(entries []Entry) (goOn bool, err error)) error {
	if s.size() == 0 {
		return nil
	}
	it := s.iter(tx, nil, nil, 1)
	defer it.Close()
	entries := make([]Entry, 0, min(s.size(), uint64(most)))
	for more := true; more; {
		var names arena
		bytes := 0
		for entries = entries[:0]; len(entries) < most && bytes < maxChunkBytes; {
			if more = it.Next(); !more {
				break
			}
			score, err := s.score(tx, it.Value())
			if err != nil {
				return err
			}
			entries = append(entries, Entry{names.copy(it.Key()), score})
			bytes += len(it.Key())
		}
		if len(entries) == 0 {
			break
		}
		if goOn, err := f(entries); err != nil || !goOn {
			return err
		}
	}
	return it.Err()
}

// lookUpCost is the cost of looking an entry up in a batched read, relative to reading an entry in a scan.
const lookUpCost = 6

// probe calls f with the score of each entry's member in the operand. The entries, if any, must be sorted by member,
// and come from a part of another operand. probe looks the members up or scans that part of the operand, whichever it
// estimates to be cheaper. f may overwrite entries up to i.
func (s *operand) probe(tx *engine.Tx, entries []Entry, part float64, f func(i int, score float64, found bool)) error {
	if s.size() == 0 {
		for i := range entries {
			f(i, 0, false)
		}
		return nil
	}
	if float64(len(entries)*lookUpCost) < float64(s.rec.Size)*part {
		return s.lookUp(tx, entries, f)
	}
	if len(entries) == 0 {
		return nil
	}
	prefix := tx.SubkeyPrefix(&s.rec)
	it := s.iter(tx, memberBound(prefix, entries[0].Member, false),
		memberBound(prefix, entries[len(entries)-1].Member, true), 1)
	defer it.Close()
	i := 0
	for i < len(entries) && it.Next() {
		member := it.Key()
		for i < len(entries) {
			c := bytes.Compare(entries[i].Member, member)
			if c > 0 {
				break
			}
			score := 0.0
			if c == 0 {
				var err error
				if score, err = s.score(tx, it.Value()); err != nil {
					return err
				}
			}
			f(i, score, c == 0)
			if i++; c == 0 {
				break
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	for ; i < len(entries); i++ {
		f(i, 0, false)
	}
	return nil
}

// filter keeps the entries that are members of the operand (in), or those that are not, in their place.
func (s *operand) filter(tx *engine.Tx, entries []Entry, part float64, in bool) ([]Entry, error) {
	n := 0
	err := s.probe(tx, entries, part, func(i int, _ float64, found bool) {
		if found == in {
			entries[n] = entries[i]
			n++
		}
	})
	return entries[:n], err
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
			score := 0.0
			if v != nil {
				if score, err = s.score(tx, v); err != nil {
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
	bytes := len(entries) * storedBytes(len(tx.SubkeyPrefix(&w.rec)))
	for i := range entries {
		bytes += 2 * len(entries[i].Member)
	}
	if err := tx.Reserve(0, bytes); err != nil {
		return err
	}
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
