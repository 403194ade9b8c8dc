package lua

import (
	_ "unsafe" // for go:linkname

	"github.com/basaltdb/basalt/server/lua/luac"

	vm "github.com/yuin/gopher-lua"
)

// This file replaces the virtual machine's loop and some of its instructions, which differ from Lua 5.1 or do not limit
// their resources. The other instructions are the virtual machine's own.

// instruction executes one instruction of the running function. It returns 1 if the loop must end.
type instruction func(L *vm.LState, inst uint32, base *frame) int

// jumpTable is what the virtual machine's own loop uses.
//
//go:linkname jumpTable github.com/yuin/gopher-lua.jumpTable
var jumpTable [vm.OP_NOP + 1]instruction

var instructions [64]instruction

func init() {
	if jumpTable[vm.OP_MOVE] == nil || jumpTable[vm.OP_NOP] == nil {
		panic("lua: the virtual machine has no table of instructions")
	}
	copy(instructions[:], jumpTable[:])
	for op, f := range map[int]instruction{
		vm.OP_NEWTABLE: makeTable, vm.OP_GETGLOBAL: getGlobal, vm.OP_GETTABLE: getTable, vm.OP_GETTABLEKS: getTable,
		vm.OP_SELF: self, vm.OP_SETTABLE: setTable, vm.OP_SETTABLEKS: setName,
		vm.OP_SETGLOBAL: setGlobal, vm.OP_SETLIST: setList, vm.OP_LEN: length, vm.OP_CONCAT: concat, vm.OP_ADD: add,
		vm.OP_SUB: sub, vm.OP_MUL: mul, vm.OP_DIV: div, vm.OP_MOD: mod, vm.OP_POW: pow, vm.OP_UNM: unm,
		vm.OP_FORPREP: forPrep, vm.OP_EQ: comparison(equal), vm.OP_LT: comparison(lessThan),
		vm.OP_LE: comparison(lessOrEqual), vm.OP_TAILCALL: tailCall, vm.OP_VARARG: varArg,
	} {
		instructions[op] = f
	}
}

const (
	maxFrames = 20000 // nested calls, as in Lua 5.1
	// maxNested limits nested calls made by library functions and instructions, and nested coroutines.
	maxNested = 200
	// spareNested is the additional number of nested calls for error handlers.
	spareNested = maxNested / 8
)

// attach lets a thread run with a state.
func (st *state) attach(L *vm.LState) {
	L.SetContext(st)
	m := machineOf(L)
	if st.ownLoop == nil {
		st.ownLoop = m.mainLoop
	}
	m.mainLoop = st.loop
}

const textStackOverflow = "stack overflow"

func (st *state) nestedTooDeep(L *vm.LState, f *frame) {
	switch {
	case st.calls == maxNested:
		refuseCall(L, f, textNested)
	case st.calls >= maxNested+spareNested:
		f.Fn = refused
		L.Error(vm.LString(textErrorInHandler), 0)
	}
}

// refused replaces a called function that must not run.
var refused = &vm.LFunction{IsG: true}

// refuseCall raises an error at the call of the function whose frame is on top.
func refuseCall(L *vm.LState, f *frame, text string) {
	f.Fn = refused
	L.Error(vm.LString(sourceLine(f.Parent)+text), 0)
}

// register returns register n of the running function.
func (m *machine) register(n int) vm.LValue { return m.reg.array[m.currentFrame.LocalBase+n] }

// operand returns the value of a register or a constant.
func (m *machine) operand(rk int) vm.LValue {
	if rk&constantBit != 0 {
		return m.currentFrame.Fn.Proto.Constants[rk&^constantBit]
	}
	return m.reg.array[m.currentFrame.LocalBase+rk]
}

func (m *machine) setRegister(n int, v vm.LValue) {
	r := m.reg
	n += m.currentFrame.LocalBase
	r.array[n] = v
	if n >= r.top {
		r.top = n + 1
	}
}

// callMeta calls a metamethod and returns its result.
func callMeta(L *vm.LState, f vm.LValue, args ...vm.LValue) vm.LValue {
	if f.Type() != vm.LTFunction && metaField(L, f, "__call").Type() != vm.LTFunction {
		raiseAt(L, 0, "attempt to call a "+f.Type().String()+" value")
	}
	return call(L, f, args...)
}

