package syntax

import "github.com/yuin/gopher-lua/ast"

// primary reads a variable or an expression in parentheses, and the fields and calls behind it.
func (p *parser) primary(e *exp) {
	switch p.token.kind {
	case '(':
		p.parentheses(e)
	case tokenName:
		p.variable(e)
	default:
		p.failHere("unexpected symbol")
	}
	for {
		switch p.token.kind {
		case '.':
			p.field(e)
		case '[':
			p.toAny(e)
			var key exp
			p.bracketed(&key)
			p.index(e, &key)
			e.node = at(p, &ast.AttrGetExpr{Object: e.node, Key: key.node})
			p.deepen(e, key.depth)
		case ':':
			p.next()
			name := p.name()
			p.method(e, name)
			p.call(e, &ast.FuncCallExpr{Receiver: e.node, Method: p.textOf(name)})
		case '(', '{', tokenString:
			p.toNext(e)
			p.call(e, &ast.FuncCallExpr{Func: e.node})
		default:
			return
		}
	}
}

func (p *parser) parentheses(e *exp) {
	line := p.line
	p.next()
	p.expression(e)
	p.expectClosing(')', '(', line)
	if e.isMultiple() {
		switch node := e.node.(type) {
		case *ast.FuncCallExpr:
			node.AdjustRet = true
		case *ast.Comma3Expr:
			node.AdjustRet = true
		}
	}
	p.load(e)
}

// variable reads a name.
func (p *parser) variable(e *exp) {
	line := p.line
	id := p.name()
	e.set(p.resolve(id))
	if e.kind == expGlobal {
		p.constant(id)
	}
	e.node = &ast.IdentExpr{Value: p.textOf(id)}
	e.node.SetLine(line)
}

// field reads a point or colon and the name behind it.
func (p *parser) field(e *exp) (name string) {
	p.toAny(e)
	p.next()
	id := p.name()
	var key exp
	p.text(&key, id)
	p.index(e, &key)
	name = p.textOf(id)
	e.node = at(p, &ast.AttrGetExpr{Object: e.node, Key: at(p, &ast.StringExpr{Value: name})})
	p.deepen(e, 0)
	return name
}

// bracketed reads an expression between brackets.
func (p *parser) bracketed(e *exp) {
	p.next()
	p.expression(e)
	p.toValue(e)
	p.expect(']')
}

// call reads the arguments of a call. The function is in a register, for a method with the object behind it.
func (p *parser) call(e *exp, node *ast.FuncCallExpr) {
	var last exp
	line := p.line
	switch p.token.kind {
	case '(':
		if line != p.lastLine {
			p.failHere("ambiguous syntax (function call x new statement)")
		}
		if p.next(); p.token.kind != ')' {
			node.Args = p.expressions(&last)
			if last.isMultiple() {
				p.results(&last)
			}
		}
		p.expectClosing(')', '(', line)
	case '{':
		p.constructor(&last)
		node.Args = []ast.Expr{last.node}
	case tokenString:
		node.Args = []ast.Expr{p.stringNode(&last)}
		p.next()
	default:
		p.failHere("function arguments expected")
	}
	register := e.info
	if !last.isMultiple() && last.kind != expNone {
		p.toNext(&last)
	}
	p.emit()
	e.set(expCall, register)
	node.SetLine(line)
	e.node = node
	p.deepen(e, last.depth)
	p.fn.free = register + 1
}

// constructor reads a table constructor.
func (p *parser) constructor(e *exp) {
	line := p.line
	node := &ast.TableExpr{}
	keyLine := 0 // of the first field that may have a key which is not allowed
	p.emit()
	e.set(expNone, 0)
	e.relocation(instOther)
	var item exp // the last one without a key
	elements, pending := 0, 0
	var depth int32
	p.toNext(e)
	p.expect('{')
	for p.token.kind != '}' {
		if item.kind != expNone {
			p.toNext(&item)
			item.kind = expNone
			if pending == perFlush {
				p.flush(e.info, elements)
				pending = 0
			}
		}
		isField := p.token.kind == '['
		if p.token.kind == tokenName {
			p.scan(&p.ahead)
			isField = p.ahead.kind == '='
		}
		if isField {
			field := p.keyed(&depth)
			if _, ok := field.Key.(ast.ConstExpr); !ok && keyLine == 0 {
				keyLine = p.lastLine
			}
			node.Fields = append(node.Fields, field)
		} else {
			p.expression(&item)
			depth = max(depth, item.depth)
			elements++
			pending++
			node.Fields = append(node.Fields, &ast.Field{Value: item.node})
		}
		if !p.acceptToken(',') && !p.acceptToken(';') {
			break
		}
	}
	node.SetLastLine(p.line)
	p.expectClosing('}', '{', line)
	if pending > 0 {
		if item.isMultiple() {
			p.results(&item)
		} else if item.kind != expNone {
			p.toNext(&item)
		}
		p.flush(e.info, elements)
	}
	if keyLine == 0 {
		keyLine = line
	}
	node.SetLine(keyLine)
	e.node = node
	p.deepen(e, depth)
}

// keyed reads a field with a key. depth is that of the deepest field so far.
func (p *parser) keyed(depth *int32) *ast.Field {
	free := p.fn.free
	var key, value exp
	if p.token.kind == tokenName {
		key.node = p.stringNode(&key)
		p.next()
	} else {
		p.bracketed(&key)
	}
	p.expect('=')
	p.operand(&key)
	p.expression(&value)
	p.operand(&value)
	p.emit()
	p.fn.free = free
	*depth = max(*depth, key.depth, value.depth)
	return &ast.Field{Key: key.node, Value: value.node}
}

// function reads a function from its parameters on.
func (p *parser) function(e *exp, isMethod bool, line int) *ast.FunctionExpr {
	node := &ast.FunctionExpr{ParList: &ast.ParList{Names: []string{}}}
	node.SetLine(line)
	deepest := p.deepest
	p.deepest = 0
	p.openFunction(line)
	p.expect('(')
	if isMethod {
		p.newLocal(p.symbols.text("self"), 0)
		p.enterScope(1)
	}
	p.parameters(node.ParList)
	p.expect(')')
	node.Stmts = p.statements()
	node.SetLastLine(p.line)
	p.expectClosing(tokenEnd, tokenFunction, line)
	upvalues := len(p.fn.upvalues)
	p.closeFunction()
	if p.fn.functions == maxConstants {
		p.failWhole("constant table overflow")
	}
	p.fn.functions++
	for range 1 + upvalues {
		p.emit()
	}
	e.set(expNone, 0)
	e.relocation(instOther)
	e.node = node
	e.depth, p.deepest = p.deepest, deepest
	p.deepen(e, 0)
	return node
}

// parameters reads the names of parameters.
func (p *parser) parameters(list *ast.ParList) {
	n := 0
	if p.token.kind != ')' {
		for more := true; more; more = !list.HasVargs && p.acceptToken(',') {
			switch p.token.kind {
			case tokenName:
				name := p.name()
				p.newLocal(name, n)
				list.Names = append(list.Names, p.textOf(name))
			case tokenDots:
				p.next()
				p.newLocal(p.symbols.text("arg"), n)
				list.HasVargs, p.fn.isVararg = true, true
			default:
				p.failHere("<name> or '...' expected")
			}
			n++
		}
	}
	p.enterScope(n)
	p.reserve(int32(p.fn.active))
}
