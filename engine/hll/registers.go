package hll

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/murmur"
)

const (
	// Registers is the number of registers of a HyperLogLog.
	Registers = cf.HLLSegments * cf.HLLSegmentRegisters

	indexBits = 14             // bits of a hash that select the register
	rankBits  = 64 - indexBits // remaining bits, which give the rank
	maxRank   = rankBits + 1
)

// hashSeed is the seed of the hash function in Redis and in Kvrocks.
const hashSeed = 0xadc83b19

// place returns the register of an element and the element's rank: one more than the number of trailing zeros of the
// rest of its hash.
func place(element []byte) (register int, rank uint8) {
	h := murmur.Sum64(element, hashSeed)
	return int(h & (Registers - 1)), uint8(1 + bits.TrailingZeros64(h>>indexBits|1<<rankBits))
}

// segment holds the packed registers of a part of a HyperLogLog: 6 bits each, the lowest bits of a byte first. Its
// length is [cf.HLLSegmentLen].
type segment []byte

func (s segment) get(i int) uint8 {
	at, shift := i*6/8, i*6%8
	v := uint(s[at])
	if shift > 2 {
		v |= uint(s[at+1]) << 8
	}
	return uint8(v >> shift & 63)
}

// set sets a register to a value below 64.
func (s segment) set(i int, v uint8) {
	at, shift := i*6/8, i*6%8
	s[at] = s[at]&^(63<<shift) | v<<shift
	if shift > 2 {
		s[at+1] = s[at+1]&^(63>>(8-shift)) | v>>(8-shift)
	}
}

// raise raises a register to v and reports whether it was lower.
func (s segment) raise(i int, v uint8) bool {
	if s.get(i) >= v {
		return false
	}
	s.set(i, v)
	return true
}

// eight returns the registers from i on, a multiple of eight, in the low 48 bits.
func (s segment) eight(i int) uint64 {
	b := s[i/8*6:][:6]
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}

// mergeInto raises the registers in dst, one register a byte, to those of the segment.
func (s segment) mergeInto(dst []uint8) {
	for i := 0; i < cf.HLLSegmentRegisters; i += 8 {
		v, to := s.eight(i), dst[i:][:8]
		for j := range to {
			to[j] = max(to[j], uint8(v&63))
			v >>= 6
		}
	}
}

// histogram holds the number of registers of each value.
type histogram [64]int

// add counts the registers of a segment. Neighbours often have the same value; four separate counters keep an addition
// from waiting for the previous one.
func (h *histogram) add(s segment) {
	var c0, c1, c2, c3 [64]uint16
	for i := 0; i < cf.HLLSegmentRegisters; i += 8 {
		v := s.eight(i)
		c0[v&63]++
		c1[v>>6&63]++
		c2[v>>12&63]++
		c3[v>>18&63]++
		c0[v>>24&63]++
		c1[v>>30&63]++
		c2[v>>36&63]++
		c3[v>>42&63]++
	}
	for v := range h {
		h[v] += int(c0[v]) + int(c1[v]) + int(c2[v]) + int(c3[v])
	}
}

// alpha is 1/(2 ln 2).
const alpha = 0.721347520444481703680

// estimate returns the estimated number of distinct elements for registers with these values, by the method of O. Ertl,
// "New cardinality estimation algorithms for HyperLogLog sketches" (arXiv:1702.01284). The conversions to float64 keep
// operations from being fused, so that every result equals Redis's.
func (h *histogram) estimate() uint64 {
	const m = float64(Registers)
	z := m * tau((m-float64(h[maxRank]))/m)
	for rank := rankBits; rank > 0; rank-- {
		z = 0.5 * (z + float64(h[rank]))
	}
	z += float64(m * sigma(float64(h[0])/m))
	return uint64(min(math.Round(alpha*m*m/z), 1<<63-1024)) // the largest double that fits the reply
}

// sigma is the correction for the registers that are still 0; x is their share.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	z, y := x, 1.0
	for before := math.NaN(); z != before; y += y {
		x *= x
		before = z
		z += float64(x * y)
	}
	return z
}

// tau is the correction for the full registers; x is the share of the others.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	z, y := 1-x, 1.0
	for before := math.NaN(); z != before; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= float64(float64((1-x)*(1-x)) * y)
	}
	return z / 3
}
