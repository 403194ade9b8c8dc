package session_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"math/rand"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/basaltdb/basalt/server/servertest"
)

// calm returns a check that the clients of a server have left nothing behind: no connection, no blocked client, no
// subscription, no goroutine, and no error in the log. calm must be called before the clients connect, and the check
// after they have disconnected.
func calm(t *testing.T, h *servertest.Harness) func() {
	t.Helper()
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		servertest.Eventually(t, "all connections are forgotten", func() bool { return h.Sessions().Clients() == 0 })
		if n := h.Sessions().Counts().Blocked; n != 0 {
			t.Errorf("%d clients still wait", n)
		}
		if n := h.Sessions().Hub.Len(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
		servertest.Eventually(t, "the clients' goroutines end", func() bool { return runtime.NumGoroutine() <= before+1 })
		for _, e := range h.Logs.All() {
			if e.Level >= zapcore.ErrorLevel {
				t.Errorf("logged: %s %v", e.Message, e.ContextMap())
			}
		}
		c := h.Dial(t)
		c.Want("PING", "+PONG\r\n")
		c.Close()
	}
}

// heapAlive returns the number of bytes of live objects in the heap, after a garbage collection.
func heapAlive() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Each of many clients with an incomplete command takes the memory of the bytes sent and of a buffer, whatever lengths
// the command announces.
func TestHalfSentCommands(t *testing.T) {
	h := servertest.Start(t)
	after := calm(t, h)
	const n = 200
	before := heapAlive()
	var sent int64
	var conns []*servertest.Client
	for i := range n {
		half := []string{
			"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nxxx",
			"*1048576\r\n$536870912\r\nx",
			"*1048576\r\n" + strings.Repeat("$1\r\na\r\n", 500),
			"*2\r\n$3\r\nGET\r\n$536870912\r\n" + strings.Repeat("y", 5000),
			strings.Repeat("inline ", 2000),
			"*",
			"$",
			"*1\r",
			"*2\r\n$4\r\nPING\r",
		}[i%9]
		c := h.Dial(t)
		c.Send(half)
		sent += int64(len(half))
		conns = append(conns, c)
	}
	servertest.Eventually(t, "all was read", func() bool { return h.Sessions().Stats.NetIn.Load() == sent })
	if grown := heapAlive() - before - sent; !servertest.RaceEnabled && grown > n*40<<10 {
		t.Errorf("%d bytes more than what was sent, for %d clients", grown, n)
	}
	// A command that arrives byte by byte runs.
	slow := h.Dial(t)
	for _, b := range []byte(servertest.Encode("ECHO", "slow")) {
		slow.Send(string(b))
	}
	if got := slow.Reply(); got != "$4\r\nslow\r\n" {
		t.Error(got)
	}
	for _, c := range append(conns, slow) {
		c.Close()
	}
	after()
}

// The memory of clients that send commands and read no replies is bounded, and other clients are served meanwhile.
func TestPipelinesWithoutReading(t *testing.T) {
	h := servertest.Start(t)
	const limit = 1 << 20
	h.Sessions().Limits.Out.Store(limit)
	after := calm(t, h)
	good := h.Dial(t)
	good.Want("SET k "+strings.Repeat("v", 5000), "+OK\r\n")
	before := heapAlive()
	const n = 8
	request := strings.Repeat(servertest.Pipeline("GET k", "PING", "LRANGE nosuch 0 -1", "NOSUCH"), 100)
	done := make(chan error, n)
	for range n {
		c := h.Dial(t)
		go func() {
			c.SetDeadline(time.Now().Add(servertest.Patience))
			for i := 0; ; i++ {
				if _, err := io.WriteString(c, request); err != nil {
					done <- nil
					return
				}
				if i == 10000 {
					done <- fmt.Errorf("the server has read %d requests of a client that reads no replies", i)
					return
				}
			}
		}()
	}
	for left, calls := n, 1; left > 0; {
		select {
		case err := <-done:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
			good.Want("INCR n", fmt.Sprintf(":%d\r\n", calls))
			calls++
			if grown := int64(heapInUse()) - before; grown > 16*n*limit {
				t.Fatalf("the heap has grown by %d MiB", grown>>20)
			}
		}
	}
	good.Close()
	after()
}

