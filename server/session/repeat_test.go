package session_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/server/replycache"
	"github.com/basaltdb/basalt/server/servertest"
)

// keptReplies returns the statistics of the reply cache.
func keptReplies(h *servertest.Harness) derived.Stats { return h.DB.Derived().Stats()[derived.Replies] }

// A server with a reply cache replies like a server without one, whatever happens to the keys between two reads.
func TestReplyCacheIsNeverStale(t *testing.T) {
	with, without := servertest.Start(t), servertest.Start(t, "derived-state-size", "-1")
	a, b := with.Dial(t), without.Dial(t)
	rounds := 6000
	if testing.Short() || servertest.RaceEnabled {
		rounds = 1500
	}
	r := rand.New(rand.NewPCG(7, 7))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var pipeline []string
	for i := range rounds {
		var cmd string
		n := strconv.Itoa(r.IntN(5))
		if r.IntN(4) > 0 { // few different reads, so that they repeat
			cmd = pick("LRANGE l 0 -1", "LRANGE l 0 2", "HGETALL h", "HMGET h f0 f1", "SMEMBERS s",
				"ZRANGE z 0 -1 WITHSCORES", "ZRANGE z 0 -1", "ZREVRANGE z 0 1",
				"ZRANK z m1", "ZCOUNT z 0 2", "XRANGE x - +", "BITCOUNT b", "SISMEMBER s m1", "LPOS l e1", "HKEYS h", "HVALS g",
				"LRANGE m 0 -1")
		} else {
			cmd = pick("RPUSH l e"+n, "LPOP l", "LSET l 0 e"+n, "HSET h f"+n+" "+n, "HDEL h f"+n, "SADD s m"+n,
				"SREM s m"+n, "ZADD z "+n+" m"+n, "ZREM z m"+n,
				"XADD x "+strconv.Itoa(i+1)+"-1 f v", "XTRIM x MAXLEN 3", "SETBIT b "+n+" 1", "DEL "+pick("l", "h",
					"s", "z", "x", "b"), "RENAME h g", "COPY l m REPLACE",
				"MULTI;RPUSH l x;HSET h f0 y;EXEC", "FLUSHDB", "LMOVE l m LEFT RIGHT", "SET "+pick("l",
					"z")+" x", "HELLO "+pick("2", "3"), "PEXPIREAT h 1", "SUNIONSTORE s s", "RPUSH l a b c;LREM l 0 a")
		}
		pipeline = append(pipeline, strings.Split(cmd, ";")...)
		if r.IntN(3) > 0 { // reads between writes, in their transaction
			continue
		}
		a.Send(servertest.Pipeline(pipeline...))
		b.Send(servertest.Pipeline(pipeline...))
		for _, c := range pipeline {
			got, want := a.Reply(), b.Reply()
			if got != want && !strings.HasPrefix(c, "HELLO") {
				t.Fatalf("command %d, %s: %q with the cache, %q without", i, c, got, want)
			}
		}
		pipeline = pipeline[:0]
	}
	// About 10 % of the replies come from the cache: a reply is kept when a read is repeated between two writes.
	if keptReplies(with).Hits < int64(rounds/20) {
		t.Errorf("only %d of %d commands were answered from the cache", keptReplies(with).Hits, rounds)
	}
	if keptReplies(without).Hits > 0 {
		t.Error("replies were kept although there is no cache")
	}
}

