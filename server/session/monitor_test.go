package session_test

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
)

// line reads a line of MONITOR and returns it without its time.
func line(c *servertest.Client) string {
	c.T.Helper()
	got := c.Reply()
	m := monitorLine.FindStringSubmatch(got)
	if m == nil {
		c.T.Fatalf("no line of MONITOR: %q", got)
	}
	return m[1]
}

var monitorLine = regexp.MustCompile(`(?s)^\+\d+\.\d{6} (.*)\r\n$`)

// A monitor sees its own commands, each after the reply, as in Redis.
func TestMonitorSeesItself(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Send(servertest.Pipeline("MONITOR", "PING", "ECHO x"))
	for _, want := range []string{`^\+OK\r\n$`, `^\+PONG\r\n$`, `^\+\d+\.\d{6} \[0 127.0.0.1:\d+\] "PING"\r\n$`,
		`^\$1\r\nx\r\n$`, `"ECHO" "x"\r\n$`} {
		if got := c.Reply(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

func TestMonitor(t *testing.T) {
	h := servertest.Start(t)
	for _, proto := range []string{"2", "3"} {
		m, c := h.Dial(t), h.Dial(t)
		m.Do("HELLO", proto)
		m.Want("MONITOR", "+OK\r\n")
		addr := c.LocalAddr().String()
		c.Send(servertest.Encode("SET", "k", "a\"\\\r\n\t\x00é") +
			servertest.Pipeline("CONFIG GET x", "AUTH s3cret", "NOSUCH", "GET",
				"MULTI", "INCR n", "EXEC", "CLIENT ID"))
		for range 9 {
			c.Reply()
		}
		for _, want := range []string{`"SET" "k" "a\"\\\r\n\t\x00\xc3\xa9"`, `"AUTH" "(redacted)"`, `"MULTI"`,
			`"INCR" "n"`, `"EXEC"`, `"CLIENT" "ID"`} {
			if got := line(m); got != "[0 "+addr+"] "+want {
				t.Errorf("%s, want [0 %s] %s", got, addr, want)
			}
		}
		// A monitor sees its own commands.
		m.Send(servertest.Encode("ECHO", "x"))
		if got := m.Reply() + m.Reply(); !strings.Contains(got, `"ECHO" "x"`) || !strings.Contains(got, "$1\r\nx\r\n") {
			t.Errorf("%q", got)
		}
		if got := c.Do("CLIENT", "LIST"); !strings.Contains(got, "flags=O ") {
			t.Errorf("no flag O in %q", got)
		}
		m.Want("RESET", "+RESET\r\n")
		c.Do("PING")
		m.Want("PING", "+PONG\r\n")
		if h.Sessions().Monitored() {
			t.Error("still monitored")
		}
	}
}

// A monitor of a namespace sees the commands of this namespace only; a monitor of the default namespace sees all.
func TestMonitorNamespaces(t *testing.T) {
	h := servertest.Start(t, "requirepass", "admin", "namespace.one", "token1", "namespace.two", "token2")
	dial := func(password string) *servertest.Client {
		c := h.Dial(t)
		c.Want("AUTH "+password, "+OK\r\n")
		return c
	}
	all, one := dial("admin"), dial("token1")
	all.Want("MONITOR", "+OK\r\n")
	one.Want("MONITOR", "+OK\r\n")
	dial2 := dial("token2")
	dial2.Want("PING", "+PONG\r\n")
	one2 := dial("token1")
	one2.Want("ECHO 1", "$1\r\n1\r\n")
	find := func(c *servertest.Client, want string) {
		t.Helper()
		for {
			if got := line(c); strings.HasSuffix(got, want) {
				return
			} else if c == one && strings.Contains(got, "[two") {
				t.Errorf("a command of another namespace: %s", got)
			}
		}
	}
	find(all, `[two `+dial2.LocalAddr().String()+`] "PING"`)
	find(all, `[one `+one2.LocalAddr().String()+`] "ECHO" "1"`)
	find(one, `"ECHO" "1"`)
	if h.Sessions().Stats.OutputLimit.Load() != 0 {
		t.Error("a client was disconnected at the output limit")
	}
}

// A script is shown before the commands that it calls.
func TestMonitorScript(t *testing.T) {
	h := servertest.Start(t)
	m, c := h.Dial(t), h.Dial(t)
	m.Want("MONITOR", "+OK\r\n")
	c.Do("EVAL", "return redis.call('GET', KEYS[1])", "1", "k")
	for _, want := range []string{"[0 " + c.LocalAddr().String() +
		`] "EVAL" "return redis.call('GET', KEYS[1])" "1" "k"`, `[0 lua] "GET" "k"`} {
		if got := line(m); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// SCRIPT commands, which run no script, are shown once.
func TestMonitorScriptLoad(t *testing.T) {
	h := servertest.Start(t)
	m, c := h.Dial(t), h.Dial(t)
	m.Want("MONITOR", "+OK\r\n")
	c.Do("SCRIPT", "LOAD", "return 1")
	c.Do("SCRIPT", "FLUSH")
	c.Do("PING")
	for _, want := range []string{`"SCRIPT" "LOAD" "return 1"`, `"SCRIPT" "FLUSH"`, `"PING"`} {
		if got := line(m); !strings.HasSuffix(got, "] "+want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Databases are shown by their numbers. An administrator sees the commands of all databases, whichever is selected.
func TestMonitorDatabases(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	m, c := h.Dial(t), h.Dial(t)
	m.Want("SELECT 5", "+OK\r\n")
	m.Want("MONITOR", "+OK\r\n")
	c.Want("SELECT 7", "+OK\r\n")
	c.Want("GET k", "$-1\r\n")
	line(m)
	if got, want := line(m), "[7 "+c.LocalAddr().String()+`] "GET" "k"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A monitor that does not read is disconnected at the output limit; other clients do not wait for it.
func TestSlowMonitor(t *testing.T) {
	h := servertest.Start(t, "client-output-buffer-limit", "normal 1000000 0 0")
	m, c := h.Dial(t), h.Dial(t)
	m.Want("MONITOR", "+OK\r\n")
	big := strings.Repeat("x", 100_000)
	// The number of commands that it takes depends on the size of the sockets' buffers.
	for end := time.Now().Add(servertest.Patience); h.Sessions().Counts().Monitors > 0; {
		if time.Now().After(end) {
			t.Fatal("the monitor is still connected")
		}
		c.Do("SET", "k", big)
	}
	servertest.Eventually(t, "the monitor is disconnected", func() bool {
		return h.Sessions().Counts().Monitors == 0 &&
			!h.Sessions().Monitored()
	})
	io.Copy(io.Discard, m)
	c.Want("PING", "+PONG\r\n")
}
