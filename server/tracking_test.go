package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// invalidated is the RESP3 message that keys have changed; without keys, that all have.
func invalidated(keys ...string) string {
	if keys == nil {
		return ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	}
	return ">2\r\n$10\r\ninvalidate\r\n" + encode(keys...)
}

func (h *harness) dial3(t *testing.T) *client {
	c := h.dial(t)
	c.do("HELLO", "3")
	return c
}

func (c *client) expect(want string) {
	c.t.Helper()
	if got := c.reply(); got != want {
		c.t.Errorf("%q, want %q", got, want)
	}
}

// quiet checks that nothing has been sent: the reply to PING is the next thing.
func (c *client) quiet() {
	c.t.Helper()
	c.want("PING", "+PONG\r\n")
}

// A client hears of each field of a hash that expires, also while those before are still stored.
func TestTrackedFieldExpires(t *testing.T) {
	h := start(t)
	w := h.dial(t)
	for _, first := range []string{"HSET h live 1", "HSET h live 1;HSETEX h PX 1 FIELDS 1 old v"} {
		for _, cmd := range strings.Split(first, ";") {
			w.do(strings.Fields(cmd)...)
		}
		eventually(t, "the field before expires", func() bool { return w.do("HEXISTS", "h", "old") == ":0\r\n" })
		var c *client
		inTime(t, 50*time.Millisecond, func(life time.Duration) error {
			c = h.dial3(t) // in an attempt that took too long the one before may have been told already
			if err := w.replies(fmt.Sprint("HSETEX h PX ", life.Milliseconds(), " FIELDS 1 f v"), ":1\r\n"); err != nil {
				return err
			}
			return c.replies("CLIENT TRACKING ON", "+OK\r\n", "HGET h f", "$1\r\nv\r\n")
		})
		c.expect(invalidated("h"))
		eventually(t, "the field expires", func() bool { return w.do("HEXISTS", "h", "f") == ":0\r\n" })
		c.quiet()
		w.do("DEL", "h")
	}
}

func TestTracking(t *testing.T) {
	h := start(t)
	c, w := h.dial3(t), h.dial(t)
	c.want("CLIENT TRACKING ON", "+OK\r\n")
	c.want("GET a", "_\r\n")
	c.do("HGETALL", "h")
	c.do("MGET", "m1", "m2")
	for _, tc := range []struct{ write, key string }{
		{"SET a 1", "a"}, {"HSET h f v", "h"}, {"MSET m2 x m3 y", "m2"}, {"SET m1 1", "m1"},
	} {
		w.do(strings.Fields(tc.write)...)
		c.expect(invalidated(tc.key))
		w.do(strings.Fields(tc.write)...) // it was told already
		c.quiet()
	}
	// Its own writes too, after the reply.
	c.want("GET a", "$1\r\n1\r\n")
	c.want("SET a 2", "+OK\r\n")
	c.expect(invalidated("a"))
	// All the ways in which a key can change.
	for _, write := range []string{"EXPIRE a 100", "DEL a", "RENAME b a", "MULTI;SET a 1;EXEC", "RPUSH a x"} {
		w.do("DEL", "a")
		w.do("SET", "b", "b")
		if strings.HasPrefix(write, "DEL") || strings.HasPrefix(write, "EXPIRE") {
			w.do("SET", "a", "1")
		}
		c.do("EXISTS", "a")
		for _, cmd := range strings.Split(write, ";") {
			w.do(strings.Fields(cmd)...)
		}
		c.expect(invalidated("a"))
	}
	// What a script reads.
	c.do("EVAL", "return redis.call('GET', KEYS[1])", "1", "scripted")
	w.do("SET", "scripted", "1")
	c.expect(invalidated("scripted"))
	for _, eval := range []string{"EVAL", "EVAL_RO"} { // declared only
		c.do(eval, "return 1", "1", "scripted")
		w.do("SET", "scripted", "2")
		c.quiet()
	}
	// A write is no read, and what was not read is not told of.
	c.do("SET", "own", "1")
	w.do("SET", "own", "2")
	w.do("SET", "other", "2")
	c.quiet()
	// A flush.
	c.do("GET", "x")
	w.want("FLUSHALL", "+OK\r\n")
	c.expect(invalidated())
	w.do("SET", "x", "1")
	c.quiet()
	c.want("CLIENT TRACKINGINFO",
		"%3\r\n$5\r\nflags\r\n~1\r\n$2\r\non\r\n$8\r\nredirect\r\n:0\r\n$8\r\nprefixes\r\n*0\r\n")
	c.want("CLIENT GETREDIR", ":0\r\n")
	c.want("GET x", "$1\r\n1\r\n")
	c.want("CLIENT TRACKING OFF", "+OK\r\n")
	w.do("SET", "x", "2")
	c.quiet()
	c.want("CLIENT GETREDIR", ":-1\r\n")
	if n := h.tracker.Keys() + h.tracker.Items() + int64(h.tracker.Clients()); n != 0 {
		t.Errorf("%d things are left in the table", n)
	}
}

