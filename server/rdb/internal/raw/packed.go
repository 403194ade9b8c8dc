package raw

import (
	"encoding/binary"
	"math"
)

// The packed forms: a whole value in one string. Each function calls f with every element: a string, or the text of a
// number. After an error f is not called any more.

// Listpack reads a listpack, all numbers little-endian:
//
//	u32 bytes in all · u16 elements, 65535 = unknown · elements · 0xff
//
// An element is its encoding, its bytes, and the length of both in a form that can be read backwards.
func (r *Reader) Listpack(b []byte, f func(elem []byte)) {
	r.EachListpack(b, func(elem []byte, n int64, isInt bool) {
		if isInt {
			elem = r.IntText(n)
		} else {
			r.Spend(ElemCost)
		}
		if r.Err == nil {
			f(elem)
		}
	})
}

const listpackHead = 6

// EachListpack is Listpack without the texts of numbers.
func (r *Reader) EachListpack(b []byte, f func(elem []byte, n int64, isInt bool)) {
	if len(b) < listpackHead+1 || binary.LittleEndian.Uint32(b) != uint32(len(b)) || b[len(b)-1] != 0xff {
		r.Failf("listpack of %d bytes", len(b))
		return
	}
	want := int(binary.LittleEndian.Uint16(b[4:]))
	got := 0
	for b = b[listpackHead:]; b[0] != 0xff; got++ {
		elem, n, isInt, size := listpackElem(b)
		if size == 0 || size+backLen(size) >= len(b) || !isBackLen(b[size:], size) {
			r.Failf("element %d of a listpack", got)
			return
		}
		f(elem, n, isInt)
		if r.Err != nil {
			return
		}
		b = b[size+backLen(size):]
	}
	if len(b) != 1 || want != math.MaxUint16 && got != want {
		r.Failf("listpack of %d elements, %d bytes too long", got, len(b)-1)
	}
}

// listpackElem parses the element at the beginning of b, without its length at the end. size is 0 if b does not begin
// with an element.
func listpackElem(b []byte) (elem []byte, n int64, isInt bool, size int) {
	c := b[0]
	switch {
	case c < 0x80: // 0xxxxxxx: number
		return nil, int64(c), true, 1
	case c < 0xc0: // 10xxxxxx: length
		return packedString(b, 1, int(c&0x3f))
	case c < 0xe0: // 110xxxxx and a byte: number of 13 bits
		if len(b) < 2 {
			return nil, 0, false, 0
		}
		v := int64(c&0x1f)<<8 | int64(b[1])
		if v >= 1<<12 {
			v -= 1 << 13
		}
		return nil, v, true, 2
	case c < 0xf0: // 1110xxxx and a byte: length of 12 bits
		if len(b) < 2 {
			return nil, 0, false, 0
		}
		return packedString(b, 2, int(c&0xf)<<8|int(b[1]))
	}
	switch c {
	case 0xf0:
		if len(b) < 5 {
			return nil, 0, false, 0
		}
		return packedString(b, 5, int(binary.LittleEndian.Uint32(b[1:])))
	case 0xf1:
		return packedInt(b, 2)
	case 0xf2:
		return packedInt(b, 3)
	case 0xf3:
		return packedInt(b, 4)
	case 0xf4:
		return packedInt(b, 8)
	}
	return nil, 0, false, 0
}

// packedString returns the element of a listpack or ziplist whose bytes follow the first head bytes of b; size is 0
// when b is too short.
func packedString(b []byte, head, length int) (elem []byte, n int64, isInt bool, size int) {
	if length > len(b)-head {
		return nil, 0, false, 0
	}
	return b[head : head+length : head+length], 0, false, head + length
}

// packedInt is packedString for a number of some bytes, which follow the first one.
func packedInt(b []byte, bytes int) (elem []byte, n int64, isInt bool, size int) {
	if bytes >= len(b) {
		return nil, 0, false, 0
	}
	return nil, littleInt(b[1 : 1+bytes]), true, 1 + bytes
}

