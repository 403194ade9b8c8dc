package session_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/wire"
)

func TestProtocolErrors(t *testing.T) {
	h := servertest.Start(t)
	for _, tt := range []struct{ send, want string }{
		{"*abc\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*2\r\n$3\r\nGET\r\n+k\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"},
		{"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"GET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
		{strings.Repeat("x", 70000), "-ERR Protocol error: too big inline request\r\n"},
		// The commands before the error are answered.
		{servertest.Pipeline("SET k v", "GET k") + "*1\r\n!",
			"+OK\r\n$1\r\nv\r\n-ERR Protocol error: expected '$', got '!'\r\n"},
		// Empty lines and empty commands are skipped.
		{"\r\n*0\r\n*-1\r\nPING\r\nQUIT\r\n", "+PONG\r\n+OK\r\n"},
	} {
		c := h.Dial(t)
		c.Send(tt.send)
		if got := c.Closed(); got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.send, got, tt.want)
		}
	}
	if got := h.Sessions().Stats.ProtocolErrors.Load(); got != 6 {
		t.Errorf("%d protocol errors were counted", got)
	}
}

// For each limit of a client's input: the largest allowed input, and a larger one.
func TestInputLimits(t *testing.T) {
	h := servertest.Start(t)
	h.Sessions().Limits.Bulk.Store(1 << 20)
	big := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name, send, want string // want is the beginning of the reply
	}{
		{"the longest inline command", "ECHO " + strings.Repeat("x", resp.DefaultMaxInline-5) + "\r\n", "$65531\r\nxxx"},
		{"a longer inline command", "ECHO " + strings.Repeat("x", resp.DefaultMaxInline-4) + "\r\n",
			"-ERR Protocol error: too big inline request\r\n"},
		{"an inline command without an end", strings.Repeat("x", resp.DefaultMaxInline+2),
			"-ERR Protocol error: too big inline request\r\n"},
		{"LF ends an inline command", "PING\n", "+PONG\r\n"},
		{"quotes", "ECHO \"a b\\x41\"\r\n", "$4\r\na bA\r\n"},
		{"the max number of arguments", "*1048576\r\n" + strings.Repeat("$1\r\na\r\n", 1<<20),
			"-ERR unknown command 'a', with args"},
		{"one more argument", "*1048577\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"a count beyond int64", "*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"a count with a plus", "*+1\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"a count without end", "*" + strings.Repeat("1", resp.DefaultMaxInline+1),
			"-ERR Protocol error: too big mbulk count string\r\n"},
		{"LF alone does not end a count", "*1\n$4\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"counts that are ignored", "*0\r\n*-5\r\n\r\n\n" + servertest.Pipeline("PING"), "+PONG\r\n"},
		{"an empty name", "*1\r\n$0\r\n\r\n", "-ERR unknown command '', with args beginning with: \r\n"},
		{"no length", "*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'\r\n"},
		{"a length below zero", "*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"a length without end", "*1\r\n$" + strings.Repeat("1", resp.DefaultMaxInline+1),
			"-ERR Protocol error: too big bulk count string\r\n"},
		{"the longest argument", servertest.Encode("ECHO", big), "$1048576\r\nxxx"},
		{"a longer argument", "*2\r\n$4\r\nECHO\r\n$1048577\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"an argument without CRLF", "*1\r\n$4\r\nPINGxx", "-ERR Protocol error: expected CRLF after bulk\r\n"},
		{"keys have no limit of their own", servertest.Encode("SET", big, "v"), "+OK\r\n"},
	} {
		c := h.Dial(t)
		c.Send(tt.send)
		got := make([]byte, len(tt.want))
		c.SetReadDeadline(time.Now().Add(servertest.Patience))
		if n, err := io.ReadFull(c.R, got); err != nil || string(got) != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got[:n], err, tt.want)
		}
		c.Close()
	}
}

