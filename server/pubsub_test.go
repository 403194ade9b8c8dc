package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
)

// push is the RESP3 form of a message.
func push(elems ...string) string { return ">" + encode(elems...)[1:] }

// confirmed is the confirmation of a subscription.
func confirmed(mark, kind, name string, count int) string {
	return fmt.Sprintf("%s3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%d\r\n", mark, len(kind), kind, len(name), name, count)
}

// A subscriber gets the messages of its channels and patterns, each as often as it has subscriptions that fit.
func TestSubscriptions(t *testing.T) {
	h := start(t)
	p := h.dial(t)
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			mark, msg := "*", bulk
			s := h.dial(t)
			if proto == "3" {
				mark, msg = ">", push
				s.do("HELLO", "3")
			}
			expect := func(want string) {
				t.Helper()
				if got := s.reply(); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			s.send(encode("SUBSCRIBE", "a", "b", "a") + encode("PSUBSCRIBE", "a*") + encode("SSUBSCRIBE", "a"))
			expect(confirmed(mark, "subscribe", "a", 1))
			expect(confirmed(mark, "subscribe", "b", 2))
			expect(confirmed(mark, "subscribe", "a", 2))
			expect(confirmed(mark, "psubscribe", "a*", 3))
			expect(confirmed(mark, "ssubscribe", "a", 1))
			p.want("PUBLISH a 1", ":2\r\n")
			p.want("PUBLISH b 2", ":1\r\n")
			p.want("PUBLISH ab 3", ":1\r\n")
			p.want("PUBLISH c 4", ":0\r\n")
			p.want("SPUBLISH a 5", ":1\r\n")
			p.want("SPUBLISH b 6", ":0\r\n")
			p.want("MPUBLISH b 7 8", ":2\r\n")
			expect(msg("message", "a", "1"))
			expect(msg("pmessage", "a*", "a", "1"))
			expect(msg("message", "b", "2"))
			expect(msg("pmessage", "a*", "ab", "3"))
			expect(msg("smessage", "a", "5"))
			expect(msg("message", "b", "7"))
			expect(msg("message", "b", "8"))
			p.want("PUBSUB NUMSUB a c", "*4\r\n$1\r\na\r\n:1\r\n$1\r\nc\r\n:0\r\n")
			p.want("PUBSUB SHARDCHANNELS", bulk("a"))
			p.want("PUBSUB NUMPAT", ":1\r\n")
			s.send(encode("UNSUBSCRIBE"))
			expect(confirmed(mark, "unsubscribe", "a", 2))
			expect(confirmed(mark, "unsubscribe", "b", 1))
			p.want("PUBLISH b x", ":0\r\n")
			if proto == "2" {
				for cmd, name := range map[string]string{"GET k": "get", "CLIENT ID": "client|id"} {
					s.want(cmd, "-ERR Can't execute '"+name+"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n")
				}
			} else {
				s.want("SET k v", "+OK\r\n")
				// Who publishes to itself has the message behind the reply, as in Redis 7.2, with CLIENT REPLY OFF too.
				s.send(encode("PUBLISH", "ab", "own") + encode("PING"))
				expect(":1\r\n")
				expect(push("pmessage", "a*", "ab", "own"))
				expect("+PONG\r\n")
				s.send(encode("CLIENT", "REPLY", "OFF") + encode("PUBLISH", "ab", "own") + encode("CLIENT", "REPLY", "ON"))
				expect(push("pmessage", "a*", "ab", "own"))
				expect("+OK\r\n")
			}
			s.Close()
			eventually(t, "the subscriptions end", func() bool { return h.hub.Len() == 0 })
			p.want("PUBSUB CHANNELS", "*0\r\n")
		})
	}
}

// An empty pattern matches an empty channel, and the message says so.
func TestEmptyPattern(t *testing.T) {
	h := start(t)
	s, p := h.dial(t), h.dial(t)
	s.do("PSUBSCRIBE", "")
	p.send(encode("PUBLISH", "", "m"))
	if got := p.reply(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
	if got, want := s.reply(), bulk("pmessage", "", "", "m"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A transaction that begins before a subscription of its own goes on behind it, also in RESP2.
func TestSubscribeInTransaction(t *testing.T) {
	h := start(t)
	s := h.dial(t)
	for _, cmd := range [][]string{{"MULTI"}, {"SUBSCRIBE", "a"}, {"PUBLISH", "a", "m"}} {
		s.do(cmd...)
	}
	if got, want := s.do("EXEC"), "*2\r\n"+confirmed("*", "subscribe", "a", 1)+":1\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := s.reply(), bulk("message", "a", "m"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c := h.dial(t)
	for _, cmd := range [][]string{{"MULTI"}, {"SSUBSCRIBE", "a"}, {"SPUBLISH", "a", "m"}} {
		c.do(cmd...)
	}
	c.want("EXEC", "*2\r\n-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n:0\r\n")
}

// What was confirmed is in force, and nothing comes before the confirmation.
func TestConfirmationComesFirst(t *testing.T) {
	h := start(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	p := h.dial(t)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.do("PUBLISH", "c", "m")
			}
		}
	})
	for range 50 {
		s := h.dial(t)
		if got, want := s.do("SUBSCRIBE", "c"), confirmed("*", "subscribe", "c", 1); got != want {
			t.Fatalf("first %q, want %q", got, want)
		}
		if got, want := s.reply(), bulk("message", "c", "m"); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		s.Close()
	}
	close(stop)
	wg.Wait()
}

