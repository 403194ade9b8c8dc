package session_test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

func TestKeepAlive(t *testing.T) {
	h := servertest.Start(t)
	option := func(c *session.Loop, level, name int) (v int) {
		t.Helper()
		raw, err := c.Wire().SyscallConn()
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
		h.Dial(t).Want(fmt.Sprintf("CONFIG SET tcp-keepalive %d", tt.set), "+OK\r\n")
		h.Dial(t).Want("PING", "+PONG\r\n")
		c := h.Sessions().Newest()
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

func TestOnlyLocalClients(t *testing.T) {
	h := servertest.Start(t)
	if !h.Sessions().OnlyLocalClients() {
		t.Error("a server without clients has remote clients")
	}
	here, there := net.Pipe()
	defer here.Close()
	c := session.NewLoop(h.Sessions(), remoteConn{there}, 1<<40)
	h.Sessions().Add(c)
	if !c.Remote() || h.Sessions().OnlyLocalClients() {
		t.Error("a client on another host is taken for local")
	}
	h.Sessions().Remove(c)
	if !h.Sessions().OnlyLocalClients() {
		t.Error("the client on another host still counts after its removal")
	}
}

// remoteConn is a connection whose addresses are those of two hosts.
type remoteConn struct{ net.Conn }

func (remoteConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6666} }
func (remoteConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 4444} }

// After a big command the connection releases its read buffer, and all references to it.
func TestBigBufferIsForgotten(t *testing.T) {
	c := looped(t)
	set := servertest.Encode("SET", "k", strings.Repeat("x", 1<<20))
	if buffer, args := c.FeedAndKept(set + servertest.Pipeline("GET nosuch")); buffer != 0 || len(args) > 0 {
		t.Errorf("a read buffer of %d bytes is kept, and %.100q", buffer, args)
	}
	c.Feed(servertest.Pipeline("GET k"))
}
