package luac

import (
	"math"
	"strconv"
	"strings"
)

// scanner divides a source into tokens.
type scanner struct {
	source  string
	chunk   string // name
	at      int    // in source
	line    int    // of what is at the place
	symbols symbolTable

	// What was read last of a name, number or string, as errors show it: of a string with its delimiters, with what
	// the escape sequences mean. It is source[from:at], or text between brackets of a level.
	from  int
	text  string
	isRaw bool // it is source[from:at]
	level int  // of a long string; -1 = text is all
}

// Classes of bytes.
const (
	letter = 1 << iota // and "_"
	digit
	blank
)

var classes = func() (c [256]byte) {
	for b := 'a'; b <= 'z'; b++ {
		c[b], c[b-'a'+'A'] = letter, letter
	}
	for b := '0'; b <= '9'; b++ {
		c[b] = digit
	}
	c['_'] = letter
	for _, b := range " \t\v\f" {
		c[b] = blank
	}
	return c
}()

// end is what peek returns at the end of the source.
const end = -1

// peek returns the byte at the place.
func (s *scanner) peek() int {
	if s.at < len(s.source) {
		return int(s.source[s.at])
	}
	return end
}

// lexeme returns the text that was read of a name, number or string.
func (s *scanner) lexeme() string {
	switch {
	case s.isRaw:
		return s.source[s.from:s.at]
	case s.level >= 0:
		bar := strings.Repeat("=", s.level)
		return "[" + bar + "[" + s.text + "]" + bar + "]"
	}
	return s.text
}

// fail ends the parsing with an error near a token, whose text was read last. Lua has no words for the byte 0.
func (s *scanner) fail(message string, near tokenKind) {
	switch near {
	case 0:
	case tokenName, tokenString, tokenNumber:
		message += " near '" + CString(s.lexeme()) + "'"
	default:
		message += " near '" + near.String() + "'"
	}
	panic(&Error{Chunk: s.chunk, Line: s.line, Text: message})
}

// newline passes over an end of line: "\n", "\r", "\r\n" or "\n\r".
func (s *scanner) newline() {
	first := s.source[s.at]
	s.at++
	if c := s.peek(); (c == '\n' || c == '\r') && c != int(first) {
		s.at++
	}
	s.line++
}

// accept passes over a byte if it is one of two; or zero, since strchr of C finds the end of a set as well.
func (s *scanner) accept(a, b byte) bool {
	if s.at < len(s.source) {
		if c := s.source[s.at]; c == a || c == b || c == 0 {
			s.at++
			return true
		}
	}
	return false
}

// scan reads a token.
func (s *scanner) scan(t *token) {
	for s.at < len(s.source) {
		c := s.source[s.at]
		switch class := classes[c]; {
		case class == blank:
			s.at++
			continue
		case class == letter:
			s.scanName(t)
			return
		case class == digit:
			s.from = s.at
			s.scanNumber(t)
			return
		}
		switch c {
		case '\n', '\r':
			s.newline()
			continue
		case '"', '\'':
			s.scanQuoted(t, c)
			return
		case '-':
			if s.at++; s.peek() != '-' {
				t.kind = '-'
				return
			}
			s.at++
			s.skipComment()
			continue
		case '[':
			s.from = s.at
			switch level := s.brackets(); {
			case level >= 0:
				s.scanLong(t, level)
			case level == -1:
				t.kind = '['
			default:
				s.isRaw = true
				s.fail("invalid long string delimiter", tokenString)
			}
			return
		case '.':
			s.from = s.at
			s.at++
			switch {
			case s.accept('.', '.'):
				if t.kind = tokenConcat; s.accept('.', '.') {
					t.kind = tokenDots
				}
			case s.at < len(s.source) && classes[s.source[s.at]] == digit:
				s.scanNumber(t)
			default:
				t.kind = '.'
			}
			return
		}
		s.at++
		t.kind = tokenKind(c)
		if s.peek() == '=' {
			switch c {
			case '=':
				t.kind = tokenEq
			case '<':
				t.kind = tokenLe
			case '>':
				t.kind = tokenGe
			case '~':
				t.kind = tokenNe
			default:
				return
			}
			s.at++
		}
		return
	}
	t.kind = tokenEOF
}

// scanName reads a name or a reserved word.
func (s *scanner) scanName(t *token) {
	from, i := s.at, s.at+1
	for i < len(s.source) && classes[s.source[i]]&(letter|digit) != 0 {
		i++
	}
	s.from, s.at, s.isRaw = from, i, true
	word := s.source[from:i]
	var reserved bool
	if t.kind, reserved = reservedWords[word]; !reserved {
		t.kind, t.symbol = tokenName, s.symbols.text(word)
	}
}

// skipComment passes over what follows "--".
func (s *scanner) skipComment() {
	if s.peek() == '[' {
		if level := s.brackets(); level >= 0 {
			s.scanLong(nil, level)
			return
		}
	}
	for s.at < len(s.source) && s.source[s.at] != '\n' && s.source[s.at] != '\r' {
		s.at++
	}
}

// brackets passes over "[" or "]" and all "=" behind it. It returns their number if another such bracket follows,
// less than zero if not: -1 without any "=".
func (s *scanner) brackets() int {
	bracket, n := int(s.source[s.at]), 0
	for s.at++; s.peek() == '='; s.at++ {
		n++
	}
	if s.peek() == bracket {
		return n
	}
	return -n - 1
}

