package config

import (
	"bytes"
	"errors"
	"strings"
)

// The grammar of kvrocks.conf, a line at a time:
//
//	line  = blanks [key [blanks value]] blanks ["#" anything]
//	value = '"' text '"' | "'" text "'" | text up to the end of the line or "#", blanks at its end cut off
//
// In quotes a backslash escapes itself, both quotes, and t, r, n, v, f, b; before any other byte it is dropped
// together with that byte. Blanks are those of C's isspace.

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
	line = strings.TrimLeft(line, blanks)
	end := strings.IndexAny(line, blanks+"#")
	if end < 0 {
		return line, "", nil
	}
	key, line = line[:end], strings.TrimLeft(line[end:], blanks)
	if line == "" || line[0] == '#' {
		return key, "", nil
	}
	if line[0] != '"' && line[0] != '\'' {
		text, _, _ = strings.Cut(line, "#")
		return key, strings.Trim(text, blanks+"\b"), nil
	}
	var b strings.Builder
	quote := line[0]
	for i := 1; i < len(line); i++ {
		switch c := line[i]; c {
		case quote:
			rest := strings.TrimLeft(line[i+1:], blanks)
			if rest != "" && rest[0] != '#' {
				return "", "", errTwoValues
			}
			return key, b.String(), nil
		case '\\':
			if i++; i == len(line) {
				return "", "", errQuoteOpen
			}
			if e := strings.IndexByte(escaped, line[i]); e >= 0 {
				b.WriteByte(unescaped[e])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errQuoteOpen
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
		if key == "" || text == "" && !meansEmpty(key) {
			continue
		}
		entries = append(entries, entry{key, text, i + 1})
	}
	return entries, nil
}

// meansEmpty reports whether an empty value in a kvrocks.conf is one. In Kvrocks such a line counts for nothing,
// which leaves the default; that is empty in Kvrocks for the texts that are not empty here.
func meansEmpty(key string) bool {
	s, _, ok := find(key)
	return ok && s.Kind == String && s.Default != ""
}

// confLines returns the lines without their ends.
func confLines(data []byte) []string {
	data = bytes.TrimSuffix(data, []byte("\n"))
	if len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\n")
}
