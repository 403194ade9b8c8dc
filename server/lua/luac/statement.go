package luac

import vm "github.com/yuin/gopher-lua"

// statement reads one statement. last: no other may follow.
func (p *parser) statement() (last bool) {
	line := p.line
	switch p.token.kind {
	case tokenIf:
		p.ifStatement(line)
	case tokenWhile:
		p.whileStatement(line)
	case tokenDo:
		p.next()
		p.body()
		p.expectClosing(tokenEnd, tokenDo, line)
	case tokenFor:
		p.forStatement(line)
	case tokenRepeat:
		p.repeatStatement(line)
	case tokenFunction:
		p.functionStatement(line)
	case tokenLocal:
		if p.next(); p.acceptToken(tokenFunction) {
			p.localFunction()
		} else {
			p.localStatement()
		}
	case tokenReturn:
		p.returnStatement()
		return true
	case tokenBreak:
		p.next()
		p.leaveLoop()
		return true
	default:
		p.expressionStatement()
	}
	return false
}

// condition reads the condition of a statement, and returns the jumps for the case that it is false.
func (p *parser) condition() jumps {
	var e exp
	p.expression(&e)
	if e.kind == expNil {
		e.kind = expFalse
	}
	p.goIfTrue(&e)
	return e.whenFalse
}

func (p *parser) ifStatement(line int) {
	skip := p.branch()
	out := noJumps // to the end
	for p.token.kind == tokenElseif {
		out = p.join(out, p.jump())
		p.landHere(skip)
		skip = p.branch()
	}
	if p.token.kind == tokenElse {
		out = p.join(out, p.jump())
		p.landHere(skip)
		p.next()
		p.body()
	} else {
		out = p.join(out, skip)
	}
	p.landHere(out)
	p.expectClosing(tokenEnd, tokenIf, line)
}

// branch reads a condition and the block behind it.
func (p *parser) branch() (skip jumps) {
	p.next() // if or elseif
	skip = p.condition()
	p.expect(tokenThen)
	p.body()
	return skip
}

func (p *parser) whileStatement(line int) {
	p.next()
	start := p.label()
	out := p.condition()
	var loop block
	p.enterBlock(&loop, true)
	p.expect(tokenDo)
	p.body()
	p.land(p.jump(), start)
	p.expectClosing(tokenEnd, tokenWhile, line)
	p.leaveBlock()
	p.landHere(out)
}

func (p *parser) repeatStatement(line int) {
	start := p.label()
	var loop, scope block
	p.enterBlock(&loop, true)
	p.enterBlock(&scope, false)
	p.next()
	p.statements()
	p.expectClosing(tokenUntil, tokenRepeat, line)
	again := p.condition()
	if !scope.captured {
		p.leaveBlock()
		p.land(again, start)
	} else {
		p.leaveLoop()
		p.landHere(again)
		p.leaveBlock()
		p.land(p.jump(), start)
	}
	p.leaveBlock()
}

// leaveLoop emits what leaves the innermost loop.
func (p *parser) leaveLoop() {
	captured := false
	b := p.fn.block
	for b != nil && !b.isLoop {
		captured = captured || b.captured
		b = b.outer
	}
	if b == nil {
		p.failHere("no loop to break")
	}
	if captured {
		p.emit(abc(vm.OP_CLOSE, int32(b.active), 0, 0))
	}
	b.breaks = p.join(b.breaks, p.jump())
}

// Names of the variables that a loop has for itself. Programs cannot write them.
const (
	forIndex     = "(for index)"
	forLimit     = "(for limit)"
	forStep      = "(for step)"
	forGenerator = "(for generator)"
	forState     = "(for state)"
	forControl   = "(for control)"
)

func (p *parser) forStatement(line int) {
	var loop block
	p.enterBlock(&loop, true)
	p.next()
	name := p.name()
	switch p.token.kind {
	case '=':
		p.numberFor(name, line)
	case ',', tokenIn:
		p.genericFor(name)
	default:
		p.failHere("'=' or 'in' expected")
	}
	p.expectClosing(tokenEnd, tokenFor, line)
	p.leaveBlock()
}

// controls makes the variables that a loop has for itself.
func (p *parser) controls(names ...string) {
	for i, name := range names {
		p.newLocal(p.symbols.text(name), i)
	}
}

func (p *parser) numberFor(name symbolID, line int) {
	base := p.fn.free
	p.controls(forIndex, forLimit, forStep)
	p.newLocal(name, 3)
	p.expect('=')
	p.nextValue()
	p.expect(',')
	p.nextValue()
	if p.acceptToken(',') {
		p.nextValue()
	} else {
		p.emit(abx(vm.OP_LOADK, p.fn.free, p.numberConstant(1)))
		p.reserve(1)
	}
	p.forBody(base, line, 1, true)
}

// nextValue reads an expression whose value goes into the next register.
func (p *parser) nextValue() {
	var e exp
	p.expression(&e)
	p.toNext(&e)
}

func (p *parser) genericFor(name symbolID) {
	base, names := p.fn.free, 1
	p.controls(forGenerator, forState, forControl)
	p.newLocal(name, 3)
	for ; p.acceptToken(','); names++ {
		p.newLocal(p.name(), 3+names)
	}
	p.expect(tokenIn)
	line := p.line
	var e exp
	n := p.expressions(&e)
	p.adjust(3, n, &e)
	p.checkRegisters(3) // for the call of the generator
	p.forBody(base, line, names, false)
}

