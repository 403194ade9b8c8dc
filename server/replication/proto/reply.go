package proto

import (
	"bytes"
	"errors"
	"strings"
)

// OK is the positive reply to AUTH, REPLCONF and PSYNC.
const OK = "+OK\r\n"

// MaxLine bounds replies of one line in bytes. [MaxFileList] bounds the reply to _fetch_meta.
const MaxLine = 4 << 10

// maxLengthLine bounds a line of a marker and a decimal length in bytes.
const maxLengthLine = 20

// ErrLineLength: a line exceeds its limit.
var ErrLineLength = errors.New("a line is too long")

// ReadLine returns the first line without CR LF, and its length including CR LF.
func ReadLine(buf []byte, limit int) (line []byte, n int, err error) {
	at := bytes.Index(buf[:min(len(buf), limit+2)], []byte("\r\n"))
	switch {
	case at >= 0:
		return buf[:at], at + 2, nil
	case len(buf) >= limit+2:
		return nil, 0, ErrLineLength
	}
	return nil, 0, nil
}

// AppendError appends an error reply. ErrCheckpoint has no error code, as in Kvrocks.
func AppendError(dst []byte, err Error) []byte {
	dst = append(dst, '-')
	if err != ErrCheckpoint {
		dst = append(dst, "ERR "...)
	}
	dst = append(dst, err...)
	return append(dst, '\r', '\n')
}

// ReplyError is an error reply of a master, without the minus sign.
type ReplyError string

func (e ReplyError) Error() string { return "the master answered: " + string(e) }

// Loading reports whether the master is about to replace its database, so that another attempt is worthwhile.
func (e ReplyError) Loading() bool {
	return strings.HasPrefix(string(e), "LOADING") || strings.Contains(string(e), "is restoring the db from backup")
}

// NeedsFull reports whether the master lacks the writes that PSYNC has asked for, or has others instead.
func (e ReplyError) NeedsFull() bool {
	return strings.HasSuffix(string(e), string(ErrOutOfRange)) || strings.HasSuffix(string(e), string(ErrWrongID))
}

// UnknownOption reports whether the master does not know an option of REPLCONF.
func (e ReplyError) UnknownOption() bool {
	return strings.Contains(strings.ToLower(string(e)), string(ErrUnknownOption))
}

// UnknownCommand reports whether the server does not know the command: it is neither basalt nor Kvrocks.
func (e ReplyError) UnknownCommand() bool {
	return strings.Contains(strings.ToLower(string(e)), "unknown command")
}

// Refused is an error that another attempt is unlikely to cure: the connection is not the cause.
type Refused struct {
	What string
	Err  error
}

func Refuse(what string, err error) Refused { return Refused{what, err} }

func (e Refused) Error() string { return e.What + ": " + e.Err.Error() }
func (e Refused) Unwrap() error { return e.Err }

// ErrReply: a reply is neither "+OK" nor an error.
var ErrReply = errors.New("unexpected answer")

// CheckOK returns nil for "+OK", and the error of an error reply.
func CheckOK(line []byte) error {
	if string(line) == "+OK" {
		return nil
	}
	return replyError(line)
}

func replyError(line []byte) error {
	if len(line) > 0 && line[0] == '-' {
		return ReplyError(line[1:])
	}
	return ErrReply
}

// AppendName appends the reply to _db_name.
func AppendName(dst []byte, name string) []byte { return append(append(dst, name...), '\r', '\n') }

// ParseName parses the reply to _db_name: the name of the database, which shows whether two servers belong together.
func ParseName(line []byte) (string, error) {
	if len(line) > 0 && line[0] == '-' {
		return "", replyError(line)
	}
	return string(line), nil
}
