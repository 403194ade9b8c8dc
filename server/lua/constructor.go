package lua

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"

	vm "github.com/yuin/gopher-lua"
)

// A table constructor is compiled to NEWTABLE, with the numbers of elements without and with a key; SETTABLE or
// SETTABLEKS for each of the latter; and SETLIST for each group of FieldsPerFlush = 50 of the former, which are in
// registers until then. The compiler of the virtual machine goes wrong in some of them:
//
//   - if a whole number of groups is followed by a call or "...", whose results must be appended, the results overwrite
//     the last group: {1, 2, ..., 50, f()};
//   - if it is followed by a field with a key, the last group is stored a second time, from registers that hold other
//     values by then: {1, 2, ..., 50, x = 1};
//   - a multiple value at the end is counted as an element with a key;
//   - the groups from the 512th on are stored at wrong indexes.
//
// So its code is corrected here, and constructors of more elements than that are rewritten as several.

const (
	perFlush = 50
	// maxPart is the max number of elements without a key in one constructor: those of 510 groups.
	maxPart = 510 * perFlush
)

func init() { vm.FieldsPerFlush = perFlush }

// fitConstructors corrects the code of the constructors in a function, and in those within it.
func fitConstructors(p *vm.FunctionProto) {
	type table struct {
		at     int // pc of NEWTABLE
		keyed  int // fields so far
		groups int // stored groups
	}
	tables := map[int]*table{} // by register: of nested tables, the one that ends last comes first
	for pc, inst := range p.Code {
		t := tables[argA(inst)]
		switch opcode(inst) {
		case vm.OP_NEWTABLE:
			tables[argA(inst)] = &table{at: pc}
		case vm.OP_SETTABLE, vm.OP_SETTABLEKS:
			if t != nil {
				t.keyed++
			}
		case vm.OP_SETLIST:
			switch n, before := argB(inst), p.Code[pc-1]; {
			case n == 0: // all remaining values
				p.Code[t.at] = p.Code[t.at]&^(0x1ff<<9) | uint32(sizeCode(t.keyed))<<9
			case n == perFlush && argA(before) == argA(inst) && (opcode(before) == vm.OP_SETTABLE ||
				opcode(before) == vm.OP_SETTABLEKS):
				p.Code[pc] = uint32(vm.OP_NOP) << 26 // after a field with a key: a repetition of the last group
				continue
			}
			t.groups++
			p.Code[pc] = inst&^(0x1ff<<9) | uint32(t.groups)<<9
		}
	}
	for _, inner := range p.FunctionPrototypes {
		fitConstructors(inner)
	}
}

// NEWTABLE encodes its numbers in 9 bits: those above 15 with 3 bits of mantissa, rounded up.

func sizeCode(n int) int {
	e := 0
	for ; n >= 16; e++ {
		n = (n + 1) >> 1
	}
	if n < 8 {
		return n
	}
	return (e+1)<<3 | (n - 8)
}

func codedSize(n int) int {
	if n >= 16 {
		n = (n&7 + 8) << (n>>3 - 1)
	}
	return n
}

// joinName is an operator that combines several tables. Scripts cannot write the name.
const joinName = "\x00join"

// constructor returns the replacement of a table constructor: join(elements, keyed, {1, ..., 25500}, {25501, ...},
// ...).
func (r *rewriter) constructor(e *ast.TableExpr) ast.Expr {
	elements := 0
	var parts []ast.Expr
	from := 0
	add := func(to int) {
		part := &ast.TableExpr{Fields: e.Fields[from:to:to]}
		setLines(part, e)
		parts = append(parts, part)
		from = to
	}
	for i, f := range e.Fields {
		if f.Key != nil {
			continue
		}
		if elements > 0 && elements%maxPart == 0 {
			single(e.Fields[i-1].Value)
			add(i)
		}
		elements++
	}
	if elements <= maxPart {
		return e
	}
	add(len(e.Fields))
	keyed := len(e.Fields) - elements
	if last := e.Fields[len(e.Fields)-1]; last.Key == nil && isMultiple(last.Value) {
		elements--
	}
	args := []ast.Expr{r.count(e, elements), r.count(e, keyed)}
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: joinName}, Args: append(args, parts...), AdjustRet: true}
	setLines(call, e)
	setLines(call.Func, e)
	return call
}

// count returns an expression for a number in a constructor.
func (r *rewriter) count(e *ast.TableExpr, n int) ast.Expr {
	count := &ast.NumberExpr{Value: strconv.Itoa(n)}
	setLines(count, e)
	r.cost.constant(e, 'n', count.Value)
	return count
}

// joinTables is join(elements, keyed, t1, t2, ...): a table with the concatenated arrays of the others, of which all
// but the last have maxPart places, and with their other keys.
func joinTables(L *vm.LState) int {
	t := newTable(codedSize(sizeCode(L.CheckInt(1))), codedSize(sizeCode(L.CheckInt(2))))
	for i := 3; i <= L.GetTop(); i++ {
		from := L.CheckTable(i)
		list := contentsOf(from).array
		for k, v := range each(from) {
			if n, ok := arrayIndex(k); !ok || n > len(list) {
				store(L, t, k, v)
			}
		}
		appendList(L, t, (i-3)*maxPart, list)
	}
	L.Push(t)
	return 1
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

func setLines(e, like ast.Expr) {
	e.SetLine(like.Line())
	e.SetLastLine(like.LastLine())
}
