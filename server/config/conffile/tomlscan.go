package conffile

import (
	"bytes"

	"github.com/BurntSushi/toml"
)

// tomlItem is the position of a heading, or of a key with its value, in a TOML file. Offsets are in bytes.
type tomlItem struct {
	header               bool
	path                 []string // of the table, or of the key with the tables it is in
	line                 int      // from 1
	lineStart, lineEnd   int      // the lines of the item, including the end of the last one
	valueStart, valueEnd int      // of a key
}

// scanTOML finds the headings and keys of a TOML file that a decoder has accepted. For other files the result is
// undefined, but it terminates. It exists because the decoder returns values without their positions.
func scanTOML(data []byte) []tomlItem {
	s := tomlScanner{data: data, line: 1}
	var items []tomlItem
	var in []string // path of the current table
	for {
		s.skip(" \t\r\n")
		switch {
		case s.pos >= len(data):
			return items
		case s.peek() == '#':
			s.skipLine()
			continue
		}
		item := tomlItem{line: s.line, lineStart: bytes.LastIndexByte(data[:s.pos], '\n') + 1}
		if s.peek() == '[' {
			item.header = true
			s.skip("[ \t")
			in = s.key()
			item.path = in
			s.skipLine()
		} else {
			item.path = append(append([]string{}, in...), s.key()...)
			s.skip("= \t")
			item.valueStart = min(s.pos, len(data)-1)
			s.value()
			item.valueEnd = s.pos
			s.skipLine()
		}
		item.lineEnd = s.pos
		items = append(items, item)
	}
}

type tomlScanner struct {
	data []byte
	pos  int
	line int
}

func (s *tomlScanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *tomlScanner) next() {
	if s.peek() == '\n' {
		s.line++
	}
	s.pos++
}

func (s *tomlScanner) skip(set string) {
	for s.pos < len(s.data) && bytes.IndexByte([]byte(set), s.data[s.pos]) >= 0 {
		s.next()
	}
}

// skipLine moves past the end of the line.
func (s *tomlScanner) skipLine() {
	for s.pos < len(s.data) && s.peek() != '\n' {
		s.next()
	}
	if s.pos < len(s.data) {
		s.next()
	}
}

// key reads the parts of a dotted key.
func (s *tomlScanner) key() []string {
	var parts []string
	for s.pos < len(s.data) {
		start := s.pos
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			s.quoted()
			parts = append(parts, unquoteTOML(s.data[start:s.pos]))
		case isBareKey(c):
			for isBareKey(s.peek()) {
				s.next()
			}
			parts = append(parts, string(s.data[start:s.pos]))
		case c == '.' || c == ' ' || c == '\t':
			s.next()
		default:
			if len(parts) == 0 && c != '=' && c != ']' {
				s.next() // not TOML
			}
			return parts
		}
	}
	return parts
}

// unquoteTOML lets the decoder read a string of one line.
func unquoteTOML(quoted []byte) string {
	var v struct{ X string }
	if _, err := toml.Decode("X = "+string(quoted), &v); err != nil {
		return string(quoted)
	}
	return v.X
}

// quoted moves past a string of any of the four kinds.
func (s *tomlScanner) quoted() {
	quote := s.peek()
	delimiter := []byte{quote}
	if triple := bytes.Repeat(delimiter, 3); bytes.HasPrefix(s.data[s.pos:], triple) {
		delimiter = triple
	}
	s.pos += len(delimiter)
	for s.pos < len(s.data) {
		if bytes.HasPrefix(s.data[s.pos:], delimiter) {
			s.pos += len(delimiter)
			// A string in triple quotes may end with up to two quotes of its own.
			for len(delimiter) == 3 && s.peek() == quote {
				s.pos++
			}
			return
		}
		if quote == '"' && s.peek() == '\\' && s.pos+1 < len(s.data) {
			s.next()
		}
		s.next()
	}
}

// value moves past a value.
func (s *tomlScanner) value() {
	depth := 0
	for s.pos < len(s.data) {
		switch c := s.peek(); c {
		case '"', '\'':
			s.quoted()
			if depth == 0 {
				return
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth <= 0 {
				s.next()
				return
			}
		case '#', '\n':
			if depth <= 0 {
				s.trimBack()
				return
			}
			if c == '#' {
				s.skipLine()
				continue
			}
		}
		s.next()
	}
	s.trimBack()
}

// trimBack moves back over blanks before the end of a bare value.
func (s *tomlScanner) trimBack() {
	for s.pos > 0 && (s.data[s.pos-1] == ' ' || s.data[s.pos-1] == '\t' || s.data[s.pos-1] == '\r') {
		s.pos--
	}
}
