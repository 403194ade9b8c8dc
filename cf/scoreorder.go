package cf

import (
	"bytes"
	"encoding/binary"
)

// CompareZSetScore is the order of the zset_score family: what identifies one version of one sorted set, bytewise;
// then the score, as numbers are ordered, with -0 before +0; then the member, bytewise. It returns -1, 0 or 1.
//
// The order equals that of the bytes, for every pair of keys, well-formed or not: encoded scores were made so
// ([EncodeDouble]), and keys that are not of the form, or hold a score that is not a number, are compared as
// bytes. So files written in this order are in RocksDB's built-in order, and keys that carry a slot may be
// compared like those that do not.
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

// scorePrefix returns the length of what the keys of one version of a sorted set share; 0 for a malformed key.
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
