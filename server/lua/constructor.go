package lua

import (
	"github.com/basaltdb/basalt/server/lua/luac"

	vm "github.com/yuin/gopher-lua"
)

// A table constructor is compiled to NEWTABLE, with the numbers of elements without and with a key; SETTABLE or
// SETTABLEKS for each of the latter; and SETLIST for each group of FieldsPerFlush = 50 of the former, which are in
// registers until then. The compiler of the virtual machine goes wrong in some of them:
//
//   - if a whole number of groups is followed by a call or "...", whose results must be appended, the results overwrite
//     the last group: {1, 2, ..., 50, f()};
//   - if it is followed by a field with a key, the last group is stored a second time, from registers that hold other
//     values by then: {1, 2, ..., 50, x = 1};
//   - a multiple value at the end is counted as an element with a key;
//   - the groups from the 512th on are stored at wrong indexes.
//
// So its code is corrected here; package luac has made several constructors of one with more groups than that.

// perFlush is FieldsPerFlush.
const perFlush = luac.PerFlush

// fitConstructors corrects the code of the constructors in a function, and in those within it.
func fitConstructors(p *vm.FunctionProto) {
	type table struct {
		at     int // pc of NEWTABLE
		keyed  int // fields so far
		groups int // stored groups
	}
	tables := map[int]*table{} // by register: of nested tables, the one that ends last comes first
	for pc, inst := range p.Code {
		t := tables[argA(inst)]
		switch opcode(inst) {
		case vm.OP_NEWTABLE:
			tables[argA(inst)] = &table{at: pc}
		case vm.OP_SETTABLE, vm.OP_SETTABLEKS:
			if t != nil {
				t.keyed++
			}
		case vm.OP_SETLIST:
			switch n, before := argB(inst), p.Code[pc-1]; {
			case n == 0: // all remaining values
				p.Code[t.at] = p.Code[t.at]&^(0x1ff<<9) | uint32(sizeCode(t.keyed))<<9
			case n == perFlush && argA(before) == argA(inst) && (opcode(before) == vm.OP_SETTABLE ||
				opcode(before) == vm.OP_SETTABLEKS):
				p.Code[pc] = uint32(vm.OP_NOP) << 26 // after a field with a key: a repetition of the last group
				continue
			}
			t.groups++
			p.Code[pc] = inst&^(0x1ff<<9) | uint32(t.groups)<<9
		}
	}
	for _, inner := range p.FunctionPrototypes {
		fitConstructors(inner)
	}
}

// NEWTABLE encodes its numbers in 9 bits: those above 15 with 3 bits of mantissa, rounded up.

func sizeCode(n int) int {
	e := 0
	for ; n >= 16; e++ {
		n = (n + 1) >> 1
	}
	if n < 8 {
		return n
	}
	return (e+1)<<3 | (n - 8)
}

func codedSize(n int) int {
	if n >= 16 {
		n = (n&7 + 8) << (n>>3 - 1)
	}
	return n
}

// joinTables is join(elements, keyed, t1, t2, ...): a table with the concatenated arrays of the others, of which all
// but the last have luac.MaxPart places, and with their other keys.
func joinTables(L *vm.LState) int {
	t := newTable(codedSize(sizeCode(L.CheckInt(1))), codedSize(sizeCode(L.CheckInt(2))))
	for i := 3; i <= L.GetTop(); i++ {
		from := L.CheckTable(i)
		list := contentsOf(from).array
		for k, v := range each(from) {
			if n, ok := arrayIndex(k); !ok || n > len(list) {
				store(L, t, k, v)
			}
		}
		appendList(L, t, (i-3)*luac.MaxPart, list)
	}
	return push(L, t)
}
