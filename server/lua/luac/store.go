package luac

import (
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// Some assignments are rewritten, because the compiler assigns to a local variable at once instead of after the
// evaluation of all values: a, b = b, a and x = not a and b; see also oneValue. They become
//
//	do local v1, v2 = b, a  b = v2  a = v1 end
//	do local o1, k1 = t, k  local v1, v2 = v, w  x = v2  o1[k1] = v1 end
//
// With many targets, or too few free local variables, see storeByTable.

// isLogicalToName reports whether a statement assigns the value of "and" or "or" to a variable.
func isLogicalToName(s *ast.AssignStmt) bool {
	_, isName := s.Lhs[0].(*ast.IdentExpr)
	_, isLogical := s.Rhs[0].(*ast.LogicalOpExpr)
	return isName && isLogical
}

// oneValue turns a call or "..." that is assigned to a variable into an expression with possibly several values: only
// the first one is used as well, but the compiler generates correct code. For a single value it would put the function
// and the arguments of a call over the variable and the following ones, if the variable is the last parameter; and it
// would take the value of "..." from the wrong place.
func oneValue(s *ast.AssignStmt) {
	if len(s.Lhs) != 1 || len(s.Rhs) != 1 {
		return
	}
	if _, isName := s.Lhs[0].(*ast.IdentExpr); !isName {
		return
	}
	switch e := s.Rhs[0].(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = false
	case *ast.Comma3Expr:
		e.AdjustRet = false
	}
}

// mayChange reports whether a value is a variable that the evaluation of a later value may change.
func mayChange(values []ast.Expr) bool {
	isVariable := false
	for _, e := range values {
		switch e.(type) {
		case *ast.IdentExpr:
			isVariable = true
		case *ast.FunctionExpr:
		default:
			if isVariable && !isConstant(e) {
				return true
			}
		}
	}
	return false
}

// store returns the replacement of an assignment.
func (r *rewriter) store(s *ast.AssignStmt) ast.Stmt {
	oneValue(s)
	safe := (len(s.Lhs) > 1 || len(s.Rhs) == 1) && !mayChange(s.Rhs)
	for _, l := range s.Lhs {
		if _, ok := l.(*ast.AttrGetExpr); !ok && len(s.Lhs) > 1 {
			safe = false
		}
	}
	if safe && !isLogicalToName(s) && !(r.frugal && len(s.Lhs) > maxByName) {
		return s
	}
	at := s.Lhs[0]
	if len(s.Lhs) > maxByName || r.frugal {
		return r.storeByTable(s)
	}
	block := &ast.DoBlockStmt{}
	places, values := &ast.LocalAssignStmt{}, &ast.LocalAssignStmt{Exprs: s.Rhs}
	var stores []ast.Stmt
	local := func(e ast.Expr, list *ast.LocalAssignStmt) ast.Expr {
		name := "\x00" + string(rune('A'+len(places.Names)+len(values.Names)))
		list.Names = append(list.Names, name)
		if e != nil {
			list.Exprs = append(list.Exprs, single(e))
		}
		return like(&ast.IdentExpr{Value: name}, at)
	}
	for _, l := range s.Lhs {
		var one ast.Stmt
		switch l := l.(type) {
		case *ast.AttrGetExpr:
			to := &ast.AttrGetExpr{Object: local(l.Object, places), Key: l.Key}
			if !isConstant(l.Key) {
				to.Key = local(l.Key, places)
			}
			one = &ast.AssignStmt{Lhs: []ast.Expr{like(to, l)}, Rhs: []ast.Expr{local(nil, values)}}
		default:
			one = &ast.AssignStmt{Lhs: []ast.Expr{l}, Rhs: []ast.Expr{local(nil, values)}}
		}
		stores = append(stores, one)
	}
	block.Stmts = []ast.Stmt{places, values}
	if len(places.Names) == 0 {
		block.Stmts = block.Stmts[1:]
	}
	slices.Reverse(stores)
	block.Stmts = append(block.Stmts, stores...)
	for _, st := range append(block.Stmts, block) {
		like(st, s)
	}
	return block
}

const (
	// maxByName is the max number of targets for which local variables are used: a function has 200.
	maxByName = 20
	// partSize is the max number of values in registers at the same time.
	partSize = 40
)

// storeByTable returns the replacement of an assignment to many targets. It needs one local variable:
//
//	do local all = {{o1 = o1, k1 = k1, ...}, {{v1, ..., v40}, {v41, ...}, ...}}
//	all[1].on[all[1].kn] = all[2][m][40] ... all[1].o1[all[1].k1] = all[2][1][1] end
//
// The keys o1, k1, ... contain the program's names of their values, for errors.
func (r *rewriter) storeByTable(s *ast.AssignStmt) ast.Stmt {
	at := s.Lhs[0]
	number := func(n int) ast.Expr { return like(&ast.NumberExpr{Value: strconv.Itoa(n)}, at) }
	parts := func(list []ast.Expr) ast.Expr {
		t := &ast.TableExpr{}
		for part := range slices.Chunk(list, partSize) {
			p := &ast.TableExpr{}
			for i, e := range part {
				if i < len(part)-1 {
					single(e)
				}
				p.Fields = append(p.Fields, &ast.Field{Value: e})
			}
			t.Fields = append(t.Fields, &ast.Field{Value: like(p, at)})
		}
		return like(t, at)
	}
	const places, values = 1, 2
	const allName = "\x00all"
	value := func(i int) ast.Expr {
		part := min(i, len(s.Rhs)-1) / partSize // additional values of the last expression are in its part
		var e ast.Expr = like(&ast.IdentExpr{Value: allName}, at)
		for _, n := range []int{values, part + 1, i - part*partSize + 1} {
			e = like(&ast.AttrGetExpr{Object: e, Key: number(n)}, at)
		}
		return e
	}
	operands := &ast.TableExpr{}
	operand := func(e ast.Expr, name string) ast.Expr { // its value when it is assigned to
		key := name + "\x00" + strconv.Itoa(len(operands.Fields))
		operands.Fields = append(operands.Fields, &ast.Field{Key: like(&ast.StringExpr{Value: key}, at), Value: single(e)})
		all := like(&ast.AttrGetExpr{Object: like(&ast.IdentExpr{Value: allName}, at), Key: number(places)}, at)
		return like(&ast.AttrGetExpr{Object: all, Key: like(&ast.StringExpr{Value: key}, at)}, at)
	}
	var stores []ast.Stmt
	for i, l := range s.Lhs {
		if l, ok := l.(*ast.AttrGetExpr); ok {
			object := operand(l.Object, r.nameOf(l.Object))
			to := like(&ast.AttrGetExpr{Object: object, Key: operand(l.Key, "")}, l)
			stores = append(stores, &ast.AssignStmt{Lhs: []ast.Expr{to}, Rhs: []ast.Expr{value(i)}})
			continue
		}
		stores = append(stores, &ast.AssignStmt{Lhs: []ast.Expr{l}, Rhs: []ast.Expr{value(i)}})
	}
	all := &ast.TableExpr{Fields: []*ast.Field{{Value: like(operands, at)}, {Value: parts(slices.Clone(s.Rhs))}}}
	block := &ast.DoBlockStmt{Stmts: []ast.Stmt{&ast.LocalAssignStmt{Names: []string{allName},
		Exprs: []ast.Expr{like(all, at)}}}}
	slices.Reverse(stores)
	block.Stmts = append(block.Stmts, stores...)
	for _, st := range append(block.Stmts, block) {
		like(st, s)
	}
	return block
}

// nameOf returns the prefix of the key of an expression's value: its name in errors.
func (r *rewriter) nameOf(e ast.Expr) string {
	kind, name := "", ""
	switch e := e.(type) {
	case *ast.IdentExpr:
		kind, name = r.scopes.kind(e.Value, e.Line()>>lineBits, r.outer), e.Value
	case *ast.AttrGetExpr:
		kind, name = "field", "?"
		if key, ok := e.Key.(*ast.StringExpr); ok {
			if strings.HasPrefix(key.Value, NamedMark) { // a variable without a register
				return key.Value
			}
			name = key.Value
		}
	}
	return NamedMark + kind + " " + name
}

// like sets the lines of a node to those of another.
func like[N ast.PositionHolder](n N, at ast.PositionHolder) N {
	n.SetLine(at.Line())
	n.SetLastLine(at.LastLine())
	return n
}
