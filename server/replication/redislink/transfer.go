package redislink

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// markLen is the length in bytes of the mark that ends a transfer of unknown size.
const markLen = 40

// transfer is the announcement before an RDB file.
type transfer struct {
	size int64  // size in bytes, < 0 = up to the mark
	mark string // "" = the size is known
}

// parseTransfer parses the line before a file, without its end.
func parseTransfer(line []byte) (t transfer, err error) {
	text, ok := strings.CutPrefix(string(line), "$")
	if !ok {
		return t, fmt.Errorf("%w: %.100q in the place of a transfer", ErrStream, line)
	}
	if mark, ok := strings.CutPrefix(text, "EOF:"); ok {
		if len(mark) != markLen {
			return t, fmt.Errorf("%w: a mark of %d bytes", ErrStream, len(mark))
		}
		return transfer{-1, mark}, nil
	}
	if t.size, err = strconv.ParseInt(text, 10, 64); err != nil || t.size < 0 {
		return t, fmt.Errorf("%w: %.100q in the place of a transfer", ErrStream, line)
	}
	return t, nil
}

// errCut: the connection ended during a transfer.
var errCut = errors.New("the master has ended the connection within a transfer")

// reader returns a reader of the file alone. in must be at the beginning of the file.
func (t transfer) reader(in io.Reader) io.Reader {
	if t.mark == "" {
		return &sizedReader{in: in, left: t.size}
	}
	return &markedReader{in: in, mark: t.mark}
}

type sizedReader struct {
	in   io.Reader
	left int64
}

func (r *sizedReader) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.in.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	if err == io.EOF && r.left > 0 {
		err = errCut
	}
	return n, err
}

// markedReader reads up to a mark. The master sends nothing after the mark until it gets an acknowledgement. The last
// bytes read are held back while they may be the mark.
type markedReader struct {
	in   io.Reader
	mark string
	buf  []byte // read from in
	done bool   // the mark was read
}

const markedBuffer = 64 << 10

func (r *markedReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if r.buf == nil {
		r.buf = make([]byte, 0, markedBuffer)
	}
	for !r.done && len(r.buf) <= markLen {
		n, err := r.in.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if at := len(r.buf) - markLen; n > 0 && at >= 0 && string(r.buf[at:]) == r.mark {
			r.buf, r.done = r.buf[:at], true
		} else if err == io.EOF {
			return 0, errCut
		} else if err != nil {
			return 0, err
		}
	}
	have := len(r.buf)
	if !r.done {
		have -= markLen
	}
	if have == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.buf[:have])
	r.buf = r.buf[:copy(r.buf, r.buf[n:])]
	return n, nil
}
