package main

import (
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
)

// TestReloadBySignal renews the certificate of a running server, as certbot and others do.
func TestReloadBySignal(t *testing.T) {
	ca := testcert.New(t)
	cert, key := ca.Issue("first")
	p := startOnPort(t, "--tls-port", "--dir", t.TempDir(), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", ca.File, "--tls-auth-clients", "yes")
	client := ca.Client("client")
	served := func() string {
		t.Helper()
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", p.addr, client)
		require.NoError(t, err)
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 7)
		if n, err := c.Read(b); err != nil || string(b[:n]) != "+PONG\r\n" {
			t.Fatalf("%q, %v", b[:n], err)
		}
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := served(); got != "first" {
		t.Fatal(got)
	}
	replace := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		require.NoError(t, err)
	}
	hup := func(logged string) {
		t.Helper()
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
		p.await(logged)
	}
	cert2, key2 := ca.Issue("second")
	replace(cert2, cert) // in the middle of a renewal
	hup("the settings of TLS were not applied")
	if got := served(); got != "first" {
		t.Errorf("half a renewal: %s", got)
	}
	replace(key2, key)
	hup("certificates read again")
	if got := served(); got != "second" {
		t.Errorf("after the renewal: %s", got)
	}
	if cli, err := exec.LookPath("redis-cli"); err == nil {
		clientCert, clientKey := ca.Issue("cli")
		_, port, _ := net.SplitHostPort(p.addr)
		out, err := exec.Command(cli, "-p", port, "--tls", "--cacert", ca.File, "--cert", clientCert, "--key",
			clientKey, "ECHO", "hello").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "hello" {
			t.Errorf("redis-cli: %q, %v", out, err)
		}
	}
	p.stop(syscall.SIGTERM)
}
