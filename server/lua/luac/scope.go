package luac

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// The compiler does not record correctly where the local variables of a function are in scope. But it copies the line
// of each node of the syntax tree to the instructions. So the scope is passed through the compiler with the line: in a
// marked tree, each line is 32 bits of line, and above them the number of a scope.

const (
	lineBits = 32
	lineMask = 1<<lineBits - 1
)

// scopes are the scopes of a source. Scope n has all variables of scope parent and one more; scope 0 has none.
type scopes []scopeOf

type scopeOf struct {
	parent int
	name   string
}

// kind returns the kind of a variable's name in a scope ("local", "upvalue" or "global"), given the scopes of the
// enclosing functions.
func (s scopes) kind(name string, scope int, outer []int) string {
	for kind := "local"; ; kind = "upvalue" {
		for ; scope != 0; scope = s[scope].parent {
			if s[scope].name == name {
				return kind
			}
		}
		if len(outer) == 0 {
			return "global"
		}
		scope, outer = outer[len(outer)-1], outer[:len(outer)-1]
	}
}

// marker marks a syntax tree.
type marker struct {
	scopes scopes
	now    int // the current scope
}

// markScopes marks a syntax tree, and returns its scopes.
func markScopes(chunk []ast.Stmt) scopes {
	m := marker{scopes: scopes{{}}}
	m.block(chunk)
	return m.scopes
}

func (m *marker) declare(names ...string) {
	for _, name := range names {
		m.scopes = append(m.scopes, scopeOf{m.now, name})
		m.now = len(m.scopes) - 1
	}
}

func (m *marker) mark(n ast.PositionHolder) {
	scope := m.now << lineBits
	n.SetLine(n.Line()&lineMask | scope)
	if last := n.LastLine(); last != 0 {
		n.SetLastLine(last&lineMask | scope)
	}
}

func (m *marker) block(list []ast.Stmt) {
	outer := m.now
	for _, s := range list {
		m.stmt(s)
	}
	m.now = outer
}

func (m *marker) stmt(s ast.Stmt) {
	m.mark(s)
	outer := m.now
	switch s := s.(type) {
	case *ast.AssignStmt:
		m.exprs(s.Lhs)
		m.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		if isFunction(s) {
			m.declare(s.Names...)
			m.exprs(s.Exprs)
			return
		}
		m.exprs(s.Exprs)
		m.declare(s.Names...)
		return
	case *ast.FuncCallStmt:
		m.expr(s.Expr)
	case *ast.DoBlockStmt:
		m.block(s.Stmts)
	case *ast.WhileStmt:
		m.expr(s.Condition)
		m.block(s.Stmts)
	case *ast.RepeatStmt:
		for _, inner := range s.Stmts {
			m.stmt(inner)
		}
		m.expr(s.Condition) // the condition sees the variables of the body
	case *ast.IfStmt:
		m.expr(s.Condition)
		m.block(s.Then)
		m.block(s.Else)
	case *ast.NumberForStmt:
		m.exprs([]ast.Expr{s.Init, s.Limit})
		if s.Step != nil {
			m.expr(s.Step)
		}
		m.declare("(for index)", "(for limit)", "(for step)", s.Name)
		m.block(s.Stmts)
	case *ast.GenericForStmt:
		m.exprs(s.Exprs)
		padNames(s)
		m.declare("(for generator)", "(for state)", "(for control)")
		m.declare(s.Names...)
		m.block(s.Stmts)
	case *ast.FuncDefStmt:
		if s.Name.Func != nil {
			m.expr(s.Name.Func)
		}
		if s.Name.Receiver != nil {
			m.expr(s.Name.Receiver)
		}
		m.function(s.Func, s.Name.Func == nil)
	case *ast.ReturnStmt:
		m.exprs(s.Exprs)
	}
	m.now = outer
}

// padNames gives a loop at least three variables, unless one call supplies all its values: with fewer, the compiler
// leaves missing values of the loop undefined, and drops those of a call at the end.
func padNames(s *ast.GenericForStmt) {
	if len(s.Exprs) == 1 && isMultiple(s.Exprs[0]) {
		return
	}
	for len(s.Names) < 3 {
		s.Names = append(s.Names, "(unused)")
	}
}

// isFunction reports whether the compiler takes a statement for "local function", which puts the variable into scope in
// the function.
func isFunction(s *ast.LocalAssignStmt) bool {
	if len(s.Names) != 1 || len(s.Exprs) != 1 {
		return false
	}
	_, ok := s.Exprs[0].(*ast.FunctionExpr)
	return ok
}

func (m *marker) exprs(list []ast.Expr) {
	for _, e := range list {
		m.expr(e)
	}
}

func (m *marker) expr(e ast.Expr) {
	m.mark(e)
	if f, ok := e.(*ast.FunctionExpr); ok {
		m.function(f, false)
	}
	eachOperand(e, func(o *ast.Expr) { m.expr(*o) })
}

// function marks a function; a method also has self.
func (m *marker) function(f *ast.FunctionExpr, method bool) {
	outer := m.now
	m.mark(f)
	m.now = 0
	if method {
		m.declare("self")
	}
	m.declare(f.ParList.Names...)
	if f.ParList.HasVargs && vm.CompatVarArg {
		m.declare("arg")
	}
	m.block(f.Stmts)
	m.now = outer
}

// resolve replaces marked lines by lines in the code of a function and of those within it, and lists the function's
// variables with their scopes, in the order in which they come into scope. So the first of those in scope at an
// instruction have the first registers.
func (s scopes) resolve(p *vm.FunctionProto) {
	// The compiler leaves much spare capacity in these slices.
	p.Code, p.DbgSourcePositions = slices.Clone(p.Code), slices.Clone(p.DbgSourcePositions)
	p.LineDefined &= lineMask
	p.LastLineDefined &= lineMask
	p.DbgLocals = nil
	var active []*vm.DbgLocalInfo // by depth
	var scope []int               // the scopes of the variables in active
	last := -1
	for pc, line := range p.DbgSourcePositions {
		p.DbgSourcePositions[pc] = line & lineMask
		now := line >> lineBits
		if now != last {
			active, scope = s.enter(p, active, scope, now, pc)
			last = now
		}
		for _, a := range active {
			a.EndPc = pc + 1
		}
	}
	for _, inner := range p.FunctionPrototypes {
		s.resolve(inner)
	}
}

// enter returns the variables in scope now, by depth, and their scopes. active and scope are those of the previous
// instruction: variables that are still in scope stay, and the others are added to p's variables.
func (s scopes) enter(p *vm.FunctionProto, active []*vm.DbgLocalInfo, scope []int, now, pc int) ([]*vm.DbgLocalInfo,
	[]int) {
	var chain []int
	for ; now != 0; now = s[now].parent {
		chain = append(chain, now)
	}
	n := 0
	for n < len(chain) && n < len(scope) && scope[n] == chain[len(chain)-1-n] {
		n++
	}
	active, scope = active[:n], scope[:n]
	for ; n < len(chain); n++ {
		id := chain[len(chain)-1-n]
		info := &vm.DbgLocalInfo{Name: s[id].name, StartPc: pc}
		p.DbgLocals = append(p.DbgLocals, info)
		active, scope = append(active, info), append(scope, id)
	}
	return active, scope
}
