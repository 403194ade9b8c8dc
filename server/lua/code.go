package lua

import (
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/lua/luac"

	vm "github.com/yuin/gopher-lua"
)

// code is a compiled source. Any number of states may run it.
type code struct {
	proto *vm.FunctionProto
	// setsGlobals says that the code assigns to an existing global. Then the script accesses the globals through a
	// table that refuses that; for all other scripts the environment is the table itself, which is faster.
	setsGlobals bool
}

// compile compiles a source, see luac.Compile.
func compile(source []byte, name string, calls int) (*code, error) {
	proto, err := luac.Compile(source, name, calls)
	if err != nil {
		return nil, err
	}
	return &code{proto: proto, setsGlobals: setsGlobals(proto)}, nil
}

// builtin holds the names that scripts find in their environment. They are protected.
var builtin = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq(`ARGV KEYS _G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error
		gcinfo getmetatable ipairs load loadstring math next pairs pcall rawequal rawget rawset redis select
		setmetatable string struct table tonumber tostring type unpack xpcall`) {
		builtin[name] = true
	}
}

// setsGlobals reports whether a function, or one within it, assigns to an existing global.
func setsGlobals(p *vm.FunctionProto) bool {
	for _, inst := range p.Code {
		if int(inst>>26) == vm.OP_SETGLOBAL {
			name, _ := p.Constants[inst&0x3ffff].(vm.LString)
			if builtin[string(name)] {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.FunctionPrototypes, setsGlobals)
}

// join concatenates values from right to left. It returns the index of an invalid value, -1 if all are valid.
func join(L *vm.LState, values []vm.LValue) (v vm.LValue, bad int) {
	n := len(values)
	size, plain := 0, true
	for i := 0; i < n && plain; i++ {
		switch v := values[i].(type) {
		case vm.LString:
			size += len(v)
		case vm.LNumber:
			size += 24
		default:
			plain = false
		}
	}
	if plain {
		charge(L, size)
		var room [256]byte
		b := room[:0]
		if size > len(room) {
			b = make([]byte, 0, size)
		}
		for _, v := range values {
			b = appendText(b, v)
		}
		return vm.LString(b), -1
	}
	right := values[n-1]
	for i := n - 2; i >= 0; i-- {
		left := values[i]
		if isString(left) && isString(right) {
			b := appendText(appendText(nil, left), right)
			charge(L, len(b))
			right = vm.LString(b)
			continue
		}
		f := metaField(L, left, "__concat")
		if f == vm.LNil {
			f = metaField(L, right, "__concat")
		}
		if f == vm.LNil {
			if !isString(left) {
				return left, i
			}
			return right, i + 1
		}
		right = callMeta(L, f, left, right)
	}
	return right, -1
}

func appendText(b []byte, v vm.LValue) []byte {
	if n, ok := v.(vm.LNumber); ok {
		return appendNumber(b, float64(n))
	}
	s, _ := v.(vm.LString)
	return append(b, s...)
}
