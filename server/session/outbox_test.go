package session_test

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

// A client that sends commands and never reads is disconnected at the output limit. The heap is bounded until then, and
// afterwards other clients are served.
func TestSlowReader(t *testing.T) {
	h := servertest.Start(t)
	const limit = 4 << 20
	h.Sessions().Limits.Out.Store(limit)
	c := h.Dial(t)
	c.Want("SET k "+strings.Repeat("v", 10000), "+OK\r\n")
	flood(h, t, c, limit)
	h.Dial(t).Want("PING", "+PONG\r\n")
}

// flood sends GET k again and again and reads nothing, until the server disconnects the client. It checks that the heap
// grows by at most 16 times the output limit meanwhile.
func flood(h *servertest.Harness, t *testing.T, c *servertest.Client, limit int) {
	t.Helper()
	before := heapAlive()
	before = min(before, heapAlive()) // a sync.Pool releases its objects only at the second garbage collection
	request := []byte(strings.Repeat(servertest.Pipeline("GET k"), 100))
	var peak int64
	for sent := 0; ; sent++ {
		if sent > 20000 {
			t.Fatal("20 GB of replies were asked for, and the client is still connected")
		}
		c.SetWriteDeadline(time.Now().Add(servertest.Patience))
		if _, err := c.Write(request); err != nil {
			break
		}
		if sent%16 == 0 {
			peak = max(peak, heapAlive()) // live objects only: the amount of garbage depends on other tests
		}
	}
	if grown := peak - before; grown > 16*int64(limit) {
		t.Errorf("the heap grew by %d MiB; the limit is %d MiB", grown>>20, limit>>20)
	}
	servertest.Eventually(t, "the client is forgotten", func() bool { return h.Sessions().Clients() == 0 })
	if n := h.Logs.FilterMessage("a client that does not read its replies was disconnected").Len(); n != 1 {
		t.Errorf("%d log lines about it", n)
	}
}

// heapInUse returns the number of bytes of the heap in use, with garbage.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

var queuedBytes = regexp.MustCompile(` omem=(\d+)`)

// A client that reads gets a reply that is longer than the output limit, and also replies of a pipeline that are longer
// than the limit together.
func TestLongReplies(t *testing.T) {
	const limit, size = 1 << 20, 5 << 20
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			var h *servertest.Harness
			var dial func() *servertest.Client
			if layer == "TLS" {
				secure, ca := servertest.StartTLS(t)
				h, dial = secure, func() *servertest.Client { return secure.DialTLS(t, ca.Client("")) }
			} else {
				h = servertest.Start(t)
				dial = func() *servertest.Client { return h.Dial(t) }
			}
			c, watcher := dial(), dial()
			c.Want("PING", "+PONG\r\n")
			// On a busy host a client that reads must not be taken for a client that does not.
			h.Sessions().Each(func(c *session.Loop) { c.Wire().SetPatience(servertest.Patience) })
			h.Sessions().Limits.Out.Store(limit)
			values := map[string]string{"long": strings.Repeat("v", size), "short": strings.Repeat("w", limit/2)}
			for key, value := range values {
				c.Want("SET "+key+" "+value, "+OK\r\n")
			}
			gets := append(slices.Repeat([]string{"short", "long"}, 4), slices.Repeat([]string{"short"}, 64)...)
			commands := ""
			for _, key := range gets {
				commands += servertest.Encode("GET", key)
			}
			c.Send(commands)
			// The client begins to read when at least half of the limit is queued.
			servertest.Eventually(t, "replies are queued", func() bool {
				for _, m := range queuedBytes.FindAllStringSubmatch(watcher.Do("CLIENT", "LIST"), -1) {
					if n, _ := strconv.Atoi(m[1]); n >= limit/2 {
						return true
					}
				}
				return false
			})
			for i, key := range gets {
				if got, want := c.Reply(), fmt.Sprintf("$%d\r\n%s\r\n", len(values[key]), values[key]); got != want {
					t.Fatalf("reply %d: %d bytes that begin with %.40q, want %d of %.40q", i, len(got), got, len(want), want)
				}
			}
			c.Want("PING", "+PONG\r\n")
		})
	}
}
