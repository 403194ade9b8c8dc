package config

import (
	"bytes"
	"errors"
	"strings"
)

// The grammar of kvrocks.conf, a line at a time:
//
//	line  = blanks [key [blanks value]] blanks ["#" anything] | blanks "user" blanks rules
//	value = '"' text '"' | "'" text "'" | text up to the end of the line or "#", blanks at its end cut off
//
// In quotes a backslash escapes itself, both quotes, and t, r, n, v, f, b; before any other byte it is dropped
// together with that byte. Blanks are those of C's isspace. The rules of a user go to the end of the line, with "#" and
// quotes: see [User].

var (
	errQuoteOpen = errors.New("malformed line: config line ends unexpectedly in quoted string")
	errTwoValues = errors.New("malformed line: more than 2 item in config line")
)

const blanks = " \t\n\v\f\r"

// unescaped and escaped hold the bytes that quoting escapes and the letters that it writes for them.
const (
	unescaped = "\\\"'\t\r\n\v\f\b"
	escaped   = "\\\"'trnvfb"
)

// parseConfLine splits a line. A line without a key has an empty one; a value may be empty, written as "" or not
// at all.
func parseConfLine(line string) (key, text string, err error) {
	key, text, _, _, err = scanConfLine(line)
	return key, text, err
}

// scanConfLine is parseConfLine, and also returns the position of the value: line[from:to], with its quotes. Without
// a value both are the end of the key.
func scanConfLine(line string) (key, text string, from, to int, err error) {
	start := len(line) - len(strings.TrimLeft(line, blanks))
	end := len(line)
	if n := strings.IndexAny(line[start:], blanks+"#"); n >= 0 {
		end = start + n
	}
	key = line[start:end]
	value := strings.TrimLeft(line[end:], blanks)
	if value == "" || value[0] == '#' {
		return key, "", end, end, nil
	}
	from = len(line) - len(value)
	if isUserKey(key) {
		text = strings.TrimRight(value, blanks)
		return key, text, from, from + len(text), nil
	}
	if value[0] != '"' && value[0] != '\'' {
		text, _, _ = strings.Cut(value, "#")
		text = strings.TrimRight(text, blanks+"\b")
		to = from + len(text)
		return key, strings.TrimLeft(text, blanks+"\b"), from, to, nil
	}
	var b strings.Builder
	quote := value[0]
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case quote:
			rest := strings.TrimLeft(value[i+1:], blanks)
			if rest != "" && rest[0] != '#' {
				return "", "", 0, 0, errTwoValues
			}
			return key, b.String(), from, from + i + 1, nil
		case '\\':
			if i++; i == len(value) {
				return "", "", 0, 0, errQuoteOpen
			}
			if e := strings.IndexByte(escaped, value[i]); e >= 0 {
				b.WriteByte(unescaped[e])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", 0, 0, errQuoteOpen
}

// quoteConf writes a value so that parseConfLine reads it back: bare where that works.
func quoteConf(text string) string {
	if text != "" && !strings.ContainsAny(text, blanks+"\"'#\b") {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(text); i++ {
		if e := strings.IndexByte(unescaped, text[i]); e >= 0 {
			b.WriteByte('\\')
			b.WriteByte(escaped[e])
		} else {
			b.WriteByte(text[i])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// confEntries reads a kvrocks.conf.
func confEntries(data []byte) ([]entry, error) {
	var entries []entry
	for i, line := range confLines(data) {
		key, text, err := parseConfLine(line)
		if err != nil {
			return nil, &Error{Line: i + 1, Err: err}
		}
		if key == "" || ignored(key, text) {
			continue
		}
		entries = append(entries, entry{key, text, i + 1})
	}
	return entries, nil
}

// ignored reports whether a line counts for nothing because it has no value, as in Kvrocks, which keeps the default.
// Its default is empty for the strings whose default is not empty here: for those the line means the empty string.
func ignored(key, text string) bool {
	s, _, ok := find(key)
	return text == "" && !isUserKey(key) && !(ok && s.Kind == String && s.Default != "")
}

// lacksValue returns the key of a line, and whether the line is ignored although it asks for something: it has no
// value, or an empty one for a setting that is not empty by default.
func lacksValue(line string) (key string, lacks bool) {
	key, text, from, to, err := scanConfLine(line)
	if err != nil || key == "" || !ignored(key, text) {
		return key, false
	}
	s, _, ok := find(key)
	return key, from == to || !ok || s.Default != ""
}

// confLines returns the lines without their ends.
func confLines(data []byte) []string {
	data = bytes.TrimSuffix(data, []byte("\n"))
	if len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\n")
}