// littleInt reads a signed little-endian number of any width up to 8 bytes.
func littleInt(b []byte) int64 {
	var u uint64
	for i, c := range b {
		u |= uint64(c) << (8 * i)
	}
	shift := 64 - 8*len(b)
	return int64(u<<shift) >> shift
}

// backLen returns the length in bytes of the length field at the end of an element.
func backLen(size int) int {
	switch {
	case size <= 127:
		return 1
	case size < 16383:
		return 2
	case size < 2097151:
		return 3
	case size < 268435455:
		return 4
	}
	return 5
}

// appendBackLen appends that length field: groups of seven bits, the highest first, with the top bit set in all but the
// first.
func appendBackLen(dst []byte, size int) []byte {
	n := backLen(size)
	for i := n - 1; i >= 0; i-- {
		c := byte(size>>(7*i)) & 127
		if i < n-1 {
			c |= 128
		}
		dst = append(dst, c)
	}
	return dst
}

func isBackLen(b []byte, size int) bool {
	var buf [5]byte
	want := appendBackLen(buf[:0], size)
	return len(b) >= len(want) && string(b[:len(want)]) == string(want)
}

const ziplistHead = 4 + 4 + 2

// Ziplist reads a ziplist, the form before listpacks, all numbers of its frame little-endian:
//
//	u32 bytes in all · u32 offset of the last element · u16 elements, 65535 = unknown · elements · 0xff
//
// An element begins with the length of the one before it: a byte, or 254 and a u32.
func (r *Reader) Ziplist(b []byte, f func(elem []byte)) {
	if len(b) < ziplistHead+1 || binary.LittleEndian.Uint32(b) != uint32(len(b)) || b[len(b)-1] != 0xff {
		r.Failf("ziplist of %d bytes", len(b))
		return
	}
	total := len(b)
	tail, want := int(binary.LittleEndian.Uint32(b[4:])), int(binary.LittleEndian.Uint16(b[8:]))
	got, last, lastAt := 0, 0, ziplistHead
	for b = b[ziplistHead:]; b[0] != 0xff; got++ {
		prev, head := int(b[0]), 1
		if prev == 254 {
			if len(b) <= 5 {
				break
			}
			prev, head = int(binary.LittleEndian.Uint32(b[1:])), 5
		}
		elem, n, isInt, size := ziplistElem(b[head:])
		if prev != last || size == 0 || head+size >= len(b) {
			r.Failf("element %d of a ziplist", got)
			return
		}
		if isInt {
			elem = r.IntText(n)
		} else {
			r.Spend(ElemCost)
		}
		if r.Err != nil {
			return
		}
		f(elem)
		if r.Err != nil {
			return
		}
		lastAt = total - len(b)
		last = head + size
		b = b[last:]
	}
	if len(b) != 1 || tail != lastAt || want != math.MaxUint16 && got != want {
		r.Failf("ziplist of %d elements, %d bytes too long", got, len(b)-1)
	}
}

// ziplistElem parses the encoding and the bytes of the element at the beginning of b. size is 0 if b does not begin
// with an element.
func ziplistElem(b []byte) (elem []byte, n int64, isInt bool, size int) {
	c := b[0]
	switch {
	case c < 0x40: // 00xxxxxx: length
		return packedString(b, 1, int(c))
	case c < 0x80: // 01xxxxxx and a byte: length of 14 bits
		if len(b) < 2 {
			return nil, 0, false, 0
		}
		return packedString(b, 2, int(c&0x3f)<<8|int(b[1]))
	case c == 0x80: // length of 32 bits, big-endian
		if len(b) < 5 {
			return nil, 0, false, 0
		}
		return packedString(b, 5, int(binary.BigEndian.Uint32(b[1:])))
	case c >= 0xf1 && c <= 0xfd: // 1111xxxx: number 0 to 12
		return nil, int64(c) - 0xf1, true, 1
	}
	switch c {
	case 0xc0:
		return packedInt(b, 2)
	case 0xd0:
		return packedInt(b, 4)
	case 0xe0:
		return packedInt(b, 8)
	case 0xf0:
		return packedInt(b, 3)
	case 0xfe:
		return packedInt(b, 1)
	}
	return nil, 0, false, 0
}

