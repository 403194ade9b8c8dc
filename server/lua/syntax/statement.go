package syntax

import "github.com/yuin/gopher-lua/ast"

// statement reads one statement. last: no other may follow.
func (p *parser) statement() (s ast.Stmt, last bool) {
	line := p.line
	switch p.token.kind {
	case tokenIf:
		s = p.ifStatement(line)
	case tokenWhile:
		s = p.whileStatement(line)
	case tokenDo:
		p.next()
		s = &ast.DoBlockStmt{Stmts: p.body()}
		s.SetLastLine(p.line)
		p.expectClosing(tokenEnd, tokenDo, line)
	case tokenFor:
		return p.forStatement(line), false
	case tokenRepeat:
		s = p.repeatStatement(line)
	case tokenFunction:
		s = p.functionStatement(line)
	case tokenLocal:
		if p.next(); p.acceptToken(tokenFunction) {
			s = p.localFunction()
		} else {
			s = p.localStatement()
		}
	case tokenReturn:
		s, last = p.returnStatement(), true
	case tokenBreak:
		p.next()
		p.leaveLoop()
		s, last = &ast.BreakStmt{}, true
	default:
		return p.expressionStatement(), false
	}
	s.SetLine(line)
	return s, last
}

// condition reads the condition of a statement, and returns the jumps for the case that it is false.
func (p *parser) condition() (ast.Expr, jumps) {
	var e exp
	p.expression(&e)
	if e.kind == expNil {
		e.kind = expFalse
	}
	p.goIfTrue(&e)
	return e.node, e.whenFalse
}

func (p *parser) ifStatement(line int) ast.Stmt {
	deepest := p.deepest // before
	p.deepest = 0
	first := &ast.IfStmt{}
	skip := p.branch(first)
	out := noJumps // to the end
	last := first
	var branches int32
	for p.token.kind == tokenElseif {
		if branches++; branches > maxDepth {
			p.failDepth()
		}
		out = p.join(out, p.jump())
		p.landHere(skip)
		s := &ast.IfStmt{}
		s.SetLine(p.line)
		skip = p.branch(s)
		last.Else = []ast.Stmt{s}
		last = s
	}
	if p.token.kind == tokenElse {
		out = p.join(out, p.jump())
		p.landHere(skip)
		p.next()
		last.Else = p.body()
	} else {
		out = p.join(out, skip)
	}
	p.landHere(out)
	p.checkDepth(p.deepest + branches)
	p.deepest = max(p.deepest, deepest)
	first.SetLastLine(p.line)
	p.expectClosing(tokenEnd, tokenIf, line)
	return first
}

// branch reads a condition and the block behind it.
func (p *parser) branch(s *ast.IfStmt) (skip jumps) {
	p.next() // if or elseif
	s.Condition, skip = p.condition()
	p.expect(tokenThen)
	s.Then = p.body()
	return skip
}

func (p *parser) whileStatement(line int) ast.Stmt {
	s := &ast.WhileStmt{}
	p.next()
	start := p.label()
	var out jumps
	s.Condition, out = p.condition()
	var loop block
	p.enterBlock(&loop, true)
	p.expect(tokenDo)
	s.Stmts = p.body()
	p.jumpBack(start)
	s.SetLastLine(p.line)
	p.expectClosing(tokenEnd, tokenWhile, line)
	p.leaveBlock()
	p.landHere(out)
	return s
}

