package lua

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	vm "github.com/yuin/gopher-lua"
)

// maxDepth bounds how deep the constructs of a source are nested: the compiler calls itself for each.
const maxDepth = 2000

// maxSource is the longest source in bytes.
const maxSource = 16 << 20

// code is what the compiler makes of a source. Any number of states may run it.
type code struct {
	proto *vm.FunctionProto
	// setsGlobals: it assigns to a global name that there is. Such a script sees the globals through a table that
	// refuses that; for all others the environment is the table itself, which is faster.
	setsGlobals bool
}

// compile compiles a source. The error's text is Lua's: "name:line: what near 'token'".
func compile(source []byte, name string) (c *code, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("%s:1: %v", name, p)
		}
	}()
	if len(source) > maxSource {
		return nil, fmt.Errorf("%s:1: source is too long", name)
	}
	if len(source) > 0 && source[0] == 0x1b {
		return nil, fmt.Errorf("%s:1: precompiled code is not accepted", name)
	}
	proto, err := rewriteAndCompile(source, name, false)
	var ce *vm.CompileError
	if errors.As(err, &ce) && (strings.Contains(ce.Message, "too many local variables") || strings.Contains(ce.Message, "register overflow")) {
		if frugal, e := rewriteAndCompile(source, name, true); e == nil {
			proto, err = frugal, nil
		}
	}
	if errors.As(err, &ce) {
		return nil, fmt.Errorf("%s:%d: %s", name, ce.Line, ce.Message)
	}
	if err != nil {
		return nil, err
	}
	bindOperators(proto)
	return &code{proto: proto, setsGlobals: setsGlobals(proto)}, nil
}

// rewriteAndCompile makes the code of a source. The error is a vm.CompileError or has the text that compile's has.
func rewriteAndCompile(source []byte, name string, frugal bool) (*vm.FunctionProto, error) {
	chunk, err := parse.Parse(strings.NewReader(string(source)), name)
	if err != nil {
		return nil, syntaxError(err, name, source)
	}
	r := rewriter{frugal: frugal, cost: compileCost{counting: len(source) > plainSource}}
	chunk = r.block(chunk)
	if r.tooDeep {
		return nil, fmt.Errorf("%s:%d: chunk has too many syntax levels", name, max(r.line, 1))
	}
	if r.cost.problem != "" {
		return nil, fmt.Errorf("%s:%d: %s", name, max(r.cost.line, 1), r.cost.problem)
	}
	proto, err := vm.Compile(chunk, name)
	var ce *vm.CompileError
	if err != nil && !errors.As(err, &ce) {
		err = fmt.Errorf("%s:1: %w", name, err)
	}
	return proto, err
}

func syntaxError(err error, name string, source []byte) error {
	var pe *parse.Error
	if !errors.As(err, &pe) {
		return fmt.Errorf("%s:1: %s", name, strings.TrimSpace(err.Error()))
	}
	what, token := pe.Message, pe.Token
	if what == "syntax error" {
		what = "unexpected symbol"
	}
	line := pe.Pos.Line
	if line == parse.EOF {
		line, token = 1+bytes.Count(source, []byte("\n")), "<eof>"
	}
	return fmt.Errorf("%s:%d: %s near '%s'", name, line, what, token)
}

// protected names: what a script finds in its environment.
var builtin = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`ARGV KEYS _G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo
		getmetatable ipairs load loadstring math next pairs pcall rawequal rawget rawset redis select
		setmetatable string struct table tonumber tostring type unpack xpcall`) {
		builtin[name] = true
	}
}

// setsGlobals reports whether a function, or one in it, assigns to a global name that there is.
func setsGlobals(p *vm.FunctionProto) bool {
	for _, inst := range p.Code {
		if int(inst>>26) == vm.OP_SETGLOBAL {
			name, _ := p.Constants[inst&0x3ffff].(vm.LString)
			if builtin[string(name)] {
				return true
			}
		}
	}
	for _, f := range p.FunctionPrototypes {
		if setsGlobals(f) {
			return true
		}
	}
	return false
}

// concatName is the operator that takes the place of the operator "..": the virtual machine's own would make strings
// of any length, and would print numbers with more digits than Lua 5.1. Scripts cannot write the name.
const concatName = "\x00concat"

// concatAtOnce is how many operands one call of it gets.
const concatAtOnce = 64

// rewriter goes through a syntax tree: it measures its depth and what it costs to compile, and replaces what the
// compiler would make wrong code of.
type rewriter struct {
	frugal      bool // with few local variables
	cost        compileCost
	depth, line int
	tooDeep     bool
}

func (r *rewriter) enter(n ast.PositionHolder) bool {
	if r.depth++; r.depth > maxDepth {
		if !r.tooDeep {
			r.line = n.Line()
		}
		r.tooDeep = true
		return false
	}
	return true
}

// failed reports whether the source is refused.
func (r *rewriter) failed() bool { return r.tooDeep || r.cost.problem != "" }

