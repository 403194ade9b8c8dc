package syntax

import "github.com/yuin/gopher-lua/ast"

// The model of Lua's code generator. It generates no code: it counts instructions, registers and jumps, and gives the
// nodes of the syntax tree the lines of the instructions.

// expKind says where the value of an expression is.
type expKind uint8

const (
	expNone expKind = iota
	expNil
	expTrue
	expFalse
	expConstant // info = its index
	expNumber   // value
	expLocal    // info = its register
	expUpvalue
	expGlobal
	expIndexed    // info = the table's register, aux = the key's register or constant
	expJump       // a comparison: info = its jump
	expRelocation // the last instruction; its register is not chosen yet
	expRegister   // info = its register
	expCall       // info = the register of the function and of the first result
	expDots       // "..."
)

// exp is an expression from the view of Lua's compiler, and its node.
type exp struct {
	node      ast.Expr
	number    *ast.NumberExpr // of an expNumber
	value     float64
	info, aux int32
	depth     int32 // of the node: the length of the longest path down from it
	// Jumps taken if it is true, and if it is false.
	whenTrue, whenFalse jumps
	kind                expKind
	last                instruction // of an expRelocation
}

// instruction distinguishes the instructions that the compiler examines later.
type instruction uint8

const (
	instOther instruction = iota
	instNot
	instConcat
)

// constantBit marks constant operands.
const constantBit = 1 << 8

// jumps is a list of jumps without a target. Each one refers to the next as it would to a target, which limits the
// distance between them.
type jumps struct {
	head, tail int32 // -1 = the list is empty
	first      int32 // the first one in the code
	// needValue says that one of them leaves no value in a register.
	needValue bool
}

var noJumps = jumps{head: -1, tail: -1, first: -1}

// jumpAt returns the list of one jump.
func jumpAt(pc int32, needValue bool) jumps { return jumps{pc, pc, pc, needValue} }

func (l jumps) isEmpty() bool { return l.head < 0 }

// join appends a list to another.
func (p *parser) join(a, b jumps) jumps {
	switch {
	case a.isEmpty():
		return b
	case b.isEmpty():
		return a
	}
	p.checkJump(a.tail, b.head)
	return jumps{a.head, b.tail, min(a.first, b.first), a.needValue || b.needValue}
}

func (e *exp) set(kind expKind, info int32) {
	e.kind, e.info = kind, info
	e.whenTrue, e.whenFalse = noJumps, noJumps
}

func (e *exp) hasJumps() bool { return e.whenTrue.head != e.whenFalse.head }

func (e *exp) isNumeral() bool {
	return e.kind == expNumber && e.whenTrue.isEmpty() && e.whenFalse.isEmpty()
}

func (e *exp) isMultiple() bool { return e.kind == expCall || e.kind == expDots }

// relocation makes an expression the result of the last instruction.
func (e *exp) relocation(last instruction) { e.kind, e.last = expRelocation, last }

// emit counts an instruction and returns its index.
func (p *parser) emit() int32 {
	fn := p.fn
	p.land(fn.pending, fn.pc)
	fn.pending = noJumps
	fn.pc++
	return fn.pc - 1
}

// land sets the target of the jumps in a list.
func (p *parser) land(list jumps, target int32) {
	if !list.isEmpty() {
		p.checkJump(list.first, target)
	}
}

// checkJump checks that a jump can reach its target.
func (p *parser) checkJump(from, to int32) {
	if d := to - (from + 1); d > maxJump || d < -maxJump {
		p.failHere("control structure too long")
	}
}

// label marks the next instruction as a jump target.
func (p *parser) label() int32 {
	p.fn.lastTarget = p.fn.pc
	return p.fn.pc
}

// landHere ends jumps at the next instruction.
func (p *parser) landHere(list jumps) {
	p.label()
	p.fn.pending = p.join(p.fn.pending, list)
}

// jump emits a jump. Jumps to it get its target.
func (p *parser) jump() jumps {
	fn := p.fn
	here := fn.pending
	fn.pending = noJumps
	return p.join(jumpAt(p.emit(), false), here)
}

// jumpBack emits a jump to an earlier instruction.
func (p *parser) jumpBack(target int32) { p.land(p.jump(), target) }

// storeNil emits the instruction that stores nil in n registers, unless the last instruction can do it.
func (p *parser) storeNil(from, n int32) {
	fn := p.fn
	if fn.pc > fn.lastTarget {
		if fn.pc == 0 && from >= int32(fn.active) {
			return // registers start as nil
		}
		if fn.pc > 0 && fn.nilAt == fn.pc-1 && fn.nilFrom <= from && from <= fn.nilTo+1 {
			fn.nilTo = max(fn.nilTo, from+n-1)
			return
		}
	}
	fn.nilAt, fn.nilFrom, fn.nilTo = p.emit(), from, from+n-1
}

