package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/testcert"
	"github.com/basaltdb/basalt/server/wire"
)

// freePort returns a TCP port that nobody uses now: see startOnPorts.
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
	h := startOnPorts(t, func() []string {
		return append([]string{"tls-port", freePort(t), "tls-cert-file", cert, "tls-key-file", key,
			"tls-ca-cert-file", ca.File,
			"tls-auth-clients", "no"}, settings...)
	})
	h.limits.handshake.Store(int64(patience)) // however busy the machine is
	return h, ca
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
		if got := c.do("CLIENT", "INFO"); !strings.Contains(got,
			" addr="+c.LocalAddr().String()+" laddr="+h.Addr()+" fd=") || strings.Contains(got, " fd=-1 ") {
			t.Errorf("CLIENT INFO: %s", got)
		}
		eventually(t, "an idle connection has no buffer", func() bool {
			c.want("PING", "+PONG\r\n")
			i := h.services.Clients.List()[0]
			return i.QueryBuf+i.QueryFree <= wire.ReadBuffer
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
	second := "127.0.0.2"
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // else this machine has no IPv6
		l.Close()
		second = "::1"
	}
	h := startOnPorts(t, func() []string {
		plain, secure := freePort(t), freePort(t)
		for secure == plain {
			secure = freePort(t)
		}
		return []string{"port", plain, "tls-port", secure, "tls-cert-file", cert, "tls-key-file", key,
			"tls-auth-clients", "no", "bind", "127.0.0.1 " + second}
	})
	h.limits.handshake.Store(int64(patience))
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
	if err := Check(testConfig(t, "port", same, "tls-port", same, "tls-cert-file", cert, "tls-key-file",
		key)); !errors.Is(err, errSamePort) {
		t.Errorf("the same port twice: %v", err)
	}
	for _, tt := range []struct {
		settings []string
		want     string
	}{
		{[]string{"tls-port", "1"}, "tls-cert-file: a TLS port needs a certificate"},
		{[]string{"tls-port", "1", "tls-cert-file", cert, "tls-key-file", key},
			"tls-ca-cert-file: this or tls-ca-cert-dir is needed"},
		{[]string{"tls-port", "0", "tls-cert-file", "/nonexistent"}, ""},
	} {
		err := Check(testConfig(t, tt.settings...))
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.settings, err)
		}
	}
	if _, err := Listen(testConfig(t, "tls-port", strings.TrimPrefix(h.Addrs()[2], "127.0.0.1:"))); err == nil ||
		!strings.HasPrefix(err.Error(), "tls-port: 127.0.0.1:") {
		t.Errorf("a TLS port in use: %v", err)
	}
}

// Clients that do not get through the handshake hold nobody up, are told nothing in the clear, and leave nothing
// behind.
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
	began := time.Now()
	third := h.dial(t)
	eventually(t, "it is a client", func() bool { return h.clients() == 3 })
	h.Close()
	third.closed()
	if d := time.Since(began); d > patience {
		t.Errorf("Close has waited until the time for the handshake was over: %v", d)
	}
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
	if got := first.do("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "maxclients",
		"2000000000"); !strings.Contains(got, "argument 'maxclients'") {
		t.Errorf("%q", got)
	}
	if got := name(h.dialTLS(t, ca.Client(""))); got != "third" {
		t.Errorf("after a change that was taken back: %s", got)
	}
	for _, tt := range []struct{ set, want string }{
		{"tls-protocols TLSv1.2", "+OK\r\n"},
		{"tls-protocols SSLv3",
			"-ERR CONFIG SET failed (possibly related to argument 'tls-protocols') - tls-protocols: unknown version 'sslv3'; there are TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3\r\n"},
		{"tls-ciphersuites TLS_AES_128_GCM_SHA256",
			"-ERR CONFIG SET failed (possibly related to argument 'tls-ciphersuites') - tls-ciphersuites: " +
				"TLS 1.3 always offers TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256 here: name all three or none\r\n"},
		{"tls-ciphers ECDHE-ECDSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256", "+OK\r\n"},
		{"tls-ca-cert-file /nonexistent tls-auth-clients yes",
			"-ERR CONFIG SET failed (possibly related to argument 'tls-ca-cert-file') - tls-ca-cert-file: open /nonexistent: no such file or directory\r\n"},
		{"tls-auth-clients yes", "+OK\r\n"},
	} {
		first.want("CONFIG SET "+tt.set, tt.want)
	}
	if h.logs.FilterMessage("tls-ciphers: left out, Go does not have them: DHE-RSA-AES128-GCM-SHA256").Len() == 0 {
		t.Error("nothing is logged about a cipher that was left out")
	}
	c := h.dialTLS(t, ca.Client("me"))
	if s := c.Conn.(*tls.Conn).ConnectionState(); s.Version != tls.VersionTLS12 ||
		s.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 {
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
