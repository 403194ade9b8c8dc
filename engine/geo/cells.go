package geo

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
)

// Cells keeps what was found in cells of the map that searches come back to: a search reads some ten of them, and reading a
// cell of a few points takes longer in RocksDB than measuring the points.
//
// A cell is good as long as nobody has held the lock of the key's stripe for writing since it was read (the stripe's
// generation). It is kept from the second time on that it is read. The memory is bounded by a limit.
type Cells struct {
	seed         maphash.Seed
	limit        atomic.Int64 // bytes, 0 = off
	bytes        atomic.Int64
	hits, misses atomic.Int64
	seen         [1 << 14]atomic.Uint32 // hashes of cells that were read lately
	shards       [32]cellShard
}

type cellShard struct {
	mu    sync.Mutex
	bytes int64
	cells map[cellID]keptCell
	_     [40]byte
}

// cellID is a cell in one collection.
type cellID struct {
	key, version uint64 // a hash of namespace and key, and the version of the collection
	min          float64
	steps        uint8
}

// keptCell is what was found in a cell: of each point the score (8 bytes, little-endian), the length of the member as a varint,
// and the member. The bytes are never changed.
type keptCell struct {
	generation uint64
	points     []byte
}

const (
	// mostCellBytes is how long the points of a cell may be that is kept: what makes small cells slow is finding them.
	mostCellBytes = 8 << 10
	// cellOverhead is what an entry takes besides the points, about.
	cellOverhead = 128
)

// NewCells returns a cache of up to so many bytes; 0 = none.
func NewCells(limit int64) *Cells {
	c := &Cells{seed: maphash.MakeSeed()}
	c.limit.Store(limit)
	return c
}

// SetLimit changes how many bytes may be kept; what is there goes.
func (c *Cells) SetLimit(n int64) {
	c.limit.Store(n)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		c.bytes.Add(-s.bytes)
		s.cells, s.bytes = nil, 0
		s.mu.Unlock()
	}
}

// Bytes returns how many bytes are kept.
func (c *Cells) Bytes() int64 { return c.bytes.Load() }

// Lookups returns how many cells were found here, and how many were not.
func (c *Cells) Lookups() (hits, misses int64) { return c.hits.Load(), c.misses.Load() }

func (c *Cells) hash(id cellID) uint64 { return maphash.Comparable(c.seed, id) }

func (c *Cells) shard(h uint64) *cellShard { return &c.shards[h%uint64(len(c.shards))] }

// get returns the points of a cell, which are to be those of a generation; nil when they are not kept.
func (c *Cells) get(h uint64, id cellID, generation uint64) []byte {
	s := c.shard(h)
	s.mu.Lock()
	e, ok := s.cells[id]
	s.mu.Unlock()
	if !ok || e.generation != generation {
		return nil
	}
	return e.points
}

// repeats notes that a cell of a generation was read, and reports whether it had been read before.
func (c *Cells) repeats(h, generation uint64) bool {
	s := &c.seen[h>>8%uint64(len(c.seen))]
	mark := uint32(h>>32)*31 + uint32(generation) | 1
	if s.Load() == mark {
		return true
	}
	s.Store(mark)
	return false
}

// put keeps a copy of the points of a cell. Others go when there is no room.
func (c *Cells) put(h uint64, id cellID, generation uint64, points []byte) {
	size := int64(len(points) + cellOverhead)
	kept := append(make([]byte, 0, len(points)+1), points...) // not nil
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	room := c.limit.Load() / int64(len(c.shards)) // with the lock, so that nothing comes after SetLimit has cleared the shard
	if size > room {
		return
	}
	s.drop(c, id)
	for other := range s.cells { // in no order
		if s.bytes+size <= room {
			break
		}
		s.drop(c, other)
	}
	if s.cells == nil {
		s.cells = map[cellID]keptCell{}
	}
	s.cells[id] = keptCell{generation, kept}
	s.bytes += size
	c.bytes.Add(size)
}

// drop removes a cell if it is there.
func (s *cellShard) drop(c *Cells, id cellID) {
	e, ok := s.cells[id]
	if !ok {
		return
	}
	delete(s.cells, id)
	size := int64(len(e.points) + cellOverhead)
	s.bytes -= size
	c.bytes.Add(-size)
}

// appendPoint appends a point as it is kept.
func appendPoint(dst, member []byte, score float64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(score))
	dst = binary.AppendUvarint(dst, uint64(len(member)))
	return append(dst, member...)
}

// nextPoint returns the first point of a kept cell and the rest of them.
func nextPoint(points []byte) (member []byte, score float64, rest []byte) {
	score = math.Float64frombits(binary.LittleEndian.Uint64(points))
	n, size := binary.Uvarint(points[8:])
	points = points[8+size:]
	return points[:n:n], score, points[n:]
}
