package server

import (
	"fmt"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
				served.wire.SetPatience(patience)
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