// The checks of a command have an order: a command that fails two checks gets the error of the first one.
func TestOrderOfChecks(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret", "namespace.ns", "token")
	const (
		noauth   = "-NOAUTH Authentication required.\r\n"
		readOnly = "-READONLY You can't write against a read only replica.\r\n"
		full     = "-ERR write command not allowed when reached max-db-size.\r\n"
		admin    = "-ERR admin permission required to perform the command\r\n"
	)
	for _, tt := range []struct {
		auth           string // the password; "" = the client does not authenticate
		readOnly, full bool
		commands       []string
		want           []string
	}{
		// 1. Do the command and the subcommand exist?
		{"", true, true, []string{"NOSUCH a b"},
			[]string{"-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"}},
		{"", true, true, []string{"CONFIG NOSUCH"}, []string{"-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.\r\n"}},
		// 2. Is the number of arguments right?
		{"", true, true, []string{"SET k", "CONFIG GET"},
			[]string{"-ERR wrong number of arguments for 'set' command\r\n",
				"-ERR wrong number of arguments for 'config|get' command\r\n"}},
		// 3. Has the client authenticated?
		{"", true, true, []string{"SET k v", "CONFIG GET x", "MULTI", "AUTH x"},
			[]string{noauth, noauth, noauth, "-WRONGPASS invalid username-password pair or user is disabled.\r\n"}},
		// 4. Is the client an administrator?
		{"token", true, true, []string{"CONFIG GET x", "FLUSHALL", "GET k"}, []string{admin, admin, "$-1\r\n"}},
		// 5. Does a replica take writes?
		{"secret", true, true, []string{"SET k v BAD", "SET k v", "DEL k"}, []string{readOnly, readOnly, readOnly}},
		// 6. Is there space?
		{"secret", false, true, []string{"SET k v BAD", "SET k v", "DEL k"}, []string{full, full, ":0\r\n"}},
		// 7. In MULTI a command that has passed these checks is queued.
		{"secret", false, false, []string{"MULTI", "SET k v BAD", "MULTI", "EXEC"},
			[]string{"+OK\r\n", "+QUEUED\r\n", "-ERR MULTI calls can not be nested\r\n", "*1\r\n-ERR syntax error\r\n"}},
		{"secret", true, false, []string{"MULTI", "GET k", "SET k v", "EXEC"},
			[]string{"+OK\r\n", "+QUEUED\r\n", readOnly, "-EXECABORT Transaction discarded because of previous errors.\r\n"}},
		{"secret", false, true, []string{"MULTI", "SET k v", "EXEC"}, []string{"+OK\r\n", full,
			"-EXECABORT Transaction discarded because of previous errors.\r\n"}},
		{"secret", false, false, []string{"MULTI", "NOSUCH", "EXEC"}, []string{"+OK\r\n",
			"-ERR unknown command 'NOSUCH', with args beginning with: \r\n",
			"-EXECABORT Transaction discarded because of previous errors.\r\n"}},
		{"secret", false, false, []string{"MULTI", "GET", "EXEC"}, []string{"+OK\r\n",
			"-ERR wrong number of arguments for 'get' command\r\n",
			"-EXECABORT Transaction discarded because of previous errors.\r\n"}},
		// 8. Are the arguments valid?  9. Does the data have the right type?
		{"secret", false, false, []string{"SET k v BAD", "SET k v", "LPUSH k x", "LPOP k x", "EXPIRE nosuch x"},
			[]string{"-ERR syntax error\r\n", "+OK\r\n",
				"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
				"-ERR value is out of range, must be positive\r\n", "-ERR value is not an integer or out of range\r\n"}},
	} {
		h.Sessions().Limits.ReadOnly.Store(tt.readOnly)
		h.Sessions().Limits.Full.Store(tt.full)
		c := h.Dial(t)
		if tt.auth != "" {
			c.Want("AUTH "+tt.auth, "+OK\r\n")
		}
		// The commands one by one, and in a pipeline.
		for i, cmd := range tt.commands {
			c.Want(cmd, tt.want[i])
		}
		if tt.auth != "" {
			c.Do("DEL", "k")
		}
		c.Send(servertest.Pipeline(tt.commands...))
		for i, cmd := range tt.commands {
			if got := c.Reply(); got != tt.want[i] {
				t.Errorf("%s in a pipeline: %q, want %q", cmd, got, tt.want[i])
			}
		}
		c.Close()
	}
}

// An argument may be as long as proto-max-bulk-len; the read buffer grows to it and shrinks again.
func TestBigArguments(t *testing.T) {
	h := servertest.Start(t)
	h.Sessions().Limits.Bulk.Store(8 << 20)
	c := h.Dial(t)
	value := strings.Repeat("b", 8<<20)
	if got := c.Do("SET", "k", value); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := c.Do("GET", "k"); got != fmt.Sprintf("$%d\r\n%s\r\n", len(value), value) {
		t.Fatalf("another value came back, %d bytes", len(got))
	}
	c.Want("PING", "+PONG\r\n")
	if n := h.Sessions().Services.Clients.List()[0].QueryBuf +
		h.Sessions().Services.Clients.List()[0].QueryFree; n > wire.KeepBuffer {
		t.Errorf("an idle connection keeps a read buffer of %d bytes", n)
	}
	c.Send(fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n", 8<<20+1))
	if got := c.Closed(); got != "-ERR Protocol error: invalid bulk length\r\n" {
		t.Error(got)
	}
}

// Before authentication the limits of a client's input are small, and its commands do not run.
func TestLimitsBeforeAuth(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret")
	for _, tt := range []struct{ send, want string }{
		{"*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"},
		{"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"},
		{servertest.Pipeline("GET k", "NOSUCH", "GET", "PING", "AUTH wrong", "QUIT"),
			"-NOAUTH Authentication required.\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n-ERR wrong " +
				"number of arguments for 'get' command\r\n" +
				"-NOAUTH Authentication required.\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n"},
		// AUTH ends these limits, also for the rest of a pipeline.
		{servertest.Pipeline("AUTH secret") + servertest.Encode("SET", "k", strings.Repeat("x", 20000)) +
			servertest.Pipeline("STRLENX", "QUIT"),
			"+OK\r\n+OK\r\n-ERR unknown command 'STRLENX', with args beginning with: \r\n+OK\r\n"},
	} {
		c := h.Dial(t)
		c.Send(tt.send)
		if got := c.Closed(); got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.send, got, tt.want)
		}
	}
}

