package session_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

// One client waits and another client writes. The first client gets the reply want; then the command check replies
// left.
func TestBlockedClientIsServed(t *testing.T) {
	h := servertest.Start(t)
	for _, tt := range []struct{ name, before, blocked, write, want, check, left string }{
		{"BLPOP", "", "BLPOP k 0", "RPUSH k a b", servertest.Bulk("k", "a"), "LRANGE k 0 -1", servertest.Bulk("b")},
		{"BRPOP", "", "BRPOP k 0", "RPUSH k a b", servertest.Bulk("k", "b"), "LRANGE k 0 -1", servertest.Bulk("a")},
		{"second key", "", "BLPOP x k 0", "LPUSH k a", servertest.Bulk("k", "a"), "EXISTS k", ":0\r\n"},
		{"BLMOVE", "", "BLMOVE k l LEFT RIGHT 0", "RPUSH k a b", "$1\r\na\r\n", "LRANGE l 0 -1", servertest.Bulk("a")},
		{"BLMOVE to itself", "", "BLMOVE k k LEFT RIGHT 0", "RPUSH k a b", "$1\r\na\r\n", "LRANGE k 0 -1",
			servertest.Bulk("b", "a")},
		{"BLMOVE to a wrong type", "SET l x", "BLMOVE k l LEFT RIGHT 0", "RPUSH k a",
			"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "LRANGE k 0 -1", servertest.Bulk("a")},
		{"BRPOPLPUSH", "RPUSH l x", "BRPOPLPUSH k l 0", "RPUSH k a b", "$1\r\nb\r\n", "LRANGE l 0 -1",
			servertest.Bulk("b", "x")},
		{"BLMOVEM", "", "BLMOVEM k l LEFT RIGHT 0", "RPUSH k a b", servertest.Bulk("a"), "LRANGE l 0 -1",
			servertest.Bulk("a")},
		{"BLMOVEM COUNT, with fewer", "", "BLMOVEM k l LEFT RIGHT 0 COUNT 5 BULK", "RPUSH k a b", servertest.Bulk("a", "b"),
			"LRANGE l 0 -1", servertest.Bulk("a", "b")},
		{"BLMOVEM EXACTLY, step by step", "RPUSH k a", "BLMOVEM k l LEFT LEFT 0 EXACTLY 3 OBO", "RPUSH k b;RPUSH k c d",
			servertest.Bulk("c", "b", "a"), "LRANGE k 0 -1", servertest.Bulk("d")},
		{"BLMOVEM EXACTLY and LINSERT", "RPUSH k b c", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 3 BULK", "LINSERT k BEFORE b a",
			servertest.Bulk("a", "b", "c"), "EXISTS k", ":0\r\n"},
		{"BLMOVEM EXACTLY and LMOVE", "MULTI;RPUSH k a b;RPUSH o x;EXEC", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 3 BULK",
			"LMOVE o k LEFT RIGHT", servertest.Bulk("a", "b", "x"), "EXISTS k o", ":0\r\n"},
		{"BLMOVEM EXACTLY and LMOVEM", "MULTI;RPUSH k a;RPUSH o x y;EXEC", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 3 BULK",
			"LMOVEM o k LEFT LEFT COUNT 2 BULK", servertest.Bulk("x", "y", "a"), "EXISTS k o", ":0\r\n"},
		{"BLMOVEM EXACTLY and SORT STORE", "MULTI;RPUSH k a;RPUSH o 3 1 2;EXEC", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 3 BULK",
			"SORT o STORE k", servertest.Bulk("1", "2", "3"), "EXISTS k", ":0\r\n"},
		{"BLMOVEM EXACTLY and a script", "", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 2 BULK",
			"EVAL return(redis.call('rpush',KEYS[1],1,2)) 1 k", servertest.Bulk("1", "2"), "EXISTS k",
			":0\r\n"},
		{"BLMOVEM to itself", "RPUSH k a", "BLMOVEM k k LEFT LEFT 0 EXACTLY 2 OBO", "RPUSH k b c", servertest.Bulk("b", "a"),
			"LRANGE k 0 -1", servertest.Bulk("b", "a", "c")},
		{"BLMOVEM to a wrong type", "SET l x", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 2 BULK", "RPUSH k a;RPUSH k b",
			"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "LRANGE k 0 -1",
			servertest.Bulk("a", "b")},
		{"BLMPOP", "", "BLMPOP 0 2 x k LEFT COUNT 2", "RPUSH k a b c", "*2\r\n$1\r\nk\r\n" + servertest.Bulk("a", "b"),
			"LRANGE k 0 -1", servertest.Bulk("c")},
		{"BZPOPMIN", "", "BZPOPMIN k 0", "ZADD k 1 a 2 b", servertest.Bulk("k", "a", "1"), "ZCARD k", ":1\r\n"},
		{"BZPOPMAX", "", "BZPOPMAX k 0", "ZADD k 1 a 2 b", servertest.Bulk("k", "b", "2"), "ZCARD k", ":1\r\n"},
		{"BZMPOP", "", "BZMPOP 0 1 k MIN COUNT 5", "ZADD k 1 a 2 b", "*2\r\n$1\r\nk\r\n*2\r\n" + servertest.Bulk("a", "1") +
			servertest.Bulk("b", "2"), "EXISTS k", ":0\r\n"},
		{"RENAME", "RPUSH o a", "BLPOP k 0", "RENAME o k", servertest.Bulk("k", "a"), "EXISTS k o", ":0\r\n"},
		{"COPY", "RPUSH o a", "BLPOP k 0", "COPY o k", servertest.Bulk("k", "a"), "EXISTS k o", ":1\r\n"},
		{"LMOVE", "RPUSH o a", "BLPOP k 0", "LMOVE o k LEFT LEFT", servertest.Bulk("k", "a"), "EXISTS k o", ":0\r\n"},
		{"ZUNIONSTORE", "ZADD o 5 a", "BZPOPMIN k 0", "ZUNIONSTORE k 1 o", servertest.Bulk("k", "a", "5"), "EXISTS k",
			":0\r\n"},
		{"another type first", "", "BLPOP k 0", "SET k x;DEL k;ZADD k 1 a;DEL k;RPUSH k a", servertest.Bulk("k", "a"),
			"EXISTS k", ":0\r\n"},
		{"transaction", "", "BLPOP k 0", "MULTI;RPUSH k a b;LPOP k;EXEC", servertest.Bulk("k", "b"), "EXISTS k", ":0\r\n"},
		{"order of the keys", "", "BLPOP k j 0", "MULTI;RPUSH j y;RPUSH k x;EXEC", servertest.Bulk("k", "x"), "LRANGE j 0 -1",
			servertest.Bulk("y")},
		{"transaction that takes it back", "", "BLPOP k 0", "MULTI;RPUSH k a;DEL k;EXEC;RPUSH k b", servertest.Bulk("k", "b"),
			"EXISTS k", ":0\r\n"},
		{"a timeout with a fraction of a second", "", "BLPOP k 3599.5", "RPUSH k a", servertest.Bulk("k", "a"),
			"EXISTS k", ":0\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := h.Dial(t), h.Dial(t)
			b.Do("FLUSHALL")
			b.DoAll(tt.before)
			a.Send(servertest.Encode(strings.Fields(tt.blocked)...))
			h.BlockedClients(t, 1)
			b.DoAll(tt.write)
			if got := a.Reply(); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.blocked, got, tt.want)
			}
			b.Want(tt.check, tt.left)
			h.BlockedClients(t, 0)
			a.Want("PING", "+PONG\r\n")
		})
	}
}

