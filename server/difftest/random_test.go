package difftest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// grammar has the commands of the generator. Words that (generator).word knows
// stand for a random choice of their kind, the others for themselves. A word that
// ends with ? is there half of the time, one that ends with + one to four times.
//
// GT and LT come with absolute times only: of two equal relative ones the second
// is later or not, as the clock has it.
var grammar = []string{
	"SET key value", "SET key value setopt", "SET key value setopt EX seconds", "GET key", "GETSET key value",
	"GETDEL key", "GETEX key PERSIST", "APPEND key value", "STRLEN key", "SETRANGE key offset value",
	"GETRANGE key index index", "INCR key", "DECR key", "INCRBY key int", "DECRBY key int", "INCRBYFLOAT key float",
	"MSET pairkv+", "MSETNX pairkv+", "MGET key+", "SETNX key value", "LCS key key", "LCS key key LEN", "LCS key key IDX",
	"HSET key pairfv+", "HSETNX key field value", "HGET key field", "HMGET key field+", "HDEL key field+", "HLEN key",
	"HSTRLEN key field", "HEXISTS key field", "HGETALL key", "HKEYS key", "HVALS key", "HINCRBY key field int",
	"HINCRBYFLOAT key field float", "HRANDFIELD key int", "HSCAN key 0 COUNT 1000", "LPUSH key value+", "RPUSH key value+",
	"LPUSHX key value", "RPUSHX key value", "LPOP key", "RPOP key", "LPOP key count", "RPOP key count", "LLEN key",
	"LRANGE key index index", "LRANGE key 0 -1", "LINDEX key index", "LSET key index value", "LTRIM key index index",
	"LREM key index value", "LINSERT key side value value", "LPOS key value", "LPOS key value RANK rank COUNT count",
	"LMOVE key key end end", "RPOPLPUSH key key", "LMPOP 2 key key end COUNT count", "SADD key field+", "SREM key field+",
	"SISMEMBER key field", "SMISMEMBER key field+", "SCARD key", "SMEMBERS key", "SMOVE key key field", "SINTER key+",
	"SUNION key+", "SDIFF key+", "SINTERSTORE key key+", "SUNIONSTORE key key+", "SDIFFSTORE key key+",
	"SINTERCARD 2 key key", "SINTERCARD 2 key key LIMIT count", "SPOP key 100", "SRANDMEMBER key int",
	"SSCAN key 0 COUNT 1000", "ZADD key pairsm+", "ZADD key zopt pairsm+", "ZADD key zopt CH pairsm+",
	"ZADD key zopt INCR pairsm", "ZREM key field+", "ZINCRBY key score field", "ZSCORE key field", "ZMSCORE key field+",
	"ZCARD key", "ZRANK key field", "ZREVRANK key field", "ZCOUNT key bound bound", "ZLEXCOUNT key lex lex",
	"ZRANGE key index index WITHSCORES?", "ZRANGE key 0 -1 WITHSCORES", "ZREVRANGE key index index WITHSCORES?",
	"ZRANGE key bound bound BYSCORE REV? LIMIT index count WITHSCORES?", "ZRANGE key lex lex BYLEX REV? LIMIT index count",
	"ZRANGE key index index REV WITHSCORES?", "ZRANGEBYSCORE key bound bound WITHSCORES?",
	"ZRANGEBYSCORE key bound bound LIMIT index int", "ZREVRANGEBYSCORE key bound bound WITHSCORES?",
	"ZRANGEBYLEX key lex lex", "ZREVRANGEBYLEX key lex lex LIMIT count int", "ZRANGESTORE key key index index",
	"ZRANGESTORE key key bound bound BYSCORE", "ZREMRANGEBYRANK key index index", "ZREMRANGEBYSCORE key bound bound",
	"ZREMRANGEBYLEX key lex lex", "ZPOPMIN key", "ZPOPMAX key", "ZPOPMIN key count", "ZPOPMAX key count",
	"ZMPOP 2 key key minmax COUNT count", "ZUNION 2 key key WITHSCORES", "ZINTER 2 key key WITHSCORES",
	"ZDIFF 2 key key WITHSCORES", "ZUNIONSTORE key 2 key key", "ZINTERSTORE key 2 key key AGGREGATE aggregate",
	"ZDIFFSTORE key 2 key key", "ZUNION 2 key key WEIGHTS score score AGGREGATE aggregate WITHSCORES?",
	"ZINTERCARD 2 key key LIMIT count", "ZRANDMEMBER key int", "ZSCAN key 0 COUNT 1000", "DEL key+", "UNLINK key",
	"EXISTS key+", "TOUCH key+", "TYPE key", "RENAME key key", "RENAMENX key key", "COPY key key REPLACE?",
	"EXPIRE key 1000", "EXPIREAT key time expopt?", "EXPIRETIME key", "PERSIST key", "TTL key", "PEXPIREAT key 1",
	"KEYS *", "DBSIZE", "SCAN 0 COUNT 1000",
}

