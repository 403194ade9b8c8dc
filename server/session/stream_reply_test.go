package session_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/wire"
)

// longList makes a list of n elements of size bytes and returns the reply of LRANGE for the whole list.
func longList(c *servertest.Client, key string, n, size int) string {
	c.T.Helper()
	element := strings.Repeat("e", size)
	for range n {
		c.Do("RPUSH", key, element)
	}
	return fmt.Sprintf("*%d\r\n", n) + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", size, element), n)
}

// A client that requests one long reply and reads nothing is disconnected. Until then the heap grows by the output
// limit and a part of the reply at most, not by the whole reply.
func TestLongReplyIsBoundedWhileItIsMade(t *testing.T) {
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			h, dial := servertest.Layered(t, layer)
			const limit, slack = 6 << 20, 10 << 20
			c := dial()
			longList(c, "l", 64, 1<<20)
			h.Sessions().Limits.Out.Store(limit)
			for _, served := range wires(h) {
				served.SetPatience(100 * time.Millisecond)
			}
			before := heapAlive()
			before = min(before, heapAlive())
			c.Send(servertest.Encode("LRANGE", "l", "0", "-1"))
			var peak int64
			servertest.Eventually(t, "the client is forgotten", func() bool {
				peak = max(peak, heapAlive())
				return h.Sessions().Clients() == 0
			})
			if grown := peak - before; grown > limit+slack {
				t.Errorf("the heap grew by %d MiB; the limit is %d MiB", grown>>20, limit>>20)
			}
			if n := h.Logs.FilterMessage("a client that does not read its replies was disconnected").Len(); n != 1 {
				t.Errorf("%d log lines about it", n)
			}
		})
	}
}

// A client that begins to read late gets the whole long reply, and the messages of other clients after it.
func TestLongReplyLeavesInParts(t *testing.T) {
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			h, dial := servertest.Layered(t, layer)
			c, other := dial(), dial()
			want := longList(c, "l", 48, 1<<20)
			for _, served := range wires(h) { // on a busy host a client that reads must not be disconnected
				served.SetPatience(servertest.Patience)
			}
			h.Sessions().Limits.Out.Store(6 << 20)
			c.Do("HELLO", "3")
			c.Want("SUBSCRIBE ch", ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
			c.Send(servertest.Encode("LRANGE", "l", "0", "-1") + servertest.Encode("PING"))
			servertest.Eventually(t, "parts of the reply are queued", func() bool {
				for _, m := range queuedBytes.FindAllStringSubmatch(other.Do("CLIENT", "LIST"), -1) {
					if len(m[1]) >= len("2000000") {
						return true
					}
				}
				return false
			})
			for range 3 {
				other.Want("PUBLISH ch m", ":1\r\n")
			}
			if got := c.Reply(); got != want {
				t.Fatalf("%d bytes that begin with %.40q, want %d", len(got), got, len(want))
			}
			rest := ""
			for range 4 {
				rest += c.Reply()
			}
			message := ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n"
			if n := strings.Count(rest, message); n != 3 || strings.ReplaceAll(rest, message, "") != "+PONG\r\n" {
				t.Errorf("after the long reply: %q", rest)
			}
		})
	}
}

// The messages that a client causes before its long reply are sent to other clients before it reads the reply.
func TestLongReplyHoldsNoMessagesBack(t *testing.T) {
	for _, test := range []struct {
		name      string
		listen    []string // commands of the client that gets the message
		tell, got string   // the command that causes the message, and the message
	}{
		{"channel", []string{"SUBSCRIBE ch"}, servertest.Encode("PUBLISH", "ch", "m"),
			">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n"},
		{"tracking", []string{"CLIENT TRACKING ON", "GET k"}, servertest.Encode("SET", "k", "v"),
			">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := servertest.Start(t)
			c, other := h.Dial(t), h.Dial(t)
			longList(c, "l", 32, 1<<20)
			for _, served := range wires(h) {
				served.SetPatience(time.Hour) // the server waits until the client reads
			}
			other.Do("HELLO", "3")
			for _, command := range test.listen {
				other.Do(strings.Fields(command)...)
			}
			c.Send(test.tell + servertest.Encode("LRANGE", "l", "0", "-1")) // the test does not read the replies
			if got := other.Reply(); got != test.got {
				t.Errorf("got %q", got)
			}
		})
	}
}

// wires returns the connections of all clients.
func wires(h *servertest.Harness) (wires []*wire.Conn) {
	h.Sessions().Each(func(c *session.Loop) { wires = append(wires, c.Wire()) })
	return wires
}

