package server_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
)

// outside returns an address of this host that is not a loopback address.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this host has only loopback addresses")
	return ""
}

func TestProtectedMode(t *testing.T) {
	ip := outside(t)
	socket := filepath.Join(t.TempDir(), "s")
	// The port that is free on the first address may be taken on the second.
	h := servertest.StartOnPorts(t, func() []string {
		return []string{"bind", "127.0.0.1 " + ip, "unixsocket", socket,
			"admin-listen", net.JoinHostPort(ip, "0")}
	})
	dial := func(network, addr string) *servertest.Client {
		t.Helper()
		nc, err := net.Dial(network, addr)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		return servertest.NewClient(t, nc)
	}
	public := h.Addrs()[1]
	if got := dial("tcp", public).Closed(); got != server.ProtectedMode {
		t.Errorf("from outside: %q", got)
	}
	if !strings.HasPrefix(server.ProtectedMode,
		"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "+
			"default user. ") ||
		strings.Count(server.ProtectedMode, "\r\n") != 1 || !strings.HasSuffix(server.ProtectedMode, "\r\n") {
		t.Errorf("the error is %q", server.ProtectedMode)
	}
	if n := h.Sessions().Stats.RejectedConns.Load(); n != 1 {
		t.Errorf("%d rejected connections", n)
	}
	profile := func(password string, status int) { // another door to what administrators may see
		t.Helper()
		if got, _ := get(h, t, "/debug/pprof/cmdline", "", password); got != status {
			t.Errorf("a profile with the password %q: %d, want %d", password, got, status)
		}
	}
	profile("", 401)
	profile("any", 401)
	local := dial("tcp", h.Addr())
	local.Want("PING", "+PONG\r\n")
	dial("unix", socket).Want("PING", "+PONG\r\n")
	local.Want("CONFIG SET protected-mode no", "+OK\r\n")
	open := dial("tcp", public)
	open.Want("PING", "+PONG\r\n")
	profile("", 200)
	local.Want("CONFIG SET protected-mode yes", "+OK\r\n")
	open.Want("PING", "+PONG\r\n") // connected clients are not affected, as in Redis
	local.Want("CONFIG SET requirepass pw", "+OK\r\n")
	dial("tcp", public).Want("PING", "-NOAUTH Authentication required.\r\n")
	profile("", 401)
	profile("pw", 200)
	servertest.Eventually(t, "the refused clients are not counted", func() bool { return h.Sessions().Clients() == 4 })
}

// A web page that makes a browser send a form to the server gets no reply, and no command in the form runs.
func TestCrossProtocol(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\r\nSET k v\r\n",
		"post /x\r\nSET k v\r\n",
		"PUT / HTTP/1.1\r\nhOSt: localhost\r\n\r\nSET k v\r\n",
		"MULTI\r\nHost: x\r\nSET k v\r\nEXEC\r\n",
		servertest.Encode("Host:", "x") + servertest.Pipeline("SET k v"),
	} {
		a := h.Dial(t)
		a.Send(request)
		if got := a.Closed(); strings.Count(got, "\r\n") > 1 || strings.Contains(got, "'Host:'") ||
			strings.Contains(got, "'POST'") {
			t.Errorf("%q: %q", request, got)
		}
	}
	c.Want("EXISTS k", ":0\r\n")
	if n := h.Logs.FilterMessageSnippet("HTTP request").Len(); n != 1 {
		t.Errorf("%d log lines, want one a minute", n)
	}
	// Names that only resemble POST and Host: are unknown commands.
	c.Want("Hosts: x", "-ERR unknown command 'Hosts:', with args beginning with: 'x' \r\n")
	c.Want("pos", "-ERR unknown command 'pos', with args beginning with: \r\n")
}

