// Package wiretest has what tests of connections need.
package wiretest

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/resp"
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

// Link is a connection that a session has handed over. It has no queue, so that a test notices when the other end does
// not read.
type Link struct{ net.Conn }

func (l Link) SetWriteDeadline(t time.Time) { l.Conn.SetWriteDeadline(t) }
func (l Link) Pending() int                 { return 0 }
func (l Link) Drain()                       {}

func (l Link) SendFile(f *os.File, n int64) error {
	_, err := io.CopyN(l, f, n)
	return err
}

// ReadCommand reads a command as clients send it, an array of strings, after any empty lines.
func ReadCommand(in *bufio.Reader) (words []string, err error) {
	for {
		first, err := in.Peek(1)
		if err != nil {
			return nil, err
		}
		if first[0] != '\n' {
			break
		}
		in.Discard(1)
	}
	command, err := resp.ReadReply(in, resp.ReplyLimits{Text: 1 << 30, Keep: 1 << 30, Elems: 1 << 20, Depth: 1})
	for _, word := range command.Elems {
		words = append(words, string(word.Text))
	}
	return words, err
}
