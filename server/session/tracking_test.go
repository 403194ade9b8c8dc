package session_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
)

// A client gets an invalidation when a field of a hash expires, also while fields that expired before are still stored.
func TestTrackedFieldExpires(t *testing.T) {
	h := servertest.Start(t)
	w := h.Dial(t)
	for _, first := range []string{"HSET h live 1", "HSET h live 1;HSETEX h PX 1 FIELDS 1 old v"} {
		w.DoAll(first)
		servertest.Eventually(t, "the field before expires", func() bool { return w.Do("HEXISTS", "h", "old") == ":0\r\n" })
		var c *servertest.Client
		servertest.InTime(t, 50*time.Millisecond, func(life time.Duration) error {
			c = h.Dial3(t) // the client of an earlier attempt may already have got an invalidation
			if err := w.Replies(fmt.Sprint("HSETEX h PX ", life.Milliseconds(), " FIELDS 1 f v"), ":1\r\n"); err != nil {
				return err
			}
			return c.Replies("CLIENT TRACKING ON", "+OK\r\n", "HGET h f", "$1\r\nv\r\n")
		})
		c.Expect(servertest.Invalidated("h"))
		servertest.Eventually(t, "the field expires", func() bool { return w.Do("HEXISTS", "h", "f") == ":0\r\n" })
		c.Quiet()
		w.Do("DEL", "h")
	}
}

func TestTracking(t *testing.T) {
	h := servertest.Start(t)
	c, w := h.Dial3(t), h.Dial(t)
	c.Want("CLIENT TRACKING ON", "+OK\r\n")
	c.Want("GET a", "_\r\n")
	c.Do("HGETALL", "h")
	c.Do("MGET", "m1", "m2")
	for _, tc := range []struct{ write, key string }{
		{"SET a 1", "a"}, {"HSET h f v", "h"}, {"MSET m2 x m3 y", "m2"}, {"SET m1 1", "m1"},
	} {
		w.Do(strings.Fields(tc.write)...)
		c.Expect(servertest.Invalidated(tc.key))
		w.Do(strings.Fields(tc.write)...) // the client has not read the key again: no second invalidation
		c.Quiet()
	}
	// The client's own write: the invalidation comes after the reply.
	c.Want("GET a", "$1\r\n1\r\n")
	c.Want("SET a 2", "+OK\r\n")
	c.Expect(servertest.Invalidated("a"))
	// All the ways in which a key can change.
	for _, write := range []string{"EXPIRE a 100", "DEL a", "RENAME b a", "MULTI;SET a 1;EXEC", "RPUSH a x"} {
		w.Do("DEL", "a")
		w.Do("SET", "b", "b")
		if strings.HasPrefix(write, "DEL") || strings.HasPrefix(write, "EXPIRE") {
			w.Do("SET", "a", "1")
		}
		c.Do("EXISTS", "a")
		w.DoAll(write)
		c.Expect(servertest.Invalidated("a"))
	}
	// A key that a script reads.
	c.Do("EVAL", "return redis.call('GET', KEYS[1])", "1", "scripted")
	w.Do("SET", "scripted", "1")
	c.Expect(servertest.Invalidated("scripted"))
	for _, eval := range []string{"EVAL", "EVAL_RO"} { // a key that is declared but not read
		c.Do(eval, "return 1", "1", "scripted")
		w.Do("SET", "scripted", "2")
		c.Quiet()
	}
	// Keys that the client has only written, or not accessed.
	c.Do("SET", "own", "1")
	w.Do("SET", "own", "2")
	w.Do("SET", "other", "2")
	c.Quiet()
	// A flush.
	c.Do("GET", "x")
	w.Want("FLUSHALL", "+OK\r\n")
	c.Expect(servertest.Invalidated())
	w.Do("SET", "x", "1")
	c.Quiet()
	c.Want("CLIENT TRACKINGINFO",
		"%3\r\n$5\r\nflags\r\n~1\r\n$2\r\non\r\n$8\r\nredirect\r\n:0\r\n$8\r\nprefixes\r\n*0\r\n")
	c.Want("CLIENT GETREDIR", ":0\r\n")
	c.Want("GET x", "$1\r\n1\r\n")
	c.Want("CLIENT TRACKING OFF", "+OK\r\n")
	w.Do("SET", "x", "2")
	c.Quiet()
	c.Want("CLIENT GETREDIR", ":-1\r\n")
	if n := h.Sessions().Tracker.Keys() + h.Sessions().Tracker.Items() + int64(h.Sessions().Tracker.Clients()); n != 0 {
		t.Errorf("%d keys, items and clients are left in the table", n)
	}
}

