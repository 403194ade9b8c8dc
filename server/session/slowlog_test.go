package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// lastSlow returns the arguments of the newest entry of a command.
func lastSlow(h *servertest.Harness, t *testing.T, name string) []string {
	t.Helper()
	for _, e := range h.Sessions().SlowLog().Newest(-1) {
		if strings.EqualFold(e.Args[0], name) {
			return e.Args
		}
	}
	t.Fatalf("no entry of %s in %v", name, h.Sessions().SlowLog().Newest(-1))
	return nil
}

func TestSlowLog(t *testing.T) {
	h := servertest.Start(t, "slowlog-log-slower-than", "0", "slowlog-max-len", "4")
	c := h.Dial(t)
	c.Want("CLIENT SETNAME me", "+OK\r\n")
	c.Send(servertest.Pipeline("SET a 1", "SET b 2", "GET a"))
	for range 3 {
		c.Reply()
	}
	// Every call has its own entry: with such a low threshold no calls are measured in groups.
	list := h.Sessions().SlowLog().Newest(-1)
	var got []string
	for _, e := range list {
		got = append(got, strings.Join(e.Args, " "))
	}
	if want := "GET a,SET b 2,SET a 1,CLIENT SETNAME me"; strings.Join(got, ",") != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if e := list[0]; e.Addr != c.LocalAddr().String() || e.Name != "me" || e.ID != list[1].ID+1 || e.At.IsZero() {
		t.Errorf("%+v", e)
	}
	c.Want("SLOWLOG LEN", ":4\r\n")
	// SLOWLOG LEN has an entry now, and the oldest entry was removed.
	if got, want := c.Do("SLOWLOG", "GET", "1"), "*1\r\n*6\r\n"; !strings.HasPrefix(got, want) ||
		!strings.Contains(got, "*2\r\n$7\r\nSLOWLOG\r\n$3\r\nLEN\r\n") {
		t.Errorf("%q", got)
	}
	for _, count := range []string{"-1", "*", "100"} {
		if got := c.Do("SLOWLOG", "GET", count); !strings.HasPrefix(got, "*4\r\n") {
			t.Errorf("SLOWLOG GET %s: %q", count, got)
		}
	}
	if got := c.Do("COMMANDLOG", "GET", "1", "Slow"); !strings.HasPrefix(got, "*1\r\n*6\r\n") ||
		!strings.Contains(got, "*3\r\n$7\r\nSLOWLOG\r\n$3\r\nGET\r\n$3\r\n100\r\n") {
		t.Errorf("COMMANDLOG GET: %q", got)
	}
	c.Want("COMMANDLOG LEN slow", ":4\r\n")
	c.Want("COMMANDLOG GET -2 slow", "-ERR count should be greater than or equal to -1\r\n")
	c.Want("COMMANDLOG GET 1", "-ERR wrong number of arguments for 'commandlog|get' command\r\n")
	c.Want("COMMANDLOG RESET large-reply", "-ERR type should be slow: large requests and replies are not logged\r\n")
	if got := c.Do("COMMANDLOG", "HELP"); !strings.Contains(got, "\r\n+RESET slow\r\n") {
		t.Errorf("COMMANDLOG HELP: %q", got)
	}
	c.Want("COMMANDLOG RESET slow", "+OK\r\n")
	c.Want("COMMANDLOG LEN slow", ":1\r\n") // COMMANDLOG RESET
	c.Want("SLOWLOG GET 0", "*0\r\n")
	c.Want("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1\r\n")
	c.Want("SLOWLOG GET x", "-ERR count should be greater than or equal to -1\r\n")
	c.Want("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n")
	last := h.Sessions().SlowLog().Newest(1)[0].ID
	c.Want("SLOWLOG RESET", "+OK\r\n")
	c.Want("SLOWLOG LEN", ":0\r\n")
	c.Want("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n")
	c.Want("GET a", "$1\r\n1\r\n")
	if id := h.Sessions().SlowLog().Newest(1)[0].ID; id <= last {
		t.Errorf("the ids do not continue after SLOWLOG RESET: %d after %d", id, last)
	}
}

