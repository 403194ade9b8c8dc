package server

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// line reads a line of MONITOR without its time.
func (c *client) line() string {
	c.t.Helper()
	got := c.reply()
	m := monitorLine.FindStringSubmatch(got)
	if m == nil {
		c.t.Fatalf("no line of MONITOR: %q", got)
	}
	return m[1]
}

var monitorLine = regexp.MustCompile(`(?s)^\+\d+\.\d{6} (.*)\r\n$`)

// What a monitor does itself it sees behind the reply, as in Redis.
func TestMonitorSeesItself(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	c.send(pipeline("MONITOR", "PING", "ECHO x"))
	for _, want := range []string{`^\+OK\r\n$`, `^\+PONG\r\n$`, `^\+\d+\.\d{6} \[0 127.0.0.1:\d+\] "PING"\r\n$`,
		`^\$1\r\nx\r\n$`, `"ECHO" "x"\r\n$`} {
		if got := c.reply(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

func TestMonitor(t *testing.T) {
	h := start(t)
	for _, proto := range []string{"2", "3"} {
		m, c := h.dial(t), h.dial(t)
		m.do("HELLO", proto)
		m.want("MONITOR", "+OK\r\n")
		addr := c.LocalAddr().String()
		c.send(encode("SET", "k", "a\"\\\r\n\t\x00é") + pipeline("CONFIG GET x", "AUTH s3cret", "NOSUCH", "GET",
			"MULTI", "INCR n", "EXEC", "CLIENT ID"))
		for range 9 {
			c.reply()
		}
		for _, want := range []string{`"SET" "k" "a\"\\\r\n\t\x00\xc3\xa9"`, `"AUTH" "(redacted)"`, `"MULTI"`,
			`"INCR" "n"`, `"EXEC"`, `"CLIENT" "ID"`} {
			if got := m.line(); got != "[0 "+addr+"] "+want {
				t.Errorf("%s, want [0 %s] %s", got, addr, want)
			}
		}
		// One that monitors sees its own commands.
		m.send(encode("ECHO", "x"))
		if got := m.reply() + m.reply(); !strings.Contains(got, `"ECHO" "x"`) || !strings.Contains(got, "$1\r\nx\r\n") {
			t.Errorf("%q", got)
		}
		if got := c.do("CLIENT", "LIST"); !strings.Contains(got, "flags=O ") {
			t.Errorf("no flag O in %q", got)
		}
		m.want("RESET", "+RESET\r\n")
		c.do("PING")
		m.want("PING", "+PONG\r\n")
		if h.observed.Load().monitored {
			t.Error("still monitored")
		}
	}
}

// A monitor of a namespace sees nothing of others; that of the default namespace sees all.
func TestMonitorNamespaces(t *testing.T) {
	h := start(t, "requirepass", "admin", "namespace.one", "token1", "namespace.two", "token2")
	dial := func(password string) *client {
		c := h.dial(t)
		c.want("AUTH "+password, "+OK\r\n")
		return c
	}
	all, one := dial("admin"), dial("token1")
	all.want("MONITOR", "+OK\r\n")
	one.want("MONITOR", "+OK\r\n")
	dial2 := dial("token2")
	dial2.want("PING", "+PONG\r\n")
	one2 := dial("token1")
	one2.want("ECHO 1", "$1\r\n1\r\n")
	find := func(c *client, want string) {
		t.Helper()
		for {
			if got := c.line(); strings.HasSuffix(got, want) {
				return
			} else if c == one && strings.Contains(got, "[two") {
				t.Errorf("a command of another namespace: %s", got)
			}
		}
	}
	find(all, `[two `+dial2.LocalAddr().String()+`] "PING"`)
	find(all, `[one `+one2.LocalAddr().String()+`] "ECHO" "1"`)
	find(one, `"ECHO" "1"`)
	if h.stats.OutputLimit.Load() != 0 {
		t.Error("nobody was to be cut off")
	}
}

// A script is shown before what it calls.
func TestMonitorScript(t *testing.T) {
	h := start(t)
	m, c := h.dial(t), h.dial(t)
	m.want("MONITOR", "+OK\r\n")
	c.do("EVAL", "return redis.call('GET', KEYS[1])", "1", "k")
	for _, want := range []string{"[0 " + c.LocalAddr().String() +
		`] "EVAL" "return redis.call('GET', KEYS[1])" "1" "k"`, `[0 lua] "GET" "k"`} {
		if got := m.line(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Commands on scripts that run nothing are shown once.
func TestMonitorScriptLoad(t *testing.T) {
	h := start(t)
	m, c := h.dial(t), h.dial(t)
	m.want("MONITOR", "+OK\r\n")
	c.do("SCRIPT", "LOAD", "return 1")
	c.do("SCRIPT", "FLUSH")
	c.do("PING")
	for _, want := range []string{`"SCRIPT" "LOAD" "return 1"`, `"SCRIPT" "FLUSH"`, `"PING"`} {
		if got := m.line(); !strings.HasSuffix(got, "] "+want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Databases are shown by their numbers, and an administrator sees all of them from each.
func TestMonitorDatabases(t *testing.T) {
	h := start(t, "redis-databases", "16")
	m, c := h.dial(t), h.dial(t)
	m.want("SELECT 5", "+OK\r\n")
	m.want("MONITOR", "+OK\r\n")
	c.want("SELECT 7", "+OK\r\n")
	c.want("GET k", "$-1\r\n")
	m.line()
	if got, want := m.line(), "[7 "+c.LocalAddr().String()+`] "GET" "k"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A monitor that does not read is cut off at the output limit; nobody waits for it.
func TestSlowMonitor(t *testing.T) {
	h := start(t, "client-output-buffer-limit", "normal 1000000 0 0")
	m, c := h.dial(t), h.dial(t)
	m.want("MONITOR", "+OK\r\n")
	big := strings.Repeat("x", 100_000)
	for end := time.Now().Add(patience); h.monitors.len() > 0; { // how much the sockets take is up to the system
		if time.Now().After(end) {
			t.Fatal("the monitor is still there")
		}
		c.do("SET", "k", big)
	}
	eventually(t, "the monitor is gone", func() bool { return h.monitors.len() == 0 && !h.observed.Load().monitored })
	io.Copy(io.Discard, m)
	c.want("PING", "+PONG\r\n")
}
