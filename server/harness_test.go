package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/config"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// harness is a running server with its database and log.
type harness struct {
	*Server
	db   *engine.DB
	logs *observer.ObservedLogs
}

// testConfig makes a configuration from names and values in turn; the system chooses the port.
func testConfig(t testing.TB, settings ...string) *config.Config {
	t.Helper()
	args := []string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}
	for i, s := range settings {
		if i%2 == 0 {
			s = "--" + s
		}
		args = append(args, s)
	}
	cfg, err := config.Load(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start runs a server with some settings; the test's end stops it.
func start(t testing.TB, settings ...string) *harness {
	t.Helper()
	h, err := tryStart(t, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// startOnPorts is start with settings that need certain ports, which another process may have, or take between their
// choice and their use: then others are tried.
func startOnPorts(t testing.TB, settings func() []string) *harness {
	t.Helper()
	for {
		h, err := tryStart(t, settings()...)
		if err == nil {
			return h
		}
		if !strings.Contains(err.Error(), " is in use") {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

func tryStart(t testing.TB, settings ...string) (*harness, error) {
	t.Helper()
	db := enginetest.Open(t)
	core, logs := observer.New(zap.DebugLevel)
	s := New(testConfig(t, settings...), db, zap.New(core))
	if err := s.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(s.Close)
	return &harness{s, db, logs}, nil
}

// ticker returns a counter of RocksDB's statistics.
func (h *harness) ticker(t testing.TB, name string) int {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(name) + ` COUNT : (\d+)`).FindStringSubmatch(h.db.Statistics())
	if m == nil {
		t.Fatalf("RocksDB has no ticker %s", name)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// client is a raw connection.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (h *harness) dial(t testing.TB) *client {
	t.Helper()
	nc, err := net.Dial("tcp", h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client { return &client{t, nc, bufio.NewReader(nc)} }

// encode makes a command as clients send it.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// pipeline encodes commands whose words are separated by blanks.
func pipeline(commands ...string) string {
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(encode(strings.Fields(c)...))
	}
	return b.String()
}

func (c *client) send(s string) {
	c.t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// reply reads one whole reply.
func (c *client) reply() string {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	var b strings.Builder
	if err := c.readReply(&b); err != nil {
		c.t.Fatalf("reading a reply: %v (so far %q)", err, b.String())
	}
	return b.String()
}

func (c *client) readReply(b *strings.Builder) error {
	line, err := c.r.ReadString('\n')
	b.WriteString(line)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			_, err = io.CopyN(b, c.r, int64(n)+2)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for ; n > 0 && err == nil; n-- {
			err = c.readReply(b)
		}
	}
	return err
}

// do sends a command and reads its reply.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(encode(args...))
	return c.reply()
}

// want checks the reply to a command, the words of which are separated by blanks.
func (c *client) want(command, reply string) {
	c.t.Helper()
	if got := c.do(strings.Fields(command)...); got != reply {
		c.t.Errorf("%s: %q, want %q", command, got, reply)
	}
}

// closed waits for the end of the connection and returns what came before it.
func (c *client) closed() string {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c.r)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatalf("the connection was not closed; got %q", b)
	}
	return string(b)
}

// inTime calls a step with which keys are to live so long, and which has to be over before they expire. On a machine
// that is busy it may not be: then what it has seen says nothing, and it is called again with a longer life.
func inTime(t testing.TB, life time.Duration, step func(life time.Duration) error) {
	t.Helper()
	for ; ; life *= 4 {
		began := time.Now()
		err := step(life)
		if time.Since(began) < life-time.Millisecond { // expiries are in whole milliseconds
			if err != nil {
				t.Error(err)
			}
			return
		}
		if life > time.Minute {
			t.Fatalf("the step takes longer than %v", life)
		}
	}
}

// replies sends commands one after the other and compares the replies, which are given in turn with them.
func (c *client) replies(exchanges ...string) error {
	c.t.Helper()
	for i := 0; i < len(exchanges); i += 2 {
		if got := c.do(strings.Fields(exchanges[i])...); got != exchanges[i+1] {
			return fmt.Errorf("%s: %q, want %q", exchanges[i], got, exchanges[i+1])
		}
	}
	return nil
}

// eventually waits for a condition that another goroutine brings about. Time in which the process is stopped does not
// count.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range patience / time.Millisecond {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not happen: " + what)
}
