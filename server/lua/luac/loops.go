package luac

import "github.com/yuin/gopher-lua/ast"

// If a jump back leads to another jump, the compiler follows the latter to its target, but wrongly: it has already
// encoded that jump, and mistakes the encoded distance for a label number. So loops whose body begins with a jump, such
// as "if false then", would end too early, or never end, or skip their body. The fix is an instruction before the jump.

// loop changes the body of a loop so that it does not begin with a jump.
func (r *rewriter) loop(body []ast.Stmt, at ast.Stmt) []ast.Stmt {
	if !beginsWithJump(body) {
		return body
	}
	value := &ast.FalseExpr{} // not the number 0: the compiler would use that constant also for -0
	value.SetLine(at.Line())
	value.SetLastLine(at.Line())
	nothing := &ast.DoBlockStmt{Stmts: []ast.Stmt{&ast.LocalAssignStmt{Names: []string{"\x00"}, Exprs: []ast.Expr{value}}}}
	for _, s := range append(nothing.Stmts, nothing) {
		s.SetLine(at.Line())
		s.SetLastLine(at.Line())
	}
	return append([]ast.Stmt{nothing}, body...)
}

// header returns an equivalent for the first expression of a loop if it begins with a call, such as f()() or f().x. The
// compiler would store the following values over the result of that call, because it assumes that the loop's registers
// are in use.
func header(e ast.Expr) ast.Expr {
	for inner := leading(e); inner != nil; inner = leading(inner) {
		switch inner.(type) {
		case *ast.FuncCallExpr, *ast.Comma3Expr:
			call := callOf(SameName, e)
			call.AdjustRet = !isMultiple(e)
			return call
		}
	}
	return e
}

// leading returns the part of an expression that is evaluated first, nil if it has no parts, or makes a table of them.
func leading(e ast.Expr) (first ast.Expr) {
	if _, ok := e.(*ast.TableExpr); ok {
		return nil
	}
	eachOperand(e, func(o *ast.Expr) {
		if first == nil {
			first = *o
		}
	})
	return first
}

// while rewrites a loop whose condition may begin with a jump: while c do ... end becomes while true do if c then ...
// else break end end.
func (r *rewriter) while(s *ast.WhileStmt) {
	if !isConstant(first(s.Condition)) {
		return
	}
	switch s.Condition.(type) {
	case *ast.TrueExpr, *ast.NumberExpr, *ast.StringExpr: // constant conditions
	default:
		end := like(&ast.BreakStmt{}, s)
		is := like(&ast.IfStmt{Condition: s.Condition, Then: s.Stmts, Else: []ast.Stmt{end}}, s)
		s.Condition = like(&ast.TrueExpr{}, s.Condition)
		s.Stmts = []ast.Stmt{is}
	}
	s.Stmts = r.loop(s.Stmts, s)
}

// beginsWithJump reports whether the code of a list of statements may be empty or begin with a jump.
func beginsWithJump(list []ast.Stmt) bool {
	if len(list) == 0 {
		return true
	}
	switch s := list[0].(type) {
	case *ast.LocalAssignStmt:
		return len(s.Exprs) > 0 && leads(s.Exprs[0])
	case *ast.AssignStmt:
		if place, ok := s.Lhs[0].(*ast.AttrGetExpr); ok && leads(place.Object) {
			return true
		}
		return leads(s.Rhs[0])
	case *ast.FuncCallStmt:
		return leads(s.Expr)
	case *ast.FuncDefStmt:
		return s.Name.Func != nil && leads(s.Name.Func) || s.Name.Receiver != nil && leads(s.Name.Receiver)
	case *ast.IfStmt:
		return isConstant(first(s.Condition)) || leads(first(s.Condition))
	case *ast.WhileStmt:
		return isConstant(first(s.Condition)) || leads(first(s.Condition))
	case *ast.RepeatStmt:
		return beginsWithJump(s.Stmts)
	case *ast.DoBlockStmt:
		return beginsWithJump(s.Stmts)
	case *ast.NumberForStmt:
		return leads(s.Init)
	case *ast.GenericForStmt:
		return leads(s.Exprs[0])
	case *ast.ReturnStmt:
		return len(s.Exprs) > 0 && leads(s.Exprs[0])
	}
	return true // break
}

// leads reports whether the code of an expression may begin with a jump: an "and" or "or" of a constant.
func leads(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		return isConstant(first(e)) || leads(first(e))
	case *ast.RelationalOpExpr:
		return leads(e.Lhs) || isConstant(e.Lhs) && leads(e.Rhs)
	case *ast.ArithmeticOpExpr:
		return leads(e.Lhs) || isConstant(e.Lhs) && leads(e.Rhs)
	case *ast.AttrGetExpr, *ast.FuncCallExpr, *ast.UnaryMinusOpExpr, *ast.UnaryNotOpExpr, *ast.UnaryLenOpExpr:
		return leads(leading(e))
	}
	return false
}

// first returns the operand of a condition that is evaluated first.
func first(e ast.Expr) ast.Expr {
	for {
		switch o := e.(type) {
		case *ast.LogicalOpExpr:
			e = o.Lhs
		case *ast.UnaryNotOpExpr:
			e = o.Expr
		default:
			return e
		}
	}
}

func isConstant(e ast.Expr) bool {
	switch e.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NumberExpr, *ast.StringExpr:
		return true
	}
	return false
}
