package server_test

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

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/wire"
)

// TestCertificateUser: the certificate of a client names its user, in a resumed session too.
func TestCertificateUser(t *testing.T) {
	h, ca := servertest.StartTLS(t, "tls-auth-clients", "optional", "tls-auth-clients-user", "CN", "requirepass", "secret")
	const app, noAuth = "$3\r\napp\r\n", "-NOAUTH Authentication required.\r\n"
	admin := h.DialTLS(t, ca.Client(""))
	admin.Want("ACL WHOAMI", noAuth)
	admin.Want("AUTH secret", "+OK\r\n")
	admin.Want("ACL SETUSER app on >other +@all ~app:*", "+OK\r\n")
	config := ca.Client("app")
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		c := h.DialTLS(t, config)
		c.Want("ACL WHOAMI", app)
		c.Want("SET app:1 v", "+OK\r\n")
		if got := c.Do("SET", "other", "v"); !strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("a key of others: %s", got)
		}
		c.Want("AUTH secret", "+OK\r\n")
		c.Want("ACL WHOAMI", "$7\r\ndefault\r\n")
	}
	c := h.DialTLS(t, ca.Client("nobody"))
	c.Want("ACL WHOAMI", noAuth)
	c.Want("AUTH app other", "+OK\r\n")
	log := admin.Do("ACL", "LOG")
	if !strings.Contains(log, "\r\ntls-cert\r\n") || !strings.Contains(log, "\r\nnobody\r\n") {
		t.Errorf("ACL LOG: %s", log)
	}
	if got := admin.Do("INFO", "stats"); !strings.Contains(got, "\r\nacl_access_denied_tls_cert:1\r\n") {
		t.Errorf("INFO: %s", got)
	}
	admin.Want("CONFIG SET tls-auth-clients-user off", "+OK\r\n")
	h.DialTLS(t, config).Want("ACL WHOAMI", noAuth)
}

func TestTLS(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		h, ca := servertest.StartTLS(t)
		if len(h.Addrs()) != 1 {
			t.Fatalf("with port 0 the server must have only the TLS port: %v", h.Addrs())
		}
		config := ca.Client("")
		config.MaxVersion = version
		c := h.DialTLS(t, config)
		c.Want("PING", "+PONG\r\n")
		value := strings.Repeat("0123456789abcdef", 300_000)
		if got := c.Do("SET", "k", value); got != "+OK\r\n" {
			t.Fatal(got)
		}
		if got := c.Do("GET", "k"); got != fmt.Sprintf("$%d\r\n%s\r\n", len(value), value) {
			t.Fatalf("another value came back, %d bytes", len(got))
		}
		const n = 5000
		c.Send(strings.Repeat(servertest.Pipeline("INCR n"), n))
		for i := range n {
			if got := c.Reply(); got != fmt.Sprintf(":%d\r\n", i+1) {
				t.Fatalf("reply %d: %q", i, got)
			}
		}
		if got := c.Do("CLIENT", "INFO"); !strings.Contains(got,
			" addr="+c.LocalAddr().String()+" laddr="+h.Addr()+" fd=") || strings.Contains(got, " fd=-1 ") {
			t.Errorf("CLIENT INFO: %s", got)
		}
		servertest.Eventually(t, "an idle connection has no buffer", func() bool {
			c.Want("PING", "+PONG\r\n")
			i := h.Sessions().Services.Clients.List()[0]
			return i.QueryBuf+i.QueryFree <= wire.ReadBuffer
		})
		// The connection ends with a TLS alert, so the client knows that the replies are complete.
		c.Send(servertest.Pipeline("ECHO last", "QUIT", "PING"))
		all, err := io.ReadAll(c.R)
		if err != nil || string(all) != "$4\r\nlast\r\n+OK\r\n" {
			t.Errorf("QUIT: %q, %v", all, err)
		}
	}
}

