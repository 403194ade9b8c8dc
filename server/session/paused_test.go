package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/sweep"
)

const (
	readingScript = "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])"
	plainScript   = "#!lua\nreturn redis.call('GET', KEYS[1])"
	testLibrary   = "#!lua name=lib\n" +
		"redis.register_function{function_name='reads', callback=function(k) return redis.call('GET', k[1]) end, " +
		"flags={'no-writes'}}\n" +
		"redis.register_function('may', function() return 1 end)"
)

// CLIENT PAUSE WRITE holds the commands that may write or are seen by replicas. The expected results are those of Redis
// 7.2, except for SCRIPT FLUSH, which replicas see only here.
func TestPauseHolds(t *testing.T) {
	h := servertest.Start(t)
	admin := h.Dial(t)
	sha := func(source string) string {
		return strings.Split(admin.Do("SCRIPT", "LOAD", source), "\r\n")[1]
	}
	reading, plain, silent := sha(readingScript), sha(plainScript), sha("return 1")
	admin.Do("FUNCTION", "LOAD", testLibrary)
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
		{true, []string{"EVAL_RO", plainScript, "1", "k"}}, // after the pause EVAL_RO refuses the script
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
		admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
		w := h.Dial(t)
		w.Send(servertest.Encode(c.command...))
		if c.held {
			h.PausedClients(t, 1)
		} else {
			w.Reply() // the reply comes during the pause: the command was not held
		}
		h.Sessions().Services.Clients.Unpause()
		if c.held {
			w.Reply()
		}
		h.PausedClients(t, 0)
		w.Close()
	}
}

// EXEC is held if one of the queued commands would be held.
func TestPauseHoldsExec(t *testing.T) {
	h := servertest.Start(t)
	admin := h.Dial(t)
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
		{true, []string{"SET", "k"}}, // EXEC runs nothing, but a valid SET is queued, too
	} {
		w := h.Dial(t)
		w.Want("MULTI", "+OK\r\n")
		w.Do(c.queued...)
		if len(c.queued) == 2 && c.queued[0] == "SET" {
			w.Want("SET k v", "+QUEUED\r\n")
		}
		admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
		w.Send(servertest.Encode("EXEC"))
		if c.held {
			h.PausedClients(t, 1)
			h.Sessions().Services.Clients.Unpause()
		}
		w.Reply()
		h.Sessions().Services.Clients.Unpause()
		w.Close()
	}
	// A command that writes is held before it is queued.
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	w := h.Dial(t)
	w.Want("MULTI", "+OK\r\n")
	w.Send(servertest.Encode("SET", "k", "1"))
	h.PausedClients(t, 1)
	if got := admin.Do("CLIENT", "LIST"); !strings.Contains(got, " flags=xb ") ||
		!strings.Contains(got, " argv-mem=5 ") || !strings.Contains(got, " cmd=set ") {
		t.Errorf("%s", got)
	}
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	w.Expect("+QUEUED\r\n")
	w.Want("EXEC", "*1\r\n+OK\r\n")
}