// A client that waits gets its reply before it is told of what the reply's commit has changed.
func TestTrackingOfBlockedClients(t *testing.T) {
	h := start(t)
	for _, tt := range []struct{ name, before, push string }{
		{"served by the one who pushes", "RPUSH l a", "RPUSH k x"},
		{"by itself, for want of a lock", "RPUSH l x", "COPY l k"}, // which holds the lock of l for reading
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := h.dial3(t), h.dial(t)
			w.do("FLUSHALL")
			w.do(strings.Fields(tt.before)...)
			c.want("CLIENT TRACKING ON", "+OK\r\n")
			c.do("LRANGE", "l", "0", "-1")
			c.send(pipeline("BLMOVE k l LEFT LEFT 0"))
			h.blockedClients(t, 1)
			w.want(tt.push, ":1\r\n")
			c.expect("$1\r\nx\r\n")
			c.expect(invalidated("l"))
			c.quiet()
		})
	}
}

func TestTrackingExpiry(t *testing.T) {
	h := start(t)
	var c *client
	inTime(t, 50*time.Millisecond, func(life time.Duration) error {
		c = h.dial3(t)
		return c.replies("CLIENT TRACKING ON", "+OK\r\n", fmt.Sprint("SET k v PX ", life.Milliseconds()), "+OK\r\n",
			"GET k", "$1\r\nv\r\n")
	})
	c.expect(invalidated("k"))
	c.want("GET k", "_\r\n")
}

