package lua

import (
	"strings"
	"unicode/utf8"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/lua/luac"
)

// jsonDecoder reads JSON token by token, like lua-cjson: which extensions of JSON it accepts, and the texts of its
// errors, depend on where tokens begin and end.
type jsonDecoder struct {
	L     *vm.LState
	st    *state
	c     *jsonConfig
	s     string
	at    int
	depth int
	stack int // number of values that lua-cjson would have on the stack: it limits nesting as well
	buf   []byte

	// The token: its kind and position, or the error and its position.
	kind   jsonKind
	from   int
	string string  // value of a jsonString, or the error
	number float64 // value of a jsonNumber
	isTrue bool    // value of a jsonBoolean
}

type jsonKind uint8

const (
	jsonError jsonKind = iota
	jsonObject
	jsonObjectEnd
	jsonArray
	jsonArrayEnd
	jsonString
	jsonNumber
	jsonBoolean
	jsonNull
	jsonColon
	jsonComma
	jsonEnd
	jsonWord // the beginning of a scalar
	jsonBlank
)

// jsonNames are the names of the tokens in errors.
var jsonNames = [...]string{jsonObject: "T_OBJ_BEGIN", jsonObjectEnd: "T_OBJ_END", jsonArray: "T_ARR_BEGIN",
	jsonArrayEnd: "T_ARR_END",
	jsonString:   "T_STRING", jsonNumber: "T_NUMBER", jsonBoolean: "T_BOOLEAN", jsonNull: "T_NULL", jsonColon: "T_COLON",
	jsonComma: "T_COMMA", jsonEnd: "T_END"}

// jsonKinds maps the first byte of a token to its kind. The text ends at its first zero byte.
var jsonKinds = func() (kinds [256]jsonKind) {
	for c, kind := range map[byte]jsonKind{'{': jsonObject, '}': jsonObjectEnd, '[': jsonArray, ']': jsonArrayEnd,
		',': jsonComma,
		':': jsonColon, 0: jsonEnd, ' ': jsonBlank, '\t': jsonBlank, '\n': jsonBlank, '\r': jsonBlank} {
		kinds[c] = kind
	}
	for _, c := range []byte("fiInNt\"+-0123456789") {
		kinds[c] = jsonWord
	}
	return kinds
}()

func jsonDecode(L *vm.LState) int {
	if L.GetTop() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	st := stateOf(L)
	d := jsonDecoder{L: L, st: st, c: &st.cjson, s: checkString(L, 1), stack: 1}
	if len(d.s) >= 2 && (d.s[0] == 0 || d.s[1] == 0) {
		raise(L, "JSON parser does not support UTF-16 or UTF-32")
	}
	charge(L, 2*len(d.s))
	d.s = luac.CString(d.s)
	d.next()
	v := d.read()
	d.next()
	d.require(jsonEnd, "the end")
	return push(L, v)
}

// require raises an error unless the token has the expected kind.
func (d *jsonDecoder) require(kind jsonKind, what string) {
	if d.kind == kind {
		return
	}
	found := d.string
	if d.kind != jsonError {
		found = jsonNames[d.kind]
	}
	raise(d.L, "Expected %s but found %s at character %d", what, found, d.from+1)
}