// A blocked client gets its reply before the invalidations of the commit that served it.
func TestTrackingOfBlockedClients(t *testing.T) {
	h := servertest.Start(t)
	for _, tt := range []struct{ name, before, push string }{
		{"served by the client that pushes", "RPUSH l a", "RPUSH k x"},
		{"served by itself", "RPUSH l x", "COPY l k"}, // COPY has only a read lock of l
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := h.Dial3(t), h.Dial(t)
			w.Do("FLUSHALL")
			w.Do(strings.Fields(tt.before)...)
			c.Want("CLIENT TRACKING ON", "+OK\r\n")
			c.Do("LRANGE", "l", "0", "-1")
			c.Send(servertest.Pipeline("BLMOVE k l LEFT LEFT 0"))
			h.BlockedClients(t, 1)
			w.Want(tt.push, ":1\r\n")
			c.Expect("$1\r\nx\r\n")
			c.Expect(servertest.Invalidated("l"))
			c.Quiet()
		})
	}
}

func TestTrackingExpiry(t *testing.T) {
	h := servertest.Start(t)
	var c *servertest.Client
	servertest.InTime(t, 50*time.Millisecond, func(life time.Duration) error {
		c = h.Dial3(t)
		return c.Replies("CLIENT TRACKING ON", "+OK\r\n", fmt.Sprint("SET k v PX ", life.Milliseconds()), "+OK\r\n",
			"GET k", "$1\r\nv\r\n")
	})
	c.Expect(servertest.Invalidated("k"))
	c.Want("GET k", "_\r\n")
}

