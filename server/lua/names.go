package lua

import (
	"strings"

	"github.com/basaltdb/basalt/server/lua/luac"

	vm "github.com/yuin/gopher-lua"
)

// Errors of Lua 5.1 name the invalid operand: "attempt to index local 'x' (a nil value)". Those of the virtual machine
// do not, but the name follows from the code: the failed instruction has the register, and the instruction that set the
// register has the variable or the field.

// site is a function that was running when an error was raised, and the position in it.
type site struct {
	L     *vm.LState
	frame *frame
	proto *vm.FunctionProto
	pc    int // of the failed instruction
}

// siteOf returns the site at a level of the stack; ok is false if the level is not code of a script.
func siteOf(L *vm.LState, level int) (s site, ok bool) {
	f := frameAt(L, level)
	if f == nil || f.Fn.IsG || f.Pc < 1 {
		return s, false
	}
	return site{L: L, frame: f, proto: f.Fn.Proto, pc: f.Pc - 1}, true
}

// constantBit marks the operands B and C that are constants.
const constantBit = 1 << 8

// value returns the value of a register or a constant.
func (s site) value(rk int) vm.LValue {
	if rk&constantBit != 0 {
		return s.proto.Constants[rk&^constantBit]
	}
	if array, n := machineOf(s.L).reg.array, s.frame.LocalBase+rk; n < len(array) && array[n] != nil {
		return array[n]
	}
	return vm.LNil
}

// operand returns "kind 'name' (a TYPE value)" for a register, or "a TYPE value" if it has no name or holds another
// type: then the value came from a metatable.
func (s site) operand(rk int, typ string) string {
	if rk&constantBit == 0 && s.value(rk).Type().String() == typ {
		if kind, name := s.name(rk, s.pc); kind != "" {
			return kind + " '" + name + "' (a " + typ + " value)"
		}
	}
	return "a " + typ + " value"
}

// operandText is site.operand for the running instruction.
func operandText(L *vm.LState, rk int, typ string) string {
	s, _ := siteOf(L, 0)
	return s.operand(rk, typ)
}

// name returns the program's name for the content of a register before an instruction.
func (s site) name(reg, pc int) (kind, name string) {
	if name := s.local(reg, pc); name != "" {
		return "local", name
	}
	set := s.setter(reg, pc)
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
	case vm.OP_MOVE:
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

func (s site) key(rk int) string {
	if rk&constantBit != 0 {
		if text, ok := s.proto.Constants[rk&^constantBit].(vm.LString); ok {
			return luac.CString(string(text))
		}
	}
	return "?"
}

// setter returns the last instruction before pc that sets a register, -1 if none does: then it is a parameter.
func (s site) setter(reg, pc int) int {
	last := -1
	code := s.proto.Code
	for i := 0; i < pc; i++ {
		inst := code[i]
		first, end := argA(inst), argA(inst)
		switch opcode(inst) {
		case vm.OP_JMP:
			if to := i + 1 + argSBx(inst); to > i && to <= pc {
				i = to - 1 // skipped instructions did not run on the way to pc
			}
			continue
		case vm.OP_SETGLOBAL, vm.OP_SETUPVAL, vm.OP_SETTABLE, vm.OP_SETTABLEKS, vm.OP_EQ, vm.OP_LT, vm.OP_LE,
			vm.OP_RETURN, vm.OP_CLOSE:
			continue
		case vm.OP_SETLIST:
			if argC(inst) == 0 {
				i++ // the number is the next instruction
			}
			continue
		case vm.OP_LOADNIL:
			end = argB(inst)
		case vm.OP_SELF:
			end++
		case vm.OP_CALL, vm.OP_TAILCALL, vm.OP_VARARG:
			end = 255 // all remaining values
		case vm.OP_FORLOOP, vm.OP_FORPREP:
			end += 3
		case vm.OP_TFORLOOP:
			first, end = first+2, 255
		case vm.OP_CLOSURE:
			if reg == first {
				last = i
			}
			i += int(s.proto.FunctionPrototypes[argBx(inst)].NumUpvalues) // pseudo instructions: the captured variables
			continue
		}
		if reg >= first && reg <= end {
			last = i
		}
	}
	return last
}

// local returns the name of the local variable in a register, "" if it holds none.
func (s site) local(reg, pc int) string {
	for _, v := range s.proto.DbgLocals {
		if v.StartPc > pc {
			break
		}
		if pc >= v.EndPc {
			continue
		}
		if reg == 0 {
			return v.Name
		}
		reg--
	}
	return ""
}

// failure returns the error text of the instruction in Lua 5.1; "" if the virtual machine's message does not match it.
func (s site) failure(text string) string {
	inst := s.proto.Code[s.pc]
	a := argA(inst)
	if rest, ok := strings.CutPrefix(text, "attempt to index a non-table object("); ok {
		switch opcode(inst) {
		case vm.OP_GETTABLE, vm.OP_GETTABLEKS, vm.OP_SELF:
			typ, _, _ := strings.Cut(rest, ")")
			return "attempt to index " + s.operand(argB(inst), typ)
		}
	}
	if text == "attempt to call a non-function object" {
		switch opcode(inst) {
		case vm.OP_CALL, vm.OP_TAILCALL:
			return "attempt to call " + s.operand(a, s.value(a).Type().String())
		case vm.OP_TFORLOOP:
			return "attempt to call a " + s.value(a).Type().String() + " value"
		}
	}
	return ""
}

// explain converts an error to Lua 5.1's text at the place where it was raised: at a level of the stack.
func explain(L *vm.LState, v vm.LValue, level int) vm.LValue {
	text, ok := v.(vm.LString)
	if !ok {
		return v
	}
	s, ok := siteOf(L, level)
	if !ok {
		return translate(v)
	}
	at := where(L, level)
	if message, found := strings.CutPrefix(string(text), at); found && at != "" {
		if better := s.failure(message); better != "" {
			return vm.LString(at + better)
		}
	}
	return translate(v)
}
