package lua

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// jsonConfig holds the settings of the functions of cjson. They last until the end of the script.
type jsonConfig struct {
	changed                  bool
	encodeDepth, decodeDepth int
	precision                int
	sparseConvert            int // one of invalidNo ...
	encodeInvalid            int
	decodeInvalid            int
	dropBuffer               int // has no effect
	sparseRatio, sparseSafe  int
}

const (
	invalidNo = iota
	invalidYes
	invalidNull
)

var defaultJSON = jsonConfig{encodeDepth: 1000, decodeDepth: 1000, precision: 14, sparseRatio: 2, sparseSafe: 10,
	decodeInvalid: invalidYes}

// null is cjson.null.
var null = &vm.LUserData{Metatable: vm.LNil}

func openJSON(st *state, L *vm.LState) {
	st.cjson = defaultJSON
	functions := map[string]vm.LGFunction{"encode": jsonEncode, "decode": jsonDecode}
	option := func(name string, args int, f func(L *vm.LState, c *jsonConfig) int) {
		functions[name] = func(L *vm.LState) int {
			c := &stateOf(L).cjson
			if L.GetTop() > args {
				argError(L, args+1, "found too many arguments")
			}
			if L.GetTop() > 0 {
				c.changed = true
			}
			return f(L, c)
		}
	}
	integer := func(low, high int, field func(*jsonConfig) *int) func(L *vm.LState, c *jsonConfig) int {
		return func(L *vm.LState, c *jsonConfig) int {
			jsonInt(L, 1, low, high, field(c))
			return pushInt(L, *field(c))
		}
	}
	option("encode_max_depth", 1, integer(1, math.MaxInt32, func(c *jsonConfig) *int { return &c.encodeDepth }))
	option("decode_max_depth", 1, integer(1, math.MaxInt32, func(c *jsonConfig) *int { return &c.decodeDepth }))
	option("encode_number_precision", 1, integer(1, 14, func(c *jsonConfig) *int { return &c.precision }))
	option("encode_keep_buffer", 1, func(L *vm.LState, c *jsonConfig) int {
		jsonSwitch(L, &c.dropBuffer, "on", "off")
		return push(L, vm.LBool(c.dropBuffer == invalidNo))
	})
	option("encode_sparse_array", 3, func(L *vm.LState, c *jsonConfig) int {
		jsonSwitch(L, &c.sparseConvert, "off", "on")
		jsonInt(L, 2, 0, math.MaxInt32, &c.sparseRatio)
		jsonInt(L, 3, 0, math.MaxInt32, &c.sparseSafe)
		return push(L, vm.LBool(c.sparseConvert != invalidNo), vm.LNumber(c.sparseRatio), vm.LNumber(c.sparseSafe))
	})
	option("encode_invalid_numbers", 1, func(L *vm.LState, c *jsonConfig) int {
		jsonSwitch(L, &c.encodeInvalid, "off", "on", "null")
		if c.encodeInvalid == invalidNull {
			return pushString(L, "null")
		}
		return push(L, vm.LBool(c.encodeInvalid == invalidYes))
	})
	option("decode_invalid_numbers", 1, func(L *vm.LState, c *jsonConfig) int {
		jsonSwitch(L, &c.decodeInvalid, "off", "on")
		return push(L, vm.LBool(c.decodeInvalid != invalidNo))
	})
	var t *vm.LTable
	functions["new"] = func(L *vm.LState) int {
		fresh := newTable(0, 0)
		for _, name := range libraryOrder["cjson"].list() {
			storeName(fresh, name, t.RawGetString(name))
		}
		return push(L, fresh)
	}
	t = st.library(L, "cjson", functions, map[string]vm.LValue{"null": null, "_NAME": vm.LString("cjson"),
		"_VERSION": vm.LString("2.1.0")})
}

func jsonInt(L *vm.LState, n, low, high int, field *int) {
	if isNoneOrNil(L, n) {
		return
	}
	v := checkInt32(L, n)
	if v < low || v > high {
		argError(L, 1, fmt.Sprintf("expected integer between %d and %d", low, high)) // always about the first one
	}
	*field = v
}

// jsonSwitch sets a field to the index of the name in the first argument. A boolean means "off" or "on".
func jsonSwitch(L *vm.LState, field *int, names ...string) {
	var name string
	switch v := L.Get(1).(type) {
	case *vm.LNilType:
		return
	case vm.LBool:
		name = "off"
		if v {
			name = "on"
		}
	default:
		name, _, _ = strings.Cut(checkString(L, 1), "\x00")
	}
	i := slices.Index(names, name)
	if i < 0 {
		argError(L, 1, fmt.Sprintf("invalid option '%s'", name))
	}
	*field = i
}

