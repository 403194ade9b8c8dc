package luac

import (
	"slices"

	vm "github.com/yuin/gopher-lua"
)

// Lua's code generator: lcode.c.

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
	expUpvalue  // info = its index
	expGlobal   // info = the constant that is its name
	expIndexed  // info = the table's register, aux = the key's register or constant
	expJump     // a comparison: info = its jump
	// The following are the result of the instruction info.
	expRelocation // whose register is not chosen yet
	expCall
	expDots     // "..."
	expRegister // info = its register
)

// exp is an expression.
type exp struct {
	value     float64
	info, aux int32
	// Jumps taken if it is true, and if it is false.
	whenTrue, whenFalse jumps
	kind                expKind
}

const (
	// constantBit marks constant operands.
	constantBit = 1 << 8
	// noRegister is in the code where the register of a value is not known, or not needed.
	noRegister = 1<<8 - 1
	// none is the distance of a jump without a target, and ends a list of them.
	none = -1
	// allValues is the number of values that are not known before the code runs.
	allValues = -1
)

// The fields of an instruction are 6 bits of operation, then A of 8 bits and C and B of 9 bits each, or A and Bx of 18
// bits. sBx is Bx - maxJump.

func abc(op int, a, b, c int32) uint32 {
	return uint32(op)<<26 | uint32(a)<<18 | uint32(c)<<9 | uint32(b)
}

func abx(op int, a, bx int32) uint32 { return uint32(op)<<26 | uint32(a)<<18 | uint32(bx) }

func opcode(inst uint32) int           { return int(inst >> 26) }
func setA(inst uint32, a int32) uint32 { return inst&^(0xff<<18) | uint32(a)<<18 }
func setB(inst uint32, b int32) uint32 { return inst&^0x1ff | uint32(b) }
func setC(inst uint32, c int32) uint32 { return inst&^(0x1ff<<9) | uint32(c)<<9 }
func argA(inst uint32) int32           { return int32(inst>>18) & 0xff }
func argB(inst uint32) int32           { return int32(inst & 0x1ff) }
func argC(inst uint32) int32           { return int32(inst>>9) & 0x1ff }

// jumps is a list of jumps without a target: each jumps to the next one.
type jumps struct{ head, tail int32 }

var noJumps = jumps{none, none}

func jumpAt(pc int32) jumps { return jumps{pc, pc} }

func (l jumps) isEmpty() bool { return l.head < 0 }