func TestTrackingOptions(t *testing.T) {
	h := servertest.Start(t)
	w := h.Dial(t)
	t.Run("OPTIN", func(t *testing.T) {
		c := h.Dial3(t)
		c.Want("CLIENT TRACKING ON OPTIN", "+OK\r\n")
		c.Do("GET", "a")
		c.Send(servertest.Pipeline("CLIENT CACHING YES", "GET b", "GET c"))
		c.Expect("+OK\r\n")
		c.Reply()
		c.Reply()
		w.Do("MSET", "a", "1", "b", "1", "c", "1")
		c.Expect(servertest.Invalidated("b"))
		c.Quiet()
		c.Send(servertest.Pipeline("CLIENT CACHING YES", "MULTI", "GET a", "GET b", "EXEC", "GET c"))
		for range 6 {
			c.Reply()
		}
		w.Do("SET", "c", "2")
		w.Do("SET", "a", "2")
		c.Expect(servertest.Invalidated("a"))
		w.Do("SET", "b", "2")
		c.Expect(servertest.Invalidated("b"))
		c.Want("CLIENT CACHING NO", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n")
	})
	t.Run("OPTOUT", func(t *testing.T) {
		c := h.Dial3(t)
		c.Want("CLIENT TRACKING ON OPTOUT", "+OK\r\n")
		c.Do("GET", "a")
		c.Send(servertest.Pipeline("CLIENT CACHING NO", "GET b"))
		c.Reply()
		c.Reply()
		w.Do("SET", "b", "1")
		w.Do("SET", "a", "1")
		c.Expect(servertest.Invalidated("a"))
		c.Quiet()
	})
	t.Run("NOLOOP", func(t *testing.T) {
		c := h.Dial3(t)
		c.Want("CLIENT TRACKING ON NOLOOP", "+OK\r\n")
		c.Do("GET", "a")
		c.Do("SET", "a", "1")
		c.Quiet()
		c.Do("GET", "a")
		w.Do("SET", "a", "1")
		c.Expect(servertest.Invalidated("a"))
	})
	t.Run("changed options", func(t *testing.T) {
		c, to := h.Dial3(t), h.Dial3(t)
		id := strings.Trim(to.Do("CLIENT", "ID"), ":\r\n")
		c.Want("CLIENT TRACKING ON", "+OK\r\n")
		c.Do("MGET", "a", "b", "c")
		c.Want("CLIENT TRACKING ON NOLOOP", "+OK\r\n")
		w.Do("SET", "a", "1")
		c.Expect(servertest.Invalidated("a"))
		c.Do("SET", "b", "1")
		c.Want("CLIENT TRACKING ON OPTIN REDIRECT "+id, "+OK\r\n")
		w.Do("SET", "c", "1")
		to.Expect(servertest.Invalidated("c"))
		c.Quiet()
	})
	t.Run("BCAST", func(t *testing.T) {
		c := h.Dial3(t)
		c.Want("CLIENT TRACKING ON BCAST PREFIX user: PREFIX object:", "+OK\r\n")
		w.Do("MSET", "user:1", "1", "none", "1", "object:2", "1")
		c.Expect(servertest.Invalidated("object:2")) // one message for each prefix
		c.Expect(servertest.Invalidated("user:1"))
		w.Do("MSET", "user:1", "1", "user:2", "1")
		c.Expect(servertest.Invalidated("user:1", "user:2"))
		w.Do("DEL", "user:1", "user:2")
		c.Expect(servertest.Invalidated("user:1", "user:2"))
		w.DoAll("MULTI;HSET user:1 f v;HSET user:2 f v;HSET user:1 g v;EXEC")
		c.Expect(servertest.Invalidated("user:1", "user:2")) // each key once
		w.Do("DEL", "user:1")
		c.Expect(servertest.Invalidated("user:1"))
		w.Do("SET", "user:1", "2")
		c.Expect(servertest.Invalidated("user:1"))
		w.Do("SET", "none", "2")
		c.Quiet()
		c.Want("CLIENT TRACKING ON BCAST PREFIX user:x",
			"-ERR Prefix 'user:x' overlaps with an existing prefix 'user:'. Prefixes for a single client must not overlap.\r\n")
	})
	t.Run("BCAST NOLOOP", func(t *testing.T) {
		c := h.Dial3(t)
		c.Want("CLIENT TRACKING ON BCAST NOLOOP", "+OK\r\n")
		c.Do("SET", "own", "1")
		c.Quiet()
		w.Do("SET", "other", "1")
		c.Expect(servertest.Invalidated("other"))
	})
	t.Run("REDIRECT", func(t *testing.T) {
		for _, proto := range []string{"2", "3"} {
			to, c := h.Dial(t), h.Dial(t)
			to.Do("HELLO", proto)
			c.Do("HELLO", "3")
			id := strings.Trim(to.Do("CLIENT", "ID"), ":\r\n")
			c.Want("CLIENT TRACKING ON REDIRECT "+id, "+OK\r\n")
			c.Want("CLIENT GETREDIR", ":"+id+"\r\n")
			to.Do("SUBSCRIBE", "__redis__:invalidate")
			c.Do("GET", "a")
			w.Do("SET", "a", "1")
			if proto == "2" {
				to.Expect("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\na\r\n")
			} else {
				to.Expect(servertest.Invalidated("a"))
			}
			c.Quiet()
			c.Do("GET", "a")
			to.Close()
			n, _ := strconv.Atoi(id)
			servertest.Eventually(t, "the connection is closed", func() bool {
				_, ok := h.Sessions().TrackingPeer(int64(n))
				return !ok
			})
			for range 2 { // each time
				c.Do("GET", "a")
				w.Do("SET", "a", "2")
				c.Expect(fmt.Sprintf(">2\r\n$21\r\ntracking-redir-broken\r\n:%s\r\n", id))
			}
			if got := c.Do("CLIENT", "TRACKINGINFO"); !strings.Contains(got, "broken_redirect") {
				t.Errorf("%q", got)
			}
		}
	})
}

// CLIENT CACHING applies to the next command only, also if that is refused, or to the whole next transaction.
func TestTrackingCaching(t *testing.T) {
	h := servertest.Start(t)
	for _, tc := range []struct {
		mode    string
		between string
		tracked bool
	}{
		{"OPTIN", "CLIENT CACHING YES", true},
		{"OPTIN", "CLIENT CACHING YES;CLIENT ID", true},
		{"OPTIN", "CLIENT CACHING YES;CLIENT NONE", true},
		{"OPTIN", "CLIENT CACHING YES;PING", false},
		{"OPTIN", "CLIENT CACHING YES;GET", false},
		{"OPTIN", "CLIENT CACHING YES;NOSUCH", false},
		{"OPTIN", "CLIENT CACHING YES;MULTI;NOSUCH;DISCARD", false},
		{"OPTOUT", "CLIENT CACHING NO", false},
		{"OPTOUT", "CLIENT CACHING NO;GET", true},
		{"OPTOUT", "CLIENT CACHING NO;NOSUCH x", true},
	} {
		c, w := h.Dial3(t), h.Dial(t)
		c.Want("CLIENT TRACKING ON "+tc.mode, "+OK\r\n")
		c.DoAll(tc.between)
		c.Do("GET", "a")
		w.Do("SET", "a", "1")
		if tc.tracked {
			c.Expect(servertest.Invalidated("a"))
		}
		c.Quiet()
	}
}

// A client in broadcasting mode gets invalidations of keys that expire, and of hashes whose fields expire, whether or
// not they existed before the client switched tracking on, and although keyspace events are off.
func TestTrackingBroadcastExpiry(t *testing.T) {
	h := servertest.Start(t)
	w := h.Dial(t)
	var c *servertest.Client
	wanted := []string{"before", "after", "fields"}
	servertest.InTime(t, 100*time.Millisecond, func(life time.Duration) error {
		ms := fmt.Sprint(life.Milliseconds())
		w.Do("FLUSHALL")
		w.Do("SET", "before", "v", "PX", ms)
		c = h.Dial3(t)
		c.Want("CLIENT TRACKING ON BCAST", "+OK\r\n")
		w.Do("SET", "after", "v", "PX", ms)
		w.Do("HSETEX", "fields", "PX", ms, "FIELDS", "1", "f", "v")
		for _, key := range []string{"after", "fields"} {
			if got := c.Reply(); got != servertest.Invalidated(key) {
				return fmt.Errorf("%q of %s", got, key)
			}
		}
		return w.Replies("EXISTS before after", ":2\r\n")
	})
	for len(wanted) > 0 {
		got := c.Reply()
		if i := slices.IndexFunc(wanted, func(k string) bool { return got == servertest.Invalidated(k) }); i < 0 {
			t.Fatalf("%q", got)
		} else {
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	// The sweep still runs when the client has ended, until its next pass, and also runs for the next client.
	c.Want("CLIENT TRACKING OFF", "+OK\r\n")
	servertest.InTime(t, 100*time.Millisecond, func(life time.Duration) error {
		c.Close()
		c = h.Dial3(t)
		w.Do("SET", "between", "v", "PX", fmt.Sprint(life.Milliseconds()))
		return c.Replies("CLIENT TRACKING ON BCAST PREFIX b", "+OK\r\n")
	})
	c.Expect(servertest.Invalidated("between"))
	c.Want("CLIENT TRACKING OFF", "+OK\r\n")
	// Keyspace events that are switched on and off change nothing.
	for _, classes := range []string{"KEA", ""} {
		w.Do("CONFIG", "SET", "notify-keyspace-events", classes)
		c.Want("CLIENT TRACKING ON BCAST", "+OK\r\n")
		w.Do("SET", "k", "v", "PX", "50")
		c.Expect(servertest.Invalidated("k"))
		c.Expect(servertest.Invalidated("k"))
		c.Want("CLIENT TRACKING OFF", "+OK\r\n")
	}
}

// A client with NOLOOP gets the invalidation of its own flush, as in Redis.
func TestTrackingOwnFlush(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial3(t)
	c.Want("CLIENT TRACKING ON NOLOOP", "+OK\r\n")
	c.Do("GET", "a")
	c.Want("SET a 1", "+OK\r\n")
	c.Quiet()
	c.Do("GET", "a")
	c.Want("FLUSHALL", "+OK\r\n")
	c.Expect(">2\r\n$10\r\ninvalidate\r\n_\r\n")
}

// The message of a client's own write comes in one write with the reply: a client that has read the reply must not take
// the old value from its cache. A read from a pipe returns what one write has sent.
func TestTrackingOwnWrite(t *testing.T) {
	h := servertest.Start(t)
	here, there := net.Pipe()
	defer here.Close()
	h.Sessions().Serve(there, nil)
	buf := make([]byte, 4096)
	for _, step := range [][2]string{
		{"HELLO 3", ""}, {"CLIENT TRACKING ON", "+OK\r\n"}, {"GET k", "_\r\n"},
		{"SET k 1", "+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"},
	} {
		if _, err := here.Write([]byte(step[0] + "\r\n")); err != nil {
			t.Fatal(err)
		}
		n, err := here.Read(buf)
		if err != nil || step[1] != "" && string(buf[:n]) != step[1] {
			t.Fatalf("%s: %q, %v, want %q", step[0], buf[:n], err, step[1])
		}
	}
}

// After the reply to QUIT a connection gets no messages, and a client that redirects its invalidations to the
// connection gets tracking-redir-broken.
func TestTrackingRedirectToQuit(t *testing.T) {
	h := servertest.Start(t)
	for range 20 {
		to, c, w := h.Dial(t), h.Dial3(t), h.Dial(t)
		id := strings.Trim(to.Do("CLIENT", "ID"), ":\r\n")
		c.Want("CLIENT TRACKING ON REDIRECT "+id, "+OK\r\n")
		to.Do("SUBSCRIBE", "__redis__:invalidate")
		c.Do("GET", "a")
		to.Want("QUIT", "+OK\r\n")
		w.Do("SET", "a", "2")
		c.Expect(fmt.Sprintf(">2\r\n$21\r\ntracking-redir-broken\r\n:%s\r\n", id))
		c.Close()
	}
}

// The tracking table is bounded: a key that is dropped from the table is invalidated.
func TestTrackingTableLimit(t *testing.T) {
	h := servertest.Start(t, "tracking-table-max-keys", "100")
	c := h.Dial3(t)
	c.Want("CLIENT TRACKING ON", "+OK\r\n")
	told := 0
	for i := range 1000 {
		for got := c.Do("GET", fmt.Sprint("k", i)); strings.HasPrefix(got, ">"); got = c.Reply() {
			told++
		}
	}
	if n := h.Sessions().Tracker.Keys(); n > 100+64 || n < 100 {
		t.Errorf("%d keys", n)
	}
	// A new bound applies at once.
	h.Dial(t).Want("CONFIG SET tracking-table-max-keys 10", "+OK\r\n")
	if n := h.Sessions().Tracker.Keys(); n != 10 {
		t.Errorf("%d keys after CONFIG SET, want 10", n)
	}
	c.Send(servertest.Encode("PING"))
	for c.Reply() != "+PONG\r\n" {
		told++
	}
	if n := h.Sessions().Tracker.Keys(); int64(told)+n != 1000 {
		t.Errorf("%d keys were invalidated and %d are left, want 1000 together", told, n)
	}
	c.Close()
	servertest.Eventually(t, "the table is empty", func() bool { return h.Sessions().Tracker.Keys() == 0 })
}

// A client that caches a value until it gets an invalidation does not keep an old value, with many writers.
func TestTrackingLosesNothing(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial3(t)
	c.Want("CLIENT TRACKING ON", "+OK\r\n")
	const writers, rounds = 4, 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		finished := make(chan struct{})
		for i := range writers {
			w := h.Dial(t)
			go func() {
				defer func() { finished <- struct{}{} }()
				for range rounds {
					if err := w.RoundTrip(servertest.Pipeline("INCR k", fmt.Sprint("SET other", i, " x")), 2); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		for range writers {
			<-finished
		}
	}()
	cached, known, reads := "", false, 0
	read := func() {
		reads++
		c.Send(servertest.Encode("GET", "k"))
		for {
			got := c.Reply()
			if got == servertest.Invalidated("k") {
				known = false
				continue
			}
			cached, known = got, true
			return
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		read()
	}
	// All invalidations sent before the reply to the last write arrive before the reply to PING.
	c.Send(servertest.Encode("PING"))
	for got := c.Reply(); got != "+PONG\r\n"; got = c.Reply() {
		known = false
	}
	want := fmt.Sprintf("$4\r\n%d\r\n", writers*rounds)
	if known && cached != want {
		t.Errorf("after %d reads %q is cached, but the value is %q", reads, cached, want)
	}
	c.Want("GET k", want)
}

func TestWait(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for cmd, want := range map[string]string{
		"WAIT 0 0":          ":0\r\n",
		"WAIT 1 10":         ":0\r\n",
		"WAIT -1 0":         ":0\r\n",
		"WAIT x 0":          "-ERR value is not an integer or out of range\r\n",
		"WAIT 1 x":          "-ERR timeout is not an integer or out of range\r\n",
		"WAIT 1 -1":         "-ERR timeout is negative\r\n",
		"WAITAOF 1 0 0":     "*2\r\n:1\r\n:0\r\n",
		"WAITAOF 0 1 10":    "*2\r\n:0\r\n:0\r\n",
		"WAITAOF 2 0 0":     "-ERR value is out of range, value must between 0 and 1\r\n",
		"WAITAOF x 0 0":     "-ERR value is not an integer or out of range\r\n",
		"WAITAOF 0 x 0":     "-ERR value is out of range, must be positive\r\n",
		"WAITAOF 1 -1 0":    "-ERR value is out of range, must be positive\r\n",
		"WAITAOF 0 0 -1":    "-ERR timeout is negative\r\n",
		"WAITAOF 1 0 extra": "-ERR timeout is not an integer or out of range\r\n",
	} {
		c.Want(cmd, want)
	}
	// In a transaction WAIT does not wait.
	c.Want("MULTI", "+OK\r\n")
	c.Want("WAIT 5 0", "+QUEUED\r\n")
	c.Want("EXEC", "*1\r\n:0\r\n")
	// A WAIT without a timeout can be unblocked, and does not prevent the end of the connection.
	id := strings.Trim(c.Do("CLIENT", "ID"), ":\r\n")
	c.Send(servertest.Encode("WAIT", "1", "0"))
	servertest.Eventually(t, "the client is blocked", func() bool { return h.Sessions().Counts().Blocked == 1 })
	h.Dial(t).Want("CLIENT UNBLOCK "+id, ":1\r\n")
	c.Expect(":0\r\n")
	c.Send(servertest.Encode("WAIT", "1", "0"))
	servertest.Eventually(t, "the client is blocked", func() bool { return h.Sessions().Counts().Blocked == 1 })
	c.Close()
	servertest.Eventually(t, "the client is no longer blocked", func() bool { return h.Sessions().Counts().Blocked == 0 })
	if got := h.Dial(t).Do("ROLE"); !strings.HasPrefix(got, "*3\r\n$6\r\nmaster\r\n:") ||
		!strings.HasSuffix(got, "*0\r\n") {
		t.Errorf("ROLE: %q", got)
	}
}
