// Package redisclient is a small RESP2 client for this repository's own tools. It
// talks to servers that the tool itself started, so it trusts what they send:
// replies are read with tidwall/resp, which has no limits.
package redisclient

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/resp"
)

// Conn is one connection. It is not safe for concurrent use.
type Conn struct {
	c       net.Conn
	w       *bufio.Writer
	r       *resp.Reader
	scratch []byte
	pending int
}

// ServerError is an error reply, with its code: "WRONGTYPE Operation ...".
type ServerError string

// Error is the reply's text.
func (e ServerError) Error() string { return string(e) }

// Dial connects to a host:port within the timeout.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{
		c: c,
		w: bufio.NewWriterSize(c, 64<<10),
		r: resp.NewReader(bufio.NewReaderSize(c, 64<<10)),
	}, nil
}

// Close closes the connection; replies still on their way are lost.
func (c *Conn) Close() error { return c.c.Close() }

// SetDeadline sets the time after which reads and writes fail; the zero time
// means never.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// Send puts a command in the output buffer. Its reply comes from Receive, in
// order of sending.
func (c *Conn) Send(args ...string) error {
	b := append(c.scratch[:0], '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, '\r', '\n')
	for _, a := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(a)), 10)
		b = append(b, '\r', '\n')
		b = append(b, a...)
		b = append(b, '\r', '\n')
	}
	c.scratch = b
	c.pending++
	_, err := c.w.Write(b)
	return err
}

// Flush sends what Send has buffered.
func (c *Conn) Flush() error { return c.w.Flush() }

// Pending is the number of commands sent whose replies have not been received.
func (c *Conn) Pending() int { return c.pending }

// Receive reads one reply, after Flush. An error reply is returned as a
// ServerError; any other error means that the connection is of no more use.
func (c *Conn) Receive() (resp.Value, error) {
	v, _, err := c.r.ReadValue()
	if err != nil {
		return resp.Value{}, err
	}
	c.pending--
	if v.Type() == resp.Error {
		return v, ServerError(v.String())
	}
	return v, nil
}

// Do sends one command and returns its reply. No other reply may be pending.
func (c *Conn) Do(args ...string) (resp.Value, error) {
	if c.pending != 0 {
		return resp.Value{}, fmt.Errorf("redisclient: Do with %d replies pending", c.pending)
	}
	if err := c.Send(args...); err != nil {
		return resp.Value{}, err
	}
	if err := c.Flush(); err != nil {
		return resp.Value{}, err
	}
	return c.Receive()
}

// Strings is Do for a command that replies with an array of strings; a null
// among them becomes "".
func (c *Conn) Strings(args ...string) ([]string, error) {
	v, err := c.Do(args...)
	if err != nil {
		return nil, err
	}
	if v.Type() != resp.Array {
		return nil, fmt.Errorf("%s: the reply is a %s, not an array", args[0], v.Type())
	}
	out := make([]string, len(v.Array()))
	for i, e := range v.Array() {
		out[i] = e.String()
	}
	return out, nil
}

// Do sends one command over a connection of its own. It takes at most the timeout.
func Do(addr string, timeout time.Duration, args ...string) (resp.Value, error) {
	c, err := Dial(addr, timeout)
	if err != nil {
		return resp.Value{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(timeout))
	return c.Do(args...)
}

// Field returns a field of the reply to INFO, "" if it has none of that name.
func Field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Drain receives every pending reply. It returns the first error reply, if any,
// after the last of them; a broken connection at once.
func (c *Conn) Drain() error {
	var first error
	for c.pending > 0 {
		_, err := c.Receive()
		if _, ok := errors.AsType[ServerError](err); err != nil && !ok {
			return err
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}