func TestTrackingOptions(t *testing.T) {
	h := start(t)
	w := h.dial(t)
	t.Run("OPTIN", func(t *testing.T) {
		c := h.dial3(t)
		c.want("CLIENT TRACKING ON OPTIN", "+OK\r\n")
		c.do("GET", "a")
		c.send(pipeline("CLIENT CACHING YES", "GET b", "GET c"))
		c.expect("+OK\r\n")
		c.reply()
		c.reply()
		w.do("MSET", "a", "1", "b", "1", "c", "1")
		c.expect(invalidated("b"))
		c.quiet()
		c.send(pipeline("CLIENT CACHING YES", "MULTI", "GET a", "GET b", "EXEC", "GET c"))
		for range 6 {
			c.reply()
		}
		w.do("SET", "c", "2")
		w.do("SET", "a", "2")
		c.expect(invalidated("a"))
		w.do("SET", "b", "2")
		c.expect(invalidated("b"))
		c.want("CLIENT CACHING NO", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n")
	})
	t.Run("OPTOUT", func(t *testing.T) {
		c := h.dial3(t)
		c.want("CLIENT TRACKING ON OPTOUT", "+OK\r\n")
		c.do("GET", "a")
		c.send(pipeline("CLIENT CACHING NO", "GET b"))
		c.reply()
		c.reply()
		w.do("SET", "b", "1")
		w.do("SET", "a", "1")
		c.expect(invalidated("a"))
		c.quiet()
	})
	t.Run("NOLOOP", func(t *testing.T) {
		c := h.dial3(t)
		c.want("CLIENT TRACKING ON NOLOOP", "+OK\r\n")
		c.do("GET", "a")
		c.do("SET", "a", "1")
		c.quiet()
		c.do("GET", "a")
		w.do("SET", "a", "1")
		c.expect(invalidated("a"))
	})
	t.Run("BCAST", func(t *testing.T) {
		c := h.dial3(t)
		c.want("CLIENT TRACKING ON BCAST PREFIX user: PREFIX object:", "+OK\r\n")
		w.do("MSET", "user:1", "1", "none", "1", "object:2", "1")
		c.expect(invalidated("object:2")) // one message a prefix
		c.expect(invalidated("user:1"))
		w.do("MSET", "user:1", "1", "user:2", "1")
		c.expect(invalidated("user:1", "user:2"))
		w.do("DEL", "user:1", "user:2")
		c.expect(invalidated("user:1", "user:2"))
		for _, command := range []string{"MULTI", "HSET user:1 f v", "HSET user:2 f v", "HSET user:1 g v", "EXEC"} {
			w.do(strings.Fields(command)...)
		}
		c.expect(invalidated("user:1", "user:2")) // each key once
		w.do("DEL", "user:1")
		c.expect(invalidated("user:1"))
		w.do("SET", "user:1", "2")
		c.expect(invalidated("user:1"))
		w.do("SET", "none", "2")
		c.quiet()
		c.want("CLIENT TRACKING ON BCAST PREFIX user:x",
			"-ERR Prefix 'user:x' overlaps with an existing prefix 'user:'. Prefixes for a single client must not overlap.\r\n")
	})
	t.Run("BCAST NOLOOP", func(t *testing.T) {
		c := h.dial3(t)
		c.want("CLIENT TRACKING ON BCAST NOLOOP", "+OK\r\n")
		c.do("SET", "own", "1")
		c.quiet()
		w.do("SET", "other", "1")
		c.expect(invalidated("other"))
	})
	t.Run("REDIRECT", func(t *testing.T) {
		for _, proto := range []string{"2", "3"} {
			to, c := h.dial(t), h.dial(t)
			to.do("HELLO", proto)
			c.do("HELLO", "3")
			id := strings.Trim(to.do("CLIENT", "ID"), ":\r\n")
			c.want("CLIENT TRACKING ON REDIRECT "+id, "+OK\r\n")
			c.want("CLIENT GETREDIR", ":"+id+"\r\n")
			to.do("SUBSCRIBE", "__redis__:invalidate")
			c.do("GET", "a")
			w.do("SET", "a", "1")
			if proto == "2" {
				to.expect("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\na\r\n")
			} else {
				to.expect(invalidated("a"))
			}
			c.quiet()
			c.do("GET", "a")
			to.Close()
			n, _ := strconv.Atoi(id)
			eventually(t, "the connection is gone", func() bool { _, ok := h.trackingPeer(int64(n)); return !ok })
			for range 2 { // each time
				c.do("GET", "a")
				w.do("SET", "a", "2")
				c.expect(fmt.Sprintf(">2\r\n$21\r\ntracking-redir-broken\r\n:%s\r\n", id))
			}
			if got := c.do("CLIENT", "TRACKINGINFO"); !strings.Contains(got, "broken_redirect") {
				t.Errorf("%q", got)
			}
		}
	})
}

// What CLIENT CACHING says is of the next command, also of one that is refused; in a transaction, of all of it.
func TestTrackingCaching(t *testing.T) {
	h := start(t)
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
		c, w := h.dial3(t), h.dial(t)
		c.want("CLIENT TRACKING ON "+tc.mode, "+OK\r\n")
		for cmd := range strings.SplitSeq(tc.between, ";") {
			c.do(strings.Fields(cmd)...)
		}
		c.do("GET", "a")
		w.do("SET", "a", "1")
		if tc.tracked {
			c.expect(invalidated("a"))
		}
		c.quiet()
	}
}

