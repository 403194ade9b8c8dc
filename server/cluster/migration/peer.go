package migration

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

// peer is the connection to the destination. Commands are pipelined: send, flush, then reply for each.
type peer struct {
	conn    net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	waiting int       // replies that are still to come
	err     error     // the connection is of no use any more
	until   time.Time // when it is given up, unless this is zero
	unwatch func() bool
}

const (
	// replyTimeout is how long a reply may take: the destination may wait for the disk.
	replyTimeout = 30 * time.Second
	peerBuffer   = 64 << 10
)

func newPeer(ctx context.Context, conn net.Conn) *peer {
	p := &peer{conn: conn, r: bufio.NewReaderSize(conn, 4<<10), w: bufio.NewWriterSize(conn, peerBuffer)}
	p.unwatch = context.AfterFunc(ctx, func() { conn.Close() })
	return p
}

func (p *peer) close() {
	p.unwatch()
	p.conn.Close()
}

// limit is until when a reply, or the room for what is sent, is waited for.
func (p *peer) limit() time.Time {
	if at := time.Now().Add(replyTimeout); p.until.IsZero() || at.Before(p.until) {
		return at
	}
	return p.until
}

func (p *peer) fail(err error) error {
	if p.err == nil {
		p.err = err
	}
	return err
}

// send queues a command. It may write.
func (p *peer) send(args ...[]byte) error {
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

func (p *peer) flush() error {
	if p.err != nil {
		return p.err
	}
	p.conn.SetWriteDeadline(p.limit())
	if err := p.w.Flush(); err != nil {
		return p.fail(err)
	}
	return nil
}

// reply reads the next reply. An error reply is a [replyError], with which the connection stays usable.
func (p *peer) reply() (reply, error) {
	if p.err != nil {
		return reply{}, p.err
	}
	p.conn.SetReadDeadline(p.limit())
	rep, err := readReply(p.r, 0)
	if err != nil {
		return rep, p.fail(err)
	}
	p.waiting--
	if rep.kind == '-' {
		return rep, replyError(rep.text)
	}
	return rep, nil
}

// do sends a command and reads its reply. None may be outstanding.
func (p *peer) do(args ...string) (reply, error) {
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	if err := p.send(list...); err != nil {
		return reply{}, err
	}
	if err := p.flush(); err != nil {
		return reply{}, err
	}
	return p.reply()
}

// replyError is what the destination has answered to a command.
type replyError string

func (e replyError) Error() string { return "the destination has answered: " + string(e) }

// reply is a reply in RESP2. Of long strings only the beginning is kept.
type reply struct {
	kind  byte // + - : $ *
	text  string
	null  bool
	items []reply
}

const (
	keptText  = 1 << 10
	maxItems  = 1 << 16
	maxNested = 8
)

var errReply = errors.New("the destination has sent something that is no reply")

func readReply(r *bufio.Reader, depth int) (rep reply, err error) {
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
	rep.kind, rep.text = line[0], string(line[1:len(line)-2])
	switch rep.kind {
	case '+', '-', ':':
		return rep, nil
	case '$', '*':
	default:
		return rep, errReply
	}
	n, err := strconv.Atoi(rep.text)
	if err != nil || n < -1 {
		return rep, errReply
	}
	rep.text = ""
	if rep.null = n < 0; rep.null {
		return rep, nil
	}
	if rep.kind == '$' {
		kept := make([]byte, min(n, keptText))
		if _, err := io.ReadFull(r, kept); err != nil {
			return rep, err
		}
		rep.text = string(kept)
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
		rep.items = append(rep.items, item)
	}
	return rep, nil
}
