package json

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"
)

// CBOR (RFC 8949) begins an item with a byte: 3 bits major type, and 5 bits that are the argument or give the number of
// argument bytes that follow.
const (
	cborUint   = 0 << 5
	cborNegInt = 1 << 5 // -1 - argument
	cborBytes  = 2 << 5
	cborText   = 3 << 5
	cborArray  = 4 << 5
	cborMap    = 5 << 5
	cborTag    = 6 << 5
	cborSimple = 7 << 5

	cborFalse     = cborSimple | 20
	cborTrue      = cborSimple | 21
	cborNull      = cborSimple | 22
	cborUndefined = cborSimple | 23
	cborFloat16   = cborSimple | 25
	cborFloat32   = cborSimple | 26
	cborFloat64   = cborSimple | 27

	cborIndefinite = 31 // in the argument bits: indefinite length
	cborBreak      = cborSimple | cborIndefinite

	cborPositiveBig = 2 // tags for a byte string that is a big-endian integer
	cborNegativeBig = 3
)

func appendCBORHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// AppendCBOR appends a value as CBOR in Kvrocks's form: definite lengths, the shortest heads, a double in 4 bytes if
// that loses nothing, a BigInt with tag 2 or 3.
func AppendCBOR(dst []byte, v *Value) []byte { return appendCBOR(dst, v, math.MaxInt) }

// appendCBOR is AppendCBOR, but stops soon after the length of dst exceeds limit.
func appendCBOR(dst []byte, v *Value, limit int) []byte {
	if len(dst) > limit {
		return dst
	}
	switch v.kind {
	case Null:
		return append(dst, cborNull)
	case Bool:
		if v.Bool() {
			return append(dst, cborTrue)
		}
		return append(dst, cborFalse)
	case Int:
		if n := v.Int(); n < 0 {
			return appendCBORHead(dst, cborNegInt, uint64(-1-n))
		}
		return appendCBORHead(dst, cborUint, v.num)
	case Uint:
		return appendCBORHead(dst, cborUint, v.num)
	case BigInt:
		n, tag := v.big(), byte(cborPositiveBig)
		if n.Sign() < 0 {
			n.Not(n) // -1 - n
			tag = cborNegativeBig
		}
		b := n.Bytes()
		return append(appendCBORHead(append(dst, cborTag|tag), cborBytes, uint64(len(b))), b...)
	case Float:
		f := v.Float()
		if f32 := float32(f); float64(f32) == f {
			return binary.BigEndian.AppendUint32(append(dst, cborFloat32), math.Float32bits(f32))
		}
		return binary.BigEndian.AppendUint64(append(dst, cborFloat64), v.num)
	case String:
		return append(appendCBORHead(dst, cborText, uint64(len(v.text))), v.text...)
	case Array:
		dst = appendCBORHead(dst, cborArray, uint64(len(v.box.vals)))
		for i := range v.box.vals {
			dst = appendCBOR(dst, &v.box.vals[i], limit)
		}
		return dst
	}
	dst = appendCBORHead(dst, cborMap, uint64(len(v.box.vals)))
	for i := range v.box.vals {
		dst = append(appendCBORHead(dst, cborText, uint64(len(v.box.keys[i]))), v.box.keys[i]...)
		dst = appendCBOR(dst, &v.box.vals[i], limit)
	}
	return dst
}

// cborReader decodes CBOR. Its input is a stored record, which may be corrupt: the result is a value or an error, and
// the used memory is limited by the length of the input.
type cborReader struct {
	s     string
	i     int
	depth int // how many more levels are allowed
}

var (
	errCBORShort = errors.New("CBOR ends too early")
	errCBORDeep  = errors.New("CBOR is nested too deep")
)

// ParseCBOR decodes a document. Strings alias s. CBOR that has no JSON equivalent is converted as in Kvrocks:
// undefined, NaN and infinities to null, a byte string to its base64url text, half and single floats to doubles; tags
// other than those of big integers are ignored. More than maxDepth nested arrays, maps and tags are an error.
func ParseCBOR(s string, maxDepth int) (Value, error) {
	r := cborReader{s: s, depth: min(maxDepth, MaxDepth)}
	v, err := r.item()
	if err != nil {
		return Value{}, err
	}
	if r.i < len(s) {
		return Value{}, fmt.Errorf("%d bytes after the CBOR item", len(s)-r.i)
	}
	return v, nil
}

func (r *cborReader) take(n uint64) (string, error) {
	if n > uint64(len(r.s)-r.i) {
		return "", errCBORShort
	}
	from := r.i
	r.i += int(n)
	return r.s[from:r.i], nil
}

// head reads the first byte of an item and its argument.
func (r *cborReader) head() (first byte, n uint64, err error) {
	if r.i == len(r.s) {
		return 0, 0, errCBORShort
	}
	first = r.s[r.i]
	r.i++
	info := first & 31
	switch {
	case info < 24:
		return first, uint64(info), nil
	case info <= 27:
		b, err := r.take(1 << (info - 24))
		for i := range len(b) {
			n = n<<8 | uint64(b[i])
		}
		return first, n, err
	case info == cborIndefinite:
		return first, 0, nil
	}
	return 0, 0, fmt.Errorf("CBOR head %#x", first)
}

func (r *cborReader) enter() error {
	if r.depth <= 0 {
		return errCBORDeep
	}
	r.depth--
	return nil
}

