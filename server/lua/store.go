package lua

import (
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// The virtual machine keeps t[n] in an array for every integer n up to maxArrayIndex, and fills the array up to n. So one
// instruction can take 64 MiB, and a script that stores at large indexes takes gigabytes between two looks at the memory.
// Stores whose key is not known to be harmless become calls:
//
//	t[k] = v            set(t, k, v)
//	a.x, t[k] = v, w    do local o1, o2, k2 = a, t, k  local v1, v2 = v, w  set(o2, k2, v2)  o1.x = v1 end
//	{[k] = v}           {[key(k)] = v}
//
// In the same way assignments are rewritten of which the compiler makes wrong code, as it assigns to a local variable at
// once what it should when all values are known: a, b = b, a and x = not a and b.
//
// Where there are many places, or not enough local variables, see storeByTable.
//
// set and key charge the places that would be filled before they are.

// Names of the operators set and key. Scripts cannot write them.
const (
	setName = "\x00set"
	keyName = "\x00key"
)

const (
	// smallIndex: up to it an array is filled without asking, 4 KiB.
	smallIndex = 256
	// placeBytes is what a place of an array takes, with the space that is kept for more.
	placeBytes = 20
)

// harmless reports whether a store under a key, as it is written, cannot fill an array.
func harmless(key ast.Expr) bool {
	switch k := key.(type) {
	case *ast.StringExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.FunctionExpr, *ast.TableExpr:
		return true
	case *ast.NumberExpr:
		f, ok := parseNumber(k.Value)
		return ok && f <= smallIndex
	}
	return false
}

// isLogicalToName reports whether a statement assigns the value of "and" or "or" to a variable.
func isLogicalToName(s *ast.AssignStmt) bool {
	_, isName := s.Lhs[0].(*ast.IdentExpr)
	_, isLogical := s.Rhs[0].(*ast.LogicalOpExpr)
	return isName && isLogical
}

// store returns the statement in place of an assignment.
func (r *rewriter) store(s *ast.AssignStmt) ast.Stmt {
	safe := true
	for _, l := range s.Lhs {
		place, ok := l.(*ast.AttrGetExpr)
		if ok && !harmless(place.Key) || !ok && len(s.Lhs) > 1 {
			safe = false
		}
	}
	if safe && !isLogicalToName(s) && !(r.frugal && len(s.Lhs) > maxByName) {
		return s
	}
	at := s.Lhs[0]
	if place, ok := at.(*ast.AttrGetExpr); ok && len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		return setStmt(place.Object, place.Key, single(s.Rhs[0]), at)
	}
	if len(s.Lhs) > maxByName || r.frugal {
		return storeByTable(s)
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
		id := &ast.IdentExpr{Value: name}
		setLines(id, at)
		return id
	}
	for _, l := range s.Lhs {
		var one ast.Stmt
		switch l := l.(type) {
		case *ast.AttrGetExpr:
			object := local(l.Object, places)
			if harmless(l.Key) {
				to := &ast.AttrGetExpr{Object: object, Key: l.Key}
				setLines(to, l)
				one = &ast.AssignStmt{Lhs: []ast.Expr{to}, Rhs: []ast.Expr{local(nil, values)}}
			} else {
				key := local(l.Key, places)
				one = setStmt(object, key, local(nil, values), l)
			}
		default:
			one = &ast.AssignStmt{Lhs: []ast.Expr{l}, Rhs: []ast.Expr{local(nil, values)}}
		}
		stores = append(stores, one)
	}
	block.Stmts = []ast.Stmt{places, values}
	if len(places.Names) == 0 {
		block.Stmts = block.Stmts[1:]
	}
	for i := len(stores) - 1; i >= 0; i-- {
		block.Stmts = append(block.Stmts, stores[i])
	}
	for _, st := range append(block.Stmts, block) {
		st.SetLine(s.Line())
		st.SetLastLine(s.LastLine())
	}
	return block
}

const (
	// maxByName is how many places an assignment may have for which local variables are made: a function has 200.
	maxByName = 20
	// partSize is how many elements of a table constructor are made at once; fewer than perFlush.
	partSize = 40
)

