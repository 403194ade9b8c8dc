package luac

import vm "github.com/yuin/gopher-lua"

// primary reads a variable or an expression in parentheses, and the fields and calls behind it.
func (p *parser) primary(e *exp) {
	switch p.token.kind {
	case '(':
		line := p.line
		p.next()
		p.expression(e)
		p.expectClosing(')', '(', line)
		p.load(e)
	case tokenName:
		p.resolve(e, p.name())
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
		case ':':
			p.next()
			p.method(e, p.name())
			p.call(e)
		case '(', '{', tokenString:
			p.toNext(e)
			p.call(e)
		default:
			return
		}
	}
}

// field reads a point or colon and the name behind it.
func (p *parser) field(e *exp) {
	p.toAny(e)
	p.next()
	var key exp
	p.text(&key, p.name())
	p.index(e, &key)
}

// bracketed reads an expression between brackets.
func (p *parser) bracketed(e *exp) {
	p.next()
	p.expression(e)
	p.toValue(e)
	p.expect(']')
}

// call reads the arguments of a call. The function is in a register, for a method with the object behind it.
func (p *parser) call(e *exp) {
	var last exp
	line := p.line
	switch p.token.kind {
	case '(':
		if line != p.lastLine {
			p.failHere("ambiguous syntax (function call x new statement)")
		}
		if p.next(); p.token.kind != ')' {
			p.expressions(&last)
			if last.isMultiple() {
				p.results(&last, allValues)
			}
		}
		p.expectClosing(')', '(', line)
	case '{':
		p.constructor(&last)
	case tokenString:
		p.text(&last, p.token.symbol)
		p.next()
	default:
		p.failHere("function arguments expected")
	}
	register, arguments := e.info, int32(allValues)
	if !last.isMultiple() {
		if last.kind != expNone {
			p.toNext(&last)
		}
		arguments = p.fn.free - (register + 1)
	}
	e.set(expCall, p.emit(abc(vm.OP_CALL, register, arguments+1, 2)))
	p.setLine(line)
	p.fn.free = register + 1
}

// constructor reads a table constructor.
func (p *parser) constructor(e *exp) {
	line := p.line
	pc := p.emit(abc(vm.OP_NEWTABLE, 0, 0, 0))
	e.set(expRelocation, pc)
	var item exp // the last one without a key
	elements, keyed, pending := 0, 0, int32(0)
	p.toNext(e)
	p.expect('{')
	for p.token.kind != '}' {
		if item.kind != expNone {
			p.toNext(&item)
			item.kind = expNone
			if pending == PerFlush {
				p.flush(e.info, elements, pending)
				pending = 0
			}
		}
		isField := p.token.kind == '['
		if p.token.kind == tokenName {
			p.scan(&p.ahead)
			isField = p.ahead.kind == '='
		}
		if isField {
			p.keyed(e.info)
			keyed++
		} else {
			p.expression(&item)
			elements++
			pending++
		}
		if !p.acceptToken(',') && !p.acceptToken(';') {
			break
		}
	}
	p.expectClosing('}', '{', line)
	switch {
	case pending == 0:
	case item.isMultiple():
		p.results(&item, allValues)
		p.flush(e.info, elements, allValues)
		elements--
	default:
		if item.kind != expNone {
			p.toNext(&item)
		}
		p.flush(e.info, elements, pending)
	}
	*p.at(pc) = setC(setB(*p.at(pc), sizeCode(elements)), sizeCode(keyed))
}

// keyed reads a field with a key of a table in a register.
func (p *parser) keyed(table int32) {
	free := p.fn.free
	var key, value exp
	if p.token.kind == tokenName {
		p.text(&key, p.name())
	} else {
		p.bracketed(&key)
	}
	p.expect('=')
	k := p.operand(&key)
	p.expression(&value)
	p.setField(table, k, p.operand(&value))
	p.fn.free = free
}

// function reads a function from its parameters on.
func (p *parser) function(e *exp, isMethod bool, line int) {
	p.openFunction(line)
	p.expect('(')
	if isMethod {
		p.newLocal(p.symbols.text("self"), 0)
		p.enterScope(1)
	}
	p.parameters()
	p.expect(')')
	p.statements()
	p.fn.proto.LastLineDefined = p.line
	p.expectClosing(tokenEnd, tokenFunction, line)
	upvalues := p.fn.upvalues
	proto := p.closeFunction()
	fn := p.fn
	if len(fn.proto.FunctionPrototypes) == maxConstants {
		p.failWhole("constant table overflow")
	}
	fn.proto.FunctionPrototypes = append(fn.proto.FunctionPrototypes, proto)
	e.set(expRelocation, p.emit(abx(vm.OP_CLOSURE, 0, int32(len(fn.proto.FunctionPrototypes)-1))))
	for _, id := range upvalues {
		if v := &p.variables[id]; v.function == fn {
			p.emit(abc(vm.OP_MOVE, 0, v.register, 0))
		} else {
			p.emit(abc(vm.OP_GETUPVAL, 0, p.capture(fn, id), 0))
		}
	}
}

// parameters reads the names of parameters.
func (p *parser) parameters() {
	fn := p.fn
	n := 0
	if p.token.kind != ')' {
		for more := true; more; more = fn.proto.IsVarArg == 0 && p.acceptToken(',') {
			switch p.token.kind {
			case tokenName:
				p.newLocal(p.name(), n)
			case tokenDots:
				p.next()
				p.newLocal(p.symbols.text("arg"), n)
				fn.proto.IsVarArg = vm.VarArgHasArg | vm.VarArgIsVarArg | vm.VarArgNeedsArg
			default:
				p.failHere("<name> or '...' expected")
			}
			n++
		}
	}
	p.enterScope(n)
	fn.proto.NumParameters = uint8(fn.active) - fn.proto.IsVarArg&vm.VarArgHasArg
	p.reserve(int32(fn.active))
}