// CLIENT PAUSE in a transaction: the commands queued after it still run, and after the reply to EXEC no client writes.
func TestPauseInExec(t *testing.T) {
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	a.DoAll("MULTI;SET x 1;CLIENT PAUSE 60000 WRITE;SET y 2")
	a.Want("EXEC", "*3\r\n+OK\r\n+OK\r\n+OK\r\n")
	b.Want("MGET x y", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n")
	b.Send(servertest.Encode("SET", "x", "3"))
	h.PausedClients(t, 1)
	a.Want("GET x", "$1\r\n1\r\n")
	a.Want("MULTI", "+OK\r\n")
	a.Want("CLIENT UNPAUSE", "+QUEUED\r\n")
	a.Want("GET y", "+QUEUED\r\n")
	a.Want("EXEC", "*2\r\n+OK\r\n$1\r\n2\r\n")
	b.Expect("+OK\r\n")
}

// The checks of a command come before the pause, and again after it.
func TestPauseAfterChecks(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret")
	admin := h.Dial(t)
	admin.Want("AUTH secret", "+OK\r\n")
	admin.Want("ACL SETUSER u on nopass ~* +@all -set", "+OK\r\n")
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c := h.Dial(t)
	c.Want("SET k v", "-NOAUTH Authentication required.\r\n")
	c.Want("AUTH u x", "+OK\r\n")
	denied := "-NOPERM User u has no permissions to run the '%s' command\r\n"
	c.Want("SET k v", fmt.Sprintf(denied, "set"))
	c.Send(servertest.Encode("APPEND", "k", "v"))
	h.PausedClients(t, 1)
	admin.Want("ACL SETUSER u -append", "+OK\r\n")
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	c.Expect(fmt.Sprintf(denied, "append"))
}

// The timeout of a blocked client ends its wait also during a pause. A push that is held serves the blocked client
// after the pause. A client that the pause holds is not blocked: CLIENT UNBLOCK has no effect on it, CLIENT KILL has.
func TestPauseOfBlocked(t *testing.T) {
	h := servertest.Start(t)
	admin, pusher, w := h.Dial(t), h.Dial(t), h.Dial(t)
	blocked := func(n int) {
		t.Helper()
		servertest.Eventually(t, "a client waits", func() bool { return h.Sessions().Counts().Blocked == n })
	}
	tried := false
	servertest.InTime(t, 50*time.Millisecond, func(life time.Duration) error {
		if tried {
			admin.Want("CLIENT UNPAUSE", "+OK\r\n")
			w.Expect("*-1\r\n")
		}
		tried = true
		end := time.Now().Add(life)
		w.Send(servertest.Encode("BLPOP", "l", fmt.Sprint(life.Seconds())))
		for h.Sessions().Counts().Blocked == 0 && time.Now().Before(end) { // it must be blocked when the pause begins
			time.Sleep(time.Millisecond)
		}
		return admin.Replies("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	})
	w.Expect("*-1\r\n")
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")

	w.Send(servertest.Encode("BLPOP", "l", "0"))
	blocked(1)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	pusher.Send(servertest.Encode("RPUSH", "l", "a", "b"))
	h.PausedClients(t, 1)
	if h.Sessions().Counts().Blocked != 1 {
		t.Error("the push was not held")
	}
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	w.Expect("*2\r\n$1\r\nl\r\n$1\r\na\r\n")
	pusher.Expect(":2\r\n")

	// CLIENT UNBLOCK of a blocked client works during a pause.
	w.Send(servertest.Encode("BLPOP", "none", "0"))
	blocked(1)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	id := idOf(t, h, w)
	admin.Want("CLIENT UNBLOCK "+id, ":1\r\n")
	w.Expect("*-1\r\n")
	w.Send(servertest.Encode("SET", "k", "v"))
	h.PausedClients(t, 1)
	admin.Want("CLIENT UNBLOCK "+id, ":0\r\n")
	admin.Want("CLIENT UNBLOCK "+id+" ERROR", ":0\r\n")
	h.PausedClients(t, 1)
	admin.Want("CLIENT KILL ID "+id, ":1\r\n")
	h.PausedClients(t, 0)
	w.Closed()
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	admin.Want("EXISTS k", ":0\r\n")
}

// idOf returns the id of a client's connection.
func idOf(t *testing.T, h *servertest.Harness, c *servertest.Client) string {
	t.Helper()
	for _, i := range h.Sessions().Services.Clients.List() {
		if i.Addr == c.LocalAddr().String() {
			return fmt.Sprint(i.ID)
		}
	}
	t.Fatal("no such client")
	return ""
}

// Nothing expires during a pause: commands do not see a key whose time has passed, but the key is deleted, and its
// events and invalidations are sent, only after the pause.
func TestPauseHoldsExpiry(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "KEA")
	admin, sub := h.Dial(t), h.Dial(t)
	sub.Do("PSUBSCRIBE", "__keyevent@0__:*expired")
	var tracker *servertest.Client
	servertest.InTime(t, 200*time.Millisecond, func(life time.Duration) error {
		h.Sessions().Services.Clients.Unpause()
		tracker = h.Dial3(t)
		tracker.Want("CLIENT TRACKING ON", "+OK\r\n")
		ms := fmt.Sprint(life.Milliseconds())
		admin.Do("SET", "gone", "v", "PX", ms)
		admin.Do("HSET", "fields", "f", "v", "g", "w")
		admin.Do("HPEXPIRE", "fields", ms, "FIELDS", "1", "f")
		tracker.Do("GET", "gone")
		return admin.Replies("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	})
	servertest.Eventually(t, "the time has passed", func() bool {
		return admin.Do("EXISTS", "gone") == ":0\r\n" && admin.Do("HGET", "fields", "f") == "$-1\r\n"
	})
	seq := h.DB.LatestSequence()
	for _, key := range []string{"gone", "fields"} {
		if _, err := h.DB.DeleteExpired(cf.DefaultNamespace, []byte(key), h.Sessions().MayExpire,
			nil); err != sweep.ErrPaused {
			t.Errorf("%s: %v", key, err)
		}
	}
	if h.DB.LatestSequence() != seq {
		t.Error("something was written")
	}
	h.Sessions().Tick(time.Now())
	tracker.Quiet()
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	for seen := ""; !strings.Contains(seen, ":expired\r\n$4\r\ngone\r\n") ||
		!strings.Contains(seen, ":hexpired\r\n$6\r\nfields\r\n"); {
		seen += sub.Reply()
	}
	tracker.Expect(servertest.Invalidated("gone"))
}