// A command that blocks gets one entry, when the wait has ended, with the arguments that the client has sent.
func TestSlowLogOfBlockedClients(t *testing.T) {
	h := servertest.Start(t, "slowlog-log-slower-than", "0")
	c, w := h.Dial(t), h.Dial(t)
	w.Want("XADD s 1-0 f v", "$3\r\n1-0\r\n")
	for _, tt := range []struct{ wait, end string }{
		{"BLPOP l 0", "LPUSH l a"},
		{"XREAD BLOCK 0 STREAMS s $", "XADD s 2-0 f v"},
		{"BRPOP l 0.01", ""},
	} {
		w.Want("SLOWLOG RESET", "+OK\r\n")
		c.Send(servertest.Pipeline(tt.wait))
		if tt.end != "" {
			h.BlockedClients(t, 1)
			for _, e := range h.Sessions().SlowLog().Newest(-1) {
				if strings.Join(e.Args, " ") == tt.wait {
					t.Errorf("%s is in the log while it waits", tt.wait)
				}
			}
			w.Do(strings.Fields(tt.end)...)
		}
		c.Reply()
		c.Want("PING", "+PONG\r\n") // the entry of the command before is complete now
		n := 0
		for _, e := range h.Sessions().SlowLog().Newest(-1) {
			if strings.Join(e.Args, " ") == tt.wait {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is %d times in the log", tt.wait, n)
		}
	}
}

// The entry of a command that a script calls has no client address and no client name.
func TestSlowLogOfScript(t *testing.T) {
	h := servertest.Start(t, "slowlog-log-slower-than", "0")
	c := h.Dial(t)
	c.Want("CLIENT SETNAME me", "+OK\r\n")
	c.Do("EVAL", "redis.call('SET', KEYS[1], 'v') return 1", "1", "k")
	list := h.Sessions().SlowLog().Newest(2)
	if inner := list[1]; strings.Join(inner.Args, " ") != "SET k v" || inner.Addr != "" || inner.Name != "" {
		t.Errorf("called: %+v", inner)
	}
	if outer := list[0]; outer.Args[0] != "EVAL" || outer.Name != "me" || outer.Took < list[1].Took {
		t.Errorf("the script: %+v", outer)
	}
}

func TestSlowLogTrims(t *testing.T) {
	h := servertest.Start(t, "slowlog-log-slower-than", "0")
	c := h.Dial(t)
	args := []string{"RPUSH", "l"}
	for i := range 40 {
		args = append(args, fmt.Sprint(i))
	}
	c.Do(args...)
	got := lastSlow(h, t, "RPUSH")
	if len(got) != 32 || got[30] != "28" || got[31] != "... (11 more arguments)" {
		t.Errorf("%d arguments, %q", len(got), got[len(got)-2:])
	}
	c.Do(append([]string{"LPUSH", "l"}, args[2:32]...)...)
	if got := lastSlow(h, t, "LPUSH"); len(got) != 32 || got[31] != "29" {
		t.Errorf("32 arguments: %q", got)
	}
	long := strings.Repeat("x", 128)
	c.Do("SET", long, long+"yz")
	if got := lastSlow(h, t, "SET"); got[1] != long || got[2] != long+"... (2 more bytes)" {
		t.Errorf("%q", got)
	}
}

// The commands inside EXEC have entries, EXEC itself has none.
func TestSlowLogOfTransaction(t *testing.T) {
	h := servertest.Start(t, "slowlog-log-slower-than", "0")
	c := h.Dial(t)
	c.DoAll("MULTI;INCR n;DEL x;EXEC")
	var got []string
	for _, e := range h.Sessions().SlowLog().Newest(-1) {
		got = append(got, e.Args[0])
	}
	if want := "DEL INCR MULTI"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// If calls are measured in a group and the group's time exceeds the threshold, the call with the longest reply gets the
// entry.
func TestSlowGroup(t *testing.T) {
	h := servertest.Start(t, "slowlog-log-slower-than", "-1") // on a busy host any command may be slow
	c := h.Dial(t)
	c.Do("SET", "long", strings.Repeat("v", 3000))
	c.Do("SET", "short", "v")
	h.Sessions().SlowInGroups(1)
	c.Send(servertest.Pipeline("GET short", "GET long", "GET short"))
	for range 3 {
		c.Reply()
	}
	list := h.Sessions().SlowLog().Newest(-1)
	if len(list) != 1 || strings.Join(list[0].Args, " ") != "GET long" {
		t.Errorf("%+v", list)
	}
}

func TestPerfLog(t *testing.T) {
	h := servertest.Start(t, "profiling-sample-ratio", "100", "profiling-sample-commands", "hset,hgetall,ping",
		"profiling-sample-record-threshold-ms", "0", "profiling-sample-record-max-len", "2")
	c := h.Dial(t)
	c.Send(servertest.Pipeline("HSET h f v", "PING", "HSET h f2 v", "HGETALL h", "GET x"))
	for range 5 {
		c.Reply()
	}
	list := h.Sessions().PerfLog().Newest(-1)
	if len(list) != 2 || list[0].Command != "hgetall" || list[1].Command != "hset" || list[0].ID != 2 {
		t.Fatalf("%+v", list)
	}
	if !strings.Contains(list[0].Perf, "=") || list[0].Took <= 0 {
		t.Errorf("%+v", list[0])
	}
	if got := c.Do("PERFLOG", "GET"); !strings.HasPrefix(got, "*2\r\n*6\r\n:2\r\n:") ||
		!strings.Contains(got, "$7\r\nhgetall\r\n") {
		t.Errorf("%q", got)
	}
	c.Want("PERFLOG LEN", ":2\r\n")
	c.Want("PERFLOG RESET", "+OK\r\n")
	c.Want("PERFLOG LEN", ":0\r\n")
	c.Want("CONFIG SET profiling-sample-ratio 0", "+OK\r\n")
	c.Do("HGETALL", "h")
	c.Want("PERFLOG LEN", ":0\r\n")
}
