package raw

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

// ElemCost is the cost in bytes of a string beyond its own bytes: its slice header, and its place in tables.
const ElemCost = 40

// chunkSize is the size in bytes of an allocation for small pieces.
const chunkSize = 16 << 10

// Reader parses bytes. It keeps the first error, and returns zeros after it.
type Reader struct {
	Budget int64  // bytes of memory left
	Chunk  []byte // memory for small pieces; its length is in use
	Err    error

	b   []byte
	src *Source // source of the bytes, nil = b
}

// NewReader returns a reader of b. Results may share memory with b.
func NewReader(b []byte, budget int64) Reader { return Reader{b: b, Budget: budget} }

// NewSourceReader returns a reader of a file.
func NewSourceReader(src *Source, budget int64) Reader { return Reader{src: src, Budget: budget} }

// Fail keeps the first error.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.b, r.src = nil, nil
}

// Failf is Fail for bytes that are not in the format of Redis.
func (r *Reader) Failf(format string, args ...any) { r.Fail(Malformed(format, args...)) }

// Spend subtracts n bytes from the budget and reports whether it was large enough.
func (r *Reader) Spend(n int) bool {
	if r.Budget -= int64(n); r.Budget < 0 {
		r.Fail(ErrTooLarge)
		return false
	}
	return r.Err == nil
}

// Left returns the number of bytes left, or an upper bound if it is unknown.
func (r *Reader) Left() uint64 {
	if r.src != nil {
		return r.src.left()
	}
	return uint64(len(r.b))
}

