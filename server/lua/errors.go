package lua

import (
	"fmt"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

const (
	textReadOnly = "Attempt to modify a readonly table"
	textMemory   = "not enough memory"
)

// where returns the position of the function at a level of the stack, "file:line: ", "" when it is not one of the script's.
func where(L *vm.LState, level int) string {
	d, ok := L.GetStack(level)
	if !ok {
		return ""
	}
	if _, err := L.GetInfo("Sl", d, vm.LNil); err != nil || d.Source == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", d.Source, d.CurrentLine)
}

// raise raises an error whose text says where the caller is.
func raise(L *vm.LState, format string, args ...any) {
	L.Error(vm.LString(where(L, 1)+fmt.Sprintf(format, args...)), 0)
}

// raisePlain raises an error as the functions of redis do: a table with the text in err.
func raisePlain(L *vm.LState, text string) { L.Error(errorTable(text), 0) }

func errorTable(text string) *vm.LTable {
	t := newTable(0, 1)
	t.RawSetString("err", vm.LString(text))
	return t
}

// raiseReadOnly refuses what a library function would change; without a position, as in Redis.
func raiseReadOnly(L *vm.LState) { L.Error(vm.LString(textReadOnly), 0) }

func outOfMemory(L *vm.LState) { L.Error(vm.LString(textMemory), 0) }

// functionName returns the name by which the running function was called.
func functionName(L *vm.LState) string {
	d, ok := L.GetStack(0)
	if !ok {
		return "?"
	}
	if _, err := L.GetInfo("n", d, vm.LNil); err != nil || d.Name == "" || d.Name == "main chunk" {
		return "?"
	}
	return strings.TrimPrefix(d.Name, "global ")
}

func isCall(inst uint32) bool { return opcode(inst) == vm.OP_CALL || opcode(inst) == vm.OP_TAILCALL }

// argError raises the error of an argument. As in Lua the first one of a method is the object, which does not count.
func argError(L *vm.LState, n int, text string) {
	if s, ok := siteOf(L, 1); ok && isCall(s.proto.Code[s.pc]) {
		if kind, name := s.name(argA(s.proto.Code[s.pc]), s.pc); kind == "method" {
			if n--; n == 0 {
				raise(L, "calling '%s' on bad self (%s)", name, text)
			}
		}
	}
	raise(L, "bad argument #%d to '%s' (%s)", n, functionName(L), text)
}

func argTypeError(L *vm.LState, n int, want string) {
	got := "no value"
	if !isNone(L, n) {
		got = L.Get(n).Type().String()
	}
	argError(L, n, want+" expected, got "+got)
}

// luaTexts are the messages of the virtual machine that the reference implementation words in another way.
var luaTexts = []struct{ prefix, text string }{
	{"attempt to index a non-table object(", "attempt to index a %s value"},
	{"cannot perform concat operation between ", "attempt to concatenate a %s value"},
	{"attempt to call a non-function object", "attempt to call a nil value"},
	{"__len undefined", "attempt to get length of a nil value"},
	{"__unm undefined", "attempt to perform arithmetic on a nil value"},
	{"for statement init must be a number", "'for' initial value must be a number"},
	{"for statement limit must be a number", "'for' limit must be a number"},
	{"for statement step must be a number", "'for' step must be a number"},
}

// translate words an error of the virtual machine as Lua 5.1 does, as far as the message tells enough.
func translate(v vm.LValue) vm.LValue {
	s, ok := v.(vm.LString)
	if !ok {
		return v
	}
	if s == "lua callstack overflow" { // there was no room to call the handler of errors either
		return vm.LString("stack overflow")
	}
	at, text := "", string(s)
	if i := strings.Index(text, ": "); i >= 0 {
		at, text = text[:i+2], text[i+2:]
	}
	for _, t := range luaTexts {
		if strings.HasPrefix(text, t.prefix) {
			rest := text[len(t.prefix):]
			if end := strings.IndexAny(rest, ") "); end >= 0 && strings.Contains(t.text, "%s") {
				return vm.LString(at + fmt.Sprintf(t.text, rest[:end]))
			}
			return vm.LString(at + t.text)
		}
	}
	if rest, ok := strings.CutPrefix(text, "attempt to compare "); ok {
		if l, r, ok := strings.Cut(rest, " with "); ok && l == r {
			return vm.LString(at + "attempt to compare two " + l + " values")
		}
		return v
	}
	if text == "can not yield from outside of a coroutine" {
		return vm.LString("attempt to yield across metamethod/C-call boundary")
	}
	if rest, ok := strings.CutPrefix(text, "cannot perform "); ok {
		if _, types, ok := strings.Cut(rest, " operation between "); ok {
			l, r, _ := strings.Cut(types, " and ")
			if l == "number" || l == "string" && r != "number" && r != "string" {
				l = r
			}
			return vm.LString(at + "attempt to perform arithmetic on a " + l + " value")
		}
	}
	return v
}

// metaField returns a field of the metatable of a value, nil when there is none.
func metaField(L *vm.LState, v vm.LValue, name string) vm.LValue {
	if t, ok := L.GetMetatable(v).(*vm.LTable); ok {
		return t.RawGetString(name)
	}
	return vm.LNil
}