// forBody reads the body of a loop with n variables.
func (p *parser) forBody(base int32, line, n int, numbers bool) {
	p.enterScope(3)
	p.expect(tokenDo)
	at := p.pc()
	var start jumps
	if numbers {
		start = jumpAt(p.emit(abx(vm.OP_FORPREP, base, none+maxJump)))
	} else {
		start = p.jump()
	}
	var scope block
	p.enterBlock(&scope, false)
	p.enterScope(n)
	p.reserve(int32(n))
	p.body()
	p.leaveBlock()
	p.landHere(start)
	var back jumps
	if numbers {
		back = jumpAt(p.emit(abx(vm.OP_FORLOOP, base, none+maxJump)))
		p.setLine(line)
	} else {
		p.emit(abc(vm.OP_TFORLOOP, base, 0, int32(n)))
		p.setLine(line)
		back = p.jump()
	}
	p.land(back, at+1)
}

func (p *parser) functionStatement(line int) {
	p.next()
	var e, f exp
	p.resolve(&e, p.name())
	for p.token.kind == '.' {
		p.field(&e)
	}
	isMethod := p.token.kind == ':'
	if isMethod {
		p.field(&e)
	}
	p.function(&f, isMethod, line)
	p.store(&e, &f)
	p.setLine(line) // not that of the end
}

func (p *parser) localFunction() {
	p.newLocal(p.name(), 0)
	var e, f exp
	e.set(expLocal, p.fn.free)
	p.reserve(1)
	p.enterScope(1)
	info := p.variables[len(p.variables)-1].info
	p.function(&f, false, p.line)
	p.store(&e, &f)
	info.StartPc = int(p.pc()) // only from here on it has a value
}

func (p *parser) localStatement() {
	names, values := 0, 0
	for more := true; more; more = p.acceptToken(',') {
		p.newLocal(p.name(), names)
		names++
	}
	var e exp
	if p.acceptToken('=') {
		values = p.expressions(&e)
	}
	p.adjust(names, values, &e)
	p.enterScope(names)
}

// adjust makes as many values of a list of expressions as there are variables. e is the last one.
func (p *parser) adjust(variables, values int, e *exp) {
	extra := int32(variables - values)
	if e.isMultiple() {
		extra = max(extra+1, 0)
		p.results(e, extra)
		if extra > 1 {
			p.reserve(extra - 1)
		}
		return
	}
	if e.kind != expNone {
		p.toNext(e)
	}
	if extra > 0 {
		from := p.fn.free
		p.reserve(extra)
		p.storeNil(from, extra)
	}
}

func (p *parser) returnStatement() {
	p.next()
	first, n := int32(0), int32(0)
	if !p.endsBlock() && p.token.kind != ';' {
		var e exp
		n = int32(p.expressions(&e))
		first = int32(p.fn.active)
		switch {
		case e.isMultiple():
			p.results(&e, allValues)
			if call := p.at(e.info); e.kind == expCall && n == 1 {
				*call = *call&(1<<26-1) | uint32(vm.OP_TAILCALL)<<26
			}
			n = allValues
		case n == 1:
			first = p.toAny(&e)
		default:
			p.toNext(&e)
		}
	}
	p.emit(abc(vm.OP_RETURN, first, n+1, 0))
}

// expressionStatement reads a call or an assignment.
func (p *parser) expressionStatement() {
	var e exp
	p.primary(&e)
	if e.kind == expCall {
		p.results(&e, 0)
		return
	}
	p.assignment(&e)
}

// assignment reads an assignment from behind the first place on.
func (p *parser) assignment(first *exp) {
	var few [4]exp
	places := append(few[:0], *first)
	for {
		last := &places[len(places)-1]
		if last.kind < expLocal || last.kind > expIndexed {
			p.failHere("syntax error")
		}
		if !p.acceptToken(',') {
			break
		}
		var e exp
		p.primary(&e)
		if e.kind == expLocal {
			p.keepLocal(places, &e)
		}
		if limit := maxLevels - p.level; len(places) > limit {
			p.failLimit(p.fn, limit, "variables in assignment")
		}
		places = append(places, e)
	}
	p.expect('=')
	var e exp
	values := p.expressions(&e)
	last := len(places) - 1
	if values == len(places) {
		p.oneResult(&e)
		p.store(&places[last], &e)
		last--
	} else {
		p.adjust(len(places), values, &e)
		if values > len(places) {
			p.fn.free -= int32(values - len(places))
		}
	}
	for ; last >= 0; last-- {
		var e exp
		e.set(expRegister, p.fn.free-1)
		p.store(&places[last], &e)
	}
}

// keepLocal copies a variable that is assigned to and that places before it need.
func (p *parser) keepLocal(places []exp, local *exp) {
	needed := false
	for i := range places {
		place := &places[i]
		if place.kind != expIndexed {
			continue
		}
		if place.info == local.info {
			place.info, needed = p.fn.free, true
		}
		if place.aux == local.info {
			place.aux, needed = p.fn.free, true
		}
	}
	if needed {
		p.emit(abc(vm.OP_MOVE, p.fn.free, local.info, 0))
		p.reserve(1)
	}
}