// Messages of a transaction are sent when it is committed, and not when that fails.
func TestPublishInTransaction(t *testing.T) {
	h := start(t)
	s, p := h.dial(t), h.dial(t)
	s.do("SUBSCRIBE", "c")
	h.db.InjectWriteError(engine.NewError("ERR", "write failed"))
	p.send(pipeline("MULTI", "SET k v", "PUBLISH c lost", "EXEC", "SET k v", "PUBLISH c alone"))
	for i, want := range []string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "-ERR write failed\r\n",
		"-ERR write failed\r\n", ":1\r\n"} {
		if got := p.reply(); got != want {
			t.Errorf("reply %d: %q, want %q", i, got, want)
		}
	}
	h.db.InjectWriteError(nil)
	p.send(pipeline("MULTI", "SET k v", "PUBLISH c sent", "EXEC"))
	for range 3 {
		p.reply()
	}
	if got, want := p.reply(), "*2\r\n+OK\r\n:1\r\n"; got != want {
		t.Errorf("EXEC: %q, want %q", got, want)
	}
	for _, want := range []string{"alone", "sent"} {
		if got := s.reply(); got != bulk("message", "c", want) {
			t.Errorf("%q, want the message %q", got, want)
		}
	}
}

// A subscriber that does not read is cut off, and nobody waits for it.
func TestSlowSubscriberIsCutOff(t *testing.T) {
	h := start(t)
	h.limits.out.Store(1 << 20)
	slow, p := h.dial(t), h.dial(t)
	slow.do("SUBSCRIBE", "c")
	payload := strings.Repeat("x", 64<<10)
	last := ""
	for end := time.Now().Add(patience); last != ":0\r\n"; {
		if time.Now().After(end) {
			t.Fatal("the subscriber is still there")
		}
		last = p.do("PUBLISH", "c", payload)
	}
	io.Copy(io.Discard, slow)
	eventually(t, "the connection ends", func() bool { return h.clients() == 1 })
}

// Many subscribe, publish and go at the same time; everybody gets all messages from its subscription on, in order.
func TestConcurrentPubSub(t *testing.T) {
	h := start(t)
	const publishers, messages, subscribers = 3, 200, 20
	var ready, done sync.WaitGroup
	ready.Add(subscribers)
	for i := range subscribers {
		s := h.dial(t)
		done.Go(func() {
			if i%2 == 0 {
				s.do("SUBSCRIBE", "c")
			} else {
				s.do("PSUBSCRIBE", "?")
			}
			ready.Done()
			next := map[string]int{}
			for range publishers * messages {
				f := strings.Split(s.reply(), "\r\n")
				var who, n int
				fmt.Sscanf(f[len(f)-2], "%d:%d", &who, &n)
				if next[fmt.Sprint(who)] != n {
					t.Errorf("subscriber %d got message %d of %d, want %d", i, n, who, next[fmt.Sprint(who)])
					return
				}
				next[fmt.Sprint(who)]++
			}
		})
	}
	ready.Wait()
	for p := range publishers {
		c := h.dial(t)
		done.Go(func() {
			var b strings.Builder
			for i := range messages {
				b.WriteString(encode("PUBLISH", "c", fmt.Sprintf("%d:%d", p, i)))
			}
			c.send(b.String())
			for range messages {
				if r := c.reply(); r != fmt.Sprintf(":%d\r\n", subscribers) {
					t.Errorf("PUBLISH: %q", r)
				}
			}
		})
	}
	done.Wait()
}

// All subscribers see the messages of all publishers in the same order.
func TestMessagesHaveOneOrder(t *testing.T) {
	h := start(t)
	const publishers, messages, subscribers = 8, 500, 40
	seen := make([][]string, subscribers)
	var done sync.WaitGroup
	for i := range subscribers {
		s := h.dial(t)
		s.do("SUBSCRIBE", "c")
		done.Go(func() {
			for range publishers * messages {
				seen[i] = append(seen[i], s.reply())
			}
		})
	}
	for p := range publishers {
		c := h.dial(t)
		done.Go(func() {
			var b strings.Builder
			for i := range messages {
				b.WriteString(encode("PUBLISH", "c", fmt.Sprintf("%d:%d", p, i)))
			}
			c.send(b.String())
			for range messages {
				c.reply()
			}
		})
	}
	done.Wait()
	for i := range seen {
		if !slices.Equal(seen[i], seen[0]) {
			t.Fatalf("subscriber %d has seen another order than subscriber 0", i)
		}
	}
}

// A message costs its publisher no allocation for each subscriber.
func TestPublishDoesNotAllocatePerSubscriber(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const subscribers = 200
	h := start(t)
	for range subscribers {
		s := h.dial(t)
		s.do("SUBSCRIBE", "c")
		go io.Copy(io.Discard, s.Conn)
	}
	here, _ := socketPair(t)
	c := newConn(h.Shared, here, 1<<40)
	message := strings.Repeat(pipeline("PUBLISH c message"), 16)
	publish := func() { c.feed(message) }
	for range 20 {
		publish()
	}
	// Buffers are allocated anew after a garbage collection, of which there may be several on a busy machine. One
	// allocation for each subscriber would be more than 3000, every time.
	var n float64
	for range 5 {
		if n = testing.AllocsPerRun(100, publish); n <= subscribers/2 {
			return
		}
	}
	t.Errorf("%v allocations for 16 messages to %d subscribers", n, subscribers)
}
