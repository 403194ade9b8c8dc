package difftest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// dumped is a key that is made on one server, dumped there and restored on the other: the reads must be the same.
type dumped struct {
	name  string
	make  [][]string
	reads []string
}

// must runs a command that is not to fail.
func (c *client) must(t testing.TB, args ...string) reply {
	t.Helper()
	got, err := c.do(args...)
	require.NoError(t, err)
	if got.kind == '-' {
		t.Fatalf("%.200q: %s", args, got.raw)
	}
	return got
}

// ask runs a command on a connection of its own.
func ask(t *testing.T, srv target, args ...string) reply {
	t.Helper()
	c := connect(t, srv.Addr(), 2)
	defer c.close()
	return c.must(t, args...)
}

// words are a command line.
func words(line string) []string { return strings.Fields(line) }

// many is a command with n times what f returns behind it, in several commands when it is long.
func many(head string, n int, f func(i int) []string) [][]string {
	var all [][]string
	for i := 0; i < n; {
		args := words(head)
		for j := 0; j < 500 && i < n; j++ {
			args = append(args, f(i)...)
			i++
		}
		all = append(all, args)
	}
	return all
}

func dumpedKeys() []dumped {
	r := rand.New(rand.NewPCG(7, 8))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	one := func(args ...string) [][]string { return [][]string{args} }
	str, list, set, zset, hash := []string{"GET k", "STRLEN k", "TYPE k"}, []string{"LRANGE k 0 -1", "LLEN k",
		"TYPE k"}, []string{"SMEMBERS k", "SCARD k", "TYPE k"},
		[]string{"ZRANGE k 0 -1 WITHSCORES", "ZCARD k", "TYPE k"}, []string{"HGETALL k", "HLEN k", "TYPE k"}
	keys := []dumped{
		{"empty string", one("SET", "k", ""), str},
		{"string", one("SET", "k", "hello"), str},
		{"compressed string", one("SET", "k", strings.Repeat("abcab", 1000)+noise(10)), str},
		{"large string", one("SET", "k", noise(100000)), str},
		{"list of numbers",
			one(words("RPUSH k 1 -1 127 128 4095 4096 -4096 -4097 32768 8388608 -2147483648 4294967296 " +
				"-9223372036854775808")...), list},
		{"list of strings", one("RPUSH", "k", "", "a", noise(63), noise(64), noise(4095), noise(4096),
			strings.Repeat("z", 7000)), list},
		{"large list", many("RPUSH k", 5000, func(i int) []string {
			return []string{strings.Repeat(strconv.Itoa(i),
				1+i%7)}
		}), list},
		{"list of large elements", many("RPUSH k", 20, func(i int) []string { return []string{noise(3000 * i)} }), list},
		{"intset 16", one(words("SADD k 1 2 -3 32767")...), set},
		{"intset 32", one(words("SADD k 1 2 -3 32768")...), set},
		{"intset 64", one(words("SADD k 1 2 -3 9223372036854775807")...), set},
		{"set", one("SADD", "k", "a", "", "5", noise(20)), set},
		{"large set", many("SADD k", 3000, func(i int) []string { return []string{fmt.Sprintf("member %d", i*i)} }), set},
		{"large set of numbers",
			many("SADD k", 3000, func(i int) []string { return []string{strconv.Itoa(i * i * i)} }), set},
		{"hash", one("HSET", "k", "a", "1", "", "", "7", "-5", "b", noise(60)), hash},
		{"hash of a long value", one("HSET", "k", "a", noise(100), "b", "12"), hash},
		{"large hash", many("HSET k", 2000, func(i int) []string {
			return []string{"f" + strconv.Itoa(i),
				strconv.Itoa(i * 77777)}
		}), hash},
		{"zset", one(words("ZADD k 1 a 2.5 b -inf c +inf d 0 e 1e100 f 0.1 g 3 7")...), zset},
		{"large zset", many("ZADD k", 2000, func(i int) []string {
			return []string{strconv.FormatFloat(r.NormFloat64(), 'g', 17, 64), "m" + strconv.Itoa(i)}
		}), zset},
		{"sparse HyperLogLog", one(words("PFADD k a b c d e")...), []string{"PFCOUNT k"}},
		{"empty HyperLogLog", one(words("PFADD k")...), []string{"PFCOUNT k"}},
		{"dense HyperLogLog", many("PFADD k", 20000, func(i int) []string { return []string{strconv.Itoa(i)} }),
			[]string{"PFCOUNT k"}},
		{"bits", one(words("SETBIT k 100003 1")...), []string{"GETBIT k 100003", "GETBIT k 100002", "BITCOUNT k",
			"BITPOS k 1"}},
	}
	return append(keys, dumpedStreams(noise)...)
}

