package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func TestProtocolErrors(t *testing.T) {
	h := start(t)
	for _, tt := range []struct{ send, want string }{
		{"*abc\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*2\r\n$3\r\nGET\r\n+k\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"},
		{"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"GET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
		{strings.Repeat("x", 70000), "-ERR Protocol error: too big inline request\r\n"},
		// What came before the error is answered.
		{pipeline("SET k v", "GET k") + "*1\r\n!", "+OK\r\n$1\r\nv\r\n-ERR Protocol error: expected '$', got '!'\r\n"},
		// Nothing and empty commands are skipped.
		{"\r\n*0\r\n*-1\r\nPING\r\nQUIT\r\n", "+PONG\r\n+OK\r\n"},
	} {
		c := h.dial(t)
		c.send(tt.send)
		if got := c.closed(); got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.send, got, tt.want)
		}
	}
	if got := h.stats.protocolErrors.Load(); got != 6 {
		t.Errorf("%d protocol errors were counted", got)
	}
}

// An argument may be as long as proto-max-bulk-len; the read buffer grows to it and shrinks again.
func TestBigArguments(t *testing.T) {
	h := start(t)
	h.limits.bulk.Store(8 << 20)
	c := h.dial(t)
	value := strings.Repeat("b", 8<<20)
	if got := c.do("SET", "k", value); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := c.do("GET", "k"); got != fmt.Sprintf("$%d\r\n%s\r\n", len(value), value) {
		t.Fatalf("another value came back, %d bytes", len(got))
	}
	c.want("PING", "+PONG\r\n")
	if n := h.Clients()[0].QueryBuf + h.Clients()[0].QueryFree; n > keepBuffer {
		t.Errorf("an idle connection keeps a read buffer of %d bytes", n)
	}
	c.send(fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n", 8<<20+1))
	if got := c.closed(); got != "-ERR Protocol error: invalid bulk length\r\n" {
		t.Error(got)
	}
}

// Before it has authenticated a client may send little, and its commands do not run.
func TestLimitsBeforeAuth(t *testing.T) {
	h := start(t, "requirepass", "secret")
	for _, tt := range []struct{ send, want string }{
		{"*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"},
		{"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"},
		{pipeline("GET k", "NOSUCH", "GET", "PING", "AUTH wrong", "QUIT"),
			"-NOAUTH Authentication required.\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n-ERR wrong number of arguments for 'get' command\r\n" +
				"-NOAUTH Authentication required.\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n"},
		// The limits end with AUTH, in the middle of what one write brought.
		{pipeline("AUTH secret") + encode("SET", "k", strings.Repeat("x", 20000)) + pipeline("STRLENX", "QUIT"),
			"+OK\r\n+OK\r\n-ERR unknown command 'STRLENX', with args beginning with: \r\n+OK\r\n"},
	} {
		c := h.dial(t)
		c.send(tt.send)
		if got := c.closed(); got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.send, got, tt.want)
		}
	}
}

func TestMaxClients(t *testing.T) {
	h := start(t)
	h.limits.clients.Store(2)
	a, b := h.dial(t), h.dial(t)
	a.want("PING", "+PONG\r\n")
	b.want("PING", "+PONG\r\n")
	if got := h.dial(t).closed(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("a third client gets %q", got)
	}
	a.send(pipeline("QUIT"))
	a.closed()
	eventually(t, "the first client is forgotten", func() bool { return h.clients() == 1 })
	h.dial(t).want("PING", "+PONG\r\n")
}

func TestIdleTimeout(t *testing.T) {
	h := start(t)
	h.limits.timeout.Store(1)
	c := h.dial(t)
	c.want("PING", "+PONG\r\n")
	began := time.Now()
	if got := c.closed(); got != "" {
		t.Errorf("got %q", got)
	}
	if d := time.Since(began); d < 900*time.Millisecond {
		t.Errorf("closed after %v, a second is allowed", d)
	}
	// When it is switched off, a connection that had a deadline loses it.
	c = h.dial(t)
	c.want("PING", "+PONG\r\n")
	h.limits.timeout.Store(0)
	c.want("PING", "+PONG\r\n")
	time.Sleep(1100 * time.Millisecond) // nothing may happen: there is no event to wait for
	c.want("PING", "+PONG\r\n")
}

// Close lets a running command finish, sends what is queued, and returns although clients are idle.
func TestClose(t *testing.T) {
	for _, timeout := range []int64{0, 3600} {
		h := start(t)
		h.limits.timeout.Store(timeout)
		idle, busy, late := h.dial(t), h.dial(t), h.dial(t)
		for _, c := range []*client{idle, busy, late} {
			c.want("PING", "+PONG\r\n")
		}
		busy.send(pipeline("SET k v", "DEBUG SLEEP 1000"))
		eventually(t, "the client sleeps", func() bool {
			return len(h.Clients()) == 3 && h.Clients()[1].Command == "debug"
		})
		h.Close()
		if got := idle.closed(); got != "" {
			t.Errorf("the idle client got %q", got)
		}
		if got := busy.closed(); got != "+OK\r\n+OK\r\n" {
			t.Errorf("the busy client got %q", got)
		}
		if _, err := net.Dial("tcp", h.Addr()); err == nil {
			t.Error("the server still accepts")
		}
		h.Close() // twice is once
	}
}

func TestShutdown(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	for _, bad := range []string{"SHUTDOWN WHAT", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW"} {
		c.want(bad, "-ERR syntax error\r\n")
	}
	c.want("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n")
	select {
	case <-h.ShutdownRequested():
		t.Fatal("shut down by a refused command")
	default:
	}
	c.send(pipeline("SHUTDOWN NOSAVE NOW FORCE"))
	if got := c.closed(); got != "" {
		t.Errorf("reply %q", got)
	}
	select {
	case <-h.ShutdownRequested():
	case <-time.After(patience):
		t.Fatal("nobody was told")
	}
}
