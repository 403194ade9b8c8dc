package loadgen

import (
	"bytes"
	"fmt"
)

// replyEnd is the length of the RESP2 reply at the start of b, and 0 when b does not hold the whole of it.
func replyEnd(b []byte) (int, error) {
	number, at, err := header(b)
	if err != nil || at == 0 {
		return 0, err
	}
	switch b[0] {
	case '+', '-', ':':
		return at, nil
	case '$':
		if number < 0 {
			return at, nil
		}
		if end := at + number + 2; end <= len(b) {
			return end, nil
		}
		return 0, nil
	case '*':
		for range number {
			n, err := replyEnd(b[at:])
			if err != nil || n == 0 {
				return 0, err
			}
			at += n
		}
		return at, nil
	}
	return 0, fmt.Errorf("not a reply: %.40q", b)
}

// header reads the first line of b: the number in it, if the type has one, and where the line ends; 0 when b does not
// hold the whole line.
func header(b []byte) (number, end int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if b[0] != '$' && b[0] != '*' {
		at := bytes.IndexByte(b, '\n')
		return 0, at + 1, nil
	}
	negative := false
	for i, c := range b[1:] {
		switch {
		case c >= '0' && c <= '9':
			number = number*10 + int(c-'0')
		case c == '-':
			negative = true
		case c == '\n':
			if negative {
				number = -1
			}
			return number, i + 2, nil
		case c != '\r' || i == 0:
			return 0, 0, fmt.Errorf("not a reply: %.40q", b)
		}
	}
	return 0, 0, nil
}