// Zipmap reads a zipmap, the form of small hashes before Redis 2.6:
//
//	u8 pairs, 254 = unknown · (length · field · length · u8 free bytes · value · free bytes) · 0xff
//
// where a length is a byte, or 254 and a u32, little-endian.
func (r *Reader) Zipmap(b []byte, f func(elem []byte)) {
	if len(b) < 2 || b[len(b)-1] != 0xff {
		r.Failf("zipmap of %d bytes", len(b))
		return
	}
	want, pairs := int(b[0]), 0
	z := Reader{b: b[1:], Budget: math.MaxInt64}
	length := func() uint64 {
		n := uint64(z.Byte())
		if n == 254 {
			if b := z.Take(4); b != nil {
				n = uint64(binary.LittleEndian.Uint32(b))
			}
		} else if n == 255 {
			z.Failf("length in a zipmap")
		}
		return n
	}
	for ; len(z.b) > 0 && z.b[0] != 0xff; pairs++ {
		field := z.Take(length())
		n := length()
		free := z.Byte()
		value := z.Take(n)
		z.Take(uint64(free))
		if z.Err != nil || !r.Spend(2*ElemCost) {
			break
		}
		f(field)
		f(value)
	}
	switch {
	case z.Err != nil:
		r.Fail(z.Err)
	case len(z.b) != 1 || want < 254 && pairs != want:
		r.Failf("zipmap of %d pairs", pairs)
	}
}

// Intset reads a set of integers in ascending order, everything little-endian:
//
//	u32 bytes of an integer: 2, 4 or 8 · u32 how many · integers
func (r *Reader) Intset(b []byte, f func(elem []byte)) {
	if len(b) < 8 {
		r.Failf("intset of %d bytes", len(b))
		return
	}
	width, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	b = b[8:]
	if width != 2 && width != 4 && width != 8 || uint64(n)*uint64(width) != uint64(len(b)) {
		r.Failf("intset of %d integers of %d bytes in %d bytes", n, width, len(b))
		return
	}
	var last int64
	for i := range n {
		v := littleInt(b[:width])
		b = b[width:]
		if i > 0 && v <= last {
			r.Failf("intset that is not sorted")
			return
		}
		last = v
		text := r.IntText(v)
		if r.Err != nil {
			return
		}
		f(text)
	}
}

// Elements reads the elements of a listpack one after the other.
type Elements struct {
	r *Reader
	b []byte
}

// Elements returns the elements of a listpack that EachListpack has accepted.
func (r *Reader) Elements(b []byte) Elements { return Elements{r, b[listpackHead:]} }

// Done reports whether no element is left.
func (p *Elements) Done() bool { return p.b[0] == 0xff }

func (p *Elements) next() (elem []byte, n int64, isInt bool) {
	if p.r.Err != nil || p.Done() {
		p.r.Failf("a listpack ends early")
		return nil, 0, true
	}
	elem, n, isInt, size := listpackElem(p.b)
	p.b = p.b[size+backLen(size):]
	return elem, n, isInt
}

// Int reads a number.
func (p *Elements) Int() int64 {
	elem, n, isInt := p.next()
	if !isInt {
		// The string is not the text of a number: Redis would have written a number.
		p.r.Failf("%.40q in the place of a number", elem)
	}
	return n
}

// String reads a string, or the text of a number.
func (p *Elements) String() []byte {
	elem, n, isInt := p.next()
	if isInt {
		return p.r.IntText(n)
	}
	p.r.Spend(ElemCost)
	return elem
}

// Count reads the number of items that follow.
func (p *Elements) Count() int {
	n := p.Int()
	if n < 0 || n > int64(len(p.b)) {
		p.r.Failf("%d items in a listpack of %d bytes", n, len(p.b))
		return 0
	}
	return int(n)
}
