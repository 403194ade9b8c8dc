package session_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// entryReply returns the RESP2 reply of XREAD with one entry of one stream.
func entryReply(key, id string, fields ...string) string {
	return fmt.Sprintf("*1\r\n*2\r\n$%d\r\n%s\r\n*1\r\n*2\r\n$%d\r\n%s\r\n%s", len(key), key, len(id), id,
		servertest.Bulk(fields...))
}

// One client waits for entries, another client writes, and the first client gets the reply want.
func TestBlockedStreamReader(t *testing.T) {
	h := servertest.Start(t)
	noGroup := "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n"
	for _, tt := range []struct{ name, blocked, write, want string }{
		{"XREAD", "XREAD BLOCK 0 STREAMS s $", "XADD s 5-1 a b;XADD s 6-1 a b", entryReply("s", "5-1", "a", "b")},
		{"new stream", "XREAD BLOCK 0 STREAMS new $", "XADD new 1-1 a b", entryReply("new", "1-1", "a", "b")},
		{"one of several", "XREAD BLOCK 0 STREAMS x y s $ $ $", "XADD y 1-1 a b", entryReply("y", "1-1", "a", "b")},
		{"an id greater than the last one", "XREAD BLOCK 0 STREAMS s 5-1", "XADD s 5-1 a b;XADD s 5-2 a c",
			entryReply("s", "5-2", "a", "c")},
		{"added and deleted", "XREAD BLOCK 0 STREAMS s $", "MULTI;XADD s 5-1 a b;XDEL s 5-1;EXEC;XADD s 5-2 a c",
			entryReply("s", "5-2", "a", "c")},
		{"transaction", "XREAD BLOCK 0 COUNT 1 STREAMS s $", "MULTI;XADD s 5-1 a b;XADD s 5-2 a c;EXEC",
			entryReply("s", "5-1", "a", "b")},
		{"another type meanwhile", "XREAD BLOCK 0 STREAMS new $", "SET new v;DEL new;XADD new 5-1 a b",
			entryReply("new", "5-1", "a", "b")},
		{"RENAME", "XREAD BLOCK 0 STREAMS new $", "XADD o 5-1 a b;RENAME o new", entryReply("new", "5-1", "a", "b")},
		{"XREADGROUP", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XADD s 5-1 a b", entryReply("s", "5-1", "a", "b")},
		{"NOACK", "XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS s >", "XADD s 5-1 a b", entryReply("s", "5-1", "a", "b")},
		{"group set back", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XGROUP SETID s g 0",
			entryReply("s", "1-1", "a", "1")},
		{"group destroyed", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XGROUP DESTROY s g", noGroup},
		{"stream deleted", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "DEL s", noGroup},
		{"stream renamed", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "RENAME s t", noGroup},
		{"flush", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "FLUSHALL", noGroup},
		{"flush of the namespace", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "FLUSHDB", noGroup},
		{"flush in a transaction", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "MULTI;SET x v;FLUSHALL;SET y v;EXEC",
			noGroup},
		{"flush of the namespace in a transaction", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "MULTI;FLUSHDB;EXEC",
			noGroup},
		{"flush in a script", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "EVAL redis.call('FLUSHALL') 0", noGroup},
		{"flush in a script in a transaction", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
			"MULTI;EVAL redis.call('FLUSHDB') 0;EXEC", noGroup},
		{"stream overwritten", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "SET s v",
			"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := h.Dial(t), h.Dial(t)
			b.DoAll("FLUSHALL;XADD s 1-1 a 1;XGROUP CREATE s g $")
			a.Send(servertest.Encode(strings.Fields(tt.blocked)...))
			h.BlockedClients(t, 1)
			b.DoAll(tt.write)
			if got := a.Reply(); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.blocked, got, tt.want)
			}
			h.BlockedClients(t, 0)
			a.Want("PING", "+PONG\r\n")
		})
	}
}

// All blocked readers get an entry, but only one of the blocked consumers of a group: the one that has waited longest.
func TestBlockedStreamReaders(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n")
	const n = 5
	var readers, consumers []*servertest.Client
	for i := range n {
		r, w := h.Dial(t), h.Dial(t)
		r.Send(servertest.Encode("XREAD", "BLOCK", "0", "STREAMS", "s", "$"))
		w.Send(servertest.Encode("XREADGROUP", "GROUP", "g", fmt.Sprint("c", i), "COUNT", "1", "BLOCK", "0", "STREAMS", "s",
			">"))
		h.BlockedClients(t, 2*i+2)
		readers, consumers = append(readers, r), append(consumers, w)
	}
	for i := range n {
		c.Want(fmt.Sprintf("XADD s %d-1 f v", i+1), fmt.Sprintf("$3\r\n%d-1\r\n", i+1))
	}
	for i := range n {
		if got, want := readers[i].Reply(), entryReply("s", "1-1", "f", "v"); got != want {
			t.Errorf("reader %d: %q, want %q", i, got, want)
		}
		if got, want := consumers[i].Reply(), entryReply("s", fmt.Sprintf("%d-1", i+1), "f", "v"); got != want {
			t.Errorf("consumer %d: %q, want %q", i, got, want)
		}
	}
	c.Want("XPENDING s g", "*4\r\n:5\r\n$3\r\n1-1\r\n$3\r\n5-1\r\n*5\r\n"+
		servertest.Bulk("c0", "1")+servertest.Bulk("c1", "1")+servertest.Bulk("c2", "1")+servertest.Bulk("c3", "1")+
		servertest.Bulk("c4", "1"))
}

