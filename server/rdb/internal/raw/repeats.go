package raw

import (
	"bytes"
	"hash/maphash"
)

var seed = maphash.MakeSeed()

// Repeats reports whether two of every step-th elements are equal.
func Repeats(elems [][]byte, step int) bool {
	// A hash table of indexes, at most half full, with linear probing.
	size := 16
	for size < 2*len(elems)/step {
		size *= 2
	}
	table := make([]uint32, size) // index + 1
	for i := 0; i < len(elems); i += step {
		at := int(maphash.Bytes(seed, elems[i])) & (size - 1)
		for ; table[at] != 0; at = (at + 1) & (size - 1) {
			if bytes.Equal(elems[table[at]-1], elems[i]) {
				return true
			}
		}
		table[at] = uint32(i + 1)
	}
	return false
}
