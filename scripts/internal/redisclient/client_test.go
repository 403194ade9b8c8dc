package redisclient

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
)

// serve answers one connection with the given bytes, once it has read the whole
// of want, and reports what it read.
func serve(t *testing.T, want, answer string) (addr string, got <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	read := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, len(want))
		n, _ := io.ReadFull(bufio.NewReader(c), b)
		read <- string(b[:n])
		io.WriteString(c, answer)
	}()
	return l.Addr().String(), read
}

func dial(t *testing.T, addr string) *Conn {
	t.Helper()
	c, err := Dial(addr, time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func TestPipelineKeepsOrderAndErrors(t *testing.T) {
	const wire = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\na\r\r\n*1\r\n$4\r\nPING\r\n"
	addr, got := serve(t, wire, "-WRONGTYPE no\r\n+PONG\r\n")
	c := dial(t, addr)
	for _, args := range [][]string{{"SET", "k", "a\r"}, {"PING"}} {
		require.NoError(t, c.Send(args...))
	}
	require.NoError(t, c.Flush())
	if v, err := c.Receive(); err != nil || v.Err() != resp.ReplyError("WRONGTYPE no") {
		t.Errorf("first reply: %v, %v, want the server's error", v.Err(), err)
	}
	if v, err := c.Receive(); err != nil || v.String() != "PONG" {
		t.Errorf("second reply: %q, %v", v.String(), err)
	}
	if sent := <-got; sent != wire {
		t.Errorf("sent %q", sent)
	}
	if c.Pending() != 0 {
		t.Errorf("%d replies pending", c.Pending())
	}
}

func TestStrings(t *testing.T) {
	addr, _ := serve(t, "*1\r\n$4\r\nKEYS\r\n", "*3\r\n$1\r\na\r\n$-1\r\n:7\r\n")
	got, err := dial(t, addr).Strings("KEYS")
	require.NoError(t, err)
	if strings.Join(got, ",") != "a,,7" {
		t.Errorf("got %q", got)
	}
}

func TestDrainReturnsTheFirstErrorAfterAll(t *testing.T) {
	addr, _ := serve(t, strings.Repeat("*1\r\n$1\r\nX\r\n", 3), "+OK\r\n-ERR one\r\n-ERR two\r\n")
	c := dial(t, addr)
	for range 3 {
		require.NoError(t, c.Send("X"))
	}
	if _, err := c.Do("X"); err == nil {
		t.Error("Do succeeded with replies pending")
	}
	require.NoError(t, c.Flush())
	if err := c.Drain(); err != resp.ReplyError("ERR one") {
		t.Errorf("Drain: %v", err)
	}
}

func TestDrainOfABrokenConnection(t *testing.T) {
	addr, _ := serve(t, "*1\r\n$1\r\nX\r\n", "+OK")
	c := dial(t, addr)
	require.NoError(t, c.Send("X"))
	require.NoError(t, c.Flush())
	if err := c.Drain(); err == nil || err.Error() != "the server has closed the connection: EOF" {
		t.Errorf("Drain: %v", err)
	}
}
