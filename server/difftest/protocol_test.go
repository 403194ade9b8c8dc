package difftest

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestProtocol sends bytes that are no proper commands, or make the server close
// the connection, and compares all that comes back until it is closed.
func TestProtocol(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	for _, in := range []string{
		"PING\r\n",
		"PING\n",
		"\r\n\r\n\nPING\r\n",
		"  PING  \t hello  \r\n",
		"ping 'single quoted' \r\n",
		"ECHO \"\\x41\\n\\r\\t\\b\\a\\\"\\\\ \\q\"\r\n",
		"ECHO 'it\\'s'\r\n",
		"ECHO a\"b c\"\r\n",
		"ECHO \"not closed\r\n",
		"ECHO 'not closed\r\n",
		"ECHO \"a\"b\r\n",
		"PING\r\nECHO \"a\"b\r\nPING\r\n",
		"NOSUCH a b\r\n",
		"GET\r\n",
		repeat("x", 70000),
		"PING\r\n" + repeat("x", 70000),
		"*1\r\n$4\r\nPING\r\n",
		"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
		"*0\r\n*1\r\n$4\r\nPING\r\n",
		"*-1\r\n*1\r\n$4\r\nPING\r\n",
		"*-10\r\nPING\r\n",
		"*1\r\n$0\r\n\r\nPING\r\n",
		"*x\r\n",
		"*\r\n",
		"*1x\r\n",
		"*01\r\n",
		"* 1\r\n",
		"*99999999999999999999\r\n",
		"*2147483648\r\n",
		"*" + repeat("1", 70000),
		"*1\r\nPING\r\n",
		"*1\r\n:4\r\nPING\r\n",
		"*1\r\n$x\r\n",
		"*1\r\n$\r\n",
		"*1\r\n$-1\r\n",
		"*1\r\n$01\r\nx\r\n",
		"*1\r\n$536870913\r\n",
		"*1\r\n$99999999999999999999\r\n",
		"*1\r\n$" + repeat("1", 70000),
		"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\nx\r\nPING\r\n",
		"*1\r\n$4\r\nPI",
		"*3\r\n$3\r\nSET",
		"QUIT\r\n",
		"QUIT\r\nPING\r\n",
		"PING\r\nquit\r\n",
		"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
		"QUIT now\r\n",
	} {
		compareExchange(t, redis, basalt, in)
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func compareExchange(t *testing.T, redis, basalt target, in string) {
	t.Helper()
	want, err := exchange(redis, in)
	if err != nil {
		t.Fatalf("redis: %.60q: %v", in, err)
	}
	got, err := exchange(basalt, in)
	if err != nil {
		t.Errorf("basalt: %.60q: %v", in, err)
		return
	}
	// Redis 7.2 has a word more here than 7.0.
	want = strings.ReplaceAll(want, "the HELLO AUTH <user>", "the HELLO <proto> AUTH <user>")
	if want != got {
		t.Errorf("%.60q:\n\tredis:  %.400q\n\tbasalt: %.400q", in, want, got)
	}
}

// exchange sends in, ends the sending side and returns all that is answered.
func exchange(srv target, in string) (string, error) {
	conn, err := net.DialTimeout("tcp", srv.Addr(), patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	// The server may close before it has read all: only its answer counts.
	if _, err := io.WriteString(conn, in); err == nil {
		conn.(*net.TCPConn).CloseWrite()
	}
	out, err := io.ReadAll(conn)
	if err != nil && len(out) > 0 {
		err = nil // reset after the answer, since not all was read
	}
	return string(out), err
}
