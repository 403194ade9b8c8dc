package json

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/basaltdb/basalt/engine"
)

// MaxDepth is the max nesting depth of any document; a greater limit counts as this one.
const MaxDepth = 1 << 16

// syntaxError returns the error for invalid JSON. Texts and positions are RedisJSON's: lines and columns in bytes, from
// 1.
func syntaxError(s string, consumed int, text string) error {
	before := s[:consumed]
	line := 1 + strings.Count(before, "\n")
	column := consumed - (strings.LastIndexByte(before, '\n') + 1)
	return engine.NewError("ERR", fmt.Sprintf("%s at line %d column %d", text, line, column))
}

// parser parses JSON text. s must be valid UTF-8.
type parser struct {
	s     string
	i     int // offset of the next byte
	depth int // how many more levels are allowed
}

// at returns an error for what has been parsed.
func (p *parser) at(text string) error { return syntaxError(p.s, p.i, text) }

// peeked returns an error for the next byte.
func (p *parser) peeked(text string) error { return syntaxError(p.s, min(p.i+1, len(p.s)), text) }

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\n', '\r', '\t':
			p.i++
		default:
			return
		}
	}
}

func newParser(s string, maxDepth int) (parser, error) {
	p := parser{s: s, depth: min(maxDepth, MaxDepth)}
	if !utf8.ValidString(s) {
		for i, r := range s {
			if r == utf8.RuneError {
				if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
					p.i = i
					break
				}
			}
		}
		return p, p.peeked("invalid unicode code point")
	}
	return p, nil
}

// end checks that only white space follows.
func (p *parser) end() error {
	if p.space(); p.i < len(p.s) {
		return p.peeked("trailing characters")
	}
	return nil
}

// Parse parses the text of a document. Strings without escapes alias the text. More than maxDepth nested arrays and
// objects are an error.
func Parse(s string, maxDepth int) (Value, error) {
	p, err := newParser(s, maxDepth)
	if err != nil {
		return Value{}, err
	}
	var v Value
	if err := p.value(&v); err != nil {
		return Value{}, err
	}
	return v, p.end()
}

// next skips white space and returns the next byte without consuming it; eof is the error text at the end.
func (p *parser) next(eof string) (byte, error) {
	if p.space(); p.i == len(p.s) {
		return 0, p.at(eof)
	}
	return p.s[p.i], nil
}

const (
	eofValue  = "EOF while parsing a value"
	eofArray  = "EOF while parsing a list"
	eofObject = "EOF while parsing an object"
	eofString = "EOF while parsing a string"
	tooDeep   = "recursion limit exceeded"

	outOfRange = "number out of range"
)

func (p *parser) value(v *Value) error {
	c, err := p.next(eofValue)
	if err != nil {
		return err
	}
	switch c {
	case '{':
		return p.object(v)
	case '[':
		return p.array(v)
	case '"':
		s, err := p.str()
		*v = StringOf(s)
		return err
	case 't':
		*v = BoolOf(true)
		return p.word("true")
	case 'f':
		*v = BoolOf(false)
		return p.word("false")
	case 'n':
		*v = Value{}
		return p.word("null")
	}
	from := p.i
	fraction, err := p.number()
	if err != nil {
		return err
	}
	n, ok := parseNumber(p.s[from:p.i], fraction)
	if !ok {
		return p.at(outOfRange)
	}
	*v = n
	return nil
}

// word parses true, false or null.
func (p *parser) word(w string) error {
	for i := range len(w) {
		if p.i == len(p.s) {
			return p.at(eofValue)
		}
		p.i++
		if p.s[p.i-1] != w[i] {
			return p.at("expected ident")
		}
	}
	return nil
}

// enter consumes the bracket that opens an array or object.
func (p *parser) enter() error {
	if p.depth <= 0 {
		return p.peeked(tooDeep)
	}
	p.depth--
	p.i++
	return nil
}

func (p *parser) leave() {
	p.depth++
	p.i++
}

// few is the initial capacity for children of an array or object.
const few = 4

func (p *parser) array(v *Value) error {
	if err := p.enter(); err != nil {
		return err
	}
	b := &box{}
	*v = Value{kind: Array, box: b}
	for {
		more, err := p.element(len(b.vals) == 0)
		if err != nil {
			return err
		}
		if !more {
			p.leave()
			return nil
		}
		if b.vals == nil {
			b.vals = make([]Value, 0, few)
		}
		b.vals = append(b.vals, Value{})
		if err := p.value(&b.vals[len(b.vals)-1]); err != nil {
			return err
		}
	}
}

// element advances to the next element of an array; more is false at the closing bracket, which it does not consume.
func (p *parser) element(first bool) (more bool, err error) {
	c, err := p.next(eofArray)
	switch {
	case err != nil:
		return false, err
	case c == ']':
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, p.peeked("expected `,` or `]`")
	}
	p.i++
	switch c, err = p.next(eofValue); {
	case err != nil:
		return false, err
	case c == ']':
		return false, p.peeked("trailing comma")
	}
	return true, nil
}