func TestTLSBesidePlain(t *testing.T) {
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	second := "127.0.0.2"
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // this host has IPv6
		l.Close()
		second = "::1"
	}
	h := servertest.StartOnPorts(t, func() []string {
		plain, secure := servertest.FreePort(t), servertest.FreePort(t)
		for secure == plain {
			secure = servertest.FreePort(t)
		}
		return []string{"port", plain, "tls-port", secure, "tls-cert-file", cert, "tls-key-file", key,
			"tls-auth-clients", "no", "bind", "127.0.0.1 " + second}
	})
	h.Sessions().Limits.Handshake.Store(int64(servertest.Patience))
	if len(h.Addrs()) != 4 {
		t.Fatal(h.Addrs())
	}
	for i, addr := range h.Addrs() {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		c := servertest.NewClient(t, nc)
		if i >= 2 {
			c = servertest.Secured(t, nc, ca.Client(""))
		}
		c.Want("INCR n", fmt.Sprintf(":%d\r\n", i+1))
		c.Close()
	}
	same := servertest.FreePort(t)
	if err := server.Check(servertest.Config(t, "port", same, "tls-port", same, "tls-cert-file", cert, "tls-key-file",
		key)); !errors.Is(err, server.ErrSamePort) {
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
		err := server.Check(servertest.Config(t, tt.settings...))
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.settings, err)
		}
	}
	if _,
		err := server.Listen(servertest.Config(t, "tls-port", strings.TrimPrefix(h.Addrs()[2], "127.0.0.1:"))); err == nil ||
		!strings.HasPrefix(err.Error(), "tls-port: 127.0.0.1:") {
		t.Errorf("a TLS port in use: %v", err)
	}
}

// Clients that do not complete the TLS handshake do not delay other clients, and leave nothing behind. Only one that
// sends a command without TLS gets a reply in plain text.
func TestTLSHandshakes(t *testing.T) {
	h, ca := servertest.StartTLS(t, "tls-auth-clients", "yes")
	silent := h.Dial(t)
	servertest.Eventually(t, "the silent client is counted", func() bool { return h.Sessions().Clients() == 1 })
	for name, text := range map[string]string{
		"http":        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"zeros":       string(make([]byte, 1000)),
		"huge record": "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1000),
		"huge hello":  "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("x", 1<<14-4),
		"half hello":  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		c := h.Dial(t)
		c.Send(text)
		if name == "half hello" {
			c.Close()
			continue
		}
		if got := c.Closed(); strings.ContainsAny(got, "-+$") {
			t.Errorf("%s: %q", name, got)
		}
	}
	plain := h.Dial(t)
	plain.Send(servertest.Pipeline("PING"))
	if got := plain.Closed(); got != "-ERR this port speaks TLS\r\n" {
		t.Errorf("plain: %q", got)
	}
	nc, err := net.Dial("tcp", h.Addr())
	require.NoError(t, err)
	defer nc.Close()
	anonymous := tls.Client(nc, ca.Client(""))
	anonymous.SetDeadline(time.Now().Add(servertest.Patience))
	if _, err := anonymous.Read(make([]byte, 1)); err == nil {
		t.Error("a client without a certificate is served")
	}
	c := h.DialTLS(t, ca.Client("me"))
	c.Want("PING", "+PONG\r\n")
	// A change of the timeout does not disturb a handshake.
	c.Want("CONFIG SET timeout 1000", "+OK\r\n")
	late := tls.Client(silent.Conn, ca.Client("late"))
	silent.SetDeadline(time.Now().Add(servertest.Patience))
	if err := late.Handshake(); err != nil {
		t.Errorf("the silent client: %v", err)
	}
	servertest.NewClient(t, late).Want("PING", "+PONG\r\n")
	servertest.Eventually(t, "the others are forgotten", func() bool { return h.Sessions().Clients() == 2 })
	if n := h.Logs.FilterMessage("a TLS handshake failed").Len(); n == 0 {
		t.Error("the failed handshakes are not logged")
	}
	c.Want("CONFIG SET maxclients 2", "+OK\r\n")
	if got := h.Dial(t).Closed(); got != "" {
		t.Errorf("too many clients: %q", got)
	}
	// Close does not wait for a handshake.
	c.Want("CONFIG SET maxclients 3", "+OK\r\n")
	began := time.Now()
	third := h.Dial(t)
	servertest.Eventually(t, "the third client is counted", func() bool { return h.Sessions().Clients() == 3 })
	h.Close()
	third.Closed()
	if d := time.Since(began); d > servertest.Patience {
		t.Errorf("Close has waited for the handshake: %v", d)
	}
}

