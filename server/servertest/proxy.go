package servertest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes TCP connections on to a server, and does with them what networks do.
type Proxy struct {
	l    net.Listener
	work sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // held or the budget, of mu
	to      string    // host:port, "" = connections are refused
	conns   map[net.Conn]bool
	held    bool
	piece   int           // at most so many bytes at once, 0 = any
	delay   time.Duration // before each piece
	passed  int64         // bytes from the server
	trips   []trip
	closed  bool
}

// trip is what happens when so many bytes have come from the server.
type trip struct {
	after int64
	do    func()
}

// NewProxy starts a proxy for a server; the test's end stops it.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	p.changed.L = &p.mu
	p.work.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed, p.held = true, false
		p.changed.Broadcast()
		p.mu.Unlock()
		l.Close()
		p.Cut()
		p.work.Wait()
	})
	return p
}

// Port returns where the proxy listens.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// Target sets where the connections to come go, "" = they are closed at once.
func (p *Proxy) Target(to string) {
	p.mu.Lock()
	p.to = to
	p.mu.Unlock()
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Hold lets nothing pass, in either direction, until it is called with false: as when a cable is pulled, nobody is
// told.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	p.held = on
	p.changed.Broadcast()
	p.mu.Unlock()
}

// Slow delivers at most so many bytes at once, and waits before each piece.
func (p *Proxy) Slow(piece int, delay time.Duration) {
	p.mu.Lock()
	p.piece, p.delay = piece, delay
	p.mu.Unlock()
}

// After calls do, once, as soon as so many more bytes have come from the server, before they are passed on.
func (p *Proxy) After(bytes int64, do func()) {
	p.mu.Lock()
	p.trips = append(p.trips, trip{p.passed + bytes, do})
	p.mu.Unlock()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to, closed := p.to, p.closed
		p.mu.Unlock()
		var s net.Conn
		if to != "" && !closed {
			s, err = net.Dial("tcp", to)
		}
		if s == nil || err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		p.work.Go(func() { p.pass(c, s, false) })
		p.work.Go(func() { p.pass(s, c, true) })
	}
}

// pass passes on what comes from one side, until either connection ends.
func (p *Proxy) pass(from, to net.Conn, server bool) {
	defer func() {
		from.Close()
		to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil && err != io.EOF {
			return
		}
		piece, delay := p.admit(n, server)
		for part := buf[:n]; len(part) > 0; {
			m := len(part)
			if piece > 0 {
				m = min(m, piece)
			}
			if delay > 0 {
				time.Sleep(delay)
			}
			if _, err := to.Write(part[:m]); err != nil {
				return
			}
			part = part[m:]
		}
		if err == io.EOF {
			return
		}
	}
}

// admit waits while nothing may pass, and does what is to be done by now.
func (p *Proxy) admit(n int, server bool) (piece int, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held {
		p.changed.Wait()
	}
	if server {
		p.passed += int64(n)
	}
	for i := 0; i < len(p.trips); {
		if p.passed < p.trips[i].after {
			i++
			continue
		}
		do := p.trips[i].do
		p.trips = append(p.trips[:i], p.trips[i+1:]...)
		p.mu.Unlock()
		do()
		p.mu.Lock()
	}
	return p.piece, p.delay
}
