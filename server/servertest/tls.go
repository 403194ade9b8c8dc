package servertest

import (
	"crypto/tls"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
)

// FreePort returns a TCP port of 127.0.0.1 for a server of the test, which must set SO_REUSEADDR, as servers do. A
// socket that does not listen holds the port until the test ends, so that the kernel gives it to nobody else.
func FreePort(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	addr, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return strconv.Itoa(addr.(*syscall.SockaddrInet4).Port)
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
