package bloom

import (
	"encoding/binary"
	"math"
)

// A filter is a split-block Bloom filter (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom
// Filters"; the layout is that of Apache Parquet): an item has one block of 32 bytes, 8 words of 32 bits
// little-endian, and one bit in each word. The length of a filter in bytes is a power of two.
const (
	blockLen  = 32
	minFilter = blockLen
	maxFilter = 128 << 20
)

// salts choose the bit in each word.
var salts = [8]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// careful is the length in bytes from which a filter's length is checked against its error rate.
const careful = 1 << 20

// filterLen returns how many bytes a filter for so many items has that shall err at the given rate, as Kvrocks
// computes it: the usual formula, which takes no account of blocks that happen to get more items than others,
// rounded up to a power of two. A filter that would be longer than maxFilter is cut to that, and errs more.
//
// Where rounding leaves little room the result errs up to a few times more often than promised. In a filter of
// careful bytes or more, where there are enough items for that to matter, the length is then doubled; shorter ones
// have the length that BF.INFO shows for the same filter in Kvrocks.
func filterLen(items uint32, rate float64) int {
	bits := -8 * float64(items) / math.Log(1-math.Pow(rate, 1.0/8))
	if !(bits >= 0 && bits <= maxFilter*8) { // of a very small rate it is negative
		return maxFilter
	}
	n := minFilter
	for n*8 < int(bits) {
		n *= 2
	}
	for n >= careful && n < maxFilter && errorRate(items, n) > max(rate, 1e-13) { // smaller ones are lost in rounding
		n *= 2
	}
	return n
}

// errorRate returns how often a filter of n bytes errs that has taken so many items. A block has k of them with the
// probability of the Poisson distribution for its mean m, and then errs with that of (1 - (31/32)^k)^8; with the
// eighth power multiplied out, the sum over all k is one of exponentials.
func errorRate(items uint32, n int) (p float64) {
	m := float64(items) * blockLen / float64(n)
	q, c := 1.0, 1.0 // (31/32)^j, and the binomial coefficient 8 over j with its sign
	for j := range 9 {
		p += c * math.Exp(-m*(1-q))
		q *= 31.0 / 32
		c *= -float64(8-j) / float64(j+1)
	}
	return p
}

// validLen reports whether a filter can be so long.
func validLen(n int) bool { return n >= minFilter && n <= maxFilter && n&(n-1) == 0 }

// blockAt returns where in a filter of n bytes the block of an item begins.
func blockAt(h uint64, n int) uint32 { return uint32(h>>32*uint64(n/blockLen)>>32) * blockLen }

// has reports whether all bits of an item are set in its block.
func has(block []byte, h uint64) bool {
	for i, s := range salts {
		if binary.LittleEndian.Uint32(block[4*i:])>>(uint32(h)*s>>27)&1 == 0 {
			return false
		}
	}
	return true
}

// set sets the bits of an item in its block.
func set(block []byte, h uint64) {
	for i, s := range salts {
		w := block[4*i : 4*i+4]
		binary.LittleEndian.PutUint32(w, binary.LittleEndian.Uint32(w)|1<<(uint32(h)*s>>27))
	}
}
