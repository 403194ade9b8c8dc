// Package murmur is MurmurHash64A of Austin Appleby, the hash function of HyperLogLogs and of cuckoo filters.
package murmur

import "encoding/binary"

// Sum64 returns the hash of b with a seed.
func Sum64(b []byte, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(b))*m
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		k = (k ^ k>>r) * m
		h = (h ^ k) * m
	}
	if len(b) > 0 {
		var rest uint64
		for i, c := range b {
			rest |= uint64(c) << (8 * i)
		}
		h = (h ^ rest) * m
	}
	h = (h ^ h>>r) * m
	return h ^ h>>r
}
