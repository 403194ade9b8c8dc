package session_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// push returns the RESP3 form of a message.
func push(elems ...string) string { return ">" + servertest.Encode(elems...)[1:] }

// confirmed returns the confirmation of a subscription.
func confirmed(mark, kind, name string, count int) string {
	return fmt.Sprintf("%s3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%d\r\n", mark, len(kind), kind, len(name), name, count)
}

// After the reply to QUIT nobody sees a subscription of the connection.
func TestQuitUnsubscribes(t *testing.T) {
	h := servertest.Start(t)
	p := h.Dial(t)
	for range 20 {
		s := h.Dial(t)
		s.Want("SUBSCRIBE a", confirmed("*", "subscribe", "a", 1))
		s.Want("PSUBSCRIBE a*", confirmed("*", "psubscribe", "a*", 2))
		s.Want("QUIT", "+OK\r\n")
		p.Want("PUBSUB CHANNELS", "*0\r\n")
		p.Want("PUBSUB NUMPAT", ":0\r\n")
	}
}

// A subscriber gets the messages of its channels and patterns, one for each subscription that matches.
func TestSubscriptions(t *testing.T) {
	h := servertest.Start(t)
	p := h.Dial(t)
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			mark, msg := "*", servertest.Bulk
			s := h.Dial(t)
			if proto == "3" {
				mark, msg = ">", push
				s.Do("HELLO", "3")
			}
			expect := func(want string) {
				t.Helper()
				if got := s.Reply(); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			s.Send(servertest.Encode("SUBSCRIBE", "a", "b", "a") + servertest.Encode("PSUBSCRIBE", "a*") +
				servertest.Encode("SSUBSCRIBE", "a"))
			expect(confirmed(mark, "subscribe", "a", 1))
			expect(confirmed(mark, "subscribe", "b", 2))
			expect(confirmed(mark, "subscribe", "a", 2))
			expect(confirmed(mark, "psubscribe", "a*", 3))
			expect(confirmed(mark, "ssubscribe", "a", 1))
			p.Want("PUBLISH a 1", ":2\r\n")
			p.Want("PUBLISH b 2", ":1\r\n")
			p.Want("PUBLISH ab 3", ":1\r\n")
			p.Want("PUBLISH c 4", ":0\r\n")
			p.Want("SPUBLISH a 5", ":1\r\n")
			p.Want("SPUBLISH b 6", ":0\r\n")
			p.Want("MPUBLISH b 7 8", ":2\r\n")
			expect(msg("message", "a", "1"))
			expect(msg("pmessage", "a*", "a", "1"))
			expect(msg("message", "b", "2"))
			expect(msg("pmessage", "a*", "ab", "3"))
			expect(msg("smessage", "a", "5"))
			expect(msg("message", "b", "7"))
			expect(msg("message", "b", "8"))
			p.Want("PUBSUB NUMSUB a c", "*4\r\n$1\r\na\r\n:1\r\n$1\r\nc\r\n:0\r\n")
			p.Want("PUBSUB SHARDCHANNELS", servertest.Bulk("a"))
			p.Want("PUBSUB NUMPAT", ":1\r\n")
			s.Send(servertest.Encode("UNSUBSCRIBE"))
			expect(confirmed(mark, "unsubscribe", "a", 2))
			expect(confirmed(mark, "unsubscribe", "b", 1))
			p.Want("PUBLISH b x", ":0\r\n")
			if proto == "2" {
				for cmd, name := range map[string]string{"GET k": "get", "CLIENT ID": "client|id"} {
					s.Want(cmd, "-ERR Can't execute '"+name+
						"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n")
				}
			} else {
				s.Want("SET k v", "+OK\r\n")
				// A client that publishes to itself gets the message after the reply, as in Redis 7.2, and also with CLIENT
				// REPLY OFF.
				s.Send(servertest.Encode("PUBLISH", "ab", "own") + servertest.Encode("PING"))
				expect(":1\r\n")
				expect(push("pmessage", "a*", "ab", "own"))
				expect("+PONG\r\n")
				s.Send(servertest.Encode("CLIENT", "REPLY", "OFF") + servertest.Encode("PUBLISH", "ab", "own") +
					servertest.Encode("CLIENT", "REPLY", "ON"))
				expect(push("pmessage", "a*", "ab", "own"))
				expect("+OK\r\n")
			}
			s.Close()
			servertest.Eventually(t, "the subscriptions end", func() bool { return h.Sessions().Hub.Len() == 0 })
			p.Want("PUBSUB CHANNELS", "*0\r\n")
		})
	}
}

