package bloom

import (
	"encoding/binary"
	"math"
)

// A filter is a split-block Bloom filter (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom
// Filters") in the layout of Apache Parquet: an item has one block of 32 bytes, which is 8 little-endian words of 32
// bits, and one bit in each word. The length of a filter in bytes is a power of two.
const (
	blockLen  = 32
	minFilter = blockLen
	maxFilter = 128 << 20
)

// salts select the bit in each word.
var salts = [8]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// careful is the length in bytes from which a filter is checked against its error rate.
const careful = 1 << 20

// filterLen returns the length in bytes of a filter for the given number of items and error rate, as Kvrocks computes
// it: the usual formula, rounded up to a power of two. The formula ignores that some blocks happen to get more items
// than others. A longer filter than maxFilter is limited to that and errs more often.
//
// Where rounding leaves little room, such a filter errs a few times more often than promised. From careful bytes on,
// where that matters, the length is therefore doubled; shorter filters have the length that BF.INFO shows for the same
// filter in Kvrocks.
func filterLen(items uint32, rate float64) int {
	bits := -8 * float64(items) / math.Log(1-math.Pow(rate, 1.0/8))
	if !(bits >= 0 && bits <= maxFilter*8) { // negative for a very small rate
		return maxFilter
	}
	n := minFilter
	for n*8 < int(bits) {
		n *= 2
	}
	for n >= careful && n < maxFilter && errorRate(items, n) > max(rate, 1e-13) { // smaller rates are lost in rounding
		n *= 2
	}
	return n
}

// errorRate returns the error rate of a filter of n bytes that holds the given number of items. A block holds k items
// with the probability of the Poisson distribution with mean m, and then errs with probability (1 - (31/32)^k)^8. With
// the eighth power expanded, the sum over all k is a sum of exponentials.
func errorRate(items uint32, n int) (p float64) {
	m := float64(items) * blockLen / float64(n)
	q, c := 1.0, 1.0 // (31/32)^j, and the binomial coefficient (8 choose j) with its sign
	for j := range 9 {
		p += c * math.Exp(-m*(1-q))
		q *= 31.0 / 32
		c *= -float64(8-j) / float64(j+1)
	}
	return p
}

// validLen reports whether n is a possible length of a filter.
func validLen(n int) bool { return n >= minFilter && n <= maxFilter && n&(n-1) == 0 }

// blockAt returns the offset of an item's block in a filter of n bytes.
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
