// Package servertest starts servers for tests, and has clients that send commands and compare replies.
//
// Tests of a package that package server imports are in an external package (package x_test) when they use it.
package servertest

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

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/resp"
)

// Patience is how long a test waits for what must happen. A busy host may stop the process for minutes.
const Patience = 10 * time.Minute

// Harness is a running server with its database and log.
type Harness struct {
	*server.Server
	DB   *engine.DB
	Logs *observer.ObservedLogs
}

// Config makes a configuration from names and values in turn; the system chooses the port.
func Config(t testing.TB, settings ...string) *config.Config {
	t.Helper()
	args := []string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}
	for i, s := range settings {
		if i%2 == 0 {
			s = "--" + s
		}
		args = append(args, s)
	}
	cfg, err := config.Load(args, nil)
	require.NoError(t, err)
	return cfg
}

// Start runs a server with some settings; the test's end stops it.
func Start(t testing.TB, settings ...string) *Harness {
	t.Helper()
	h, err := TryStart(t, settings...)
	require.NoError(t, err)
	return h
}

// StartOnPorts is start with settings that need certain ports, which another process may have, or take between their
// choice and their use: then others are tried.
func StartOnPorts(t testing.TB, settings func() []string) *Harness {
	t.Helper()
	for {
		h, err := TryStart(t, settings()...)
		if err == nil {
			return h
		}
		if !strings.Contains(err.Error(), " is in use") {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

func TryStart(t testing.TB, settings ...string) (*Harness, error) {
	t.Helper()
	cfg := Config(t, settings...)
	rocks := engine.DefaultRocksOptions()
	rocks.CountLookups = cfg.Bool("admin-cache-by-family")
	db := enginetest.OpenWith(t, engine.Options{Dir: cfg.DBDir(), Slots: cfg.Bool("cluster-enabled"), Rocks: rocks,
		Sync: cfg.Bool("rocksdb.write_options.sync")})
	core, logs := observer.New(zap.DebugLevel)
	s := server.New(cfg, db, zap.New(core))
	if err := s.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(s.Close)
	return &Harness{s, db, logs}, nil
}

func (h *Harness) Ticker(t testing.TB, name string) int {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(name) + ` COUNT : (\d+)`).FindStringSubmatch(h.DB.Statistics())
	if m == nil {
		t.Fatalf("RocksDB has no ticker %s", name)
	}
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// AddNamespaces adds namespaces nsN with tokens tokenN.
func (h *Harness) AddNamespaces(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, h.Sessions().Services.Namespaces.Add(name, "token"+strings.TrimPrefix(name, "ns")))
	}
}

// BlockedClients waits until n clients wait for data.
func (h *Harness) BlockedClients(t testing.TB, n int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d clients wait", n), func() bool { return h.Sessions().Counts().Blocked == n })
}

// PausedClients waits until n clients wait for the end of a pause.
func (h *Harness) PausedClients(t testing.TB, n int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d clients are paused", n), func() bool { return h.Sessions().Counts().Paused == n })
}

// Arrived waits until the server has read the bytes that the client has sent so far.
func (h *Harness) Arrived(t testing.TB, c *Client, bytes int) {
	t.Helper()
	Eventually(t, "the command has arrived", func() bool {
		for _, x := range h.Sessions().Services.Clients.List() {
			if x.Addr == c.LocalAddr().String() {
				return x.NetIn >= int64(bytes)
			}
		}
		return false
	})
}

// Client is a raw connection.
type Client struct {
	T testing.TB
	net.Conn
	R *bufio.Reader
}

func (h *Harness) Dial(t testing.TB) *Client {
	t.Helper()
	nc, err := net.Dial("tcp", h.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	return NewClient(t, nc)
}

func NewClient(t testing.TB, nc net.Conn) *Client { return &Client{t, nc, bufio.NewReader(nc)} }

// Encode makes a command as clients send it.
func Encode(args ...string) string {
	return string(resp.AppendCommand(nil, args...))
}

// Pipeline encodes commands whose words are separated by blanks.
func Pipeline(commands ...string) string {
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(Encode(strings.Fields(c)...))
	}
	return b.String()
}

func (c *Client) Send(s string) {
	c.T.Helper()
	c.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(c, s); err != nil {
		c.T.Fatal(err)
	}
}

// Reply reads one whole reply.
func (c *Client) Reply() string {
	c.T.Helper()
	c.SetReadDeadline(time.Now().Add(Patience))
	var b strings.Builder
	if err := c.ReadReply(&b); err != nil {
		c.T.Fatalf("reading a reply: %v (so far %q)", err, b.String())
	}
	return b.String()
}

// ReadReply appends one whole reply, or what there is of it, to b.
func (c *Client) ReadReply(b *strings.Builder) error {
	line, err := c.R.ReadString('\n')
	b.WriteString(line)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			_, err = io.CopyN(b, c.R, int64(n)+2)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for ; n > 0 && err == nil; n-- {
			err = c.ReadReply(b)
		}
	}
	return err
}

