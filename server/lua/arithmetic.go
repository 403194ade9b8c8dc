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

// Of arithmetic on two numbers, these functions only handle the cases of 0.

func add(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	b, c := m.operand(argB(inst)), m.operand(argC(inst))
	x, ok1 := b.(vm.LNumber)
	y, ok2 := c.(vm.LNumber)
	if !ok1 || !ok2 {
		return arithmetic(L, inst, b, c, "__add", func(x, y float64) float64 { return x + y })
	}
	if x+y == 0 {
		m.setRegister(argA(inst), number(float64(x+y)))
		return 0
	}
	return jumpTable[vm.OP_ADD](L, inst, base)
}

func sub(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	b, c := m.operand(argB(inst)), m.operand(argC(inst))
	x, ok1 := b.(vm.LNumber)
	y, ok2 := c.(vm.LNumber)
	if !ok1 || !ok2 {
		return arithmetic(L, inst, b, c, "__sub", func(x, y float64) float64 { return x - y })
	}
	if x-y == 0 {
		m.setRegister(argA(inst), number(float64(x-y)))
		return 0
	}
	return jumpTable[vm.OP_SUB](L, inst, base)
}

func mul(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	b, c := m.operand(argB(inst)), m.operand(argC(inst))
	x, ok1 := b.(vm.LNumber)
	y, ok2 := c.(vm.LNumber)
	if !ok1 || !ok2 {
		return arithmetic(L, inst, b, c, "__mul", func(x, y float64) float64 { return x * y })
	}
	if x*y == 0 {
		m.setRegister(argA(inst), number(float64(x*y)))
		return 0
	}
	return jumpTable[vm.OP_MUL](L, inst, base)
}

func div(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	b, c := m.operand(argB(inst)), m.operand(argC(inst))
	x, ok1 := b.(vm.LNumber)
	y, ok2 := c.(vm.LNumber)
	if !ok1 || !ok2 {
		return arithmetic(L, inst, b, c, "__div", func(x, y float64) float64 { return x / y })
	}
	if x/y == 0 {
		m.setRegister(argA(inst), number(float64(x/y)))
		return 0
	}
	return jumpTable[vm.OP_DIV](L, inst, base)
}

func mod(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	b, c := m.operand(argB(inst)), m.operand(argC(inst))
	x, ok1 := b.(vm.LNumber)
	y, ok2 := c.(vm.LNumber)
	if !ok1 || !ok2 {
		return arithmetic(L, inst, b, c, "__mod", modulo)
	}
	m.setRegister(argA(inst), number(modulo(float64(x), float64(y))))
	return 0
}

// modulo is Lua 5.1's %, which is not exact: 1 % 0.1 is 0.
func modulo(x, y float64) float64 {
	product := math.Floor(x/y) * y // a separate statement, so that it is rounded
	return x - float64(product)
}

func pow(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	b, c := m.operand(argB(inst)), m.operand(argC(inst))
	x, ok1 := b.(vm.LNumber)
	y, ok2 := c.(vm.LNumber)
	if !ok1 || !ok2 {
		return arithmetic(L, inst, b, c, "__pow", libm.Pow)
	}
	m.setRegister(argA(inst), number(libm.Pow(float64(x), float64(y))))
	return 0
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

// arithmetic applies an operator to operands that are not both numbers: strings that are numbers are converted.
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
		text := "a " + typ + " value"
		if s, ok := siteOf(L, 0); ok {
			text = s.operand(bad, typ)
		}
		raiseAt(L, 0, "attempt to perform arithmetic on "+text)
	}
	m.setRegister(argA(inst), callMeta(L, f, b, c))
	return 0
}
