package rdb

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

// elemCost is what a string that is read counts beyond its bytes: its slice header, and its place in tables.
const elemCost = 40

// chunkSize is how many bytes are allocated at once for small pieces.
const chunkSize = 16 << 10

// reader takes a value apart. After the first error, which it keeps, it returns zeros.
type reader struct {
	b      []byte
	src    *source // where the bytes are when they are not in b
	budget int64   // bytes that may still be used
	chunk  []byte
	err    error

	skip bool // values of modules that are not known are passed over
	// part, if not nil, takes what has been read of a value as soon as that needs more than partBytes. Its slices are
	// valid during the call.
	part      func(v *Value) error
	partBytes int64
	whole     int64 // the budget of a part
	parts     int   // that were taken
}

// cut hands over what has been read of a value, if that is enough for a part. It is called between two elements.
func (r *reader) cut(v *Value) {
	if r.part == nil || r.err != nil || r.whole-r.budget < r.partBytes {
		return
	}
	if r.check(v); r.err != nil {
		return
	}
	if err := r.part(v); err != nil {
		r.fail(err)
		return
	}
	r.parts++
	r.budget, r.chunk = r.whole, nil
	v.Elems, v.Scores, v.Expires = nil, nil, nil
	if v.Stream != nil {
		v.Stream.Entries = nil
	}
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b, r.src = nil, nil
}

func (r *reader) failf(format string, args ...any) { r.fail(malformed(format, args...)) }

// spend takes memory from the budget and reports whether there is enough.
func (r *reader) spend(n int) bool {
	if r.budget -= int64(n); r.budget < 0 {
		r.fail(ErrTooLarge)
		return false
	}
	return r.err == nil
}

// left returns how many bytes there still are, more than there can be when nobody knows.
func (r *reader) left() uint64 {
	if r.src != nil {
		return r.src.left()
	}
	return uint64(len(r.b))
}