// makeTable is R(A) = {} with capacity for B array elements and C other keys.
func makeTable(L *vm.LState, inst uint32, _ *frame) int {
	machineOf(L).setRegister(argA(inst), newTable(codedSize(argB(inst)), codedSize(argC(inst))))
	return 0
}

// getTable is R(A) = R(B)[RK(C)].
func getTable(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	t, ok := m.register(argB(inst)).(*vm.LTable)
	if !ok {
		return jumpTable[vm.OP_GETTABLE](L, inst, base)
	}
	m.setRegister(argA(inst), index(L, t, m.operand(argC(inst))))
	return 0
}

// getGlobal is R(A) = G[K(Bx)], where G is the table of globals of the function.
func getGlobal(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	f := m.currentFrame.Fn
	m.setRegister(argA(inst), index(L, f.Env, f.Proto.Constants[argBx(inst)]))
	return 0
}

// self is R(A+1) = R(B) and R(A) = R(B)[RK(C)].
func self(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	object := m.register(argB(inst))
	getTable(L, inst, base)
	m.setRegister(argA(inst)+1, object)
	return 0
}

// index is t[key].
func index(L *vm.LState, t *vm.LTable, key vm.LValue) vm.LValue {
	var object vm.LValue = t
	for range vm.MaxTableGetLoop {
		t, isTable := object.(*vm.LTable)
		if isTable {
			if v := rawGet(t, key); v != vm.LNil || t.Metatable == vm.LNil {
				return v
			}
		}
		from := metaField(L, object, "__index")
		switch {
		case from.Type() == vm.LTFunction:
			return callMeta(L, from, object, key)
		case from != vm.LNil:
		case isTable:
			return vm.LNil
		default:
			raiseAt(L, 0, "attempt to index a "+object.Type().String()+" value")
		}
		object = from
	}
	raiseAt(L, 0, "loop in gettable")
	return nil
}

// setTable is R(A)[RK(B)] = RK(C).
func setTable(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	object, key, value := m.register(argA(inst)), m.operand(argB(inst)), m.operand(argC(inst))
	if t, ok := object.(*vm.LTable); ok && t.Metatable == vm.LNil {
		if n, ok := arrayIndex(key); ok {
			setIndex(L, t, n, value)
			return 0
		}
		checkKey(L, key)
		setKey(L, contentsOf(t), key, value)
		return 0
	}
	setField(L, object, key, value, argA(inst))
	return 0
}

// setName is R(A)[RK(B)] = RK(C) with a string as key.
func setName(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	t, ok := m.register(argA(inst)).(*vm.LTable)
	if !ok || t.Metatable != vm.LNil {
		return setTable(L, inst, base)
	}
	key, value := m.operand(argB(inst)), m.operand(argC(inst))
	if name, ok := key.(vm.LString); ok && value != vm.LNil {
		if names := contentsOf(t).strdict; names != nil {
			if _, ok := names[string(name)]; ok {
				names[string(name)] = value
				return 0
			}
		}
	}
	setKey(L, contentsOf(t), key, value)
	return 0
}

// setGlobal is G[K(Bx)] = R(A), where G is the table of globals of the function.
func setGlobal(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	f := m.currentFrame.Fn
	setField(L, f.Env, f.Proto.Constants[argBx(inst)], m.register(argA(inst)), -1)
	return 0
}

// checkKey raises an error for an invalid key.
func checkKey(L *vm.LState, key vm.LValue) {
	switch k := key.(type) {
	case *vm.LNilType:
		raiseAt(L, 0, "table index is nil")
	case vm.LNumber:
		if k != k {
			raiseAt(L, 0, "table index is NaN")
		}
	}
}

// setField is object[key] = value with metamethods. register is that of the object; -1 if the object is a table.
func setField(L *vm.LState, object, key, value vm.LValue, register int) {
	for i := range vm.MaxTableGetLoop {
		t, isTable := object.(*vm.LTable)
		if isTable {
			if isReadOnly(t) {
				raiseAt(L, 0, textReadOnly)
			}
			checkKey(L, key)
			if rawGet(t, key) != vm.LNil {
				store(L, t, key, value)
				return
			}
		}
		to := metaField(L, object, "__newindex")
		if to == vm.LNil {
			if isTable {
				store(L, t, key, value)
				return
			}
			if typ := object.Type().String(); i == 0 {
				raiseAt(L, 0, "attempt to index "+operandText(L, register, typ))
			} else {
				raiseAt(L, 0, "attempt to index a "+typ+" value")
			}
		}
		if to.Type() == vm.LTFunction {
			L.Push(to)
			L.Call(push(L, object, key, value), 0)
			return
		}
		object = to
	}
	raiseAt(L, 0, "loop in settable")
}