func (p *parser) object(v *Value) error {
	if err := p.enter(); err != nil {
		return err
	}
	b := &box{}
	*v = Value{kind: Object, box: b}
	for {
		more, err := p.member(len(b.vals) == 0)
		if err != nil {
			return err
		}
		if !more {
			p.leave()
			return nil
		}
		name, err := p.str()
		if err != nil {
			return err
		}
		if err := p.colon(); err != nil {
			return err
		}
		if b.vals == nil {
			b.vals, b.keys = make([]Value, 0, few), make([]string, 0, few)
		}
		var v Value
		if err := p.value(&v); err != nil {
			return err
		}
		b.set(name, v)
	}
}

// member advances to the name of the next member of an object; more is false at the closing bracket, which it does not
// consume.
func (p *parser) member(first bool) (more bool, err error) {
	c, err := p.next(eofObject)
	switch {
	case err != nil:
		return false, err
	case c == '}':
		return false, nil
	case !first:
		if c != ',' {
			return false, p.peeked("expected `,` or `}`")
		}
		p.i++
		if c, err = p.next(eofValue); err != nil {
			return false, err
		}
		if c == '}' {
			return false, p.peeked("trailing comma")
		}
	}
	if c != '"' {
		return false, p.peeked("key must be a string")
	}
	return true, nil
}

func (p *parser) colon() error {
	c, err := p.next(eofObject)
	if err != nil {
		return err
	}
	if c != ':' {
		return p.peeked("expected `:`")
	}
	p.i++
	return nil
}

// number parses a number and reports whether it has a fraction or an exponent.
func (p *parser) number() (fraction bool, err error) {
	c := p.s[p.i]
	if c != '-' && (c < '0' || c > '9') {
		return false, p.peeked("expected value")
	}
	from := p.i
	if c == '-' {
		p.i++
	}
	switch {
	case p.i == len(p.s):
		return false, p.at(eofValue)
	case p.s[p.i] == '0':
		p.i++
		if p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			return false, p.peeked("invalid number")
		}
	default:
		if err := p.digits(); err != nil {
			return false, err
		}
	}
	if p.i-from > maxDigits {
		return false, p.at(outOfRange)
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		p.i++
		fraction = true
		if err := p.digits(); err != nil {
			return false, err
		}
	}
	if p.i < len(p.s) && p.s[p.i]|0x20 == 'e' {
		p.i++
		fraction = true
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if err := p.digits(); err != nil {
			return false, err
		}
	}
	return fraction, nil
}

// digits parses at least one digit.
func (p *parser) digits() error {
	from := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	switch {
	case p.i > from:
		return nil
	case p.i == len(p.s):
		return p.at(eofValue)
	}
	return p.peeked("invalid number")
}

// plain marks the bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// str parses a string including its quotes.
func (p *parser) str() (string, error) {
	p.i++
	from := p.i
	for p.i < len(p.s) && plain[p.s[p.i]] {
		p.i++
	}
	if p.i < len(p.s) && p.s[p.i] == '"' {
		p.i++
		return p.s[from : p.i-1], nil
	}
	buf := []byte(p.s[from:p.i])
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return string(buf), nil
		case c == '\\':
			var err error
			if buf, err = p.escape(buf); err != nil {
				return "", err
			}
		case c < 0x20:
			p.i++
			return "", p.at(`control character (\u0000-\u001F) found while parsing a string`)
		default:
			from := p.i
			for p.i < len(p.s) && plain[p.s[p.i]] {
				p.i++
			}
			buf = append(buf, p.s[from:p.i]...)
		}
	}
	return "", p.at(eofString)
}

// escape parses an escape sequence and appends its character.
func (p *parser) escape(dst []byte) ([]byte, error) {
	p.i++
	if p.i == len(p.s) {
		return nil, p.at(eofString)
	}
	c := p.s[p.i]
	p.i++
	switch c {
	case '"', '\\', '/':
		return append(dst, c), nil
	case 'b':
		return append(dst, '\b'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 't':
		return append(dst, '\t'), nil
	case 'u':
	default:
		return nil, p.at("invalid escape")
	}
	r, err := p.hex()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(r) {
		if r >= 0xdc00 {
			return nil, p.at("lone leading surrogate in hex escape")
		}
		if !strings.HasPrefix(p.s[p.i:], `\u`) {
			return nil, p.at("unexpected end of hex escape")
		}
		p.i += 2
		low, err := p.hex()
		if err != nil {
			return nil, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return nil, p.at("lone leading surrogate in hex escape")
		}
	}
	return utf8.AppendRune(dst, r), nil
}

// hex parses four hexadecimal digits.
func (p *parser) hex() (rune, error) {
	if len(p.s)-p.i < 4 {
		p.i = len(p.s)
		return 0, p.at(eofString)
	}
	digits := p.s[p.i : p.i+4]
	p.i += 4
	r, err := strconv.ParseUint(digits, 16, 16)
	if err != nil {
		return 0, p.at("invalid escape")
	}
	return rune(r), nil
}