// A change of the timeout applies also to clients that are already idle, but not to subscribers and blocked clients.
func TestTimeoutChanges(t *testing.T) {
	h := servertest.Start(t)
	idle, subscriber, blocked, admin := h.Dial(t), h.Dial(t), h.Dial(t), h.Dial(t)
	idle.Want("PING", "+PONG\r\n")
	subscriber.Want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	blocked.Send(servertest.Pipeline("BLPOP list 0"))
	servertest.Eventually(t, "the client is blocked", func() bool { return h.Sessions().Counts().Blocked == 1 })
	admin.Want("CONFIG SET timeout 1", "+OK\r\n")
	if got := idle.Closed(); got != "" {
		t.Errorf("the idle client got %q", got)
	}
	admin.Closed() // this client is idle, too
	var other *servertest.Client
	servertest.Eventually(t, "a new client changes the timeout before it is disconnected", func() bool {
		other = h.Dial(t)
		return other.RoundTrip(servertest.Pipeline("CONFIG SET timeout 3600"), 1) == nil
	})
	time.Sleep(1100 * time.Millisecond) // nothing must happen meanwhile: there is no event to wait for
	other.Want("PUBLISH ch x", ":1\r\n")
	other.Want("RPUSH list x", ":1\r\n")
	if got := subscriber.Reply(); !strings.HasSuffix(got, "$1\r\nx\r\n") {
		t.Errorf("the subscriber got %q", got)
	}
	if got := blocked.Reply(); got != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
		t.Errorf("the blocked client got %q", got)
	}
}

func TestMaxClientsAtRunTime(t *testing.T) {
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	a.Want("PING", "+PONG\r\n")
	b.Want("CONFIG SET maxclients 1", "+OK\r\n")
	a.Want("PING", "+PONG\r\n") // connected clients are not affected
	if got := h.Dial(t).Closed(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("%q", got)
	}
	b.Want("CONFIG SET maxclients 3", "+OK\r\n")
	h.Dial(t).Want("PING", "+PONG\r\n")
	limit, _ := server.OpenFiles(servertest.Config(t))
	b.Want("CONFIG SET maxclients 2000000000",
		fmt.Sprintf("-ERR CONFIG SET failed (possibly related to argument 'maxclients') - "+
			"The operating system is not able to handle the specified number of clients, try with %d\r\n", limit))
	b.Want("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$1\r\n3\r\n")
	if limit < 1<<30 {
		b.Want(fmt.Sprintf("CONFIG SET maxclients %d", limit), "+OK\r\n")
	}
	big := servertest.Start(t, "maxclients", "2000000000")
	if got := big.MaxClients(); got != limit {
		t.Errorf("the limit at the start is %d, want %d", got, limit)
	}
}

func TestUnixSocketIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := server.New(servertest.Config(t, "unixsocket", path), enginetest.Open(t), nil)
	require.NoError(t, s.Start())
	s.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the server leaves its socket behind: %v", err)
	}
}

// A client that keeps sending arguments of one command is disconnected when the command exceeds
// client-query-buffer-limit.
func TestQueryBufferLimit(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("CONFIG SET client-query-buffer-limit 2mb proto-max-bulk-len 1mb", "+OK\r\n")
	arg := "$1000000\r\n" + strings.Repeat("x", 1000000) + "\r\n"
	c.Send("*5\r\n$4\r\nMSET\r\n$1\r\na\r\n" + arg + "$1\r\nb\r\n" + arg) // just below the limit
	if got := c.Reply(); got != "+OK\r\n" {
		t.Fatalf("%.100q", got)
	}
	c = h.Dial(t)
	c.SetDeadline(time.Now().Add(servertest.Patience))
	io.WriteString(c, "*100\r\n$4\r\nMSET\r\n")
	before := h.Sessions().Stats.NetIn.Load()
	for range 100 { // the buffers of the sockets take a part that depends on the system
		if _, err := io.WriteString(c, arg); err != nil {
			break
		}
	}
	if got := c.Closed(); got != "" {
		t.Errorf("%q", got)
	}
	if read := h.Sessions().Stats.NetIn.Load() - before; read > 4<<20 {
		t.Errorf("%d bytes were read, 2 MiB are allowed", read)
	}
	servertest.Eventually(t, "the disconnection is logged", func() bool {
		return h.Logs.FilterMessage("a client that does not complete its command was disconnected").Len() == 1
	})
}

func TestMaxClients(t *testing.T) {
	h := servertest.Start(t)
	h.SetMaxClients(2)
	a, b := h.Dial(t), h.Dial(t)
	a.Want("PING", "+PONG\r\n")
	b.Want("PING", "+PONG\r\n")
	if got := h.Dial(t).Closed(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("a third client gets %q", got)
	}
	a.Send(servertest.Pipeline("QUIT"))
	a.Closed()
	servertest.Eventually(t, "the first client is forgotten", func() bool { return h.Sessions().Clients() == 1 })
	h.Dial(t).Want("PING", "+PONG\r\n")
}