func dumpedStreams(noise func(n int) string) []dumped {
	reads := []string{"XRANGE k - +", "XINFO STREAM k", "XINFO STREAM k FULL COUNT 0", "XINFO GROUPS k", "TYPE k"}
	group := func(n string, more ...string) []string {
		return append(append(reads[:len(reads):len(reads)], "XPENDING k "+n, "XPENDING k "+n+" - + 1000",
			"XINFO CONSUMERS k "+n), more...)
	}
	add := func(n int) [][]string {
		var all [][]string
		for i := range n {
			args := []string{"XADD", "k", fmt.Sprintf("%d-%d", 1000+i/3, 1+i%3), "name", noise(i % 70), "n",
				strconv.Itoa(i * 1001)}
			if i%10 == 9 {
				args = append(args, "more", "")
			}
			all = append(all, args)
		}
		return all
	}
	lines := func(first [][]string, rest ...string) [][]string {
		for _, l := range rest {
			first = append(first, words(l))
		}
		return first
	}
	return []dumped{
		{"stream", add(5), reads},
		{"large stream", add(1500), reads},
		{"stream of large entries", lines(add(3), "XADD k * "+strings.Repeat("x", 9000)+" "+strings.Repeat("y",
			20000), "XADD k * a b"), reads},
		{"stream with gaps", lines(add(500), "XDEL k 1000-1 1010-2 1100-3", "XTRIM k MAXLEN 400", "XDEL k 1140-1"), reads},
		{"empty stream", lines(add(2), "XTRIM k MAXLEN 0"), reads},
		{"stream made by a group", lines(nil, "XGROUP CREATE k g $ MKSTREAM"), group("g")},
		{"stream with groups", lines(add(50), "XGROUP CREATE k g 0", "XGROUP CREATE k h 1010-1 ENTRIESREAD 31",
			"XGROUP CREATE k empty $", "XGROUP CREATECONSUMER k g idle",
			"XREADGROUP GROUP g alice COUNT 20 STREAMS k >", "XREADGROUP GROUP g bob COUNT 10 STREAMS k >",
			"XREADGROUP GROUP h bob STREAMS k >", "XACK k g 1000-2 1001-1", "XDEL k 1002-1",
			"XCLAIM k g bob 0 1000-1 RETRYCOUNT 7", "XSETID k 5000-1 ENTRIESADDED 77 MAXDELETEDID 1002-1"), group("g",
			"XPENDING k h", "XPENDING k empty")},
	}
}

// TestDump moves keys of every type, small and large, from one server to the other.
func TestDump(t *testing.T) {
	redis, basalt := startRedis(t, "--list-max-listpack-size", "-2"), startBasalt(t)
	for _, to := range []struct {
		name     string
		from, to target
		setup    string
	}{
		{"from redis", redis, basalt, ""},
		{"from redis, plain nodes", redis, basalt, "DEBUG QUICKLIST-PACKED-THRESHOLD 100B"},
		{"from redis, uncompressed", redis, basalt, "CONFIG SET rdbcompression no"},
		{"to redis", basalt, redis, ""},
		{"from basalt to itself", basalt, basalt, ""},
	} {
		from := connect(t, to.from.Addr(), 2)
		onto := connect(t, to.to.Addr(), 2)
		if to.setup != "" {
			from.must(t, words(to.setup)...)
		}
		for _, k := range dumpedKeys() {
			t.Run(to.name+"/"+k.name, func(t *testing.T) {
				from.must(t, "FLUSHALL")
				if to.from != to.to {
					onto.must(t, "FLUSHALL")
				}
				for _, args := range k.make {
					from.must(t, args...)
				}
				payload := string(from.must(t, "DUMP", "k").text)
				var commands []command
				for _, line := range k.reads {
					commands = append(commands, newCommand(k.name, words(line)...))
				}
				if to.from == to.to { // the value as it is with the value as it becomes
					before, err := replies(to.from, 2, false, commands)
					require.NoError(t, err)
					onto.must(t, "RESTORE", "k", "0", payload, "REPLACE")
					after, err := replies(to.from, 2, false, commands)
					require.NoError(t, err)
					for i, c := range commands {
						if w, g := withoutClock(c.String(), before[i].raw), withoutClock(c.String(), after[i].raw); w != g {
							t.Errorf("%s: %.300q became %.300q", c, w, g)
						}
					}
					return
				}
				onto.must(t, "RESTORE", "k", "0", payload)
				if strings.HasPrefix(k.reads[0], "X") {
					diffStreams(t, to.name, redis, basalt, 2, false, commands)
				} else {
					diffTo(t, to.name, redis, basalt, 2, false, commands)
				}
				if again := onto.must(t, "DUMP", "k"); len(again.text) == 0 {
					t.Error("the copy cannot be dumped")
				}
			})
		}
	}
}

// withoutClock cuts out of a reply what depends on the clock.
func withoutClock(command string, raw []byte) string {
	for _, c := range clocked {
		if c.command.MatchString(command) {
			raw = c.number.ReplaceAll(raw, []byte("$1"))
		}
	}
	return string(raw)
}
