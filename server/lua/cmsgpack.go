package lua

import (
	"encoding/binary"
	"math"

	vm "github.com/yuin/gopher-lua"
)

const (
	packDepth   = 16   // nested tables; deeper ones become nil
	unpackDepth = 1000 // nested arrays and maps
)

func openMsgPack(st *state, L *vm.LState) {
	st.library(L, "cmsgpack", map[string]vm.LGFunction{
		"pack":         packAll,
		"unpack":       func(L *vm.LState) int { return unpackSome(L, 0, 0) },
		"unpack_one":   func(L *vm.LState) int { return unpackSome(L, 1, optInt(L, 2, 0)) },
		"unpack_limit": func(L *vm.LState) int { return unpackSome(L, checkInt(L, 2), optInt(L, 3, 0)) },
	}, map[string]vm.LValue{
		"_NAME": vm.LString("cmsgpack"), "_VERSION": vm.LString("lua-cmsgpack 0.4.0"),
		"_COPYRIGHT":   vm.LString("Copyright (C) 2012, Salvatore Sanfilippo"),
		"_DESCRIPTION": vm.LString("MessagePack C implementation for Lua"),
	})
}

type packer struct{ output }

func packAll(L *vm.LState) int {
	n := L.GetTop()
	if n == 0 {
		argError(L, 0, "MessagePack pack needs input.")
	}
	p := packer{output{L: L}}
	for i := 1; i <= n; i++ {
		p.value(L.Get(i), 0)
	}
	return p.push()
}

func (p *packer) value(v vm.LValue, depth int) {
	work(p.L, 1)
	p.grown()
	switch v := v.(type) {
	case vm.LString:
		p.text(string(v))
	case vm.LBool:
		if v {
			p.b = append(p.b, 0xc3)
		} else {
			p.b = append(p.b, 0xc2)
		}
	case vm.LNumber:
		p.number(float64(v))
	case *vm.LTable:
		if depth == packDepth {
			p.b = append(p.b, 0xc0)
			return
		}
		p.table(real(v), depth)
	default:
		p.b = append(p.b, 0xc0)
	}
}

func (p *packer) text(s string) {
	switch n := len(s); {
	case n < 32:
		p.b = append(p.b, 0xa0|byte(n))
	case n <= 0xff:
		p.b = append(p.b, 0xd9, byte(n))
	case n <= 0xffff:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xda), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xdb), uint32(n))
	}
	p.b = append(p.b, s...)
}

func (p *packer) number(f float64) {
	if i := int64(cInt(f)); float64(i) == f && (i != math.MaxInt64) {
		p.integer(i)
		return
	}
	if g := float32(f); float64(g) == f {
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xca), math.Float32bits(g))
		return
	}
	p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcb), math.Float64bits(f))
}

func (p *packer) integer(i int64) {
	switch {
	case i >= 0 && i <= 127:
		p.b = append(p.b, byte(i))
	case i >= 0 && i <= 0xff:
		p.b = append(p.b, 0xcc, byte(i))
	case i >= 0 && i <= 0xffff:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xcd), uint16(i))
	case i >= 0 && i <= 0xffffffff:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xce), uint32(i))
	case i >= 0:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcf), uint64(i))
	case i >= -32:
		p.b = append(p.b, byte(i))
	case i >= -128:
		p.b = append(p.b, 0xd0, byte(i))
	case i >= -32768:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xd1), uint16(i))
	case i >= -2147483648:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xd2), uint32(i))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xd3), uint64(i))
	}
}

func (p *packer) header(n int, fix, fixMost, code byte) {
	switch {
	case n <= int(fixMost):
		p.b = append(p.b, fix|byte(n))
	case n <= 0xffff:
		p.b = binary.BigEndian.AppendUint16(append(p.b, code), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, code+1), uint32(n))
	}
}

// table packs a table as an array if its keys are 1 to n (also an empty table), otherwise as a map.
func (p *packer) table(t *vm.LTable, depth int) {
	n, most, array := 0, 0, true
	for k := range pairs(t) {
		n++
		f, ok := k.(vm.LNumber)
		if !ok || f < 1 || f != vm.LNumber(math.Floor(float64(f))) {
			array = false
			continue
		}
		most = max(most, cInt(float64(f)))
	}
	if array && most == n {
		p.header(n, 0x90, 15, 0xdc)
		for i := 1; i <= n; i++ {
			p.value(rawGetInt(t, i), depth+1)
		}
		return
	}
	p.header(n, 0x80, 15, 0xde)
	for k, v := range pairs(t) {
		p.value(k, depth+1)
		p.value(v, depth+1)
	}
}

