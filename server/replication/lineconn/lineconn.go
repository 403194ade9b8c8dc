// Package lineconn is a connection to a server that replies to a request with a line, as masters of Kvrocks do.
package lineconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/basaltdb/basalt/server/replication/proto"
)

// Conn is a connection. One goroutine uses it.
type Conn struct {
	net.Conn
	In *bufio.Reader // reads by Read

	heard func(n int64)
	free  func() bool
}

// New makes a Conn of a connection, which is closed when ctx ends. heard, unless it is nil, is called with the number
// of bytes of each read.
func New(ctx context.Context, nc net.Conn, heard func(n int64)) *Conn {
	c := &Conn{Conn: nc, heard: heard}
	c.In = bufio.NewReaderSize(c, 64<<10)
	c.free = context.AfterFunc(ctx, func() { nc.Close() })
	return c
}

// Read implements [net.Conn].
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.heard != nil {
		c.heard(int64(n))
	}
	return n, err
}

// CopyN copies at most n bytes, and at least one, to a file. Bytes from a socket without TLS stay in the kernel
// (splice).
func (c *Conn) CopyN(to *os.File, n int64) (int64, error) {
	socket, plain := c.Conn.(*net.TCPConn)
	have := int64(c.In.Buffered())
	switch {
	case !plain:
		return io.CopyN(to, c.In, n)
	case have > 0:
		return io.CopyN(to, c.In, min(n, have))
	}
	n, err := io.CopyN(to, socket, n)
	if n > 0 && c.heard != nil {
		c.heard(n)
	}
	return n, err
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.free()
	return c.Conn.Close()
}

// Auth authenticates if a password is given.
func (c *Conn) Auth(user, password string, timeout time.Duration) error {
	if password == "" {
		return nil
	}
	line, err := c.Ask(proto.AppendAuth(nil, user, password), proto.MaxLine, timeout)
	if err == nil {
		if err = proto.CheckOK(line); err != nil {
			err = proto.Refuse("authentication", err)
		}
	}
	return err
}

// Ask sends a request and reads the line of the reply, of at most limit bytes.
func (c *Conn) Ask(request []byte, limit int, timeout time.Duration) ([]byte, error) {
	c.SetDeadline(time.Now().Add(timeout))
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	line, err := c.Line(limit)
	c.SetDeadline(time.Time{})
	return line, err
}

// Line reads a line of at most limit bytes. It returns the line without its end.
func (c *Conn) Line(limit int) (line []byte, err error) {
	for {
		part, err := c.In.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit+2:
			return nil, proto.ErrLineLength
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the server has closed the connection: %w", err)
		case err != nil:
			return nil, err
		}
		if n := len(line) - 2; n >= 0 && line[n] == '\r' {
			return line[:n], nil
		}
	}
}
