package lua

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/lua/luac"
)

// maxStack is how many values a library function can have on the stack in Lua 5.1, including its arguments.
const maxStack = 8000

func openBase(st *state, g *vm.LTable, L *vm.LState) {
	functions := map[string]vm.LGFunction{
		"assert": baseAssert, "collectgarbage": baseCollectGarbage, "error": baseError, "gcinfo": baseGCInfo,
		"getmetatable": baseGetMetatable, "load": baseLoad, "loadstring": baseLoadString, "next": baseNext,
		"pcall": basePCall, "rawequal": baseRawEqual, "rawget": baseRawGet, "rawset": baseRawSet, "select": baseSelect,
		"setmetatable": baseSetMetatable, "tonumber": baseToNumber, "tostring": baseToString, "type": baseType,
		"unpack": baseUnpack, "xpcall": baseXPCall,
	}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		storeName(g, name, L.NewFunction(functions[name]))
	}
	st.nextIndex = L.NewFunction(ipairsNext)
	st.next = g.RawGetString("next").(*vm.LFunction)
	storeName(g, "ipairs", L.NewClosure(baseIPairs, st.nextIndex))
	storeName(g, "pairs", L.NewClosure(basePairs, st.next))
	storeName(g, "_VERSION", vm.LString("Lua 5.1"))
}

func baseAssert(L *vm.LState) int {
	if vm.LVIsFalse(checkAny(L, 1)) {
		raise(L, "%s", optString(L, 2, "assertion failed!"))
	}
	return L.GetTop()
}

func baseCollectGarbage(L *vm.LState) int {
	option := optString(L, 1, "collect")
	optInt(L, 2, 0)
	switch option {
	case "count":
		return pushNumber(L, collected)
	case "step":
		return push(L, vm.LTrue)
	case "collect", "stop", "restart":
		return pushInt(L, 0)
	case "setpause", "setstepmul":
		return pushInt(L, 200)
	}
	argError(L, 1, fmt.Sprintf("invalid option '%s'", option))
	return 0
}

func baseGCInfo(L *vm.LState) int { return pushInt(L, collected) }

func baseError(L *vm.LState) int {
	level := optInt32(L, 2, 1)
	value := L.Get(1)
	if s, ok := toString(value); ok && level > 0 {
		value = vm.LString(where(L, level) + s)
	}
	L.Error(value, 0)
	return 0
}

// collected is collectgarbage's result for the memory in use, in KiB: the memory of a single script is not measured.
const collected = 64

func baseGetMetatable(L *vm.LState) int {
	v := checkAny(L, 1)
	if t, ok := v.(*vm.LTable); ok && isReadOnly(t) {
		if st := stateOf(L); t == st.globals || t == st.libEnv.shown {
			return push(L, st.globalMeta)
		}
		return push(L, vm.LNil)
	}
	if v.Type() == vm.LTString {
		return push(L, stateOf(L).stringMeta)
	}
	mt := metatable(L, v)
	if t, ok := mt.(*vm.LTable); ok {
		if field := t.RawGetString("__metatable"); field != vm.LNil {
			mt = field
		}
	}
	return push(L, mt)
}

func baseSetMetatable(L *vm.LState) int {
	t := checkTable(L, 1)
	mt := L.Get(2)
	if _, ok := mt.(*vm.LTable); !ok && (mt != vm.LNil || isNone(L, 2)) {
		argError(L, 2, "nil or table expected")
	}
	if isReadOnly(t) {
		raiseReadOnly(L)
	}
	if m, ok := t.Metatable.(*vm.LTable); ok && m.RawGetString("__metatable") != vm.LNil {
		raise(L, "cannot change a protected metatable")
	}
	t.Metatable = mt
	return push(L, t)
}

// chunkName shortens a chunk name for messages: after @ or = the rest is the name; of source text the first line is
// used.
func chunkName(name string) string {
	const most = 60 - len(` [string "..."] `) - 1
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), 60)]
	case strings.HasPrefix(name, "@"):
		if name = name[1:]; len(name) > 52 {
			return "..." + name[len(name)-52:]
		}
		return name
	}
	name = luac.CString(name)
	line := name
	if i := strings.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	line = line[:min(len(line), most)]
	if len(line) < len(name) {
		line += "..."
	}
	return `[string "` + line + `"]`
}

// compileMemory is the approximate memory that compiling takes, in bytes for each byte of the source. The compiler is
// not stopped while it works.
const compileMemory = 64