// setList is R(A)[(C-1)*50+i] = R(A+i) for i from 1 to B; B 0 = all remaining values, C 0 = C is the next instruction.
func setList(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	f := m.currentFrame
	a, n, group := f.LocalBase+argA(inst), argB(inst), argC(inst)
	if n == 0 {
		n = m.reg.top - a - 1
	}
	if group == 0 { // it is too large for the instruction
		group = int(f.Fn.Proto.Code[f.Pc])
		f.Pc++
	}
	appendList(L, m.reg.array[a].(*vm.LTable), (group-1)*luac.PerFlush, m.reg.array[a+1:a+1+n])
	return 0
}

// length is R(A) = #RK(B). Tables have no metamethod for it.
func length(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	switch v := m.operand(argB(inst)).(type) {
	case *vm.LTable:
		m.setRegister(argA(inst), number(float64(border(real(v)))))
	case vm.LString:
		m.setRegister(argA(inst), number(float64(len(v))))
	default:
		f := metaField(L, v, "__len")
		if f == vm.LNil {
			raiseAt(L, 0, "attempt to get length of "+operandText(L, argB(inst), v.Type().String()))
		}
		m.setRegister(argA(inst), callMeta(L, f, v, vm.LNil))
	}
	return 0
}

// concat is R(A) = R(B) .. ... .. R(C), from right to left.
func concat(L *vm.LState, inst uint32, _ *frame) int {
	m := machineOf(L)
	from, to := m.currentFrame.LocalBase+argB(inst), m.currentFrame.LocalBase+argC(inst)
	v, bad := join(L, m.reg.array[from:to+1:to+1])
	if bad >= 0 {
		// what the register holds, or what a metamethod has put in its place
		text := "a " + v.Type().String() + " value"
		s, _ := siteOf(L, 0)
		if kind, name := s.name(argB(inst)+bad, s.pc); kind != "" {
			text = kind + " '" + name + "' (" + text + ")"
		}
		raiseAt(L, 0, "attempt to concatenate "+text)
	}
	m.setRegister(argA(inst), v)
	return 0
}

// tailCall is return R(A)(R(A+1), ... ,R(A+B-1)). A library function is called like any other, by a function that keeps
// its frame and returns the results with the next instruction: yield returns to that frame.
func tailCall(L *vm.LState, inst uint32, base *frame) int {
	f := machineOf(L).register(argA(inst))
	if _, ok := f.(*vm.LFunction); !ok {
		f = metaField(L, f, "__call")
	}
	if f, ok := f.(*vm.LFunction); ok && f.IsG {
		const results = 0x1ff << 9 // C; 0 = all
		return jumpTable[vm.OP_CALL](L, inst&^results, base)
	}
	return jumpTable[vm.OP_TAILCALL](L, inst, base)
}

// varArg is R(A), R(A+1), ..., R(A+B-2) = ...; B 0 = all values. The virtual machine's own drops the registers above,
// among them those of variables.
func varArg(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	f := m.currentFrame
	for i := range argB(inst) - 1 {
		v := vm.LValue(vm.LNil)
		if n := int(f.Fn.Proto.NumParameters) + i; n < f.NArgs {
			v = m.reg.array[f.Base+1+n]
		}
		m.setRegister(argA(inst)+i, v)
	}
	if argB(inst) == 0 {
		return jumpTable[vm.OP_VARARG](L, inst, base)
	}
	return 0
}

// forPrep starts a numeric loop from R(A) to R(A+1) in steps of R(A+2). Strings that are numbers are converted.
func forPrep(L *vm.LState, inst uint32, base *frame) int {
	m := machineOf(L)
	a := argA(inst)
	for i, what := range []string{"initial value", "limit", "step"} {
		v := m.register(a + i)
		if _, ok := v.(vm.LNumber); ok {
			continue
		}
		f, ok := toNumber(v)
		if !ok {
			raiseAt(L, 0, "'for' "+what+" must be a number")
		}
		m.setRegister(a+i, number(f))
	}
	return jumpTable[vm.OP_FORPREP](L, inst, base)
}
