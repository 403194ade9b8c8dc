package server

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/wire"
)

// clientFields returns the line of CLIENT LIST of a connection, by the names of its fields: nil as long as the server
// has not accepted it, which may be some time after the client dialled.
func clientFields(t *testing.T, asker, of *client) map[string]string {
	t.Helper()
	list := asker.do("CLIENT", "LIST")
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

// The fields of buffers say what is there.
func TestClientBuffers(t *testing.T) {
	h := start(t)
	asker := h.dial(t)
	number := func(c *client, field string) int {
		t.Helper()
		n, err := strconv.Atoi(clientFields(t, asker, c)[field])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want := func(c *client, fields ...string) { // soon: a connection is at rest only some time after its reply was sent
		t.Helper()
		eventually(t, fmt.Sprint(fields), func() bool {
			got := clientFields(t, asker, c)
			return !slices.ContainsFunc(fields, func(f string) bool {
				name, value, _ := strings.Cut(f, "=")
				return got[name] != value
			})
		})
	}

	// Of itself a client sees the command and the replies before it.
	asker.send("PING\r\nCLIENT INFO\r\n")
	asker.expect("+PONG\r\n")
	if got := asker.reply(); !regexp.MustCompile(` qbuf=19 qbuf-free=16365 argv-mem=10 multi-mem=0 rbs=[1-9]\d* rbp=\d+ obl=7 oll=0 omem=0 tot-mem=\d+ `).MatchString(got) {
		t.Errorf("%s", got)
	}

	// An idle one has no buffers, and the peak of its replies is known for some seconds.
	idle := h.dial(t)
	idle.want("SET long "+strings.Repeat("x", 1000), "+OK\r\n")
	idle.do("GET", "long")
	const ahead = time.Hour // so long the peak is known, however busy the machine is
	replied := func(after time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, c := range h.conns {
			c.info.lastActive.Add(after.Milliseconds())
		}
	}
	replied(ahead)
	want(idle, "qbuf=0", "qbuf-free=0", "argv-mem=0", "rbs=0", "rbp=1009", "obl=0", "oll=0", "omem=0", "events=r",
		"cmd=get")
	base := number(idle, "tot-mem")
	replied(-ahead - 2*replyPeriod)
	want(idle, "rbp=0")

	// What was received of a command that is not complete.
	half := h.dial(t)
	half.send("*2\r\n$4\r\nECHO\r\n$100\r\nabc")
	want(half, "qbuf=23", "qbuf-free="+fmt.Sprint(wire.ReadBuffer-23), "tot-mem="+fmt.Sprint(base+wire.ReadBuffer),
		"cmd=NULL")

	multi := h.dial(t)
	multi.want("MULTI", "+OK\r\n")
	multi.want("SET k "+strings.Repeat("v", 5000), "+QUEUED\r\n")
	want(multi, "multi=1", "flags=x", "qbuf-free=0")
	if n := number(multi, "multi-mem"); n < 5004 || number(multi, "tot-mem") != base+n {
		t.Errorf("multi-mem=%d", n)
	}
	multi.want("DISCARD", "+OK\r\n")
	want(multi, "multi=-1", "multi-mem=0", fmt.Sprintf("tot-mem=%d", base))

	waiter := h.dial(t)
	waiter.send(encode("BLPOP", "none", "0"))
	eventually(t, "the client waits", func() bool { return h.waiters.n.Load() == 1 })
	want(waiter, "argv-mem=10", "flags=b", "cmd=blpop", fmt.Sprintf("tot-mem=%d", base+10))

	sub := h.dial(t)
	sub.do("SUBSCRIBE", strings.Repeat("c", 1000))
	want(sub, "flags=P", "sub=1", "qbuf-free=0")
	if n := number(sub, "tot-mem"); n < base+1000 {
		t.Errorf("tot-mem=%d of a subscriber", n)
	}
	sub.do("UNSUBSCRIBE")
	want(sub, fmt.Sprintf("tot-mem=%d", base))

	// One that does not read.
	slow := h.dial(t)
	big := strings.Repeat("b", 8<<20)
	asker.do("SET", "big", big)
	slow.send(pipeline("GET big", "GET big", "GET big"))
	eventually(t, "replies wait", func() bool { return clientFields(t, asker, slow)["omem"] > "0" })
	got := clientFields(t, asker, slow)
	n, _ := strconv.Atoi(got["omem"])
	if total, _ := strconv.Atoi(got["tot-mem"]); got["oll"] == "0" || got["events"] != "rw" || total < n {
		t.Errorf("%v", got)
	}
	for range 3 {
		slow.reply()
	}
	want(slow, "omem=0", "oll=0", "events=r")
}

// The peak is that of the present period and of the one before.
func TestReplyPeak(t *testing.T) {
	var p replyPeak
	at := time.Duration(0)
	for i, step := range []struct {
		after   time.Duration
		n, want int
		changed bool
	}{
		{0, 10, 10, true},
		{time.Second, 5, 10, false},
		{replyPeriod, 7, 10, false}, // the second period
		{replyPeriod, 3, 7, true},   // the third
		{0, 20, 20, true},
		{2 * replyPeriod, 1, 1, true}, // nothing in the one before
		{time.Second, 0, 1, false},
	} {
		at += step.after
		if changed := p.note(step.n, at); changed != step.changed || p.get() != step.want {
			t.Errorf("step %d: %d (changed: %v), want %d (%v)", i, p.get(), changed, step.want, step.changed)
		}
	}
}

// The filters of CLIENT KILL, and which connections they leave. The letters are connections: a and b of the user bob,
// of whom b has subscribed, e of eve, n of nobody in particular, and me, who asks.
func TestClientKillFilters(t *testing.T) {
	h := start(t)
	setup := h.dial(t)
	for _, u := range []string{"bob", "eve"} {
		setup.want("ACL SETUSER "+u+" on nopass ~* &* +@all", "+OK\r\n")
	}
	setup.Close()
	eventually(t, "the connection is closed", func() bool { return h.clients() == 0 })
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
		// Of a filter that comes twice the last one counts.
		{"ADDR {a} ADDR {n}", ":1\r\n", "a b e me"},
		{"USER bob USER eve", ":1\r\n", "a b n me"},
		{"TYPE pubsub TYPE normal", ":3\r\n", "b me"},
		{"ID 1 ID 99999", ":0\r\n", "a b e n me"},
		{"SKIPME NO SKIPME YES USER default", ":1\r\n", "a b e me"},
	} {
		all := map[string]*client{}
		for _, name := range []string{"a", "b", "e", "n", "me"} {
			all[name] = h.dial(t)
			all[name].want("PING", "+PONG\r\n") // it is accepted
		}
		all["a"].want("AUTH bob x", "+OK\r\n")
		all["b"].want("AUTH bob x", "+OK\r\n")
		all["e"].want("AUTH eve x", "+OK\r\n")
		all["b"].do("SUBSCRIBE", "channel")
		filters := strings.ReplaceAll(c.filters, "{server}", h.Addr())
		for name, x := range all {
			filters = strings.ReplaceAll(filters, "{"+name+"}", x.LocalAddr().String())
		}
		if got := all["me"].do(append([]string{"CLIENT", "KILL"}, strings.Fields(filters)...)...); got != c.reply {
			t.Errorf("%s: %q, want %q", c.filters, got, c.reply)
		}
		eventually(t, c.filters+": the others are left", func() bool { return h.clients() == len(strings.Fields(c.left)) })
		for _, name := range strings.Fields(c.left) {
			all[name].do("PING")
		}
		for _, x := range all {
			x.Close()
		}
		eventually(t, "the connections are closed", func() bool { return h.clients() == 0 })
	}
}
