package bitmap

import (
	"encoding/binary"
	"math/bits"
)

// Masks of every second bit, pair and half byte of eight bytes.
const (
	oddBits   = 0x5555555555555555
	oddPairs  = 0x3333333333333333
	oddHalves = 0x0f0f0f0f0f0f0f0f
)

// flip writes the bytes of src with reversed bits to dst, which must be as long. dst may be src.
func flip(dst, src []byte) {
	for len(src) >= 8 {
		x := binary.LittleEndian.Uint64(src)
		x = x>>1&oddBits | x&oddBits<<1
		x = x>>2&oddPairs | x&oddPairs<<2
		x = x>>4&oddHalves | x&oddHalves<<4
		binary.LittleEndian.PutUint64(dst, x)
		dst, src = dst[8:], src[8:]
	}
	for i, c := range src {
		dst[i] = bits.Reverse8(c)
	}
}

// edges returns the masks for the byte of bit lo (lo and the bits after it) and for that of bit hi (hi and the bits
// before it). low says that the first bit of a byte is the least significant one.
func edges(lo, hi uint64, low bool) (first, last byte) {
	if low {
		return 0xff << (lo % 8), 0xff >> (7 - hi%8)
	}
	return 0xff >> (lo % 8), 0xff << (7 - hi%8)
}

// countBits counts the set bits from lo to hi, both included. Bits beyond the end of b are zero.
func countBits(b []byte, lo, hi uint64, low bool) uint64 {
	if end := uint64(len(b)) * 8; hi >= end {
		if lo >= end {
			return 0
		}
		hi = end - 1
	}
	first, last := edges(lo, hi, low)
	i, j := lo/8, hi/8
	if i == j {
		return uint64(bits.OnesCount8(b[i] & first & last))
	}
	n := bits.OnesCount8(b[i]&first) + bits.OnesCount8(b[j]&last)
	b = b[i+1 : j]
	for len(b) >= 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return uint64(n)
}

// firstBit finds the first bit from lo to hi, both included and before the end of b, whose value is set.
func firstBit(b []byte, lo, hi uint64, set, low bool) (at uint64, found bool) {
	first, last := edges(lo, hi, low)
	var invert byte // turns the wanted bits into ones
	if !set {
		invert = 0xff
	}
	dull := uint64(invert) * 0x0101010101010101 // eight bytes without a wanted bit
	end := hi / 8
	for i := lo / 8; i <= end; i++ {
		c := b[i] ^ invert
		if i == lo/8 {
			c &= first
		} else {
			for i+8 <= end && binary.LittleEndian.Uint64(b[i:]) == dull {
				i += 8
			}
			c = b[i] ^ invert
		}
		if i == end {
			c &= last
		}
		if c != 0 {
			if low {
				return i*8 + uint64(bits.TrailingZeros8(c)), true
			}
			return i*8 + uint64(bits.LeadingZeros8(c)), true
		}
	}
	return 0, false
}

// numberSet is a set of fragment numbers below a bound.
type numberSet []uint64

func newNumberSet(bound uint64) numberSet { return make(numberSet, (bound+63)/64) }

// add adds a number unless it is beyond the bound.
func (s numberSet) add(n uint64) {
	if n/64 < uint64(len(s)) {
		s[n/64] |= 1 << (n % 64)
	}
}

// addBelow adds the numbers below n, which is at most the bound.
func (s numberSet) addBelow(n uint64) {
	for i := range n / 64 {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[n/64] |= 1<<(n%64) - 1
	}
}

// len returns the size of the set.
func (s numberSet) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// next returns the first number that is at least n.
func (s numberSet) next(n uint64) (uint64, bool) {
	for i := n / 64; i < uint64(len(s)); i++ {
		w := s[i]
		if i == n/64 {
			w &= ^uint64(0) << (n % 64)
		}
		if w != 0 {
			return i*64 + uint64(bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}
