package geo

import (
	"cmp"
	"slices"
	"sync"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/zset"
)

// Order is the order of a search's result.
type Order uint8

// The orders. Members at the same distance come in the order of the cells; but when Count truncates the result, their
// order depends on all members found.
const (
	Unsorted Order = iota // cell by cell, by score within a cell
	Nearest               // nearest first
	Furthest
)

// Query is a search.
type Query struct {
	Shape Shape
	Order Order
	Count int  // max number of members; 0 = all
	Any   bool // with Count: any members, the first ones found
	fresh bool // do not use kept cells
}

// Found is a member inside the shape.
type Found struct {
	Member   []byte
	Score    float64
	Lon, Lat float64
	Distance float64 // from the centre of the shape, in its units
}

// Search calls emit with the members inside the query's shape. All cells show the same state of the set.
func Search(tx *engine.Tx, key []byte, q *Query, emit func(f *Found)) error {
	s := searches.Get().(*search)
	defer s.release()
	if err := s.run(tx, key, q); err != nil {
		return err
	}
	var f Found
	for i := range s.points {
		p := &s.points[i]
		f = Found{s.names[p.name:p.end:p.end], p.score, p.lon, p.lat, p.distance / q.Shape.Unit}
		emit(&f)
	}
	return nil
}

// Store replaces whatever dst holds by the result of a search: a sorted set with the same scores, or with byDistance
// the distances in the shape's unit as scores. An empty result deletes dst. Store returns the number of members. It
// needs the lock of dst for writing and that of key for reading.
func Store(tx *engine.Tx, dst, key []byte, q *Query, byDistance bool) (int, error) {
	s := searches.Get().(*search)
	defer s.release()
	if err := s.run(tx, key, q); err != nil {
		return 0, err
	}
	if len(s.points) == 0 {
		_, err := keys.Del(tx, dst)
		return 0, err
	}
	entries := make([]zset.Entry, len(s.points))
	for i := range s.points {
		p := &s.points[i]
		entries[i] = zset.Entry{Member: s.names[p.name:p.end:p.end], Score: p.score}
		if byDistance {
			entries[i].Score = p.distance / q.Shape.Unit
		}
	}
	return len(entries), zset.Store(tx, dst, entries)
}

// point is a member that was read. Its first fields have the layout of the C struct basalt_geo_point.
type point struct {
	lon, lat  float64
	distance  float64 // in metres
	score     float64
	name, end int // the member is search.names[name:end]
	seq       int // its position in the order of the visit
}

// search is the working memory of one search.
type search struct {
	q        *Query
	cells    []cell
	leaves   []leaf
	ranges   []zset.ScoreRange
	first    []int  // index in sorted of the first cell of each range
	read     []byte // the points of the current leaf, in the format of keptCell
	within   window
	sorted   []span
	points   []point // the first measured points are inside, the others are not measured yet
	ordered  []point
	names    []byte
	measured int
	batch    int // how many points one cgo call measures
	current  int // index in sorted of the current cell
}

// leaf is a cell, or a part of a cell, that intersects the shape.
type leaf struct {
	at       int // index in sorted of the cell
	steps    uint8
	min, max float64
	kept     *keptCell // nil when its points are not kept
	record   bool      // its points will be kept
}

// span is the score range of a cell, and the points found in it.
type span struct {
	min, max float64
	visit    int // the cell's position in the order of the visit
	from, to int // the points of the cell
}

// Without the pool even GEOSEARCH that finds nothing takes 1.04 times the CPU time.
var searches = sync.Pool{New: func() any { return new(search) }}

// searchKeep is the max number of points whose memory a search keeps when it goes back to the pool.
const searchKeep = 4096

func (s *search) release() {
	if cap(s.points) > searchKeep || cap(s.names) > 32*searchKeep {
		return
	}
	clear(s.leaves)
	*s = search{cells: s.cells[:0], leaves: s.leaves[:0], ranges: s.ranges[:0], first: s.first[:0],
		sorted: s.sorted[:0], read: s.read[:0],
		points: s.points[:0], ordered: s.ordered[:0], names: s.names[:0]}
	searches.Put(s)
}

// Points are measured in batches, small ones at first, so that a search with Any ends early.
const (
	firstBatch = 32
	lastBatch  = 1024
)

// run computes the result, in s.points.
func (s *search) run(tx *engine.Tx, key []byte, q *Query) error {
	s.q, s.batch = q, firstBatch
	s.cells = q.Shape.cover(s.cells)
	anyFew := q.Any && q.Count > 0
	s.within = q.Shape.window()
	s.plan(!anyFew)
	err := s.readLeaves(tx, key, func(at int, member []byte, score float64) bool {
		if !s.within.has(toBits(score)) {
			return true
		}
		s.enter(at, score)
		lon, lat := Position(score)
		s.points = append(s.points, point{lon: lon, lat: lat, score: score, name: len(s.names), end: len(s.names) +
			len(member)})
		s.names = append(s.names, member...)
		if len(s.points)-s.measured < s.batch {
			return true
		}
		s.measure()
		s.batch = min(2*s.batch, lastBatch)
		return !anyFew || len(s.points) < q.Count
	})
	if err != nil {
		return err
	}
	s.enter(len(s.sorted), 0)
	s.inOrderOfVisit()
	if anyFew && len(s.points) > q.Count {
		s.points = s.points[:q.Count]
	}
	s.sort()
	return nil
}

