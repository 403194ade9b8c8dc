package server

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// sameOneByOne sends commands in a pipeline and, after begin again, one by one, and compares the replies.
func sameOneByOne(t *testing.T, piped, single *client, begin func(), commands []string) {
	t.Helper()
	begin()
	piped.send(pipeline(commands...))
	var got strings.Builder
	for range commands {
		got.WriteString(piped.reply())
	}
	begin()
	var want strings.Builder
	for _, command := range commands {
		want.WriteString(single.do(strings.Fields(command)...))
	}
	if got.String() != want.String() {
		t.Fatalf("%q:\n%q, one by one\n%q", commands, got.String(), want.String())
	}
}

// TestBitPipelines: commands whose fragments are read ahead reply as they do one by one, whatever the others of the
// pipeline do to their keys.
func TestBitPipelines(t *testing.T) {
	h := start(t)
	piped, single := h.dial(t), h.dial(t)
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
			single.want("FLUSHALL", "+OK\r\n")
			single.want("SET text 0123456789", "+OK\r\n")
			single.want("HSET hash f v", ":1\r\n")
			single.want("SETBIT b 100000 1", ":0\r\n")
		}, commands)
	}
}

// TestMemberPipelines is the same with commands on members and fields. Half of the members are in the record cache.
func TestMemberPipelines(t *testing.T) {
	h := start(t)
	piped, single := h.dial(t), h.dial(t)
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
			single.want("FLUSHALL", "+OK\r\n")
			for i := range 20 {
				m := "m" + strconv.Itoa(i)
				single.want("HSET h "+m+" v"+m, ":1\r\n")
				single.want("SADD s "+m, ":1\r\n")
				single.want("ZADD z "+strconv.Itoa(i)+" "+m, ":1\r\n")
			}
			h.db.DropCaches()
			for i := range 10 {
				single.want("SISMEMBER s m"+strconv.Itoa(i), ":1\r\n")
				single.want("HEXISTS h m"+strconv.Itoa(i), ":1\r\n")
			}
		}, commands)
	}
}

// TestReadingAheadIsNoLookUp: a key that is read ahead counts once.
func TestReadingAheadIsNoLookUp(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	c.want("SETBIT a 1 1", ":0\r\n")
	c.want("CONFIG RESETSTAT", "+OK\r\n")
	c.send(pipeline("GETBIT a 1", "GETBIT a 2", "GETBIT none 1"))
	for _, want := range []string{":1\r\n", ":0\r\n", ":0\r\n"} {
		if got := c.reply(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	stats := c.do("INFO", "stats")
	for _, want := range []string{"keyspace_hits:2\r\n", "keyspace_misses:1\r\n"} {
		if !strings.Contains(stats, want) {
			t.Errorf("no %q in %s", want, stats)
		}
	}
}

func TestBitPipelinesDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := looped(t)
	c.feed(pipeline("SETBIT bits 8000 1"))
	text := strings.Repeat(pipeline("GETBIT bits 1", "GETBIT bits 70000"), 32)
	for range 10 {
		c.feed(text)
	}
	if n := testing.AllocsPerRun(200, func() { c.feed(text) }); n > 4 {
		t.Errorf("%v allocations for 64 commands", n)
	}
}
