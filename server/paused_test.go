package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/sweep"
)

const (
	readingScript = "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])"
	plainScript   = "#!lua\nreturn redis.call('GET', KEYS[1])"
	testLibrary   = "#!lua name=lib\n" +
		"redis.register_function{function_name='reads', callback=function(k) return redis.call('GET', k[1]) end, flags={'no-writes'}}\n" +
		"redis.register_function('may', function() return 1 end)"
)

// What CLIENT PAUSE WRITE holds is what may write or is seen by replicas. The expectations are the behaviour of Redis
// 7.2, but for SCRIPT FLUSH, which is seen by replicas here.
func TestPauseHolds(t *testing.T) {
	h := start(t)
	admin := h.dial(t)
	sha := func(source string) string {
		return strings.Split(admin.do("SCRIPT", "LOAD", source), "\r\n")[1]
	}
	reading, plain, silent := sha(readingScript), sha(plainScript), sha("return 1")
	admin.do("FUNCTION", "LOAD", testLibrary)
	for _, c := range []struct {
		held    bool
		command []string
	}{
		{false, []string{"GET", "k"}},
		{true, []string{"SET", "k", "v"}},
		{false, []string{"SET", "k"}}, // refused at once
		{true, []string{"PFCOUNT", "h"}},
		{true, []string{"PUBLISH", "c", "m"}},
		{true, []string{"SPUBLISH", "c", "m"}},
		{true, []string{"BLPOP", "l", "0.001"}},
		{false, []string{"XREAD", "STREAMS", "s", "0"}},
		{true, []string{"XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"}},
		{true, []string{"SORT", "l"}},
		{false, []string{"SORT_RO", "l"}},
		{true, []string{"EVAL", "return 1", "0"}},
		{false, []string{"EVAL", readingScript, "1", "k"}},
		{true, []string{"EVAL", plainScript, "1", "k"}},
		{true, []string{"EVAL", "#!lua flags=allow-oom\nreturn 1", "0"}},
		{true, []string{"EVAL", "#!lua flags=odd\nreturn 1", "0"}},
		{false, []string{"EVAL", "#!lua flags=no-writes\nsyntax error", "0"}},
		{false, []string{"EVALSHA", reading, "1", "k"}},
		{true, []string{"EVALSHA", plain, "1", "k"}},
		{true, []string{"EVALSHA", silent, "0"}},
		{true, []string{"EVALSHA", strings.Repeat("0", 40), "0"}},
		{true, []string{"EVALSHA", "x", "0"}},
		{false, []string{"EVAL_RO", "return 1", "0"}},
		{false, []string{"EVAL_RO", readingScript, "1", "k"}},
		{true, []string{"EVAL_RO", plainScript, "1", "k"}}, // which then refuses to run it
		{true, []string{"EVALSHA_RO", plain, "1", "k"}},
		{false, []string{"FCALL", "reads", "1", "k"}},
		{true, []string{"FCALL", "may", "0"}},
		{true, []string{"FCALL", "none", "0"}},
		{false, []string{"FCALL_RO", "reads", "1", "k"}},
		{true, []string{"FCALL_RO", "may", "0"}},
		{false, []string{"FCALL_RO", "none", "0"}},
		{false, []string{"SCRIPT", "LOAD", "return 2"}},
		{true, []string{"SCRIPT", "FLUSH"}},
		{true, []string{"FUNCTION", "DELETE", "none"}},
		{false, []string{"FUNCTION", "LIST"}},
		{true, []string{"FLUSHDB"}},
		{false, []string{"CLIENT", "UNPAUSE"}},
	} {
		admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
		w := h.dial(t)
		w.send(encode(c.command...))
		if c.held {
			h.pausedClients(t, 1)
		} else {
			w.reply() // as the pause does not end, it was not held
		}
		h.services.Clients.Unpause()
		if c.held {
			w.reply()
		}
		h.pausedClients(t, 0)
		w.Close()
	}
}