// A reply that is built as a whole and exceeds the limit is not sent: the client is disconnected.
func TestWholeReplyIsBounded(t *testing.T) {
	h := servertest.Start(t)
	h.Sessions().Limits.Whole.Store(1 << 20)
	fill := h.Dial(t)
	member := strings.Repeat("m", 10_000)
	for i := range 200 {
		fill.Do("ZADD", "z", "1", fmt.Sprint(member, i))
		fill.Do("SADD", "s", fmt.Sprint(member, i))
		fill.Do("RPUSH", "l", fmt.Sprint(member, i))
		fill.Do("XADD", "x", "*", "f", member)
		fill.Do("SET", fmt.Sprint("key", member, i), "")
	}
	h.Sessions().Limits.Out.Store(1 << 20)
	for _, commands := range [][][]string{
		{{"ZRANGE", "z", "0", "-1"}},
		{{"KEYS", "*"}},
		{{"XRANGE", "x", "-", "+"}},
		{{"SUNION", "s"}},
		{{"SORT", "l", "ALPHA"}},
		{{"MULTI"}, {"LRANGE", "l", "0", "-1"}, {"SET", "written", "1"}, {"EXEC"}},
		{{"EVAL", "return redis.call('LRANGE', KEYS[1], 0, -1)", "1", "l"}},
	} {
		c := h.Dial(t)
		var text string
		for _, cmd := range commands {
			text += servertest.Encode(cmd...)
		}
		c.Send(text)
		rest, err := io.ReadAll(c.Conn)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) || len(rest) > 100 {
			t.Errorf("%s: %d bytes, %v", commands[0][0], len(rest), err)
		}
	}
	fill.Want("GET written", "$1\r\n1\r\n")
	message := "a client was disconnected: its reply cannot leave in parts, and is too long to be kept in memory"
	if n := h.Logs.FilterMessage(message).Len(); n != 7 {
		t.Errorf("%d log lines about it", n)
	}
}

// The replies of MGET and HMGET may be longer than the output limit, and so may each of their values.
func TestRepliesOfManyValuesLeaveInParts(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	value := strings.Repeat("v", 512<<10)
	mget, hmget, want := []string{"MGET"}, []string{"HMGET", "h"}, "*40\r\n"
	for i := range 38 {
		name := fmt.Sprint("k", i)
		c.Do("SET", name, value)
		c.Do("HSET", "h", name, value)
		mget, hmget = append(mget, name), append(hmget, name)
		want += fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	}
	c.Do("SET", "empty", "")
	c.Do("HSET", "h", "empty", "")
	mget, hmget, want = append(mget, "empty", "h"), append(hmget, "empty", "missing"), want+"$0\r\n\r\n$-1\r\n"
	for _, served := range wires(h) { // on a busy host a client that reads must not be disconnected
		served.SetPatience(servertest.Patience)
	}
	h.Sessions().Limits.Out.Store(256 << 10)
	for _, command := range [][]string{mget, hmget} {
		if got := c.Do(command...); got != want {
			t.Errorf("%s: %d bytes that begin with %.40q, want %d", command[0], len(got), got, len(want))
		}
	}
}

// A client that reads gets the whole reply, though it is longer than the output limit and is built as a whole.
func TestWholeReplyIsLongerThanTheOutputLimit(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	const n, size = 200, 10_000
	member := strings.Repeat("m", size)
	for i := range n {
		c.Do("ZADD", "z", "1", fmt.Sprint(member, i))
		c.Do("SADD", "s", fmt.Sprint(member, i))
		c.Do("HSET", "h", fmt.Sprint("f", i), member)
		c.Do("RPUSH", "l", fmt.Sprint(member, i))
		c.Do("XADD", "x", "*", "f", member)
	}
	for _, served := range wires(h) { // on a busy host a client that reads must not be disconnected
		served.SetPatience(servertest.Patience)
	}
	h.Sessions().Limits.Out.Store(1 << 20)
	for _, command := range [][]string{
		{"ZRANGE", "z", "0", "-1"},
		{"XRANGE", "x", "-", "+"},
		{"XREAD", "STREAMS", "x", "0"},
		{"SUNION", "s"},
		{"SORT", "l", "ALPHA"},
		{"HRANDFIELD", "h", fmt.Sprint(n), "WITHVALUES"},
		{"SRANDMEMBER", "s", fmt.Sprint(n)},
		{"SSCAN", "s", "0", "COUNT", "1000"},
		{"EVAL", "return redis.call('LRANGE', KEYS[1], 0, -1)", "1", "l"},
	} {
		if got := c.Do(command...); strings.Count(got, member) != n {
			t.Errorf("%s: %d bytes that begin with %.40q", command[0], len(got), got)
		}
	}
	c.Do("MULTI")
	c.Do("LRANGE", "l", "0", "-1")
	c.Do("SET", "written", "1")
	if got := c.Do("EXEC"); strings.Count(got, member) != n || !strings.HasSuffix(got, "\r\n+OK\r\n") {
		t.Errorf("EXEC: %d bytes that begin with %.40q", len(got), got)
	}
}
