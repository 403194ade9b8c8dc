package bloom

import (
	"encoding/binary"
	"math/bits"
)

// The primes of XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

// hash is XXH64 with seed 0.
func hash(b []byte) uint64 {
	n := uint64(len(b))
	h := prime5
	if len(b) >= 32 {
		p1, p2 := prime1, prime2 // variables, because the sums wrap around
		lanes := [4]uint64{p1 + p2, p2, 0, -p1}
		for ; len(b) >= 32; b = b[32:] {
			for i := range lanes {
				lanes[i] = round(lanes[i], binary.LittleEndian.Uint64(b[8*i:]))
			}
		}
		h = bits.RotateLeft64(lanes[0], 1) + bits.RotateLeft64(lanes[1], 7) + bits.RotateLeft64(lanes[2], 12) +
			bits.RotateLeft64(lanes[3], 18)
		for _, l := range lanes {
			h = (h^round(0, l))*prime1 + prime4
		}
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round(0, binary.LittleEndian.Uint64(b)), 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*prime1, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft64(h^uint64(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

func round(acc, lane uint64) uint64 { return bits.RotateLeft64(acc+lane*prime2, 31) * prime1 }