func (p *parser) repeatStatement(line int) ast.Stmt {
	s := &ast.RepeatStmt{}
	start := p.label()
	var loop, scope block
	p.enterBlock(&loop, true)
	p.enterBlock(&scope, false)
	p.next()
	s.Stmts = p.statements()
	p.expectClosing(tokenUntil, tokenRepeat, line)
	var again jumps
	s.Condition, again = p.condition()
	s.SetLastLine(s.Condition.Line())
	if !scope.captured {
		p.leaveBlock()
		if p.fn.pc == start {
			p.landHere(again)
		} else {
			p.land(again, start)
		}
	} else {
		p.leaveLoop()
		p.landHere(again)
		p.leaveBlock()
		p.jumpBack(start)
	}
	p.leaveBlock()
	return s
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
		p.emit()
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

func (p *parser) forStatement(line int) (s ast.Stmt) {
	var loop block
	p.enterBlock(&loop, true)
	p.next()
	name := p.name()
	switch p.token.kind {
	case '=':
		s = p.numberFor(name)
	case ',', tokenIn:
		s = p.genericFor(name)
	default:
		p.failHere("'=' or 'in' expected")
	}
	s.SetLastLine(p.line)
	p.expectClosing(tokenEnd, tokenFor, line)
	p.leaveBlock()
	return s
}

// controls makes the variables that a loop has for itself.
func (p *parser) controls(names ...string) {
	for i, name := range names {
		p.newLocal(p.symbols.text(name), i)
	}
}

func (p *parser) numberFor(name symbolID) ast.Stmt {
	s := &ast.NumberForStmt{Name: p.textOf(name)}
	p.controls(forIndex, forLimit, forStep)
	p.newLocal(name, 3)
	p.expect('=')
	s.Init = p.nextValue()
	p.expect(',')
	s.Limit = p.nextValue()
	if p.acceptToken(',') {
		s.Step = p.nextValue()
	} else {
		p.constant(p.symbols.number(1))
		p.emit()
		p.reserve(1)
	}
	s.Stmts = p.forBody(s, 1, true)
	return s
}

// nextValue reads an expression whose value goes into the next register.
func (p *parser) nextValue() ast.Expr {
	var e exp
	p.expression(&e)
	p.toNext(&e)
	return e.node
}

func (p *parser) genericFor(name symbolID) ast.Stmt {
	s := &ast.GenericForStmt{Names: []string{p.textOf(name)}}
	p.controls(forGenerator, forState, forControl)
	p.newLocal(name, 3)
	for p.acceptToken(',') {
		name := p.name()
		p.newLocal(name, 3+len(s.Names))
		s.Names = append(s.Names, p.textOf(name))
	}
	p.expect(tokenIn)
	s.SetLine(p.line)
	var e exp
	s.Exprs = p.expressions(&e)
	p.adjust(3, len(s.Exprs), &e)
	p.checkRegisters(3) // for the call of the generator
	s.Stmts = p.forBody(s, len(s.Names), false)
	return s
}

// forBody reads the body of a loop with n variables. The line of a statement of numbers is where they are looked at.
func (p *parser) forBody(s ast.Stmt, n int, numbers bool) []ast.Stmt {
	p.enterScope(3)
	p.expect(tokenDo)
	at := p.fn.pc
	var start jumps
	if numbers {
		start = jumpAt(p.emit(), false)
		s.SetLine(p.lastLine)
	} else {
		start = p.jump()
	}
	var scope block
	p.enterBlock(&scope, false)
	p.enterScope(n)
	p.reserve(int32(n))
	list := p.body()
	p.leaveBlock()
	p.landHere(start)
	back := jumpAt(p.emit(), false)
	if !numbers {
		back = p.jump()
	}
	p.land(back, at+1)
	return list
}

func (p *parser) functionStatement(line int) ast.Stmt {
	p.next()
	var e exp
	p.variable(&e)
	s := &ast.FuncDefStmt{Name: &ast.FuncName{}}
	for p.token.kind == '.' {
		p.field(&e)
	}
	if p.token.kind == ':' {
		object := e.node
		s.Name.Receiver, s.Name.Method = object, p.field(&e)
	} else {
		s.Name.Func = e.node
	}
	var f exp
	s.Func = p.function(&f, s.Name.Receiver != nil, line)
	p.store(&e, &f)
	e.node.SetLine(line) // not that of the end
	s.SetLastLine(s.Func.LastLine())
	return s
}

func (p *parser) localFunction() ast.Stmt {
	name := p.name()
	p.newLocal(name, 0)
	var e, f exp
	e.set(expLocal, p.fn.free)
	p.reserve(1)
	p.enterScope(1)
	function := p.function(&f, false, p.line)
	p.store(&e, &f)
	s := &ast.LocalAssignStmt{Names: []string{p.textOf(name)}, Exprs: []ast.Expr{function}}
	s.SetLastLine(function.LastLine())
	return s
}

func (p *parser) localStatement() ast.Stmt {
	s := &ast.LocalAssignStmt{}
	var name symbolID
	for more := true; more; more = p.acceptToken(',') {
		name = p.name()
		p.newLocal(name, len(s.Names))
		s.Names = append(s.Names, p.textOf(name))
	}
	var e exp
	if p.acceptToken('=') {
		uses := p.symbols.list[name].uses
		s.Exprs = p.expressions(&e)
		p.adjust(len(s.Names), len(s.Exprs), &e)
		if p.symbols.list[name].uses > uses {
			p.hideName(s)
		}
	} else {
		p.adjust(len(s.Names), 0, &e)
	}
	p.enterScope(len(s.Names))
	return s
}

// hideName keeps the compiler from taking "local f = function() return f end" for "local function f": the name within
// is that of another variable. It does so when there is one function alone.
func (p *parser) hideName(s *ast.LocalAssignStmt) {
	if _, ok := s.Exprs[0].(*ast.FunctionExpr); ok && len(s.Names) == 1 && len(s.Exprs) == 1 {
		s.Exprs = append(s.Exprs, at(p, &ast.NilExpr{}))
	}
}

// adjust makes as many values of a list of expressions as there are variables. e is the last one.
func (p *parser) adjust(variables, values int, e *exp) {
	extra := int32(variables - values)
	if e.isMultiple() {
		extra = max(extra+1, 0)
		p.results(e)
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

func (p *parser) returnStatement() ast.Stmt {
	p.next()
	s := &ast.ReturnStmt{}
	if !p.endsBlock() && p.token.kind != ';' {
		var e exp
		s.Exprs = p.expressions(&e)
		switch {
		case e.isMultiple():
			p.results(&e)
		case len(s.Exprs) == 1:
			p.toAny(&e)
		default:
			p.toNext(&e)
		}
	}
	p.emit()
	return s
}

// expressionStatement reads a call or an assignment.
func (p *parser) expressionStatement() ast.Stmt {
	var e exp
	p.primary(&e)
	if e.kind == expCall {
		s := &ast.FuncCallStmt{Expr: e.node}
		s.SetLine(e.node.Line())
		return s
	}
	return p.assignment(&e)
}

// assignment reads an assignment from behind the first place on.
func (p *parser) assignment(first *exp) ast.Stmt {
	s := &ast.AssignStmt{}
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
	s.Rhs = p.expressions(&e)
	s.Lhs = make([]ast.Expr, len(places))
	values := len(s.Rhs)
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
	for i := range places {
		s.Lhs[i] = places[i].node
	}
	s.SetLine(s.Lhs[0].Line())
	return s
}

// keepLocal copies a variable that is assigned to and that places before it need, as Lua's compiler does.
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
		p.emit()
		p.reserve(1)
	}
}
