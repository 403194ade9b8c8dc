// Package redisclient is a small RESP2 client for this repository's own tools.
package redisclient

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// Conn is one connection. It is not safe for concurrent use.
type Conn struct {
	net.Conn
	w       *bufio.Writer
	r       *bufio.Reader
	scratch []byte
	pending int
}

// noLimits: tools talk to servers that they have started themselves.
var noLimits = resp.ReplyLimits{Text: math.MaxInt64, Keep: math.MaxInt64, Elems: math.MaxInt64, Depth: math.MaxInt}

// Dial connects to a host:port within the timeout.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, w: bufio.NewWriterSize(c, 64<<10), r: bufio.NewReaderSize(c, 64<<10)}, nil
}

// Send puts a command in the output buffer. Its reply comes from Receive, in order of sending.
func (c *Conn) Send(args ...string) error {
	c.scratch = resp.AppendCommand(c.scratch[:0], args...)
	c.pending++
	_, err := c.w.Write(c.scratch)
	return err
}

// Flush sends what Send has buffered.
func (c *Conn) Flush() error { return c.w.Flush() }

// Pending is the number of commands sent whose replies have not been received.
func (c *Conn) Pending() int { return c.pending }

// Receive reads one reply, after Flush. An error reply is returned as a [resp.ReplyError]; any other error means that
// the connection is of no more use.
func (c *Conn) Receive() (resp.Reply, error) {
	v, err := resp.ReadReply(c.r, noLimits)
	if err != nil {
		return v, err
	}
	c.pending--
	return v, v.Err()
}

// Do sends one command and returns its reply. No other reply may be pending.
func (c *Conn) Do(args ...string) (resp.Reply, error) {
	if c.pending != 0 {
		return resp.Reply{}, fmt.Errorf("redisclient: Do with %d replies pending", c.pending)
	}
	if err := c.Send(args...); err != nil {
		return resp.Reply{}, err
	}
	if err := c.Flush(); err != nil {
		return resp.Reply{}, err
	}
	return c.Receive()
}

// Strings is Do for a command that replies with an array of strings; a null among them becomes "".
func (c *Conn) Strings(args ...string) ([]string, error) {
	v, err := c.Do(args...)
	if err != nil {
		return nil, err
	}
	if v.Kind != '*' {
		return nil, fmt.Errorf("%s: the reply is %q, not an array", args[0], v.String())
	}
	out := make([]string, len(v.Elems))
	for i := range v.Elems {
		out[i] = v.Elems[i].String()
	}
	return out, nil
}

// Do sends one command over a connection of its own. It takes at most the timeout.
func Do(addr string, timeout time.Duration, args ...string) (resp.Reply, error) {
	c, err := Dial(addr, timeout)
	if err != nil {
		return resp.Reply{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(timeout))
	return c.Do(args...)
}

// Field returns a field of the reply to INFO, "" if it has none of that name.
func Field(info, name string) string { return resp.ParseInfo(info)[name] }

// Drain receives every pending reply. It returns the first error reply, if any,
// after the last of them; a broken connection at once.
func (c *Conn) Drain() error {
	var first error
	for c.pending > 0 {
		_, err := c.Receive()
		if _, ok := errors.AsType[resp.ReplyError](err); err != nil && !ok {
			return err
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}
