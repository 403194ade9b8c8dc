package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

// Which commands of another client, between WATCH and EXEC, make EXEC run nothing.
func TestWatchedKeys(t *testing.T) {
	const nothing, ran = "*-1\r\n", "*1\r\n+PONG\r\n"
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	for _, tt := range []struct {
		name, before, watch, other, want string
	}{
		{"nothing", "SET k v", "k", "GET k", ran},
		{"overwritten", "SET k v", "k", "SET k v", nothing},
		{"another key", "SET k v", "k", "SET other v", ran},
		{"deleted", "SET k v", "k", "DEL k", nothing},
		{"deleted and set again", "SET k v", "k", "DEL k;SET k v", nothing},
		{"created", "PING", "k", "SET k v", nothing},
		{"created and deleted", "PING", "k", "SET k v;DEL k", nothing},
		{"one of several", "SET k v", "x k y", "APPEND k w", nothing},
		{"element", "RPUSH k a b", "k", "LSET k 0 c", nothing},
		{"score", "ZADD k 1 a", "k", "ZADD k 2 a", nothing},
		{"same element", "RPUSH k a b", "k", "LSET k 0 a", nothing},
		{"trimmed to all of it", "RPUSH k a b", "k", "LTRIM k 0 -1", nothing},
		{"nothing to trim", "PING", "k", "LTRIM k 0 -1", ran},
		{"moved to where it was", "RPUSH k a b", "k", "LMOVE k k LEFT LEFT", nothing},
		{"all moved to where they were", "RPUSH k a b", "k", "LMOVEM k k LEFT LEFT COUNT 2 BULK", nothing},
		{"too few to move", "RPUSH k a b", "k", "LMOVEM k l LEFT LEFT EXACTLY 3 BULK", ran},
		{"not the value to delete", "SET k v", "k", "DELIFEQ k w", ran},
		{"same field", "HSET k f v", "k", "HSET k f v", nothing},
		{"same fields", "HSET k f v g w", "k", "HMSET k f v g w", nothing},
		{"same field, in a script", "HSET k f v", "k", "EVAL return(redis.call('hset',KEYS[1],'f','v')) 1 k", nothing},
		{"same field, in a transaction", "HSET k f v", "k", "MULTI;HSET k f v;EXEC", nothing},
		{"field that is there", "HSET k f v", "k", "HSETNX k f w", ran},
		{"same expiry of a field", "HSETEX k PXAT 9999999999999 FIELDS 1 f v", "k",
			"HGETEX k PXAT 9999999999999 FIELDS 1 f", nothing},
		{"field that is not set", "HSET k f v", "k", "HSETEX k FNX FIELDS 1 f w", ran},
		{"same score", "ZADD k 1 a", "k", "ZADD k 1 a", ran},
		{"field of a hash", "HSET k f v", "k", "HSET k f w", nothing},
		{"expiry", "SET k v", "k", "EXPIRE k 100", nothing},
		{"same expiry", "SET k v EXAT 9999999999", "k", "GETEX k EXAT 9999999999", nothing},
		{"same expiry of a bitmap", "SETBIT k 1 1;EXPIREAT k 9999999999", "k", "GETEX k EXAT 9999999999", nothing},
		{"persist without expiry", "SET k v", "k", "PERSIST k", ran},
		{"nothing read, no expiry to take away", "SET k v", "k", "GETEX k PERSIST", ran},
		{"renamed away", "SET k v", "k", "RENAME k l", nothing},
		{"renamed over", "SET l v", "k", "RENAME l k", nothing},
		{"stored into", "SADD s a", "k", "SUNIONSTORE k s", nothing},
		{"nothing stored in place of nothing", "PING", "k",
			"SUNIONSTORE k s;ZUNIONSTORE k 1 s;ZRANGESTORE k s 0 -1;GEOSEARCHSTORE k s FROMLONLAT 1 1 BYRADIUS 1 m;BITOP OR k " +
				"s;SORT s STORE k", ran},
		{"nothing stored in place of something", "ZADD k 1 a", "k", "ZUNIONSTORE k 1 s", nothing},
		{"copied from", "SET k v", "k", "COPY k l", ran},
		{"failed command", "SET k v", "k", "LPUSH k a", ran},
		{"flush of an existing key", "SET k v", "k", "FLUSHDB", nothing},
		{"flush of a missing key", "PING", "k", "FLUSHALL", ran},
		{"in a transaction", "SET k v", "k", "MULTI;SET k w;EXEC", nothing},
		{"in a discarded transaction", "SET k v", "k", "MULTI;SET k w;DISCARD", ran},
		{"own write", "SET k v", "k", "PING", ran},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.Do("FLUSHALL")
			b.DoAll(tt.before)
			a.Want("WATCH "+tt.watch, "+OK\r\n")
			b.DoAll(tt.other)
			a.Want("MULTI", "+OK\r\n")
			a.Want("PING", "+QUEUED\r\n")
			a.Want("EXEC", tt.want)
			if n := h.DB.WatchedKeys(); n != 0 {
				t.Errorf("%d keys are still watched", n)
			}
		})
	}
}