type generator struct{ *rand.Rand }

// randomCommands returns n commands that the seed determines. Every hundredth
// time all keys are read whole.
func randomCommands(seed uint64, n int) []command {
	g := generator{rand.New(rand.NewPCG(seed, 77))}
	out := []command{newCommand("start", "FLUSHALL")}
	for i := range n {
		c := newCommand(strconv.Itoa(i), g.line(grammar[g.IntN(len(grammar))])...)
		out = append(out, c)
		if i%100 == 99 {
			out = append(out, dump(i)...)
		}
	}
	return out
}

// dump reads all of every key, whatever its type: the wrong ones are errors.
func dump(i int) []command {
	where := fmt.Sprintf("state after %d", i)
	out := []command{newCommand(where, "DBSIZE"), newCommand(where, "KEYS", "*")}
	for k := range keyPool {
		key := "k" + strconv.Itoa(k)
		for _, read := range []string{"TYPE %", "TTL %", "GET %", "HGETALL %", "LRANGE % 0 -1", "SMEMBERS %",
			"ZRANGE % 0 -1 WITHSCORES"} {
			words := strings.Fields(read)
			words[1] = key
			out = append(out, newCommand(where, words...))
		}
	}
	return out
}

const keyPool = 8

func (g generator) line(rule string) []string {
	var out []string
	for _, w := range strings.Fields(rule) {
		switch {
		case strings.HasSuffix(w, "?"):
			if g.IntN(2) == 0 {
				out = append(out, g.word(w[:len(w)-1])...)
			}
		case strings.HasSuffix(w, "+"):
			for range 1 + g.IntN(4) {
				out = append(out, g.word(w[:len(w)-1])...)
			}
		default:
			out = append(out, g.word(w)...)
		}
	}
	return out
}

func (g generator) word(kind string) []string {
	switch kind {
	case "key":
		return []string{"k" + strconv.Itoa(g.IntN(keyPool))}
	case "field":
		return g.pick("a", "b", "c", "d", "e", "aa", "ab", "\x00", "\xff", "", "10", "field")
	case "value":
		return g.pick("a", "b", "c", "10", "-3", "2.5", "", "hello", "\x00\xff\r\n", "9223372036854775807", "0",
			"longer text with blanks")
	case "pairkv":
		return append(g.word("key"), g.word("value")...)
	case "pairfv":
		return append(g.word("field"), g.word("value")...)
	case "pairsm":
		return append(g.word("score"), g.word("field")...)
	case "int":
		return g.pick("0", "1", "2", "-1", "-2", "5", "100", "-100", "9223372036854775807", "x")
	case "seconds": // more than a run takes, whatever the machine
		return g.pick("0", "1000", "2000", "-1", "-2", "5000", "100000", "-100", "9223372036854775807", "x")
	case "float":
		return g.pick("0", "1.5", "-0.1", "3e2", "0.1", "1e17", "-7", "x", "inf")
	case "score":
		return g.pick("0", "1", "2", "3", "1.5", "-1", "-2.25", "100", "1e10", "inf", "-inf", "0.1", "x")
	case "index":
		return g.pick("0", "1", "2", "3", "-1", "-2", "-3", "10", "-10")
	case "offset":
		return g.pick("0", "1", "3", "10", "-1")
	case "count":
		return g.pick("0", "1", "2", "3", "10", "-1")
	case "rank":
		return g.pick("1", "2", "-1", "-2", "0")
	case "bound":
		return g.pick("-inf", "+inf", "0", "1", "(1", "2", "(2", "3", "-1", "(1.5", "x")
	case "lex":
		return g.pick("-", "+", "[a", "(a", "[b", "(c", "[aa", "(", "[", "x")
	case "setopt":
		return g.pick("NX", "XX", "GET", "KEEPTTL", "nx")
	case "zopt":
		return g.pick("NX", "XX", "GT", "LT", "CH", "gt")
	case "expopt":
		return g.pick("NX", "XX", "GT", "LT")
	case "time":
		return g.pick("9999999999", "8888888888", "7777777777")
	case "end":
		return g.pick("LEFT", "RIGHT")
	case "side":
		return g.pick("BEFORE", "AFTER")
	case "minmax":
		return g.pick("MIN", "MAX")
	case "aggregate":
		return g.pick("SUM", "MIN", "MAX")
	}
	return []string{kind}
}

func (g generator) pick(words ...string) []string { return []string{words[g.IntN(len(words))]} }
