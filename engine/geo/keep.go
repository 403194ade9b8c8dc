package geo

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/engine/zset"
)

// cellKind is the state of map cells that searches read repeatedly: their points. A search reads some ten cells, and
// reading a cell of a few points from RocksDB takes longer than measuring the points.
//
// A kept cell is valid as long as no one has held a lock of the key's bucket for writing since the cell was read (the
// bucket's generation). A cell is kept when it is read for the second time. Its key is the prefix of the set's subkeys,
// the lowest score of the cell and its steps.
var cellKind = derived.Kind[*keptCell]{ID: derived.Cells}

// keptCell holds for each point the score (8 bytes, little-endian), the length of the member as a varint, and the
// member. The bytes are immutable.
type keptCell struct {
	derived.Entry
	points []byte
}

const (
	// maxCellBytes is the max size in bytes of a kept cell: small cells are slow because finding them is, large ones
	// are not.
	maxCellBytes = 8 << 10
	// maxKeptLeaves is the max number of leaves with which a search looks for kept cells.
	maxKeptLeaves = 64
)

// mayKeep reports whether the search may use kept cells. A search that may end early does not.
func (s *search) mayKeep() bool {
	if s.q.fresh || s.q.Any || len(s.leaves) > maxKeptLeaves {
		return false
	}
	for i := 1; i < len(s.leaves); i++ {
		if s.leaves[i-1].max > s.leaves[i].min { // where the map has few cells, a cell may occur twice
			return false
		}
	}
	return true
}

// readLeaves calls add with the points of all leaves in order; at is the index in sorted of the point's cell.
func (s *search) readLeaves(tx *engine.Tx, key []byte, add func(at int, member []byte, score float64) bool) error {
	if tx.DB().Derived().Limit() > 0 && s.mayKeep() {
		rec, found := tx.Glance(key, cf.TypeZSet)
		if generation, ok := tx.ReadGeneration(key); found && ok {
			return s.throughCells(tx, key, tx.SubkeyPrefix(&rec), generation, add)
		}
	}
	s.join()
	return zset.ScoreRanges(tx, key, s.ranges, func(i int, member []byte,
		score float64) bool {
		return add(s.first[i], member, score)
	})
}

// appendID appends the part of a cell's key that follows the prefix.
func (l *leaf) appendID(prefix []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(prefix, math.Float64bits(l.min)), l.steps)
}

// throughCells is readLeaves with kept cells: it takes kept leaves from there, and keeps leaves that were asked for
// before.
func (s *search) throughCells(tx *engine.Tx, key, prefix []byte, generation uint64,
	add func(at int, member []byte, score float64) bool) error {
	r := tx.DB().Derived()
	id := append(make([]byte, 0, len(prefix)+9), prefix...)
	for i := range s.leaves {
		l := &s.leaves[i]
		id := l.appendID(id)
		if l.kept = cellKind.Find(r, id, generation); l.kept == nil {
			if l.record = cellKind.Worth(r, id, generation, maxCellBytes/16); !l.record {
				cellKind.Asked(r, id, generation)
			}
		}
	}
	s.join()
	next := 0 // index of the next leaf
	pass := func() {
		l := &s.leaves[next]
		if l.kept != nil {
			for p := l.kept.points; len(p) > 0; {
				var member []byte
				var score float64
				member, score, p = nextPoint(p)
				add(l.at, member, score)
			}
		}
		if l.record {
			c := &keptCell{points: bytes.Clone(s.read)}
			cellKind.Put(r, l.appendID(id), generation, c, cap(c.points)+32)
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
				if l.record = len(s.read)+len(member) < maxCellBytes; l.record {
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

// appendPoint appends a point in the format of keptCell.
func appendPoint(dst, member []byte, score float64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(score))
	dst = binary.AppendUvarint(dst, uint64(len(member)))
	return append(dst, member...)
}

// nextPoint decodes the first point of a kept cell and returns the remaining points.
func nextPoint(points []byte) (member []byte, score float64, rest []byte) {
	score = math.Float64frombits(binary.LittleEndian.Uint64(points))
	n, size := binary.Uvarint(points[8:])
	points = points[8+size:]
	return points[:n:n], score, points[n:]
}
