package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Conn is a connection to a server. One goroutine may send commands while another one receives their replies.
type Conn struct {
	net.Conn
	In      *bufio.Reader // what another protocol reads when it takes the connection over
	out     *bufio.Writer
	timeout time.Duration
	pending atomic.Int64
	command []byte
}

const connBuffer = 256 << 10

var connLimits = ReplyLimits{Text: 1 << 30, Keep: 1 << 30, Elems: 1 << 24, Depth: 16}

// NewConn makes a Conn of a connection. timeout is the max time for a reply; 0 = no limit.
func NewConn(c net.Conn, timeout time.Duration) *Conn {
	return &Conn{Conn: c, timeout: timeout, In: bufio.NewReaderSize(c, connBuffer),
		out: bufio.NewWriterSize(c, connBuffer)}
}

// Send adds a command to the output buffer.
func (c *Conn) Send(args ...string) error {
	c.command = AppendCommand(c.command[:0], args...)
	return c.SendEncoded(c.command)
}

// SendEncoded is Send for a command that is encoded already.
func (c *Conn) SendEncoded(command []byte) error {
	c.pending.Add(1)
	_, err := c.out.Write(command)
	return err
}

// Flush sends the output buffer.
func (c *Conn) Flush() error { return c.out.Flush() }

// Pending returns the number of commands whose replies have not been received.
func (c *Conn) Pending() int { return int(c.pending.Load()) }

// Receive reads a reply, which may be an error. After an error of Receive itself the connection is of no more use.
func (c *Conn) Receive() (Reply, error) {
	if c.timeout > 0 {
		c.SetReadDeadline(time.Now().Add(c.timeout))
	}
	r, err := ReadReply(c.In, connLimits)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the server has closed the connection: %w", err)
	}
	if err == nil {
		c.pending.Add(-1)
	}
	return r, err
}

// Do sends a command and returns its reply; an error reply is returned as a [ReplyError]. No other reply may be
// pending.
func (c *Conn) Do(args ...string) (Reply, error) {
	if n := c.Pending(); n != 0 {
		return Reply{}, fmt.Errorf("%s with %d replies pending", args[0], n)
	}
	if err := c.Send(args...); err != nil {
		return Reply{}, err
	}
	if err := c.Flush(); err != nil {
		return Reply{}, err
	}
	r, err := c.Receive()
	if err == nil {
		err = r.Err()
	}
	return r, err
}