// An empty pattern matches an empty channel, and the message has both.
func TestEmptyPattern(t *testing.T) {
	h := servertest.Start(t)
	s, p := h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "")
	p.Send(servertest.Encode("PUBLISH", "", "m"))
	if got := p.Reply(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
	if got, want := s.Reply(), servertest.Bulk("pmessage", "", "", "m"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The commands after SUBSCRIBE in a transaction run, also in RESP2, where a subscriber may not send them.
func TestSubscribeInTransaction(t *testing.T) {
	h := servertest.Start(t)
	s := h.Dial(t)
	for _, cmd := range [][]string{{"MULTI"}, {"SUBSCRIBE", "a"}, {"PUBLISH", "a", "m"}} {
		s.Do(cmd...)
	}
	if got, want := s.Do("EXEC"), "*2\r\n"+confirmed("*", "subscribe", "a", 1)+":1\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := s.Reply(), servertest.Bulk("message", "a", "m"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c := h.Dial(t)
	for _, cmd := range [][]string{{"MULTI"}, {"SSUBSCRIBE", "a"}, {"SPUBLISH", "a", "m"}} {
		c.Do(cmd...)
	}
	c.Want("EXEC", "*2\r\n-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n:0\r\n")
}

// A user that loses a channel while SUBSCRIBE runs loses the subscriber.
func TestSubscriberLosesItsChannel(t *testing.T) {
	h := servertest.Start(t)
	users := h.Sessions().Auth.ACL()
	for _, lost := range []bool{false, true} {
		require.NoError(t, users.SetUser("bob", "on", "nopass", "+@all", "&a"))
		loop := loopTo(t, h.Sessions())
		loop.Feed(servertest.Pipeline("AUTH bob x"))
		spec := *command.Lookup([]byte("SUBSCRIBE"))
		subscribe := spec.Handler
		spec.Handler = func(c *command.Ctx) error {
			if lost {
				require.NoError(t, users.SetUser("bob", "resetchannels"))
			}
			return subscribe(c)
		}
		if _, ends := loop.Execute([]*command.Spec{&spec}, [][][]byte{{[]byte("SUBSCRIBE"), []byte("a")}}); ends != lost {
			t.Errorf("lost: %v, and the session ends: %v", lost, ends)
		}
		loop.UnsubscribeAll()
	}
}

// What others publish while a transaction with SUBSCRIBE runs comes behind its reply, also if CLIENT REPLY drops that.
func TestMessagesFollowTheTransaction(t *testing.T) {
	h := servertest.Start(t)
	p := h.Dial(t)
	message := servertest.Bulk("message", "a", "x")
	for _, c := range []struct {
		before string
		want   []string
	}{
		{"PING", []string{"+PONG\r\n", "+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n",
			"*2\r\n" + confirmed("*", "subscribe", "a", 1) + "+OK\r\n", message}},
		{"CLIENT REPLY OFF", []string{message}},
	} {
		s := h.Dial(t)
		s.Send(servertest.Pipeline(c.before, "MULTI", "SUBSCRIBE a", "DEBUG SLEEP 0.05", "EXEC"))
		servertest.Eventually(t, "the subscription", func() bool { return p.Do("PUBLISH", "a", "x") == ":1\r\n" })
		for _, want := range c.want {
			s.Expect(want)
		}
		s.Close()
		servertest.Eventually(t, "its end", func() bool { return h.Sessions().Hub.Len() == 0 })
	}
}

// After the confirmation a subscriber gets messages, and before it none.
func TestConfirmationComesFirst(t *testing.T) {
	h := servertest.Start(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	p := h.Dial(t)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.Do("PUBLISH", "c", "m")
			}
		}
	})
	for range 50 {
		s := h.Dial(t)
		if got, want := s.Do("SUBSCRIBE", "c"), confirmed("*", "subscribe", "c", 1); got != want {
			t.Fatalf("first %q, want %q", got, want)
		}
		if got, want := s.Reply(), servertest.Bulk("message", "c", "m"); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		s.Close()
	}
	close(stop)
	wg.Wait()
}

// The messages of a transaction are sent after its commit, and are dropped if the commit fails.
func TestPublishInTransaction(t *testing.T) {
	h := servertest.Start(t)
	s, p := h.Dial(t), h.Dial(t)
	s.Do("SUBSCRIBE", "c")
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed"))
	p.Send(servertest.Pipeline("MULTI", "SET k v", "PUBLISH c lost", "EXEC", "SET k v", "PUBLISH c alone"))
	for i, want := range []string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "-ERR write failed\r\n",
		"-ERR write failed\r\n", ":1\r\n"} {
		if got := p.Reply(); got != want {
			t.Errorf("reply %d: %q, want %q", i, got, want)
		}
	}
	h.DB.InjectWriteError(nil)
	p.Send(servertest.Pipeline("MULTI", "SET k v", "PUBLISH c sent", "EXEC"))
	for range 3 {
		p.Reply()
	}
	if got, want := p.Reply(), "*2\r\n+OK\r\n:1\r\n"; got != want {
		t.Errorf("EXEC: %q, want %q", got, want)
	}
	for _, want := range []string{"alone", "sent"} {
		if got := s.Reply(); got != servertest.Bulk("message", "c", want) {
			t.Errorf("%q, want the message %q", got, want)
		}
	}
}

