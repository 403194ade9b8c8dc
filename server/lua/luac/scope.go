package luac

import (
	"slices"

	vm "github.com/yuin/gopher-lua"
)

// function is one that is being read.
type function struct {
	outer  *function
	number int32 // for symbol.function
	proto  *vm.FunctionProto
	block  *block

	// locals are the variables in scope, by register, and behind them those that will be when their statement was read.
	locals    []symbolID
	active    int     // how many are in scope
	variables int     // how many local variables there were
	upvalues  []int32 // variables of outer functions, as indexes of parser.variables

	firstChange int // parser.changes: those of this function
	// The indexes of constants.
	nilConstant, trueConstant, falseConstant int32

	free       int32 // the first register that is
	pending    jumps // to the next instruction
	lastTarget int32 // the last instruction that is known to be jumped to
}

// variable is a local variable in scope.
type variable struct {
	symbol   symbolID
	shadows  int32 // the variable of that name which it hides; -1 = none
	function *function
	register int32
	info     *vm.DbgLocalInfo
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
	p.fn = &function{outer: p.fn, number: p.functions, firstChange: len(p.changes), pending: noJumps, lastTarget: none,
		nilConstant: none, trueConstant: none, falseConstant: none,
		proto: &vm.FunctionProto{SourceName: p.chunk, LineDefined: line, NumUsedRegisters: 2}}
}

// closeFunction ends a function and returns its code. Its constants become those of the outer one again.
func (p *parser) closeFunction() *vm.FunctionProto {
	p.leaveScope(0)
	p.emit(abc(vm.OP_RETURN, 0, 1, 0))
	for i := len(p.changes) - 1; i >= p.fn.firstChange; i-- {
		c := p.changes[i]
		s := &p.symbols.list[c.symbol]
		s.function, s.constant = c.function, c.constant
	}
	p.changes = p.changes[:p.fn.firstChange]
	proto := p.fn.proto
	proto.Code, proto.DbgSourcePositions = clip(proto.Code), clip(proto.DbgSourcePositions)
	proto.Constants, proto.FunctionPrototypes = clip(proto.Constants), clip(proto.FunctionPrototypes)
	proto.NumUsedRegisters++ // a tail call of the function loses the last one
	proto.NumUpvalues = uint8(len(p.fn.upvalues))
	p.fn = p.fn.outer
	return proto
}

// failLimit ends the parsing since a function has more than it may have.
func (p *parser) failLimit(fn *function, limit int, what string) {
	if fn.proto.LineDefined == 0 {
		p.failf(0, "main function has more than %d %s", limit, what)
	}
	p.failf(0, "function at line %d has more than %d %s", fn.proto.LineDefined, limit, what)
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

func (p *parser) enterScope(n int) {
	fn := p.fn
	for range n {
		id := fn.locals[fn.active]
		s := &p.symbols.list[id]
		info := &vm.DbgLocalInfo{Name: s.text, StartPc: int(p.pc())}
		fn.proto.DbgLocals = append(fn.proto.DbgLocals, info)
		p.variables = append(p.variables, variable{id, s.declared, fn, int32(fn.active), info})
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
		v.info.EndPc = int(p.pc())
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
		p.emit(abc(vm.OP_CLOSE, int32(b.active), 0, 0))
	}
	fn.free = int32(fn.active)
	p.landHere(b.breaks)
}

// resolve makes an expression what a name stands for.
func (p *parser) resolve(e *exp, name symbolID) {
	id := p.symbols.list[name].declared
	if id < 0 {
		e.set(expGlobal, p.constant(name))
		return
	}
	v := &p.variables[id]
	if v.function == p.fn {
		e.set(expLocal, v.register)
		return
	}
	for b := v.function.block; b != nil; b = b.outer {
		if b.active <= int(v.register) {
			b.captured = true
			break
		}
	}
	e.set(expUpvalue, p.capture(p.fn, id))
}

// capture gives a variable to a function that is inside of the variable's, and to all between them, from the outside
// to the inside. It returns its index in the function.
func (p *parser) capture(fn *function, variable int32) int32 {
	if i := slices.Index(fn.upvalues, variable); i >= 0 {
		return int32(i)
	}
	v := &p.variables[variable]
	if fn.outer != v.function {
		p.capture(fn.outer, variable)
	}
	if len(fn.upvalues) == maxUpvalues {
		p.failLimit(fn, maxUpvalues, "upvalues")
	}
	fn.upvalues = append(fn.upvalues, variable)
	fn.proto.DbgUpvalues = append(fn.proto.DbgUpvalues, v.info.Name)
	return int32(len(fn.upvalues) - 1)
}

// constant returns the index that a text has among the constants of the function.
func (p *parser) constant(id symbolID) int32 {
	return p.constantOf(id, vm.LString(p.symbols.list[id].text))
}

// numberConstant returns the index that a number has among the constants of the function. 0 and -0 are one constant:
// all of a function are the first of them.
func (p *parser) numberConstant(f float64) int32 {
	return p.constantOf(p.symbols.number(f), vm.LNumber(f))
}

func (p *parser) constantOf(id symbolID, v vm.LValue) int32 {
	s := &p.symbols.list[id]
	if s.function != p.fn.number {
		if s.function != 0 {
			p.changes = append(p.changes, change{id, s.function, s.constant})
		}
		s.function, s.constant = p.fn.number, p.newConstant(v)
	}
	return s.constant
}

// newConstant adds a constant and returns its index.
func (p *parser) newConstant(v vm.LValue) int32 {
	fn := p.fn.proto
	if len(fn.Constants) == maxConstants {
		p.failWhole("constant table overflow")
	}
	fn.Constants = append(fn.Constants, v)
	return int32(len(fn.Constants) - 1)
}