// Several consumers wait again and again: together they get each entry exactly once.
func TestBlockedStreamConsumers(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n")
	const consumers, entries = 6, 300
	ids := make(chan string, 2*entries)
	for i := range consumers {
		w := h.Dial(t)
		go func() {
			for {
				got := w.Do("XREADGROUP", "GROUP", "g", fmt.Sprint("c", i), "COUNT", "2", "BLOCK", "0", "STREAMS", "s", ">")
				if !strings.HasPrefix(got, "*1\r\n") {
					ids <- got // an error: the expected NOGROUP at the end, or a fault
					return
				}
				for _, line := range strings.Split(got, "\r\n") {
					if strings.HasSuffix(line, "-1") {
						ids <- line
					}
				}
			}
		}()
	}
	for i := range entries {
		c.Want(fmt.Sprintf("XADD s %d-1 f v", i+1), fmt.Sprintf("$%d\r\n%d-1\r\n", len(fmt.Sprint(i+1))+2, i+1))
	}
	seen := map[string]int{}
	for range entries {
		seen[<-ids]++
	}
	for i := range entries {
		if id := fmt.Sprintf("%d-1", i+1); seen[id] != 1 {
			t.Errorf("%s was handed out %d times", id, seen[id])
		}
	}
	h.BlockedClients(t, consumers)
	c.Want("XGROUP DESTROY s g", ":1\r\n")
	for range consumers {
		if got := <-ids; !strings.HasPrefix(got, "-NOGROUP ") {
			t.Errorf("at the end: %q", got)
		}
	}
}

func TestBlockedStreamReaderTimesOut(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XADD s 1-1 a b", "$3\r\n1-1\r\n")
	c.Want("XGROUP CREATE s g $", "+OK\r\n")
	c.Want("XREAD BLOCK 5 STREAMS s $", "*-1\r\n")
	c.Want("XREADGROUP GROUP g c BLOCK 5 STREAMS s >", "*-1\r\n")
	c.Want("MULTI", "+OK\r\n")
	c.Want("XREAD BLOCK 0 STREAMS s $", "+QUEUED\r\n")
	c.Want("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "+QUEUED\r\n")
	c.Want("EXEC", "*2\r\n*-1\r\n*-1\r\n")
	c.Do("HELLO", "3")
	c.Want("XREAD BLOCK 5 STREAMS s $", "_\r\n")
}

// TestBlockedClaim: a consumer that waits with CLAIM gets new entries, and pending ones as soon as they have been idle
// for long enough.
func TestBlockedClaim(t *testing.T) {
	h := servertest.Start(t)
	// claimed is the pattern of a reply of entries of the stream s, each an id and its number of deliveries.
	claimed := func(entries ...string) string {
		out := fmt.Sprintf("*1\r\n*2\r\n$1\r\ns\r\n*%d\r\n", len(entries))
		for _, e := range entries {
			id, n, _ := strings.Cut(e, " ")
			out += fmt.Sprintf("*4\r\n$3\r\n%s\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n:N\r\n:%s\r\n", id, n)
		}
		return strings.ReplaceAll(regexp.QuoteMeta(out), ":N", `:\d+`)
	}
	const long, short = "XREADGROUP GROUP g b BLOCK 0 CLAIM 100000 STREAMS s >",
		"XREADGROUP GROUP g b BLOCK 0 CLAIM 30 STREAMS s >"
	for _, tt := range []struct{ name, before, blocked, write, want string }{
		{"in time", "", short, "", claimed("1-0 1", "2-0 1")},
		{"in time, of another stream", "XGROUP CREATE t g 0 MKSTREAM",
			"XREADGROUP GROUP g b COUNT 1 BLOCK 0 CLAIM 30 STREAMS t s > >", "", claimed("1-0 1")},
		{"new", "", long, "XADD s 3-0 f v", claimed("3-0 0")},
		{"given back", "", long, "XNACK s g FAIL IDS 2 2-0 1-0", claimed("2-0 1", "1-0 1")},
		{"given back in a transaction", "", long, "MULTI;XNACK s g SILENT IDS 1 2-0;EXEC", claimed("2-0 0")},
		{"given back in a script", "", long, "EVAL redis.call('XNACK',KEYS[1],'g','FATAL','IDS',1,'1-0') 1 s",
			claimed("1-0 9223372036854775807")},
		{"dated back", "", long, "XCLAIM s g a 0 1-0 IDLE 200000 JUSTID", claimed("1-0 1")},
		{"dated back, but not far enough", "", long, "XCLAIM s g a 0 1-0 IDLE 99970 JUSTID", claimed("1-0 1")},
		{"delivered meanwhile", "XACK s g 1-0 2-0", short, "MULTI;XADD s 3-0 f v;XREADGROUP GROUP g a STREAMS s >;EXEC",
			claimed("3-0 1")},
		{"deleted", "XDEL s 1-0", short, "", claimed("2-0 1")},
		{"renamed", "XACK s g 1-0 2-0;COPY s t;XADD t 3-0 f v;XREADGROUP GROUP g a STREAMS t >", short, "RENAME t s",
			claimed("3-0 1")},
		{"not in time", "", "XREADGROUP GROUP g b BLOCK 20 CLAIM 100000 STREAMS s >", "", `\*-1\r\n`},
		{"group destroyed", "", long, "XGROUP DESTROY s g", `-NOGROUP [^\r]*\r\n`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := h.Dial(t), h.Dial(t)
			b.DoAll("FLUSHALL;XADD s 1-0 f v;XADD s 2-0 f v;XGROUP CREATE s g 0;XREADGROUP GROUP g a STREAMS s >;" + tt.before)
			a.Send(servertest.Encode(strings.Fields(tt.blocked)...))
			if tt.write != "" {
				h.BlockedClients(t, 1)
				b.DoAll(tt.write)
			}
			if got := a.Reply(); !regexp.MustCompile("^" + tt.want + "$").MatchString(got) {
				t.Errorf("%s: %q, want %q", tt.blocked, got, tt.want)
			}
			h.BlockedClients(t, 0)
			a.Want("PING", "+PONG\r\n")
		})
	}
}