// Do sends a command and reads its reply.
func (c *Client) Do(args ...string) string {
	c.T.Helper()
	c.Send(Encode(args...))
	return c.Reply()
}

// DoAll sends commands, separated by semicolons, one after the other. Their replies do not matter.
func (c *Client) DoAll(commands string) {
	c.T.Helper()
	for command := range strings.SplitSeq(commands, ";") {
		if command != "" {
			c.Do(strings.Fields(command)...)
		}
	}
}

// Want checks the reply to a command, the words of which are separated by blanks.
func (c *Client) Want(command, reply string) {
	c.T.Helper()
	if got := c.Do(strings.Fields(command)...); got != reply {
		c.T.Errorf("%s: %q, want %q", command, got, reply)
	}
}

// Closed waits for the end of the connection and returns what came before it.
func (c *Client) Closed() string {
	c.T.Helper()
	c.SetReadDeadline(time.Now().Add(Patience))
	b, err := io.ReadAll(c.R)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.T.Fatalf("the connection was not closed; got %q", b)
	}
	return string(b)
}

// InTime calls a step with which keys are to live so long, and which has to be over before they expire. On a machine
// that is busy it may not be: then what it has seen says nothing, and it is called again with a longer life.
func InTime(t testing.TB, life time.Duration, step func(life time.Duration) error) {
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

// Replies sends commands one after the other and compares the replies, which are given in turn with them.
func (c *Client) Replies(exchanges ...string) error {
	c.T.Helper()
	for i := 0; i < len(exchanges); i += 2 {
		if got := c.Do(strings.Fields(exchanges[i])...); got != exchanges[i+1] {
			return fmt.Errorf("%s: %q, want %q", exchanges[i], got, exchanges[i+1])
		}
	}
	return nil
}

// Eventually waits for a condition that another goroutine brings about. Time in which the process is stopped does not
// count.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range Patience / time.Millisecond {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not happen: " + what)
}

// ParseInfo returns the fields and the section names of INFO.
func ParseInfo(t testing.TB, reply string) (fields map[string]string, sections []string) {
	t.Helper()
	_, text, _ := strings.Cut(reply, "\r\n")
	fields = map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		switch name, value, ok := strings.Cut(line, ":"); {
		case line == "" || strings.HasPrefix(line, "# Last DBSIZE SCAN time"):
		case strings.HasPrefix(line, "# "):
			sections = append(sections, line[2:])
		case !ok || fields[name] != "":
			t.Errorf("odd or repeated line %q", line)
		default:
			fields[name] = value
		}
	}
	return fields, sections
}

// Bulk is the RESP2 form of an array of strings.
func Bulk(elems ...string) string { return Encode(elems...) }

// Dial3 is Dial for a client that speaks RESP3.
func (h *Harness) Dial3(t testing.TB) *Client {
	t.Helper()
	c := h.Dial(t)
	c.Do("HELLO", "3")
	return c
}

// Expect checks the next reply or message.
func (c *Client) Expect(want string) {
	c.T.Helper()
	if got := c.Reply(); got != want {
		c.T.Errorf("%q, want %q", got, want)
	}
}

// Quiet checks that nothing has been sent: the reply to PING is the next thing.
func (c *Client) Quiet() {
	c.T.Helper()
	c.Want("PING", "+PONG\r\n")
}

// RoundTrip sends commands and reads their replies; unlike Do it may run outside the test's goroutine.
func (c *Client) RoundTrip(commands string, replies int) error {
	c.SetDeadline(time.Now().Add(Patience))
	if _, err := c.Write([]byte(commands)); err != nil {
		return err
	}
	for range replies {
		var b strings.Builder
		if err := c.ReadReply(&b); err != nil {
			return err
		}
	}
	return nil
}

// Invalidated is the RESP3 message that keys have changed; without keys, that all have.
func Invalidated(keys ...string) string {
	if keys == nil {
		return ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	}
	return ">2\r\n$10\r\ninvalidate\r\n" + Encode(keys...)
}

// SetBatch is a batch that writes a string of the default namespace.
func SetBatch(key, value string) string {
	var b batch.Builder
	m := cf.Meta{Type: cf.TypeString}
	b.LogData(cf.LogString)
	b.Put(cf.Metadata, cf.AppendNSKey(nil, cf.DefaultNamespace, []byte(key), false), append(m.Append(nil), value...))
	return string(b.Bytes())
}