// The client that brings the data may hold only a read lock of the destination key of the first waiter. Then the first
// waiter fetches the data by itself. Until then the later waiters get nothing; after that they get what is left.
func TestBlockedClientThatNeedsAnotherLock(t *testing.T) {
	h := servertest.Start(t)
	for _, tt := range []struct{ name, before, first, write, firstWant, second, secondWant string }{
		{"one element", "RPUSH l x", "BLMOVE k l LEFT RIGHT 0", "COPY l k;RPUSH k y", "$1\r\nx\r\n", "BLPOP k 0",
			servertest.Bulk("k", "y")},
		{"two elements", "RPUSH l x y", "BLMOVE k l LEFT RIGHT 0", "COPY l k", "$1\r\nx\r\n", "BLPOP k 0",
			servertest.Bulk("k", "y")},
		{"a destination of another type", "SET l x", "BLMOVE k l LEFT RIGHT 0", "MULTI;GET l;RPUSH k a;EXEC",
			"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "BLPOP k 0", servertest.Bulk("k", "a")},
		{"several elements", "RPUSH l x y z", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 2 BULK", "COPY l k",
			servertest.Bulk("x", "y"), "BLPOP k 0", servertest.Bulk("k", "z")},
		{"both move", "RPUSH l x y", "BLMOVE k l LEFT RIGHT 0", "COPY l k", "$1\r\nx\r\n", "BRPOPLPUSH k l 0", "$1\r\ny\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 { // two goroutines run at the same time: their order varies
				a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
				c.Do("FLUSHALL")
				c.Do(strings.Fields(tt.before)...)
				a.Send(servertest.Encode(strings.Fields(tt.first)...))
				h.BlockedClients(t, 1)
				b.Send(servertest.Encode(strings.Fields(tt.second)...))
				h.BlockedClients(t, 2)
				c.DoAll(tt.write)
				if got := a.Reply(); got != tt.firstWant {
					t.Fatalf("%s: %q, want %q", tt.first, got, tt.firstWant)
				}
				if got := b.Reply(); got != tt.secondWant {
					t.Fatalf("%s: %q, want %q", tt.second, got, tt.secondWant)
				}
			}
		})
	}
}