// CONFIG SET of tls-cert-file to its present value reads the files again. An invalid file or setting changes nothing.
func TestTLSReload(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	cert, key := h.Config().Text("tls-cert-file"), h.Config().Text("tls-key-file")
	name := func(c *servertest.Client) string {
		return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	first := h.DialTLS(t, ca.Client(""))
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
		require.NoError(t, err)
	}
	copyFile(cert2, cert)
	copyFile(key2, key)
	if got := name(h.DialTLS(t, ca.Client(""))); got != "server" {
		t.Errorf("without a reload: %s", got)
	}
	first.Want("CONFIG SET tls-cert-file "+cert, "+OK\r\n")
	if got := name(h.DialTLS(t, ca.Client(""))); got != "second" {
		t.Errorf("after CONFIG SET: %s", got)
	}
	cert3, key3 := ca.Issue("third")
	if got := first.Do("CONFIG", "SET", "tls-cert-file", cert3); !strings.HasPrefix(got,
		"-ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - tls-key-file: private key does not match") {
		t.Errorf("a certificate without its key: %q", got)
	}
	if h.Config().Text("tls-cert-file") != cert || name(h.DialTLS(t, ca.Client(""))) != "second" {
		t.Error("a refused change has changed something")
	}
	first.Want("CONFIG SET tls-cert-file "+cert3+" tls-key-file "+key3, "+OK\r\n")
	if got := name(h.DialTLS(t, ca.Client(""))); got != "third" {
		t.Errorf("after CONFIG SET of both: %s", got)
	}
	// CONFIG SET changes all settings or none, also when a setting that is not of TLS is refused.
	if got := first.Do("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "maxclients",
		"2000000000"); !strings.Contains(got, "argument 'maxclients'") {
		t.Errorf("%q", got)
	}
	if got := name(h.DialTLS(t, ca.Client(""))); got != "third" {
		t.Errorf("after a change that was undone: %s", got)
	}
	for _, tt := range []struct{ set, want string }{
		{"tls-protocols TLSv1.2", "+OK\r\n"},
		{"tls-protocols SSLv3",
			"-ERR CONFIG SET failed (possibly related to argument 'tls-protocols') - tls-protocols: unknown version 'sslv3'; " +
				"there are TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3\r\n"},
		{"tls-ciphersuites TLS_AES_128_GCM_SHA256",
			"-ERR CONFIG SET failed (possibly related to argument 'tls-ciphersuites') - tls-ciphersuites: " +
				"TLS 1.3 always offers TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256 here: " +
				"name all three or none\r\n"},
		{"tls-ciphers ECDHE-ECDSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256", "+OK\r\n"},
		{"tls-ca-cert-file /nonexistent tls-auth-clients yes",
			"-ERR CONFIG SET failed (possibly related to argument 'tls-ca-cert-file') - tls-ca-cert-file: open /nonexistent: " +
				"no such file or directory\r\n"},
		{"tls-auth-clients yes", "+OK\r\n"},
	} {
		first.Want("CONFIG SET "+tt.set, tt.want)
	}
	if h.Logs.FilterMessage("tls-ciphers: left out, Go does not have them: DHE-RSA-AES128-GCM-SHA256").Len() == 0 {
		t.Error("nothing is logged about a cipher that was left out")
	}
	c := h.DialTLS(t, ca.Client("me"))
	if s := c.Conn.(*tls.Conn).ConnectionState(); s.Version != tls.VersionTLS12 ||
		s.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 {
		t.Errorf("version %x, suite %x", s.Version, s.CipherSuite)
	}
	nc, err := net.Dial("tcp", h.Addr())
	require.NoError(t, err)
	defer nc.Close()
	if err := tls.Client(nc, ca.Client("")).Handshake(); err == nil {
		t.Error("a client without a certificate is let in")
	}
	first.Want("PING", "+PONG\r\n") // connected clients are not affected
	// Without a TLS port the settings are only kept.
	plain := servertest.Start(t)
	plain.Dial(t).Want("CONFIG SET tls-cert-file /nonexistent", "+OK\r\n")
}
