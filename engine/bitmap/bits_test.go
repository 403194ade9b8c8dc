package bitmap

import (
	"bytes"
	"math/bits"
	"testing"
)

// FuzzBits compares what works on words with the same done bit by bit.
func FuzzBits(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"), uint16(3), uint16(79))
	f.Add(bytes.Repeat([]byte{0xff}, 40), uint16(9), uint16(318))
	f.Add([]byte{1, 2, 4}, uint16(8), uint16(8))
	f.Fuzz(func(t *testing.T, b []byte, lo, hi uint16) {
		if len(b) == 0 || lo > hi {
			return
		}
		from, to := uint64(lo), uint64(hi)
		for _, low := range []bool{false, true} {
			bit := func(i uint64) bool {
				if i/8 >= uint64(len(b)) {
					return false
				}
				if low {
					return b[i/8]>>(i%8)&1 != 0
				}
				return b[i/8]>>(7-i%8)&1 != 0
			}
			n := uint64(0)
			for i := from; i <= to; i++ {
				if bit(i) {
					n++
				}
			}
			if got := countBits(b, from, to, low); got != n {
				t.Errorf("%d bits are set from %d to %d, want %d (low %v)", got, from, to, n, low)
			}
			last := min(to, uint64(len(b))*8-1)
			for _, set := range []bool{false, true} {
				if from > last {
					continue
				}
				want := from
				for want <= last && bit(want) != set {
					want++
				}
				if at, found := firstBit(b, from, last, set, low); found != (want <= last) || found && at != want {
					t.Errorf("the first %v from %d to %d is at %d, %v, want %d (low %v)", set, from, last, at, found, want, low)
				}
			}
		}
		flipped := make([]byte, len(b))
		flip(flipped, b)
		for i, c := range b {
			if flipped[i] != bits.Reverse8(c) {
				t.Fatalf("byte %d: %08b flipped is %08b", i, c, flipped[i])
			}
		}
		for _, o := range []Op{And, Or, Xor} {
			dst := bytes.Clone(flipped)
			part := b[:int(lo)%(len(b)+1)] // followed by zeros
			o.apply(dst, part)
			for i, c := range flipped {
				x := byte(0)
				if i < len(part) {
					x = part[i]
				}
				if want := map[Op]byte{And: c & x, Or: c | x, Xor: c ^ x}[o]; dst[i] != want {
					t.Fatalf("%v of byte %d: %08b, want %08b", o, i, dst[i], want)
				}
			}
		}
	})
}
