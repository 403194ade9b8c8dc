package reccache

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// A record in the memory of the cache, padded to units of 8 bytes:
//
//	8 bytes hash | 2 bytes size in units | 1 byte family | 1 byte key length | 2 bytes value length, or absentLen | key |
//	value
//
// absentLen says that there is no record of the key. A shorter value leaves the size as it is.
type record []byte

const (
	recordHeader = 14
	recordUnit   = 8 // positions are multiples of it
	absentLen    = 1<<16 - 1
	maxKey       = 255
)

// recordSize returns the bytes that a record takes in the memory.
func recordSize(key, value int) int {
	return (recordHeader + key + value + recordUnit - 1) &^ (recordUnit - 1)
}

// record returns the memory from the position of a record on.
func (c *Cache) record(at uint32) record { return record(c.memory.Bytes[int(at)*recordUnit:]) }

// write is record for writing.
func (c *Cache) write(at uint32, size int) record {
	from := int(at) * recordUnit
	return record(c.memory.Write(from, from+size))
}

func (r record) hash() uint64 { return binary.LittleEndian.Uint64(r) }

func (r record) size() int { return int(binary.LittleEndian.Uint16(r[8:])) * recordUnit }

func (r record) setSize(n int) { binary.LittleEndian.PutUint16(r[8:], uint16(n/recordUnit)) }

func (r record) absent() bool { return binary.LittleEndian.Uint16(r[12:]) == absentLen }

// needs returns the least size of a record with this content.
func (r record) needs() int {
	if r.absent() {
		return recordSize(int(r[11]), 0)
	}
	return recordSize(int(r[11]), int(binary.LittleEndian.Uint16(r[12:])))
}

func (r record) set(h uint64, size int, id cf.ID, key, value []byte, absent bool) {
	binary.LittleEndian.PutUint64(r, h)
	r.setSize(size)
	r[10], r[11] = uint8(id), uint8(len(key))
	n := uint16(len(value))
	if absent {
		n = absentLen
	}
	binary.LittleEndian.PutUint16(r[12:], n)
	copy(r[recordHeader+copy(r[recordHeader:], key):], value)
}

// value returns the value of a record, if it is that of the key.
func (r record) value(id cf.ID, key []byte) ([]byte, Answer) {
	keyN, n := int(r[11]), int(binary.LittleEndian.Uint16(r[12:]))
	if r[10] != uint8(id) || keyN != len(key) || !bytes.Equal(r[recordHeader:recordHeader+keyN], key) {
		return nil, Unknown
	}
	if n == absentLen {
		return nil, Absent
	}
	return r[recordHeader+keyN : recordHeader+keyN+n], Present
}

// shardLog holds the records of a shard in the order in which they were stored. Its segments form a circle: the head,
// behind which the next record is stored, follows the oldest records around it and displaces them. A record that was
// read since the head passed it is not displaced but moved to the head, as in the CLOCK algorithm. So records of all
// sizes share the memory without loss, and what is read again stays.
type shardLog struct {
	segments  []segment // in the order of the circle
	current   int       // the segment of the head
	head      int       // end of the new records in the current segment
	oldest    int       // begin of the first old record in it, at or behind the head
	end       int       // end of the old records in it
	displaced int       // bytes of records that reads have displaced since the shard took a segment
}

type segment struct {
	from uint32 // position
	n    int    // bytes of records, when the head left the segment
}

const (
	segmentSize  = 64 << 10
	segmentUnits = segmentSize / recordUnit
	maxSegments  = 1 << 32 / segmentUnits
	maxMoves     = 4 // records that are moved to the head in favour of one new record; others are displaced all the same
)

// room returns the position of size bytes for a record at the head of a shard. ok is false if records that were used
// stand in the way of an absent one.
func (c *Cache) room(sh *cacheShard, size int, why reason) (at uint32, ok bool) {
	l := &sh.log
	for moves := maxMoves; ; {
		from := l.segments[l.current].from
		for l.oldest < l.end && l.oldest < l.head+size {
			at := from + uint32(l.oldest/recordUnit)
			r := c.record(at)
			n := r.size()
			s, w := c.entry(sh, r.hash(), at)
			switch {
			case w < 0: // displaced already
			case s.used>>w&1 == 0:
				c.displace(sh, s, w, why)
			case moves > 0:
				moves--
				if why != isAbsent {
					s.used &^= 1 << w
				}
				kept := r.needs()
				s.at[w] = from + uint32(l.head/recordUnit)
				to := c.write(s.at[w], kept)
				copy(to, r[:kept])
				to.setSize(kept)
				l.head += kept
			case why == isAbsent:
				return 0, false
			default:
				c.displace(sh, s, w, why)
			}
			l.oldest += n
		}
		if l.head+size <= segmentSize {
			at = from + uint32(l.head/recordUnit)
			l.head += size
			return at, true
		}
		l.segments[l.current].n = l.head
		if l.displaced > segmentSize && c.takeSegment(sh) {
			l.displaced = 0
		}
		c.growSets(sh)
		l.current = (l.current + 1) % len(l.segments)
		l.head, l.oldest, l.end = 0, 0, l.segments[l.current].n
	}
}

// entry returns the set and the index of the entry of the record at a position; -1 if the record was displaced.
func (c *Cache) entry(sh *cacheShard, h uint64, at uint32) (*cacheSet, int) {
	s := c.set(sh, h)
	for w, t := range s.tags {
		if t == tag(h) && s.at[w] == at {
			return s, w
		}
	}
	return s, -1
}

// takeSegment gives a shard another segment, the one behind the current one. It reports whether there was one.
func (c *Cache) takeSegment(sh *cacheShard) bool {
	n := c.taken.Add(1)
	if n > c.most {
		c.taken.Add(^uint32(0))
		return false
	}
	l := &sh.log
	behind := min(l.current+1, len(l.segments))
	l.segments = slices.Insert(l.segments, behind, segment{from: (n - 1) * segmentUnits})
	return true
}

// growSets doubles the sets of a shard if they are too few for its memory. It does nothing while a commit is under way
// in the shard: the end of the commit must find the sets that its beginning has marked.
//
// The entries of a set that belong to the new set move there, with the set's seq, so an older ticket is as valid for
// the one as for the other.
func (c *Cache) growSets(sh *cacheShard) bool {
	n, shards := sh.mask.Load()+1, uint32(len(c.shards))
	if int(n/shards)*setBytes >= len(sh.log.segments)*segmentSize || int(n)*2 > len(c.sets) {
		return false
	}
	first := sh.number
	for i := first; i < n; i += shards {
		if c.sets[i].busy > 0 {
			return false
		}
	}
	sh.mask.Store(n*2 - 1)
	for i := first; i < n; i += shards {
		from, to := &c.sets[i], &c.sets[i+n]
		if from.epoch != sh.epoch {
			from.epoch = sh.epoch
			clear(from.tags[:])
		}
		to.seq, to.epoch = from.seq, from.epoch
		for w, t := range from.tags {
			if t == 0 || uint32(sh.index(c.record(from.at[w]).hash())) == i {
				continue
			}
			to.tags[w], to.at[w] = t, from.at[w]
			from.tags[w] = 0
			bit := uint8(1) << w
			to.used |= from.used & bit
			from.used &^= bit
		}
	}
	return true
}