func loadChunk(L *vm.LState, source, name string) int {
	charge(L, compileMemory*len(source))
	c, err := compile([]byte(source), chunkName(name), stateOf(L).calls)
	if err != nil {
		return push(L, vm.LNil, vm.LString(err.Error()))
	}
	st := stateOf(L)
	if shown := chunkName(name); st.sources[shown] != name {
		if st.sources == nil {
			st.sources = map[string]string{}
		}
		st.sources[shown] = name
	}
	env := environment{st.global, st.globals}
	if st.loading != nil || st.running && st.run.Function != nil {
		env = st.libraries()
	}
	return push(L, st.functionIn(env, c))
}

func baseLoadString(L *vm.LState) int {
	source := checkString(L, 1)
	return loadChunk(L, source, optString(L, 2, source))
}

func baseLoad(L *vm.LState) int {
	name := optString(L, 2, "=(load)") // Lua looks at the name first
	f := checkFunction(L, 1)
	var source strings.Builder
	for {
		results, err := stateOf(L).protected(L, f)
		if err != nil {
			return push(L, vm.LNil, err.Object)
		}
		var v vm.LValue = vm.LNil
		if len(results) > 0 {
			v = results[0]
		}
		s, ok := toString(v)
		if v == vm.LNil || ok && s == "" {
			return loadChunk(L, source.String(), name)
		}
		if !ok {
			return push(L, vm.LNil, vm.LString("reader function must return a string"))
		}
		charge(L, len(s))
		source.WriteString(s)
	}
}

func baseNext(L *vm.LState) int {
	t := real(checkTable(L, 1))
	k, v, ok := nextKey(t, L.Get(2))
	if !ok {
		L.Error(vm.LString("invalid key to 'next'"), 0)
	}
	if k == vm.LNil {
		return push(L, k)
	}
	return push(L, k, v)
}

func basePairs(L *vm.LState) int {
	return push(L, L.Get(vm.UpvalueIndex(1)), checkTable(L, 1), vm.LNil)
}

func baseIPairs(L *vm.LState) int {
	return push(L, L.Get(vm.UpvalueIndex(1)), checkTable(L, 1), vm.LNumber(0))
}

func ipairsNext(L *vm.LState) int {
	i := checkInt32(L, 2) + 1
	v := rawGetInt(checkTable(L, 1), i)
	if v == vm.LNil {
		return 0
	}
	return push(L, vm.LNumber(i), v)
}

// basePCall is Redis's pcall: for an error table with a string in err it returns the string, for another table also the
// value of err.
func basePCall(L *vm.LState) int {
	n := L.GetTop()
	if n == 0 { // Redis calls its placeholder for the result
		return push(L, vm.LFalse, vm.LString("attempt to call a boolean value"))
	}
	args := make([]vm.LValue, n-1)
	for i := range args {
		args[i] = L.Get(i + 2)
	}
	results, err := stateOf(L).protected(L, L.Get(1), args...)
	if err == nil {
		return push(L, vm.LTrue) + push(L, results...)
	}
	if t, ok := err.Object.(*vm.LTable); ok {
		text := L.GetField(t, "err")
		if !isString(text) { // it is returned as well
			return push(L, vm.LFalse, t, text)
		}
		return push(L, vm.LFalse, text)
	}
	return push(L, vm.LFalse, err.Object)
}

func isString(v vm.LValue) bool { return vm.LVCanConvToString(v) }

// baseXPCall is xpcall. The handler is called after the error has left the function, so it cannot inspect the stack;
// without the debug library it has no means to do so anyway.
func baseXPCall(L *vm.LState) int {
	if isNone(L, 2) {
		argError(L, 2, "value expected")
	}
	st := stateOf(L)
	results, err := st.protected(L, L.Get(1))
	if err == nil {
		return push(L, vm.LTrue) + push(L, results...)
	}
	if L.Get(2).Type() != vm.LTFunction {
		return push(L, vm.LFalse, vm.LString(textErrorInHandler))
	}
	// An error in the handler is passed to the handler, nested in the previous one.
	for nested := st.calls + 2; nested < maxNested+spareNested; nested++ {
		if nested == maxNested {
			err.Object = vm.LString(textNested)
			continue
		}
		calls := st.calls
		st.calls = nested - 1
		results, err = st.protected(L, L.Get(2), err.Object)
		st.calls = calls
		if err == nil {
			if len(results) == 0 {
				results = []vm.LValue{vm.LNil}
			}
			return push(L, vm.LFalse, results[0])
		}
		if text, ok := err.Object.(vm.LString); ok && strings.HasSuffix(string(text), textStackOverflow) {
			break
		}
	}
	return push(L, vm.LFalse, vm.LString(textErrorInHandler))
}

