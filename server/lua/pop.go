package lua

import (
	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// t[#t] = nil leaves an empty place at the end of the array, which #t passes over from then on: a stack would be emptied in
// time in the square of its height. So the statement becomes
//
//	if pop(t) then t[#t] = nil end
//
// where pop takes the last element of a table away and returns false, or does nothing and returns true.

// popName is the operator pop. Scripts cannot write the name.
const popName = "\x00pop"

// popped returns the table of a statement t[#t] = nil, nil of another.
func popped(s *ast.AssignStmt) *ast.IdentExpr {
	if len(s.Lhs) != 1 || len(s.Rhs) != 1 {
		return nil
	}
	if _, ok := s.Rhs[0].(*ast.NilExpr); !ok {
		return nil
	}
	place, ok := s.Lhs[0].(*ast.AttrGetExpr)
	if !ok {
		return nil
	}
	table, ok := place.Object.(*ast.IdentExpr)
	if !ok {
		return nil
	}
	length, ok := place.Key.(*ast.UnaryLenOpExpr)
	if !ok {
		return nil
	}
	if of, ok := length.Expr.(*ast.IdentExpr); !ok || of.Value != table.Value {
		return nil
	}
	return table
}

// popStmt returns the statement in place of an assignment.
func (r *rewriter) popStmt(s *ast.AssignStmt) ast.Stmt {
	table, stored := popped(s), r.store(s)
	if table == nil {
		return stored
	}
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: popName}, Args: []ast.Expr{&ast.IdentExpr{Value: table.Value}}, AdjustRet: true}
	for _, e := range []ast.Expr{call, call.Func, call.Args[0]} {
		setLines(e, table)
	}
	or := &ast.IfStmt{Condition: call, Then: []ast.Stmt{stored}}
	or.SetLine(s.Line())
	or.SetLastLine(s.LastLine())
	return or
}

func pop(L *vm.LState) int {
	t, ok := L.Get(1).(*vm.LTable)
	ok = ok && t.Metatable == vm.LNil
	if ok {
		n := t.Len()
		if ok = n > 0; ok {
			shorten(L, t, n)
		}
	}
	L.Push(vm.LBool(!ok))
	return 1
}

// shorten takes the last element away, t[n] with n = #t, and its place.
func shorten(L *vm.LState, t *vm.LTable, n int) {
	setInt(L, t, n, vm.LNil) // so that the space behind the end does not hold it
	t.Remove(n)
}
