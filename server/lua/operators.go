package lua

import (
	"github.com/basaltdb/basalt/server/lua/luac"

	vm "github.com/yuin/gopher-lua"
)

// Some statements and operators are compiled as calls of functions. In the syntax tree these functions have names of
// globals that no source can contain. In the code they are constants, so that they do not depend on the environment of
// a function, and scripts cannot access them.

var operators = map[string]*vm.LFunction{}

func init() {
	env := newTable(0, 0)
	for name, f := range map[string]vm.LGFunction{
		luac.SameName: same, luac.SpreadName: spread, luac.JoinName: joinTables,
	} {
		operators[name] = &vm.LFunction{IsG: true, GFunction: f, Env: env}
	}
}

// spread is spread(n, t, ...): it returns t[1] to t[n], followed by the other arguments.
func spread(L *vm.LState) int {
	n, t := L.CheckInt(1), L.CheckTable(2)
	rest := L.GetTop() - 2
	for i := 1; i <= n; i++ {
		L.Push(rawGetInt(t, i))
	}
	for i := range rest {
		L.Push(L.Get(3 + i))
	}
	return n + rest
}

// bindOperators replaces each look-up of such a global, in a function and in those within it, by a load of a constant.
func bindOperators(p *vm.FunctionProto) {
	at := map[string]int{}
	for pc, inst := range p.Code {
		if opcode(inst) != vm.OP_GETGLOBAL {
			continue
		}
		name, _ := p.Constants[argBx(inst)].(vm.LString)
		f := operators[string(name)]
		if f == nil {
			continue
		}
		n, ok := at[string(name)]
		if !ok {
			n = len(p.Constants)
			at[string(name)] = n
			p.Constants = append(p.Constants, f)
		}
		p.Code[pc] = uint32(vm.OP_LOADK)<<26 | uint32(argA(inst))<<18 | uint32(n)
	}
	for _, inner := range p.FunctionPrototypes {
		bindOperators(inner)
	}
}

// The fields of an instruction of the virtual machine: 6 bits of operation, then A of 8 bits and B and C of 9 bits
// each, C first, or A and Bx of 18 bits.

func opcode(inst uint32) int { return int(inst >> 26) }
func argA(inst uint32) int   { return int(inst>>18) & 0xff }
func argB(inst uint32) int   { return int(inst & 0x1ff) }
func argC(inst uint32) int   { return int(inst>>9) & 0x1ff }
func argBx(inst uint32) int  { return int(inst & 0x3ffff) }
func argSBx(inst uint32) int { return argBx(inst) - 1<<17 + 1 }
