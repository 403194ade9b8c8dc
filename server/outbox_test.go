package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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
	h.flood(t, c, limit)
	h.dial(t).want("PING", "+PONG\r\n")
}

// flood sends GET k again and again and reads nothing, until the client is cut off. Meanwhile the heap grows by no more
// than what belongs to the output limit.
func (h *harness) flood(t *testing.T, c *client, limit int) {
	t.Helper()
	before := heapAlive()
	before = min(before, heapAlive()) // pools keep things for one collection more
	request := []byte(strings.Repeat(pipeline("GET k"), 100))
	var peak int64
	for sent := 0; ; sent++ {
		if sent > 20000 {
			t.Fatal("20 GB of replies were asked for, and the client is still connected")
		}
		c.SetWriteDeadline(time.Now().Add(patience))
		if _, err := c.Write(request); err != nil {
			break
		}
		if sent%16 == 0 {
			peak = max(peak, heapAlive()) // garbage is Go's affair, and depends on what other tests have left
		}
	}
	if grown := peak - before; grown > 16*int64(limit) {
		t.Errorf("the heap grew by %d MiB; the limit is %d MiB", grown>>20, limit>>20)
	}
	eventually(t, "the client is forgotten", func() bool { return h.clients() == 0 })
	if n := h.logs.FilterMessage("a client that does not read its replies was disconnected").Len(); n != 1 {
		t.Errorf("%d log lines about it", n)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

var queuedBytes = regexp.MustCompile(` omem=(\d+)`)

// A reply that is longer than the limit reaches a client that reads, as do the replies of a pipeline that together are.
func TestLongReplies(t *testing.T) {
	const limit, size = 1 << 20, 5 << 20
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			var h *harness
			var dial func() *client
			if layer == "TLS" {
				secure, ca := startTLS(t)
				h, dial = secure, func() *client { return secure.dialTLS(t, ca.Client("")) }
			} else {
				h = start(t)
				dial = func() *client { return h.dial(t) }
			}
			c, watcher := dial(), dial()
			c.want("PING", "+PONG\r\n")
			h.mu.Lock()
			for _, served := range h.conns { // who reads is not to be taken for one who does not, on a busy machine
				served.box.mu.Lock()
				served.box.stalled = patience
				served.box.mu.Unlock()
			}
			h.mu.Unlock()
			h.limits.out.Store(limit)
			values := map[string]string{"long": strings.Repeat("v", size), "short": strings.Repeat("w", limit/2)}
			for key, value := range values {
				c.want("SET "+key+" "+value, "+OK\r\n")
			}
			gets := append(slices.Repeat([]string{"short", "long"}, 4), slices.Repeat([]string{"short"}, 64)...)
			commands := ""
			for _, key := range gets {
				commands += encode("GET", key)
			}
			c.send(commands)
			// It begins to read when there is already more than the limit, or nearly so.
			eventually(t, "replies are queued", func() bool {
				for _, m := range queuedBytes.FindAllStringSubmatch(watcher.do("CLIENT", "LIST"), -1) {
					if n, _ := strconv.Atoi(m[1]); n >= limit/2 {
						return true
					}
				}
				return false
			})
			for i, key := range gets {
				if got, want := c.reply(), fmt.Sprintf("$%d\r\n%s\r\n", len(values[key]), values[key]); got != want {
					t.Fatalf("reply %d: %d bytes that begin with %.40q, want %d of %.40q", i, len(got), got, len(want), want)
				}
			}
			c.want("PING", "+PONG\r\n")
		})
	}
}

// A client that takes nothing of a long reply is cut off by the next one.
func TestLongReplyNotRead(t *testing.T) {
	here, there := socketPair(t)
	const limit = 1 << 20
	o := newOutbox(here, func() int { return limit })
	long := make([]byte, 4*limit)
	if err := o.send(long); err != nil {
		t.Fatalf("the first reply: %v", err)
	}
	if n := o.pending(); n <= limit {
		t.Fatalf("%d bytes are queued", n)
	}
	if err := o.reply(long, false); !errors.Is(err, errOutputLimit) {
		t.Errorf("the second reply: %v", err)
	}
	there.Close()
	o.wait()
}

// The time of the soft limit begins anew whenever the client takes something of a reply that is longer than the limit.
func TestSoftLimitOfLongReply(t *testing.T) {
	here, there := socketPair(t)
	const limit = 1 << 20
	o := newOutbox(here, func() int { return limit })
	during := time.Hour
	o.soft = func() (int, time.Duration) { return limit / 2, during }
	long := make([]byte, 4*limit)
	if err := o.send(long); err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	if o.over == nil {
		t.Error("the soft limit is exceeded, and no time runs")
	}
	during = time.Millisecond // from the next piece on
	o.mu.Unlock()
	there.SetReadDeadline(time.Now().Add(patience))
	io.ReadFull(there, make([]byte, 8*drainPiece))
	eventually(t, "the client, which takes no more, is cut off", func() bool { return errors.Is(o.failure(), errOutputLimit) })
}
