package lua

import (
	vm "github.com/yuin/gopher-lua"
)

// Comparisons are implemented here, because those of the virtual machine only call metamethods that are functions, and
// have other error texts.

// comparison returns an instruction that skips the next one if the result of a comparison differs from A.
func comparison(holds func(L *vm.LState, a, b vm.LValue) bool) instruction {
	return func(L *vm.LState, inst uint32, _ *frame) int {
		m := machineOf(L)
		f := m.currentFrame
		if holds(L, m.operand(argB(inst)), m.operand(argC(inst))) != (argA(inst) != 0) {
			f.Pc++
		}
		return 0
	}
}

// equal is a == b. Two tables need the same metamethod.
func equal(L *vm.LState, a, b vm.LValue) bool {
	if x, ok := a.(vm.LNumber); ok {
		y, ok := b.(vm.LNumber)
		return ok && x == y
	}
	if x, ok := a.(vm.LString); ok {
		y, ok := b.(vm.LString)
		return ok && x == y
	}
	if a == b {
		return true
	}
	x, ok1 := a.(*vm.LTable)
	y, ok2 := b.(*vm.LTable)
	if !ok1 || !ok2 || x.Metatable == vm.LNil || y.Metatable == vm.LNil {
		return false
	}
	f := metaField(L, a, "__eq")
	if f == vm.LNil || x.Metatable != y.Metatable && metaField(L, b, "__eq") != f {
		return false
	}
	return vm.LVAsBool(callMeta(L, f, a, b))
}

func lessThan(L *vm.LState, a, b vm.LValue) bool {
	switch x := a.(type) {
	case vm.LNumber:
		if y, ok := b.(vm.LNumber); ok {
			return x < y
		}
	case vm.LString:
		if y, ok := b.(vm.LString); ok {
			return x < y
		}
	default:
		if f := orderMethod(L, a, b, "__lt"); f != vm.LNil {
			return vm.LVAsBool(callMeta(L, f, a, b))
		}
	}
	raiseOrder(L, a, b)
	return false
}

// lessOrEqual is a <= b. Without its own metamethod it is not (b < a).
func lessOrEqual(L *vm.LState, a, b vm.LValue) bool {
	switch x := a.(type) {
	case vm.LNumber:
		if y, ok := b.(vm.LNumber); ok {
			return x <= y
		}
	case vm.LString:
		if y, ok := b.(vm.LString); ok {
			return x <= y
		}
	default:
		if f := orderMethod(L, a, b, "__le"); f != vm.LNil {
			return vm.LVAsBool(callMeta(L, f, a, b))
		}
		if f := orderMethod(L, b, a, "__lt"); f != vm.LNil {
			return !vm.LVAsBool(callMeta(L, f, b, a))
		}
	}
	raiseOrder(L, a, b)
	return false
}

// orderMethod returns the common metamethod of two values, nil if they have none.
func orderMethod(L *vm.LState, a, b vm.LValue, event string) vm.LValue {
	if a.Type() != b.Type() {
		return vm.LNil
	}
	f := metaField(L, a, event)
	if f != metaField(L, b, event) {
		return vm.LNil
	}
	return f
}

// raiseOrder raises the error of an impossible comparison. Lua considers two types equal if the third letters of their
// names are.
func raiseOrder(L *vm.LState, a, b vm.LValue) {
	x, y := a.Type().String(), b.Type().String()
	if x[2] == y[2] {
		raiseAt(L, 0, "attempt to compare two "+x+" values")
	}
	raiseAt(L, 0, "attempt to compare "+x+" with "+y)
}