func (r *cborReader) item() (v Value, err error) {
	first, n, err := r.head()
	if err != nil {
		return v, err
	}
	switch first &^ 31 {
	case cborSimple:
		return simple(first, n)
	case cborBytes:
		s, err := r.str(first, n)
		return StringOf(base64.RawURLEncoding.EncodeToString([]byte(s))), err
	case cborText:
		s, err := r.text(first, n)
		return StringOf(s), err
	case cborArray:
		return r.array(first, n)
	case cborMap:
		return r.object(first, n)
	}
	if first&31 == cborIndefinite {
		return v, fmt.Errorf("CBOR head %#x", first)
	}
	switch first &^ 31 {
	case cborUint:
		if n <= math.MaxInt64 {
			return IntOf(int64(n)), nil
		}
		return Value{kind: Uint, num: n}, nil
	case cborNegInt:
		if n <= math.MaxInt64 {
			return IntOf(-1 - int64(n)), nil
		}
		b := new(big.Int).SetUint64(n)
		return integerOf(b.Not(b)), nil
	}
	if err := r.enter(); err != nil {
		return v, err
	}
	defer func() { r.depth++ }()
	if n == cborPositiveBig || n == cborNegativeBig {
		return r.bigInt(n == cborNegativeBig)
	}
	return r.item()
}

// maxBigBytes is the max length in bytes of a big integer: about maxDigits digits.
const maxBigBytes = maxDigits * 332 / 800

func (r *cborReader) bigInt(negative bool) (v Value, err error) {
	first, n, err := r.head()
	if err != nil {
		return v, err
	}
	if first&^31 != cborBytes {
		return v, fmt.Errorf("CBOR head %#x in a big integer", first)
	}
	s, err := r.str(first, n)
	if err != nil {
		return v, err
	}
	if len(s) > maxBigBytes {
		return v, fmt.Errorf("CBOR integer of %d bytes", len(s))
	}
	b := new(big.Int).SetBytes([]byte(s))
	if negative {
		b.Not(b)
	}
	return integerOf(b), nil
}

func simple(first byte, n uint64) (v Value, err error) {
	f := 0.0
	switch first {
	case cborFalse:
		return BoolOf(false), nil
	case cborTrue:
		return BoolOf(true), nil
	case cborNull, cborUndefined:
		return v, nil
	case cborFloat16:
		f = halfFloat(uint16(n))
	case cborFloat32:
		f = float64(math.Float32frombits(uint32(n)))
	case cborFloat64:
		f = math.Float64frombits(n)
	default:
		return v, fmt.Errorf("CBOR simple value %#x", first)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return v, nil
	}
	return floatOf(f), nil
}

// halfFloat decodes an IEEE 754 binary16.
func halfFloat(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	f := 0.0
	switch exp {
	case 0:
		f = math.Ldexp(frac, -24)
	case 31:
		if f = math.Inf(1); frac != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(frac+1024, exp-25)
	}
	if h&0x8000 != 0 {
		f = -f
	}
	return f
}

// str reads the rest of a byte or text string, which may consist of chunks.
func (r *cborReader) str(first byte, n uint64) (string, error) {
	if first&31 != cborIndefinite {
		return r.take(n)
	}
	var buf []byte
	for {
		chunk, n, err := r.head()
		if err != nil {
			return "", err
		}
		if chunk == cborBreak {
			return string(buf), nil
		}
		if chunk&^31 != first&^31 || chunk&31 == cborIndefinite {
			return "", fmt.Errorf("CBOR head %#x in a string", chunk)
		}
		s, err := r.take(n)
		if err != nil {
			return "", err
		}
		buf = append(buf, s...)
	}
}

func (r *cborReader) text(first byte, n uint64) (string, error) {
	s, err := r.str(first, n)
	if err == nil && !utf8.ValidString(s) {
		err = errors.New("CBOR text that is not UTF-8")
	}
	return s, err
}

// more reports whether an array or map has another child after i children. It reads the break byte that ends an
// indefinite length.
func (r *cborReader) more(first byte, n uint64, i int) (bool, error) {
	if first&31 != cborIndefinite {
		return uint64(i) < n, nil
	}
	if r.i == len(r.s) {
		return false, errCBORShort
	}
	if r.s[r.i] == cborBreak {
		r.i++
		return false, nil
	}
	return true, nil
}

// children returns a box for n children of at least size bytes each, which the rest of the input must have. It
// allocates only a little at first: every nesting level could claim as many children as the input has bytes.
func (r *cborReader) children(n, size uint64) (*box, error) {
	if n > uint64(len(r.s)-r.i)/size {
		return nil, errCBORShort
	}
	return &box{vals: make([]Value, 0, min(n, 16))}, nil
}

func (r *cborReader) array(first byte, n uint64) (v Value, err error) {
	if err := r.enter(); err != nil {
		return v, err
	}
	b, err := r.children(n, 1)
	if err != nil {
		return v, err
	}
	for {
		more, err := r.more(first, n, len(b.vals))
		if err != nil {
			return v, err
		}
		if !more {
			r.depth++
			return Value{kind: Array, box: b}, nil
		}
		elem, err := r.item()
		if err != nil {
			return v, err
		}
		b.vals = append(b.vals, elem)
	}
}

func (r *cborReader) object(first byte, n uint64) (v Value, err error) {
	if err := r.enter(); err != nil {
		return v, err
	}
	b, err := r.children(n, 2)
	if err != nil {
		return v, err
	}
	for i := 0; ; i++ {
		more, err := r.more(first, n, i)
		if err != nil {
			return v, err
		}
		if !more {
			r.depth++
			return Value{kind: Object, box: b}, nil
		}
		head, n, err := r.head()
		if err != nil {
			return v, err
		}
		if head&^31 != cborText {
			return v, fmt.Errorf("CBOR head %#x of a name", head)
		}
		name, err := r.text(head, n)
		if err != nil {
			return v, err
		}
		member, err := r.item()
		if err != nil {
			return v, err
		}
		b.set(name, member)
	}
}