// Random and damaged input causes no panic, and leaves nothing behind.
func TestGarbage(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	plain := servertest.Start(t)
	r := rand.New(rand.NewSource(4))
	seeds := []string{
		servertest.Pipeline("SET k v", "GET k", "MULTI", "SET k w", "EXEC"), servertest.Encode("EVAL", "return 1",
			"0"), servertest.Pipeline("SUBSCRIBE a b", "PING", "UNSUBSCRIBE"),
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", "PING\r\nSET \"a b\" 'c'\r\n", "*-1\r\n*0\r\n\r\n",
		servertest.Encode("CLIENT", "KILL", "ID", "1"), servertest.Encode("HELLO", "3", "AUTH", "default", "x"),
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", servertest.Encode("BLPOP",
			"nosuch", "0.01"), servertest.Encode("CONFIG", "SET", "timeout", "x"),
	}
	for _, secure := range []bool{false, true} {
		s := plain
		if secure {
			s = h
		}
		after := calmTLS(t, s, secure, ca.Client(""))
		for i := range 300 {
			b := []byte(seeds[r.Intn(len(seeds))] + seeds[r.Intn(len(seeds))])
			if i%3 == 0 {
				b = make([]byte, r.Intn(3000))
				r.Read(b)
			}
			for range r.Intn(8) {
				if len(b) > 0 {
					b[r.Intn(len(b))] = byte(r.Intn(256))
				}
			}
			c := s.Dial(t)
			if secure && i%2 == 0 { // the other clients send their bytes without TLS to the TLS port
				c = servertest.Secured(t, c.Conn, ca.Client(""))
			}
			c.SetDeadline(time.Now().Add(servertest.Patience))
			c.Write(b)
			closeWrite(c.Conn)
			if i%4 != 0 { // the others do not wait for the replies
				io.Copy(io.Discard, c.Conn)
			}
			c.Close()
		}
		after()
	}
}

// calmTLS is calm for a server with or without TLS. With TLS the check does not count goroutines.
func calmTLS(t *testing.T, h *servertest.Harness, secure bool, config *tls.Config) func() {
	if !secure {
		return calm(t, h)
	}
	return func() {
		t.Helper()
		servertest.Eventually(t, "all connections are forgotten", func() bool { return h.Sessions().Clients() == 0 })
		for _, e := range h.Logs.All() {
			if e.Level >= zapcore.ErrorLevel {
				t.Errorf("logged: %s %v", e.Message, e.ContextMap())
			}
		}
		c := h.DialTLS(t, config)
		c.Want("PING", "+PONG\r\n")
	}
}

// closeWrite closes the client's direction of a connection.
func closeWrite(nc net.Conn) {
	if c, ok := nc.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
}

// Clients that disconnect in the middle of a command or a reply leave nothing behind, and take no data.
func TestClosedInTheMiddle(t *testing.T) {
	h := servertest.Start(t)
	ht, ca := servertest.StartTLS(t)
	scripts := []string{
		servertest.Pipeline("SET k v", "GET k"),
		servertest.Pipeline("WATCH w", "MULTI", "SET w 1", "LPUSH l x", "EXEC"),
		servertest.Pipeline("SUBSCRIBE a b", "PSUBSCRIBE c*", "UNSUBSCRIBE a"),
		servertest.Pipeline("BLPOP nothing 0", "PING"),
		servertest.Pipeline("MULTI", "BLPOP nothing 0", "DISCARD", "BLMOVE nothing else LEFT RIGHT 0"),
		servertest.Pipeline("CLIENT REPLY OFF", "SET k v", "CLIENT REPLY ON"),
		servertest.Encode("SET", "big", strings.Repeat("b", 40000)) + servertest.Pipeline("GET big", "GET big", "GET big"),
		servertest.Pipeline("HELLO 3", "CLIENT SETNAME x", "QUIT"),
		"*1\r\n$-1\r\n",
	}
	for _, secure := range []bool{false, true} {
		s := h
		if secure {
			s = ht
		}
		after := calmTLS(t, s, secure, ca.Client(""))
		for i, script := range scripts {
			step := max(1, len(script)/12)
			for cut := 0; cut <= len(script); cut += step {
				c := s.Dial(t)
				reset := (cut/step)%2 == 0
				tcp := c.Conn.(*net.TCPConn)
				if secure {
					c = servertest.Secured(t, c.Conn, ca.Client(""))
				}
				if cut > 0 {
					c.Send(script[:cut])
				}
				if cut == len(script) && i != 3 && i != 4 {
					io.ReadFull(c, make([]byte, 5)) // the beginning of the replies
				}
				if reset {
					tcp.SetLinger(0)
				}
				if (cut/step)%3 == 0 {
					tcp.Close()
				} else {
					c.Close()
				}
			}
		}
		after()
	}
	// A blocked client that has disconnected pops nothing.
	c := h.Dial(t)
	for range 50 {
		b := h.Dial(t)
		b.Send(servertest.Pipeline("BLPOP queue 0"))
		servertest.Eventually(t, "the client is blocked", func() bool { return h.Sessions().Counts().Blocked == 1 })
		b.Close()
		servertest.Eventually(t, "the client is no longer blocked", func() bool { return h.Sessions().Counts().Blocked == 0 })
		c.Want("RPUSH queue x", ":1\r\n")
		c.Want("LPOP queue", "$1\r\nx\r\n")
	}
}