// storeByTable returns the statement in place of an assignment to many places. It needs one local variable:
//
//	do local all = {{{o1, k1, ..., o20, k20}, {o21, ...}, ...}, {{v1, ..., v40}, {v41, ...}, ...}}
//	set(all[1][n][39], all[1][n][40], all[2][m][40]) ... set(all[1][1][1], all[1][1][2], all[2][1][1]) end
func storeByTable(s *ast.AssignStmt) ast.Stmt {
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
	const name = "\x00all"
	read := func(which, i int) ast.Expr {
		part := i / partSize
		if which == values { // what the last expression has more is in its part
			part = min(part, (len(s.Rhs)-1)/partSize)
		}
		var e ast.Expr = like(&ast.IdentExpr{Value: name}, at)
		for _, n := range []int{which, part + 1, i - part*partSize + 1} {
			e = like(&ast.AttrGetExpr{Object: e, Key: number(n)}, at)
		}
		return e
	}
	var operands []ast.Expr
	var stores []ast.Stmt
	for i, l := range s.Lhs {
		value := read(values, i)
		if l, ok := l.(*ast.AttrGetExpr); ok {
			n := len(operands)
			operands = append(operands, single(l.Object), single(l.Key))
			stores = append(stores, setStmt(read(places, n), read(places, n+1), value, l))
			continue
		}
		stores = append(stores, &ast.AssignStmt{Lhs: []ast.Expr{l}, Rhs: []ast.Expr{value}})
	}
	all := &ast.TableExpr{Fields: []*ast.Field{{Value: parts(operands)}, {Value: parts(slices.Clone(s.Rhs))}}}
	block := &ast.DoBlockStmt{Stmts: []ast.Stmt{&ast.LocalAssignStmt{Names: []string{name}, Exprs: []ast.Expr{like(all, at)}}}}
	slices.Reverse(stores)
	block.Stmts = append(block.Stmts, stores...)
	for _, st := range append(block.Stmts, block) {
		st.SetLine(s.Line())
		st.SetLastLine(s.LastLine())
	}
	return block
}

func like[E ast.Expr](e E, at ast.Expr) E {
	setLines(e, at)
	return e
}

func setStmt(object, key, value, at ast.Expr) ast.Stmt {
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: setName}, Args: []ast.Expr{object, single(key), value}}
	setLines(call, at)
	setLines(call.Func, at)
	s := &ast.FuncCallStmt{Expr: call}
	s.SetLine(at.Line())
	s.SetLastLine(at.LastLine())
	return s
}

// fieldKey returns the key of a field of a constructor in place of another.
func fieldKey(key ast.Expr) ast.Expr {
	if harmless(key) {
		return key
	}
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: keyName}, Args: []ast.Expr{single(key)}, AdjustRet: true}
	setLines(call, key)
	setLines(call.Func, key)
	return call
}

// setField is set(t, k, v), the assignment.
func setField(L *vm.LState) int {
	object, key, value := L.Get(1), L.Get(2), L.Get(3)
	if t, ok := object.(*vm.LTable); ok && t.Metatable == vm.LNil {
		setRaw(L, t, key, value)
		return 0
	}
	for range vm.MaxTableGetLoop {
		t, isTable := object.(*vm.LTable)
		if isTable && t.RawGet(key) != vm.LNil {
			setRaw(L, t, key, value)
			return 0
		}
		to := metaField(L, object, "__newindex")
		if to == vm.LNil {
			if !isTable {
				if object == L.Get(1) {
					raise(L, "attempt to index %s", callOperand(L, 1))
				}
				raise(L, "attempt to index a %s value", object.Type())
			}
			setRaw(L, t, key, value)
			return 0
		}
		if isTable && isReadOnly(t) {
			raise(L, textReadOnly)
		}
		if to.Type() == vm.LTFunction {
			L.Push(to)
			L.Push(object)
			L.Push(key)
			L.Push(value)
			L.Call(3, 0)
			return 0
		}
		object = to
	}
	raise(L, "loop in settable")
	return 0
}

// newKey is key(k): it charges what a new table with one value there takes.
func newKey(L *vm.LState) int {
	if n, ok := arrayIndex(L.Get(1)); ok && n > smallIndex {
		charge(L, n*placeBytes)
	}
	L.SetTop(1)
	return 1
}

// setRaw sets t[key] without metamethods.
func setRaw(L *vm.LState, t *vm.LTable, key, value vm.LValue) {
	switch k := key.(type) {
	case vm.LNumber:
		if n, ok := arrayIndex(k); ok {
			setInt(L, t, n, value)
			return
		}
		if math.IsNaN(float64(k)) {
			raise(L, "table index is NaN")
		}
	case *vm.LNilType:
		raise(L, "table index is nil")
	}
	t.RawSet(key, value)
}

// setInt sets t[n] without metamethods. What places between the end of the array and n take is charged.
func setInt(L *vm.LState, t *vm.LTable, n int, value vm.LValue) {
	if isReadOnly(t) {
		raiseReadOnly(L)
	}
	if n > smallIndex && n < maxArrayIndex {
		if hole := n - arrayLen(t); hole > smallIndex {
			if value == vm.LNil {
				return // there is nothing
			}
			charge(L, hole*placeBytes)
		}
	}
	t.RawSetInt(n, value)
}

// arrayIndex returns the index that a key has in the array of a table.
func arrayIndex(key vm.LValue) (int, bool) {
	k, ok := key.(vm.LNumber)
	if !ok || !(k >= 1 && k < maxArrayIndex) {
		return 0, false
	}
	n := int(k)
	return n, vm.LNumber(n) == k
}

// arrayLen returns how long the array of a table is, with empty places at its end: the library does not say it.
func arrayLen(t *vm.LTable) int { return reflect.ValueOf(t).Elem().FieldByIndex(arrayField).Len() }