// A subscriber that does not read is disconnected, and publishers do not wait for it.
func TestSlowSubscriberIsCutOff(t *testing.T) {
	h := servertest.Start(t)
	h.Sessions().Limits.Out.Store(1 << 20)
	slow, p := h.Dial(t), h.Dial(t)
	slow.Do("SUBSCRIBE", "c")
	payload := strings.Repeat("x", 64<<10)
	last := ""
	for end := time.Now().Add(servertest.Patience); last != ":0\r\n"; {
		if time.Now().After(end) {
			t.Fatal("the subscriber is still connected")
		}
		last = p.Do("PUBLISH", "c", payload)
	}
	io.Copy(io.Discard, slow)
	servertest.Eventually(t, "the connection ends", func() bool { return h.Sessions().Clients() == 1 })
}

// Several publishers send at the same time: each subscriber gets all messages of each publisher, in order.
func TestConcurrentPubSub(t *testing.T) {
	h := servertest.Start(t)
	const publishers, messages, subscribers = 3, 200, 20
	var ready, done sync.WaitGroup
	ready.Add(subscribers)
	for i := range subscribers {
		s := h.Dial(t)
		done.Go(func() {
			if i%2 == 0 {
				s.Do("SUBSCRIBE", "c")
			} else {
				s.Do("PSUBSCRIBE", "?")
			}
			ready.Done()
			next := map[string]int{}
			for range publishers * messages {
				f := strings.Split(s.Reply(), "\r\n")
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
		c := h.Dial(t)
		done.Go(func() {
			var b strings.Builder
			for i := range messages {
				b.WriteString(servertest.Encode("PUBLISH", "c", fmt.Sprintf("%d:%d", p, i)))
			}
			c.Send(b.String())
			for range messages {
				if r := c.Reply(); r != fmt.Sprintf(":%d\r\n", subscribers) {
					t.Errorf("PUBLISH: %q", r)
				}
			}
		})
	}
	done.Wait()
}

// All subscribers see the messages of all publishers in the same order.
func TestMessagesHaveOneOrder(t *testing.T) {
	h := servertest.Start(t)
	const publishers, messages, subscribers = 8, 500, 40
	seen := make([][]string, subscribers)
	var done sync.WaitGroup
	for i := range subscribers {
		s := h.Dial(t)
		s.Do("SUBSCRIBE", "c")
		done.Go(func() {
			for range publishers * messages {
				seen[i] = append(seen[i], s.Reply())
			}
		})
	}
	for p := range publishers {
		c := h.Dial(t)
		done.Go(func() {
			var b strings.Builder
			for i := range messages {
				b.WriteString(servertest.Encode("PUBLISH", "c", fmt.Sprintf("%d:%d", p, i)))
			}
			c.Send(b.String())
			for range messages {
				c.Reply()
			}
		})
	}
	done.Wait()
	for i := range seen {
		if !slices.Equal(seen[i], seen[0]) {
			t.Fatalf("subscriber %d has seen the messages in another order than subscriber 0", i)
		}
	}
}

// The number of allocations for a message does not depend on the number of subscribers.
func TestPublishDoesNotAllocatePerSubscriber(t *testing.T) {
	if servertest.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	const subscribers = 200
	h := servertest.Start(t)
	for range subscribers {
		s := h.Dial(t)
		s.Do("SUBSCRIBE", "c")
		go io.Copy(io.Discard, s.Conn)
	}
	here, _ := wiretest.SocketPair(t)
	c := session.NewLoop(h.Sessions(), here, 1<<40)
	message := strings.Repeat(servertest.Pipeline("PUBLISH c message"), 16)
	publish := func() { c.Feed(message) }
	for range 20 {
		publish()
	}
	// Pools allocate buffers again after a garbage collection, and several collections may happen on a busy host. One
	// allocation for each message and subscriber would be more than 3000, every time.
	var n float64
	for range 5 {
		if n = testing.AllocsPerRun(100, publish); n <= subscribers/2 {
			return
		}
	}
	t.Errorf("%v allocations for 16 messages to %d subscribers", n, subscribers)
}
