// Package loadgen sends requests to a server over many connections and measures the time to their replies. It is one
// thread that waits for all its sockets at once, as redis-benchmark is: on a machine that the server shares, what the
// generator spends the server lacks.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"time"
)

// Op is one kind of request.
type Op struct {
	// Encode appends the request for a key to dst.
	Encode func(dst []byte, r *rand.Rand, key int) []byte
	// Check says whether a whole reply, which is no error reply, is one to the request for the key.
	Check func(reply []byte, key int) bool
}

// Load is what to send. It ends after Requests, when Duration has passed, or when End is closed, whichever comes first;
// 0 and nil are no bound. What is on its way then is waited for and counts.
type Load struct {
	Addr        string // host:port of an IPv4 address
	Connections int
	Pipeline    int
	Duration    time.Duration
	Requests    int64
	End         <-chan struct{}
	// Next chooses the next request.
	Next func(r *rand.Rand) (op *Op, key int)
	Seed uint64
}

// Result is what a load has measured.
type Result struct {
	Requests  int64
	Elapsed   time.Duration
	Latency   Histogram // from sending a pipeline to each of its replies
	PerSecond []int64   // replies in each second
}

// Rate is the requests a second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

const (
	// silence is how long no reply at all may come: a server may stall, but not for ever.
	silence = time.Minute
	// poll bounds the wait for sockets, so that the end of the load or of ctx is seen.
	poll = 20 * time.Millisecond
)

// conn is one connection; it has at most one pipeline on its way.
type conn struct {
	fd       int
	in       []byte // received and not yet parsed
	filled   int    // bytes of in
	out      []byte // the pipeline
	unsent   []byte // the end of out that the socket did not take yet
	awaited  []request
	answered int // of awaited
	sent     time.Time
	blocked  bool // epoll waits until the socket takes more
}

type request struct {
	op  *Op
	key int
}

type runner struct {
	Load
	r        *rand.Rand
	epoll    int
	conns    []conn
	begun    int64 // requests sent
	result   *Result
	start    time.Time
	deadline time.Time // after which nothing is sent
	ended    bool      // End is closed
}

// Run applies a load. Error replies, wrong replies and lost connections end it with an error.
func Run(ctx context.Context, l Load) (*Result, error) {
	// The thread waits in the kernel most of the time; the lock spares the hand-over to another one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := &runner{Load: l, r: rand.New(rand.NewPCG(l.Seed, 1)), result: &Result{}, conns: make([]conn, l.Connections)}
	defer g.close()
	if err := g.connect(); err != nil {
		return nil, err
	}
	return g.result, g.run(ctx)
}

func (g *runner) connect() error {
	to, err := net.ResolveTCPAddr("tcp4", g.Addr)
	if err != nil {
		return err
	}
	if g.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	for i := range g.conns {
		c := &g.conns[i]
		c.fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		addr := &syscall.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}
		if err := syscall.Connect(c.fd, addr); err != nil {
			return fmt.Errorf("%s: %w", g.Addr, err)
		}
		if err := syscall.SetsockoptInt(c.fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
			return err
		}
		if err := syscall.SetNonblock(c.fd, true); err != nil {
			return err
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(g.epoll, syscall.EPOLL_CTL_ADD, c.fd, &event); err != nil {
			return err
		}
		c.in = make([]byte, 16<<10)
		c.awaited = make([]request, 0, g.Pipeline)
	}
	return nil
}

func (g *runner) close() {
	for _, c := range g.conns {
		if c.fd > 0 {
			syscall.Close(c.fd)
		}
	}
	if g.epoll > 0 {
		syscall.Close(g.epoll)
	}
}

