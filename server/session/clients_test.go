package session_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/wire"
)

// clientFields returns the fields that CLIENT LIST shows of a connection, by name. asker sends the command. The result
// is nil until the server has accepted the connection, which may be some time after the client dialled.
func clientFields(t *testing.T, asker, of *servertest.Client) map[string]string {
	t.Helper()
	list := asker.Do("CLIENT", "LIST")
	for line := range strings.Lines(list) {
		if strings.Contains(line, " addr="+of.LocalAddr().String()+" ") {
			fields := map[string]string{}
			for _, f := range strings.Fields(line) {
				name, value, _ := strings.Cut(f, "=")
				fields[name] = value
			}
			return fields
		}
	}
	return nil
}

// The fields of CLIENT LIST for buffers and memory agree with the state of the connection.
func TestClientBuffers(t *testing.T) {
	h := servertest.Start(t)
	asker := h.Dial(t)
	number := func(c *servertest.Client, field string) int {
		t.Helper()
		n, err := strconv.Atoi(clientFields(t, asker, c)[field])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// want waits for the fields: a connection becomes idle only some time after its reply was sent.
	want := func(c *servertest.Client, fields ...string) {
		t.Helper()
		servertest.Eventually(t, fmt.Sprint(fields), func() bool {
			got := clientFields(t, asker, c)
			return !slices.ContainsFunc(fields, func(f string) bool {
				name, value, _ := strings.Cut(f, "=")
				return got[name] != value
			})
		})
	}

	// In its own line a client sees the running command, and the replies before it.
	asker.Send("PING\r\nCLIENT INFO\r\n")
	asker.Expect("+PONG\r\n")
	if got := asker.Reply(); !regexp.MustCompile(` qbuf=19 qbuf-free=16365 argv-mem=10 multi-mem=0 rbs=[1-9]\d* rbp=\d+ ` +
		`obl=7 oll=0 omem=0 tot-mem=\d+ `).MatchString(got) {
		t.Errorf("%s", got)
	}

	// An idle connection has no buffers, and the peak of its replies is shown for some seconds.
	idle := h.Dial(t)
	idle.Want("SET long "+strings.Repeat("x", 1000), "+OK\r\n")
	idle.Do("GET", "long")
	const ahead = time.Hour // the peak is shown for this time, however busy the host is
	replied := func(after time.Duration) {
		h.Sessions().Each(func(c *session.Loop) { c.Replied(after) })
	}
	replied(ahead)
	want(idle, "qbuf=0", "qbuf-free=0", "argv-mem=0", "rbs=0", "rbp=1009", "obl=0", "oll=0", "omem=0", "events=r",
		"cmd=get")
	base := number(idle, "tot-mem")
	replied(-ahead - 2*session.ReplyPeriod)
	want(idle, "rbp=0")

	// The received part of an incomplete command.
	half := h.Dial(t)
	half.Send("*2\r\n$4\r\nECHO\r\n$100\r\nabc")
	want(half, "qbuf=23", "qbuf-free="+fmt.Sprint(wire.ReadBuffer-23), "tot-mem="+fmt.Sprint(base+wire.ReadBuffer),
		"cmd=NULL")

	multi := h.Dial(t)
	multi.Want("MULTI", "+OK\r\n")
	multi.Want("SET k "+strings.Repeat("v", 5000), "+QUEUED\r\n")
	want(multi, "multi=1", "flags=x", "qbuf-free=0")
	if n := number(multi, "multi-mem"); n < 5004 || number(multi, "tot-mem") != base+n {
		t.Errorf("multi-mem=%d", n)
	}
	multi.Want("DISCARD", "+OK\r\n")
	want(multi, "multi=-1", "multi-mem=0", fmt.Sprintf("tot-mem=%d", base))

	waiter := h.Dial(t)
	waiter.Send(servertest.Encode("BLPOP", "none", "0"))
	servertest.Eventually(t, "the client waits", func() bool { return h.Sessions().Counts().Blocked == 1 })
	want(waiter, "argv-mem=10", "flags=b", "cmd=blpop", fmt.Sprintf("tot-mem=%d", base+10))

	sub := h.Dial(t)
	sub.Do("SUBSCRIBE", strings.Repeat("c", 1000))
	want(sub, "flags=P", "sub=1", "qbuf-free=0")
	if n := number(sub, "tot-mem"); n < base+1000 {
		t.Errorf("tot-mem=%d of a subscriber", n)
	}
	sub.Do("UNSUBSCRIBE")
	want(sub, fmt.Sprintf("tot-mem=%d", base))

	// A client that does not read its replies.
	slow := h.Dial(t)
	big := strings.Repeat("b", 8<<20)
	asker.Do("SET", "big", big)
	slow.Send(servertest.Pipeline("GET big", "GET big", "GET big"))
	servertest.Eventually(t, "replies wait", func() bool { return clientFields(t, asker, slow)["omem"] > "0" })
	got := clientFields(t, asker, slow)
	n, _ := strconv.Atoi(got["omem"])
	if total, _ := strconv.Atoi(got["tot-mem"]); got["oll"] == "0" || got["events"] != "rw" || total < n {
		t.Errorf("%v", got)
	}
	for range 3 {
		slow.Reply()
	}
	want(slow, "omem=0", "oll=0", "events=r")
}

// CLIENT LIST shows the last command that a client has sent, also one that was refused or queued.
func TestLastCommandOfPipeline(t *testing.T) {
	h := servertest.Start(t)
	asker, of := h.Dial(t), h.Dial(t)
	for _, c := range []struct{ pipeline, want string }{
		{"GET k|SET k v|GET k", "get"},
		{"PING|GET", "get"},
		{"PING|NOSUCH", "NULL"},
		{"PING|CLIENT NOSUCH", "NULL"},
		{"NOSUCH|PING", "ping"},
		{"MULTI|PING|GET k", "get"},
		{"ECHO x|EXEC", "exec"},
		{"EXEC|CLIENT ID", "client|id"},
	} {
		commands := strings.Split(c.pipeline, "|")
		of.Send(servertest.Pipeline(commands...))
		for range commands {
			of.Reply()
		}
		servertest.Eventually(t, c.pipeline+": "+c.want, func() bool {
			return clientFields(t, asker, of)["cmd"] == c.want
		})
	}
}

// The filters of CLIENT KILL, and the connections that are left. a and b are connections of the user bob, and b has
// subscribed to a channel; e is a connection of the user eve. n and me are of the default user, and me sends the
// command.
func TestClientKillFilters(t *testing.T) {
	h := servertest.Start(t)
	setup := h.Dial(t)
	for _, u := range []string{"bob", "eve"} {
		setup.Want("ACL SETUSER "+u+" on nopass ~* &* +@all", "+OK\r\n")
	}
	setup.Close()
	servertest.Eventually(t, "the connection is closed", func() bool { return h.Sessions().Clients() == 0 })
	for _, c := range []struct{ filters, reply, left string }{
		{"USER bob", ":2\r\n", "e n me"},
		{"USER eve", ":1\r\n", "a b n me"},
		{"USER default", ":1\r\n", "a b e me"},
		{"USER default SKIPME NO", ":2\r\n", "a b e"},
		{"USER bob TYPE pubsub", ":1\r\n", "a e n me"},
		{"TYPE normal", ":3\r\n", "b me"},
		{"TYPE normal USER bob", ":1\r\n", "b e n me"},
		{"TYPE replica", ":0\r\n", "a b e n me"},
		{"USER nobody", "-ERR No such user 'nobody'\r\n", "a b e n me"},
		{"ADDR {a}", ":1\r\n", "b e n me"},
		{"ADDR {a} USER eve", ":0\r\n", "a b e n me"},
		{"ADDR {me}", ":0\r\n", "a b e n me"},
		{"LADDR {server} USER bob", ":2\r\n", "e n me"},
		{"LADDR {a}", ":0\r\n", "a b e n me"},
		{"{me}", "+OK\r\n", "a b e n"},
		{"{n}", "+OK\r\n", "a b e me"},
		// If a filter is given twice, the last one applies.
		{"ADDR {a} ADDR {n}", ":1\r\n", "a b e me"},
		{"USER bob USER eve", ":1\r\n", "a b n me"},
		{"TYPE pubsub TYPE normal", ":3\r\n", "b me"},
		{"ID 1 ID 99999", ":0\r\n", "a b e n me"},
		{"SKIPME NO SKIPME YES USER default", ":1\r\n", "a b e me"},
	} {
		all := map[string]*servertest.Client{}
		for _, name := range []string{"a", "b", "e", "n", "me"} {
			all[name] = h.Dial(t)
			all[name].Want("PING", "+PONG\r\n") // the server has accepted the connection
		}
		all["a"].Want("AUTH bob x", "+OK\r\n")
		all["b"].Want("AUTH bob x", "+OK\r\n")
		all["e"].Want("AUTH eve x", "+OK\r\n")
		all["b"].Do("SUBSCRIBE", "channel")
		filters := strings.ReplaceAll(c.filters, "{server}", h.Addr())
		for name, x := range all {
			filters = strings.ReplaceAll(filters, "{"+name+"}", x.LocalAddr().String())
		}
		if got := all["me"].Do(append([]string{"CLIENT", "KILL"}, strings.Fields(filters)...)...); got != c.reply {
			t.Errorf("%s: %q, want %q", c.filters, got, c.reply)
		}
		servertest.Eventually(t, c.filters+": the others are left",
			func() bool { return h.Sessions().Clients() == len(strings.Fields(c.left)) })
		for _, name := range strings.Fields(c.left) {
			all[name].Do("PING")
		}
		for _, x := range all {
			x.Close()
		}
		servertest.Eventually(t, "the connections are closed", func() bool { return h.Sessions().Clients() == 0 })
	}
}

func TestClientKillMaxAge(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	other.Want("PING", "+PONG\r\n")
	c.Want("CLIENT KILL MAXAGE 1000", ":0\r\n")
	c.Want("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0\r\n")
	c.Want("CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range\r\n")
	h.Sessions().Each(func(c *session.Loop) {
		if c.Session().Addr == other.LocalAddr().String() {
			c.Older(2000 * time.Second)
		}
	})
	c.Want("CLIENT KILL TYPE normal MAXAGE 1000 SKIPME no", ":1\r\n")
	other.Closed()
}

// TestClockStep: whatever the system's clock is set to, clients are idle for as long as they were.
func TestClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		h := servertest.Start(t)
		h.Sessions().StepClock(step)
		idle, c := h.Dial(t), h.Dial(t)
		idle.Want("PING", "+PONG\r\n")
		c.Want("PING", "+PONG\r\n")
		if got := c.Do("CLIENT", "INFO"); !regexp.MustCompile(` idle=\d{1,3} `).MatchString(got) {
			t.Errorf("the clock was set by %s: %s", step, got)
		}
		c.Want("CONFIG SET timeout 1", "+OK\r\n")
		if got := idle.Closed(); got != "" {
			t.Errorf("an idle client got %q", got)
		}
	}
}
