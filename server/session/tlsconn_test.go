package session_test

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

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

// cutConn sends the first cut bytes of a write, calls between, and sends the rest.
type cutConn struct {
	net.Conn
	cut     int // 0 = the write is not cut
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

// allRead reports whether the server has read all bytes that the socket of a connection has received.
func allRead(t *testing.T, c *session.Loop) (empty bool) {
	t.Helper()
	raw, err := c.Wire().SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		empty = err == syscall.EAGAIN
	}))
	return empty
}

// TestTLSWakes wakes connections by their deadline while only a part of a TLS record was received, for parts of many
// lengths.
func TestTLSWakes(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		h, ca := servertest.StartTLS(t)
		other := h.DialTLS(t, ca.Client(""))
		nc, err := net.Dial("tcp", h.Addr())
		require.NoError(t, err)
		cut := &cutConn{Conn: nc}
		config := ca.Client("")
		config.MaxVersion = version
		c := servertest.Secured(t, cut, config)
		c.Want("PING", "+PONG\r\n")
		served := h.Sessions().Newest()
		received := func() bool { return allRead(t, served) }
		for size := 1; size < 120; size += 1 + size/6 {
			// A blocked client: a part of the record was received when the wait ends.
			cut.cut = 0
			c.Send(servertest.Pipeline("BLPOP list 0"))
			servertest.Eventually(t, "the client is blocked", func() bool { return h.Sessions().Counts().Blocked == 1 })
			cut.cut = size
			cut.between = func() {
				servertest.Eventually(t, "the part was read", received)
				other.Want("RPUSH list "+strconv.Itoa(size), ":1\r\n")
				if got := c.Reply(); got != fmt.Sprintf("*2\r\n$4\r\nlist\r\n$%d\r\n%d\r\n", len(strconv.Itoa(size)), size) {
					t.Fatalf("cut at %d: %q", size, got)
				}
			}
			c.Want("ECHO "+strings.Repeat("x", 100), "$100\r\n"+strings.Repeat("x", 100)+"\r\n")
			// An idle client: the setting timeout changes between two parts of the record.
			cut.between = func() {
				servertest.Eventually(t, "the part was read", received)
				other.Want(fmt.Sprintf("CONFIG SET timeout %d", 1000+size), "+OK\r\n")
			}
			c.Want("ECHO "+strings.Repeat("y", 100), "$100\r\n"+strings.Repeat("y", 100)+"\r\n")
			cut.between = func() {
				servertest.Eventually(t, "the part was read", received)
				other.Want("CONFIG SET timeout 0", "+OK\r\n")
			}
			c.Want("ECHO "+strings.Repeat("z", 100), "$100\r\n"+strings.Repeat("z", 100)+"\r\n")
		}
	}
}

// A blocked client is woken also when it has sent more bytes than the server reads ahead.
func TestTLSBlockedWithInput(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	c, other := h.DialTLS(t, ca.Client("")), h.DialTLS(t, ca.Client(""))
	go func() { // the write blocks: it is larger than the buffers of the sockets
		io.WriteString(c, servertest.Pipeline("BLPOP list 0")+
			strings.Repeat(servertest.Pipeline("ECHO "+strings.Repeat("e", 8000)),
				1000)+servertest.Pipeline("PING"))
	}()
	servertest.Eventually(t, "the client is blocked and sends", func() bool {
		return h.Sessions().Counts().Blocked == 1 &&
			h.Sessions().Stats.NetIn.Load() > session.MaxBlockedInput
	})
	other.Want("RPUSH list x", ":1\r\n")
	if got := c.Reply(); got != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
		t.Fatal(got)
	}
	for range 1000 {
		c.Reply()
	}
	if got := c.Reply(); got != "+PONG\r\n" {
		t.Error(got)
	}
}

// A TLS client that sends commands and never reads is disconnected at the output limit, see TestSlowReader.
func TestTLSSlowReader(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	const limit = 4 << 20
	h.Sessions().Limits.Out.Store(limit)
	c := h.DialTLS(t, ca.Client(""))
	c.Want("SET k "+strings.Repeat("v", 10000), "+OK\r\n")
	flood(h, t, c, limit)
	h.DialTLS(t, ca.Client("")).Want("PING", "+PONG\r\n")
}

