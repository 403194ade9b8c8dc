package syntax

import "slices"

// function is one that is being read, with what Lua's compiler knows of it.
type function struct {
	outer       *function
	number      int32 // for symbol.function
	lineDefined int   // 0 = the chunk
	isVararg    bool
	block       *block

	// locals are the variables in scope, by register, and behind them those that will be when their statement was read.
	locals    []symbolID
	active    int     // how many are in scope
	variables int     // how many local variables there were
	upvalues  []int32 // variables of outer functions, as indexes of parser.variables

	firstChange int // parser.changes: those of this function
	constants   int // how many there are
	functions   int // in it
	hasNil      bool
	hasTrue     bool
	hasFalse    bool
	zero        string // 0 or -0, if that is a constant

	// The code: how many instructions and registers.
	pc, free   int32
	pending    jumps // to the next instruction
	lastTarget int32 // the last instruction that is known to be jumped to
	nilAt      int32 // the last instruction that stores nil, and in which registers
	nilFrom    int32
	nilTo      int32
}

// variable is a local variable in scope.
type variable struct {
	symbol   symbolID
	shadows  int32 // the variable of that name which it hides; -1 = none
	function *function
	register int32
}

// block is a sequence of statements, or a loop.
type block struct {
	outer  *block
	active int // local variables of the function outside
	// captured: a function has one of its variables.
	captured bool
	isLoop   bool
	breaks   jumps
}

// change is what a constant has overwritten in its symbol.
type change struct {
	symbol             symbolID
	function, constant int32
}

func (p *parser) openFunction(line int) {
	p.functions++
	p.fn = &function{outer: p.fn, number: p.functions, lineDefined: line, firstChange: len(p.changes),
		pending: noJumps, lastTarget: -1, nilAt: -1}
}

// closeFunction ends a function. Its constants become those of the outer one again.
func (p *parser) closeFunction() {
	p.leaveScope(0)
	p.emit() // the return behind the last statement
	for i := len(p.changes) - 1; i >= p.fn.firstChange; i-- {
		c := p.changes[i]
		s := &p.symbols.list[c.symbol]
		s.function, s.constant = c.function, c.constant
	}
	p.changes = p.changes[:p.fn.firstChange]
	p.fn = p.fn.outer
}

// failLimit ends the parsing since a function has more than it may have.
func (p *parser) failLimit(fn *function, limit int, what string) {
	if fn.lineDefined == 0 {
		p.failf(0, "main function has more than %d %s", limit, what)
	}
	p.failf(0, "function at line %d has more than %d %s", fn.lineDefined, limit, what)
}

// newLocal makes a local variable that is not in scope yet; before it there are n such.
func (p *parser) newLocal(name symbolID, n int) {
	fn := p.fn
	if fn.active+n+1 > maxLocals {
		p.failLimit(fn, maxLocals, "local variables")
	}
	if fn.variables == maxVariables {
		p.failWhole("too many local variables")
	}
	fn.variables++
	fn.locals = append(fn.locals[:fn.active+n], name)
}

// enterScope puts n new variables into scope.
func (p *parser) enterScope(n int) {
	fn := p.fn
	for range n {
		id := fn.locals[fn.active]
		s := &p.symbols.list[id]
		p.variables = append(p.variables, variable{symbol: id, shadows: s.declared, function: fn, register: int32(fn.active)})
		s.declared = int32(len(p.variables) - 1)
		fn.active++
	}
}

// leaveScope leaves only so many variables of the function in scope.
func (p *parser) leaveScope(active int) {
	for p.fn.active > active {
		last := len(p.variables) - 1
		v := &p.variables[last]
		p.symbols.list[v.symbol].declared = v.shadows
		p.variables = p.variables[:last]
		p.fn.active--
	}
}

func (p *parser) enterBlock(b *block, isLoop bool) {
	*b = block{outer: p.fn.block, active: p.fn.active, isLoop: isLoop, breaks: noJumps}
	p.fn.block = b
}

func (p *parser) leaveBlock() {
	fn := p.fn
	b := fn.block
	fn.block = b.outer
	p.leaveScope(b.active)
	if b.captured {
		p.emit()
	}
	fn.free = int32(fn.active)
	p.landHere(b.breaks)
}

// resolve finds what a name stands for.
func (p *parser) resolve(name symbolID) (kind expKind, register int32) {
	s := &p.symbols.list[name]
	s.uses++
	id := s.declared
	if id < 0 {
		return expGlobal, 0
	}
	v := &p.variables[id]
	if v.function == p.fn {
		return expLocal, v.register
	}
	for b := v.function.block; b != nil; b = b.outer {
		if b.active <= int(v.register) {
			b.captured = true
			break
		}
	}
	p.capture(p.fn, id)
	return expUpvalue, 0
}

// capture gives a variable to a function that is inside of the variable's, and to all between them, from the outside
// to the inside.
func (p *parser) capture(fn *function, variable int32) {
	if slices.Contains(fn.upvalues, variable) {
		return
	}
	if fn.outer != p.variables[variable].function {
		p.capture(fn.outer, variable)
	}
	if len(fn.upvalues) == maxUpvalues {
		p.failLimit(fn, maxUpvalues, "upvalues")
	}
	fn.upvalues = append(fn.upvalues, variable)
}

// constant returns the index that a text or a number has among the constants of the function.
func (p *parser) constant(id symbolID) int32 {
	s := &p.symbols.list[id]
	if s.function != p.fn.number {
		if s.function != 0 {
			p.changes = append(p.changes, change{id, s.function, s.constant})
		}
		s.function, s.constant = p.fn.number, p.newConstant()
	}
	return s.constant
}

// numberConstant returns the index that a number has among the constants of the function. 0 and -0 are one constant:
// all of a function are the first of them.
func (p *parser) numberConstant(e *exp) int32 {
	if e.value == 0 {
		if p.fn.zero == "" {
			p.fn.zero = numberText(e.value)
		}
		e.number.Value = p.fn.zero
	}
	return p.constant(p.symbols.number(e.value))
}

// newConstant returns the index of one constant more.
func (p *parser) newConstant() int32 {
	if p.fn.constants == maxConstants {
		p.failWhole("constant table overflow")
	}
	p.fn.constants++
	return int32(p.fn.constants - 1)
}
