package syntax

import (
	"math"

	"github.com/basaltdb/basalt/internal/libm"

	"github.com/yuin/gopher-lua/ast"
)

// operator is a binary operator.
type operator struct {
	text string
	kind operatorKind
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
	'+':         {"+", opArithmetic, 6, 6},
	'-':         {"-", opArithmetic, 6, 6},
	'*':         {"*", opArithmetic, 7, 7},
	'/':         {"/", opArithmetic, 7, 7},
	'%':         {"%", opArithmetic, 7, 7},
	'^':         {"^", opArithmetic, 10, 9},
	tokenConcat: {"..", opConcat, 5, 4},
	tokenNe:     {"~=", opRelational, 3, 3},
	tokenEq:     {"==", opRelational, 3, 3},
	'<':         {"<", opRelational, 3, 3},
	tokenLe:     {"<=", opRelational, 3, 3},
	'>':         {">", opRelational, 3, 3},
	tokenGe:     {">=", opRelational, 3, 3},
	tokenAnd:    {"and", opAnd, 2, 2},
	tokenOr:     {"or", opOr, 1, 1},
	tokenEOF:    {},
}

// expressions parses a list of at least one expression. e is the last one, with the depth of the deepest.
func (p *parser) expressions(e *exp) []ast.Expr {
	p.expression(e)
	list := []ast.Expr{e.node}
	for p.acceptToken(',') {
		depth := e.depth
		p.toNext(e)
		p.expression(e)
		list = append(list, e.node)
		e.depth = max(e.depth, depth)
	}
	return list
}

// deepen counts a new node above an expression, and above others of a given depth.
func (p *parser) deepen(e *exp, others int32) {
	e.depth = max(e.depth, others) + 1
	p.checkDepth(e.depth)
}

// checkDepth records the depth of a node.
func (p *parser) checkDepth(depth int32) {
	if p.deepest = max(p.deepest, depth); p.deepest > maxDepth {
		p.failDepth()
	}
}

func (p *parser) failDepth() { p.fail("chunk has too many syntax levels", 0) }

// deepenOperator is deepen for an operator, which may be folded to a number.
func (p *parser) deepenOperator(e *exp, other int32) {
	if e.isNumeral() {
		e.depth = 0
		return
	}
	p.deepen(e, other)
}

// expression reads one expression.
func (p *parser) expression(e *exp) { p.subexpression(e, 0) }

// subexpression parses an expression up to the first operator whose priority does not exceed a limit.
func (p *parser) subexpression(e *exp, limit int8) {
	p.enterLevel()
	e.depth = 0
	switch kind := p.token.kind; kind {
	case tokenNot, '-', '#':
		p.next()
		p.subexpression(e, unaryPriority)
		p.unary(kind, e)
		p.deepenOperator(e, 0)
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
		depth := e.depth
		p.right(op, e, &right)
		e.depth = depth
		p.deepenOperator(e, right.depth)
	}
	p.level--
}

// at sets the line of a node to that of an instruction emitted now.
func at[N ast.Expr](p *parser, node N) N {
	node.SetLine(p.lastLine)
	return node
}

// number makes an expression a number.
func (p *parser) number(e *exp, f float64, text string) {
	if text == "" {
		text = numberText(f)
	}
	e.set(expNumber, 0)
	e.value, e.number = f, at(p, &ast.NumberExpr{Value: text})
	e.node = e.number
}

// unary handles a unary operator after its operand was parsed.
func (p *parser) unary(kind tokenKind, e *exp) {
	switch kind {
	case '-':
		if e.isNumeral() {
			p.number(e, -e.value, "")
			return
		}
		p.toAny(e)
		p.arithmetic(e, nil, instOther)
		e.node = at(p, &ast.UnaryMinusOpExpr{Expr: e.node})
	case '#':
		p.toAny(e)
		p.arithmetic(e, nil, instOther)
		e.node = at(p, &ast.UnaryLenOpExpr{Expr: e.node})
	case tokenNot:
		p.not(e)
		e.node = at(p, &ast.UnaryNotOpExpr{Expr: e.node})
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
	case opAnd, opOr:
		p.load(b)
		if op.kind == opAnd {
			b.whenFalse = p.join(b.whenFalse, a.whenFalse)
		} else {
			b.whenTrue = p.join(b.whenTrue, a.whenTrue)
		}
		node := at(p, &ast.LogicalOpExpr{Operator: op.text, Lhs: a.node, Rhs: b.node})
		*a = *b
		a.node = node
	case opConcat:
		p.toValue(b)
		node := &ast.StringConcatOpExpr{Lhs: a.node, Rhs: b.node}
		if b.kind == expRelocation && b.last == instConcat { // one instruction for all
			p.releaseExp(a)
			node.SetLine(b.node.Line())
			a.relocation(instConcat)
		} else {
			p.toNext(b)
			p.arithmetic(a, b, instConcat)
			at(p, node)
		}
		a.node = node
	case opRelational:
		p.compare(a, b)
		a.node = at(p, &ast.RelationalOpExpr{Operator: op.text, Lhs: a.node, Rhs: b.node})
	case opArithmetic:
		if a.isNumeral() && b.isNumeral() {
			if f, ok := fold(op.text[0], a.value, b.value); ok {
				p.number(a, f, "")
				return
			}
		}
		p.arithmetic(a, b, instOther)
		a.node = at(p, &ast.ArithmeticOpExpr{Operator: op.text, Lhs: a.node, Rhs: b.node})
	}
}

// fold folds constants like Lua's compiler: no division by 0, and no NaN.
func fold(op byte, a, b float64) (f float64, ok bool) {
	switch op {
	case '+':
		f = a + b
	case '-':
		f = a - b
	case '*':
		f = a * b
	case '/':
		f = a / b
		ok = b == 0
	case '%':
		product := math.Floor(a/b) * b // a separate statement, so that it is rounded
		f = a - float64(product)
		ok = b == 0
	case '^':
		f = libm.Pow(a, b)
	}
	return f, !ok && !math.IsNaN(f)
}

// simple parses an expression without operators.
func (p *parser) simple(e *exp) {
	switch p.token.kind {
	case tokenNumber:
		p.number(e, p.token.value, p.token.text)
	case tokenString:
		e.node = p.stringNode(e)
	case tokenNil:
		e.set(expNil, 0)
		e.node = &ast.NilExpr{}
	case tokenTrue:
		e.set(expTrue, 0)
		e.node = &ast.TrueExpr{}
	case tokenFalse:
		e.set(expFalse, 0)
		e.node = &ast.FalseExpr{}
	case tokenDots:
		if !p.fn.isVararg {
			p.failHere("cannot use '...' outside a vararg function")
		}
		p.emit()
		e.set(expDots, 0)
		e.node = &ast.Comma3Expr{}
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
	e.node.SetLine(p.line)
	p.next()
}

// stringNode makes an expression of the token, a string.
func (p *parser) stringNode(e *exp) ast.Expr {
	p.text(e, p.token.symbol)
	node := &ast.StringExpr{Value: p.textOf(p.token.symbol)}
	node.SetLine(p.line)
	return node
}
