package lua

import (
	"reflect"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// Lua 5.1 says in an error how the program calls a wrong operand: "attempt to index local 'x' (a nil value)". The virtual
// machine does not, but the code tells: the instruction that failed names the register, and the one that has set the
// register the variable or the field.

// site is a function that was running when an error was raised, and where.
type site struct {
	L     *vm.LState
	debug *vm.Debug
	proto *vm.FunctionProto
	pc    int // of the instruction
}

// siteOf returns the site of a level of the stack; ok=false when no code of a script is there.
func siteOf(L *vm.LState, level int) (s site, ok bool) {
	d, ok := L.GetStack(level)
	if !ok {
		return s, false
	}
	v, err := L.GetInfo("f", d, vm.LNil)
	if err != nil {
		return s, false
	}
	f, ok := v.(*vm.LFunction)
	if !ok || f.IsG {
		return s, false
	}
	// The library tells the line, but not the instruction.
	frame := reflect.ValueOf(d).Elem().FieldByName("frame")
	if !frame.IsValid() || frame.Kind() != reflect.Pointer || frame.IsNil() {
		return s, false
	}
	pc := frame.Elem().FieldByName("Pc")
	if !pc.IsValid() || !pc.CanInt() {
		return s, false
	}
	s = site{L: L, debug: d, proto: f.Proto, pc: int(pc.Int()) - 1}
	return s, s.pc >= 0 && s.pc < len(f.Proto.Code)
}

// constantBit marks those operands B and C that are constants.
const constantBit = 1 << 8

// value returns what a register or a constant holds.
func (s site) value(rk int) vm.LValue {
	if rk&constantBit != 0 {
		return s.proto.Constants[rk&^constantBit]
	}
	if _, v := s.L.GetLocal(s.debug, rk+1); v != nil {
		return v
	}
	return vm.LNil
}

// operand returns "kind 'name' (a TYPE value)" of a register, or "a TYPE value" when it has no name, or does not hold a value
// of that type: then the value came from a metatable.
func (s site) operand(rk int, typ string) string {
	if rk&constantBit == 0 && s.value(rk).Type().String() == typ {
		if kind, name := s.name(rk, s.pc); kind != "" {
			return kind + " '" + name + "' (a " + typ + " value)"
		}
	}
	return "a " + typ + " value"
}

// name returns how the program calls what is in a register before an instruction.
func (s site) name(reg, pc int) (kind, name string) {
	set := s.setter(reg, pc)
	if name := s.local(reg, pc, set); name != "" {
		return "local", name
	}
	if set < 0 {
		return "", ""
	}
	inst := s.proto.Code[set]
	constant := func(n int) string {
		text, _ := s.proto.Constants[n].(vm.LString)
		return string(text)
	}
	switch opcode(inst) {
	case vm.OP_GETGLOBAL:
		return "global", constant(argBx(inst))
	case vm.OP_MOVE, vm.OP_MOVEN:
		if argB(inst) < argA(inst) {
			return s.name(argB(inst), set)
		}
	case vm.OP_GETUPVAL:
		if n := argB(inst); n < len(s.proto.DbgUpvalues) {
			return "upvalue", s.proto.DbgUpvalues[n]
		}
	case vm.OP_GETTABLE, vm.OP_GETTABLEKS:
		return "field", s.key(argC(inst))
	case vm.OP_SELF:
		if reg == argA(inst) {
			return "method", s.key(argC(inst))
		}
	}
	return "", ""
}

// key returns a key that is a constant text, as Lua shows it.
func (s site) key(rk int) string {
	if rk&constantBit != 0 {
		if text, ok := s.proto.Constants[rk&^constantBit].(vm.LString); ok {
			return string(text)
		}
	}
	return "?"
}

// setter returns the last instruction before pc that sets a register, -1 when there is none: it is a parameter.
func (s site) setter(reg, pc int) int {
	last := -1
	code := s.proto.Code
	for i := 0; i < pc; i++ {
		inst := code[i]
		first, end := argA(inst), argA(inst)
		switch opcode(inst) {
		case vm.OP_JMP:
			if to := i + 1 + argSBx(inst); to > i && to <= pc {
				i = to - 1 // what is passed over was not run on the way to pc
			}
			continue
		case vm.OP_SETGLOBAL, vm.OP_SETUPVAL, vm.OP_SETTABLE, vm.OP_SETTABLEKS, vm.OP_EQ, vm.OP_LT, vm.OP_LE, vm.OP_TEST,
			vm.OP_RETURN, vm.OP_SETLIST, vm.OP_CLOSE, vm.OP_NOP:
			continue
		case vm.OP_LOADNIL:
			end = argB(inst)
		case vm.OP_SELF:
			end++
		case vm.OP_CALL, vm.OP_TAILCALL, vm.OP_VARARG:
			end = 255 // all that follow
		case vm.OP_FORLOOP, vm.OP_FORPREP:
			end += 3
		case vm.OP_TFORLOOP:
			first, end = first+2, 255
		case vm.OP_CLOSURE:
			if reg == first {
				last = i
			}
			i += int(s.proto.FunctionPrototypes[argBx(inst)].NumUpvalues) // not instructions, but what it captures
			continue
		}
		if reg >= first && reg <= end {
			last = i
		}
	}
	return last
}

// local returns the name of the local variable in a register, "" when there is none. set is the setter of the register. A
// variable that was assigned to since its scope began may not be found when others share its register: it cannot be told
// from an intermediate value then.
func (s site) local(reg, pc, set int) (name string) {
	locals := s.proto.DbgLocals
	n := 0 // variables in that register
	var found *vm.DbgLocalInfo
	for i := 0; i < len(locals); {
		start, end := locals[i].StartPc, i
		for end < len(locals) && locals[end].StartPc == start {
			end++
		}
		group := locals[i:end]
		i = end
		if start > pc {
			break
		}
		at, ok := s.firstRegister(start, len(group))
		if !ok || reg < at || reg >= at+len(group) {
			continue
		}
		name = ""
		n, found = n+1, group[reg-at]
		isFunction := set == start && opcode(s.proto.Code[set]) == vm.OP_CLOSURE
		if set < start || isFunction {
			name = found.Name
		}
	}
	// The library notes the end of a scope under the register, not under the variable. So it is known of a variable that is
	// the only one ever in its register, and stands at that place in the list.
	if n == 1 && name == "" && reg < len(locals) && locals[reg] == found && pc <= found.EndPc {
		name = found.Name
	}
	if strings.HasPrefix(name, "(") || strings.HasPrefix(name, "\x00") {
		return ""
	}
	return name
}

// firstRegister returns the register of the first of n variables whose scope begins at an instruction: the one before, that
// has given the last of them its value, tells.
func (s site) firstRegister(start, n int) (reg int, ok bool) {
	if start <= 0 {
		return 0, true
	}
	inst := s.proto.Code[start-1]
	last := argA(inst)
	switch opcode(inst) {
	case vm.OP_FORPREP: // the variable of the loop
		return argA(inst) + 3, n == 1
	case vm.OP_JMP: // to the instruction that gives the variables of a loop their values
		if to := start + argSBx(inst); to > 0 && to < len(s.proto.Code) && opcode(s.proto.Code[to]) == vm.OP_TFORLOOP {
			return argA(s.proto.Code[to]) + 3, true
		}
		return 0, false
	case vm.OP_SETGLOBAL, vm.OP_SETUPVAL, vm.OP_SETTABLE, vm.OP_SETTABLEKS, vm.OP_EQ, vm.OP_LT, vm.OP_LE, vm.OP_TEST,
		vm.OP_RETURN, vm.OP_SETLIST, vm.OP_CLOSE, vm.OP_NOP, vm.OP_FORLOOP, vm.OP_TFORLOOP, vm.OP_TAILCALL:
		return 0, false
	case vm.OP_LOADNIL:
		last = argB(inst)
	case vm.OP_CALL:
		last += argC(inst) - 2
	case vm.OP_VARARG:
		last += argB(inst) - 2
	}
	if start < len(s.proto.Code) && n > 1 { // a local function is in scope before it is made
		if next := s.proto.Code[start]; opcode(next) == vm.OP_CLOSURE && argA(next) == last+1 {
			last++
		}
	}
	return last - n + 1, last-n+1 >= 0
}

// failure words the error of the instruction as Lua 5.1 does; "" when the message of the virtual machine does not fit it.
func (s site) failure(text string) string {
	inst := s.proto.Code[s.pc]
	a, b, c := argA(inst), argB(inst), argC(inst)
	if rest, ok := strings.CutPrefix(text, "attempt to index a non-table object("); ok {
		typ, _, _ := strings.Cut(rest, ")")
		switch opcode(inst) {
		case vm.OP_GETTABLE, vm.OP_GETTABLEKS, vm.OP_SELF:
			return "attempt to index " + s.operand(b, typ)
		case vm.OP_SETTABLE, vm.OP_SETTABLEKS:
			return "attempt to index " + s.operand(a, typ)
		}
		return ""
	}
	switch {
	case text == "attempt to call a non-function object":
		switch opcode(inst) {
		case vm.OP_CALL, vm.OP_TAILCALL:
			return "attempt to call " + s.operand(a, s.value(a).Type().String())
		case vm.OP_TFORLOOP:
			return "attempt to call a " + s.value(a).Type().String() + " value"
		}
	case strings.HasPrefix(text, "cannot perform "):
		switch opcode(inst) {
		case vm.OP_ADD, vm.OP_SUB, vm.OP_MUL, vm.OP_DIV, vm.OP_MOD, vm.OP_POW:
			bad := b
			if _, ok := toNumber(s.value(b)); ok {
				bad = c
			}
			return "attempt to perform arithmetic on " + s.operand(bad, s.value(bad).Type().String())
		}
	case text == "__unm undefined" && opcode(inst) == vm.OP_UNM:
		return "attempt to perform arithmetic on " + s.operand(b, s.value(b).Type().String())
	case text == "__len undefined" && opcode(inst) == vm.OP_LEN:
		return "attempt to get length of " + s.operand(b, s.value(b).Type().String())
	}
	return ""
}

// callOperand describes argument n of the operator that is running, which stands for an instruction.
func callOperand(L *vm.LState, n int) string {
	typ := L.Get(n).Type().String()
	s, ok := siteOf(L, 1)
	if !ok || !isCall(s.proto.Code[s.pc]) {
		return "a " + typ + " value"
	}
	kind, name := s.name(argA(s.proto.Code[s.pc])+n, s.pc)
	if kind == "" {
		return "a " + typ + " value"
	}
	return kind + " '" + name + "' (a " + typ + " value)"
}

// explain words an error as Lua 5.1 does, where it was raised: at a level of the stack.
func explain(L *vm.LState, v vm.LValue, level int) vm.LValue {
	text, ok := v.(vm.LString)
	if !ok {
		return v
	}
	s, ok := siteOf(L, level)
	if !ok {
		return translate(v)
	}
	if at, message, found := strings.Cut(string(text), ": "); found {
		if better := s.failure(message); better != "" {
			return vm.LString(at + ": " + better)
		}
	}
	return translate(v)
}
