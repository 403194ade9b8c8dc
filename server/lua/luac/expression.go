package luac

import (
	"math"

	"github.com/basaltdb/basalt/internal/libm"

	vm "github.com/yuin/gopher-lua"
)

// operator is a binary operator.
type operator struct {
	kind operatorKind
	code int // its instruction
	// Of a comparison: the jump behind the instruction is taken if its result is this one; the operands are swapped.
	when    int32
	swapped bool
	// Left and right priority; 0 = not an operator.
	left, right int8
}

type operatorKind int8

const (
	opArithmetic operatorKind = iota
	opConcat
	opRelational
	opAnd
	opOr
)

// unaryPriority is the priority of unary operators.
const unaryPriority = 8

var operators = [...]operator{
	'+':         {opArithmetic, vm.OP_ADD, 0, false, 6, 6},
	'-':         {opArithmetic, vm.OP_SUB, 0, false, 6, 6},
	'*':         {opArithmetic, vm.OP_MUL, 0, false, 7, 7},
	'/':         {opArithmetic, vm.OP_DIV, 0, false, 7, 7},
	'%':         {opArithmetic, vm.OP_MOD, 0, false, 7, 7},
	'^':         {opArithmetic, vm.OP_POW, 0, false, 10, 9},
	tokenConcat: {opConcat, vm.OP_CONCAT, 0, false, 5, 4},
	tokenNe:     {opRelational, vm.OP_EQ, 0, false, 3, 3},
	tokenEq:     {opRelational, vm.OP_EQ, 1, false, 3, 3},
	'<':         {opRelational, vm.OP_LT, 1, false, 3, 3},
	tokenLe:     {opRelational, vm.OP_LE, 1, false, 3, 3},
	'>':         {opRelational, vm.OP_LT, 1, true, 3, 3},
	tokenGe:     {opRelational, vm.OP_LE, 1, true, 3, 3},
	tokenAnd:    {opAnd, 0, 0, false, 2, 2},
	tokenOr:     {opOr, 0, 0, false, 1, 1},
	tokenEOF:    {},
}

// expressions parses a list of at least one expression, and returns their number. e is the last one.
func (p *parser) expressions(e *exp) (n int) {
	p.expression(e)
	for n = 1; p.acceptToken(','); n++ {
		p.toNext(e)
		p.expression(e)
	}
	return n
}

// expression reads one expression.
func (p *parser) expression(e *exp) { p.subexpression(e, 0) }

// subexpression parses an expression up to the first operator whose priority does not exceed a limit.
func (p *parser) subexpression(e *exp, limit int8) {
	p.enterLevel()
	switch kind := p.token.kind; kind {
	case tokenNot, '-', '#':
		p.next()
		p.subexpression(e, unaryPriority)
		p.unary(kind, e)
	default:
		p.simple(e)
	}
	for {
		op := &operators[p.token.kind]
		if op.left <= limit {
			break
		}
		p.next()
		p.left(op, e)
		var right exp
		p.subexpression(&right, op.right)
		p.right(op, e, &right)
	}
	p.level--
}

// number makes an expression a number.
func (e *exp) number(f float64) {
	e.set(expNumber, 0)
	e.value = f
}

// unary handles a unary operator after its operand was parsed.
func (p *parser) unary(kind tokenKind, e *exp) {
	switch kind {
	case '-':
		if e.isNumeral() {
			e.number(-e.value)
			return
		}
		p.toAny(e)
		p.arithmetic(vm.OP_UNM, e, nil)
	case '#':
		p.toAny(e)
		p.arithmetic(vm.OP_LEN, e, nil)
	case tokenNot:
		p.not(e)
	}
}

// left handles a binary operator after its left operand was parsed.
func (p *parser) left(op *operator, e *exp) {
	switch op.kind {
	case opAnd:
		p.goIfTrue(e)
	case opOr:
		p.goIfFalse(e)
	case opConcat:
		p.toNext(e)
	case opRelational:
		p.operand(e)
	case opArithmetic:
		if !e.isNumeral() {
			p.operand(e)
		}
	}
}

// right handles a binary operator after both operands were parsed.
func (p *parser) right(op *operator, a, b *exp) {
	switch op.kind {
	case opAnd:
		p.load(b)
		b.whenFalse = p.join(b.whenFalse, a.whenFalse)
		*a = *b
	case opOr:
		p.load(b)
		b.whenTrue = p.join(b.whenTrue, a.whenTrue)
		*a = *b
	case opConcat:
		p.toValue(b)
		if b.kind == expRelocation && opcode(*p.at(b.info)) == vm.OP_CONCAT { // one instruction for all
			p.releaseExp(a)
			*p.at(b.info) = setB(*p.at(b.info), a.info)
			a.kind, a.info = expRelocation, b.info
		} else {
			p.toNext(b)
			p.arithmetic(vm.OP_CONCAT, a, b)
		}
	case opRelational:
		p.compare(op, a, b)
	case opArithmetic:
		if a.isNumeral() && b.isNumeral() {
			if f, ok := fold(op.code, a.value, b.value); ok {
				a.number(f)
				return
			}
		}
		p.arithmetic(op.code, a, b)
	}
}

// fold folds constants like Lua's compiler: no division by 0, and no NaN.
func fold(op int, a, b float64) (f float64, ok bool) {
	switch op {
	case vm.OP_ADD:
		f = a + b
	case vm.OP_SUB:
		f = a - b
	case vm.OP_MUL:
		f = a * b
	case vm.OP_DIV:
		f = a / b
		ok = b == 0
	case vm.OP_MOD:
		product := math.Floor(a/b) * b // a separate statement, so that it is rounded
		f = a - float64(product)
		ok = b == 0
	case vm.OP_POW:
		f = libm.Pow(a, b)
	}
	return f, !ok && !math.IsNaN(f)
}

// simple parses an expression without operators.
func (p *parser) simple(e *exp) {
	switch p.token.kind {
	case tokenNumber:
		e.number(p.token.value)
	case tokenString:
		p.text(e, p.token.symbol)
	case tokenNil:
		e.set(expNil, 0)
	case tokenTrue:
		e.set(expTrue, 0)
	case tokenFalse:
		e.set(expFalse, 0)
	case tokenDots:
		if p.fn.proto.IsVarArg == 0 {
			p.failHere("cannot use '...' outside a vararg function")
		}
		p.fn.proto.IsVarArg &^= vm.VarArgNeedsArg
		e.set(expDots, p.emit(abc(vm.OP_VARARG, 0, 1, 0)))
	case '{':
		p.constructor(e)
		return
	case tokenFunction:
		p.next()
		p.function(e, false, p.line)
		return
	default:
		p.primary(e)
		return
	}
	p.next()
}