// A client that waits for more elements than there are does not stand in the way of a later one, while another client
// holds the lock of its destination. That holds too when there were enough, so that the data was left to the first
// client, and there are too few once it has the lock.
func TestBlockedClientThatNeedsMore(t *testing.T) {
	h := servertest.Start(t)
	for _, tt := range []struct {
		name, first, second, write, secondWant string
		late                                   bool // the second client is served when the lock is free
	}{
		{"too few", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 2 BULK", "BLPOP k 0", "RPUSH k a", servertest.Bulk("k", "a"), false},
		{"the second one needs fewer", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 3 BULK", "BLMOVEM k m LEFT RIGHT 0 EXACTLY 2 BULK",
			"RPUSH k a;RPUSH k b", servertest.Bulk("a", "b"), false},
		{"too few when it has the lock", "BLMOVEM k l LEFT RIGHT 0 EXACTLY 3 BULK", "BLPOP k 0", "RPUSH k a b c;LPOP k",
			servertest.Bulk("k", "b"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
			c.Do("FLUSHALL")
			a.Send(servertest.Pipeline(tt.first))
			h.BlockedClients(t, 1)
			b.Send(servertest.Pipeline(tt.second))
			h.BlockedClients(t, 2)
			tx := h.DB.NewTx()
			defer tx.End()
			tx.Begin(cf.DefaultNamespace)
			tx.AddLock([]byte("l"), true)
			require.NoError(t, tx.Acquire())
			writes := strings.Split(tt.write, ";")
			c.Send(servertest.Pipeline(writes...)) // in one transaction
			for range writes {
				c.Reply()
			}
			if tt.late {
				tx.Release()
			}
			if got := b.Reply(); got != tt.secondWant {
				t.Errorf("%s: %q, want %q", tt.second, got, tt.secondWant)
			}
			tx.Release()
			h.BlockedClients(t, 1)
			c.Do("RPUSH", "k", "x", "y", "z")
			if got := a.Reply(); !strings.HasPrefix(got, "*") {
				t.Errorf("%s: %q", tt.first, got)
			}
		})
	}
}

// Clients are served in the order in which they began to wait, before the next command of the client that pushes. The
// clients that get nothing keep waiting.
func TestBlockedClientsAreServedInOrder(t *testing.T) {
	h := servertest.Start(t)
	const n = 20
	var waiting []*servertest.Client
	for i := range n {
		c := h.Dial(t)
		c.Send(servertest.Encode("BLPOP", "k", "0"))
		h.BlockedClients(t, i+1)
		waiting = append(waiting, c)
	}
	c := h.Dial(t)
	c.Send(servertest.Pipeline("RPUSH k 0 1 2", "LLEN k", "RPUSH k 3", "LPOP k"))
	for i, want := range []string{":3\r\n", ":0\r\n", ":1\r\n", "$-1\r\n"} {
		if got := c.Reply(); got != want {
			t.Errorf("reply %d: %q, want %q", i, got, want)
		}
	}
	h.BlockedClients(t, n-4)
	for i := 4; i < n; i++ {
		c.Want(fmt.Sprintf("LPUSH k %d", i), ":1\r\n")
	}
	for i, w := range waiting {
		if got, want := w.Reply(), servertest.Bulk("k", fmt.Sprint(i)); got != want {
			t.Errorf("client %d: %q, want %q", i, got, want)
		}
	}
}

// A served client may write a key that another client waits for: both are served by one push.
func TestBlockedClientServesOthers(t *testing.T) {
	h := servertest.Start(t)
	a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
	a.Send(servertest.Encode("BLPOP", "l", "0"))
	h.BlockedClients(t, 1)
	b.Send(servertest.Encode("BLMOVE", "k", "l", "LEFT", "LEFT", "0"))
	h.BlockedClients(t, 2)
	c.Want("RPUSH k x", ":1\r\n")
	if got := b.Reply(); got != "$1\r\nx\r\n" {
		t.Errorf("BLMOVE: %q", got)
	}
	if got := a.Reply(); got != servertest.Bulk("l", "x") {
		t.Errorf("BLPOP: %q", got)
	}
	c.Want("DBSIZE", ":0\r\n")
}

// A client that waits for several keys may be served by an element that another waiter moves. It must not take an
// element that the same transaction pushed to a key for which another client has waited longer.
func TestBlockedClientsServeOthersInTurn(t *testing.T) {
	h := servertest.Start(t)
	for _, write := range [][]string{
		{"MULTI", "LPUSH k 1", "LPUSH l 2", "EXEC"},
		{"MULTI", "LPUSH k 1", "EVAL redis.call('LPUSH',KEYS[1],2) 1 l", "EXEC"},
		{"EVAL redis.call('LPUSH',KEYS[1],1)redis.call('LPUSH',KEYS[2],2) 2 k l"},
	} {
		c := h.Dial(t)
		var waiting []*servertest.Client
		for i, command := range []string{"BRPOPLPUSH k m 0", "BLPOP l 0", "BLMPOP 0 2 l m LEFT COUNT 1"} {
			w := h.Dial(t)
			w.Send(servertest.Encode(strings.Fields(command)...))
			h.BlockedClients(t, i+1)
			waiting = append(waiting, w)
		}
		for _, command := range write {
			if got := c.Do(strings.Fields(command)...); got[0] == '-' {
				t.Fatalf("%s: %q", command, got)
			}
		}
		h.BlockedClients(t, 0)
		for i, want := range []string{"$1\r\n1\r\n", servertest.Bulk("l", "2"), "*2\r\n$1\r\nm\r\n" + servertest.Bulk("1")} {
			if got := waiting[i].Reply(); got != want {
				t.Errorf("%q: client %d: %q, want %q", write, i, got, want)
			}
		}
		c.Want("DBSIZE", ":0\r\n")
	}
}

// An error that ends a wait is counted, and the call is counted once.
func TestBlockedClientsErrorsAreCounted(t *testing.T) {
	h := servertest.Start(t)
	for _, tt := range []struct{ before, wait, end, want, kind, stats string }{
		{"XGROUP CREATE s g $ MKSTREAM", "XREADGROUP GROUP g me BLOCK 0 STREAMS s >", "XGROUP DESTROY s g",
			"-NOGROUP ", "NOGROUP", "xreadgroup"},
		{"SET l x", "BLMOVE k l LEFT LEFT 0", "RPUSH k a", "-WRONGTYPE ", "WRONGTYPE", "blmove"},
		{"", "BLPOP k 0", "CLIENT UNBLOCK ID ERROR", "-UNBLOCKED ", "UNBLOCKED", "blpop"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			a, b := h.Dial(t), h.Dial(t)
			b.Do("FLUSHALL")
			if tt.before != "" {
				b.Do(strings.Fields(tt.before)...)
			}
			id := strings.Trim(a.Do("CLIENT", "ID"), ":\r\n")
			b.Want("CONFIG RESETSTAT", "+OK\r\n")
			a.Send(servertest.Pipeline(tt.wait))
			h.BlockedClients(t, 1)
			b.Do(strings.Fields(strings.Replace(tt.end, "ID", id, 1))...)
			if got := a.Reply(); !strings.HasPrefix(got, tt.want) {
				t.Fatalf("%s: %q", tt.wait, got)
			}
			fields, _ := servertest.ParseInfo(t, b.Do("INFO"))
			if got := fields["errorstat_"+tt.kind]; got != "count=1" {
				t.Errorf("errorstat: %q", got)
			}
			if got := fields["total_error_replies"]; got != "1" {
				t.Errorf("total_error_replies: %q", got)
			}
			if got := fields["cmdstat_"+tt.stats]; !strings.HasPrefix(got, "calls=1,") ||
				!strings.HasSuffix(got, ",rejected_calls=0,failed_calls=1") {
				t.Errorf("cmdstat: %q", got)
			}
		})
	}
}

