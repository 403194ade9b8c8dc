package cf

import (
	"bytes"
	"encoding/binary"
)

// CompareZSetScore is the order of the zset_score family: first the prefix of one version of one sorted set, bytewise;
// then the score, in numeric order with -0 before +0; then the member, bytewise. It returns -1, 0 or 1.
//
// The order equals the byte order, for every pair of keys, well-formed or not: encoded scores sort bytewise
// ([EncodeDouble]), and keys that are malformed, or hold a score that is not a number, are compared as bytes. So files
// written in this order are in RocksDB's built-in order, and keys with a slot are compared like keys without.
func CompareZSetScore(a, b []byte) int {
	prefix := scorePrefix(a)
	if prefix == 0 || prefix != scorePrefix(b) || len(a) < prefix+ScoreLen || len(b) < prefix+ScoreLen {
		return bytes.Compare(a, b)
	}
	if c := bytes.Compare(a[:prefix], b[:prefix]); c != 0 {
		return c
	}
	if c := compareScores(binary.BigEndian.Uint64(a[prefix:]), binary.BigEndian.Uint64(b[prefix:])); c != 0 {
		return c
	}
	return bytes.Compare(a[prefix+ScoreLen:], b[prefix+ScoreLen:])
}

// scorePrefix returns the length of the common prefix of the keys of one version of a sorted set; 0 for a malformed
// key.
func scorePrefix(key []byte) int {
	s, err := ParseSubkey(key, false)
	if err != nil {
		return 0
	}
	return len(key) - len(s.Sub)
}

// compareScores compares encoded scores as numbers.
func compareScores(a, b uint64) int {
	x, y := DecodeDouble(a), DecodeDouble(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case a < b: // -0 and +0, or not numbers
		return -1
	case a > b:
		return 1
	}
	return 0
}