// One WATCH of very many keys takes little time, and watches each key once. (A comparison of each key with all others
// would take hours.)
func TestWatchManyKeys(t *testing.T) {
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	const n = 200_000
	watch := make([]string, 1, n+1)
	watch[0] = "WATCH"
	for i := range n {
		watch = append(watch, fmt.Sprintf("k%d", i%(n-1))) // k0 is given twice
	}
	if got := a.Do(watch...); got != "+OK\r\n" {
		t.Fatal(got)
	}
	watches := func(n int) {
		t.Helper()
		if list := a.Do("CLIENT", "LIST"); !strings.Contains(list, fmt.Sprintf(" watch=%d ", n)) {
			t.Errorf("not %d keys are watched: %s", n, list)
		}
	}
	watches(n - 1)
	a.Want("WATCH k0 k7 other", "+OK\r\n")
	watches(n)
	b.Want("SET k7 v", "+OK\r\n")
	a.Want("MULTI", "+OK\r\n")
	a.Want("EXEC", "*-1\r\n")
	if got := h.DB.WatchedKeys(); got != 0 {
		t.Errorf("%d keys are still watched", got)
	}
}

// A key that expires while it is watched has changed; a key that had expired before WATCH has not.
func TestWatchedKeyExpires(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	servertest.InTime(t, 20*time.Millisecond, func(life time.Duration) error {
		return c.Replies("UNWATCH", "+OK\r\n", fmt.Sprint("SET k v PX ", life.Milliseconds()), "+OK\r\n", "WATCH k",
			"+OK\r\n")
	})
	servertest.Eventually(t, "the key expires", func() bool { return c.Do("EXISTS", "k") == ":0\r\n" })
	c.Want("MULTI", "+OK\r\n")
	c.Want("PING", "+QUEUED\r\n")
	c.Want("EXEC", "*-1\r\n")
	c.Want("WATCH k", "+OK\r\n")
	c.Want("MULTI", "+OK\r\n")
	c.Want("PING", "+QUEUED\r\n")
	c.Want("EXEC", "*1\r\n+PONG\r\n")
}

// A watched hash has changed when one of its fields expires, whether or not other fields are left, and whether or not
// fields that expired before WATCH are still stored. When the hash is watched again after that, it has not changed.
func TestWatchedFieldExpires(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	gone := func(field string) {
		t.Helper()
		servertest.Eventually(t, field+" expires", func() bool { return c.Do("HEXISTS", "h", field) == ":0\r\n" })
	}
	for _, others := range []string{"PING", "HSET h live 1", "HSETEX h EX 1000 FIELDS 1 live 1",
		"HSETEX h PX 1 FIELDS 1 old v;HSET h live 1", "HSET h live 1;HSETEX h PX 1 FIELDS 1 old v;EXPIRE h 1000"} {
		servertest.InTime(t, 20*time.Millisecond, func(life time.Duration) error {
			c.Do("UNWATCH")
			c.Do("DEL", "h")
			c.DoAll(others)
			gone("old")
			return c.Replies(fmt.Sprint("HSETEX h PX ", life.Milliseconds(), " FIELDS 1 f v"), ":1\r\n", "WATCH h", "+OK\r\n")
		})
		gone("f")
		for _, want := range []string{"*-1\r\n", "*1\r\n+PONG\r\n"} {
			c.Want("MULTI", "+OK\r\n")
			c.Want("PING", "+QUEUED\r\n")
			if got := c.Do("EXEC"); got != want {
				t.Errorf("with %s: %q, want %q", others, got, want)
			}
			c.Want("WATCH h", "+OK\r\n")
		}
	}
}

// EXEC with a wrong number of arguments ends the transaction and the watches, also between writes that share a commit.
func TestExecWithArguments(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	const abort = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"
	for _, tt := range []struct{ commands, want []string }{
		{[]string{"EXEC x"}, []string{abort}},
		{[]string{"MULTI", "EXEC x", "EXEC"}, []string{"+OK\r\n", abort, "-ERR EXEC without MULTI\r\n"}},
		{[]string{"WATCH k", "SET k v", "EXEC x", "SET k w", "MULTI", "EXEC"},
			[]string{"+OK\r\n", "+OK\r\n", abort, "+OK\r\n", "+OK\r\n", "*0\r\n"}},
	} {
		c.Send(servertest.Pipeline(tt.commands...))
		for i, want := range tt.want {
			if got := c.Reply(); got != want {
				t.Errorf("%v: reply %d is %q, want %q", tt.commands, i, got, want)
			}
		}
	}
}

