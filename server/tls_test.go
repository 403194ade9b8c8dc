package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/testcert"
)

// freePort returns a TCP port that nobody uses.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// startTLS runs a server that has only a TLS port; it asks for no client certificates unless the settings do.
func startTLS(t testing.TB, settings ...string) (*harness, *testcert.Authority) {
	t.Helper()
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	return start(t, append([]string{"tls-port", freePort(t), "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", ca.File,
		"tls-auth-clients", "no"}, settings...)...), ca
}

func (h *harness) dialTLS(t testing.TB, config *tls.Config) *client {
	t.Helper()
	nc, err := net.Dial("tcp", h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return secured(t, nc, config)
}

func secured(t testing.TB, nc net.Conn, config *tls.Config) *client {
	t.Helper()
	c := tls.Client(nc, config)
	t.Cleanup(func() { nc.Close() })
	c.SetDeadline(time.Now().Add(patience))
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

func TestTLS(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		h, ca := startTLS(t)
		if len(h.Addrs()) != 1 {
			t.Fatalf("with port 0 there is not only the TLS port: %v", h.Addrs())
		}
		config := ca.Client("")
		config.MaxVersion = version
		c := h.dialTLS(t, config)
		c.want("PING", "+PONG\r\n")
		value := strings.Repeat("0123456789abcdef", 300_000)
		if got := c.do("SET", "k", value); got != "+OK\r\n" {
			t.Fatal(got)
		}
		if got := c.do("GET", "k"); got != fmt.Sprintf("$%d\r\n%s\r\n", len(value), value) {
			t.Fatalf("another value came back, %d bytes", len(got))
		}
		const n = 5000
		c.send(strings.Repeat(pipeline("INCR n"), n))
		for i := range n {
			if got := c.reply(); got != fmt.Sprintf(":%d\r\n", i+1) {
				t.Fatalf("reply %d: %q", i, got)
			}
		}
		if got := c.do("CLIENT", "INFO"); !strings.Contains(got, " addr="+c.LocalAddr().String()+" laddr="+h.Addr()+" fd=") || strings.Contains(got, " fd=-1 ") {
			t.Errorf("CLIENT INFO: %s", got)
		}
		eventually(t, "an idle connection has no buffer", func() bool {
			c.want("PING", "+PONG\r\n")
			i := h.Clients()[0]
			return i.QueryBuf+i.QueryFree <= readBuffer
		})
		// The end is told by TLS, so the client knows that nothing was cut off.
		c.send(pipeline("ECHO last", "QUIT", "PING"))
		all, err := io.ReadAll(c.r)
		if err != nil || string(all) != "$4\r\nlast\r\n+OK\r\n" {
			t.Errorf("QUIT: %q, %v", all, err)
		}
	}
}

func TestTLSBesidePlain(t *testing.T) {
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	var h *harness
	for try := 0; h == nil; try++ { // a port may be taken meanwhile
		s := []string{"port", freePort(t), "tls-port", freePort(t), "tls-cert-file", cert, "tls-key-file", key, "tls-auth-clients", "no", "bind", "127.0.0.1 ::1"}
		if s[1] != s[3] {
			h = start(t, s...)
		}
	}
	if len(h.Addrs()) != 4 {
		t.Fatal(h.Addrs())
	}
	for i, addr := range h.Addrs() {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, nc)
		if i >= 2 {
			c = secured(t, nc, ca.Client(""))
		}
		c.want("INCR n", fmt.Sprintf(":%d\r\n", i+1))
		c.Close()
	}
	same := freePort(t)
	if err := Check(testConfig(t, "port", same, "tls-port", same, "tls-cert-file", cert, "tls-key-file", key)); !errors.Is(err, errSamePort) {
		t.Errorf("the same port twice: %v", err)
	}
	for _, tt := range []struct {
		settings []string
		want     string
	}{
		{[]string{"tls-port", "1"}, "tls-cert-file: a TLS port needs a certificate"},
		{[]string{"tls-port", "1", "tls-cert-file", cert, "tls-key-file", key}, "tls-ca-cert-file: this or tls-ca-cert-dir is needed"},
		{[]string{"tls-port", "0", "tls-cert-file", "/nonexistent"}, ""},
	} {
		err := Check(testConfig(t, tt.settings...))
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.settings, err)
		}
	}
	if _, err := Listen(testConfig(t, "tls-port", strings.TrimPrefix(h.Addrs()[2], "127.0.0.1:"))); err == nil || !strings.HasPrefix(err.Error(), "tls-port: 127.0.0.1:") {
		t.Errorf("a TLS port in use: %v", err)
	}
}

