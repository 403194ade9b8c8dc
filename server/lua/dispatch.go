package lua

import (
	"math"
	"unsafe"

	vm "github.com/yuin/gopher-lua"
)

// The main loop of the virtual machine. It executes frequent instructions itself if they call no metamethod and raise
// no error; the functions of the instruction table execute all others.

// loop runs the function whose frame is on top until it returns. base is that frame, nil if a coroutine continues.
func (st *state) loop(L *vm.LState, base *frame) {
	m := machineOf(L)
	f := m.currentFrame
	if f.Fn == st.explain || f.Fn == st.handler {
		st.ownLoop(L, base)
		return
	}
	if base == nil { // a coroutine has no error handler
		m.Panic = explainPanic
	}
	if st.calls++; st.calls >= maxNested && base != nil {
		st.nestedTooDeep(L, f)
	}
	if f.Fn.IsG {
		st.ownLoop(L, base)
		st.calls--
		return
	}
	limit := maxFrames - 1 - st.waiting
	for {
		f = m.currentFrame
		if f.Idx >= limit && f.Pc == 0 {
			refuseCall(L, f, textStackOverflow)
		}
		if st.stop != nil && st.poll() {
			st.raiseStop(L)
		}
		inst := st.quick(L, m, f)
		if instructions[inst>>26](L, inst, base) == 1 {
			st.calls--
			return
		}
	}
}

