package resp

import (
	"bytes"
	"fmt"
	"strings"
)

// inline cuts an inline command from the start of buf: see Decoder.Next.
func (d *Decoder) inline(buf []byte, args [][]byte) (out [][]byte, n int, err error) {
	end := bytes.IndexByte(buf[d.seen:], '\n')
	if end < 0 {
		d.seen = len(buf)
		if len(buf) > d.maxInline()+1 { // the last byte may be the CR of the line end
			return args, 0, errInlineTooBig
		}
		return args, 0, nil
	}
	end += d.seen
	d.seen = 0
	line := buf[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	if len(line) > d.maxInline() {
		return args, 0, errInlineTooBig
	}
	out, ok := SplitArgs(line, args)
	if !ok {
		return args, 0, errQuotes
	}
	return out, end + 1, nil
}

// SplitArgs splits a line into words as an inline command is split and appends them to args. The words alias line, in
// which quoted ones are unquoted in place. ok is false when a quote is not closed or is followed by anything but a
// blank; line is of no use then.
//
// A quote opens in the middle of a word as well: ab"c d" is the one word abc d.
func SplitArgs(line []byte, args [][]byte) (out [][]byte, ok bool) {
	out = args
	for i := 0; ; {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) {
			return out, true
		}
		start := i
		for i < len(line) && !endsWord(line[i]) && line[i] != '"' && line[i] != '\'' {
			i++
		}
		end := i
		if i < len(line) && !endsWord(line[i]) {
			end, i = unquote(line, i)
			if i < 0 {
				return args, false
			}
		}
		out = append(out, line[start:end:end])
	}
}

// unquote decodes the quoted string that opens at line[i] into the same place. end is the end of its decoded bytes,
// next the offset after the closing quote, negative when the quotes are not balanced.
func unquote(line []byte, i int) (end, next int) {
	quote := line[i]
	end = i
	for i++; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			if i+1 < len(line) && !isBlank(line[i+1]) {
				return 0, -1
			}
			return end, i + 1
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			c = '\''
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			c = unhex(line[i+2])<<4 | unhex(line[i+3])
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(line):
			i++
			c = unescape(line[i])
		}
		line[end] = c
		end++
	}
	return 0, -1
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// AppendQuoted appends a string in double quotes, with escapes for unprintable bytes, as redis-cli and MONITOR do.
// SplitArgs takes them back.
func AppendQuoted[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		c := s[i]
		if ' ' <= c && c <= '~' && c != '"' && c != '\\' {
			dst = append(dst, c)
		} else if j := strings.IndexByte("\n\r\t\b\a\\\"", c); j >= 0 {
			dst = append(dst, '\\', "nrtba\\\""[j])
		} else {
			dst = fmt.Appendf(dst, `\x%02x`, c)
		}
	}
	return append(dst, '"')
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// isBlank is C's isspace. A word ends at fewer bytes than blanks between words are: see endsWord.
func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func endsWord(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
