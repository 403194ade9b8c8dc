// Package peer is a connection to another node of a cluster that pipelines commands.
package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/basaltdb/basalt/server/resp"
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
	var head [24]byte
	p.w.Write(resp.AppendHead(head[:0], '*', len(args)))
	for _, a := range args {
		p.w.Write(resp.AppendHead(head[:0], '$', len(a)))
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

// limits are generous. Of a long string only the beginning is kept.
var limits = resp.ReplyLimits{Text: math.MaxInt64, Keep: 1 << 10, Elems: 1 << 16, Depth: 8}

// Reply reads the next reply. An error reply becomes an [Error], after which the connection is still usable.
func (p *Peer) Reply() (resp.Reply, error) {
	if p.err != nil {
		return resp.Reply{}, p.err
	}
	p.conn.SetReadDeadline(p.limit())
	rep, err := resp.ReadReply(p.r, limits)
	if errors.Is(err, resp.ErrReply) {
		err = errors.New("the destination has sent an invalid reply")
	}
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
func (p *Peer) Do(args ...string) (resp.Reply, error) {
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	if err := p.Send(list...); err != nil {
		return resp.Reply{}, err
	}
	if err := p.Flush(); err != nil {
		return resp.Reply{}, err
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
