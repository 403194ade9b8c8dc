package cf

import (
	"encoding/binary"
	"math"
)

// ScoreLen is the length of an encoded double in bytes.
const ScoreLen = 8

// EncodeDouble maps a double to an integer whose big-endian bytes sort as the doubles do: the sign bit of a positive
// number is set, all bits of a negative number are inverted. -0 and +0 stay different keys.
func EncodeDouble(f float64) uint64 {
	u := math.Float64bits(f)
	if u>>63 != 0 {
		return ^u
	}
	return u | 1<<63
}

// DecodeDouble is the inverse of [EncodeDouble].
func DecodeDouble(u uint64) float64 {
	if u>>63 != 0 {
		return math.Float64frombits(u &^ (1 << 63))
	}
	return math.Float64frombits(^u)
}

// AppendDouble appends the 8 memory-comparable bytes of a double.
func AppendDouble(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(dst, EncodeDouble(f))
}

// ParseDouble decodes the first 8 bytes of b.
func ParseDouble(b []byte) (float64, error) {
	if len(b) < ScoreLen {
		return 0, corrupt("double of %d bytes", len(b))
	}
	return DecodeDouble(binary.BigEndian.Uint64(b)), nil
}

// SplitScoreSub splits the subkey of a zset_score key: f64 score · member.
func SplitScoreSub(sub []byte) (score float64, member []byte, err error) {
	score, err = ParseDouble(sub)
	if err != nil {
		return 0, nil, err
	}
	return score, sub[ScoreLen:], nil
}