// Take returns the next n bytes, which the caller may keep.
func (r *Reader) Take(n uint64) []byte {
	if left := r.Left(); n > left {
		r.Failf("%d bytes wanted, %d left", n, left)
		return nil
	}
	if r.src != nil {
		return r.takeFrom(r.src, n)
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// takeFrom is Take for a source: it copies the bytes, so they count.
func (r *Reader) takeFrom(src *Source, n uint64) []byte {
	if n > uint64(max(r.Budget, 0)) || !r.Spend(int(n)) {
		r.Fail(ErrTooLarge)
		return nil
	}
	var b []byte
	var err error
	if n <= chunkSize/8 {
		if cap(r.Chunk) == 0 || uint64(cap(r.Chunk)-len(r.Chunk)) < n {
			r.Chunk = make([]byte, 0, chunkSize)
		}
		at := len(r.Chunk)
		r.Chunk = r.Chunk[:at+int(n)]
		b = r.Chunk[at : at+int(n) : at+int(n)]
		err = src.read(b)
	} else {
		b, err = src.readMany(int(n))
	}
	if err != nil {
		r.Fail(err)
		return nil
	}
	return b
}

// Fixed returns the next n bytes, at most maxFixed. They are valid until the next read.
func (r *Reader) Fixed(n int) []byte {
	if r.src == nil || r.Left() < uint64(n) {
		return r.Take(uint64(n))
	}
	b, err := r.src.next(n)
	if err != nil {
		r.Fail(err)
		return nil
	}
	return b
}

func (r *Reader) Byte() byte {
	if b := r.Fixed(1); b != nil {
		return b[0]
	}
	return 0
}

// U64 reads 8 bytes, little-endian, the form of times and scores.
func (r *Reader) U64() uint64 {
	if b := r.Fixed(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// RawID reads the id of a stream entry as 16 bytes, big-endian.
func (r *Reader) RawID() cf.StreamID {
	b := r.Fixed(16)
	if b == nil {
		return cf.StreamID{}
	}
	return cf.StreamID{Ms: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}
}

// The forms of a length, by the first two bits of its first byte, or in two cases by the whole byte.
const (
	len6     = 0    // the other six bits
	len14    = 1    // the other six bits and the next byte
	lenEnc   = 3    // the other six bits are the encoding of a string
	len32    = 0x80 // u32 big-endian
	len64    = 0x81 // u64 big-endian
	encInt8  = 0    // i8
	encInt16 = 1    // i16, little-endian like the next
	encInt32 = 2
	encLZF   = 3 // length compressed · length · compressed bytes
)

// lengthOr reads a length or the encoding of a string.
func (r *Reader) lengthOr() (n uint64, encoded bool) {
	c := r.Byte()
	switch c >> 6 {
	case len6:
		return uint64(c), false
	case len14:
		return uint64(c&0x3f)<<8 | uint64(r.Byte()), false
	case lenEnc:
		return uint64(c & 0x3f), true
	}
	switch c {
	case len32:
		if b := r.Fixed(4); b != nil {
			return uint64(binary.BigEndian.Uint32(b)), false
		}
	case len64:
		if b := r.Fixed(8); b != nil {
			return binary.BigEndian.Uint64(b), false
		}
	default:
		r.Failf("length of form %#x", c)
	}
	return 0, false
}

// Length reads a number.
func (r *Reader) Length() uint64 {
	n, encoded := r.lengthOr()
	if encoded {
		r.Failf("an encoded string in the place of a number")
		return 0
	}
	return n
}

// Count reads the number of items that follow, each of at least size bytes. More items than the bytes left allow are an
// error.
func (r *Reader) Count(size int) int {
	n := r.Length()
	if left := r.Left(); n > left/uint64(size) {
		r.Failf("%d items in %d bytes", n, left)
		return 0
	}
	return int(n)
}

// ID reads the id of a stream entry as two numbers.
func (r *Reader) ID() cf.StreamID {
	ms := r.Length()
	return cf.StreamID{Ms: ms, Seq: r.Length()}
}

func (r *Reader) String() []byte {
	n, encoded := r.lengthOr()
	if !encoded {
		s := r.Take(n)
		r.Spend(ElemCost)
		return s
	}
	switch n {
	case encInt8:
		return r.IntText(int64(int8(r.Byte())))
	case encInt16:
		if b := r.Fixed(2); b != nil {
			return r.IntText(int64(int16(binary.LittleEndian.Uint16(b))))
		}
	case encInt32:
		if b := r.Fixed(4); b != nil {
			return r.IntText(int64(int32(binary.LittleEndian.Uint32(b))))
		}
	case encLZF:
		return r.compressed()
	default:
		r.Failf("string of encoding %d", n)
	}
	return nil
}

func (r *Reader) compressed() []byte {
	size := r.Length()
	n := r.Length()
	src := r.Take(size)
	if r.Err != nil {
		return nil
	}
	if n == 0 || n > uint64(len(src))*maxLZFRatio {
		r.Failf("%d bytes out of %d compressed ones", n, len(src))
		return nil
	}
	if !r.Spend(int(n) + ElemCost) {
		return nil
	}
	dst := make([]byte, n)
	if !decompress(dst, src) {
		r.Failf("compressed string")
		return nil
	}
	return dst
}

// IntText returns the decimal text of a number.
func (r *Reader) IntText(n int64) []byte {
	if !r.Spend(ElemCost) {
		return nil
	}
	const longest = 20
	if cap(r.Chunk)-len(r.Chunk) < longest {
		r.Chunk = make([]byte, 0, min(max(2*cap(r.Chunk), 64), chunkSize))
	}
	at := len(r.Chunk)
	r.Chunk = strconv.AppendInt(r.Chunk, n, 10)
	return r.Chunk[at:len(r.Chunk):len(r.Chunk)]
}

// Score reads a score in its old form: the length of its text and the text, or a length that stands for a special
// value.
func (r *Reader) Score() float64 {
	switch n := r.Byte(); n {
	case 255:
		return math.Inf(-1)
	case 254:
		return math.Inf(1)
	case 253:
		return math.NaN()
	default:
		return r.ParseScore(r.Fixed(int(n)))
	}
}

// ParseScore reads the text of a score.
func (r *Reader) ParseScore(b []byte) float64 {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil && !math.IsInf(f, 0) {
		r.Failf("score %.40q", b)
	}
	return f
}

// ReadString reads a string of at most maxBytes at the beginning of b. It returns the rest of b, too.
func ReadString(b []byte, maxBytes int64) (s, rest []byte, err error) {
	r := Reader{b: b, Budget: maxBytes}
	s = r.String()
	if r.Err != nil {
		return nil, nil, r.Err
	}
	return s, r.b, nil
}
