package difftest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestLargeCollections asks for parts of collections that do not fit in one
// buffer of an iterator, and changes them in the middle.
func TestLargeCollections(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	if !testing.Short() {
		diff(t, redis, basalt, 2, true, largeCommands(5000, 600))
	}
	diff(t, redis, basalt, 3, false, largeCommands(700, 300))
}

// largeCommands fills one key of each type, and a second of half its elements,
// and returns that and n random commands on them.
func largeCommands(size, n int) []command {
	rng := rand.New(rand.NewPCG(uint64(size), uint64(n)))
	out := []command{newCommand("start", "FLUSHALL")}
	add := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		out = append(out, newCommand(strconv.Itoa(len(out)), strings.Fields(line)...))
	}
	member := func() string { return fmt.Sprintf("m:%06d", rng.IntN(size+size/10)) }
	for i := range size {
		m := fmt.Sprintf("m:%06d", i)
		long := strings.Repeat("v", i%50)
		add("HSET h %s %d%s", m, i, long)
		add("RPUSH l %d%s", i%97, long)
		add("SADD s %s", m)
		add("ZADD z %d.5 %s", i/3, m)
		add("ZADD lex 0 %s", m)
		if i%2 == 0 {
			add("SADD s2 %s", m)
			add("ZADD z2 %d %s", size-i, m)
		}
	}
	at := func() int { return rng.IntN(2*size) - size }
	rules := []func(){
		func() { add("LRANGE l %d %d", at(), at()) },
		func() { add("LINDEX l %d", at()) },
		func() { add("LSET l %d changed", at()) },
		func() { add("LINSERT l BEFORE %d inserted", rng.IntN(97)) },
		func() { add("LREM l %d %d", rng.IntN(5)-2, rng.IntN(97)) },
		func() { add("LPOS l %d RANK %d COUNT %d", rng.IntN(97), 1-rng.IntN(2)*2, rng.IntN(20)) },
		func() { add("LPOP l %d", rng.IntN(4)) },
		func() { add("RPOP l %d", rng.IntN(4)) },
		func() { add("LPUSH l a b c") },
		func() { add("ZRANGE z %d %d WITHSCORES", at(), at()) },
		func() { add("ZREVRANGE z %d %d", at(), at()) },
		func() {
			add("ZRANGEBYSCORE z %d (%d LIMIT %d %d", rng.IntN(size/3), rng.IntN(size/3), rng.IntN(100), rng.IntN(300))
		},
		func() {
			add("ZREVRANGEBYSCORE z %d %d LIMIT %d %d", rng.IntN(size/3), rng.IntN(size/3), rng.IntN(100), rng.IntN(300))
		},
		func() { add("ZRANGEBYLEX lex [%s (%s", member(), member()) },
		func() { add("ZREVRANGEBYLEX lex (%s [%s LIMIT 3 50", member(), member()) },
		func() { add("ZLEXCOUNT lex [%s (%s", member(), member()) },
		func() { add("ZCOUNT z %d (%d", rng.IntN(size/3), rng.IntN(size/3)) },
		func() { add("ZRANK z %s", member()) },
		func() { add("ZREVRANK z %s", member()) },
		func() { add("ZREM z %s %s", member(), member()) },
		func() { add("ZADD z %d %s", rng.IntN(size), member()) },
		func() { add("ZPOPMIN z %d", rng.IntN(5)) },
		func() { add("ZPOPMAX z %d", rng.IntN(5)) },
		func() { r := at(); add("ZREMRANGEBYRANK z %d %d", r, r+rng.IntN(3)) },
		func() { m := member(); add("ZREMRANGEBYLEX lex [%s [%s", m, m) },
		func() { add("HMGET h %s %s %s", member(), member(), member()) },
		func() { add("HDEL h %s %s", member(), member()) },
		func() { add("SMISMEMBER s %s %s", member(), member()) },
		func() { add("SREM s %s %s", member(), member()) },
		func() { add("SMOVE s s2 %s", member()) },
		func() { add("SINTERCARD 2 s s2 LIMIT %d", rng.IntN(size)) },
		func() { add("ZINTERCARD 2 z z2 LIMIT %d", rng.IntN(size)) },
	}
	whole := []string{
		"HGETALL h", "HKEYS h", "HVALS h", "HLEN h", "SMEMBERS s", "SCARD s", "SCARD s2", "LRANGE l 0 -1", "LLEN l",
		"ZRANGE z 0 -1 WITHSCORES", "ZREVRANGE z 0 -1", "SINTER s s2", "SUNION s s2", "SDIFF s s2", "SUNIONSTORE d s s2",
		"SCARD d", "ZINTER 2 z z2 WITHSCORES", "ZUNIONSTORE d 2 z z2 WEIGHTS 2 1", "ZRANGE d 0 -1 WITHSCORES",
		"ZDIFF 2 z z2 WITHSCORES", "ZINTERSTORE d 2 z s2", "ZCARD d", "ZRANGESTORE d z 10 -10", "ZCARD d", "COPY l d REPLACE",
		"LLEN d", "LTRIM d 100 -100", "LRANGE d 0 -1", "COPY z d REPLACE", "ZREMRANGEBYRANK d 10 -10",
		"ZRANGE d 0 -1 WITHSCORES", "RENAME d e", "ZCARD e", "DEL e", "ZRANGE lex - + BYLEX", "ZRANGE lex + - BYLEX REV",
		"DBSIZE",
	}
	for i := range n {
		rules[rng.IntN(len(rules))]()
		if i%(n/3) == 0 {
			for _, line := range whole {
				add("%s", line)
			}
		}
	}
	return out
}