type jsonEncoder struct {
	output
	c *jsonConfig
	// stack is the number of values that lua-cjson would have on the stack: it limits nesting as well.
	stack int
}

func jsonEncode(L *vm.LState) int {
	if L.GetTop() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	e := jsonEncoder{output: output{L: L}, c: &stateOf(L).cjson, stack: 1}
	e.value(L.Get(1), 0)
	return e.push()
}

func (e *jsonEncoder) fail(v vm.LValue, reason string) {
	raise(e.L, "Cannot serialise %s: %s", v.Type(), reason)
}

func (e *jsonEncoder) value(v vm.LValue, depth int) {
	switch v := v.(type) {
	case vm.LString:
		e.text(string(v))
	case vm.LNumber:
		e.number(v)
	case vm.LBool:
		e.b = strconv.AppendBool(e.b, bool(v))
	case *vm.LNilType:
		e.b = append(e.b, "null"...)
	case *vm.LTable:
		e.table(real(v), depth+1)
	case *vm.LUserData:
		if v != null {
			e.fail(v, "type not supported")
		}
		e.b = append(e.b, "null"...)
	default:
		e.fail(v, "type not supported")
	}
}

func (e *jsonEncoder) number(n vm.LNumber) {
	f := float64(n)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		switch {
		case e.c.encodeInvalid == invalidNo:
			e.fail(n, "must not be NaN or Inf")
		case e.c.encodeInvalid == invalidNull:
			e.b = append(e.b, "null"...)
			return
		}
		if math.IsNaN(f) {
			e.b = append(e.b, "nan"...)
			return
		}
	}
	if i := int64(f); float64(i) == f && e.c.precision == 14 && i > -1e14 && i < 1e14 && i != 0 {
		e.b = strconv.AppendInt(e.b, i, 10)
		return
	}
	e.b = appendGeneral(e.b, f, e.c.precision)
}

const hexDigits = "0123456789abcdef"

func (e *jsonEncoder) text(s string) {
	if len(s) > 1024 {
		work(e.L, len(s)/64)
		e.account()
	}
	b := append(e.b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != '/' && c != 0x7f {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\', '/':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\t':
			b = append(b, `\t`...)
		case '\n':
			b = append(b, `\n`...)
		case '\f':
			b = append(b, `\f`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	e.b = append(append(b, s[from:]...), '"')
}

// arrayLen returns the highest index of a table that is an array, -1 for any other table.
func (e *jsonEncoder) arrayLen(t *vm.LTable) int {
	most, n := 0, 0
	for k := range pairs(t) {
		f, ok := k.(vm.LNumber)
		if !ok || f != vm.LNumber(math.Floor(float64(f))) || f < 1 {
			return -1
		}
		if f > vm.LNumber(most) {
			most = math.MinInt32 // the conversion of an out-of-range value to int in C
			if f <= math.MaxInt32 {
				most = int(f)
			}
		}
		n++
	}
	if c := e.c; c.sparseRatio > 0 && most > c.sparseSafe && most/c.sparseRatio > n-1 &&
		float64(most) > float64(n)*float64(c.sparseRatio) {
		if c.sparseConvert == invalidNo {
			e.fail(t, "excessively sparse array")
		}
		return -1
	}
	return most
}

func (e *jsonEncoder) table(t *vm.LTable, depth int) {
	if depth > e.c.encodeDepth || e.stack+3 > maxStack {
		raise(e.L, "Cannot serialise, excessive nesting (%d)", depth)
	}
	e.grown()
	if n := e.arrayLen(t); n > 0 {
		e.b = append(e.b, '[')
		e.stack++
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.b = append(e.b, ',')
			}
			e.value(rawGetInt(t, i), depth)
			work(e.L, 1)
		}
		e.stack--
		e.b = append(e.b, ']')
		return
	}
	e.b = append(e.b, '{')
	e.stack += 2
	first := true
	for k, v := range pairs(t) {
		if !first {
			e.b = append(e.b, ',')
		}
		first = false
		switch k := k.(type) {
		case vm.LNumber:
			e.b = append(e.b, '"')
			e.number(k)
			e.b = append(e.b, '"')
		case vm.LString:
			e.text(string(k))
		default:
			e.fail(k, "table key must be a number or string")
		}
		e.b = append(e.b, ':')
		e.value(v, depth)
		work(e.L, 1)
	}
	e.stack -= 2
	e.b = append(e.b, '}')
}