// The watches of a client end with its connection.
func TestWatchEndsWithConnection(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("WATCH a b c", "+OK\r\n")
	if n := h.DB.WatchedKeys(); n != 3 {
		t.Errorf("%d keys are watched, want 3", n)
	}
	c.Close()
	servertest.Eventually(t, "the watches end", func() bool { return h.DB.WatchedKeys() == 0 })
}

// A transaction is one write to the log, and its commands see each other's writes. RocksDB counts the writes.
func TestExecIsOneCommit(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	logged := func() int { return h.Ticker(t, "rocksdb.write.wal") }

	before := logged()
	for i := range 10 {
		c.Want(fmt.Sprintf("SET k%d v", i), "+OK\r\n")
	}
	if n := logged() - before; n != 10 {
		t.Fatalf("10 SETs were %d writes to the log: the ticker does not count them", n)
	}

	c.Want("MULTI", "+OK\r\n")
	want := "*10\r\n"
	for i := range 10 {
		c.Want(fmt.Sprintf("SET k%d v", i), "+QUEUED\r\n")
		want += "+OK\r\n"
	}
	before = logged()
	commits := h.DB.Stats.Commits.Load()
	c.Want("EXEC", want)
	if n := logged() - before; n != 1 {
		t.Errorf("EXEC of 10 SETs was %d writes to the log, want 1", n)
	}
	if n := h.DB.Stats.Commits.Load() - commits; n != 1 {
		t.Errorf("EXEC of 10 SETs was %d commits, want 1", n)
	}
}

func TestExecFailsAsAWhole(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed: no space"))
	c.Want("MULTI", "+OK\r\n")
	c.Want("SET a 1", "+QUEUED\r\n")
	c.Want("LPUSH l 1", "+QUEUED\r\n")
	c.Want("EXEC", "-ERR write failed: no space\r\n")
	h.DB.InjectWriteError(nil)
	c.Want("EXISTS a l", ":0\r\n")
	c.Want("EXEC", "-ERR EXEC without MULTI\r\n")
	c.Want("DBSIZE", ":0\r\n")
}

// No transaction sees a part of another transaction's writes, also while other commands use the same keys.
func TestTransactionsAreIsolated(t *testing.T) {
	h := servertest.Start(t)
	const clients, rounds = 10, 60
	h.Dial(t).Want("MSET x 0 y 0", "+OK\r\n")
	h.Dial(t).Want("RPUSH l e", ":1\r\n")
	var wg sync.WaitGroup
	for n := range clients {
		c := h.Dial(t)
		wg.Go(func() {
			for range rounds {
				switch n % 5 {
				case 0: // a transfer
					c.Send(servertest.Pipeline("MULTI", "DECR x", "INCR y", "EXEC"))
					for range 4 {
						c.Reply()
					}
				case 3: // sees the element in exactly one of the lists, while other clients move it
					c.Send(servertest.Pipeline("MULTI", "LRANGE l 0 -1", "LRANGE m 0 -1", "EXEC"))
					for range 3 {
						c.Reply()
					}
					if got := c.Reply(); strings.Count(got, "e\r\n") != 1 {
						t.Errorf("two lists with one element together: %q", got)
					}
				case 4:
					c.Do("LMOVE", "l", "m", "LEFT", "LEFT")
					c.Do("LMOVE", "m", "l", "LEFT", "LEFT")
				case 1: // sees a sum of 0
					c.Send(servertest.Pipeline("MULTI", "GET x", "GET y", "EXEC"))
					for range 3 {
						c.Reply()
					}
					var x, y int
					if _, err := fmt.Sscanf(strings.NewReplacer("\r\n", " ").Replace(c.Reply()), "*2 $%d %d $%d %d",
						new(int), &x, new(int), &y); err != nil || x+y != 0 {
						t.Errorf("x = %d, y = %d (%v)", x, y, err)
					}
				case 2: // adds by WATCH until it succeeds
					for done := false; !done; {
						c.Send(servertest.Pipeline("WATCH x y", "MULTI", "INCR y", "DECR x", "EXEC"))
						for range 4 {
							c.Reply()
						}
						done = c.Reply() != "*-1\r\n"
					}
				}
			}
		})
	}
	wg.Wait()
	writers := 2 * clients / 5
	h.Dial(t).Want("MGET x y", fmt.Sprintf("*2\r\n$4\r\n%d\r\n$3\r\n%d\r\n", -writers*rounds, writers*rounds))
}