// quick executes instructions of a function up to the first one that it does not handle, and returns that.
func (st *state) quick(L *vm.LState, m *machine, f *frame) (inst uint32) {
	p := f.Fn.Proto
	code, constants, at, reg := p.Code, p.Constants, f.LocalBase, m.reg
	r, pc, ticks := reg.array[at:], f.Pc, st.ticks
run:
	for {
		inst = code[pc]
		pc++
		if ticks++; ticks%pollTicks == 0 {
			if f.Pc, st.ticks = pc, ticks; st.poll() {
				st.raiseStop(L)
			}
		}
		switch int(inst >> 26) {
		case vm.OP_MOVE:
			reg.set(at+argA(inst), r[argB(inst)])
		case vm.OP_LOADK:
			reg.set(at+argA(inst), constants[argBx(inst)])
		case vm.OP_GETUPVAL:
			reg.set(at+argA(inst), f.Fn.Upvalues[argB(inst)].Value())
		case vm.OP_GETGLOBAL:
			name, _ := constants[argBx(inst)].(vm.LString)
			v := st.fieldOf(f.Fn.Env, string(name))
			if v == nil {
				break run
			}
			reg.set(at+argA(inst), v)
		case vm.OP_GETTABLE:
			t, ok := r[argB(inst)].(*vm.LTable)
			if !ok {
				break run
			}
			var v vm.LValue
			switch key := operandIn(r, constants, argC(inst)).(type) {
			case vm.LNumber:
				v = placeOf(t, key)
			case vm.LString:
				v = st.fieldOf(t, string(key))
			}
			if v == nil {
				break run
			}
			reg.set(at+argA(inst), v)
		case vm.OP_GETTABLEKS:
			t, ok := r[argB(inst)].(*vm.LTable)
			name, isName := operandIn(r, constants, argC(inst)).(vm.LString)
			if !ok || !isName {
				break run
			}
			v := st.fieldOf(t, string(name))
			if v == nil {
				break run
			}
			reg.set(at+argA(inst), v)
		case vm.OP_SELF:
			object := r[argB(inst)]
			t, ok := object.(*vm.LTable)
			if _, isString := object.(vm.LString); isString {
				t, ok = st.strings, true
			}
			name, isName := operandIn(r, constants, argC(inst)).(vm.LString)
			if !ok || !isName {
				break run
			}
			v := st.fieldOf(t, string(name))
			if v == nil {
				break run
			}
			reg.set(at+argA(inst), v)
			reg.set(at+argA(inst)+1, object)
		case vm.OP_SETTABLE:
			t, ok := r[argA(inst)].(*vm.LTable)
			key, isNumber := operandIn(r, constants, argB(inst)).(vm.LNumber)
			v := operandIn(r, constants, argC(inst))
			if !ok || !isNumber || !isNil(t.Metatable) || isNil(v) {
				break run
			}
			n := int(key)
			array := contentsOf(t).array
			if vm.LNumber(n) != key || uint(n-1) >= uint(len(array)) {
				break run
			}
			array[n-1] = v
		case vm.OP_ADD:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			v := x + y
			if !ok1 || !ok2 || v != v { // the CPU's sign of NaN depends on the order of the operands
				break run
			}
			reg.set(at+argA(inst), st.number(float64(v)))
		case vm.OP_SUB:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			if !ok1 || !ok2 {
				break run
			}
			reg.set(at+argA(inst), st.number(float64(x-y)))
		case vm.OP_MUL:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			v := x * y
			if !ok1 || !ok2 || v != v { // the CPU's sign of NaN depends on the order of the operands
				break run
			}
			reg.set(at+argA(inst), st.number(float64(v)))
		case vm.OP_DIV:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			if !ok1 || !ok2 {
				break run
			}
			reg.set(at+argA(inst), st.number(float64(x/y)))
		case vm.OP_MOD:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			if !ok1 || !ok2 {
				break run
			}
			reg.set(at+argA(inst), st.number(modulo(float64(x), float64(y))))
		case vm.OP_NOT:
			reg.set(at+argA(inst), vm.LBool(!truth(r[argB(inst)])))
		case vm.OP_JMP:
			pc += argSBx(inst)
		case vm.OP_EQ:
			a, b := operandIn(r, constants, argB(inst)), operandIn(r, constants, argC(inst))
			if _, ok := a.(*vm.LTable); ok {
				break run // a metamethod may exist
			}
			if equal(L, a, b) != (argA(inst) != 0) {
				pc++
			}
		case vm.OP_LT:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			if !ok1 || !ok2 {
				break run
			}
			if (x < y) != (argA(inst) != 0) {
				pc++
			}
		case vm.OP_LE:
			x, ok1 := operandIn(r, constants, argB(inst)).(vm.LNumber)
			y, ok2 := operandIn(r, constants, argC(inst)).(vm.LNumber)
			if !ok1 || !ok2 {
				break run
			}
			if (x <= y) != (argA(inst) != 0) {
				pc++
			}
		case vm.OP_TEST:
			if truth(r[argA(inst)]) == (argC(inst) == 0) {
				pc++
			}
		case vm.OP_TESTSET:
			if v := r[argB(inst)]; truth(v) != (argC(inst) == 0) {
				reg.set(at+argA(inst), v)
			} else {
				pc++
			}
		case vm.OP_FORLOOP:
			a := argA(inst)
			i, ok1 := r[a].(vm.LNumber)
			limit, ok2 := r[a+1].(vm.LNumber)
			step, ok3 := r[a+2].(vm.LNumber)
			i += step
			if !ok1 || !ok2 || !ok3 || !(step > 0 && i <= limit || step <= 0 && i >= limit) {
				break run // the loop ends
			}
			v := st.number(float64(i))
			r[a] = v
			reg.set(at+a+3, v)
			pc += argSBx(inst)
		case vm.OP_TFORLOOP:
			if !st.quickNext(reg, at+argA(inst), argC(inst)) {
				break run
			}
			pc += argSBx(code[pc]) + 1
		default:
			break run
		}
	}
	f.Pc, st.ticks = pc, ticks
	return inst
}

