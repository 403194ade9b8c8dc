package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// outside returns an address of this machine that is not loopback.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

func TestProtectedMode(t *testing.T) {
	ip := outside(t)
	socket := filepath.Join(t.TempDir(), "s")
	// The port that is free on the first address may be taken on the second.
	h := startOnPorts(t, func() []string { return []string{"bind", "127.0.0.1 " + ip, "unixsocket", socket} })
	dial := func(network, addr string) *client {
		t.Helper()
		nc, err := net.Dial(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return newClient(t, nc)
	}
	public := h.Addrs()[1]
	if got := dial("tcp", public).closed(); got != protectedMode {
		t.Errorf("from outside: %q", got)
	}
	if !strings.HasPrefix(protectedMode,
		"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. ") ||
		strings.Count(protectedMode, "\r\n") != 1 || !strings.HasSuffix(protectedMode, "\r\n") {
		t.Errorf("the error is %q", protectedMode)
	}
	if n := h.stats.RejectedConns.Load(); n != 1 {
		t.Errorf("%d rejected connections", n)
	}
	local := dial("tcp", h.Addr())
	local.want("PING", "+PONG\r\n")
	dial("unix", socket).want("PING", "+PONG\r\n")
	local.want("CONFIG SET protected-mode no", "+OK\r\n")
	open := dial("tcp", public)
	open.want("PING", "+PONG\r\n")
	local.want("CONFIG SET protected-mode yes", "+OK\r\n")
	open.want("PING", "+PONG\r\n") // who is in stays in, as in Redis
	local.want("CONFIG SET requirepass pw", "+OK\r\n")
	dial("tcp", public).want("PING", "-NOAUTH Authentication required.\r\n")
	eventually(t, "those who were refused are forgotten", func() bool { return h.clients() == 4 })
}

// A web page that sends its form to us gets no reply, and nothing of it runs.
func TestCrossProtocol(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\r\nSET k v\r\n",
		"post /x\r\nSET k v\r\n",
		"PUT / HTTP/1.1\r\nhOSt: localhost\r\n\r\nSET k v\r\n",
		"MULTI\r\nHost: x\r\nSET k v\r\nEXEC\r\n",
		encode("Host:", "x") + pipeline("SET k v"),
	} {
		a := h.dial(t)
		a.send(request)
		if got := a.closed(); strings.Count(got, "\r\n") > 1 || strings.Contains(got, "'Host:'") ||
			strings.Contains(got, "'POST'") {
			t.Errorf("%q: %q", request, got)
		}
	}
	c.want("EXISTS k", ":0\r\n")
	if n := h.logs.FilterMessageSnippet("HTTP request").Len(); n != 1 {
		t.Errorf("%d log lines, want one a minute", n)
	}
	// Names that only resemble them are unknown commands.
	c.want("Hosts: x", "-ERR unknown command 'Hosts:', with args beginning with: 'x' \r\n")
	c.want("pos", "-ERR unknown command 'pos', with args beginning with: \r\n")
}

func TestKeepAlive(t *testing.T) {
	h := start(t)
	option := func(c *conn, level, name int) (v int) {
		t.Helper()
		raw, err := c.wire.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if e := raw.Control(func(fd uintptr) { v, err = syscall.GetsockoptInt(int(fd), level, name) }); e != nil ||
			err != nil {
			t.Fatal(e, err)
		}
		return v
	}
	for _, tt := range []struct{ set, on, idle, interval, count int }{
		{120, 1, 120, 40, 3}, {2, 1, 2, 1, 3}, {1000000, 1, 32767, 10922, 3}, {0, 0, 0, 0, 0},
	} {
		h.dial(t).want(fmt.Sprintf("CONFIG SET tcp-keepalive %d", tt.set), "+OK\r\n")
		h.dial(t).want("PING", "+PONG\r\n")
		h.mu.Lock()
		c := h.conns[h.lastID.Load()]
		h.mu.Unlock()
		if on := option(c, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); on != tt.on {
			t.Errorf("%d: SO_KEEPALIVE is %d", tt.set, on)
		}
		if tt.on == 0 {
			continue
		}
		idle, interval, count := option(c, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE), option(c, syscall.IPPROTO_TCP,
			syscall.TCP_KEEPINTVL), option(c, syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
		if idle != tt.idle || interval != tt.interval || count != tt.count {
			t.Errorf("%d: idle %d, interval %d, count %d", tt.set, idle, interval, count)
		}
	}
}

// A change of the timeout counts for those who are silent already.
func TestTimeoutChanges(t *testing.T) {
	h := start(t)
	idle, subscriber, blocked, admin := h.dial(t), h.dial(t), h.dial(t), h.dial(t)
	idle.want("PING", "+PONG\r\n")
	subscriber.want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	blocked.send(pipeline("BLPOP list 0"))
	eventually(t, "it waits", func() bool { return h.waiters.n.Load() == 1 })
	admin.want("CONFIG SET timeout 1", "+OK\r\n")
	if got := idle.closed(); got != "" {
		t.Errorf("the idle client got %q", got)
	}
	admin.closed() // so is this one, by now
	var other *client
	eventually(t, "one that comes is not closed before it has changed that", func() bool {
		other = h.dial(t)
		return roundTrip(other, pipeline("CONFIG SET timeout 3600"), 1) == nil
	})
	time.Sleep(1100 * time.Millisecond) // nothing may happen: there is no event to wait for
	other.want("PUBLISH ch x", ":1\r\n")
	other.want("RPUSH list x", ":1\r\n")
	if got := subscriber.reply(); !strings.HasSuffix(got, "$1\r\nx\r\n") {
		t.Errorf("the subscriber got %q", got)
	}
	if got := blocked.reply(); got != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
		t.Errorf("the blocked client got %q", got)
	}
}

