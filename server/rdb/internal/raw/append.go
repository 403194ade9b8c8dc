package raw

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

func AppendLength(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, len14<<6|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return AppendLength32(dst, uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, len64), n)
}

// AppendLength32 appends a length in a form with a fixed size: a byte, and the length as a big-endian number of four
// bytes.
func AppendLength32(dst []byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, len32), n)
}

// AppendString appends a string. The decimal text of a number of up to 32 bits is written as that number.
func AppendString(dst, s []byte) []byte {
	if n, ok := shortInt(s); ok {
		switch {
		case n == int64(int8(n)):
			return append(dst, lenEnc<<6|encInt8, byte(n))
		case n == int64(int16(n)):
			return binary.LittleEndian.AppendUint16(append(dst, lenEnc<<6|encInt16), uint16(n))
		case n == int64(int32(n)):
			return binary.LittleEndian.AppendUint32(append(dst, lenEnc<<6|encInt32), uint32(n))
		}
	}
	return append(AppendLength(dst, uint64(len(s))), s...)
}

// shortInt parses the text of a number, if it is in the form in which the number is printed.
func shortInt(s []byte) (int64, bool) {
	if len(s) == 0 || len(s) > 11 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil {
		return 0, false
	}
	var buf [20]byte
	return n, string(strconv.AppendInt(buf[:0], n, 10)) == string(s)
}

func AppendScore(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}

// AppendID appends the id of a stream entry as two numbers.
func AppendID(dst []byte, id cf.StreamID) []byte {
	return AppendLength(AppendLength(dst, id.Ms), id.Seq)
}

// AppendListpack appends a listpack as a string. head and rest together are its elements.
func AppendListpack(dst []byte, elems int, head, rest []byte) []byte {
	total := listpackHead + len(head) + len(rest) + 1
	dst = AppendLength(dst, uint64(total))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(total))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(min(elems, math.MaxUint16)))
	dst = append(append(dst, head...), rest...)
	return append(dst, 0xff)
}

// AppendListpackInt appends a number as an element of a listpack.
func AppendListpackInt(dst []byte, n int64) []byte {
	at := len(dst)
	switch {
	case n >= 0 && n < 1<<7:
		dst = append(dst, byte(n))
	case n == n<<51>>51:
		dst = append(dst, 0xc0|byte(n>>8)&0x1f, byte(n))
	case n == int64(int16(n)):
		dst = binary.LittleEndian.AppendUint16(append(dst, 0xf1), uint16(n))
	case n == n<<40>>40:
		dst = append(dst, 0xf2, byte(n), byte(n>>8), byte(n>>16))
	case n == int64(int32(n)):
		dst = binary.LittleEndian.AppendUint32(append(dst, 0xf3), uint32(n))
	default:
		dst = binary.LittleEndian.AppendUint64(append(dst, 0xf4), uint64(n))
	}
	return appendBackLen(dst, len(dst)-at)
}

func AppendListpackString(dst, s []byte) []byte {
	at := len(dst)
	switch n := len(s); {
	case n < 1<<6:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<12:
		dst = append(dst, 0xe0|byte(n>>8), byte(n))
	default:
		dst = binary.LittleEndian.AppendUint32(append(dst, 0xf0), uint32(n))
	}
	return appendBackLen(append(dst, s...), len(dst)+len(s)-at)
}