// Clients that do not get through the handshake hold nobody up, are told nothing in the clear, and leave nothing behind.
func TestTLSHandshakes(t *testing.T) {
	h, ca := startTLS(t, "tls-auth-clients", "yes")
	silent := h.dial(t)
	eventually(t, "the silent one is a client", func() bool { return h.clients() == 1 })
	for name, text := range map[string]string{
		"plain":       pipeline("PING"),
		"http":        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"zeros":       string(make([]byte, 1000)),
		"huge record": "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1000),
		"huge hello":  "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("x", 1<<14-4),
		"half hello":  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		c := h.dial(t)
		c.send(text)
		if name == "half hello" {
			c.Close()
			continue
		}
		if got := c.closed(); strings.ContainsAny(got, "-+$") {
			t.Errorf("%s: %q", name, got)
		}
	}
	nc, err := net.Dial("tcp", h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	anonymous := tls.Client(nc, ca.Client(""))
	anonymous.SetDeadline(time.Now().Add(patience))
	if _, err := anonymous.Read(make([]byte, 1)); err == nil {
		t.Error("a client without a certificate is served")
	}
	c := h.dialTLS(t, ca.Client("me"))
	c.want("PING", "+PONG\r\n")
	// A change of the timeout does not disturb a handshake.
	c.want("CONFIG SET timeout 1000", "+OK\r\n")
	late := tls.Client(silent.Conn, ca.Client("late"))
	silent.SetDeadline(time.Now().Add(patience))
	if err := late.Handshake(); err != nil {
		t.Errorf("the silent client: %v", err)
	}
	newClient(t, late).want("PING", "+PONG\r\n")
	eventually(t, "the others are forgotten", func() bool { return h.clients() == 2 })
	if n := h.logs.FilterMessage("a TLS handshake failed").Len(); n == 0 {
		t.Error("nothing is logged")
	}
	c.want("CONFIG SET maxclients 2", "+OK\r\n")
	if got := h.dial(t).closed(); got != "" {
		t.Errorf("too many clients: %q", got)
	}
	// Close does not wait for a handshake.
	c.want("CONFIG SET maxclients 3", "+OK\r\n")
	third := h.dial(t)
	eventually(t, "it is a client", func() bool { return h.clients() == 3 })
	began := time.Now()
	h.Close()
	third.closed()
	if d := time.Since(began); d > handshakeGrace/2 {
		t.Errorf("Close took %v", d)
	}
}

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
	if err := c.box.raw.Control(func(fd uintptr) {
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
		io.WriteString(c, pipeline("BLPOP list 0")+strings.Repeat(pipeline("ECHO "+strings.Repeat("e", 8000)), 1000)+pipeline("PING"))
	}()
	eventually(t, "it waits and sends", func() bool { return h.waiters.n.Load() == 1 && h.stats.netIn.Load() > maxBlockedInput })
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
	runtime.GC()
	before := heapInUse()
	request := []byte(strings.Repeat(pipeline("GET k"), 100))
	var peak uint64
	for sent := 0; ; sent++ {
		if sent > 20000 {
			t.Fatal("20 GB of replies were asked for, and the client is still connected")
		}
		c.SetWriteDeadline(time.Now().Add(patience))
		if _, err := c.Write(request); err != nil {
			break
		}
		if sent%16 == 0 {
			peak = max(peak, heapInUse())
		}
	}
	if grown := int64(peak) - int64(before); grown > 16*limit {
		t.Errorf("the heap grew by %d MiB; the limit is %d MiB", grown>>20, limit>>20)
	}
	eventually(t, "the client is forgotten", func() bool { return h.clients() == 0 })
	if n := h.logs.FilterMessage("a client that does not read its replies was disconnected").Len(); n != 1 {
		t.Errorf("%d log lines about it", n)
	}
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
	var wg sync.WaitGroup
	for p := range publishers {
		c := h.dialTLS(t, ca.Client(""))
		wg.Go(func() {
			for i := range each {
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
	pongs := 0
	for got := 0; got < publishers*each; {
		if got%50 == 0 {
			good.send(pipeline("PING"))
		}
		m := good.reply()
		if m == "+PONG\r\n" {
			pongs++
			continue
		}
		got++
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
	if pongs == 0 {
		t.Error("no reply came between the messages")
	}
	lazy.SetReadDeadline(time.Now().Add(patience))
	io.Copy(io.Discard, lazy.r)
	eventually(t, "the lazy one is forgotten", func() bool { return h.hub.subscriptions.Load() == 1 })
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
	for _, c := range h.Clients() {
		h.CloseClient(c.ID)
	}
	eventually(t, "they are gone", func() bool { return h.clients() == 0 })
	each := (with - cost()) / n
	t.Logf("%d bytes for each idle connection", each)
	if each > 24<<10 {
		t.Errorf("an idle TLS connection takes %d bytes", each)
	}
	runtime.KeepAlive(clients)
}

// The files are read again by CONFIG SET of the name that is set already, and what is wrong changes nothing.
func TestTLSReload(t *testing.T) {
	h, ca := startTLS(t)
	cert, key := h.cfg.Text("tls-cert-file"), h.cfg.Text("tls-key-file")
	name := func(c *client) string {
		return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	first := h.dialTLS(t, ca.Client(""))
	if name(first) != "server" {
		t.Fatal(name(first))
	}
	cert2, key2 := ca.Issue("second")
	copyFile := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile(cert2, cert)
	copyFile(key2, key)
	if got := name(h.dialTLS(t, ca.Client(""))); got != "server" {
		t.Errorf("without a reload: %s", got)
	}
	first.want("CONFIG SET tls-cert-file "+cert, "+OK\r\n")
	if got := name(h.dialTLS(t, ca.Client(""))); got != "second" {
		t.Errorf("after CONFIG SET: %s", got)
	}
	cert3, key3 := ca.Issue("third")
	if got := first.do("CONFIG", "SET", "tls-cert-file", cert3); !strings.HasPrefix(got,
		"-ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - tls-key-file: private key does not match") {
		t.Errorf("a certificate without its key: %q", got)
	}
	if h.cfg.Text("tls-cert-file") != cert || name(h.dialTLS(t, ca.Client(""))) != "second" {
		t.Error("a refused change has changed something")
	}
	first.want("CONFIG SET tls-cert-file "+cert3+" tls-key-file "+key3, "+OK\r\n")
	if got := name(h.dialTLS(t, ca.Client(""))); got != "third" {
		t.Errorf("after CONFIG SET of both: %s", got)
	}
	// All or none, whatever else is in the command.
	if got := first.do("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "maxclients", "2000000000"); !strings.Contains(got, "argument 'maxclients'") {
		t.Errorf("%q", got)
	}
	if got := name(h.dialTLS(t, ca.Client(""))); got != "third" {
		t.Errorf("after a change that was taken back: %s", got)
	}
	for _, tt := range []struct{ set, want string }{
		{"tls-protocols TLSv1.2", "+OK\r\n"},
		{"tls-protocols SSLv3", "-ERR CONFIG SET failed (possibly related to argument 'tls-protocols') - tls-protocols: unknown version 'sslv3'; there are TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3\r\n"},
		{"tls-ciphersuites TLS_AES_128_GCM_SHA256", "-ERR CONFIG SET failed (possibly related to argument 'tls-ciphersuites') - tls-ciphersuites: " +
			"TLS 1.3 always offers TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256 here: name all three or none\r\n"},
		{"tls-ciphers ECDHE-ECDSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256", "+OK\r\n"},
		{"tls-ca-cert-file /nonexistent tls-auth-clients yes", "-ERR CONFIG SET failed (possibly related to argument 'tls-ca-cert-file') - tls-ca-cert-file: open /nonexistent: no such file or directory\r\n"},
		{"tls-auth-clients yes", "+OK\r\n"},
	} {
		first.want("CONFIG SET "+tt.set, tt.want)
	}
	if h.logs.FilterMessage("tls-ciphers: left out, Go does not have them: DHE-RSA-AES128-GCM-SHA256").Len() == 0 {
		t.Error("nothing is logged about a cipher that was left out")
	}
	c := h.dialTLS(t, ca.Client("me"))
	if s := c.Conn.(*tls.Conn).ConnectionState(); s.Version != tls.VersionTLS12 || s.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 {
		t.Errorf("version %x, suite %x", s.Version, s.CipherSuite)
	}
	nc, err := net.Dial("tcp", h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := tls.Client(nc, ca.Client("")).Handshake(); err == nil {
		t.Error("a client without a certificate is let in")
	}
	first.want("PING", "+PONG\r\n") // those who are in stay in
	// Without a TLS port the settings are only kept.
	plain := start(t)
	plain.dial(t).want("CONFIG SET tls-cert-file /nonexistent", "+OK\r\n")
}

// Close sends what TLS clients have still to get, and ends their connections in order.
func TestTLSClose(t *testing.T) {
	h, ca := startTLS(t)
	idle, busy := h.dialTLS(t, ca.Client("")), h.dialTLS(t, ca.Client(""))
	idle.want("PING", "+PONG\r\n")
	busy.want("SET k "+strings.Repeat("v", 1000), "+OK\r\n")
	busy.send(strings.Repeat(pipeline("GET k"), 5000))
	eventually(t, "the replies wait", func() bool { return h.stats.netOut.Load() > 4<<20 })
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

// What a connection is sent stays within its class's limit, and above the soft limit only for its time.
func TestOutputLimitClasses(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	if got := c.do("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0 pubsub 1000000 0 0"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	conns := h.Clients()
	h.mu.Lock()
	one := h.conns[conns[0].ID]
	h.mu.Unlock()
	if one.outputLimit() != 0 {
		t.Errorf("a normal client's limit is %d", one.outputLimit())
	}
	c.want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	if one.outputLimit() != 1000000 {
		t.Errorf("a subscriber's limit is %d", one.outputLimit())
	}

	here, there := socketPair(t)
	o := newOutbox(here, noLimit)
	var during = time.Hour
	o.soft = func() (int, time.Duration) { return 100_000, during }
	for o.pending() <= 1<<20 {
		if err := o.send(bytes.Repeat([]byte("x"), 50_000)); err != nil {
			t.Fatal(err)
		}
	}
	o.mu.Lock()
	running := o.over != nil
	o.mu.Unlock()
	if !running {
		t.Error("the soft limit is exceeded, and no time runs")
	}
	go io.Copy(io.Discard, there)
	o.wait()
	o.mu.Lock()
	running = o.over != nil
	o.mu.Unlock()
	if running || o.failure() != nil {
		t.Errorf("the client has read all; the time runs: %v, %v", running, o.failure())
	}

	here, _ = socketPair(t)
	o = newOutbox(here, noLimit)
	o.soft = func() (int, time.Duration) { return 100_000, time.Millisecond }
	for o.send(bytes.Repeat([]byte("x"), 50_000)) == nil && o.pending() <= 1<<20 {
	}
	eventually(t, "the client is cut off", func() bool { return errors.Is(o.failure(), errOutputLimit) })
	if o.pending() != 0 {
		t.Error("its queue is kept")
	}
}
