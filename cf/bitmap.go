package cf

import (
	"encoding/binary"
	"strconv"
)

// Bitmap: the metadata size is the number of bytes up to the last byte written. The bits lie in fragments of up to
// BitmapFragment bytes. Bit i is bit number i mod 8, from the least significant one, of byte i/8. A missing fragment is
// all zeros; a short fragment is zero from its end on. The subkey of a fragment is the offset of its first byte in
// decimal, so fragments do not sort by offset.

// BitmapFragment is the length in bytes of a whole bitmap fragment.
const BitmapFragment = 1024

// AppendBitmapSub appends the subkey of the fragment that holds a byte of the bitmap.
func AppendBitmapSub(dst []byte, byteOffset uint64) []byte {
	return strconv.AppendUint(dst, byteOffset-byteOffset%BitmapFragment, 10)
}

// ParseBitmapSub returns the offset in bytes at which a fragment begins.
func ParseBitmapSub(sub []byte) (uint64, error) {
	n, err := parseDecimal(sub)
	if err != nil || n%BitmapFragment != 0 {
		return 0, corrupt("bitmap fragment %q", sub)
	}
	return n, nil
}

// HyperLogLog: metadata size is 0, the tail is one byte, the encoding. The registers, 6 bits each, lie in
// HLLSegments segments of HLLSegmentRegisters; a missing segment is all zeros. The subkey of a segment is its
// number in decimal.

const (
	// HLLDense is the only encoding of a HyperLogLog.
	HLLDense = 0
	// HLLSegments is the number of segments.
	HLLSegments = 16
	// HLLSegmentRegisters is the number of registers in a segment.
	HLLSegmentRegisters = 1024
	// HLLSegmentLen is the length of a segment in bytes.
	HLLSegmentLen = HLLSegmentRegisters * 6 / 8
)

// AppendHLLTail appends the type-specific field of a HyperLogLog.
func AppendHLLTail(dst []byte, encoding uint8) []byte { return append(dst, encoding) }

// DecodeHLLTail decodes the type-specific field of a HyperLogLog. An encoding other than [HLLDense] is an error.
func DecodeHLLTail(tail []byte) (encoding uint8, err error) {
	if len(tail) == 0 {
		return 0, corrupt("HyperLogLog without encoding")
	}
	if tail[0] != HLLDense {
		return 0, corrupt("HyperLogLog of encoding %d", tail[0])
	}
	return tail[0], nil
}

// AppendHLLSub appends the subkey of a segment, 0 to HLLSegments-1.
func AppendHLLSub(dst []byte, segment int) []byte { return strconv.AppendInt(dst, int64(segment), 10) }

// ParseHLLSub returns the number of a segment.
func ParseHLLSub(sub []byte) (int, error) {
	n, err := parseDecimal(sub)
	if err != nil || n >= HLLSegments {
		return 0, corrupt("HyperLogLog segment %q", sub)
	}
	return int(n), nil
}

// parseDecimal parses the one decimal form of a number: no sign, no leading zeros.
func parseDecimal(b []byte) (uint64, error) {
	if len(b) == 0 || len(b) > 1 && b[0] == '0' {
		return 0, corrupt("number %q", b)
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, corrupt("number %q", b)
	}
	return n, nil
}

// The subkey of a list element or of a sortedint member is one number. The value of a sortedint member is empty.

// AppendU64Sub appends the subkey of a list element (its index) or of a sortedint member (its id).
func AppendU64Sub(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// ParseU64Sub is the inverse of [AppendU64Sub].
func ParseU64Sub(sub []byte) (uint64, error) {
	if len(sub) != 8 {
		return 0, corrupt("index of %d bytes", len(sub))
	}
	return binary.BigEndian.Uint64(sub), nil
}