// The size of the commands that a client queues is bounded.
func TestTransactionIsBounded(t *testing.T) {
	h := servertest.Start(t)
	h.Sessions().Limits.Queued.Store(1 << 20)
	c := h.Dial(t)
	c.Want("MULTI", "+OK\r\n")
	value := strings.Repeat("v", 64<<10)
	var last string
	for range 1<<20/len(value) + 1 {
		last = c.Do("SET", "k", value)
	}
	if want := "-ERR " + session.ErrQueueFull.Text + "\r\n"; last != want {
		t.Errorf("%q, want %q", last, want)
	}
	c.Want("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
	c.Want("EXISTS k", ":0\r\n")
}

func TestTransactionInClientList(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	line := func() string {
		for _, l := range strings.Split(other.Do("CLIENT", "LIST"), "\n") {
			if !strings.Contains(l, "cmd=client|list") && strings.Contains(l, "id=") {
				return l
			}
		}
		return ""
	}
	c.Want("WATCH a b", "+OK\r\n")
	c.Want("MULTI", "+OK\r\n")
	c.Want("SET a 1", "+QUEUED\r\n")
	if l := line(); !strings.Contains(l, " multi=1 ") || !strings.Contains(l, " watch=2 ") ||
		!strings.Contains(l, " flags=x ") {
		t.Errorf("CLIENT LIST: %s", l)
	}
	c.Want("DISCARD", "+OK\r\n")
	if l := line(); !strings.Contains(l, " multi=-1 ") || !strings.Contains(l, " watch=0 ") {
		t.Errorf("CLIENT LIST after DISCARD: %s", l)
	}
}

// A server that must refuse writes from some moment on refuses all commands of a transaction or script, or none.
func TestRefusedAsAWhole(t *testing.T) {
	const (
		readOnly = "READONLY You can't write against a read only replica."
		lacking  = "NOREPLICAS Not enough good replicas to write."
	)
	// A script that goes on when somebody has subscribed to a channel.
	script := func(channel string) string {
		return "redis.call('SET','a',1) redis.log(redis.LOG_WARNING,'" + channel + "') " +
			"repeat until redis.call('PUBSUB','NUMSUB','" + channel + "')[2] > 0 return redis.call('SET','b',1)"
	}
	for _, tt := range []struct {
		name   string
		refuse func(l *session.Limits, on bool)
		reply  string
	}{
		{"replica", func(l *session.Limits, on bool) { l.ReadOnly.Store(on) }, readOnly},
		{"too few replicas", func(l *session.Limits, on bool) {
			until := int64(0)
			if on {
				until = 1 // long ago
			}
			l.Replicas.Store(until)
		}, lacking},
		{"full", func(l *session.Limits, on bool) { l.Full.Store(on) }, ""},
		{"without its master", func(l *session.Limits, on bool) { l.Stale.Store(on) },
			"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := servertest.Start(t)
			c, other := h.Dial(t), h.Dial(t)
			limits := &h.Sessions().Limits
			begin := func() {
				c.Want("MULTI", "+OK\r\n")
				c.Want("GET x", "+QUEUED\r\n")
				c.Want("SET x 1", "+QUEUED\r\n")
			}
			begin()
			tt.refuse(limits, true)
			if got := c.Do("EXEC"); !strings.HasPrefix(got, "-EXECABORT Transaction discarded because of: "+tt.reply) {
				t.Errorf("EXEC: %q", got)
			}
			tt.refuse(limits, false)
			c.Want("GET x", "$-1\r\n")
			for _, inMulti := range []bool{false, true} {
				channel, want := "script", "+OK\r\n"
				if inMulti {
					channel, want = "exec", "*4\r\n$-1\r\n+OK\r\n+OK\r\n+OK\r\n"
					begin()
				}
				c.Send(servertest.Encode("EVAL", script(channel), "2", "a", "b"))
				if inMulti {
					c.Send(servertest.Encode("SET", "c", "1"))
					if got := c.Reply() + c.Reply(); got != "+QUEUED\r\n+QUEUED\r\n" {
						t.Fatalf("%q", got)
					}
					c.Send(servertest.Encode("EXEC"))
				}
				servertest.Eventually(t, "the script waits", func() bool { return h.Logs.FilterMessage(channel).Len() == 1 })
				tt.refuse(limits, true)
				other.Send(servertest.Encode("SUBSCRIBE", channel))
				if got := c.Reply(); got != want {
					t.Errorf("%s: %q, want %q", channel, got, want)
				}
				tt.refuse(limits, false)
			}
			c.Want("MGET a b c x", "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n")
		})
	}
}
