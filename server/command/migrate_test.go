package command

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// fakeTarget starts a server that replies to each command with the next one of the replies, and closes the connection
// after the last one. got receives the commands.
func fakeTarget(t *testing.T, replies ...string) (host, port string, got <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	commands := make(chan string, len(replies)+1)
	go func() {
		defer close(commands)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for r := bufio.NewReader(conn); len(replies) > 0; replies = replies[1:] {
			words, err := wiretest.ReadCommand(r)
			if err != nil {
				return
			}
			if words[0] == "RESTORE" {
				words[3] = "..."
			}
			commands <- strings.Join(words, " ")
			if replies[0] == "" {
				return
			}
			io.WriteString(conn, replies[0])
		}
	}()
	host, port, _ = net.SplitHostPort(l.Addr().String())
	return host, port, commands
}

// TestMigrateKeepsKeys: a key is deleted only when the target has acknowledged it.
func TestMigrateKeepsKeys(t *testing.T) {
	const ok = "+OK\r\n"
	for _, tt := range []struct {
		name    string
		replies []string
		options string
		want    string
		left    string // of a, b and c
		sent    []string
	}{
		{"moved", []string{ok, ok, ok, ok}, "", ok, "", []string{"SELECT 3", "RESTORE a 0 ...", "RESTORE b 0 ...",
			"RESTORE c 0 ..."}},
		{"copied", []string{ok, ok, ok, ok}, "COPY REPLACE", ok, "abc", []string{"SELECT 3", "RESTORE a 0 ... REPLACE"}},
		{"password", []string{ok, ok, ok, ok, ok}, "AUTH pw", ok, "", []string{"AUTH pw", "SELECT 3"}},
		{"user", []string{ok, ok, ok, ok, ok}, "AUTH2 me pw", ok, "", []string{"AUTH me pw", "SELECT 3"}},
		{"refused password", []string{"-WRONGPASS no\r\n", ok}, "AUTH pw",
			"-ERR Target instance replied with error: WRONGPASS no\r\n", "abc", nil},
		{"no such database", []string{"-ERR DB index is out of range\r\n"}, "",
			"-ERR Target instance replied with error: ERR DB index is out of range\r\n", "abc", []string{"SELECT 3"}},
		{"busy", []string{ok, ok, "-BUSYKEY there\r\n", ok}, "",
			"-ERR Target instance replied with error: BUSYKEY there\r\n", "b", nil},
		{"gone at once", nil, "", "-IOERR error or timeout reading to target instance\r\n", "abc", nil},
		{"gone after one", []string{ok, ok, ""}, "", "-IOERR error or timeout reading to target instance\r\n", "bc", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.Open(t)
			do(t, db, "MSET", "a", "1", "b", "2", "c", "3")
			host, port, got := fakeTarget(t, tt.replies...)
			args := append([]string{"MIGRATE", host, port, "", "3", "60000"}, strings.Fields(tt.options)...)
			reply := do(t, db, append(args, "KEYS", "a", "missing", "b", "c")...)
			if tt.name == "gone at once" && reply == "-IOERR error or timeout writing to target instance\r\n" {
				reply = tt.want // the end of the connection may be noticed by the write or by the read
			}
			if reply != tt.want {
				t.Errorf("%q, want %q", reply, tt.want)
			}
			left := ""
			for _, key := range []string{"a", "b", "c"} {
				if do(t, db, "EXISTS", key) == ":1\r\n" {
					left += key
				}
			}
			if left != tt.left {
				t.Errorf("%q are left, want %q", left, tt.left)
			}
			for _, want := range tt.sent {
				if cmd := <-got; cmd != want {
					t.Errorf("sent %q, want %q", cmd, want)
				}
			}
		})
	}
}

// closedPort returns a port of 127.0.0.1 that refuses connections. A socket that does not listen holds the port until
// the test ends, so that no other process can listen on the port.
func closedPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	addr, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return strconv.Itoa(addr.(*syscall.SockaddrInet4).Port)
}

func TestMigrateErrors(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "SET", "k", "v")
	do(t, db, "JSON.SET", "j", "$", "1")
	closed := closedPort(t)
	host, port, _ := fakeTarget(t, "+OK\r\n", "+OK\r\n")
	for _, tt := range []struct{ line, want string }{
		{"127.0.0.1 " + closed + " k 0 1000 KEYS a",
			"-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"},
		{"127.0.0.1 " + closed + " k 0 1000 WHAT", "-ERR syntax error"},
		{"127.0.0.1 " + closed + " k 0 1000 AUTH", "-ERR syntax error"},
		{"127.0.0.1 " + closed + " k 0 1000 AUTH2 u", "-ERR syntax error"},
		{"127.0.0.1 " + closed + " k x 1000", "-ERR value is not an integer or out of range"},
		{"127.0.0.1 " + closed + " k 0 x", "-ERR value is not an integer or out of range"},
		{"127.0.0.1 " + closed + " missing 0 1000", "+NOKEY"},
		{"127.0.0.1 " + closed + " k 0 60000", "-IOERR error or timeout writing to target instance"},
		{"no.such.host.invalid 1 k 0 1000", "-IOERR error or timeout connecting to the client"},
		{host + " " + port + " j 0 60000", "-ERR Invalid or Not supported object type 10"},
	} {
		if got := do(t, db, append([]string{"MIGRATE"}, strings.Fields(tt.line)...)...); got != tt.want+"\r\n" {
			t.Errorf("%s: %q, want %q", tt.line, got, tt.want)
		}
	}
	if got := do(t, db, "EXISTS", "k", "j"); got != ":2\r\n" {
		t.Error(got)
	}
}
