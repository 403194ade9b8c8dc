package luac

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// The compiler has 200 registers for the local variables and temporaries of a function; Lua 5.1 has 250, of which 200
// can be variables. A source that needs more than 200 is rewritten: in each function, the variables beyond keptLocals
// live in tables, one for each execution of the block that declares them, so that closures share them as they would
// share the variables:
//
//	local a = 1  return a        local s = {}  s.a = 1  return s.a
//
// and if a call has many arguments, or a return many values, those after the first ones are passed in a table:
//
//	f(1, 2, ..., 100, g())       f(1, ..., 40, spread(60, {41, ..., 100}, g()))

const (
	// keptLocals is how many variables of a function have registers.
	keptLocals = 90
	// keptValues is how many arguments of a call have registers of their own.
	keptValues = 40
)

// SpreadName is an operator: spread(n, t, ...) returns t[1] to t[n], followed by the other arguments. Scripts cannot
// write the name.
const SpreadName = "\x00spread"

// spiller rewrites a source.
type spiller struct {
	scope *spillScope
	kept  int // variables of the function that have registers now
	ids   int
}

// spillScope is a variable in scope, linked to those before it.
type spillScope struct {
	outer *spillScope
	name  string
	table string // the variable whose table holds it; "" = it has a register
	key   string // in that table
}

// NamedMark is the prefix of the keys of values that are not fields of the program; the kind and the name follow, up to
// a zero byte. Scripts can write such keys, but not the names of the tables.
const NamedMark = "\x00"

const spillMark = NamedMark + "local "

// spill rewrites a chunk.
func spill(chunk []ast.Stmt) []ast.Stmt {
	s := spiller{}
	return s.block(chunk)
}

func (s *spiller) declare(names ...string) {
	for _, name := range names {
		s.scope = &spillScope{outer: s.scope, name: name}
	}
	s.kept += len(names)
}

// block rewrites the statements of a block and ends its scope.
func (s *spiller) block(list []ast.Stmt) []ast.Stmt {
	scope, kept := s.scope, s.kept
	list = s.statements(list)
	s.scope, s.kept = scope, kept
	return list
}

func (s *spiller) statements(list []ast.Stmt) (out []ast.Stmt) {
	table := "" // of the block
	for _, stmt := range list {
		local, ok := stmt.(*ast.LocalAssignStmt)
		if !ok || s.kept+len(local.Names) <= keptLocals {
			s.stmt(stmt)
			out = append(out, stmt)
			continue
		}
		if table == "" {
			s.ids++
			table = "\x00" + strconv.Itoa(s.ids)
			s.kept++
			out = append(out, like(&ast.LocalAssignStmt{Names: []string{table},
				Exprs: []ast.Expr{like(&ast.TableExpr{}, stmt)}}, stmt))
		}
		if !isFunction(local) {
			s.exprs(local.Exprs)
		}
		assign := like(&ast.AssignStmt{Rhs: local.Exprs}, stmt)
		for _, name := range local.Names {
			s.ids++
			s.scope = &spillScope{outer: s.scope, name: name, table: table, key: spillMark + name + "\x00" + strconv.Itoa(s.ids)}
			assign.Lhs = append(assign.Lhs, like(s.scope.place(stmt), stmt))
		}
		if isFunction(local) {
			s.exprs(local.Exprs)
		}
		if len(assign.Rhs) == 0 {
			assign.Rhs = []ast.Expr{like(&ast.NilExpr{}, stmt)}
		}
		out = append(out, assign)
	}
	return out
}

// place returns the expression for a variable in a table.
func (v *spillScope) place(at ast.PositionHolder) *ast.AttrGetExpr {
	return &ast.AttrGetExpr{Object: like(&ast.IdentExpr{Value: v.table}, at), Key: like(&ast.StringExpr{Value: v.key}, at)}
}

