package wire

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// conns returns a connection and its client's end.
func conns(t *testing.T, kind string) (*Conn, net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	if kind == "socket" {
		here, there = wiretest.SocketPair(t)
	}
	c := New(here, Limits{Hard: noLimit})
	t.Cleanup(func() { c.Close(); there.Close() })
	there.SetDeadline(time.Now().Add(patience))
	return c, there
}

func receive(t *testing.T, from net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(from, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBatch(t *testing.T) {
	var f Flusher
	b := NewBatch(&f)
	c, there := conns(t, "socket")
	b.Post(c, []byte("a"))
	b.PostShared(c, []byte("b"))
	if _, n := c.Backlog(); n != 2 || !b.Pending() {
		t.Errorf("before the flush %d bytes wait", n)
	}
	b.Flush()
	if b.Pending() {
		t.Error("flushes are pending after the flush")
	}
	b.PostShared(c, []byte("c"))
	b.Flush()
	(*Batch)(nil).Post(c, []byte("d"))
	(*Batch)(nil).PostShared(c, []byte("e"))
	if got := receive(t, there, 5); string(got) != "abcde" {
		t.Errorf("got %q", got)
	}
	b.PostOwn([]byte("x"))
	b.PostOwn(bytes.Repeat([]byte("y"), KeepBuffer))
	if own := b.Own(); len(own) != 1+KeepBuffer || own[0] != 'x' {
		t.Errorf("%d bytes of own messages", len(own))
	}
	if b.DropOwn(); len(b.Own()) != 0 || cap(b.own) != 0 {
		t.Errorf("own messages are kept")
	}
}

// Messages that the flusher has not sent yet do not pile up: senders that are faster send themselves.
func TestSendersHelpTheFlusher(t *testing.T) {
	f := Flusher{running: true} // and never comes
	b := NewBatch(&f)
	c, there := conns(t, "socket")
	message := bytes.Repeat([]byte("x"), 1000)
	for range 2 * urgentAdded / len(message) {
		b.PostShared(c, message)
		b.Flush()
	}
	receive(t, there, urgentAdded/len(message)*len(message))
	f.run()
	if f.running || len(f.pending) > 0 {
		t.Error("the flusher has not ended")
	}
}