// take returns the next n bytes, to be kept.
func (r *reader) take(n uint64) []byte {
	if left := r.left(); n > left {
		r.failf("%d bytes wanted, %d left", n, left)
		return nil
	}
	if r.src != nil {
		return r.takeFrom(r.src, n)
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// takeFrom is take where the bytes must be copied, so that they count.
func (r *reader) takeFrom(src *source, n uint64) []byte {
	if n > uint64(max(r.budget, 0)) || !r.spend(int(n)) {
		r.fail(ErrTooLarge)
		return nil
	}
	var b []byte
	var err error
	if n <= chunkSize/8 {
		if cap(r.chunk) == 0 || uint64(cap(r.chunk)-len(r.chunk)) < n {
			r.chunk = make([]byte, 0, chunkSize)
		}
		at := len(r.chunk)
		r.chunk = r.chunk[:at+int(n)]
		b = r.chunk[at : at+int(n) : at+int(n)]
		err = src.read(b)
	} else {
		b, err = src.readMany(int(n))
	}
	if err != nil {
		r.fail(err)
		return nil
	}
	return b
}

// fixed returns the next n bytes, at most maxFixed. They are valid until the next ones are read.
func (r *reader) fixed(n int) []byte {
	if r.src == nil || r.left() < uint64(n) {
		return r.take(uint64(n))
	}
	b, err := r.src.next(n)
	if err != nil {
		r.fail(err)
		return nil
	}
	return b
}

func (r *reader) byte() byte {
	if b := r.fixed(1); b != nil {
		return b[0]
	}
	return 0
}

// u64 reads 8 bytes, little-endian: times and scores are stored so.
func (r *reader) u64() uint64 {
	if b := r.fixed(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// rawID reads the id of a stream entry as 16 bytes, big-endian.
func (r *reader) rawID() cf.StreamID {
	b := r.fixed(16)
	if b == nil {
		return cf.StreamID{}
	}
	return cf.StreamID{Ms: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}
}

// The forms of a length, by the first two bits of its first byte, in two cases the whole byte.
const (
	len6     = 0    // the other six bits
	len14    = 1    // the other six bits and the next byte
	lenEnc   = 3    // no length: the other six bits say how a string is encoded
	len32    = 0x80 // u32 big-endian
	len64    = 0x81 // u64 big-endian
	encInt8  = 0    // i8
	encInt16 = 1    // i16, little-endian like the next
	encInt32 = 2
	encLZF   = 3 // length compressed · length · compressed bytes
)

// lengthOr reads a length, or says how a string is encoded.
func (r *reader) lengthOr() (n uint64, encoded bool) {
	c := r.byte()
	switch c >> 6 {
	case len6:
		return uint64(c), false
	case len14:
		return uint64(c&0x3f)<<8 | uint64(r.byte()), false
	case lenEnc:
		return uint64(c & 0x3f), true
	}
	switch c {
	case len32:
		if b := r.fixed(4); b != nil {
			return uint64(binary.BigEndian.Uint32(b)), false
		}
	case len64:
		if b := r.fixed(8); b != nil {
			return binary.BigEndian.Uint64(b), false
		}
	default:
		r.failf("length of form %#x", c)
	}
	return 0, false
}

// length reads a number.
func (r *reader) length() uint64 {
	n, encoded := r.lengthOr()
	if encoded {
		r.failf("an encoded string in the place of a number")
		return 0
	}
	return n
}

// count reads how many items follow, each of at least size bytes: there cannot be more than there are bytes for.
func (r *reader) count(size int) int {
	n := r.length()
	if left := r.left(); n > left/uint64(size) {
		r.failf("%d items in %d bytes", n, left)
		return 0
	}
	return int(n)
}

// id reads the id of a stream entry as two numbers.
func (r *reader) id() cf.StreamID {
	ms := r.length()
	return cf.StreamID{Ms: ms, Seq: r.length()}
}

// string reads a string.
func (r *reader) string() []byte {
	n, encoded := r.lengthOr()
	if !encoded {
		s := r.take(n)
		r.spend(elemCost)
		return s
	}
	switch n {
	case encInt8:
		return r.int(int64(int8(r.byte())))
	case encInt16:
		if b := r.fixed(2); b != nil {
			return r.int(int64(int16(binary.LittleEndian.Uint16(b))))
		}
	case encInt32:
		if b := r.fixed(4); b != nil {
			return r.int(int64(int32(binary.LittleEndian.Uint32(b))))
		}
	case encLZF:
		return r.compressed()
	default:
		r.failf("string of encoding %d", n)
	}
	return nil
}

func (r *reader) compressed() []byte {
	size := r.length()
	n := r.length()
	src := r.take(size)
	if r.err != nil {
		return nil
	}
	if n == 0 || n > uint64(len(src))*maxLZFRatio {
		r.failf("%d bytes out of %d compressed ones", n, len(src))
		return nil
	}
	if !r.spend(int(n) + elemCost) {
		return nil
	}
	dst := make([]byte, n)
	if !decompress(dst, src) {
		r.failf("compressed string")
		return nil
	}
	return dst
}

// int returns the text of a number.
func (r *reader) int(n int64) []byte {
	if !r.spend(elemCost) {
		return nil
	}
	const longest = 20
	if cap(r.chunk)-len(r.chunk) < longest {
		r.chunk = make([]byte, 0, min(max(2*cap(r.chunk), 64), chunkSize))
	}
	at := len(r.chunk)
	r.chunk = strconv.AppendInt(r.chunk, n, 10)
	return r.chunk[at:len(r.chunk):len(r.chunk)]
}

// score reads a score in its old form: the length of its text and the text, or a length that stands for a special
// value.
func (r *reader) score() float64 {
	switch n := r.byte(); n {
	case 255:
		return math.Inf(-1)
	case 254:
		return math.Inf(1)
	case 253:
		return math.NaN()
	default:
		return r.parseScore(r.fixed(int(n)))
	}
}

// parseScore reads the text of a score.
func (r *reader) parseScore(b []byte) float64 {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil && !math.IsInf(f, 0) {
		r.failf("score %.40q", b)
	}
	return f
}
