package lua

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	vm "github.com/yuin/gopher-lua"
)

// jsonConfig is what the functions of cjson set. It lasts until the end of the script.
type jsonConfig struct {
	changed                  bool
	encodeDepth, decodeDepth int
	precision                int
	sparseConvert            bool
	sparseRatio, sparseSafe  int
	encodeInvalid            int // invalidNo ...
	decodeInvalid            bool
}

const (
	invalidNo = iota
	invalidYes
	invalidNull
)

var defaultJSON = jsonConfig{encodeDepth: 1000, decodeDepth: 1000, precision: 14, sparseRatio: 2, sparseSafe: 10, decodeInvalid: true}

// null is cjson.null.
var null = &vm.LUserData{Metatable: vm.LNil}

func openJSON(st *state, L *vm.LState) {
	st.cjson = defaultJSON
	functions := map[string]vm.LGFunction{"encode": jsonEncode, "decode": jsonDecode}
	option := func(name string, f func(L *vm.LState, c *jsonConfig) int) {
		functions[name] = func(L *vm.LState) int {
			c := &stateOf(L).cjson
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
	option("encode_max_depth", integer(1, math.MaxInt32, func(c *jsonConfig) *int { return &c.encodeDepth }))
	option("decode_max_depth", integer(1, math.MaxInt32, func(c *jsonConfig) *int { return &c.decodeDepth }))
	option("encode_number_precision", integer(1, 14, func(c *jsonConfig) *int { return &c.precision }))
	option("encode_keep_buffer", func(L *vm.LState, _ *jsonConfig) int {
		keep := isNoneOrNil(L, 1) || L.Get(1) != vm.LFalse
		L.Push(vm.LBool(keep))
		return 1
	})
	option("encode_sparse_array", func(L *vm.LState, c *jsonConfig) int {
		if !isNoneOrNil(L, 1) {
			c.sparseConvert = vm.LVAsBool(L.Get(1))
		}
		jsonInt(L, 2, 0, math.MaxInt32, &c.sparseRatio)
		jsonInt(L, 3, 0, math.MaxInt32, &c.sparseSafe)
		L.Push(vm.LBool(c.sparseConvert))
		pushInt(L, c.sparseRatio)
		pushInt(L, c.sparseSafe)
		return 3
	})
	option("encode_invalid_numbers", func(L *vm.LState, c *jsonConfig) int {
		switch v := L.Get(1).(type) {
		case vm.LBool:
			c.encodeInvalid = invalidNo
			if v {
				c.encodeInvalid = invalidYes
			}
		case vm.LString:
			switch v {
			case "off":
				c.encodeInvalid = invalidNo
			case "on":
				c.encodeInvalid = invalidYes
			case "null":
				c.encodeInvalid = invalidNull
			default:
				argError(L, 1, fmt.Sprintf("invalid option '%s'", string(v)))
			}
		}
		if c.encodeInvalid == invalidNull {
			return pushString(L, "null")
		}
		L.Push(vm.LBool(c.encodeInvalid == invalidYes))
		return 1
	})
	option("decode_invalid_numbers", func(L *vm.LState, c *jsonConfig) int {
		if !isNoneOrNil(L, 1) {
			c.decodeInvalid = vm.LVAsBool(L.Get(1))
		}
		L.Push(vm.LBool(c.decodeInvalid))
		return 1
	})
	var t *vm.LTable
	functions["new"] = func(L *vm.LState) int {
		fresh := newTable(0, 0)
		for _, name := range libraryOrder["cjson"].list() {
			storeName(fresh, name, t.RawGetString(name))
		}
		L.Push(fresh)
		return 1
	}
	t = st.library(L, "cjson", functions, map[string]vm.LValue{"null": null, "_NAME": vm.LString("cjson"), "_VERSION": vm.LString("2.1.0")})
}

func jsonInt(L *vm.LState, n, low, high int, field *int) {
	if isNoneOrNil(L, n) {
		return
	}
	v := checkInt(L, n)
	if v < low || v > high {
		argError(L, n, fmt.Sprintf("expected integer between %d and %d", low, high))
	}
	*field = v
}

type jsonEncoder struct {
	L   *vm.LState
	c   *jsonConfig
	b   []byte
	out int // bytes accounted for
}

func jsonEncode(L *vm.LState) int {
	if L.GetTop() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	e := jsonEncoder{L: L, c: &stateOf(L).cjson}
	e.value(L.Get(1), 0)
	e.account()
	return pushString(L, string(e.b))
}

func (e *jsonEncoder) account() {
	charge(e.L, len(e.b)-e.out)
	e.out = len(e.b)
	if e.out > maxString {
		outOfMemory(e.L)
	}
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

// arrayLen returns the highest index of a table that is an array, -1 for one that is none.
func (e *jsonEncoder) arrayLen(t *vm.LTable) int {
	most, n := 0, 0
	for k := range pairs(t) {
		f, ok := k.(vm.LNumber)
		if !ok || f != vm.LNumber(math.Floor(float64(f))) || f < 1 {
			return -1
		}
		if f > vm.LNumber(most) {
			most = math.MinInt32 // what does not fit into an int of C becomes this
			if f <= math.MaxInt32 {
				most = int(f)
			}
		}
		n++
	}
	if c := e.c; c.sparseRatio > 0 && most > c.sparseSafe && most/c.sparseRatio > n-1 && float64(most) > float64(n)*float64(c.sparseRatio) {
		if !c.sparseConvert {
			e.fail(t, "excessively sparse array")
		}
		return -1
	}
	return most
}

func (e *jsonEncoder) table(t *vm.LTable, depth int) {
	if depth > e.c.encodeDepth || depth > 100000 {
		raise(e.L, "Cannot serialise, excessive nesting (%d)", depth)
	}
	if len(e.b)-e.out > 64<<10 {
		e.account()
	}
	if n := e.arrayLen(t); n > 0 {
		e.b = append(e.b, '[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.b = append(e.b, ',')
			}
			e.value(rawGetInt(t, i), depth)
			work(e.L, 1)
		}
		e.b = append(e.b, ']')
		return
	}
	e.b = append(e.b, '{')
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
	e.b = append(e.b, '}')
}

type jsonDecoder struct {
	L     *vm.LState
	c     *jsonConfig
	s     string
	at    int
	depth int
	buf   []byte
}

func jsonDecode(L *vm.LState) int {
	if L.GetTop() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	d := jsonDecoder{L: L, c: &stateOf(L).cjson, s: checkString(L, 1)}
	if len(d.s) >= 2 && (d.s[0] == 0 || d.s[1] == 0) {
		raise(L, "JSON parser does not support UTF-16 or UTF-32")
	}
	charge(L, 2*len(d.s))
	v := d.value()
	d.blanks()
	if d.at < len(d.s) {
		d.unexpected("the end")
	}
	L.Push(v)
	return 1
}

func (d *jsonDecoder) blanks() {
	for d.at < len(d.s) {
		switch d.s[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// unexpected raises the error of a token that is not what was expected; it names the token as lua-cjson does.
func (d *jsonDecoder) unexpected(what string) {
	at := d.at + 1
	token := "T_END"
	if d.at < len(d.s) {
		switch d.s[d.at] {
		case '{':
			token = "T_OBJ_BEGIN"
		case '}':
			token = "T_OBJ_END"
		case '[':
			token = "T_ARR_BEGIN"
		case ']':
			token = "T_ARR_END"
		case ',':
			token = "T_COMMA"
		case ':':
			token = "T_COLON"
		case '"':
			d.text()
			token = "T_STRING"
		default:
			switch d.scalar(what).(type) {
			case vm.LBool:
				token = "T_BOOLEAN"
			case vm.LNumber:
				token = "T_NUMBER"
			default:
				token = "T_NULL"
			}
		}
	}
	d.raise(what, token, at)
}

func (d *jsonDecoder) raise(what, found string, at int) {
	raise(d.L, "Expected %s but found %s at character %d", what, found, at)
}

func (d *jsonDecoder) descend() {
	if d.depth++; d.depth > d.c.decodeDepth || d.depth > 100000 {
		raise(d.L, "Found too many nested data structures (%d) at character %d", d.depth, d.at+1)
	}
	d.at++
}

func (d *jsonDecoder) value() vm.LValue {
	work(d.L, 1)
	d.blanks()
	if d.at == len(d.s) {
		d.unexpected("value")
	}
	switch d.s[d.at] {
	case '"':
		return vm.LString(d.text())
	case '[':
		d.descend()
		t := newTable(0, 0)
		if d.blanks(); d.at < len(d.s) && d.s[d.at] == ']' {
			d.at++
			d.depth--
			return t
		}
		for i := 1; ; i++ {
			setInt(d.L, t, i, d.value())
			d.blanks()
			if d.at < len(d.s) && d.s[d.at] == ']' {
				d.at++
				d.depth--
				return t
			}
			if d.at == len(d.s) || d.s[d.at] != ',' {
				d.unexpected("comma or array end")
			}
			d.at++
		}
	case '{':
		d.descend()
		t := newTable(0, 0)
		if d.blanks(); d.at < len(d.s) && d.s[d.at] == '}' {
			d.at++
			d.depth--
			return t
		}
		for {
			d.blanks()
			if d.at == len(d.s) || d.s[d.at] != '"' {
				d.unexpected("object key string")
			}
			key := d.text()
			if d.blanks(); d.at == len(d.s) || d.s[d.at] != ':' {
				d.unexpected("colon")
			}
			d.at++
			storeName(t, key, d.value())
			if d.blanks(); d.at < len(d.s) && d.s[d.at] == '}' {
				d.at++
				d.depth--
				return t
			}
			if d.at == len(d.s) || d.s[d.at] != ',' {
				d.unexpected("comma or object end")
			}
			d.at++
		}
	case ']', '}', ',', ':':
		d.unexpected("value")
	}
	return d.scalar("value")
}

// scalar reads a number, true, false or null; what is what errors say was expected.
func (d *jsonDecoder) scalar(what string) vm.LValue {
	rest := d.s[d.at:]
	for _, w := range []struct {
		text  string
		value vm.LValue
	}{{"true", vm.LTrue}, {"false", vm.LFalse}, {"null", null}} {
		if len(rest) >= len(w.text) && rest[:len(w.text)] == w.text {
			d.at += len(w.text)
			return w.value
		}
	}
	n := jsonNumber(rest, d.c.decodeInvalid)
	if n == 0 && !d.c.decodeInvalid && jsonNumber(rest, true) > 0 {
		d.raise(what, "invalid number", d.at+1)
	}
	if n == 0 {
		d.raise(what, "invalid token", d.at+1)
	}
	f, ok := parseNumber(rest[:n])
	if !ok {
		d.raise(what, "invalid number", d.at+1)
	}
	d.at += n
	return vm.LNumber(f)
}

// jsonNumber returns the length of the number at the beginning of a text. With invalid it takes what strtod of C takes, as
// lua-cjson does: hexadecimal numbers, inf and nan, leading zeros.
func jsonNumber(s string, invalid bool) int {
	i := 0
	if i < len(s) && (s[i] == '-' || invalid && s[i] == '+') {
		i++
	}
	if i == len(s) {
		return 0
	}
	digits := func() (n int) {
		for i < len(s) && isDigit(s[i]) {
			i++
			n++
		}
		return n
	}
	if !isDigit(s[i]) {
		if !invalid {
			return 0
		}
		for _, word := range []string{"infinity", "inf", "nan"} {
			if len(s)-i >= len(word) && equalFold(s[i:i+len(word)], word) {
				return i + len(word)
			}
		}
		if i == 0 || s[i] != '.' || i+1 == len(s) || !isDigit(s[i+1]) { // a point is taken after a sign only
			return 0
		}
	}
	if s[i] == '0' && i+1 < len(s) && (s[i+1] == 'x' || s[i+1] == 'X' || isDigit(s[i+1])) {
		if !invalid {
			return 0
		}
		if s[i+1]|0x20 == 'x' && i+2 < len(s) && digit(s[i+2]) < 16 {
			for i += 2; i < len(s) && digit(s[i]) < 16; i++ {
			}
			return i
		}
	}
	digits()
	if i < len(s) && s[i] == '.' {
		i++
		digits()
	}
	if end := i; i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if digits() == 0 {
			return end
		}
	}
	return i
}

func equalFold(a, b string) bool {
	for i := range len(a) {
		if a[i]|0x20 != b[i] {
			return false
		}
	}
	return true
}

// text reads a string from its quote on.
func (d *jsonDecoder) text() string {
	start := d.at
	d.at++
	from := d.at
	for ; d.at < len(d.s); d.at++ {
		c := d.s[d.at]
		if c == '"' {
			d.at++
			return string([]byte(d.s[from : d.at-1]))
		}
		if c == '\\' {
			break
		}
		if c < 0x20 {
			d.raise("value", "invalid token", start+1)
		}
	}
	b := append(d.buf[:0], d.s[from:d.at]...)
	for d.at < len(d.s) {
		c := d.s[d.at]
		switch {
		case c == '"':
			d.at++
			d.buf = b
			return string(b)
		case c == '\\':
			b = d.escape(b)
			continue
		case c < 0x20:
			d.raise("value", "invalid token", start+1)
		}
		b = append(b, c)
		d.at++
	}
	d.raise("value", "unexpected end of string", d.at+1)
	return ""
}

func (d *jsonDecoder) escape(b []byte) []byte {
	at := d.at + 1
	d.at += 2
	if d.at > len(d.s) {
		d.raise("value", "invalid escape code", at)
	}
	switch c := d.s[d.at-1]; c {
	case '"', '\\', '/':
		return append(b, c)
	case 'b':
		return append(b, '\b')
	case 'f':
		return append(b, '\f')
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'u':
		r, ok := d.hex4()
		if ok && r >= 0xdc00 && r < 0xe000 {
			ok = false
		}
		if ok && r >= 0xd800 && r < 0xdc00 {
			ok = false
			if d.at+1 < len(d.s) && d.s[d.at] == '\\' && d.s[d.at+1] == 'u' {
				d.at += 2
				var low rune
				if low, ok = d.hex4(); ok {
					ok = low >= 0xdc00 && low < 0xe000
					r = 0x10000 + (r-0xd800)<<10 + low - 0xdc00
				}
			}
		}
		if !ok {
			d.raise("value", "invalid unicode escape code", at)
		}
		return utf8.AppendRune(b, r)
	}
	d.raise("value", "invalid escape code", at)
	return b
}

func (d *jsonDecoder) hex4() (r rune, ok bool) {
	if d.at+4 > len(d.s) {
		return 0, false
	}
	for range 4 {
		n := digit(d.s[d.at])
		if n > 15 {
			return 0, false
		}
		r = r<<4 | rune(n)
		d.at++
	}
	return r, true
}