func TestMaxClientsAtRunTime(t *testing.T) {
	h := start(t)
	a, b := h.dial(t), h.dial(t)
	a.want("PING", "+PONG\r\n")
	b.want("CONFIG SET maxclients 1", "+OK\r\n")
	a.want("PING", "+PONG\r\n") // who is in stays in
	if got := h.dial(t).closed(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("%q", got)
	}
	b.want("CONFIG SET maxclients 3", "+OK\r\n")
	h.dial(t).want("PING", "+PONG\r\n")
	most := mostClients()
	b.want("CONFIG SET maxclients 2000000000",
		fmt.Sprintf("-ERR CONFIG SET failed (possibly related to argument 'maxclients') - "+
			"The operating system is not able to handle the specified number of clients, try with %d\r\n", most))
	b.want("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$1\r\n3\r\n")
	if most < 1<<30 {
		b.want(fmt.Sprintf("CONFIG SET maxclients %d", most), "+OK\r\n")
	}
	big := start(t, "maxclients", "2000000000")
	if got := big.limits.clients.Load(); got != most {
		t.Errorf("the limit at the start is %d, not %d", got, most)
	}
}

func TestUnixSocketIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := New(testConfig(t, "unixsocket", path), enginetest.Open(t), nil)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the server leaves its socket behind: %v", err)
	}
}

// A client that sends ever more of one command is cut off, when it has gone beyond the longest that is allowed.
func TestQueryBufferLimit(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	c.want("CONFIG SET client-query-buffer-limit 2mb proto-max-bulk-len 1mb", "+OK\r\n")
	arg := "$1000000\r\n" + strings.Repeat("x", 1000000) + "\r\n"
	c.send("*5\r\n$4\r\nMSET\r\n$1\r\na\r\n" + arg + "$1\r\nb\r\n" + arg) // just below the limit
	if got := c.reply(); got != "+OK\r\n" {
		t.Fatalf("%.100q", got)
	}
	c = h.dial(t)
	c.SetDeadline(time.Now().Add(patience))
	io.WriteString(c, "*100\r\n$4\r\nMSET\r\n")
	before := h.stats.NetIn.Load()
	for range 100 { // what the sockets take is up to the system
		if _, err := io.WriteString(c, arg); err != nil {
			break
		}
	}
	if got := c.closed(); got != "" {
		t.Errorf("%q", got)
	}
	if read := h.stats.NetIn.Load() - before; read > 4<<20 {
		t.Errorf("%d bytes were read, 2 MiB are allowed", read)
	}
	eventually(t, "it is logged", func() bool {
		return h.logs.FilterMessage("a client that does not complete its command was disconnected").Len() == 1
	})
}

func TestOnlyLocalClients(t *testing.T) {
	h := start(t)
	if !h.OnlyLocalClients() {
		t.Error("there are no clients")
	}
	here, there := net.Pipe()
	defer here.Close()
	c := newConn(h.Shared, remoteConn{there}, 1<<40)
	h.add(c)
	h.left.Done() // nobody serves it
	if !c.info.remote || h.OnlyLocalClients() {
		t.Error("a client on another machine does not count")
	}
	h.remove(c)
	if !h.OnlyLocalClients() {
		t.Error("it counts when it is gone")
	}
}

// remoteConn is a connection from another machine.
type remoteConn struct{ net.Conn }

func (remoteConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6666} }
func (remoteConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 4444} }
