package geo

import (
	"hash/maphash"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
)

// mostLeaves is how many leaves a search may have that looks for them in the cache.
const mostLeaves = 64

// mayKeep reports whether the search may use cells that were read before: not one that ends early.
func (s *search) mayKeep() bool {
	if s.q.Cells == nil || s.q.Cells.limit.Load() == 0 || s.q.Any || len(s.leaves) > mostLeaves {
		return false
	}
	for i := 1; i < len(s.leaves); i++ {
		if s.leaves[i-1].max > s.leaves[i].min { // where the map has few cells, the same may come twice
			return false
		}
	}
	return true
}

// readLeaves calls add with the points of all leaves: in their order, with the index in sorted of their cell.
func (s *search) readLeaves(tx *engine.Tx, key []byte, add func(at int, member []byte, score float64) bool) error {
	if s.mayKeep() {
		rec, found := tx.Glance(key, cf.TypeZSet)
		if generation, ok := tx.ReadGeneration(key); found && ok {
			return s.throughCells(tx, key, rec.Version, generation, add)
		}
	}
	s.join()
	return zset.ScoreRanges(tx, key, s.ranges, func(i int, member []byte, score float64) bool { return add(s.first[i], member, score) })
}

// throughCells is readLeaves with the cache: leaves that are known come from there, and those that come again are kept.
func (s *search) throughCells(tx *engine.Tx, key []byte, version, generation uint64, add func(at int, member []byte, score float64) bool) error {
	c := s.q.Cells
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(tx.Namespace())
	h.WriteByte(0)
	h.Write(key)
	name := h.Sum64()
	known := 0
	for i := range s.leaves {
		l := &s.leaves[i]
		l.id = cellID{key: name, version: version, min: l.min, steps: l.steps}
		l.hash = c.hash(l.id)
		if l.kept = c.get(l.hash, l.id, generation); l.kept != nil {
			known++
		} else {
			l.record = c.repeats(l.hash, generation)
		}
	}
	c.hits.Add(int64(known))
	c.misses.Add(int64(len(s.leaves) - known))
	s.join()
	next := 0 // the leaf that comes
	pass := func() {
		l := &s.leaves[next]
		for p := l.kept; len(p) > 0; {
			var member []byte
			var score float64
			member, score, p = nextPoint(p)
			add(l.at, member, score)
		}
		if l.record {
			c.put(l.hash, l.id, generation, s.read)
		}
		s.read = s.read[:0]
		next++
	}
	if len(s.ranges) > 0 {
		err := zset.ScoreRanges(tx, key, s.ranges, func(_ int, member []byte, score float64) bool {
			for score >= s.leaves[next].max {
				pass()
			}
			l := &s.leaves[next]
			if l.record {
				if l.record = len(s.read)+len(member) < mostCellBytes; l.record {
					s.read = appendPoint(s.read, member, score)
				}
			}
			add(l.at, member, score)
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
