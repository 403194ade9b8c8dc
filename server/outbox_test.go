package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// socketPair returns both ends of a TCP connection with small buffers.
func socketPair(t testing.TB) (here, there net.Conn) {
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

func noLimit() int { return 0 }

func TestOutboxKeepsOrder(t *testing.T) {
	for _, kind := range []string{"socket", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			here, there := net.Pipe()
			if kind == "socket" {
				here, there = socketPair(t)
			}
			o := newOutbox(here, noLimit)
			var want bytes.Buffer
			for i := range 2000 {
				msg := bytes.Repeat([]byte{byte(i)}, 1+i%1500)
				want.Write(msg)
				if err := o.send(msg); err != nil {
					t.Fatal(err)
				}
				clear(msg) // the outbox must not need it any more
			}
			if buffers, n := o.backlog(); n == 0 || buffers == 0 || n != o.pending() {
				t.Fatalf("nobody reads, yet %d bytes in %d buffers are queued", n, buffers)
			}
			got := make([]byte, want.Len())
			there.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadFull(there, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Error("what was read is not what was sent")
			}
			o.wait()
			if o.pending() != 0 {
				t.Errorf("%d bytes are still queued", o.pending())
			}
		})
	}
}

// Messages of several senders stay whole.
func TestOutboxSenders(t *testing.T) {
	here, there := socketPair(t)
	o := newOutbox(here, noLimit)
	const senders, each, size = 4, 50, 997
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for range each {
				o.send(bytes.Repeat([]byte{'a' + byte(s)}, size))
			}
		})
	}
	there.SetReadDeadline(time.Now().Add(patience))
	msg := make([]byte, size)
	for range senders * each {
		if _, err := io.ReadFull(there, msg); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(msg, bytes.Repeat(msg[:1], size)) {
			t.Fatalf("messages are mixed up: %q", msg)
		}
	}
	wg.Wait()
}

func TestOutboxLimit(t *testing.T) {
	here, there := socketPair(t)
	const limit = 1 << 20
	o := newOutbox(here, func() int { return limit })
	msg := make([]byte, 10000)
	var err error
	for range 100000 {
		if err = o.send(msg); err != nil {
			break
		}
	}
	if !errors.Is(err, errOutputLimit) {
		t.Fatalf("send: %v", err)
	}
	o.wait()
	if o.pending() != 0 || o.queue != nil {
		t.Error("the queue is kept after the failure")
	}
	if err := o.send(msg); !errors.Is(err, errOutputLimit) {
		t.Errorf("a later send: %v", err)
	}
	there.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, there); errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestOutboxPeerGone(t *testing.T) {
	here, there := socketPair(t)
	o := newOutbox(here, noLimit)
	there.Close()
	msg := make([]byte, 100000)
	eventually(t, "send fails", func() bool { return o.send(msg) != nil })
	o.wait()
}

// A client that asks and never reads is cut off; the heap stays bounded meanwhile, and others are served.
func TestSlowReader(t *testing.T) {
	h := start(t)
	const limit = 4 << 20
	h.limits.out.Store(limit)
	c := h.dial(t)
	c.want("SET k "+strings.Repeat("v", 10000), "+OK\r\n")
	runtime.GC()
	before := heapInUse()
	request := []byte(strings.Repeat(pipeline("GET k"), 100))
	var peak uint64
	for sent := 0; ; sent++ {
		if sent > 20000 {
			t.Fatal("20 GB of replies were asked for, and the client is still connected")
		}
		if _, err := c.Write(request); err != nil {
			break
		}
		if sent%16 == 0 {
			peak = max(peak, heapInUse())
		}
	}
	if grown := int64(peak) - int64(before); grown > 16*limit {
		t.Errorf("the heap grew by %d MiB; the limit is %d MiB", grown>>20, limit>>20)
	}
	eventually(t, "the client is forgotten", func() bool { return h.clients() == 0 })
	if n := h.logs.FilterMessage("a client that does not read its replies was disconnected").Len(); n != 1 {
		t.Errorf("%d log lines about it", n)
	}
	h.dial(t).want("PING", "+PONG\r\n")
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