func (s *spiller) stmt(stmt ast.Stmt) {
	scope, kept := s.scope, s.kept
	switch n := stmt.(type) {
	case *ast.LocalAssignStmt:
		if isFunction(n) {
			s.declare(n.Names...)
			s.exprs(n.Exprs)
		} else {
			s.exprs(n.Exprs)
			s.declare(n.Names...)
		}
		return
	case *ast.AssignStmt:
		s.exprs(n.Lhs)
		s.exprs(n.Rhs)
	case *ast.FuncCallStmt:
		n.Expr = s.expr(n.Expr)
	case *ast.DoBlockStmt:
		n.Stmts = s.block(n.Stmts)
	case *ast.WhileStmt:
		n.Condition = s.expr(n.Condition)
		n.Stmts = s.block(n.Stmts)
	case *ast.RepeatStmt:
		n.Stmts = s.statements(n.Stmts)
		n.Condition = s.expr(n.Condition)
	case *ast.IfStmt:
		n.Condition = s.expr(n.Condition)
		n.Then, n.Else = s.block(n.Then), s.block(n.Else)
	case *ast.NumberForStmt:
		n.Init, n.Limit = s.expr(n.Init), s.expr(n.Limit)
		if n.Step != nil {
			n.Step = s.expr(n.Step)
		}
		s.kept += 3
		s.declare(n.Name)
		n.Stmts = s.block(n.Stmts)
	case *ast.GenericForStmt:
		s.exprs(n.Exprs)
		s.kept += 3
		s.declare(n.Names...)
		n.Stmts = s.block(n.Stmts)
	case *ast.FuncDefStmt:
		if n.Name.Func != nil {
			n.Name.Func = s.expr(n.Name.Func)
		}
		if n.Name.Receiver != nil {
			n.Name.Receiver = s.expr(n.Name.Receiver)
		}
		s.function(n.Func, n.Name.Func == nil)
	case *ast.ReturnStmt:
		s.exprs(n.Exprs)
		n.Exprs = spreadValues(n.Exprs)
	}
	s.scope, s.kept = scope, kept
}

func (s *spiller) exprs(list []ast.Expr) {
	for i := range list {
		list[i] = s.expr(list[i])
	}
}

func (s *spiller) function(f *ast.FunctionExpr, method bool) {
	scope, kept := s.scope, s.kept
	s.kept = 0
	if method {
		s.declare("self")
	}
	s.declare(f.ParList.Names...)
	if f.ParList.HasVargs {
		s.declare("arg")
	}
	f.Stmts = s.block(f.Stmts)
	s.scope, s.kept = scope, kept
}

func (s *spiller) expr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.IdentExpr:
		for v := s.scope; v != nil; v = v.outer {
			if v.name == e.Value {
				if v.table != "" {
					return like(v.place(e), e)
				}
				break
			}
		}
	case *ast.FunctionExpr:
		s.function(e, false)
	}
	eachOperand(e, func(o *ast.Expr) { *o = s.expr(*o) })
	if call, ok := e.(*ast.FuncCallExpr); ok {
		call.Args = spreadValues(call.Args)
	}
	return e
}

// spreadValues returns a shorter list with the same values.
func spreadValues(list []ast.Expr) []ast.Expr {
	if len(list) <= keptValues {
		return list
	}
	at := list[keptValues]
	rest := list[keptValues:]
	var last []ast.Expr
	if n := len(rest) - 1; isMultiple(rest[n]) {
		rest, last = rest[:n], rest[n:]
	}
	t := like(&ast.TableExpr{}, at)
	for _, e := range rest {
		t.Fields = append(t.Fields, &ast.Field{Value: e})
	}
	count := like(&ast.NumberExpr{Value: strconv.Itoa(len(rest))}, at)
	call := like(&ast.FuncCallExpr{Func: like(&ast.IdentExpr{Value: SpreadName}, at),
		Args: append([]ast.Expr{count, t}, last...)}, at)
	return append(list[:keptValues:keptValues], call)
}
