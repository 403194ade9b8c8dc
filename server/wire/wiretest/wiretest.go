// Package wiretest has what tests of connections need.
package wiretest

import (
	"net"
	"testing"
)

// SocketPair returns both ends of a TCP connection with small buffers.
func SocketPair(t testing.TB) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	here, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	there = <-dialed
	here.(*net.TCPConn).SetWriteBuffer(16 << 10)
	there.(*net.TCPConn).SetReadBuffer(16 << 10)
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}
