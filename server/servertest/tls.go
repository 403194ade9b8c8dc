package servertest

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
)

// FreePort returns a TCP port that nobody uses now: see startOnPorts.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// StartTLS runs a server that has only a TLS port; it asks for no client certificates unless the settings do.
func StartTLS(t testing.TB, settings ...string) (*Harness, *testcert.Authority) {
	t.Helper()
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	h := StartOnPorts(t, func() []string {
		return append([]string{"tls-port", FreePort(t), "tls-cert-file", cert, "tls-key-file", key,
			"tls-ca-cert-file", ca.File,
			"tls-auth-clients", "no"}, settings...)
	})
	h.Sessions().Limits.Handshake.Store(int64(Patience)) // however busy the machine is
	return h, ca
}

// DialTLS connects a client to the TLS port.
func (h *Harness) DialTLS(t testing.TB, config *tls.Config) *Client {
	t.Helper()
	nc, err := net.Dial("tcp", h.Addr())
	require.NoError(t, err)
	return Secured(t, nc, config)
}

// Secured begins TLS on a connection.
func Secured(t testing.TB, nc net.Conn, config *tls.Config) *Client {
	t.Helper()
	c := tls.Client(nc, config)
	t.Cleanup(func() { nc.Close() })
	c.SetDeadline(time.Now().Add(Patience))
	require.NoError(t, c.Handshake())
	return NewClient(t, c)
}

// Layered starts a server, with TLS when layer is that, or without, and returns how to connect.
func Layered(t testing.TB, layer string) (h *Harness, dial func() *Client) {
	t.Helper()
	if layer == "TLS" {
		h, ca := StartTLS(t)
		return h, func() *Client { return h.DialTLS(t, ca.Client("")) }
	}
	h = Start(t)
	return h, func() *Client { return h.Dial(t) }
}