// unpackSome unpacks at most limit values, 0 = all. With a limit, the first result is the offset of the next value, -1
// at the end.
func unpackSome(L *vm.LState, limit, offset int) int {
	s := checkString(L, 1)
	all := limit == 0 && offset == 0
	switch {
	case offset < 0 || limit < 0:
		raise(L, "Invalid request to unpack with offset of %d and limit of %d.", int32(offset), len(s))
	case offset > len(s):
		raise(L, "Start offset %d greater than input length %d.", int32(offset), len(s))
	}
	if all {
		limit = math.MaxInt32
	}
	u := unpacker{L: L, st: stateOf(L), s: s, at: offset}
	var results []vm.LValue
	for u.at < len(s) && len(results) < limit {
		if L.GetTop()+len(results)+1 > maxStack {
			raise(L, "stack overflow (in function mp_decode_to_lua_type)")
		}
		results = append(results, u.value(0))
	}
	switch {
	case all:
		return push(L, results...)
	case u.at >= len(s):
		return pushInt(L, -1) + push(L, results...)
	}
	return pushInt(L, u.at) + push(L, results...)
}

type unpacker struct {
	L  *vm.LState
	st *state
	s  string
	at int
}

func (u *unpacker) take(n int) string {
	if n < 0 || n > len(u.s)-u.at {
		raise(u.L, "Missing bytes in input.")
	}
	b := u.s[u.at : u.at+n]
	u.at += n
	return b
}

func (u *unpacker) uint(n int) (v uint64) {
	for _, c := range []byte(u.take(n)) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (u *unpacker) text(n int) vm.LValue {
	from := u.at
	if s := u.take(n); n <= shortText {
		return u.st.text(s)
	}
	return substring(u.L, u.s, from, u.at)
}

func (u *unpacker) value(depth int) vm.LValue {
	work(u.L, 1)
	if depth > unpackDepth {
		raise(u.L, "stack overflow (in function mp_decode_to_lua_array)")
	}
	switch c := u.take(1)[0]; {
	case c < 0x80:
		return u.st.number(float64(c))
	case c >= 0xe0:
		return u.st.number(float64(int8(c)))
	case c < 0x90:
		return u.pairs(int(c&15), depth)
	case c < 0xa0:
		return u.array(int(c&15), depth)
	case c < 0xc0:
		return u.text(int(c & 31))
	default:
		switch c {
		case 0xc0:
			return vm.LNil
		case 0xc2:
			return vm.LFalse
		case 0xc3:
			return vm.LTrue
		case 0xcc:
			return u.st.number(float64(u.uint(1)))
		case 0xcd:
			return u.st.number(float64(u.uint(2)))
		case 0xce:
			return u.st.number(float64(u.uint(4)))
		case 0xcf:
			return u.st.number(float64(int64(u.uint(8)))) // wraps in Redis
		case 0xd0:
			return u.st.number(float64(int8(u.uint(1))))
		case 0xd1:
			return u.st.number(float64(int16(u.uint(2))))
		case 0xd2:
			return u.st.number(float64(int32(u.uint(4))))
		case 0xd3:
			return u.st.number(float64(int64(u.uint(8))))
		case 0xca:
			return u.st.number(float64(math.Float32frombits(uint32(u.uint(4)))))
		case 0xcb:
			return u.st.number(float64(math.Float64frombits(u.uint(8))))
		case 0xd9:
			return u.text(int(u.uint(1)))
		case 0xda:
			return u.text(int(u.uint(2)))
		case 0xdb:
			return u.text(int(u.uint(4)))
		case 0xdc:
			return u.array(int(u.uint(2)), depth)
		case 0xdd:
			return u.array(int(u.uint(4)), depth)
		case 0xde:
			return u.pairs(int(u.uint(2)), depth)
		case 0xdf:
			return u.pairs(int(u.uint(4)), depth)
		}
	}
	raise(u.L, "Bad data format in input.")
	return nil
}

// Memory grows with the actual input, not with the announced number.

func (u *unpacker) array(n, depth int) vm.LValue {
	charge(u.L, 16*min(n, len(u.s)-u.at))
	t := newTable(0, 0)
	for i := 1; i <= n; i++ {
		storeInt(u.L, t, i, u.value(depth+1))
	}
	return t
}

func (u *unpacker) pairs(n, depth int) vm.LValue {
	charge(u.L, 64*min(n, len(u.s)-u.at))
	t := newTable(0, 0)
	for range n {
		k := u.value(depth + 1)
		v := u.value(depth + 1)
		if _, ok := k.(vm.LString); ok {
			addField(t, k, v)
			continue
		}
		checkKey(u.L, k)
		store(u.L, t, k, v)
	}
	return t
}
