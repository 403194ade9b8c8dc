package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cutConn sends the first bytes of a write, calls between, and sends the rest.
type cutConn struct {
	net.Conn
	cut     int // 0 = not
	between func()
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.cut <= 0 || c.cut >= len(b) {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(b[:c.cut]); err != nil {
		return 0, err
	}
	c.between()
	if _, err := c.Conn.Write(b[c.cut:]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// allRead reports whether everything was read that the socket of a connection has received.
func allRead(t *testing.T, c *conn) (empty bool) {
	t.Helper()
	raw, err := c.wire.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		empty = err == syscall.EAGAIN
	}); err != nil {
		t.Fatal(err)
	}
	return empty
}

// TestTLSWakes wakes connections by their deadline while there is a part of a record, wherever it ends.
func TestTLSWakes(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		h, ca := startTLS(t)
		other := h.dialTLS(t, ca.Client(""))
		nc, err := net.Dial("tcp", h.Addr())
		if err != nil {
			t.Fatal(err)
		}
		cut := &cutConn{Conn: nc}
		config := ca.Client("")
		config.MaxVersion = version
		c := secured(t, cut, config)
		c.want("PING", "+PONG\r\n")
		h.mu.Lock()
		served := h.conns[h.lastID.Load()]
		h.mu.Unlock()
		received := func() bool { return allRead(t, served) }
		for size := 1; size < 120; size += 1 + size/6 {
			// Blocked: the record is half there when the wait ends.
			cut.cut = 0
			c.send(pipeline("BLPOP list 0"))
			eventually(t, "it waits", func() bool { return h.waiters.n.Load() == 1 })
			cut.cut = size
			cut.between = func() {
				eventually(t, "the part was read", received)
				other.want("RPUSH list "+strconv.Itoa(size), ":1\r\n")
				if got := c.reply(); got != fmt.Sprintf("*2\r\n$4\r\nlist\r\n$%d\r\n%d\r\n", len(strconv.Itoa(size)), size) {
					t.Fatalf("cut at %d: %q", size, got)
				}
			}
			c.want("ECHO "+strings.Repeat("x", 100), "$100\r\n"+strings.Repeat("x", 100)+"\r\n")
			// Idle: the timeout changes meanwhile.
			cut.between = func() {
				eventually(t, "the part was read", received)
				other.want(fmt.Sprintf("CONFIG SET timeout %d", 1000+size), "+OK\r\n")
			}
			c.want("ECHO "+strings.Repeat("y", 100), "$100\r\n"+strings.Repeat("y", 100)+"\r\n")
			cut.between = func() {
				eventually(t, "the part was read", received)
				other.want("CONFIG SET timeout 0", "+OK\r\n")
			}
			c.want("ECHO "+strings.Repeat("z", 100), "$100\r\n"+strings.Repeat("z", 100)+"\r\n")
		}
	}
}

// A blocked client that has sent more than is read ahead is woken all the same.
func TestTLSBlockedWithInput(t *testing.T) {
	h, ca := startTLS(t)
	c, other := h.dialTLS(t, ca.Client("")), h.dialTLS(t, ca.Client(""))
	go func() { // more than the buffers of the sockets take
		io.WriteString(c, pipeline("BLPOP list 0")+strings.Repeat(pipeline("ECHO "+strings.Repeat("e", 8000)),
			1000)+pipeline("PING"))
	}()
	eventually(t, "it waits and sends", func() bool {
		return h.waiters.n.Load() == 1 &&
			h.stats.NetIn.Load() > maxBlockedInput
	})
	other.want("RPUSH list x", ":1\r\n")
	if got := c.reply(); got != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
		t.Fatal(got)
	}
	for range 1000 {
		c.reply()
	}
	if got := c.reply(); got != "+PONG\r\n" {
		t.Error(got)
	}
}

// A TLS client that asks and never reads is cut off at the limit, as a plain one is.
func TestTLSSlowReader(t *testing.T) {
	h, ca := startTLS(t)
	const limit = 4 << 20
	h.limits.out.Store(limit)
	c := h.dialTLS(t, ca.Client(""))
	c.want("SET k "+strings.Repeat("v", 10000), "+OK\r\n")
	h.flood(t, c, limit)
	h.dialTLS(t, ca.Client("")).want("PING", "+PONG\r\n")
}

