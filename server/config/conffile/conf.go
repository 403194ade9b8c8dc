package conffile

import (
	"bytes"
	"errors"
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// The grammar of kvrocks.conf, a line at a time:
//
//	line  = blanks [key [blanks value]] blanks ["#" anything] | blanks "user" blanks rules
//	value = '"' text '"' | "'" text "'" | text up to the end of the line or "#", blanks at its end cut off
//
// In quotes a backslash escapes itself, both quotes, and t, r, n, v, f, b; before any other byte it is dropped
// together with that byte. Blanks are those of C's isspace. The rules of a user go to the end of the line, with "#" and
// quotes: see [User].

var errQuoteOpen = errors.New("malformed line: config line ends unexpectedly in quoted string")

// Blanks are the bytes between the words of a line.
const Blanks = " \t\n\v\f\r"

// unescaped and escaped hold the bytes that quoting escapes and the letters that it writes for them.
const (
	unescaped = "\\\"'\t\r\n\v\f\b"
	escaped   = "\\\"'trnvfb"
)

// ParseLine splits a line. A line without a key has an empty one; a value may be empty, written as "" or not
// at all.
func ParseLine(line string) (key, text string, err error) {
	key, text, _, _, err = scanConfLine(line)
	return key, text, err
}

// scanConfLine is ParseLine, and also returns the position of the value: line[from:to], with its quotes. Without
// a value both are the end of the key.
func scanConfLine(line string) (key, text string, from, to int, err error) {
	start := len(line) - len(strings.TrimLeft(line, Blanks))
	end := len(line)
	if n := strings.IndexAny(line[start:], Blanks+"#"); n >= 0 {
		end = start + n
	}
	key = line[start:end]
	value := strings.TrimLeft(line[end:], Blanks)
	if value == "" || value[0] == '#' {
		return key, "", end, end, nil
	}
	from = len(line) - len(value)
	if IsUserKey(key) {
		text = strings.TrimRight(value, Blanks)
		return key, text, from, from + len(text), nil
	}
	if value[0] != '"' && value[0] != '\'' {
		text, _, _ = strings.Cut(value, "#")
		text = strings.TrimRight(text, Blanks+"\b")
		to = from + len(text)
		return key, strings.TrimLeft(text, Blanks+"\b"), from, to, nil
	}
	var b strings.Builder
	quote := value[0]
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case quote:
			rest := strings.TrimLeft(value[i+1:], Blanks)
			if rest != "" && rest[0] != '#' {
				return "", "", 0, 0, errors.New("malformed line: more than 2 item in config line")
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

// quoteConf writes a value so that ParseLine reads it back: bare where that works.
func quoteConf(text string) string {
	if text != "" && !strings.ContainsAny(text, Blanks+"\"'#\b") {
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

// confEntries parses a kvrocks.conf.
func confEntries(data []byte) ([]Entry, error) {
	var entries []Entry
	for i, line := range Lines(data) {
		key, text, err := ParseLine(line)
		if err != nil {
			return nil, &Error{Line: i + 1, Err: err}
		}
		if key == "" || Ignored(key, text) {
			continue
		}
		entries = append(entries, Entry{key, text, i + 1})
	}
	return entries, nil
}

// Ignored reports whether a line has no effect because it has no value. Kvrocks keeps the default then. Here some
// strings have a default that is empty in Kvrocks; for those, such a line means the empty string.
func Ignored(key, text string) bool {
	s, _, ok := setting.Find(key)
	return text == "" && !IsUserKey(key) && !(ok && s.Kind == setting.String && s.Default != "")
}

// LacksValue returns the key of a line, and whether the line is ignored although it seems to set something: it has no
// value, or an empty one for a setting that is not empty by default.
func LacksValue(line string) (key string, lacks bool) {
	key, text, from, to, err := scanConfLine(line)
	if err != nil || key == "" || !Ignored(key, text) {
		return key, false
	}
	s, _, ok := setting.Find(key)
	return key, from == to || !ok || s.Default != ""
}

// Lines returns the lines without their ends, and without the byte order mark that some editors begin a file with.
func Lines(data []byte) []string {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	data = bytes.TrimSuffix(data, []byte("\n"))
	if len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\n")
}
