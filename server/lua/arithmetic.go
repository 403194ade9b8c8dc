package lua

import (
	"math"

	"github.com/basaltdb/basalt/internal/libm"

	vm "github.com/yuin/gopher-lua"
)

// small holds the numbers that need no allocation.
var small = func() (list [256]vm.LValue) {
	for i := range list {
		list[i] = vm.LNumber(i)
	}
	return list
}()

func number(f float64) vm.LValue {
	if i := int(f); uint(i) < uint(len(small)) && float64(i) == f && (i != 0 || !math.Signbit(f)) {
		return small[i]
	}
	return vm.LNumber(f)
}

// quick works on two numbers itself, except in pow and where a sum or a product is NaN.

var (
	add = ownNaN("__add", func(x, y float64) float64 { return x + y })
	sub = operation("__sub", func(x, y float64) float64 { return x - y })
	mul = ownNaN("__mul", func(x, y float64) float64 { return x * y })
	div = operation("__div", func(x, y float64) float64 { return x / y })
	mod = operation("__mod", modulo)
	pow = operation("__pow", libm.Pow)
)

// operation returns the instruction of an operator on R(B) and R(C), which may be constants.
func operation(event string, op func(x, y float64) float64) instruction {
	return func(L *vm.LState, inst uint32, _ *frame) int {
		m := machineOf(L)
		return arithmetic(L, inst, m.operand(argB(inst)), m.operand(argC(inst)), event, op)
	}
}

// ownNaN is operation, but leaves two numbers, whose result is NaN, to the virtual machine's own instruction.
func ownNaN(event string, op func(x, y float64) float64) instruction {
	other := operation(event, op)
	return func(L *vm.LState, inst uint32, base *frame) int {
		m := machineOf(L)
		_, ok1 := m.operand(argB(inst)).(vm.LNumber)
		_, ok2 := m.operand(argC(inst)).(vm.LNumber)
		if ok1 && ok2 {
			return jumpTable[inst>>26](L, inst, base)
		}
		return other(L, inst, base)
	}
}

// modulo is Lua 5.1's %, which is not exact: 1 % 0.1 is 0.
func modulo(x, y float64) float64 {
	product := math.Floor(x/y) * y // a separate statement, so that it is rounded
	return x - float64(product)
}

// unm is R(A) = -R(B).
func unm(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	v := m.operand(argB(inst))
	if x, ok := v.(vm.LNumber); ok {
		m.setRegister(argA(inst), number(float64(-x)))
		return 0
	}
	return arithmetic(L, inst, v, v, "__unm", func(x, _ float64) float64 { return -x })
}

// arithmetic applies an operator to two operands: strings that are numbers are converted.
func arithmetic(L *vm.LState, inst uint32, b, c vm.LValue, event string, op func(x, y float64) float64) int {
	m := machineOf(L)
	x, ok1 := toNumber(b)
	y, ok2 := toNumber(c)
	if ok1 && ok2 {
		m.setRegister(argA(inst), number(op(x, y)))
		return 0
	}
	f := metaField(L, b, event)
	if f == vm.LNil {
		f = metaField(L, c, event)
	}
	if f == vm.LNil {
		bad, typ := argB(inst), b.Type().String()
		if ok1 {
			bad, typ = argC(inst), c.Type().String()
		}
		raiseAt(L, 0, "attempt to perform arithmetic on "+operandText(L, bad, typ))
	}
	m.setRegister(argA(inst), callMeta(L, f, b, c))
	return 0
}
