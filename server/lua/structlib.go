package lua

import (
	"fmt"
	"math"
	"slices"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/lua/luac"
)

// maxIntSize is the max size in bytes of an integer in a format of the struct library.
const maxIntSize = 32

func openStruct(st *state, L *vm.LState) {
	st.library(L, "struct", map[string]vm.LGFunction{"pack": structPack, "unpack": structUnpack, "size": structSize}, nil)
}

// structFormat iterates over a format: > < big and little endian, ![n] alignment, b B h H l L T i[n] I[n] integers, f d
// floating point, x a zero byte, c[n] n bytes, s a zero-terminated string.
type structFormat struct {
	L     *vm.LState
	text  string
	at    int
	big   bool
	align int
}

func newStructFormat(L *vm.LState) *structFormat {
	return &structFormat{L: L, text: luac.CString(checkString(L, 1)), align: 1}
}

func (f *structFormat) more() bool { return f.at < len(f.text) }

func (f *structFormat) number(otherwise int) int {
	if !f.more() || !isDigit(f.text[f.at]) {
		return otherwise
	}
	n := 0
	for f.more() && isDigit(f.text[f.at]) {
		d := int(f.text[f.at] - '0')
		if n > math.MaxInt32/10 || n*10 > math.MaxInt32-d {
			raise(f.L, "integral size overflow")
		}
		n = n*10 + d
		f.at++
	}
	return n
}

// next returns the next option, its size, and the padding before it at offset n.
func (f *structFormat) next(n int) (opt byte, size, padding int) {
	opt = f.text[f.at]
	f.at++
	switch opt {
	case 'B', 'b', 'x':
		size = 1
	case 'H', 'h':
		size = 2
	case 'L', 'l', 'T', 'd':
		size = 8
	case 'f':
		size = 4
	case 'c':
		return opt, f.number(1), 0
	case 'i', 'I':
		size = f.number(4)
		if size > maxIntSize {
			raise(f.L, "integral size %d is larger than limit of %d", size, maxIntSize)
		}
	}
	if size > 0 {
		a := min(size, f.align)
		padding = (a - n&(a-1)) & (a - 1)
	}
	return opt, size, padding
}

func (f *structFormat) control(opt byte) {
	switch opt {
	case ' ':
	case '>':
		f.big = true
	case '<':
		f.big = false
	case '!':
		n := f.number(8)
		if n <= 0 || n&(n-1) != 0 {
			raise(f.L, "alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		argError(f.L, 1, fmt.Sprintf("invalid format option '%s'", []byte{opt}))
	}
}

func structPack(L *vm.LState) int {
	f := newStructFormat(L)
	L.Push(vm.LNil) // a missing argument is nil, as in Redis, which puts a mark after the arguments
	var b []byte
	arg := 2
	for f.more() {
		n := len(b)
		opt, size, padding := f.next(n)
		b = append(b, make([]byte, padding)...)
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			v := checkNumber(L, arg)
			u := uint64(int64(cInt(v)))
			if v >= 0 {
				u = cUnsigned(v)
			}
			b = appendUnsigned(b, u, size, f.big)
			arg++
		case 'x':
			b = append(b, 0)
		case 'f':
			b = appendUnsigned(b, uint64(math.Float32bits(float32(checkNumber(L, arg)))), size, f.big)
			arg++
		case 'd':
			b = appendUnsigned(b, math.Float64bits(checkNumber(L, arg)), size, f.big)
			arg++
		case 'c', 's':
			s := checkString(L, arg)
			arg++
			if size == 0 {
				size = len(s)
			}
			if len(s) < size {
				argError(L, arg, "string too short")
			}
			charge(L, size)
			b = append(b, s[:size]...)
			if opt == 's' {
				b = append(b, 0)
			}
		default:
			f.control(opt)
		}
		if len(b) > maxString {
			outOfMemory(L)
		}
		work(L, 1)
	}
	return pushBytes(L, b)
}

func appendUnsigned(b []byte, n uint64, size int, big bool) []byte {
	start := len(b)
	for range size {
		b = append(b, byte(n))
		n >>= 8
	}
	if big {
		slices.Reverse(b[start:])
	}
	return b
}

func cUnsigned(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(cInt(f-1<<63)) ^ 1<<63
	}
	return uint64(cInt(f))
}

func structUnpack(L *vm.LState) int {
	f := newStructFormat(L)
	data := checkString(L, 2)
	start := optInt(L, 3, 1)
	if start == 0 {
		argError(L, 3, "offset must be 1 or greater")
	}
	short := func() { argError(L, 2, "data string too short") }
	if start < 0 || start > len(data)+1 { // in C a negative offset is a huge one
		if !f.more() {
			return pushInt(L, start)
		}
		start = len(data) + 1 + maxIntSize
	}
	pos := start - 1
	n := 0
	for f.more() {
		opt, size, padding := f.next(pos)
		pos += padding
		if size > len(data) || pos > len(data)-size {
			short()
		}
		if L.GetTop()+2 > maxStack {
			raise(L, "stack overflow (too many results)")
		}
		n++
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			pushNumber(L, readInteger(data[pos:pos+size], f.big, opt >= 'a'))
		case 'f':
			pushNumber(L, float64(math.Float32frombits(uint32(readUnsigned(data[pos:pos+size], f.big)))))
		case 'd':
			pushNumber(L, math.Float64frombits(readUnsigned(data[pos:pos+size], f.big)))
		case 'c':
			if size == 0 {
				if n--; n == 0 {
					raise(L, "format 'c0' needs a previous size")
				}
				length, ok := toNumber(L.Get(-1))
				if !ok {
					raise(L, "format 'c0' needs a previous size")
				}
				L.Pop(1)
				if size = cInt(length); size < 0 || size > len(data) || pos > len(data)-size {
					short()
				}
			}
			pushSub(L, data, pos, pos+size)
		case 's':
			end := pos
			for end < len(data) && data[end] != 0 {
				end++
			}
			if end == len(data) {
				raise(L, "unfinished string in data")
			}
			size = end - pos + 1
			pushSub(L, data, pos, end)
		default:
			n--
			if opt != 'x' {
				f.control(opt)
			}
		}
		pos += size
		work(L, 1)
	}
	pushInt(L, pos+1)
	return n + 1
}

func readUnsigned(b string, big bool) (n uint64) {
	for i := range len(b) {
		if big {
			n = n<<8 | uint64(b[i])
		} else {
			n = n<<8 | uint64(b[len(b)-1-i])
		}
	}
	return n
}

func readInteger(b string, big, signed bool) float64 {
	n := readUnsigned(b, big)
	if !signed {
		return float64(n)
	}
	if shift := len(b)*8 - 1; shift >= 0 && shift < 64 && n>>shift&1 == 1 {
		n |= ^uint64(0) << shift
	}
	return float64(int64(n))
}

func structSize(L *vm.LState) int {
	f := newStructFormat(L)
	pos := 0
	for f.more() {
		opt, size, padding := f.next(pos)
		pos += padding
		if opt == 's' {
			argError(L, 1, "option 's' has no fixed size")
		} else if opt == 'c' && size == 0 {
			argError(L, 1, "option 'c0' has no fixed size")
		}
		if !isLetter(opt) && !isDigit(opt) {
			f.control(opt)
		}
		pos += size
	}
	return pushInt(L, pos)
}
