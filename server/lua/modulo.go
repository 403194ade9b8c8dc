package lua

import (
	"math"

	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// The operator "%" of the virtual machine is exact, while that of Lua 5.1 is a - floor(a/b)*b: 1 % 0.1 is 0 there and not
// 0.1. With a whole number on the right there is no difference but that a remainder of 0 has the sign of the left side, which
// only its text shows; all others become calls.

// modName is the operator "%". Scripts cannot write the name.
const modName = "\x00mod"

// modulo returns the expression in place of an arithmetic one.
func modulo(e *ast.ArithmeticOpExpr) ast.Expr {
	if e.Operator != "%" {
		return e
	}
	if n, ok := e.Rhs.(*ast.NumberExpr); ok {
		if f, ok := parseNumber(n.Value); ok && f > 0 && f < 1<<31 && f == math.Floor(f) {
			return e
		}
	}
	call := like(&ast.FuncCallExpr{Func: like(&ast.IdentExpr{Value: modName}, e), Args: []ast.Expr{single(e.Lhs), single(e.Rhs)}, AdjustRet: true}, e)
	return call
}

// mod is a % b.
func mod(L *vm.LState) int {
	a, b := L.Get(1), L.Get(2)
	x, ok1 := toNumber(a)
	y, ok2 := toNumber(b)
	if ok1 && ok2 {
		q := math.Floor(x / y)
		product := q * y // apart, so that it is rounded
		L.Push(vm.LNumber(x - float64(product)))
		return 1
	}
	f := metaField(L, a, "__mod")
	if f == vm.LNil {
		f = metaField(L, b, "__mod")
	}
	if f == vm.LNil {
		bad := 1
		if ok1 {
			bad = 2
		}
		raise(L, "attempt to perform arithmetic on %s", callOperand(L, bad))
	}
	L.Push(f)
	L.Push(a)
	L.Push(b)
	L.Call(2, 1)
	return 1
}