// A client in broadcasting mode hears of keys that expire, and of hashes of which fields do, whether they were there
// before it or not, without any events being asked for.
func TestTrackingBroadcastExpiry(t *testing.T) {
	h := start(t)
	w := h.dial(t)
	var c *client
	wanted := []string{"before", "after", "fields"}
	inTime(t, 100*time.Millisecond, func(life time.Duration) error {
		ms := fmt.Sprint(life.Milliseconds())
		w.do("FLUSHALL")
		w.do("SET", "before", "v", "PX", ms)
		c = h.dial3(t)
		c.want("CLIENT TRACKING ON BCAST", "+OK\r\n")
		w.do("SET", "after", "v", "PX", ms)
		w.do("HSETEX", "fields", "PX", ms, "FIELDS", "1", "f", "v")
		for _, key := range []string{"after", "fields"} {
			if got := c.reply(); got != invalidated(key) {
				return fmt.Errorf("%q of %s", got, key)
			}
		}
		return w.replies("EXISTS before after", ":2\r\n")
	})
	for len(wanted) > 0 {
		got := c.reply()
		if i := slices.IndexFunc(wanted, func(k string) bool { return got == invalidated(k) }); i < 0 {
			t.Fatalf("%q", got)
		} else {
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	// The sweep outlasts the client until its next pass, and is there for the next one.
	c.want("CLIENT TRACKING OFF", "+OK\r\n")
	inTime(t, 100*time.Millisecond, func(life time.Duration) error {
		c.Close()
		c = h.dial3(t)
		w.do("SET", "between", "v", "PX", fmt.Sprint(life.Milliseconds()))
		return c.replies("CLIENT TRACKING ON BCAST PREFIX b", "+OK\r\n")
	})
	c.expect(invalidated("between"))
	c.want("CLIENT TRACKING OFF", "+OK\r\n")
	// Events that are switched on and off meanwhile change nothing.
	for _, classes := range []string{"KEA", ""} {
		w.do("CONFIG", "SET", "notify-keyspace-events", classes)
		c.want("CLIENT TRACKING ON BCAST", "+OK\r\n")
		w.do("SET", "k", "v", "PX", "50")
		c.expect(invalidated("k"))
		c.expect(invalidated("k"))
		c.want("CLIENT TRACKING OFF", "+OK\r\n")
	}
}

// A flush is told also to the client that has sent it and does not want to hear of its own changes, as in Redis.
func TestTrackingOwnFlush(t *testing.T) {
	h := start(t)
	c := h.dial3(t)
	c.want("CLIENT TRACKING ON NOLOOP", "+OK\r\n")
	c.do("GET", "a")
	c.want("SET a 1", "+OK\r\n")
	c.quiet()
	c.do("GET", "a")
	c.want("FLUSHALL", "+OK\r\n")
	c.expect(">2\r\n$10\r\ninvalidate\r\n_\r\n")
}

// A client that has the reply of its QUIT gets no messages any more, and the one that redirects to it is told.
func TestTrackingRedirectToQuit(t *testing.T) {
	h := start(t)
	for range 20 {
		to, c, w := h.dial(t), h.dial3(t), h.dial(t)
		id := strings.Trim(to.do("CLIENT", "ID"), ":\r\n")
		c.want("CLIENT TRACKING ON REDIRECT "+id, "+OK\r\n")
		to.do("SUBSCRIBE", "__redis__:invalidate")
		c.do("GET", "a")
		to.want("QUIT", "+OK\r\n")
		w.do("SET", "a", "2")
		c.expect(fmt.Sprintf(">2\r\n$21\r\ntracking-redir-broken\r\n:%s\r\n", id))
		c.Close()
	}
}

// The table is bounded: what is dropped counts as changed.
func TestTrackingTableLimit(t *testing.T) {
	h := start(t, "tracking-table-max-keys", "100")
	c := h.dial3(t)
	c.want("CLIENT TRACKING ON", "+OK\r\n")
	told := 0
	for i := range 1000 {
		for got := c.do("GET", fmt.Sprint("k", i)); strings.HasPrefix(got, ">"); got = c.reply() {
			told++
		}
	}
	if n := h.tracker.Keys(); n > 100+64 || n < 100 {
		t.Errorf("%d keys", n)
	}
	// A new bound applies at once.
	h.dial(t).want("CONFIG SET tracking-table-max-keys 10", "+OK\r\n")
	if n := h.tracker.Keys(); n != 10 {
		t.Errorf("%d keys after CONFIG SET, want 10", n)
	}
	c.send(encode("PING"))
	for c.reply() != "+PONG\r\n" {
		told++
	}
	if n := h.tracker.Keys(); int64(told)+n != 1000 {
		t.Errorf("told of %d, %d are left", told, n)
	}
	c.Close()
	eventually(t, "the table is empty", func() bool { return h.tracker.Keys() == 0 })
}

// A client that caches what it reads until it is told otherwise never keeps an old value, with many writers.
func TestTrackingLosesNothing(t *testing.T) {
	h := start(t)
	c := h.dial3(t)
	c.want("CLIENT TRACKING ON", "+OK\r\n")
	const writers, rounds = 4, 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		finished := make(chan struct{})
		for i := range writers {
			w := h.dial(t)
			go func() {
				defer func() { finished <- struct{}{} }()
				for range rounds {
					if err := roundTrip(w, pipeline("INCR k", fmt.Sprint("SET other", i, " x")), 2); err != nil {
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
		c.send(encode("GET", "k"))
		for {
			got := c.reply()
			if got == invalidated("k") {
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
	// Whatever was sent before the last commit's reply is in the socket by now, or behind the next reply.
	c.send(encode("PING"))
	for got := c.reply(); got != "+PONG\r\n"; got = c.reply() {
		known = false
	}
	want := fmt.Sprintf("$4\r\n%d\r\n", writers*rounds)
	if known && cached != want {
		t.Errorf("after %d reads %q is cached, but the value is %q", reads, cached, want)
	}
	c.want("GET k", want)
}

func TestWait(t *testing.T) {
	h := start(t)
	c := h.dial(t)
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
		"WAITAOF 0 x 0":     "-ERR value is not an integer or out of range\r\n",
		"WAITAOF 1 -1 0":    "-ERR value is out of range, must be positive\r\n",
		"WAITAOF 0 0 -1":    "-ERR timeout is negative\r\n",
		"WAITAOF 1 0 extra": "-ERR timeout is not an integer or out of range\r\n",
	} {
		c.want(cmd, want)
	}
	// In a transaction nothing is waited for.
	c.want("MULTI", "+OK\r\n")
	c.want("WAIT 5 0", "+QUEUED\r\n")
	c.want("EXEC", "*1\r\n:0\r\n")
	// One that waits for ever can be unblocked, and does not keep the connection from ending.
	id := strings.Trim(c.do("CLIENT", "ID"), ":\r\n")
	c.send(encode("WAIT", "1", "0"))
	eventually(t, "it waits", func() bool { return h.waiters.n.Load() == 1 })
	h.dial(t).want("CLIENT UNBLOCK "+id, ":1\r\n")
	c.expect(":0\r\n")
	c.send(encode("WAIT", "1", "0"))
	eventually(t, "it waits", func() bool { return h.waiters.n.Load() == 1 })
	c.Close()
	eventually(t, "it is gone", func() bool { return h.waiters.n.Load() == 0 })
	if got := h.dial(t).do("ROLE"); !strings.HasPrefix(got, "*3\r\n$6\r\nmaster\r\n:") ||
		!strings.HasSuffix(got, "*0\r\n") {
		t.Errorf("ROLE: %q", got)
	}
}