// quickNext executes TFORLOOP of an iteration over pairs or ipairs that does not end: R(A) is the function, followed by
// the table, the key and the variables. It reports whether it did.
func (st *state) quickNext(reg *registers, a, variables int) bool {
	r := reg.array[a:]
	f, ok := r[0].(*vm.LFunction)
	if !ok {
		return false
	}
	t, ok := r[1].(*vm.LTable)
	if !ok {
		return false
	}
	var k, v vm.LValue
	switch f {
	case st.next:
		if k, v, ok = nextKey(real(t), r[2]); !ok || isNil(k) {
			return false
		}
	case st.nextIndex:
		n, ok := r[2].(vm.LNumber)
		i := int(n) + 1
		if array := contentsOf(t).array; !ok || vm.LNumber(i-1) != n || uint(i-1) >= uint(len(array)) || isNil(array[i-1]) {
			return false
		}
		k, v = number(float64(i)), contentsOf(t).array[i-1]
	default:
		return false
	}
	top := a + 3 + variables
	for i := reg.top; i < top; i++ {
		reg.array[i] = vm.LNil
	}
	if top < reg.top {
		clear(reg.array[top:reg.top])
	}
	reg.top = top
	r[2], r[3] = k, k
	if variables > 1 {
		r[4] = v
	}
	for i := 2; i < variables; i++ {
		r[3+i] = vm.LNil
	}
	return true
}

// set sets register n, counted from the first of all.
func (r *registers) set(n int, v vm.LValue) {
	r.array[n] = v
	if n >= r.top {
		r.top = n + 1
	}
}

// operandIn returns the value of a register or a constant.
func operandIn(registers, constants []vm.LValue, rk int) vm.LValue {
	if rk&constantBit != 0 {
		return constants[rk&^constantBit]
	}
	return registers[rk]
}

func isNil(v vm.LValue) bool {
	_, is := v.(*vm.LNilType)
	return is
}

// truth reports whether a value is true in a condition.
func truth(v vm.LValue) bool {
	switch v := v.(type) {
	case vm.LBool:
		return bool(v)
	case *vm.LNilType:
		return false
	}
	return true
}

// placeOf returns t[key] if key has a place in the array, otherwise nil.
func placeOf(t *vm.LTable, key vm.LNumber) vm.LValue {
	n := int(key)
	array := contentsOf(t).array
	if vm.LNumber(n) == key && uint(n-1) < uint(len(array)) && !isNil(array[n-1]) {
		return array[n-1]
	}
	return nil
}

// fieldOf returns t[name], or nil if that needs more than a look-up in the table or in the one behind it, see readOnly.
func (st *state) fieldOf(t *vm.LTable, name string) vm.LValue {
	if t != st.global && t != st.strings {
		if v := contentsOf(t).strdict[name]; v != nil && !isNil(v) {
			return v
		}
		if isNil(t.Metatable) {
			return vm.LNil
		}
		if behind(t) == nil {
			return nil
		}
	}
	// Libraries and globals never change.
	data := unsafe.StringData(name)
	f := &st.found[(uintptr(unsafe.Pointer(data))>>3^uintptr(unsafe.Pointer(t))>>4)%keptFields]
	if f.name == data && f.n == len(name) && f.t == t {
		return f.v
	}
	v := contentsOf(real(t)).strdict[name]
	if v == nil || isNil(v) {
		return nil
	}
	*f = foundField{t, data, len(name), v}
	return v
}

// foundField caches a field of a library or a global by its name. The name is the string in the code, whose address is
// constant, so the bytes need not be compared.
type foundField struct {
	t    *vm.LTable
	name *byte
	n    int
	v    vm.LValue
}

// keptFields is the number of cached fields of a state.
const keptFields = 128

// numberBlock is how many numbers are allocated together. The memory is freed when none of them is in use.
const numberBlock = 32

// lvalue is the layout of an interface.
type lvalue struct{ kind, data unsafe.Pointer }

var numberKind = func() unsafe.Pointer {
	var v vm.LValue = vm.LNumber(0.5)
	return (*lvalue)(unsafe.Pointer(&v)).kind
}()

func (st *state) number(f float64) (v vm.LValue) {
	if i := int(f); uint(i) < uint(len(small)) && float64(i) == f && (i != 0 || !math.Signbit(f)) {
		return small[i]
	}
	if st.numbersUsed == numberBlock {
		st.numbers, st.numbersUsed = new([numberBlock]float64), 0
	}
	p := &st.numbers[st.numbersUsed]
	st.numbersUsed++
	*p = f
	*(*lvalue)(unsafe.Pointer(&v)) = lvalue{numberKind, unsafe.Pointer(p)}
	return v
}