// reserve takes n registers.
func (p *parser) reserve(n int32) {
	p.checkRegisters(n)
	p.fn.free += n
}

// checkRegisters checks that n registers are available.
func (p *parser) checkRegisters(n int32) {
	if p.fn.free+n >= maxRegisters {
		p.fail("function or expression too complex", p.token.kind)
	}
}

// release frees the register of an operand, unless it is a variable's.
func (p *parser) release(operand int32) {
	if operand&constantBit == 0 && operand >= int32(p.fn.active) {
		p.fn.free--
	}
}

func (p *parser) releaseExp(e *exp) {
	if e.kind == expRegister {
		p.release(e.info)
	}
}

// text makes an expression a constant text.
func (p *parser) text(e *exp, id symbolID) {
	e.set(expConstant, p.constant(id))
}

// results sets the number of values of an expression. All but the first are in registers already.
func (p *parser) results(e *exp) {
	if e.kind == expDots {
		p.reserve(1)
	}
}

// oneResult reduces an expression that may have several values to one.
func (p *parser) oneResult(e *exp) {
	switch e.kind {
	case expCall:
		e.kind = expRegister
	case expDots:
		e.relocation(instOther)
	}
}

// load reads a variable.
func (p *parser) load(e *exp) {
	switch e.kind {
	case expLocal:
		e.kind = expRegister
	case expUpvalue, expGlobal:
		p.emit()
		e.node.SetLine(p.lastLine)
		e.relocation(instOther)
	case expIndexed:
		p.release(e.aux)
		p.release(e.info)
		p.emit()
		e.node.SetLine(p.lastLine)
		e.relocation(instOther)
	case expCall, expDots:
		p.oneResult(e)
	}
}

// moveTo moves a value to a register, except a comparison.
func (p *parser) moveTo(e *exp, register int32) {
	p.load(e)
	switch e.kind {
	case expNil:
		p.storeNil(register, 1)
	case expTrue, expFalse, expConstant:
		p.emit()
	case expNumber:
		p.numberConstant(e)
		p.emit()
	case expRelocation:
	case expRegister:
		if e.info != register {
			p.emit()
		}
	default:
		return
	}
	e.kind, e.info = expRegister, register
}

// moveToAny moves a value to any register, except a comparison.
func (p *parser) moveToAny(e *exp) {
	if e.kind != expRegister {
		p.reserve(1)
		p.moveTo(e, p.fn.free-1)
	}
}

// valueTo moves a value to a register, also that of jumping operators.
func (p *parser) valueTo(e *exp, register int32) {
	p.moveTo(e, register)
	if e.kind == expJump {
		e.whenTrue = p.join(e.whenTrue, jumpAt(e.info, true))
	}
	if e.hasJumps() {
		ifFalse, ifTrue := p.fn.pc, p.fn.pc
		if !e.whenTrue.isEmpty() && e.whenTrue.needValue || !e.whenFalse.isEmpty() && e.whenFalse.needValue {
			over := noJumps
			if e.kind != expJump {
				over = p.jump()
			}
			p.label()
			ifFalse = p.emit()
			p.label()
			ifTrue = p.emit()
			p.landHere(over)
		}
		p.label()
		p.land(e.whenFalse, ifFalse)
		p.land(e.whenTrue, ifTrue)
	}
	e.set(expRegister, register)
}

// toNext moves a value to the next free register.
func (p *parser) toNext(e *exp) {
	p.load(e)
	p.releaseExp(e)
	p.reserve(1)
	p.valueTo(e, p.fn.free-1)
}

// toAny moves a value to any register.
func (p *parser) toAny(e *exp) {
	p.load(e)
	if e.kind == expRegister {
		if !e.hasJumps() {
			return
		}
		if e.info >= int32(p.fn.active) {
			p.valueTo(e, e.info)
			return
		}
	}
	p.toNext(e)
}

// toValue makes an expression a constant or the result of an instruction.
func (p *parser) toValue(e *exp) {
	if e.hasJumps() {
		p.toAny(e)
	} else {
		p.load(e)
	}
}