// Publishers do not wait for TLS subscribers, those who read get all messages whole and in order, and the one who does
// not is cut off.
func TestTLSSubscribers(t *testing.T) {
	h, ca := startTLS(t)
	h.limits.outputs.Store(nil)
	h.limits.out.Store(2 << 20)
	lazy := h.dialTLS(t, ca.Client(""))
	lazy.want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	good := h.dialTLS(t, ca.Client(""))
	good.do("HELLO", "3") // so that it may send commands meanwhile
	good.want("SUBSCRIBE ch", ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	const publishers, each = 4, 200
	payload := strings.Repeat("p", 10000)
	// The good one is never more than half of the limit behind, however slow it is on a busy machine, and the messages go
	// on when it has had a first reply between them. Nobody waits for the lazy one.
	ahead := make(chan struct{}, 1<<20/len(payload))
	var wg sync.WaitGroup
	for p := range publishers {
		c := h.dialTLS(t, ca.Client(""))
		wg.Go(func() {
			for i := range each {
				ahead <- struct{}{}
				c.SetDeadline(time.Now().Add(patience))
				if _, err := io.WriteString(c, encode("PUBLISH", "ch", fmt.Sprintf("%d %d %s", p, i, payload))); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.r.ReadString('\n'); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var next [publishers]int
	asked, pongs, held := 0, 0, 0
	for got := 0; got < publishers*each; {
		if got >= 50*(asked+1) {
			good.send(pipeline("PING"))
			asked++
		}
		m := good.reply()
		if m == "+PONG\r\n" {
			for pongs++; held > 0; held-- {
				<-ahead
			}
			continue
		}
		got++
		if asked > 0 && pongs == 0 {
			held++
		} else {
			<-ahead
		}
		var p, i int
		if _, err := fmt.Sscanf(m[strings.LastIndex(m[:len(m)-len(payload)-2], "\n")+1:], "%d %d", &p, &i); err != nil {
			t.Fatalf("%.80q: %v", m, err)
		}
		if i != next[p] {
			t.Fatalf("message %d of publisher %d, want %d", i, p, next[p])
		}
		next[p]++
	}
	wg.Wait()
	lazy.SetReadDeadline(time.Now().Add(patience))
	io.Copy(io.Discard, lazy.r)
	eventually(t, "the lazy one is forgotten", func() bool { return h.hub.Len() == 1 })
	eventually(t, "it is logged", func() bool {
		return h.logs.FilterMessage("a client that does not read its replies was disconnected").Len() == 1
	})
}

// TestTLSIdleMemory measures what an idle connection costs.
func TestTLSIdleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	h, ca := startTLS(t)
	config := ca.Client("")
	config.ClientSessionCache = nil
	const n = 200
	goroutines := runtime.NumGoroutine()
	raws := make([]net.Conn, n)
	clients := make([]*client, n)
	cost := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	for i := range clients {
		var err error
		if raws[i], err = net.Dial("tcp", h.Addr()); err != nil {
			t.Fatal(err)
		}
		clients[i] = secured(t, raws[i], config)
		clients[i].want("SET k "+strings.Repeat("v", 100), "+OK\r\n")
	}
	if more := runtime.NumGoroutine() - goroutines; more > n+10 {
		t.Errorf("%d goroutines for %d connections", more, n)
	}
	with := cost()
	// The clients' side is in the same process: its share is measured by dropping the server's.
	for _, c := range h.services.Clients.List() {
		h.services.Clients.Close(c.ID)
	}
	eventually(t, "they are gone", func() bool { return h.clients() == 0 })
	each := (with - cost()) / n
	t.Logf("%d bytes for each idle connection", each)
	if each > 24<<10 {
		t.Errorf("an idle TLS connection takes %d bytes", each)
	}
	runtime.KeepAlive(clients)
}

// Close sends what TLS clients have still to get, and ends their connections in order.
func TestTLSClose(t *testing.T) {
	h, ca := startTLS(t)
	h.limits.ending.Store(int64(patience)) // they are to get it, however busy the machine is
	idle, busy := h.dialTLS(t, ca.Client("")), h.dialTLS(t, ca.Client(""))
	idle.want("PING", "+PONG\r\n")
	busy.want("SET k "+strings.Repeat("v", 1000), "+OK\r\n")
	busy.send(strings.Repeat(pipeline("GET k"), 5000))
	eventually(t, "the replies wait", func() bool { return h.stats.NetOut.Load() > 4<<20 })
	done := make(chan struct{})
	go func() { h.Close(); close(done) }()
	for _, c := range []*client{idle, busy} {
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c.r); err != nil {
			t.Errorf("the end of a connection: %v", err)
		}
	}
	<-done
}
