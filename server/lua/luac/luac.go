// Package luac compiles sources of Lua 5.1 for the virtual machine of gopher-lua: it rewrites the syntax tree where
// gopher-lua's compiler would generate wrong code, and then passes the tree to that compiler.
package luac

import (
	"errors"
	"fmt"
	"strings"

	"github.com/basaltdb/basalt/server/lua/syntax"
	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// maxDepth is the max nesting depth of a source: the compiler is recursive.
const maxDepth = 2000

// maxSource is the max length of a source in bytes.
const maxSource = 16 << 20

// Compile compiles a source. The error's text is Lua's: "name:line: what near 'token'". calls is the number of nested
// calls from C to Lua in Redis, see syntax.Parse.
func Compile(source []byte, name string, calls int) (proto *vm.FunctionProto, err error) {
	defer func() {
		if p := recover(); p != nil {
			proto, err = nil, fmt.Errorf("%s:1: %v", name, p)
		}
	}()
	if len(source) > maxSource {
		return nil, fmt.Errorf("%s:1: source is too long", name)
	}
	proto, err = rewriteAndCompile(source, name, calls, false)
	var ce *vm.CompileError
	if errors.As(err, &ce) && (strings.Contains(ce.Message, "too many local variables") ||
		strings.Contains(ce.Message, "register overflow")) {
		if frugal, e := rewriteAndCompile(source, name, calls, true); e == nil {
			proto, err = frugal, nil
		}
	}
	if errors.As(err, &ce) {
		return nil, fmt.Errorf("%s:%d: %s", name, ce.Line&lineMask, ce.Message)
	}
	return proto, err
}

// rewriteAndCompile compiles a source. The error is a vm.CompileError, or has the text of Compile's error.
func rewriteAndCompile(source []byte, name string, calls int, frugal bool) (*vm.FunctionProto, error) {
	chunk, err := syntax.Parse(string(source), name, calls)
	if err != nil {
		return nil, err
	}
	if frugal {
		chunk = spill(chunk)
	}
	scopes := markScopes(chunk)
	r := rewriter{frugal: frugal, scopes: scopes, cost: compileCost{counting: len(source) > plainSource}}
	chunk = r.block(chunk)
	if r.tooDeep {
		return nil, fmt.Errorf("%s:%d: chunk has too many syntax levels", name, max(r.line&lineMask, 1))
	}
	if r.cost.problem != "" {
		return nil, fmt.Errorf("%s:%d: %s", name, max(r.cost.line&lineMask, 1), r.cost.problem)
	}
	proto, err := vm.Compile(chunk, name)
	if _, ok := errors.AsType[*vm.CompileError](err); err != nil && !ok {
		err = fmt.Errorf("%s:1: %w", name, err)
	}
	if err == nil {
		scopes.resolve(proto)
	}
	return proto, err
}

// SameName is an operator that returns its operand: the result is a single value and unknown to the compiler. Scripts
// cannot write the name.
const SameName = "\x00same"

// concatAtOnce is the max number of operands of one concatenation: each takes a register.
const concatAtOnce = 64

// rewriter walks a syntax tree: it measures the nesting depth and the cost of compilation, and replaces constructs for
// which the compiler generates wrong code.
type rewriter struct {
	frugal      bool // use few registers, see spill
	scopes      scopes
	outer       []int // the scopes of the enclosing functions
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

// failed reports whether the source was refused.
func (r *rewriter) failed() bool { return r.tooDeep || r.cost.problem != "" }

// block returns the rewritten statements of a block.
func (r *rewriter) block(stmts []ast.Stmt) []ast.Stmt {
	for i, s := range stmts {
		if r.enter(s) {
			r.stmt(s)
		}
		if a, ok := s.(*ast.AssignStmt); ok {
			stmts[i] = r.store(a)
		}
		r.depth--
		if r.failed() {
			return stmts
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
		s.Exprs[0] = header(s.Exprs[0])
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
	case *ast.FunctionExpr:
		outer := r.cost.constants
		r.cost.constants = nil
		r.outer = append(r.outer, e.Line()>>lineBits)
		e.Stmts = r.block(e.Stmts)
		r.outer = r.outer[:len(r.outer)-1]
		r.cost.constants = outer
		return e
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	}
	eachOperand(e, func(o *ast.Expr) { *o = r.expr(*o) })
	switch e := e.(type) {
	case *ast.TableExpr:
		for _, f := range e.Fields {
			if f.Key != nil {
				single(f.Value) // otherwise the compiler appends all values of the last one
			}
		}
		return r.constructor(e)
	case *ast.FuncCallExpr:
		if e.Receiver != nil {
			r.cost.constant(e, 's', e.Method)
		}
	case *ast.ArithmeticOpExpr:
		if (e.Operator == "%" || e.Operator == "^") && isNumber(e.Lhs) && isNumber(e.Rhs) {
			e.Lhs = callOf(SameName, e.Lhs) // otherwise the compiler folds it differently
		}
	case *ast.NumberExpr:
		r.cost.constant(e, 'n', e.Value)
	case *ast.StringExpr:
		r.cost.constant(e, 's', e.Value)
	case *ast.IdentExpr: // a local or global variable
		r.cost.constant(e, 's', e.Value)
	}
	return e
}

// eachOperand calls visit with the places of the expressions that an expression consists of, in the order of their
// evaluation.
func eachOperand(e ast.Expr, visit func(*ast.Expr)) {
	two := func(a, b *ast.Expr) { visit(a); visit(b) }
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		two(&e.Object, &e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			if f.Key != nil {
				visit(&f.Key)
			}
			visit(&f.Value)
		}
	case *ast.FuncCallExpr:
		if e.Func != nil {
			visit(&e.Func)
		} else {
			visit(&e.Receiver)
		}
		for i := range e.Args {
			visit(&e.Args[i])
		}
	case *ast.LogicalOpExpr:
		two(&e.Lhs, &e.Rhs)
	case *ast.RelationalOpExpr:
		two(&e.Lhs, &e.Rhs)
	case *ast.ArithmeticOpExpr:
		two(&e.Lhs, &e.Rhs)
	case *ast.StringConcatOpExpr:
		two(&e.Lhs, &e.Rhs)
	case *ast.UnaryMinusOpExpr:
		visit(&e.Expr)
	case *ast.UnaryNotOpExpr:
		visit(&e.Expr)
	case *ast.UnaryLenOpExpr:
		visit(&e.Expr)
	}
}

// concat rewrites the operands of a chain of concatenations, which is nested to the right. It splits a long chain.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	last := e
	e.Lhs = r.expr(e.Lhs)
	for n := 2; ; n++ {
		next, ok := last.Rhs.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		if n == concatAtOnce {
			last.Rhs = callOf(SameName, r.expr(next))
			return e
		}
		next.Lhs = r.expr(next.Lhs)
		last = next
	}
	last.Rhs = r.expr(last.Rhs)
	return e
}

// callOf returns the call of an operator with one operand.
func callOf(name string, operand ast.Expr) *ast.FuncCallExpr {
	call := &ast.FuncCallExpr{Func: like(&ast.IdentExpr{Value: name}, operand), Args: []ast.Expr{operand}, AdjustRet: true}
	return like(call, operand)
}

// isNumber reports whether the compiler computes an expression at compile time.
func isNumber(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr:
		return true
	case *ast.UnaryMinusOpExpr:
		return isNumber(e.Expr)
	case *ast.ArithmeticOpExpr:
		return isNumber(e.Lhs) && isNumber(e.Rhs)
	}
	return false
}

// single reduces an operand that may have several values to one.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}
