package session_test

import (
	"fmt"
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
			for _, cmd := range []string{"FLUSHALL", "XADD s 1-1 a 1", "XGROUP CREATE s g $"} {
				b.Do(strings.Fields(cmd)...)
			}
			a.Send(servertest.Encode(strings.Fields(tt.blocked)...))
			h.BlockedClients(t, 1)
			for _, cmd := range strings.Split(tt.write, ";") {
				b.Do(strings.Fields(cmd)...)
			}
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