// TestBlockedClaims: of clients that wait for pending entries each gets another one, and none is woken again and again
// in vain.
func TestBlockedClaims(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n")
	const n = 5
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("%d-0", i+1))
		c.Want("XADD s "+ids[i]+" f v", servertest.Bulk(ids[i])[4:])
	}
	c.Do("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
	var clients []*servertest.Client
	for i := range n {
		w := h.Dial(t)
		w.Send(servertest.Encode("XREADGROUP", "GROUP", "g", fmt.Sprint("c", i), "COUNT", "1", "BLOCK", "0", "CLAIM", "300",
			"STREAMS", "s", ">"))
		clients = append(clients, w)
	}
	var got []string
	for _, w := range clients {
		got = append(got, strings.Split(w.Reply(), "\r\n")[7])
	}
	if slices.Sort(got); !slices.Equal(got, ids) {
		t.Errorf("%q were claimed, want %q", got, ids)
	}
}

// TestClaimInside: CLAIM in transactions and scripts, where nobody waits.
func TestClaimInside(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XADD s 1-0 f v", "$3\r\n1-0\r\n")
	c.Want("XGROUP CREATE s g 0", "+OK\r\n")
	c.Want("MULTI", "+OK\r\n")
	c.Want("XREADGROUP GROUP g a STREAMS s >", "+QUEUED\r\n")
	c.Want("XREADGROUP GROUP g b CLAIM 0 STREAMS s >", "+QUEUED\r\n")
	c.Want("XREADGROUP GROUP g b BLOCK 0 CLAIM 100000 STREAMS s >", "+QUEUED\r\n")
	c.Want("XNACK s g SILENT IDS 1 1-0", "+QUEUED\r\n")
	c.Want("EXEC", "*4\r\n"+entryReply("s", "1-0", "f", "v")+
		"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*4\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n:0\r\n:1\r\n*-1\r\n:1\r\n")
	for _, tt := range []struct{ script, want string }{
		{"return redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'CLAIM', '0', 'STREAMS', KEYS[1], '>')[1][2][1][4]", ":1\r\n"},
		{"return redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'CLAIM', '100000', 'STREAMS', KEYS[1], '>')", "$-1\r\n"},
		{"return redis.call('XNACK', KEYS[1], 'g', 'FAIL', 'IDS', '1', '1-0')", ":1\r\n"},
		{"return redis.call('XREAD', 'MAXCOUNT', '1', 'STREAMS', KEYS[1], '0')[1][2][1][1]", "$3\r\n1-0\r\n"},
	} {
		if got := c.Do("EVAL", tt.script, "1", "s"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.script, got, tt.want)
		}
	}
}
