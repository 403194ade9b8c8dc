package geo

import (
	"hash/maphash"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
)

// mostLeaves is how many leaves a search may have that looks for them in the cache.
const mostLeaves = 64

// mayKeep reports whether the search may use cells that were read before: not one that ends early, and not in a transaction that
// may have written the set itself.
func (s *search) mayKeep(tx *engine.Tx, key []byte) bool {
	c := s.q.Cells
	if c == nil || c.limit.Load() == 0 || s.q.Any || len(s.leaves) > mostLeaves || tx.Holds(key) {
		return false
	}
	for i := 1; i < len(s.leaves); i++ {
		if s.leaves[i-1].max > s.leaves[i].min { // where the map has few cells, the same may come twice
			return false
		}
	}
	return true
}

// throughCells calls add with the points of all leaves in their order, those of the leaves that are known from the cache. It keeps
// leaves that come again.
func (s *search) throughCells(tx *engine.Tx, key []byte, add func(i int, member []byte, score float64) bool) error {
	rec, ok := tx.Glance(key, cf.TypeZSet)
	if !ok {
		s.join()
		return zset.ScoreRanges(tx, key, s.ranges, add)
	}
	c, generation := s.q.Cells, tx.Generation(key)
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(tx.Namespace())
	h.WriteByte(0)
	h.Write(key)
	name := h.Sum64()
	known := 0
	for i := range s.leaves {
		l := &s.leaves[i]
		l.id = cellID{key: name, version: rec.Version, min: l.min, steps: l.steps}
		l.hash = c.hash(l.id)
		if l.kept = c.get(l.hash, l.id, generation); l.kept != nil {
			known++
		} else {
			l.record = c.repeats(l.hash, generation)
		}
	}
	c.hits.Add(int64(known))
	c.misses.Add(int64(len(s.leaves) - known))
	// first has an element for each range, and then one for each leaf.
	s.join()
	ranges := len(s.ranges)
	for i := range s.leaves {
		s.first = append(s.first, s.leaves[i].at)
	}
	next := 0 // the leaf that comes
	pass := func() {
		l := &s.leaves[next]
		for p := l.kept; len(p) > 0; {
			var member []byte
			var score float64
			member, score, p = nextPoint(p)
			add(ranges+next, member, score)
		}
		if l.record {
			c.put(l.hash, l.id, generation, s.read)
		}
		s.read = s.read[:0]
		next++
	}
	if ranges > 0 {
		err := zset.ScoreRanges(tx, key, s.ranges, func(_ int, member []byte, score float64) bool {
			for score >= s.leaves[next].max {
				pass()
			}
			if l := &s.leaves[next]; l.record {
				if l.record = len(s.read)+len(member) < mostCellBytes; l.record {
					s.read = appendPoint(s.read, member, score)
				}
			}
			add(ranges+next, member, score)
			return true
		})
		if err != nil {
			return err
		}
	}
	for next < len(s.leaves) {
		pass()
	}
	return nil
}
