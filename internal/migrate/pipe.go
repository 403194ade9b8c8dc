package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/resp"
)

// pipe is a connection that many goroutines share: their commands go out together.
type pipe struct {
	addr   transfer.Address
	conn   *resp.Conn
	calls  chan *call
	failed chan struct{} // closed when the connection is of no use any more
	once   sync.Once
	err    error // once failed is closed
}

// call is some commands that follow each other.
type call struct {
	commands [][]string
	replies  []resp.Reply
	done     chan struct{}
}

// The bounds of calls that wait to be sent, and to be answered.
const (
	maxQueued = 256
	maxSent   = 1024
)

var errClosed = errors.New("the connection is closed")

// dial opens a pipe. The end of ctx closes it.
func dial(ctx context.Context, addr transfer.Address) (*pipe, error) {
	ctx, cancel := context.WithCancel(ctx)
	c, err := transfer.Dial(ctx, addr)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	p := &pipe{addr: addr, conn: c, calls: make(chan *call, maxQueued), failed: make(chan struct{})}
	sent := make(chan *call, maxSent)
	context.AfterFunc(ctx, func() { p.fail(ctx.Err()) })
	go func() {
		<-p.failed
		cancel()
		c.Close()
	}()
	go p.write(sent)
	go p.read(sent)
	return p, nil
}

// fail ends the pipe.
func (p *pipe) fail(err error) {
	p.once.Do(func() {
		p.err = fmt.Errorf("%s: %w", p.addr, err)
		close(p.failed)
	})
}

func (p *pipe) close() { p.fail(errClosed) }

func (p *pipe) write(sent chan *call) {
	defer close(sent)
	for {
		select {
		case <-p.failed:
			return
		case c := <-p.calls:
			select {
			case sent <- c:
			default: // the reader must get on
				if err := p.conn.Flush(); err != nil {
					p.fail(err)
					return
				}
				select {
				case sent <- c:
				case <-p.failed:
					return
				}
			}
			for _, args := range c.commands {
				if err := p.conn.Send(args...); err != nil {
					p.fail(err)
					return
				}
			}
			if len(p.calls) == 0 {
				if err := p.conn.Flush(); err != nil {
					p.fail(err)
					return
				}
			}
		}
	}
}

func (p *pipe) read(sent chan *call) {
	for c := range sent {
		for range c.commands {
			r, err := p.conn.Receive()
			if err != nil {
				p.fail(err)
				return
			}
			c.replies = append(c.replies, r)
		}
		close(c.done)
	}
}

// start sends commands; wait returns their replies, of which each may be an error.
func (p *pipe) start(commands ...[]string) (wait func() ([]resp.Reply, error)) {
	c := &call{commands: commands, done: make(chan struct{})}
	select {
	case p.calls <- c:
	case <-p.failed:
	}
	return func() ([]resp.Reply, error) {
		select {
		case <-c.done:
			return c.replies, nil
		case <-p.failed:
			return nil, p.err
		}
	}
}

// do sends a command. A reply that is an error is one.
func (p *pipe) do(args ...string) (resp.Reply, error) {
	replies, err := p.start(args)()
	if err != nil {
		return resp.Reply{}, err
	}
	if err := replies[0].Err(); err != nil {
		return replies[0], fmt.Errorf("%s: %s: %w", p.addr, args[0], err)
	}
	return replies[0], nil
}
