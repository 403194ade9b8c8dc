package admin

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

func TestOpenAndClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := Open(l, options())
	r, err := http.Get("http://" + l.Addr().String() + "/healthz")
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || string(body) != "ok\n" {
		t.Fatal(string(body), err)
	}
	d.Close()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is open after Close")
	}
}

// pipeListener accepts one connection without buffers.
type pipeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error {
	close(l.conns)
	return l.Listener.Close()
}

// TestClientThatDoesNotRead: it is disconnected.
func TestClientThatDoesNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func(d time.Duration) { writeTimeout = d }(writeTimeout)
	writeTimeout = 10 * time.Millisecond
	conns := make(chan net.Conn, 1)
	d := Open(pipeListener{l, conns}, options())
	defer d.Close()
	client, conn := net.Pipe()
	conns <- conn
	client.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = client.Write([]byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	for err == nil { // the server may read ahead
		_, err = client.Write([]byte("x"))
	}
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