// TestInfoOfBlockedClients: INFO counts the keys that clients are blocked on, and the keys with clients that also wait
// for the deletion.
func TestInfoOfBlockedClients(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n")
	for _, command := range []string{"BLPOP a b 0", "BLPOP b 0", "XREAD BLOCK 0 STREAMS s $",
		"XREADGROUP GROUP g me BLOCK 0 STREAMS s >"} {
		h.Dial(t).Send(servertest.Pipeline(command))
	}
	h.BlockedClients(t, 4)
	info := c.Do("INFO", "clients")
	for _, want := range []string{"blocked_clients:4\r\n", "total_blocking_keys:3\r\n",
		"total_blocking_keys_on_nokey:1\r\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("%q is not in\n%s", want, info)
		}
	}
}

func TestBlockingEnds(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	id := strings.TrimSpace(strings.TrimPrefix(c.Do("CLIENT", "ID"), ":"))
	t.Run("timeout", func(t *testing.T) {
		for _, tt := range [][2]string{{"BLPOP k 0.01", "*-1\r\n"}, {"BLMOVE k l LEFT LEFT 0.01", "*-1\r\n"},
			{"BZPOPMIN k 0.01", "*-1\r\n"}, {"BLMPOP 0.01 1 k LEFT", "*-1\r\n"}} {
			begin := time.Now()
			c.Want(tt[0], tt[1])
			if d := time.Since(begin); d < 10*time.Millisecond {
				t.Errorf("%s: returned after %v", tt[0], d)
			}
		}
	})
	t.Run("unblock", func(t *testing.T) {
		for _, tt := range [][2]string{{"", "*-1\r\n"}, {" TIMEOUT", "*-1\r\n"},
			{" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"}} {
			c.Send(servertest.Encode("BLPOP", "k", "0"))
			h.BlockedClients(t, 1)
			other.Want("CLIENT UNBLOCK "+id+tt[0], ":1\r\n")
			if got := c.Reply(); got != tt[1] {
				t.Errorf("after UNBLOCK%s: %q, want %q", tt[0], got, tt[1])
			}
			other.Want("CLIENT UNBLOCK "+id, ":0\r\n")
		}
		other.Want("CLIENT UNBLOCK 99999", ":0\r\n")
		other.Want("CLIENT UNBLOCK "+id+" X", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n")
	})
	t.Run("a client that has disconnected takes no element", func(t *testing.T) {
		gone := h.Dial(t)
		gone.Send(servertest.Encode("BLPOP", "k", "0"))
		h.BlockedClients(t, 1)
		gone.Close()
		h.BlockedClients(t, 0)
		other.Want("RPUSH k a", ":1\r\n")
		other.Want("LPOP k", "$1\r\na\r\n")
	})
	t.Run("killed", func(t *testing.T) {
		c.Send(servertest.Encode("BLPOP", "k", "0"))
		h.BlockedClients(t, 1)
		other.Want("CLIENT KILL ID "+id, ":1\r\n")
		h.BlockedClients(t, 0)
		c.Closed()
	})
}

// The replies of the commands before BLPOP can no longer be sent: the client is gone before it begins to wait. Then it
// must not take the element that another client pushes.
func TestClientIsGoneBeforeItWaits(t *testing.T) {
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	text := servertest.Pipeline("DEBUG SLEEP 0.2", "BLPOP k 0")
	a.Send(text)
	h.Arrived(t, a, len(text))
	require.NoError(t, a.Conn.(*net.TCPConn).SetLinger(0))
	a.Close()
	servertest.Eventually(t, "the client is gone", func() bool { return h.Sessions().Counts().Clients == 1 })
	b.Want("RPUSH k v", ":1\r\n")
	b.Want("LLEN k", ":1\r\n")
	if n := h.Sessions().Counts().Blocked; n != 0 {
		t.Errorf("%d clients wait", n)
	}
}

// A client that has sent more than is read ahead, and is gone, takes no element.
func TestClientIsGoneBehindMuchInput(t *testing.T) {
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	a.Send(servertest.Encode("BLPOP", "k", "0"))
	h.BlockedClients(t, 1)
	go a.Write([]byte(servertest.Encode("SET", "big", strings.Repeat("x", 3*session.MaxBlockedInput))))
	h.Arrived(t, a, session.MaxBlockedInput)
	require.NoError(t, a.Conn.(*net.TCPConn).SetLinger(0))
	a.Close()
	h.BlockedClients(t, 0)
	b.Want("RPUSH k v", ":1\r\n")
	b.Want("LLEN k", ":1\r\n")
}

// The commands that a client sends while it waits run afterwards, even if they exceed the buffers.
func TestPipelineBehindBlockingCommand(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	c.Send(servertest.Pipeline("SET a 1", "BLPOP k 0", "INCR a", "BLPOP k 0", "INCR a"))
	h.BlockedClients(t, 1)
	value := strings.Repeat("x", 3*session.MaxBlockedInput)
	go c.Write([]byte(servertest.Encode("SET", "big", value) + servertest.Encode("STRLEN", "big")))
	other.Want("GET a", "$1\r\n1\r\n")
	other.Want("RPUSH k x", ":1\r\n")
	other.Want("RPUSH k y", ":1\r\n")
	for i, want := range []string{"+OK\r\n", servertest.Bulk("k", "x"), ":2\r\n", servertest.Bulk("k", "y"), ":3\r\n",
		"+OK\r\n",
		fmt.Sprintf(":%d\r\n", len(value))} {
		if got := c.Reply(); got != want {
			t.Errorf("reply %d: %.60q, want %q", i, got, want)
		}
	}
}

// Commands in EXEC do not block, and a push whose commit fails serves no client.
func TestBlockingIsDenied(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Send(servertest.Pipeline("MULTI", "BLPOP k 0", "BLMOVE k l LEFT LEFT 0", "BZPOPMIN k 0", "BZMPOP 0 1 k MIN",
		"BLMOVEM k l LEFT LEFT 0 EXACTLY 3 BULK", "EXEC"))
	for range 6 {
		c.Reply()
	}
	if got, want := c.Reply(), "*5\r\n*-1\r\n$-1\r\n*-1\r\n*-1\r\n*-1\r\n"; got != want {
		t.Errorf("EXEC: %q, want %q", got, want)
	}
	waiting := h.Dial(t)
	waiting.Send(servertest.Encode("BLPOP", "k", "0"))
	h.BlockedClients(t, 1)
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed"))
	c.Want("RPUSH k a", "-ERR write failed\r\n")
	h.DB.InjectWriteError(nil)
	c.Want("EXISTS k", ":0\r\n")
	c.Want("RPUSH k b", ":1\r\n")
	if got := waiting.Reply(); got != servertest.Bulk("k", "b") {
		t.Errorf("BLPOP: %q", got)
	}
}

// A client that begins to wait when the server has just become a replica is unblocked like those that waited before.
func TestBlockingOnNewReplica(t *testing.T) {
	h := servertest.Start(t)
	for text, ends := range map[string]bool{"BLPOP k 0": true, "BZMPOP 0 1 k MIN": true, "WAIT 1 0": true,
		"XREAD BLOCK 0 STREAMS k $": false} {
		loop := loopTo(t, h.Sessions())
		var args [][]byte
		for _, word := range strings.Fields(text) {
			args = append(args, []byte(word))
		}
		spec := *command.Lookup(args[0])
		block := spec.Handler
		spec.Handler = func(c *command.Ctx) error {
			h.Sessions().Limits.ReadOnly.Store(true)
			h.Sessions().Demoted()
			return block(c)
		}
		loop.Execute([]*command.Spec{&spec}, [][][]byte{args})
		if got := loop.Served(); got != ends {
			t.Errorf("%s: ended: %v, want %v", text, got, ends)
		}
		h.Sessions().Limits.ReadOnly.Store(false)
	}
}

func TestBlockingErrors(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Do("SET", "s", "x")
	for _, tt := range [][2]string{
		{"BLPOP k -1", "-ERR timeout is negative\r\n"},
		{"BLPOP k x", "-ERR timeout is not a float or out of range\r\n"},
		{"BLPOP k inf", "-ERR timeout is out of range\r\n"},
		{"BLPOP k 1e400", "-ERR timeout is out of range\r\n"},
		{"BLPOP k 1e300", "-ERR timeout is out of range\r\n"},
		{"BLPOP k 9223372036854775", "-ERR timeout is out of range\r\n"}, // after the greatest time of 64 bits
		{"BLPOP k -0.5", "-ERR timeout is negative\r\n"},
		{"RPUSH l a", ":1\r\n"},
		{"BLPOP l -0.0001", servertest.Bulk("l", "a")}, // rounded up to 0 milliseconds
		{"BLPOP k", "-ERR wrong number of arguments for 'blpop' command\r\n"},
		{"BLPOP s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
		{"BLPOP x s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
		{"BLMPOP 0 0 k LEFT", "-ERR numkeys should be greater than 0\r\n"},
		{"BLMPOP 0 2 k LEFT", "-ERR syntax error\r\n"},
		{"BLMPOP -1 1 k LEFT COUNT 0", "-ERR count should be greater than 0\r\n"},
		{"BZMPOP x 1 k", "-ERR wrong number of arguments for 'bzmpop' command\r\n"},
		{"BZMPOP x 1 k MIN", "-ERR timeout is not a float or out of range\r\n"},
		{"BZMPOP x 1 k UP", "-ERR syntax error\r\n"},
		{"BLMOVE k l X LEFT 0", "-ERR syntax error\r\n"},
		{"BLMOVEM k l LEFT LEFT", "-ERR wrong number of arguments for 'blmovem' command\r\n"},
		{"BLMOVEM k l LEFT X 0", "-ERR syntax error\r\n"},
		{"BLMOVEM k l LEFT LEFT x", "-ERR timeout is not a float or out of range\r\n"},
		{"BLMOVEM k l LEFT LEFT -1 COUNT 2 OBO", "-ERR timeout is negative\r\n"},
		{"BLMOVEM k l LEFT LEFT 0 COUNT 2", "-ERR syntax error\r\n"},
		{"BLMOVEM k l LEFT LEFT 0 EXACTLY 0 OBO", "-ERR count should be greater than 0\r\n"},
		{"BLMOVEM s l LEFT LEFT 0 EXACTLY 2 OBO", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
		{"BLMOVEM k l LEFT LEFT 0.001 EXACTLY 2 OBO", "*-1\r\n"},
		{"EVAL return(redis.call('blmovem','k','l','LEFT','LEFT','0')) 0", "$-1\r\n"},
		{"BZMPOP 0 1 k MIN COUNT 0", "-ERR count should be greater than 0\r\n"},
	} {
		c.Want(tt[0], tt[1])
	}
}

// Many clients wait for ten lists with a timeout, while others push in several ways: every element arrives exactly
// once.
func TestNoWakeUpIsLost(t *testing.T) {
	h := servertest.Start(t)
	clients, pushers, perPusher := 1000, 4, 500
	if testing.Short() || servertest.RaceEnabled {
		clients, perPusher = 200, 150
	}
	total := int64(pushers * perPusher)
	var got atomic.Int64
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for i := range clients {
		c := h.Dial(t)
		wg.Go(func() {
			for {
				var r string
				switch i % 3 {
				case 0:
					r = c.Do("BLPOP", fmt.Sprint("l", i%10), fmt.Sprint("l", (i+1)%10), "0.3")
				case 1:
					r = c.Do("BLMPOP", "0.3", "2", fmt.Sprint("l", i%10), "aside", "LEFT")
				default:
					r = c.Do("BLMOVE", fmt.Sprint("l", i%10), "aside", "LEFT", "RIGHT", "0.3")
				}
				if i%3 != 2 && r != "*-1\r\n" {
					f := strings.Split(r, "\r\n")
					mu.Lock()
					seen[f[len(f)-2]]++
					mu.Unlock()
					got.Add(1)
				}
				if got.Load() >= total {
					return
				}
			}
		})
	}
	for p := range pushers {
		c := h.Dial(t)
		wg.Go(func() {
			for i := range perPusher {
				elem := fmt.Sprintf("%d-%d", p, i)
				switch i % 4 {
				case 0:
					c.Do("RPUSH", fmt.Sprint("l", i%10), elem)
				case 1:
					tmp := fmt.Sprint("tmp", p)
					c.Send(servertest.Encode("RPUSH", tmp, elem) + servertest.Encode("LMOVE", tmp, fmt.Sprint("l", i%10), "LEFT",
						"LEFT"))
					c.Reply()
					c.Reply()
				case 2:
					c.Send(servertest.Pipeline("MULTI", fmt.Sprintf("LPUSH l%d %s", i%10, elem), "EXEC"))
					for range 3 {
						c.Reply()
					}
				default:
					c.Send(servertest.Encode("LPUSH", fmt.Sprint("l", i%10), elem) + servertest.Encode("LLEN", fmt.Sprint("l", i%10)))
					c.Reply()
					c.Reply()
				}
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != int(total) {
		t.Errorf("%d elements arrived, want %d", len(seen), total)
	}
	for e, n := range seen {
		if n != 1 {
			t.Errorf("%s arrived %d times", e, n)
		}
	}
	h.BlockedClients(t, 0)
}

// A thousand clients wait without a timeout while as many elements are pushed: each client gets one. If a wake-up were
// lost, a client would wait for ever although its list has an element.
func TestEveryWaiterIsWoken(t *testing.T) {
	h := servertest.Start(t)
	const clients, lists, pushers = 1000, 7, 4
	var ready, done sync.WaitGroup
	ready.Add(clients)
	for i := range clients {
		c := h.Dial(t)
		list := fmt.Sprint("l", i%lists)
		done.Go(func() {
			ready.Done()
			switch i / lists % 3 {
			case 0:
				c.Want("BLPOP nothing "+list+" 0", servertest.Bulk(list, "v"))
			case 1:
				c.Want("BLMOVE "+list+" aside RIGHT LEFT 0", "$1\r\nv\r\n")
			default:
				c.Want("BLMPOP 0 1 "+list+" LEFT", "*2\r\n$"+fmt.Sprint(len(list))+"\r\n"+list+"\r\n"+servertest.Bulk("v"))
			}
		})
	}
	ready.Wait() // some clients are blocked when the first element is pushed, others block later
	for p := range pushers {
		c := h.Dial(t)
		done.Go(func() {
			for i := p; i < clients; i += pushers {
				if r := c.Do("RPUSH", fmt.Sprint("l", i%lists), "v"); r[0] != ':' {
					t.Errorf("RPUSH: %q", r)
				}
			}
		})
	}
	done.Wait()
	h.BlockedClients(t, 0)
	h.Dial(t).Want("EXISTS l0 l1 l2 l3 l4 l5 l6", ":0\r\n")
}

// Ten thousand clients that wait use no CPU time. The test compares with the CPU time of connecting the clients:
// clients that polled ten times a second would use more than that every second, on any host.
func TestBlockedClientsUseNoCPU(t *testing.T) {
	clients := 10_000
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if limit := (int(min(files.Cur, 1<<20)) - 1000) / 2; clients > limit {
		t.Logf("the limit of open files is %d, so the test uses %d clients", files.Cur, limit)
		if clients = limit; clients < 1000 {
			t.Skip("too few clients: their CPU time is not distinguishable from the server's own")
		}
	}
	if testing.Short() || servertest.RaceEnabled {
		clients = min(clients, 1000)
	}
	h := servertest.Start(t, "maxclients", "20000")
	block := servertest.Encode("BLPOP", "k", "other", "3600")
	before := cpuTime(t)
	for range clients {
		h.Dial(t).Send(block)
	}
	h.BlockedClients(t, clients)
	connecting := cpuTime(t) - before
	runtime.GC()
	const during = time.Second
	waiting := connecting
	// The first measurements may include work that other tests have left behind.
	for n := servertest.Patience / during; n > 0 && waiting > connecting/5; n-- {
		before = cpuTime(t)
		time.Sleep(during) // nothing must happen meanwhile: there is no event to wait for
		waiting = cpuTime(t) - before
		t.Logf("%d clients used %v of CPU time to connect, and %v in %v of waiting", clients, connecting, waiting, during)
	}
	if waiting > connecting/5 {
		t.Errorf("%d waiting clients use %v of CPU time a second; to connect they used %v", clients, waiting, connecting)
	}
	pusher := h.Dial(t)
	pusher.Want("RPUSH k v", ":1\r\n")
	pusher.Want("EXISTS k", ":0\r\n")
	h.BlockedClients(t, clients-1)
}

// cpuTime returns the CPU time that the process has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