func baseRawEqual(L *vm.LState) int {
	return push(L, vm.LBool(L.RawEqual(checkAny(L, 1), checkAny(L, 2))))
}

func baseRawGet(L *vm.LState) int {
	t := real(checkTable(L, 1))
	return push(L, rawGet(t, checkAny(L, 2)))
}

func baseRawSet(L *vm.LState) int {
	t := checkTable(L, 1)
	checkAny(L, 2)
	if isReadOnly(t) {
		raiseReadOnly(L)
	}
	checkAny(L, 3)
	if key, ok := L.Get(2).(vm.LNumber); ok && math.IsNaN(float64(key)) {
		L.Error(vm.LString("table index is NaN"), 0) // without a position
	} else if L.Get(2) == vm.LNil {
		L.Error(vm.LString("table index is nil"), 0)
	}
	store(L, t, L.Get(2), L.Get(3))
	return push(L, t)
}

func baseSelect(L *vm.LState) int {
	n := L.GetTop()
	if s, ok := L.Get(1).(vm.LString); ok && strings.HasPrefix(string(s), "#") {
		return pushInt(L, n-1)
	}
	i := checkInt32(L, 1)
	if i < 0 {
		i = n + i
	}
	i = min(i, n)
	if i < 1 {
		argError(L, 1, "index out of range")
	}
	return n - i
}

func baseToNumber(L *vm.LState) int {
	base := optInt32(L, 2, 10)
	if base == 10 {
		if f, ok := toNumber(checkAny(L, 1)); ok {
			return pushNumber(L, f)
		}
		return push(L, vm.LNil)
	}
	s := checkString(L, 1)
	if base < 2 || base > 36 {
		argError(L, 2, "base out of range")
	}
	if f, ok := parseUnsigned(s, base); ok {
		return pushNumber(L, f)
	}
	return push(L, vm.LNil)
}

// parseUnsigned is C's strtoul with blanks around the number: a sign negates modulo 2^64, and a too large number gives
// the greatest one.
func parseUnsigned(s string, base int) (float64, bool) {
	const spaces = " \t\n\v\f\r"
	s = luac.CString(s)
	s = strings.TrimLeft(s, spaces)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && digit(s[2]) < 16 {
		s = s[2:]
	}
	var n uint64
	i, overflow := 0, false
	for ; i < len(s); i++ {
		d := digit(s[i])
		if d >= base {
			break
		}
		if n > (math.MaxUint64-uint64(d))/uint64(base) {
			overflow = true
		}
		n = n*uint64(base) + uint64(d)
	}
	if i == 0 || strings.Trim(s[i:], spaces) != "" {
		return 0, false
	}
	if overflow {
		n = math.MaxUint64
	} else if negative {
		n = -n
	}
	return float64(n), true
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		return int(c|0x20-'a') + 10
	}
	return 99
}

func tostring(L *vm.LState, v vm.LValue) vm.LValue {
	switch v := v.(type) {
	case vm.LString:
		return v
	case vm.LNumber:
		return vm.LString(appendNumber(nil, float64(v)))
	case *vm.LUserData:
		if v == null {
			return vm.LString("userdata: (nil)")
		}
	}
	if f := metaField(L, v, "__tostring"); f != vm.LNil {
		return callMeta(L, f, v)
	}
	return vm.LString(v.String())
}

func baseToString(L *vm.LState) int {
	return push(L, tostring(L, checkAny(L, 1)))
}

func baseType(L *vm.LState) int { return pushString(L, checkAny(L, 1).Type().String()) }

func baseUnpack(L *vm.LState) int {
	t := checkTable(L, 1)
	i, e := optInt32(L, 2, 1), optInt32(L, 3, border(t))
	if i > e {
		return 0
	}
	if n := e - i + 1; L.GetTop()+n > maxStack {
		raise(L, "too many results to unpack")
	}
	for n := i; n <= e; n++ {
		L.Push(rawGetInt(t, n))
	}
	return e - i + 1
}