// A reader sees all writes that were acknowledged before its read began.
func TestReplyCacheUnderConcurrency(t *testing.T) {
	h := servertest.Start(t)
	h.Dial(t).Do("ZADD", "z", "0", "m")
	const rounds = 500
	var acked atomic.Int64
	var wg sync.WaitGroup
	w := h.Dial(t)
	wg.Go(func() {
		for i := range rounds {
			w.Do("ZADD", "z", strconv.Itoa(i+1), "m")
			acked.Store(int64(i + 1))
		}
	})
	for range 3 {
		c := h.Dial(t)
		wg.Go(func() {
			for acked.Load() < rounds {
				least := acked.Load()
				var n int64
				reply := c.Do("ZRANGE", "z", "0", "-1", "WITHSCORES")
				if _, err := fmt.Sscanf(strings.ReplaceAll(reply, "\r\n", " "), "*2 $1 m $%d %d", new(int),
					&n); err != nil || n < least {
					t.Errorf("%q after %d was acknowledged (%v)", reply, least, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A cached reply expires with its key or field, and errors are not cached.
func TestReplyCacheAndExpiry(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Do("RPUSH", "l", "a")
	c.Do("PEXPIRE", "l", "50")
	servertest.Eventually(t, "the list expires", func() bool { return c.Do("LRANGE", "l", "0", "-1") == "*0\r\n" })
	c.Do("HSET", "h", "f", "v")
	c.Do("HPEXPIRE", "h", "50", "FIELDS", "1", "f")
	servertest.Eventually(t, "the field expires", func() bool { return c.Do("HGETALL", "h") == "*0\r\n" })
	c.Do("SET", "s", "x")
	for range 4 {
		c.Want("LRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
	}
	hits := keptReplies(h).Hits
	c.Want("LRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
	if keptReplies(h).Hits != hits {
		t.Error("an error came from the cache")
	}
}

// The cache does not exceed its size.
func TestReplyCacheIsBounded(t *testing.T) {
	h := servertest.Start(t, "derived-state-size", "1")
	c := h.Dial(t)
	value := strings.Repeat("v", 1000)
	for i := range 300 {
		key := fmt.Sprint("l", i)
		c.Do("RPUSH", key, value, value, value, value, value)
		for range 3 {
			c.Do("LRANGE", key, "0", "-1")
		}
		if n := h.DB.Derived().Used(); n > 1<<20 {
			t.Fatalf("%d bytes are kept, at most %d are allowed", n, 1<<20)
		}
	}
	if n := h.DB.Derived().Used(); n < 1<<19 {
		t.Errorf("only %d bytes are kept of what would fit", n)
	}
	c.Do("RPUSH", "big", strings.Repeat("v", replycache.MaxReply))
	hits := keptReplies(h).Hits
	for range 4 {
		c.Do("LRANGE", "big", "0", "-1")
	}
	if keptReplies(h).Hits != hits {
		t.Error("a reply longer than the limit was kept")
	}
	c.Want("CONFIG SET derived-state-size -1", "+OK\r\n")
	if n := h.DB.Derived().Used(); n != 0 {
		t.Errorf("%d bytes are kept without a cache", n)
	}
}

// TestRepeatIsOneLookUp: keyspace_hits and keyspace_misses count the key of a command once, whether its reply is made,
// made and cached, or taken from the cache.
func TestRepeatIsOneLookUp(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.DoAll("ZADD z 1 a 2 b;RPUSH l a b;HSET h a 1;SADD s a;SET b v;XADD x 1-1 a b")
	const times = 3
	for _, tt := range []struct {
		command      string
		hits, misses int
	}{
		{"ZRANGE z 0 -1", 1, 0},
		{"ZRANGEBYSCORE z 0 5", 1, 0},
		{"LRANGE l 0 -1", 1, 0},
		{"LINDEX l 0", 1, 0},
		{"HGETALL h", 1, 0},
		{"HMGET h a b", 1, 0},
		{"SMEMBERS s", 1, 0},
		{"BITCOUNT b", 1, 0},
		{"XRANGE x - +", 1, 0},
		{"ZRANGE none 0 -1", 0, 1},
		{"HGETALL none", 0, 1},
	} {
		c.Want("CONFIG RESETSTAT", "+OK\r\n")
		for range times {
			c.Do(strings.Fields(tt.command)...)
		}
		fields, _ := servertest.ParseInfo(t, c.Do("INFO", "stats"))
		got := fields["keyspace_hits"] + " " + fields["keyspace_misses"]
		if want := fmt.Sprint(times*tt.hits, " ", times*tt.misses); got != want {
			t.Errorf("%s: hits and misses are %s, want %s", tt.command, got, want)
		}
	}
}