// EXEC is held when one of its commands would be.
func TestPauseHoldsExec(t *testing.T) {
	h := start(t)
	admin := h.dial(t)
	for _, c := range []struct {
		held   bool
		queued []string
	}{
		{false, []string{"GET", "k"}},
		{true, []string{"SET", "k", "v"}},
		{true, []string{"PFCOUNT", "h"}},
		{true, []string{"PUBLISH", "c", "m"}},
		{true, []string{"EVAL", "return 1", "0"}},
		{false, []string{"EVAL", readingScript, "1", "none"}},
		{true, []string{"SET", "k"}}, // nothing is run; but SET was queued too
	} {
		w := h.dial(t)
		w.want("MULTI", "+OK\r\n")
		w.do(c.queued...)
		if len(c.queued) == 2 && c.queued[0] == "SET" {
			w.want("SET k v", "+QUEUED\r\n")
		}
		admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
		w.send(encode("EXEC"))
		if c.held {
			h.pausedClients(t, 1)
			h.services.Clients.Unpause()
		}
		w.reply()
		h.services.Clients.Unpause()
		w.Close()
	}
	// A command that writes is held before it is queued.
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	w := h.dial(t)
	w.want("MULTI", "+OK\r\n")
	w.send(encode("SET", "k", "1"))
	h.pausedClients(t, 1)
	if got := admin.do("CLIENT", "LIST"); !strings.Contains(got, " flags=xb ") ||
		!strings.Contains(got, " argv-mem=5 ") || !strings.Contains(got, " cmd=set ") {
		t.Errorf("%s", got)
	}
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	w.expect("+QUEUED\r\n")
	w.want("EXEC", "*1\r\n+OK\r\n")
}

