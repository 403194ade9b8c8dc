package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

func noLimit() int { return 0 }

// box returns the sending half of a connection.
func box(nc net.Conn, limit func() int) *outbox { return &New(nc, Limits{Hard: limit}).out }

// patience is how long a test waits for what must happen. A busy host may stop the process for minutes.
const patience = 10 * time.Minute

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range patience / time.Millisecond {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not happen: " + what)
}

func TestOutboxKeepsOrder(t *testing.T) {
	for _, kind := range []string{"socket", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			here, there := net.Pipe()
			if kind == "socket" {
				here, there = wiretest.SocketPair(t)
			}
			o := box(here, noLimit)
			var want bytes.Buffer
			for i := range 2000 {
				msg := bytes.Repeat([]byte{byte(i)}, 1+i%1500)
				want.Write(msg)
				require.NoError(t, o.send(msg))
				clear(msg) // the outbox must not need it any more
			}
			if buffers, n := o.backlog(); n == 0 || buffers == 0 {
				t.Fatalf("nobody reads, yet %d bytes in %d buffers are queued", n, buffers)
			}
			eventually(t, "the socket takes no more between two looks", func() bool {
				_, n := o.backlog()
				return n == o.pending()
			})
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
	here, there := wiretest.SocketPair(t)
	o := box(here, noLimit)
	const senders, each, size = 4, 20, 997
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
	here, there := wiretest.SocketPair(t)
	const limit = 1 << 20
	o := box(here, func() int { return limit })
	msg := make([]byte, 10000)
	var err error
	for range 100000 {
		if err = o.send(msg); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrOutputLimit) {
		t.Fatalf("send: %v", err)
	}
	o.wait()
	if o.pending() != 0 || o.queue != nil {
		t.Error("the queue is kept after the failure")
	}
	if err := o.send(msg); !errors.Is(err, ErrOutputLimit) {
		t.Errorf("a later send: %v", err)
	}
	there.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, there); errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestOutboxPeerGone(t *testing.T) {
	here, there := wiretest.SocketPair(t)
	o := box(here, noLimit)
	there.Close()
	msg := make([]byte, 100000)
	eventually(t, "send fails", func() bool { return o.send(msg) != nil })
	o.wait()
}

// A client that takes nothing of a long reply is cut off by the next one.
func TestLongReplyNotRead(t *testing.T) {
	here, there := wiretest.SocketPair(t)
	const limit = 1 << 20
	o := box(here, func() int { return limit })
	o.stalled = time.Millisecond
	long := make([]byte, 4*limit)
	if err := o.send(long); err != nil {
		t.Fatalf("the first reply: %v", err)
	}
	if n := o.pending(); n <= limit {
		t.Fatalf("%d bytes are queued", n)
	}
	if err := o.sendReply(long, false, false); !errors.Is(err, ErrOutputLimit) {
		t.Errorf("the second reply: %v", err)
	}
	there.Close()
	o.wait()
}

// The time of the soft limit begins anew whenever the client takes something of a reply that is longer than the limit.
func TestSoftLimitOfLongReply(t *testing.T) {
	here, there := wiretest.SocketPair(t)
	const limit = 1 << 20
	o := box(here, func() int { return limit })
	during := time.Hour
	o.limits.Soft = func() (int, time.Duration) { return limit / 2, during }
	long := make([]byte, 4*limit)
	require.NoError(t, o.send(long))
	o.mu.Lock()
	if o.over == nil {
		t.Error("the soft limit is exceeded, and no time runs")
	}
	during = time.Millisecond // from the next piece on
	o.mu.Unlock()
	there.SetReadDeadline(time.Now().Add(patience))
	io.ReadFull(there, make([]byte, 8*drainPiece))
	eventually(t, "the client, which takes no more, is cut off", func() bool {
		return errors.Is(o.failure(), ErrOutputLimit)
	})
}

// More than the soft limit may wait for its time only.
func TestSoftLimit(t *testing.T) {
	here, there := wiretest.SocketPair(t)
	o := box(here, noLimit)
	var during = time.Hour
	o.limits.Soft = func() (int, time.Duration) { return 100_000, during }
	for o.pending() <= 1<<20 {
		require.NoError(t, o.send(bytes.Repeat([]byte("x"), 50_000)))
	}
	o.mu.Lock()
	running := o.over != nil
	o.mu.Unlock()
	if !running {
		t.Error("the soft limit is exceeded, and no time runs")
	}
	go io.Copy(io.Discard, there)
	o.wait()
	o.mu.Lock()
	running = o.over != nil
	o.mu.Unlock()
	if running || o.failure() != nil {
		t.Errorf("the client has read all; the time runs: %v, %v", running, o.failure())
	}

	here, _ = wiretest.SocketPair(t)
	o = box(here, noLimit)
	o.limits.Soft = func() (int, time.Duration) { return 100_000, time.Millisecond }
	for o.send(bytes.Repeat([]byte("x"), 50_000)) == nil && o.pending() <= 1<<20 {
	}
	eventually(t, "the client is cut off", func() bool { return errors.Is(o.failure(), ErrOutputLimit) })
	if o.pending() != 0 {
		t.Error("its queue is kept")
	}
}
