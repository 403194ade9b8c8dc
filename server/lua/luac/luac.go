// Package luac compiles sources of Lua 5.1 for the virtual machine of gopher-lua, whose instructions are those of Lua,
// or gives the error that Lua 5.1.5 gives.
//
// Like Lua's own compiler it reads a source once and makes code as it goes. The rules are those of llex.c, lparser.c
// and lcode.c of Lua 5.1.5, with the options that Redis builds it with: LUA_COMPAT_VARARG, LUA_COMPAT_LSTR=1 and no
// byte code. The errors depend on the token at which the compiler notices something, on registers, constants and jumps.
package luac

import (
	"fmt"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// Limits of Lua 5.1.
const (
	maxLevels    = 200       // of nesting, LUAI_MAXCCALLS
	maxLocals    = 200       // of a function at one place, LUAI_MAXVARS
	maxUpvalues  = 60        // of a function, LUAI_MAXUPVALUES
	maxRegisters = 250       // of a function, MAXSTACK
	maxConstants = 1<<18 - 1 // of a function, and functions in one: MAXARG_Bx
	maxVariables = 1<<15 - 1 // local variables of a function in all, SHRT_MAX
	maxJump      = 1<<17 - 1 // instructions, MAXARG_sBx
	maxOperand   = 255       // constants up to this index can be operands, MAXINDEXRK
	// PerFlush is how many elements of a table one instruction stores, LFIELDS_PER_FLUSH.
	PerFlush = 50
)

// maxSource is the max length of a source in bytes.
const maxSource = 16 << 20

// Error is why a source is refused.
type Error struct {
	Chunk string
	Line  int // 0 = the error is of the chunk as a whole, and has no position
	Text  string
}

// Error returns the text as Lua has it: "chunk:line: text".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.Chunk, e.Line, e.Text)
}

// Compile compiles a source. Errors are of type *Error and call the chunk by its name. calls is how many calls from C
// to Lua the one who wants the chunk is in: they count as levels of nesting.
func Compile(source []byte, chunk string, calls int) (proto *vm.FunctionProto, err error) {
	if len(source) > maxSource {
		return nil, &Error{chunk, 1, "source is too long"}
	}
	p := &parser{
		scanner: scanner{source: string(source), chunk: chunk, line: 1,
			symbols: symbolTable{texts: map[string]symbolID{}, numbers: map[float64]symbolID{}}},
		level: calls,
	}
	p.ahead.kind = tokenEOF
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				e = &Error{chunk, 1, fmt.Sprint(r)}
			}
			proto, err = nil, e
		}
	}()
	p.openFunction(0)
	p.fn.proto.IsVarArg = vm.VarArgIsVarArg
	p.next()
	p.statements()
	p.check(tokenEOF)
	return p.closeFunction(), nil
}

// CString returns a text up to its first zero byte, which is where C believes it to end.
func CString(s string) string {
	before, _, _ := strings.Cut(s, "\x00")
	return before
}