// plan computes the leaves: the cells in the order of the visit, or with parts, the parts of cells that intersect the
// shape, in ascending order.
func (s *search) plan(parts bool) {
	for i, c := range s.cells {
		lo, hi := c.scores()
		s.sorted = append(s.sorted, span{min: lo, max: hi, visit: i})
	}
	if parts {
		slices.SortFunc(s.sorted, func(a, b span) int { return cmp.Compare(a.min, b.min) })
	}
	for i := range s.sorted {
		c := &s.sorted[i]
		if parts {
			s.divide(i, s.cells[c.visit], partDepth)
			continue
		}
		s.leaves = append(s.leaves, leaf{at: i, min: c.min, max: c.max})
	}
}

// join computes the ranges to read: those of the leaves that are not kept, with adjacent leaves in one range.
func (s *search) join() {
	for i := range s.leaves {
		l := &s.leaves[i]
		if l.kept != nil {
			continue
		}
		if n := len(s.ranges); n > 0 && s.ranges[n-1].Max == l.min {
			s.ranges[n-1].Max = l.max
			continue
		}
		s.ranges = append(s.ranges, zset.ScoreRange{Min: l.min, Max: l.max, MaxOpen: true})
		s.first = append(s.first, l.at)
	}
}

// partDepth is how many times a cell is divided into quarters, to leave out quarters that do not intersect the shape.
// The cells of a search may be four times as large as the shape in each direction.
const partDepth = 2

// divide appends the parts of a cell, or of a part of it, to the leaves; i is the index of the cell in sorted.
func (s *search) divide(i int, c cell, depth uint) {
	touched, inside := s.within.cuts(c)
	if !touched {
		return
	}
	if depth > 0 && !inside && c.steps < c.finest() {
		for quarter := range uint32(4) { // in score order
			s.divide(i, cell{c.col<<1 | quarter>>1, c.row<<1 | quarter&1, c.steps + 1}, depth-1)
		}
		return
	}
	lo, hi := c.scores()
	s.leaves = append(s.leaves, leaf{at: i, steps: uint8(c.steps), min: lo, max: hi})
}

// enter starts the cell that contains score. The cell's index in sorted is first or greater; with first behind the last
// cell, no more points follow. enter measures the points of the previous cell.
func (s *search) enter(first int, score float64) {
	at := max(s.current, first)
	for at < len(s.sorted) && score >= s.sorted[at].max {
		at++
	}
	if at == s.current {
		return
	}
	s.measure()
	for ; s.current < at; s.current++ {
		s.sorted[s.current].to = len(s.points)
		if s.current+1 < len(s.sorted) {
			s.sorted[s.current+1].from = len(s.points)
		}
	}
}

// measure drops the points outside the shape from those that were read since the last call.
func (s *search) measure() {
	fresh := s.points[s.measured:]
	s.q.Shape.measure(fresh)
	kept := s.measured
	for i := range fresh {
		p := fresh[i]
		if outside(p.distance) {
			continue
		}
		to := 0 // index of the next point that stays; the names are moved together too
		if kept > 0 {
			to = s.points[kept-1].end
		}
		n := copy(s.names[to:], s.names[p.name:p.end])
		p.name, p.end = to, to+n
		s.points[kept] = p
		kept++
	}
	s.points = s.points[:kept]
	s.measured = kept
	s.names = s.names[:0]
	if kept > 0 {
		s.names = s.names[:s.points[kept-1].end]
	}
}

// inOrderOfVisit sorts the points into the order in which Redis finds them.
func (s *search) inOrderOfVisit() {
	if slices.IsSortedFunc(s.sorted, func(a, b span) int { return cmp.Compare(a.visit, b.visit) }) {
		return
	}
	slices.SortFunc(s.sorted, func(a, b span) int { return cmp.Compare(a.visit, b.visit) })
	s.ordered = slices.Grow(s.ordered[:0], len(s.points))
	for _, c := range s.sorted {
		s.ordered = append(s.ordered, s.points[c.from:c.to]...)
	}
	s.points, s.ordered = s.ordered, s.points
}

// sort sorts the points by the order of the query and truncates the result to its count.
func (s *search) sort() {
	n := len(s.points)
	if s.q.Count > 0 {
		n = min(n, s.q.Count)
	}
	order := s.q.Order
	if order == Unsorted && s.q.Count > 0 && !s.q.Any {
		order = Nearest
	}
	sign := 1
	switch order {
	case Unsorted:
		s.points = s.points[:n]
		return
	case Furthest:
		sign = -1
	}
	if n < len(s.points) {
		partialSort(s.points, n, func(a, b *point) int { return sign * cmp.Compare(a.distance, b.distance) })
		s.points = s.points[:n]
		return
	}
	for i := range s.points {
		s.points[i].seq = i
	}
	slices.SortFunc(s.points, func(a, b point) int {
		return cmp.Or(sign*cmp.Compare(a.distance, b.distance), cmp.Compare(a.seq, b.seq))
	})
}
