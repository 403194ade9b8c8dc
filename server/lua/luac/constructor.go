package luac

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

const (
	// PerFlush is how many elements without a key one instruction of a constructor stores.
	PerFlush = 50
	// MaxPart is the max number of elements without a key in one constructor: 510 groups, because the instruction has 9
	// bits for the number of a group.
	MaxPart = 510 * PerFlush
)

func init() { vm.FieldsPerFlush = PerFlush }

// JoinName is an operator that combines several tables. Scripts cannot write the name.
const JoinName = "\x00join"

// constructor returns the replacement of a table constructor with more than MaxPart elements without a key:
// join(elements, keyed, {1, ..., 25500}, {25501, ...}, ...). It returns a smaller constructor as it is.
func (r *rewriter) constructor(e *ast.TableExpr) ast.Expr {
	elements := 0
	var parts []ast.Expr
	from := 0
	add := func(to int) {
		parts = append(parts, like(&ast.TableExpr{Fields: e.Fields[from:to:to]}, e))
		from = to
	}
	for i, f := range e.Fields {
		if f.Key != nil {
			continue
		}
		if elements > 0 && elements%MaxPart == 0 {
			single(e.Fields[i-1].Value)
			add(i)
		}
		elements++
	}
	if elements <= MaxPart {
		return e
	}
	add(len(e.Fields))
	keyed := len(e.Fields) - elements
	if last := e.Fields[len(e.Fields)-1]; last.Key == nil && isMultiple(last.Value) {
		elements--
	}
	args := []ast.Expr{r.count(e, elements), r.count(e, keyed)}
	return like(&ast.FuncCallExpr{Func: like(&ast.IdentExpr{Value: JoinName}, e), Args: append(args, parts...),
		AdjustRet: true}, e)
}

// count returns the expression of a number that is an argument of join.
func (r *rewriter) count(e *ast.TableExpr, n int) ast.Expr {
	count := like(&ast.NumberExpr{Value: strconv.Itoa(n)}, e)
	r.cost.constant(e, 'n', count.Value)
	return count
}

// isMultiple reports whether an expression may have several values or none.
func isMultiple(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	case *ast.Comma3Expr:
		return !e.AdjustRet
	}
	return false
}