// Publishers do not wait for TLS subscribers. A subscriber that reads gets all messages complete and in order; a
// subscriber that does not read is disconnected.
func TestTLSSubscribers(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	h.Sessions().Limits.Outputs.Store(nil)
	h.Sessions().Limits.Out.Store(2 << 20)
	lazy := h.DialTLS(t, ca.Client(""))
	lazy.Want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	good := h.DialTLS(t, ca.Client(""))
	good.Do("HELLO", "3") // a RESP3 subscriber may send commands
	good.Want("SUBSCRIBE ch", ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	const publishers, each = 4, 200
	payload := strings.Repeat("p", 10000)
	// ahead limits the messages that good has not read to half of the output limit, however slow good is on a busy host.
	// After good's first PING the publishers stop until the reply has arrived between the messages. They never wait for
	// lazy.
	ahead := make(chan struct{}, 1<<20/len(payload))
	var wg sync.WaitGroup
	for p := range publishers {
		c := h.DialTLS(t, ca.Client(""))
		wg.Go(func() {
			for i := range each {
				ahead <- struct{}{}
				c.SetDeadline(time.Now().Add(servertest.Patience))
				if _,
					err := io.WriteString(c, servertest.Encode("PUBLISH", "ch", fmt.Sprintf("%d %d %s", p, i, payload))); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.R.ReadString('\n'); err != nil {
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
			good.Send(servertest.Pipeline("PING"))
			asked++
		}
		m := good.Reply()
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
	lazy.SetReadDeadline(time.Now().Add(servertest.Patience))
	io.Copy(io.Discard, lazy.R)
	servertest.Eventually(t, "lazy is disconnected", func() bool { return h.Sessions().Hub.Len() == 1 })
	servertest.Eventually(t, "the disconnection is logged", func() bool {
		return h.Logs.FilterMessage("a client that does not read its replies was disconnected").Len() == 1
	})
}

// TestTLSIdleMemory bounds the memory of an idle TLS connection.
func TestTLSIdleMemory(t *testing.T) {
	if servertest.RaceEnabled {
		t.Skip("the race detector uses additional memory")
	}
	h, ca := servertest.StartTLS(t)
	config := ca.Client("")
	config.ClientSessionCache = nil
	const n = 200
	goroutines := runtime.NumGoroutine()
	raws := make([]net.Conn, n)
	clients := make([]*servertest.Client, n)
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
		clients[i] = servertest.Secured(t, raws[i], config)
		clients[i].Want("SET k "+strings.Repeat("v", 100), "+OK\r\n")
	}
	if more := runtime.NumGoroutine() - goroutines; more > n+10 {
		t.Errorf("%d goroutines for %d connections", more, n)
	}
	with := cost()
	// The clients are in the same process. The difference is the memory of the server's side only, which is closed here.
	for _, c := range h.Sessions().Services.Clients.List() {
		h.Sessions().Services.Clients.Close(c.ID)
	}
	servertest.Eventually(t, "all connections are closed", func() bool { return h.Sessions().Clients() == 0 })
	each := (with - cost()) / n
	t.Logf("%d bytes for each idle connection", each)
	if each > 24<<10 {
		t.Errorf("an idle TLS connection takes %d bytes", each)
	}
	runtime.KeepAlive(clients)
}

// Close sends the queued replies of TLS clients, and ends their connections with a TLS alert.
func TestTLSClose(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	h.Sessions().Limits.Ending.Store(int64(servertest.Patience)) // on a busy host the replies may take long
	idle, busy := h.DialTLS(t, ca.Client("")), h.DialTLS(t, ca.Client(""))
	idle.Want("PING", "+PONG\r\n")
	busy.Want("SET k "+strings.Repeat("v", 1000), "+OK\r\n")
	busy.Send(strings.Repeat(servertest.Pipeline("GET k"), 5000))
	servertest.Eventually(t, "the replies wait", func() bool { return h.Sessions().Stats.NetOut.Load() > 4<<20 })
	done := make(chan struct{})
	go func() { h.Close(); close(done) }()
	for _, c := range []*servertest.Client{idle, busy} {
		c.SetReadDeadline(time.Now().Add(servertest.Patience))
		if _, err := io.Copy(io.Discard, c.R); err != nil {
			t.Errorf("the end of a connection: %v", err)
		}
	}
	<-done
}
