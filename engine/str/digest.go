package str

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/xxh3"
)

// DigestLen is the length of a digest in bytes.
const DigestLen = 16

// Digest returns the digest of a value as Redis 8.4 defines it: the 64-bit XXH3 hash with seed 0, as lower-case
// hexadecimal digits.
func Digest(value []byte) (digest [DigestLen]byte) {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxh3.Hash(value))
	hex.Encode(digest[:], sum[:])
	return digest
}
