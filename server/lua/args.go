package lua

import (
	"math"

	vm "github.com/yuin/gopher-lua"
)

// The functions here read arguments like the auxiliary library of Lua 5.1: numbers and strings are converted into each
// other.

func isNone(L *vm.LState, n int) bool { return n > L.GetTop() }

func isNoneOrNil(L *vm.LState, n int) bool { return L.Get(n) == vm.LNil }

func toString(v vm.LValue) (string, bool) {
	switch v := v.(type) {
	case vm.LString:
		return string(v), true
	case vm.LNumber:
		return string(appendNumber(nil, float64(v))), true
	}
	return "", false
}

func toNumber(v vm.LValue) (float64, bool) {
	switch v := v.(type) {
	case vm.LNumber:
		return float64(v), true
	case vm.LString:
		return parseNumber(string(v))
	}
	return 0, false
}

func checkAny(L *vm.LState, n int) vm.LValue {
	if isNone(L, n) {
		argError(L, n, "value expected")
	}
	return L.Get(n)
}

func checkString(L *vm.LState, n int) string {
	s, ok := toString(L.Get(n))
	if !ok {
		argTypeError(L, n, "string")
	}
	return s
}

func checkNumber(L *vm.LState, n int) float64 {
	f, ok := toNumber(L.Get(n))
	if !ok {
		argTypeError(L, n, "number")
	}
	return f
}

// cInt converts a double to a 64-bit integer as a C compiler for x86-64 does: a value out of range gives the least
// integer.
func cInt(f float64) int {
	if f >= -9.2233720368547758e18 && f < 9.2233720368547758e18 {
		return int(f)
	}
	return math.MinInt64
}

// cInt32 is cInt for a 32-bit integer.
func cInt32(f float64) int {
	if f > math.MinInt32-1 && f < math.MaxInt32+1 {
		return int(f)
	}
	return math.MinInt32
}

func checkInt(L *vm.LState, n int) int { return cInt(checkNumber(L, n)) }

// checkInt32 reads an argument that is an int in C.
func checkInt32(L *vm.LState, n int) int { return int(int32(checkInt(L, n))) }

func optInt(L *vm.LState, n, otherwise int) int {
	if isNoneOrNil(L, n) {
		return otherwise
	}
	return checkInt(L, n)
}

func optInt32(L *vm.LState, n, otherwise int) int { return int(int32(optInt(L, n, otherwise))) }

func optString(L *vm.LState, n int, otherwise string) string {
	if isNoneOrNil(L, n) {
		return otherwise
	}
	return checkString(L, n)
}

func checkTable(L *vm.LState, n int) *vm.LTable {
	t, ok := L.Get(n).(*vm.LTable)
	if !ok {
		argTypeError(L, n, "table")
	}
	return t
}

func checkFunction(L *vm.LState, n int) *vm.LFunction {
	f, ok := L.Get(n).(*vm.LFunction)
	if !ok {
		argTypeError(L, n, "function")
	}
	return f
}

// push pushes the results of a function and returns their number.
func push(L *vm.LState, values ...vm.LValue) int {
	for _, v := range values {
		L.Push(v)
	}
	return len(values)
}

func pushString(L *vm.LState, s string) int { return push(L, vm.LString(s)) }

// pushBytes pushes a copy of b and charges its memory.
func pushBytes(L *vm.LState, b []byte) int {
	charge(L, len(b))
	return push(L, vm.LString(b))
}

// output is a string that a function makes. Its memory is charged as it grows.
type output struct {
	L       *vm.LState
	b       []byte
	charged int
}

func (o *output) account() {
	charge(o.L, len(o.b)-o.charged)
	if o.charged = len(o.b); o.charged > maxString {
		outOfMemory(o.L)
	}
}

// grown accounts for each 64 KiB.
func (o *output) grown() {
	if len(o.b)-o.charged > 64<<10 {
		o.account()
	}
}

func (o *output) push() int {
	o.account()
	return pushString(o.L, string(o.b))
}

func pushNumber(L *vm.LState, f float64) int { return push(L, vm.LNumber(f)) }

func pushInt(L *vm.LState, n int) int { return pushNumber(L, float64(n)) }

// call calls a function and returns its first result.
func call(L *vm.LState, f vm.LValue, args ...vm.LValue) vm.LValue {
	L.Push(f)
	L.Call(push(L, args...), 1)
	result := L.Get(-1)
	L.Pop(1)
	return result
}
