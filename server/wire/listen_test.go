package wire

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	local := []string{"127.0.0.1"}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	long := "/" + strings.Repeat("x", 107)
	for _, tt := range []struct {
		at   Addresses
		want string
	}{
		{Addresses{FD: -1, Hosts: local, Port: port}, "port: 127.0.0.1:" + strconv.Itoa(port) + " is in use"},
		{Addresses{FD: -1, Hosts: local, TLSPort: port}, "tls-port: 127.0.0.1:" + strconv.Itoa(port) + " is in use"},
		{Addresses{FD: -1}, "bind: there is no address to listen on"},
		{Addresses{FD: -1, Hosts: []string{"127.0.0.1", "192.0.2.1"}}, "bind: cannot listen on 192.0.2.1:"},
		{Addresses{FD: -1, Hosts: []string{"-192.0.2.1"}}, "bind: there is no address to listen on"},
		{Addresses{FD: -1, Hosts: []string{"-127.0.0.1"}, Port: port}, "port: 127.0.0.1:" + strconv.Itoa(port) +
			" is in use"},
		{Addresses{FD: -1, Unix: file}, "unixsocket: " + file + " exists and is not a socket"},
		{Addresses{FD: -1, Unix: "/nonexistent/socket"}, "unixsocket: cannot listen on /nonexistent/socket: "},
		{Addresses{FD: -1, Unix: long}, "unixsocket: cannot listen on " + long + ": the path is longer than 107 bytes"},
		{Addresses{FD: 60000}, "socket-fd: 60000 is not a listening socket: "},
	} {
		l, err := Listen(tt.at)
		if err == nil {
			l.Close()
			t.Errorf("%+v: no error", tt.at)
		} else if !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", tt.at, err)
		}
	}
}

// An address that may be missing is left out. All addresses of IPv4 and all of IPv6 are two sockets with one port.
func TestListenOptional(t *testing.T) {
	for _, tt := range []struct {
		hosts []string
		want  int // listeners where the machine has IPv6
		ipv6  bool
	}{
		{[]string{"-192.0.2.1", "127.0.0.1"}, 1, false},
		{[]string{"127.0.0.1", "-::1"}, 2, true},
		{[]string{"0.0.0.0", "-::"}, 2, true},
		{[]string{"-2001:db8::1", "localhost"}, 1, false},
	} {
		if tt.ipv6 && !hasIPv6() {
			tt.want--
		}
		l, err := Listen(Addresses{FD: -1, Hosts: tt.hosts})
		if err != nil || len(l) != tt.want {
			t.Errorf("%q: %v, %v", tt.hosts, l.Describe(), err)
		}
		l.Close()
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		l.Close()
	}
	return err == nil
}

func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	listen := func() (net.Listener, error) { return listenUnix(path, 0o640, 5) }
	l, err := listen()
	require.NoError(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// Another server is refused, and disturbs nothing, with a full queue too.
	for range 10 {
		if _, err := listen(); err == nil || err.Error() != "unixsocket: "+path+" is in use" {
			t.Fatalf("a second listener: %v", err)
		}
	}
	if c, err := l.Accept(); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	// One that was killed is replaced.
	l.(*unixListener).info = nil
	l.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal("the dead socket is to be there: ", err)
	}
	if l, err = listen(); err != nil {
		t.Fatal(err)
	}
	// What is no longer ours is not removed.
	require.NoError(t, os.Remove(path))
	next, err := listen()
	require.NoError(t, err)
	l.Close()
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the other's socket: %v", err)
	} else {
		c.Close()
	}
	next.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
	// A link to nowhere, a long name, and permissions that do not exist.
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), path))
	if l, err := listen(); err == nil {
		l.Close()
		t.Error("a link was replaced")
	}
	long := filepath.Join(dir, strings.Repeat("x", 200))
	if _, err := listenUnix(long, 0o700, 0); err == nil || !strings.HasPrefix(err.Error(), "unixsocket: ") {
		t.Errorf("a long name: %v", err)
	}
}

func TestOnThisMachine(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	unix := &net.UnixAddr{Name: "/s", Net: "unix"}
	for _, c := range []struct {
		local, remote net.Addr
		want          bool
	}{
		{tcp("127.0.0.1"), tcp("127.0.0.1"), true},
		{tcp("::1"), tcp("::1"), true},
		{tcp("10.0.0.2"), tcp("10.0.0.2"), true},
		{tcp("10.0.0.2"), tcp("10.0.0.3"), false},
		{tcp("fe80::1"), tcp("fe80::2"), false},
		{unix, unix, true},
		{unix, nil, true},
	} {
		if have := OnThisMachine(c.local, c.remote); have != c.want {
			t.Errorf("from %v to %v: %v", c.remote, c.local, have)
		}
	}
}

func TestDescribeListeners(t *testing.T) {
	address := func(text string) net.Listener {
		if path, ok := strings.CutPrefix(text, "unix:"); ok {
			return fakeListener{addr: &net.UnixAddr{Name: path, Net: "unix"}}
		}
		return fakeListener{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))}
	}
	l := Listeners{address("127.0.0.1:6666"), address("[::1]:6666"), tlsListener{address("127.0.0.1:6667")},
		address("unix:/run/basalt.sock")}
	want := []string{"name=tcp,bind=127.0.0.1,bind=::1,port=6666", "name=tls,bind=127.0.0.1,port=6667",
		"name=unix,bind=/run/basalt.sock"}
	if got := l.Describe(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// fakeListener has an address and listens on nothing.
type fakeListener struct {
	net.Listener
	addr net.Addr
}

func (l fakeListener) Addr() net.Addr { return l.addr }