// block returns the statements in place of those of a block.
func (r *rewriter) block(stmts []ast.Stmt) []ast.Stmt {
	for i, s := range stmts {
		if r.enter(s) {
			r.stmt(s)
		}
		if a, ok := s.(*ast.AssignStmt); ok {
			stmts[i] = r.popStmt(a)
		}
		r.depth--
		if r.failed() {
			return stmts
		}
	}
	for i := len(stmts) - 2; i >= 0; i-- { // a label at the end of a block is not one to jump back to
		if label, ok := stmts[i].(*ast.LabelStmt); ok {
			stmts = append(stmts[:i+1:i+1], r.loop(stmts[i+1:], label)...)
		}
	}
	return stmts
}

func (r *rewriter) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		r.exprs(s.Lhs)
		r.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		r.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.DoBlockStmt:
		s.Stmts = r.block(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = r.expr(s.Condition)
		s.Stmts = r.block(s.Stmts)
		r.while(s)
	case *ast.RepeatStmt:
		s.Condition = r.expr(s.Condition)
		s.Stmts = r.loop(r.block(s.Stmts), s)
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		s.Then, s.Else = r.block(s.Then), r.block(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit = r.expr(s.Init), r.expr(s.Limit)
		if s.Step != nil {
			s.Step = r.expr(s.Step)
		}
		s.Stmts = r.block(s.Stmts)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		s.Stmts = r.loop(r.block(s.Stmts), s)
	case *ast.FuncDefStmt:
		if s.Name.Func != nil {
			s.Name.Func = r.expr(s.Name.Func)
		}
		if s.Name.Receiver != nil {
			s.Name.Receiver = r.expr(s.Name.Receiver)
			r.cost.constant(s, 's', s.Name.Method)
		}
		r.expr(s.Func)
	case *ast.LabelStmt:
		r.cost.label(s)
	case *ast.GotoStmt:
		r.cost.label(s)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	}
}

func (r *rewriter) exprs(list []ast.Expr) {
	for i := range list {
		list[i] = r.expr(list[i])
	}
}

func (r *rewriter) expr(e ast.Expr) ast.Expr {
	if e == nil || r.failed() {
		return e
	}
	defer func() { r.depth-- }()
	if !r.enter(e) {
		return e
	}
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		e.Object, e.Key = r.expr(e.Object), r.expr(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			if f.Key != nil {
				f.Key = fieldKey(r.expr(f.Key))
			}
			f.Value = r.expr(f.Value)
		}
		return r.constructor(e)
	case *ast.FuncCallExpr:
		if e.Func != nil {
			e.Func = r.expr(e.Func)
		}
		if e.Receiver != nil {
			e.Receiver = r.expr(e.Receiver)
			r.cost.constant(e, 's', e.Method)
		}
		r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
		return modulo(e)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.FunctionExpr:
		outer := r.cost.constants
		r.cost.constants = nil
		e.Stmts = r.block(e.Stmts)
		r.cost.constants = outer
	case *ast.NumberExpr:
		r.cost.constant(e, 'n', e.Value)
	case *ast.StringExpr:
		r.cost.constant(e, 's', e.Value)
	case *ast.IdentExpr: // local or global, that is not known here
		r.cost.constant(e, 's', e.Value)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	}
	return e
}

// concat makes a call of a chain of concatenations, which is nested to the right.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: concatName}, AdjustRet: true}
	call.SetLine(e.Line())
	call.SetLastLine(e.LastLine())
	call.Func.SetLine(e.Line())
	call.Func.SetLastLine(e.LastLine())
	var rest ast.Expr = e
	for {
		c, ok := rest.(*ast.StringConcatOpExpr)
		if !ok || len(call.Args) == concatAtOnce-1 {
			break
		}
		call.Args = append(call.Args, single(r.expr(c.Lhs)))
		rest = c.Rhs
	}
	call.Args = append(call.Args, single(r.expr(rest)))
	return call
}

// single makes an operand that may have several values have one.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

// concat is the operator "..", from right to left.
func concat(L *vm.LState) int {
	n := L.GetTop()
	size, plain := 0, true
	for i := 1; i <= n && plain; i++ {
		switch v := L.Get(i).(type) {
		case vm.LString:
			size += len(v)
		case vm.LNumber:
			size += 24
		default:
			plain = false
		}
	}
	if plain {
		charge(L, size)
		b := make([]byte, 0, size)
		for i := 1; i <= n; i++ {
			b = appendText(b, L.Get(i))
		}
		L.Push(vm.LString(b))
		return 1
	}
	right := L.Get(n)
	for i := n - 1; i > 0; i-- {
		left := L.Get(i)
		if isString(left) && isString(right) {
			b := appendText(appendText(nil, left), right)
			charge(L, len(b))
			right = vm.LString(b)
			continue
		}
		f := metaField(L, left, "__concat")
		if f == vm.LNil {
			f = metaField(L, right, "__concat")
		}
		if f == vm.LNil {
			if bad := i; i < n-1 || !isString(left) || isString(right) {
				raise(L, "attempt to concatenate %s", callOperand(L, bad))
			}
			raise(L, "attempt to concatenate %s", callOperand(L, n))
		}
		L.Push(f)
		L.Push(left)
		L.Push(right)
		L.Call(2, 1)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}

func appendText(b []byte, v vm.LValue) []byte {
	if n, ok := v.(vm.LNumber); ok {
		return appendNumber(b, float64(n))
	}
	s, _ := v.(vm.LString)
	return append(b, s...)
}