func (d *jsonDecoder) descend(slots int) {
	if d.depth++; d.depth > d.c.decodeDepth || d.stack+slots > maxStack {
		raise(d.L, "Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
}

// read returns the value that begins with the token.
func (d *jsonDecoder) read() vm.LValue {
	work(d.L, 1)
	switch d.kind {
	case jsonString:
		return d.st.text(d.string)
	case jsonNumber:
		return d.st.number(d.number)
	case jsonBoolean:
		return vm.LBool(d.isTrue)
	case jsonNull:
		return null
	case jsonArray:
		return d.array()
	case jsonObject:
		return d.object()
	}
	d.require(jsonString, "value")
	return nil
}

func (d *jsonDecoder) array() vm.LValue {
	d.descend(2)
	d.stack++
	t := newTable(0, 0)
	d.next()
	for i := 1; d.kind != jsonArrayEnd || i > 1; i++ {
		storeInt(d.L, t, i, d.read())
		if d.next(); d.kind == jsonArrayEnd {
			break
		}
		d.require(jsonComma, "comma or array end")
		d.next()
	}
	d.stack--
	d.depth--
	return t
}

func (d *jsonDecoder) object() vm.LValue {
	d.descend(3)
	d.stack += 2
	t := newTable(0, 0)
	d.next()
	for first := true; d.kind != jsonObjectEnd || !first; first = false {
		d.require(jsonString, "object key string")
		key := d.st.text(d.string)
		d.next()
		d.require(jsonColon, "colon")
		d.next()
		addField(t, key, d.read())
		if d.next(); d.kind == jsonObjectEnd {
			break
		}
		d.require(jsonComma, "comma or object end")
		d.next()
	}
	d.stack -= 2
	d.depth--
	return t
}

// peek returns the byte at a place, 0 at the end.
func (d *jsonDecoder) peek(at int) byte {
	if at < len(d.s) {
		return d.s[at]
	}
	return 0
}

// next reads a token.
func (d *jsonDecoder) next() {
	for jsonKinds[d.peek(d.at)] == jsonBlank {
		d.at++
	}
	d.from = d.at
	c := d.peek(d.at)
	d.kind = jsonKinds[c]
	switch d.kind {
	case jsonError:
		d.refuse("invalid token")
	case jsonEnd:
	case jsonWord:
		d.word(c)
	default:
		d.at++
	}
}

func (d *jsonDecoder) refuse(reason string) { d.kind, d.from, d.string = jsonError, d.at, reason }

// word reads a scalar that begins with c.
func (d *jsonDecoder) word(c byte) {
	rest := d.s[d.at:]
	switch {
	case c == '"':
		d.text()
	case c == '-' || isDigit(c):
		if d.c.decodeInvalid == invalidNo && isInvalidJSONNumber(rest) {
			d.refuse("invalid number")
			return
		}
		d.numeral(rest)
	case strings.HasPrefix(rest, "true"):
		d.kind, d.isTrue = jsonBoolean, true
		d.at += len("true")
	case strings.HasPrefix(rest, "false"):
		d.kind, d.isTrue = jsonBoolean, false
		d.at += len("false")
	case strings.HasPrefix(rest, "null"):
		d.kind = jsonNull
		d.at += len("null")
	case d.c.decodeInvalid != invalidNo && isInvalidJSONNumber(rest):
		d.numeral(rest)
	default:
		d.refuse("invalid token")
	}
}

func (d *jsonDecoder) numeral(rest string) {
	f, n := strtod(rest)
	if n == 0 {
		d.refuse("invalid number")
		return
	}
	d.kind, d.number = jsonNumber, f
	d.at += n
}

// isInvalidJSONNumber reports whether a number that strtod may accept is invalid in JSON, judged by its beginning.
func isInvalidJSONNumber(s string) bool {
	if strings.HasPrefix(s, "+") {
		return true
	}
	s = strings.TrimPrefix(s, "-")
	if s == "" {
		return false
	}
	if s[0] == '0' {
		return len(s) > 1 && (s[1]|0x20 == 'x' || isDigit(s[1]))
	}
	return s[0] > '9' && len(s) >= 3 && (strings.EqualFold(s[:3], "inf") || strings.EqualFold(s[:3], "nan"))
}

// strtod parses the number at the beginning of a text like C's strtod, and returns its length; 0 = no number.
func strtod(s string) (f float64, n int) {
	if f, n = plainInteger(s); n > 0 && (n == len(s) || s[n] != '.' && s[n]|0x20 != 'e' && s[n]|0x20 != 'x') {
		return f, n
	}
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	if i == len(s) {
		return 0, 0
	}
	for _, word := range []string{"infinity", "inf", "nan"} {
		if s[i] > '9' && len(s)-i >= len(word) && strings.EqualFold(s[i:i+len(word)], word) {
			n = i + len(word)
			f, _ = parseNumber(s[:n])
			if word == "nan" && strings.HasPrefix(s[n:], "(") { // the content of the parentheses is ignored
				inside := strings.TrimLeftFunc(s[n+1:], func(r rune) bool { return r == '_' || r < 128 && digit(byte(r)) < 36 })
				if strings.HasPrefix(inside, ")") {
					n = len(s) - len(inside) + 1
				}
			}
			return f, n
		}
	}
	base, exponent := 10, byte('e')
	if i+1 < len(s) && s[i] == '0' && s[i+1]|0x20 == 'x' {
		base, exponent = 16, 'p'
		i += 2
	}
	start, count := i, 0
	digits := func() {
		for ; i < len(s) && digit(s[i]) < base; i++ {
			count++
		}
	}
	digits()
	if i < len(s) && s[i] == '.' {
		i++
		digits()
	}
	if count == 0 {
		if base == 16 { // the 0 before the x
			f, _ = parseNumber(s[:start-1])
			return f, start - 1
		}
		return 0, 0
	}
	if i < len(s) && s[i]|0x20 == exponent {
		end := i + 1
		if end < len(s) && (s[end] == '+' || s[end] == '-') {
			end++
		}
		if end < len(s) && isDigit(s[end]) {
			for i = end; i < len(s) && isDigit(s[i]); i++ {
			}
		}
	}
	f, _ = parseNumber(s[:i])
	return f, i
}

// text reads a string, beginning at its quote. Control characters are accepted.
func (d *jsonDecoder) text() {
	d.at++
	from := d.at
	for ; d.at < len(d.s); d.at++ {
		c := d.s[d.at]
		if c == '"' {
			d.kind, d.string = jsonString, d.s[from:d.at]
			d.at++
			return
		}
		if c == '\\' {
			break
		}
	}
	b := append(d.buf[:0], d.s[from:d.at]...)
	defer func() { d.buf = b }()
	for d.at < len(d.s) {
		c := d.s[d.at]
		if c == '"' {
			d.kind, d.string = jsonString, string(b) // a copy
			d.at++
			return
		}
		if c == '\\' {
			if c = d.peek(d.at + 1); c == 'u' {
				r, length := d.escape()
				if length == 0 {
					d.refuse("invalid unicode escape code")
					return
				}
				b = utf8.AppendRune(b, r)
				d.at += length
				continue
			}
			if c = jsonEscapes[c]; c == 0 {
				d.refuse("invalid escape code")
				return
			}
			d.at++
		}
		b = append(b, c)
		d.at++
	}
	d.refuse("unexpected end of string")
}

var jsonEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r'}

// escape decodes a character written as \uXXXX, or as a surrogate pair, and returns the length of its text; 0 =
// invalid.
func (d *jsonDecoder) escape() (r rune, length int) {
	r, ok := d.hex4(d.at + 2)
	if !ok || r >= 0xdc00 && r < 0xe000 {
		return 0, 0
	}
	if r < 0xd800 || r >= 0xdc00 {
		return r, 6
	}
	if d.peek(d.at+6) != '\\' || d.peek(d.at+7) != 'u' {
		return 0, 0
	}
	low, ok := d.hex4(d.at + 8)
	if !ok || low < 0xdc00 || low >= 0xe000 {
		return 0, 0
	}
	return 0x10000 + (r-0xd800)<<10 + low - 0xdc00, 12
}

func (d *jsonDecoder) hex4(at int) (r rune, ok bool) {
	for i := range 4 {
		n := digit(d.peek(at + i))
		if n > 15 {
			return 0, false
		}
		r = r<<4 | rune(n)
	}
	return r, true
}