// operand makes an expression an operand of an instruction: the index of a register or constant.
func (p *parser) operand(e *exp) int32 {
	p.toValue(e)
	switch e.kind {
	case expNumber, expTrue, expFalse, expNil:
		if p.fn.constants > maxOperand {
			break
		}
		switch e.kind {
		case expNumber:
			e.info = p.numberConstant(e)
		case expTrue:
			p.once(&p.fn.hasTrue)
		case expFalse:
			p.once(&p.fn.hasFalse)
		case expNil:
			p.once(&p.fn.hasNil)
		}
		if e.kind != expNumber {
			e.info = 0 // any index
		}
		e.kind = expConstant
		return e.info | constantBit
	case expConstant:
		if e.info <= maxOperand {
			return e.info | constantBit
		}
	}
	p.toAny(e)
	return e.info
}

// once counts a constant that is neither a string nor a number.
func (p *parser) once(has *bool) {
	if !*has {
		p.newConstant()
		*has = true
	}
}

// store assigns a value to a variable.
func (p *parser) store(to, e *exp) {
	switch to.kind {
	case expLocal:
		p.releaseExp(e)
		p.valueTo(e, to.info)
		return
	case expUpvalue, expGlobal:
		p.toAny(e)
	case expIndexed:
		p.operand(e)
	}
	p.emit()
	to.node.SetLine(p.lastLine)
	p.releaseExp(e)
}

// method reads a field for a call, and puts the object after it.
func (p *parser) method(e *exp, name symbolID) {
	var key exp
	p.text(&key, name)
	p.toAny(e)
	p.releaseExp(e)
	register := p.fn.free
	p.reserve(2)
	p.operand(&key)
	p.emit()
	p.releaseExp(&key)
	e.kind, e.info = expRegister, register
}

// index replaces a table by a field of it.
func (p *parser) index(e, key *exp) {
	e.aux = p.operand(key)
	e.kind = expIndexed
}

// jumpOn emits a conditional jump on an expression that is not a comparison.
func (p *parser) jumpOn(e *exp) jumps {
	if e.kind == expRelocation && e.last == instNot {
		p.fn.pc--
		p.emit()
		return jumpAt(p.jump().head, true)
	}
	p.moveToAny(e)
	p.releaseExp(e)
	p.emit()
	return p.jump()
}

// goIfTrue continues if an expression is true, and keeps the jumps for the false case.
func (p *parser) goIfTrue(e *exp) {
	p.load(e)
	var out jumps
	switch e.kind {
	case expConstant, expNumber, expTrue:
		out = noJumps
	case expJump:
		out = jumpAt(e.info, true)
	default:
		out = p.jumpOn(e)
	}
	e.whenFalse = p.join(e.whenFalse, out)
	p.landHere(e.whenTrue)
	e.whenTrue = noJumps
}

// goIfFalse is the opposite of goIfTrue.
func (p *parser) goIfFalse(e *exp) {
	p.load(e)
	var out jumps
	switch e.kind {
	case expNil, expFalse:
		out = noJumps
	case expJump:
		out = jumpAt(e.info, true)
	default:
		out = p.jumpOn(e)
	}
	e.whenTrue = p.join(e.whenTrue, out)
	p.landHere(e.whenFalse)
	e.whenFalse = noJumps
}

// not is the operator.
func (p *parser) not(e *exp) {
	p.load(e)
	switch e.kind {
	case expNil, expFalse:
		e.kind = expTrue
	case expConstant, expNumber, expTrue:
		e.kind = expFalse
	case expRelocation, expRegister:
		p.moveToAny(e)
		p.releaseExp(e)
		p.emit()
		e.relocation(instNot)
	}
	e.whenTrue, e.whenFalse = e.whenFalse, e.whenTrue
	e.whenTrue.needValue, e.whenFalse.needValue = true, true
}

// arithmetic emits an operator with one operand (b nil) or two.
func (p *parser) arithmetic(a, b *exp, last instruction) {
	if b != nil {
		p.operand(b)
	}
	p.operand(a)
	if b != nil {
		p.releaseExp(b)
	}
	p.releaseExp(a)
	p.emit()
	a.relocation(last)
}

// compare emits a comparison.
func (p *parser) compare(a, b *exp) {
	p.operand(a)
	p.operand(b)
	p.releaseExp(b)
	p.releaseExp(a)
	p.emit()
	a.info, a.kind = p.jump().head, expJump
}

// flush emits the instruction that stores elements of a table. elements is the number of elements up to then.
func (p *parser) flush(table int32, elements int) {
	p.emit()
	if (elements-1)/perFlush+1 > 1<<9-1 { // MAXARG_C: a greater number does not fit into the instruction
		p.emit()
	}
	p.fn.free = table + 1
}
