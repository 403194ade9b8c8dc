package resp

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// What a client of another server needs: commands, and replies in RESP2.

// AppendCommand appends a command: an array of strings.
func AppendCommand[T ~string | ~[]byte](dst []byte, args ...T) []byte {
	dst = AppendHead(dst, '*', len(args))
	for _, a := range args {
		dst = AppendBulk(dst, a)
	}
	return dst
}

// AppendHead appends the line before the elements of an array ('*') or before a string ('$').
func AppendHead(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), '\r', '\n')
}

// AppendBulk appends a string.
func AppendBulk[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(append(AppendHead(dst, '$', len(s)), s...), '\r', '\n')
}

// Reply is a reply in RESP2.
type Reply struct {
	Kind  byte   // + - : $ *
	Text  []byte // of + - $
	Int   int64  // of :
	Null  bool
	Elems []Reply
}

// ReplyError is an error that a server has replied.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Err returns the error if the reply is one.
func (r Reply) Err() error {
	if r.Kind == '-' {
		return ReplyError(r.Text)
	}
	return nil
}

// String returns a string, a line, or the digits of an integer.
func (r Reply) String() string {
	if r.Kind == ':' {
		return strconv.FormatInt(r.Int, 10)
	}
	return string(r.Text)
}

// ParseInfo returns the fields of a reply to INFO.
func ParseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && !strings.HasPrefix(name, "#") {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// ReplyLimits bound the replies of a server: one that exceeds them is broken, or not a server.
type ReplyLimits struct {
	Text, Elems int64 // max length of a string and of an array
	Depth       int   // max number of nested arrays
	Keep        int64 // bytes to keep of a longer string
}

// ErrReply is the error of a reply that is malformed or too large.
var ErrReply = errors.New("the reply is not one of RESP2")

// ReadReply reads a reply.
func ReadReply(in *bufio.Reader, limits ReplyLimits) (r Reply, err error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || err == nil && (len(line) < 3 || line[len(line)-2] != '\r') {
		err = ErrReply
	}
	if err != nil {
		return r, err
	}
	r.Kind, line = line[0], line[1:len(line)-2]
	switch r.Kind {
	case '+', '-':
		r.Text = append([]byte(nil), line...)
		return r, nil
	case ':', '$', '*':
	default:
		return r, ErrReply
	}
	n, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return r, ErrReply
	}
	switch {
	case r.Kind == ':':
		r.Int = n
	case n == -1:
		r.Null = true
	case r.Kind == '$' && n >= 0 && n <= limits.Text:
		r.Text = make([]byte, min(n, limits.Keep))
		if _, err := io.ReadFull(in, r.Text); err != nil {
			return r, err
		}
		if _, err := in.Discard(int(n) - len(r.Text)); err != nil {
			return r, err
		}
		if end, err := in.Peek(2); err != nil {
			return r, err
		} else if string(end) != "\r\n" {
			return r, ErrReply
		}
		in.Discard(2)
	case r.Kind == '*' && n >= 0 && n <= limits.Elems && limits.Depth > 0:
		limits.Depth--
		r.Elems = make([]Reply, 0, min(n, 1024))
		for ; n > 0; n-- {
			e, err := ReadReply(in, limits)
			if err != nil {
				return r, err
			}
			r.Elems = append(r.Elems, e)
		}
	default:
		return r, ErrReply
	}
	return r, nil
}
