package lua

import (
	"fmt"
	"strconv"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

const (
	textReadOnly = "Attempt to modify a readonly table"
	textMemory   = "not enough memory"
	textNested   = "C stack overflow"
	// textErrorInHandler replaces an error that cannot be handled any more.
	textErrorInHandler = "error in error handling"
)

// frameAt returns the frame at a level of the stack, 0 = the running function; nil if the level does not exist or is
// only a tail call.
func frameAt(L *vm.LState, level int) *frame {
	f := machineOf(L).currentFrame
	for {
		for ; f != nil && level > 0; f = f.Parent {
			level--
			if !f.Fn.IsG {
				level -= f.TailCall
			}
		}
		if level < 0 {
			return nil
		}
		if f != nil {
			return f
		}
		if L = stateOf(L).caller(L); L == nil {
			return nil
		}
		f = machineOf(L).currentFrame
	}
}

// sourceLine returns the position of a function, "file:line: ", or "" for a function that is not the script's.
func sourceLine(f *frame) string {
	if f == nil || f.Fn.IsG {
		return ""
	}
	line := 0
	if p := f.Fn.Proto; f.Pc > 0 {
		line = p.DbgSourcePositions[f.Pc-1]
	}
	return f.Fn.Proto.SourceName + ":" + strconv.Itoa(line) + ": "
}

// where returns the position of the function at a level of the stack.
func where(L *vm.LState, level int) string { return sourceLine(frameAt(L, level)) }

// raiseAt raises an error whose text begins with the position of the function at a level of the stack.
func raiseAt(L *vm.LState, level int, text string) { L.Error(vm.LString(where(L, level)+text), 0) }

// raise raises an error whose text begins with the position of the caller.
func raise(L *vm.LState, format string, args ...any) {
	raiseAt(L, 1, fmt.Sprintf(format, args...))
}

// raisePlain raises an error like the functions of redis: a table with the text in err.
func raisePlain(L *vm.LState, text string) { L.Error(errorTable(text), 0) }

func errorTable(text string) *vm.LTable {
	t := newTable(0, 0)
	storeName(t, "err", vm.LString(text))
	return t
}

// raiseReadOnly raises the error of changing a library; without a position, as in Redis.
func raiseReadOnly(L *vm.LState) { L.Error(vm.LString(textReadOnly), 0) }

func outOfMemory(L *vm.LState) { L.Error(vm.LString(textMemory), 0) }

// functionName returns the name by which the running function was called.
func functionName(L *vm.LState) (kind, name string) {
	if s, ok := siteOf(L, 1); ok {
		switch inst := s.proto.Code[s.pc]; {
		case isCall(inst):
			kind, name = s.name(argA(inst), s.pc)
		case opcode(inst) == vm.OP_TFORLOOP:
			return "local", "(for generator)"
		}
	}
	if kind == "" {
		name = "?"
	}
	return kind, name
}

func isCall(inst uint32) bool { return opcode(inst) == vm.OP_CALL || opcode(inst) == vm.OP_TAILCALL }

// argError raises the error of an invalid argument. As in Lua, the object of a method call is not counted as an
// argument.
func argError(L *vm.LState, n int, text string) {
	kind, name := functionName(L)
	if kind == "method" {
		if n--; n == 0 {
			raise(L, "calling '%s' on bad self (%s)", name, text)
		}
	}
	raise(L, "bad argument #%d to '%s' (%s)", n, name, text)
}

func argTypeError(L *vm.LState, n int, want string) {
	got := "no value"
	if !isNone(L, n) {
		got = L.Get(n).Type().String()
	}
	argError(L, n, want+" expected, got "+got)
}

// luaTexts are the messages of the virtual machine whose text differs in the reference implementation.
var luaTexts = []struct{ prefix, text string }{
	{"attempt to index a non-table object(", "attempt to index a %s value"},
	{"attempt to call a non-function object", "attempt to call a nil value"},
	{"too many recursions in gettable", "loop in gettable"},
	{"registry overflow", textStackOverflow},
}

// translate converts an error of the virtual machine to Lua 5.1's text, as far as the message contains the details.
func translate(v vm.LValue) vm.LValue {
	s, ok := v.(vm.LString)
	if !ok {
		return v
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
	return v
}

// metaField returns a field of a value's metatable, nil if it does not exist.
func metaField(L *vm.LState, v vm.LValue, name string) vm.LValue {
	if t, ok := metatable(L, v).(*vm.LTable); ok {
		return t.RawGetString(name)
	}
	return vm.LNil
}

// metatable returns a value's metatable, ignoring __metatable.
func metatable(L *vm.LState, v vm.LValue) vm.LValue {
	switch v := v.(type) {
	case *vm.LTable:
		return v.Metatable
	case *vm.LUserData:
		return v.Metatable
	}
	return L.GetMetatable(v)
}
