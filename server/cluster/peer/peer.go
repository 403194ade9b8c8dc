// Package peer is a connection to another node of a cluster that pipelines commands.
package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Peer is a connection. Callers use Send, then Flush, then Reply once for each command.
type Peer struct {
	conn    net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	waiting int       // outstanding replies
	err     error     // the connection is unusable
	Until   time.Time // deadline of all replies; zero = none
	unwatch func() bool
}

const (
	// Timeout is the max time to wait for a reply: the destination may wait for its disk.
	Timeout = 30 * time.Second
	buffer  = 64 << 10
)

// Dial connects to a node by the function dial, and authenticates if a password is given. The connection is closed when
// ctx ends, and fails at the deadline of ctx.
func Dial(ctx context.Context, dial func(ctx context.Context, addr string) (net.Conn, error), addr,
	password string) (*Peer, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to the destination: %w", err)
	}
	p := New(ctx, conn)
	p.Until, _ = ctx.Deadline()
	if password != "" {
		if _, err := p.Do("AUTH", password); err != nil {
			p.Close()
			return nil, fmt.Errorf("authenticating: %v", err) // not a reply to a later command
		}
	}
	return p, nil
}

// New makes a Peer of a connection. The connection is closed when ctx ends.
func New(ctx context.Context, conn net.Conn) *Peer {
	p := &Peer{conn: conn, r: bufio.NewReaderSize(conn, 4<<10), w: bufio.NewWriterSize(conn, buffer)}
	p.unwatch = context.AfterFunc(ctx, func() { conn.Close() })
	return p
}

// Close closes the connection.
func (p *Peer) Close() {
	p.unwatch()
	p.conn.Close()
}

// limit returns the deadline for reading a reply, and for writing.
func (p *Peer) limit() time.Time {
	if at := time.Now().Add(Timeout); p.Until.IsZero() || at.Before(p.Until) {
		return at
	}
	return p.Until
}

// Broken reports whether the connection has become unusable.
func (p *Peer) Broken() bool { return p.err != nil }

// Idle reports whether the connection is usable and no reply is outstanding.
func (p *Peer) Idle() bool { return p.err == nil && p.waiting == 0 }

// Buffered returns the number of bytes of commands that were not sent yet.
func (p *Peer) Buffered() int { return p.w.Buffered() }

func (p *Peer) fail(err error) error {
	if p.err == nil {
		p.err = err
	}
	return err
}

// Send queues a command. It may write to the connection.
func (p *Peer) Send(args ...[]byte) error {
	if p.err != nil {
		return p.err
	}
	p.conn.SetWriteDeadline(p.limit())
	var num [24]byte
	head := func(mark byte, n int) {
		b := strconv.AppendInt(append(num[:0], mark), int64(n), 10)
		p.w.Write(append(b, '\r', '\n'))
	}
	head('*', len(args))
	for _, a := range args {
		head('$', len(a))
		p.w.Write(a)
		p.w.WriteString("\r\n")
	}
	p.waiting++
	return nil // bufio keeps the error for Flush
}

// Flush sends the queued commands.
func (p *Peer) Flush() error {
	if p.err != nil {
		return p.err
	}
	p.conn.SetWriteDeadline(p.limit())
	if err := p.w.Flush(); err != nil {
		return p.fail(err)
	}
	return nil
}

// Reply reads the next reply. An error reply becomes an [Error], after which the connection is still usable.
func (p *Peer) Reply() (Reply, error) {
	if p.err != nil {
		return Reply{}, p.err
	}
	p.conn.SetReadDeadline(p.limit())
	rep, err := readReply(p.r, 0)
	if err != nil {
		return rep, p.fail(err)
	}
	p.waiting--
	if rep.Kind == '-' {
		return rep, Error(rep.Text)
	}
	return rep, nil
}

// Do sends a command and reads its reply. No reply may be outstanding.
func (p *Peer) Do(args ...string) (Reply, error) {
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	if err := p.Send(list...); err != nil {
		return Reply{}, err
	}
	if err := p.Flush(); err != nil {
		return Reply{}, err
	}
	return p.Reply()
}

// IsReply reports whether an error is an error reply of the destination.
func IsReply(err error) bool {
	var e Error
	return errors.As(err, &e)
}

// Error is an error reply of the destination.
type Error string

func (e Error) Error() string { return "the destination has answered: " + string(e) }

// Reply is a reply in RESP2. Of a long string only the beginning is kept.
type Reply struct {
	Kind  byte // + - : $ *
	Text  string
	Null  bool
	Items []Reply
}

const (
	keptText  = 1 << 10
	maxItems  = 1 << 16
	maxNested = 8
)

var errReply = errors.New("the destination has sent an invalid reply")

func readReply(r *bufio.Reader, depth int) (rep Reply, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errReply
		}
		return rep, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return rep, errReply
	}
	rep.Kind, rep.Text = line[0], string(line[1:len(line)-2])
	switch rep.Kind {
	case '+', '-', ':':
		return rep, nil
	case '$', '*':
	default:
		return rep, errReply
	}
	n, err := strconv.Atoi(rep.Text)
	if err != nil || n < -1 {
		return rep, errReply
	}
	rep.Text = ""
	if rep.Null = n < 0; rep.Null {
		return rep, nil
	}
	if rep.Kind == '$' {
		kept := make([]byte, min(n, keptText))
		if _, err := io.ReadFull(r, kept); err != nil {
			return rep, err
		}
		rep.Text = string(kept)
		if _, err := io.CopyN(io.Discard, r, int64(n-len(kept))); err != nil {
			return rep, err
		}
		var end [2]byte
		if _, err := io.ReadFull(r, end[:]); err != nil {
			return rep, err
		}
		if string(end[:]) != "\r\n" {
			return rep, errReply
		}
		return rep, nil
	}
	if n > maxItems || depth == maxNested {
		return rep, fmt.Errorf("%w that is expected: an array of %d", errReply, n)
	}
	for range n {
		item, err := readReply(r, depth+1)
		if err != nil {
			return rep, err
		}
		rep.Items = append(rep.Items, item)
	}
	return rep, nil
}