func TestIdleTimeout(t *testing.T) {
	h := servertest.Start(t)
	var c *servertest.Client
	var began time.Time
	var limit time.Duration
	servertest.InTime(t, time.Second, func(d time.Duration) error {
		limit = d
		h.Sessions().Limits.Timeout.Store(int64(limit / time.Second))
		c = h.Dial(t)
		began = time.Now()
		return c.RoundTrip(servertest.Pipeline("PING"), 1)
	})
	c.SetReadDeadline(time.Now().Add(limit + servertest.Patience))
	if got, err := io.ReadAll(c.R); len(got) > 0 || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if d := time.Since(began); d < limit {
		t.Errorf("the idle client was disconnected after %v, want at least %v", d, limit)
	}
	// When the timeout is switched off, a connection that had a deadline stays open.
	servertest.InTime(t, time.Second, func(d time.Duration) error {
		limit = d
		h.Sessions().Limits.Timeout.Store(int64(limit / time.Second))
		c = h.Dial(t)
		if err := c.RoundTrip(servertest.Pipeline("PING"), 1); err != nil {
			return err
		}
		h.Sessions().Limits.Timeout.Store(0)
		return c.RoundTrip(servertest.Pipeline("PING"), 1)
	})
	time.Sleep(limit + 100*time.Millisecond) // nothing may happen: there is no event to wait for
	c.Want("PING", "+PONG\r\n")
}

// Close lets a running command finish, sends what is queued, and returns although clients are idle.
func TestClose(t *testing.T) {
	for _, timeout := range []int64{0, 3600} {
		h := servertest.Start(t, "bind", "127.0.0.9") // no other test listens on this address: none takes the freed port
		h.Sessions().Limits.Timeout.Store(timeout)
		h.Sessions().Limits.Ending.Store(int64(servertest.Patience)) // on a busy host the last replies may take long
		idle, busy, late := h.Dial(t), h.Dial(t), h.Dial(t)
		for _, c := range []*servertest.Client{idle, busy, late} {
			c.Want("PING", "+PONG\r\n")
		}
		busy.Send(servertest.Pipeline("SET k v", "DEBUG SLEEP 1000"))
		servertest.Eventually(t, "the client sleeps", func() bool {
			return len(h.Sessions().Services.Clients.List()) == 3 && h.Sessions().Services.Clients.List()[1].Command == "debug"
		})
		h.Close()
		if got := idle.Closed(); got != "" {
			t.Errorf("the idle client got %q", got)
		}
		if got := busy.Closed(); got != "+OK\r\n+OK\r\n" {
			t.Errorf("the busy client got %q", got)
		}
		if _, err := net.Dial("tcp", h.Addr()); err == nil {
			t.Error("the server still accepts")
		}
		h.Close() // a second Close does nothing
	}
}

// TestCloseCutsPipelines: when the time for the clients is over, Close waits for the command that runs, not for all the
// commands that were sent.
func TestCloseCutsPipelines(t *testing.T) {
	h := servertest.Start(t)
	h.Sessions().Limits.Ending.Store(0)
	key := []byte("n")
	c := h.Dial(t)
	closed := make(chan struct{})
	require.NoError(t, h.DB.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		c.Send(strings.Repeat(servertest.Pipeline("INCR n"), 10))
		servertest.Eventually(t, "the pipeline waits for the key", tx.Awaited)
		go func() { h.Close(); close(closed) }()
		servertest.Eventually(t, "the server is being closed", h.Sessions().Closing)
		return nil
	}))
	<-closed
	require.NoError(t, h.DB.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		v, _, err := str.Get(tx, key)
		if string(v) != "1" {
			t.Errorf("%q of 10 commands have run", v)
		}
		return err
	}))
}

func TestShutdown(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for _, bad := range []string{"SHUTDOWN WHAT", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW"} {
		c.Want(bad, "-ERR syntax error\r\n")
	}
	c.Want("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n")
	select {
	case <-h.ShutdownRequested():
		t.Fatal("a refused SHUTDOWN has requested a shutdown")
	default:
	}
	c.Send(servertest.Pipeline("SHUTDOWN NOSAVE NOW FORCE"))
	if got := c.Closed(); got != "" {
		t.Errorf("reply %q", got)
	}
	select {
	case <-h.ShutdownRequested():
	case <-time.After(servertest.Patience):
		t.Fatal("SHUTDOWN has not requested a shutdown")
	}
}
