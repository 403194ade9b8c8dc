package session_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// sameOneByOne calls begin and sends commands in a pipeline, then calls begin again and sends the commands one by one.
// The replies must be the same.
func sameOneByOne(t *testing.T, piped, single *servertest.Client, begin func(), commands []string) {
	t.Helper()
	begin()
	piped.Send(servertest.Pipeline(commands...))
	var got strings.Builder
	for range commands {
		got.WriteString(piped.Reply())
	}
	begin()
	var want strings.Builder
	for _, command := range commands {
		want.WriteString(single.Do(strings.Fields(command)...))
	}
	if got.String() != want.String() {
		t.Fatalf("%q:\n%q, one by one\n%q", commands, got.String(), want.String())
	}
}

// TestBitPipelines: in a pipeline, where fragments of bitmaps are prefetched, commands reply as they do one by one,
// whatever other commands of the pipeline do to the keys.
func TestBitPipelines(t *testing.T) {
	h := servertest.Start(t)
	piped, single := h.Dial(t), h.Dial(t)
	r := rand.New(rand.NewPCG(1, 2))
	keys := []string{"a", "b", "c", "text", "hash", "none"}
	for round := range 100 {
		var commands []string
		for range 60 {
			key := keys[r.IntN(len(keys))]
			offset := strconv.Itoa(r.IntN(40000))
			switch n := r.IntN(20); {
			case round%2 == 0 || n < 10:
				commands = append(commands, "GETBIT "+key+" "+offset)
			case n < 16:
				commands = append(commands, "SETBIT "+key+" "+offset+" "+strconv.Itoa(r.IntN(2)))
			case n == 16:
				commands = append(commands, "DEL "+key)
			case n == 17:
				commands = append(commands, "BITOP NOT "+key+" b")
			case n == 18:
				commands = append(commands, "GETBIT "+key+" 4294967296")
			default:
				commands = append(commands, "GET "+key)
			}
		}
		sameOneByOne(t, piped, single, func() {
			single.Want("FLUSHALL", "+OK\r\n")
			single.Want("SET text 0123456789", "+OK\r\n")
			single.Want("HSET hash f v", ":1\r\n")
			single.Want("SETBIT b 100000 1", ":0\r\n")
		}, commands)
	}
}

// TestMemberPipelines is TestBitPipelines for commands on members and fields. Half of the members are in the record
// cache.
func TestMemberPipelines(t *testing.T) {
	h := servertest.Start(t)
	piped, single := h.Dial(t), h.Dial(t)
	r := rand.New(rand.NewPCG(3, 4))
	reads := []string{"HGET", "HEXISTS", "HSTRLEN", "SISMEMBER", "ZSCORE"}
	writes := []string{"HSET %k %m new", "HDEL %k %m", "HDEL %k %m other", "SADD %k %m", "SREM %k %m", "ZADD %k 7 %m",
		"ZREM %k %m", "ZREM %k %m other",
		"DEL %k", "HGET %k", "HEXPIRE h 100 FIELDS 1 %m", "RENAME %k %k2", "SET %k text"}
	keys := []string{"h", "s", "z", "h2", "none"}
	for round := range 60 {
		var commands []string
		for range 60 {
			key, member := keys[r.IntN(len(keys))], "m"+strconv.Itoa(r.IntN(30))
			command := reads[r.IntN(len(reads))] + " " + key + " " + member
			if round%2 == 1 && r.IntN(3) == 0 {
				command = strings.NewReplacer("%k", key, "%m", member).Replace(writes[r.IntN(len(writes))])
			}
			commands = append(commands, command)
		}
		sameOneByOne(t, piped, single, func() {
			single.Want("FLUSHALL", "+OK\r\n")
			for i := range 20 {
				m := "m" + strconv.Itoa(i)
				single.Want("HSET h "+m+" v"+m, ":1\r\n")
				single.Want("SADD s "+m, ":1\r\n")
				single.Want("ZADD z "+strconv.Itoa(i)+" "+m, ":1\r\n")
			}
			h.DB.DropCaches()
			for i := range 10 {
				single.Want("SISMEMBER s m"+strconv.Itoa(i), ":1\r\n")
				single.Want("HEXISTS h m"+strconv.Itoa(i), ":1\r\n")
			}
		}, commands)
	}
}

// TestPrefetchIsNoLookUp: keyspace_hits and keyspace_misses count a prefetched key once.
func TestPrefetchIsNoLookUp(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("SETBIT a 1 1", ":0\r\n")
	c.Want("CONFIG RESETSTAT", "+OK\r\n")
	c.Send(servertest.Pipeline("GETBIT a 1", "GETBIT a 2", "GETBIT none 1"))
	for _, want := range []string{":1\r\n", ":0\r\n", ":0\r\n"} {
		if got := c.Reply(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	stats := c.Do("INFO", "stats")
	for _, want := range []string{"keyspace_hits:2\r\n", "keyspace_misses:1\r\n"} {
		if !strings.Contains(stats, want) {
			t.Errorf("no %q in %s", want, stats)
		}
	}
}

func TestBitPipelinesDoNotAllocate(t *testing.T) {
	if servertest.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	c := looped(t)
	c.Feed(servertest.Pipeline("SETBIT bits 8000 1"))
	text := strings.Repeat(servertest.Pipeline("GETBIT bits 1", "GETBIT bits 70000"), 32)
	for range 10 {
		c.Feed(text)
	}
	if n := testing.AllocsPerRun(200, func() { c.Feed(text) }); n > 4 {
		t.Errorf("%v allocations for 64 commands", n)
	}
}