// scanLong reads a long string from its second bracket on, or a long comment if t is nil.
func (s *scanner) scanLong(t *token, level int) {
	s.at++
	if c := s.peek(); c == '\n' || c == '\r' {
		s.newline()
	}
	// What was read is copied to made as far as copied, once an end of line is not "\n" alone.
	start, copied := s.at, s.at
	var made []byte
	for {
		if s.at = s.indexLong(); s.at == len(s.source) {
			if t == nil {
				s.fail("unfinished long comment", tokenEOF)
			}
			s.fail("unfinished long string", tokenEOF)
		}
		before := s.at
		switch s.source[before] {
		case '\n', '\r':
			s.newline()
			if t != nil && s.source[before:s.at] != "\n" {
				made = append(append(made, s.source[copied:before]...), '\n')
				copied = s.at
			}
		case '[':
			if s.brackets() == level {
				if s.at++; level == 0 {
					s.fail("nesting of [[...]] is deprecated", '[')
				}
			}
		case ']':
			if s.brackets() != level {
				continue
			}
			s.at++
			if t == nil {
				return
			}
			text := s.source[start:before]
			if copied > start {
				text = string(append(made, s.source[copied:before]...))
			}
			t.kind, t.symbol = tokenString, s.symbols.text(text)
			s.isRaw, s.level, s.text = false, level, text
			return
		}
	}
}

// indexLong returns the place of the next byte that means something in a long string.
func (s *scanner) indexLong() int {
	for i := s.at; i < len(s.source); i++ {
		switch s.source[i] {
		case ']', '[', '\n', '\r':
			return i
		}
	}
	return len(s.source)
}

// scanQuoted reads a string between quotes.
func (s *scanner) scanQuoted(t *token, quote byte) {
	s.from = s.at
	i := s.at + 1
	for i < len(s.source) && s.source[i] != quote && s.source[i] != '\\' && s.source[i] != '\n' && s.source[i] != '\r' {
		i++
	}
	s.at = i
	s.isRaw = true
	if s.peek() != '\\' {
		s.endQuoted(quote)
		t.kind, t.symbol = tokenString, s.symbols.text(s.source[s.from+1:i])
		return
	}
	s.isRaw, s.level = false, -1
	made := []byte(s.source[s.from:i])
	for s.peek() != int(quote) {
		c := s.peek()
		switch c {
		case end, '\n', '\r':
			s.text = string(made)
			s.endQuoted(quote)
		case '\\':
			s.at++
			made = s.escape(made)
		default:
			made = append(made, byte(c))
			s.at++
		}
	}
	s.at++
	t.kind, t.symbol = tokenString, s.symbols.text(string(made[1:]))
	s.text = string(append(made, quote))
}

// endQuoted passes over the quote at the end of a string, which must be there.
func (s *scanner) endQuoted(quote byte) {
	switch s.peek() {
	case int(quote):
		s.at++
	case end:
		s.fail("unfinished string", tokenEOF)
	default:
		s.fail("unfinished string", tokenString)
	}
}

// controls are the control characters that have a letter behind the backslash.
var controls = [256]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// escape appends what the escape sequence behind a backslash means.
func (s *scanner) escape(made []byte) []byte {
	c := s.peek()
	switch c {
	case end:
		return made
	case '\n', '\r':
		s.newline()
		return append(made, '\n')
	}
	if control := controls[c]; control != 0 {
		s.at++
		return append(made, control)
	}
	if classes[c] != digit {
		s.at++
		return append(made, byte(c))
	}
	code := 0
	for n := 0; n < 3 && s.at < len(s.source) && classes[s.source[s.at]] == digit; n++ {
		code = code*10 + int(s.source[s.at]-'0')
		s.at++
	}
	if code > math.MaxUint8 {
		s.text = string(made)
		s.fail("escape sequence too large", tokenString)
	}
	return append(made, byte(code))
}

// scanNumber reads a number that begins at from.
func (s *scanner) scanNumber(t *token) {
	i := s.at
	for i < len(s.source) && (classes[s.source[i]] == digit || s.source[i] == '.') {
		i++
	}
	simple := i
	if s.at = i; s.accept('E', 'e') {
		s.accept('+', '-')
	}
	i = s.at
	for i < len(s.source) && classes[s.source[i]]&(letter|digit) != 0 {
		i++
	}
	s.at, s.isRaw = i, true
	t.kind = tokenNumber
	text := s.source[s.from:i]
	if i == simple && len(text) < 10 && (text[0] != '0' || len(text) == 1) && strings.IndexByte(text, '.') < 0 {
		n := 0
		for _, c := range []byte(text) {
			n = n*10 + int(c-'0')
		}
		t.value = float64(n)
		return
	}
	var ok bool
	if t.value, ok = parseNumber(CString(text)); !ok {
		s.fail("malformed number", tokenNumber)
	}
}

// parseNumber reads a number that begins with a digit or a point as strtod of C does: decimal or hexadecimal.
func parseNumber(text string) (float64, bool) {
	if strings.IndexByte(text, '_') >= 0 {
		return 0, false
	}
	if len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' && !strings.ContainsAny(text, "pP") {
		text += "p0" // Go wants the exponent of a hexadecimal number
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil || math.IsInf(f, 0)
}
