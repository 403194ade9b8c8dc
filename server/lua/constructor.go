package lua

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// The compiler of the virtual machine makes wrong code for some table constructors. It stores the elements that have no key
// in groups of FieldsPerFlush = 50, and
//
//   - where a whole number of groups is followed by a call or "..." whose results are to be appended, these overwrite the
//     last group: {1, 2, ..., 50, f()};
//   - where it is followed by a field with a key, the last group is stored again, from registers that hold something else
//     by then: {1, 2, ..., 50, x = 1};
//   - the groups from the 512th on go to wrong indexes.
//
// Such constructors are rewritten into others with the same result.

const (
	perFlush = 50
	// maxPart is how many elements without a key one constructor may have: those of 510 groups.
	maxPart = 510 * perFlush
)

func init() { vm.FieldsPerFlush = perFlush }

// joinName is the operator that makes one table of several. Scripts cannot write the name.
const joinName = "\x00join"

// constructor returns the expression in place of a table constructor.
func (r *rewriter) constructor(e *ast.TableExpr) ast.Expr {
	n := 0 // fields without a key
	for _, f := range e.Fields {
		if f.Key == nil {
			n++
		}
	}
	if n < perFlush {
		return e
	}
	parts, named := split(e.Fields)
	if len(parts) == 1 {
		return e
	}
	elements := -1
	if !named {
		elements = r.numberFields(e.Fields)
		last := len(e.Fields) - 1
		if e.Fields[last].Key != nil {
			return e
		}
		parts = [][]*ast.Field{e.Fields[:last:last], e.Fields[last:]}
	}
	args := []ast.Expr{}
	for i, fields := range parts {
		t := &ast.TableExpr{Fields: fields}
		setLines(t, e)
		args = append(args, t)
		if i == len(parts)-1 {
			break
		}
		single(fields[len(fields)-1].Value)
		n := elements
		if n < 0 {
			n = 0
			for _, f := range fields {
				if f.Key == nil {
					n++
				}
			}
		}
		count := &ast.NumberExpr{Value: strconv.Itoa(n)}
		setLines(count, e)
		r.cost.constant(e, 'n', count.Value)
		args = append(args, count)
	}
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: joinName}, Args: args, AdjustRet: true}
	setLines(call, e)
	setLines(call.Func, e)
	return call
}

// split divides the fields where the compiler would go wrong. named: the keys behind the first part are names, which cannot
// be indexes of its elements.
func split(fields []*ast.Field) (parts [][]*ast.Field, named bool) {
	from, n := 0, 0 // of the part: where it begins, and its fields without a key
	named = true
	for i, f := range fields {
		last := i == len(fields)-1 && f.Key == nil && isMultiple(f.Value)
		whole := n > 0 && n%perFlush == 0
		if whole && (f.Key != nil || last || n == maxPart) {
			parts = append(parts, fields[from:i:i])
			from, n = i, 0
		}
		if f.Key == nil {
			n++
		} else if _, ok := f.Key.(*ast.StringExpr); !ok && len(parts) > 0 {
			named = false
		}
	}
	return append(parts, fields[from:]), named
}

// numberFields gives keys to the fields that have none, but for the first ones and one with several values at the end. (Of
// several fields for one index then the last counts, not that without a key.)
// It returns how many fields without a key there were, that one not counted.
func (r *rewriter) numberFields(fields []*ast.Field) (n int) {
	for i, f := range fields {
		if f.Key != nil || i == len(fields)-1 && isMultiple(f.Value) {
			continue
		}
		if n++; n >= perFlush {
			key := &ast.NumberExpr{Value: strconv.Itoa(n)}
			setLines(key, f.Value)
			r.cost.constant(key, 'n', key.Value)
			f.Key = key
		}
	}
	return n
}

// isMultiple reports whether an expression may have any number of values.
func isMultiple(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	case *ast.Comma3Expr:
		return !e.AdjustRet
	}
	return false
}

func setLines(e, like ast.Expr) {
	e.SetLine(like.Line())
	e.SetLastLine(like.LastLine())
}

// joinTables is join(t1, n1, t2, n2, ..., t): the arrays of the tables behind each other in the first one, where each takes
// n places, and what they have under names.
func joinTables(L *vm.LState) int {
	t := L.CheckTable(1)
	at := 0
	for i := 3; i <= L.GetTop(); i += 2 {
		at += L.CheckInt(i - 1)
		from := L.CheckTable(i)
		appendList(L, t, at, contentsOf(from).array)
		from.ForEach(func(k, v vm.LValue) {
			if k.Type() == vm.LTString {
				t.RawSet(k, v)
			}
		})
	}
	L.Push(t)
	return 1
}