// join appends a list to another.
func (p *parser) join(a, b jumps) jumps {
	switch {
	case a.isEmpty():
		return b
	case b.isEmpty():
		return a
	}
	p.setTarget(a.tail, b.head)
	return jumps{a.head, b.tail}
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

// pc returns the index of the next instruction.
func (p *parser) pc() int32 { return int32(len(p.fn.proto.Code)) }

// at returns an instruction.
func (p *parser) at(pc int32) *uint32 { return &p.fn.proto.Code[pc] }

// emit appends an instruction and returns its index.
func (p *parser) emit(inst uint32) int32 {
	fn, pc := p.fn, p.pc()
	p.patch(fn.pending, pc, noRegister, pc)
	fn.pending = noJumps
	fn.proto.Code = append(fn.proto.Code, inst)
	fn.proto.DbgSourcePositions = append(fn.proto.DbgSourcePositions, p.lastLine)
	return pc
}

// setLine sets the line of the last instruction.
func (p *parser) setLine(line int) { p.fn.proto.DbgSourcePositions[p.pc()-1] = line }

func (p *parser) setTarget(from, to int32) {
	d := to - (from + 1)
	if d > maxJump || d < -maxJump {
		p.failHere("control structure too long")
	}
	inst := p.at(from)
	*inst = *inst&^0x3ffff | uint32(d+maxJump)
}

// following returns the next jump of a list.
func (p *parser) following(pc int32) int32 {
	d := int32(*p.at(pc)&0x3ffff) - maxJump
	if d == none {
		return none
	}
	return pc + 1 + d
}

// control returns the instruction that decides whether a jump is taken: the one before it, or itself.
func (p *parser) control(pc int32) *uint32 {
	if pc > 0 {
		switch before := p.at(pc - 1); opcode(*before) {
		case vm.OP_EQ, vm.OP_LT, vm.OP_LE, vm.OP_TEST, vm.OP_TESTSET, vm.OP_TFORLOOP:
			return before
		}
	}
	return p.at(pc)
}

// needsValue reports whether one of the jumps leaves no value in a register.
func (p *parser) needsValue(list jumps) bool {
	for at := list.head; at >= 0; at = p.following(at) {
		if opcode(*p.control(at)) != vm.OP_TESTSET {
			return true
		}
	}
	return false
}

// setValue sets the register in which a jump leaves a value, if it does.
func (p *parser) setValue(jump, register int32) bool {
	inst := p.control(jump)
	if opcode(*inst) != vm.OP_TESTSET {
		return false
	}
	if register != noRegister && register != argB(*inst) {
		*inst = setA(*inst, register)
	} else {
		*inst = abc(vm.OP_TEST, argB(*inst), 0, argC(*inst))
	}
	return true
}

func (p *parser) dropValues(list jumps) {
	for at := list.head; at >= 0; at = p.following(at) {
		p.setValue(at, noRegister)
	}
}

// patch sets the target of jumps that leave a value in the register, and of the others.
func (p *parser) patch(list jumps, withValue, register, target int32) {
	for at := list.head; at >= 0; {
		next, to := p.following(at), target
		if p.setValue(at, register) {
			to = withValue
		}
		p.setTarget(at, to)
		at = next
	}
}

func (p *parser) land(list jumps, target int32) {
	if target == p.pc() {
		p.landHere(list)
	} else {
		p.patch(list, target, noRegister, target)
	}
}

// label marks the next instruction as a jump target.
func (p *parser) label() int32 {
	p.fn.lastTarget = p.pc()
	return p.fn.lastTarget
}

// landHere ends jumps at the next instruction.
func (p *parser) landHere(list jumps) {
	p.label()
	p.fn.pending = p.join(p.fn.pending, list)
}

// jump emits a jump. Jumps to it get its target.
func (p *parser) jump() jumps {
	here := p.fn.pending
	p.fn.pending = noJumps
	return p.join(jumpAt(p.emit(abx(vm.OP_JMP, 0, none+maxJump))), here)
}

// jumpIf emits a jump that depends on the instruction before it.
func (p *parser) jumpIf(inst uint32) jumps {
	p.emit(inst)
	return p.jump()
}

// storeNil emits the instruction that stores nil in n registers, unless the last instruction can do it.
func (p *parser) storeNil(from, n int32) {
	if pc := p.pc(); pc > p.fn.lastTarget {
		if pc == 0 && from >= int32(p.fn.active) {
			return // registers start as nil
		}
		if pc > 0 {
			last := p.at(pc - 1)
			if first, end := argA(*last), argB(*last); opcode(*last) == vm.OP_LOADNIL && first <= from && from <= end+1 {
				*last = setB(*last, max(end, from+n-1))
				return
			}
		}
	}
	p.emit(abc(vm.OP_LOADNIL, from, from+n-1, 0))
}

// reserve takes n registers.
func (p *parser) reserve(n int32) {
	p.checkRegisters(n)
	p.fn.free += n
}

// checkRegisters checks that n registers are available.
func (p *parser) checkRegisters(n int32) {
	most := p.fn.free + n
	if most >= maxRegisters {
		p.fail("function or expression too complex", p.token.kind)
	}
	p.fn.proto.NumUsedRegisters = max(p.fn.proto.NumUsedRegisters, uint8(most))
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

// results sets the number of values of an expression that may have several. All but the first are in registers already.
func (p *parser) results(e *exp, n int32) {
	switch inst := p.at(e.info); e.kind {
	case expCall:
		*inst = setC(*inst, n+1)
	case expDots:
		*inst = setA(setB(*inst, n+1), p.fn.free)
		p.reserve(1)
	}
}

// oneResult reduces an expression that may have several values to one.
func (p *parser) oneResult(e *exp) {
	switch e.kind {
	case expCall:
		e.kind, e.info = expRegister, argA(*p.at(e.info))
	case expDots:
		*p.at(e.info) = setB(*p.at(e.info), 2)
		e.kind = expRelocation
	}
}

// isName reports whether an operand is a constant text.
func (p *parser) isName(operand int32) bool {
	if operand&constantBit == 0 {
		return false
	}
	_, ok := p.fn.proto.Constants[operand&^constantBit].(vm.LString)
	return ok
}

// load reads a variable.
func (p *parser) load(e *exp) {
	var inst uint32
	switch e.kind {
	case expLocal:
		e.kind = expRegister
		return
	case expUpvalue:
		inst = abc(vm.OP_GETUPVAL, 0, e.info, 0)
	case expGlobal:
		inst = abx(vm.OP_GETGLOBAL, 0, e.info)
	case expIndexed:
		p.release(e.aux)
		p.release(e.info)
		op := vm.OP_GETTABLE
		if p.isName(e.aux) {
			op = vm.OP_GETTABLEKS
		}
		inst = abc(op, 0, e.info, e.aux)
	case expCall, expDots:
		p.oneResult(e)
		return
	default:
		return
	}
	e.kind, e.info = expRelocation, p.emit(inst)
}

// moveTo moves a value to a register, except a comparison.
func (p *parser) moveTo(e *exp, register int32) {
	p.load(e)
	switch e.kind {
	case expNil:
		p.storeNil(register, 1)
	case expTrue:
		p.emit(abc(vm.OP_LOADBOOL, register, 1, 0))
	case expFalse:
		p.emit(abc(vm.OP_LOADBOOL, register, 0, 0))
	case expConstant:
		p.emit(abx(vm.OP_LOADK, register, e.info))
	case expNumber:
		p.emit(abx(vm.OP_LOADK, register, p.numberConstant(e.value)))
	case expRelocation:
		*p.at(e.info) = setA(*p.at(e.info), register)
	case expRegister:
		if e.info != register {
			p.emit(abc(vm.OP_MOVE, register, e.info, 0))
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
		e.whenTrue = p.join(e.whenTrue, jumpAt(e.info))
	}
	if e.hasJumps() {
		ifFalse, ifTrue := int32(none), int32(none)
		if p.needsValue(e.whenTrue) || p.needsValue(e.whenFalse) {
			over := noJumps
			if e.kind != expJump {
				over = p.jump()
			}
			p.label()
			ifFalse = p.emit(abc(vm.OP_LOADBOOL, register, 0, 1))
			p.label()
			ifTrue = p.emit(abc(vm.OP_LOADBOOL, register, 1, 0))
			p.landHere(over)
		}
		end := p.label()
		p.patch(e.whenFalse, end, register, ifFalse)
		p.patch(e.whenTrue, end, register, ifTrue)
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

// toAny moves a value to any register, and returns that.
func (p *parser) toAny(e *exp) int32 {
	p.load(e)
	switch {
	case e.kind == expRegister && !e.hasJumps():
	case e.kind == expRegister && e.info >= int32(p.fn.active):
		p.valueTo(e, e.info)
	default:
		p.toNext(e)
	}
	return e.info
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
		if len(p.fn.proto.Constants) > maxOperand {
			break
		}
		switch e.kind {
		case expNumber:
			e.info = p.numberConstant(e.value)
		case expNil:
			e.info = p.once(&p.fn.nilConstant, vm.LNil)
		case expTrue:
			e.info = p.once(&p.fn.trueConstant, vm.LTrue)
		case expFalse:
			e.info = p.once(&p.fn.falseConstant, vm.LFalse)
		}
		e.kind = expConstant
		return e.info | constantBit
	case expConstant:
		if e.info <= maxOperand {
			return e.info | constantBit
		}
	}
	return p.toAny(e)
}

// once returns the index of a constant that is neither a string nor a number. at is where it is kept, none at first.
func (p *parser) once(at *int32, v vm.LValue) int32 {
	if *at == none {
		*at = p.newConstant(v)
	}
	return *at
}

// store assigns a value to a variable.
func (p *parser) store(to, e *exp) {
	switch to.kind {
	case expLocal:
		p.releaseExp(e)
		p.valueTo(e, to.info)
		return
	case expUpvalue:
		p.emit(abc(vm.OP_SETUPVAL, p.toAny(e), to.info, 0))
	case expGlobal:
		p.emit(abx(vm.OP_SETGLOBAL, p.toAny(e), to.info))
	case expIndexed:
		p.setField(to.info, to.aux, p.operand(e))
	}
	p.releaseExp(e)
}

func (p *parser) setField(table, key, value int32) {
	op := vm.OP_SETTABLE
	if p.isName(key) {
		op = vm.OP_SETTABLEKS
	}
	p.emit(abc(op, table, key, value))
}

// method reads a field for a call, and puts the object after it.
func (p *parser) method(e *exp, name symbolID) {
	var key exp
	p.text(&key, name)
	p.toAny(e)
	p.releaseExp(e)
	register := p.fn.free
	p.reserve(2)
	p.emit(abc(vm.OP_SELF, register, e.info, p.operand(&key)))
	p.releaseExp(&key)
	e.kind, e.info = expRegister, register
}

// index replaces a table by a field of it.
func (p *parser) index(e, key *exp) {
	e.aux = p.operand(key)
	e.kind = expIndexed
}

// invert inverts a comparison.
func (p *parser) invert(e *exp) {
	inst := p.control(e.info)
	*inst = setA(*inst, 1-argA(*inst))
}

// jumpOn emits a jump that is taken if an expression, which is no comparison, is true (1) or false (0).
func (p *parser) jumpOn(e *exp, when int32) jumps {
	if e.kind == expRelocation && opcode(*p.at(e.info)) == vm.OP_NOT {
		operand := argB(*p.at(e.info))
		code := &p.fn.proto.Code
		*code = (*code)[:len(*code)-1]
		lines := &p.fn.proto.DbgSourcePositions
		*lines = (*lines)[:len(*lines)-1]
		return p.jumpIf(abc(vm.OP_TEST, operand, 0, 1-when))
	}
	p.moveToAny(e)
	p.releaseExp(e)
	return p.jumpIf(abc(vm.OP_TESTSET, noRegister, e.info, when))
}

// goIfTrue continues if an expression is true, and keeps the jumps for the false case.
func (p *parser) goIfTrue(e *exp) {
	p.load(e)
	out := noJumps
	switch e.kind {
	case expConstant, expNumber, expTrue:
	case expJump:
		p.invert(e)
		out = jumpAt(e.info)
	default:
		out = p.jumpOn(e, 0)
	}
	e.whenFalse = p.join(e.whenFalse, out)
	p.landHere(e.whenTrue)
	e.whenTrue = noJumps
}

// goIfFalse is the opposite of goIfTrue.
func (p *parser) goIfFalse(e *exp) {
	p.load(e)
	out := noJumps
	switch e.kind {
	case expNil, expFalse:
	case expJump:
		out = jumpAt(e.info)
	default:
		out = p.jumpOn(e, 1)
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
	case expJump:
		p.invert(e)
	case expRelocation, expRegister:
		p.moveToAny(e)
		p.releaseExp(e)
		e.kind, e.info = expRelocation, p.emit(abc(vm.OP_NOT, 0, e.info, 0))
	}
	e.whenTrue, e.whenFalse = e.whenFalse, e.whenTrue
	p.dropValues(e.whenTrue)
	p.dropValues(e.whenFalse)
}

// arithmetic emits an operator with one operand (b nil) or two.
func (p *parser) arithmetic(op int, a, b *exp) {
	var right int32
	if b != nil {
		right = p.operand(b)
	}
	left := p.operand(a)
	if b != nil {
		p.releaseExp(b)
	}
	p.releaseExp(a)
	a.kind, a.info = expRelocation, p.emit(abc(op, 0, left, right))
}

// compare emits a comparison.
func (p *parser) compare(op *operator, a, b *exp) {
	left, right := p.operand(a), p.operand(b)
	p.releaseExp(b)
	p.releaseExp(a)
	if op.swapped {
		left, right = right, left
	}
	a.kind, a.info = expJump, p.jumpIf(abc(op.code, op.when, left, right)).head
}

// flush emits the instruction that stores elements of a table. elements is the number of elements up to then, of which
// n, possibly allValues, are in registers.
func (p *parser) flush(table int32, elements int, n int32) {
	group := int32((elements-1)/PerFlush + 1)
	if group <= 1<<9-1 {
		p.emit(abc(vm.OP_SETLIST, table, max(n, 0), group))
	} else { // a greater number is in the code behind the instruction
		p.emit(abc(vm.OP_SETLIST, table, max(n, 0), 0))
		p.emit(uint32(group))
	}
	p.fn.free = table + 1
}

// sizeCode returns a number of elements as NEWTABLE has it in 9 bits: above 15 with 3 bits of mantissa, rounded up.
func sizeCode(n int) int32 {
	e := 0
	for ; n >= 16; e++ {
		n = (n + 1) >> 1
	}
	if n < 8 {
		return int32(n)
	}
	return int32((e+1)<<3 | (n - 8))
}

// clip returns a list without the spare capacity that it got while it grew.
func clip[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return slices.Clone(list)
}
