// Package syntax reads Lua 5.1: it makes the syntax tree of a chunk that the compiler of gopher-lua takes, or the
// error that Lua 5.1.5 gives.
//
// What a chunk may contain is decided as in Lua's own compiler, which reads a chunk once and makes code as it goes:
// its errors depend on the token at which it notices something, on registers, constants and jumps. So the parser
// follows what that compiler would do (see code.go) and keeps of it what can be seen from outside: the limits, and
// the line of each instruction, which is the line of the last token that was read before the instruction was made.
//
// The rules are those of llex.c, lparser.c and lcode.c of Lua 5.1.5, with the options that Redis builds it with:
// LUA_COMPAT_VARARG, LUA_COMPAT_LSTR=1 and no byte code.
package syntax

import (
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
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
	perFlush     = 50        // elements of a table that are stored at once, LFIELDS_PER_FLUSH
)

// maxDepth bounds how deep expressions are, and "elseif" one after the other: who goes through the tree calls himself
// for each node. Lua has no such limit where it has none of nesting: a + b + c + ..., a.b.c..., f()()()... and
// elseif.
const maxDepth = 2000

// Error is why a chunk is refused.
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

// Parse returns the statements of a chunk. Errors are of type *Error and call the chunk by its name. calls is how
// many calls from C to Lua the one who wants the chunk is in: they count as levels of nesting.
func Parse(source, chunk string, calls int) (stmts []ast.Stmt, err error) {
	p := &parser{
		scanner: scanner{source: source, chunk: chunk, line: 1},
		level:   calls,
	}
	p.symbols.init()
	p.ahead.kind = tokenEOF
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			stmts, err = nil, e
		}
	}()
	p.openFunction(0)
	p.fn.isVararg = true
	p.next()
	stmts = p.statements()
	p.check(tokenEOF)
	p.closeFunction()
	return stmts, nil
}

// CString returns a text up to its first zero byte, which is where C believes it to end.
func CString(s string) string {
	before, _, _ := strings.Cut(s, "\x00")
	return before
}