// CLIENT PAUSE in a transaction, which holds locks: what was queued after it still runs, and when the reply comes
// nobody writes any more.
func TestPauseInExec(t *testing.T) {
	h := start(t)
	a, b := h.dial(t), h.dial(t)
	for _, cmd := range []string{"MULTI", "SET x 1", "CLIENT PAUSE 60000 WRITE", "SET y 2"} {
		a.do(strings.Fields(cmd)...)
	}
	a.want("EXEC", "*3\r\n+OK\r\n+OK\r\n+OK\r\n")
	b.want("MGET x y", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n")
	b.send(encode("SET", "x", "3"))
	h.pausedClients(t, 1)
	a.want("GET x", "$1\r\n1\r\n")
	a.want("MULTI", "+OK\r\n")
	a.want("CLIENT UNPAUSE", "+QUEUED\r\n")
	a.want("GET y", "+QUEUED\r\n")
	a.want("EXEC", "*2\r\n+OK\r\n$1\r\n2\r\n")
	b.expect("+OK\r\n")
}

// The checks of a command come before the pause, and again after it.
func TestPauseAfterChecks(t *testing.T) {
	h := start(t, "requirepass", "secret")
	admin := h.dial(t)
	admin.want("AUTH secret", "+OK\r\n")
	admin.want("ACL SETUSER u on nopass ~* +@all -set", "+OK\r\n")
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c := h.dial(t)
	c.want("SET k v", "-NOAUTH Authentication required.\r\n")
	c.want("AUTH u x", "+OK\r\n")
	denied := "-NOPERM User u has no permissions to run the '%s' command\r\n"
	c.want("SET k v", fmt.Sprintf(denied, "set"))
	c.send(encode("APPEND", "k", "v"))
	h.pausedClients(t, 1)
	admin.want("ACL SETUSER u -append", "+OK\r\n")
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	c.expect(fmt.Sprintf(denied, "append"))
}

// A client that waits for data meets its timeout during a pause, and gets what a push that was held brings after it.
// One that is held is not waiting for data: CLIENT UNBLOCK does not reach it, CLIENT KILL does.
func TestPauseOfBlocked(t *testing.T) {
	h := start(t)
	admin, pusher, w := h.dial(t), h.dial(t), h.dial(t)
	blocked := func(n int64) {
		t.Helper()
		eventually(t, "a client waits", func() bool { return h.waiters.n.Load() == n })
	}
	tried := false
	inTime(t, 50*time.Millisecond, func(life time.Duration) error {
		if tried {
			admin.want("CLIENT UNPAUSE", "+OK\r\n")
			w.expect("*-1\r\n")
		}
		tried = true
		end := time.Now().Add(life)
		w.send(encode("BLPOP", "l", fmt.Sprint(life.Seconds())))
		for h.waiters.n.Load() == 0 && time.Now().Before(end) { // it is to wait when the pause begins
			time.Sleep(time.Millisecond)
		}
		return admin.replies("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	})
	w.expect("*-1\r\n")
	admin.want("CLIENT UNPAUSE", "+OK\r\n")

	w.send(encode("BLPOP", "l", "0"))
	blocked(1)
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	pusher.send(encode("RPUSH", "l", "a", "b"))
	h.pausedClients(t, 1)
	if h.waiters.n.Load() != 1 {
		t.Error("the push was not held")
	}
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	w.expect("*2\r\n$1\r\nl\r\n$1\r\na\r\n")
	pusher.expect(":2\r\n")

	// UNBLOCK of one that waits for data works in the pause.
	w.send(encode("BLPOP", "none", "0"))
	blocked(1)
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	id := idOf(t, h, w)
	admin.want("CLIENT UNBLOCK "+id, ":1\r\n")
	w.expect("*-1\r\n")
	w.send(encode("SET", "k", "v"))
	h.pausedClients(t, 1)
	admin.want("CLIENT UNBLOCK "+id, ":0\r\n")
	admin.want("CLIENT UNBLOCK "+id+" ERROR", ":0\r\n")
	h.pausedClients(t, 1)
	admin.want("CLIENT KILL ID "+id, ":1\r\n")
	h.pausedClients(t, 0)
	w.closed()
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	admin.want("EXISTS k", ":0\r\n")
}

// idOf returns the id of a client's connection.
func idOf(t *testing.T, h *harness, c *client) string {
	t.Helper()
	for _, i := range h.services.Clients.List() {
		if i.Addr == c.LocalAddr().String() {
			return fmt.Sprint(i.ID)
		}
	}
	t.Fatal("no such client")
	return ""
}

// Nothing expires during a pause: a key whose time has passed is not seen any more, but its end is noticed only after
// it.
func TestPauseHoldsExpiry(t *testing.T) {
	h := start(t, "notify-keyspace-events", "KEA")
	admin, sub := h.dial(t), h.dial(t)
	sub.do("PSUBSCRIBE", "__keyevent@0__:*expired")
	var tracker *client
	inTime(t, 200*time.Millisecond, func(life time.Duration) error {
		h.services.Clients.Unpause()
		tracker = h.dial3(t)
		tracker.want("CLIENT TRACKING ON", "+OK\r\n")
		ms := fmt.Sprint(life.Milliseconds())
		admin.do("SET", "gone", "v", "PX", ms)
		admin.do("HSET", "fields", "f", "v", "g", "w")
		admin.do("HPEXPIRE", "fields", ms, "FIELDS", "1", "f")
		tracker.do("GET", "gone")
		return admin.replies("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	})
	eventually(t, "the time has passed", func() bool {
		return admin.do("EXISTS", "gone") == ":0\r\n" && admin.do("HGET", "fields", "f") == "$-1\r\n"
	})
	seq := h.db.LatestSequence()
	for _, key := range []string{"gone", "fields"} {
		if _, err := h.db.DeleteExpired(cf.DefaultNamespace, []byte(key), h.mayExpire, nil); err != sweep.ErrPaused {
			t.Errorf("%s: %v", key, err)
		}
	}
	if h.db.LatestSequence() != seq {
		t.Error("something was written")
	}
	h.expireTracked(time.Now())
	tracker.quiet()
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	for seen := ""; !strings.Contains(seen, ":expired\r\n$4\r\ngone\r\n") ||
		!strings.Contains(seen, ":hexpired\r\n$6\r\nfields\r\n"); {
		seen += sub.reply()
	}
	tracker.expect(invalidated("gone"))
}
