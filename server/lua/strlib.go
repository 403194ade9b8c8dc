package lua

import (
	"slices"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// maxString is the max length of a string in bytes, like Redis's limit of bulk strings.
const maxString = 512 << 20

func openString(st *state, L *vm.LState) {
	t := st.library(L, "string", map[string]vm.LGFunction{
		"byte": strByte, "char": strChar, "dump": strDump, "format": strFormat, "gfind": strGMatch, "gmatch": strGMatch,
		"gsub": strGSub, "len": strLen, "lower": strLower, "rep": strRep, "reverse": strReverse, "sub": strSub,
		"upper": strUpper,
		"find":  func(L *vm.LState) int { return find(L, true) },
		"match": func(L *vm.LState) int { return find(L, false) },
	}, nil)
	st.strings = t
	mt := newTable(0, 1)
	storeName(mt, "__index", t)
	L.SetMetatable(vm.LString(""), mt)
	shown := newTable(0, 1)
	storeName(shown, "__index", st.global.RawGetString("string"))
	st.stringMeta = st.readOnly(shown)
}

// position converts a position that counts from the end if negative to one from the start.
func position(pos, n int) int {
	if pos < 0 {
		pos += n + 1
	}
	return max(pos, 0)
}

func strLen(L *vm.LState) int { return pushInt(L, len(checkString(L, 1))) }

func strSub(L *vm.LState) int {
	s := checkString(L, 1)
	i := position(checkInt(L, 2), len(s))
	j := position(optInt(L, 3, -1), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return pushString(L, "")
	}
	return pushSub(L, s, i-1, j)
}

// pushSub pushes a part of a string. It copies a small part of a large string, so that the large one can be freed.
func pushSub(L *vm.LState, s string, i, j int) int {
	return push(L, substring(L, s, i, j))
}

func substring(L *vm.LState, s string, i, j int) vm.LString {
	part := s[i:j]
	if len(s) > 256 && len(part) < len(s)/2 {
		charge(L, len(part))
		part = strings.Clone(part)
	}
	return vm.LString(part)
}

func mapBytes(L *vm.LState, s string, f func(byte) byte) int {
	charge(L, len(s))
	b := make([]byte, len(s))
	for i := range b {
		b[i] = f(s[i])
	}
	return pushString(L, string(b))
}

func strLower(L *vm.LState) int {
	return mapBytes(L, checkString(L, 1), func(c byte) byte {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	})
}

func strUpper(L *vm.LState) int {
	return mapBytes(L, checkString(L, 1), func(c byte) byte {
		if c >= 'a' && c <= 'z' {
			return c - ('a' - 'A')
		}
		return c
	})
}

func strReverse(L *vm.LState) int {
	s := checkString(L, 1)
	charge(L, len(s))
	b := []byte(s)
	slices.Reverse(b)
	return pushString(L, string(b))
}

func strRep(L *vm.LState) int {
	s := checkString(L, 1)
	n := checkInt32(L, 2)
	if n <= 0 || s == "" {
		return pushString(L, "")
	}
	if len(s) > maxString/n {
		outOfMemory(L)
	}
	charge(L, len(s)*n)
	return pushString(L, strings.Repeat(s, n))
}

func strByte(L *vm.LState) int {
	s := checkString(L, 1)
	i := position(optInt(L, 2, 1), len(s))
	j := position(optInt(L, 3, i), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return 0
	}
	if n := j - i + 1; L.GetTop()+n > maxStack {
		raise(L, "stack overflow (string slice too long)")
	}
	for n := i; n <= j; n++ {
		L.Push(vm.LNumber(s[n-1]))
	}
	return j - i + 1
}

func strChar(L *vm.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		c := checkInt32(L, i+1)
		if c < 0 || c > 255 {
			argError(L, i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	return pushString(L, string(b))
}

// strDump is string.dump. Functions have no binary form here, and none would be accepted: it raises an error for every
// function, as Lua does for library functions.
func strDump(L *vm.LState) int {
	checkFunction(L, 1)
	raise(L, "unable to dump given function")
	return 0
}