func (g *runner) run(ctx context.Context) error {
	g.start = time.Now()
	g.deadline = g.start.Add(g.Duration)
	last := g.start // the last reply
	busy := 0
	for i := range g.conns {
		started, err := g.send(i, g.start)
		if err != nil {
			return err
		}
		if started {
			busy++
		}
	}
	events := make([]syscall.EpollEvent, len(g.conns))
	for busy > 0 {
		n, err := syscall.EpollWait(g.epoll, events, int(poll.Milliseconds()))
		if err != nil && err != syscall.EINTR {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-g.End:
			g.ended = true
		default:
		}
		if n <= 0 {
			if time.Since(last) > silence {
				return fmt.Errorf("no reply for %v", silence)
			}
			continue
		}
		for _, e := range events[:n] {
			i := int(e.Fd)
			c := &g.conns[i]
			if e.Events&syscall.EPOLLOUT != 0 {
				if err := g.flush(i); err != nil {
					return err
				}
			}
			if e.Events&^syscall.EPOLLOUT == 0 {
				continue
			}
			if last, err = g.receive(c); err != nil {
				return err
			}
			if c.answered == len(c.awaited) {
				started, err := g.send(i, last)
				if err != nil {
					return err
				}
				if !started {
					busy--
				}
			}
		}
	}
	g.result.Elapsed = time.Since(g.start)
	return nil
}

// send sends the next pipeline of a connection, and returns false when the load is over.
func (g *runner) send(i int, now time.Time) (bool, error) {
	n := g.Pipeline
	if g.Requests > 0 {
		n = int(min(int64(n), g.Requests-g.begun))
	}
	if n == 0 || g.ended || g.Duration > 0 && now.After(g.deadline) {
		return false, nil
	}
	g.begun += int64(n)
	c := &g.conns[i]
	c.out, c.awaited, c.answered = c.out[:0], c.awaited[:0], 0
	for range n {
		op, key := g.Next(g.r)
		c.out = op.Encode(c.out, g.r, key)
		c.awaited = append(c.awaited, request{op, key})
	}
	c.unsent, c.sent = c.out, now
	return true, g.flush(i)
}

// flush writes what the socket takes, and has epoll wait for the rest.
func (g *runner) flush(i int) error {
	c := &g.conns[i]
	for len(c.unsent) > 0 {
		n, err := syscall.Write(c.fd, c.unsent)
		if err == syscall.EAGAIN {
			break
		}
		if err != nil && err != syscall.EINTR {
			return err
		}
		c.unsent = c.unsent[max(n, 0):]
	}
	if blocked := len(c.unsent) > 0; blocked != c.blocked {
		c.blocked = blocked
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if blocked {
			event.Events |= syscall.EPOLLOUT
		}
		return syscall.EpollCtl(g.epoll, syscall.EPOLL_CTL_MOD, c.fd, &event)
	}
	return nil
}

// receive reads once, checks the replies that have arrived, and returns the time.
func (g *runner) receive(c *conn) (time.Time, error) {
	n, err := syscall.Read(c.fd, c.in[c.filled:])
	now := time.Now()
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return now, nil
	case err != nil:
		return now, err
	case n == 0:
		return now, errors.New("the server closed a connection")
	}
	c.filled += n
	at, before := 0, c.answered
	for c.answered < len(c.awaited) {
		end, err := replyEnd(c.in[at:c.filled])
		if err != nil {
			return now, err
		}
		if end == 0 {
			break
		}
		reply, q := c.in[at:at+end], c.awaited[c.answered]
		if reply[0] == '-' || !q.op.Check(reply, q.key) {
			return now, fmt.Errorf("reply %.100q to %.100q", reply, q.op.Encode(nil, g.r, q.key))
		}
		at += end
		c.answered++
	}
	c.filled = copy(c.in, c.in[at:c.filled])
	if c.answered == len(c.awaited) && c.filled > 0 {
		return now, fmt.Errorf("a reply to no request: %.100q", c.in[:c.filled])
	}
	if c.filled == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	if got := int64(c.answered - before); got > 0 {
		g.result.Requests += got
		g.result.Latency.Add(now.Sub(c.sent), got)
		second := int(now.Sub(g.start) / time.Second)
		for len(g.result.PerSecond) <= second {
			g.result.PerSecond = append(g.result.PerSecond, 0)
		}
		g.result.PerSecond[second] += got
	}
	return now, nil
}
