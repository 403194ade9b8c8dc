package servertest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// writes are commands of every type of data and of every way to write. {a} to {z} without another meaning are keys of
// the type that the letter names, {n} is a small number, {m} one of a few elements, {v} a value of some length, {ms} a
// time by which nothing expires while a test runs.
var writes = strings.Split(strings.TrimSpace(`
SET {s} {v}
SET {s} {v} PX {ms}
SETRANGE {s} {n} {v}
APPEND {s} {v}
INCRBY {i} {n}
INCRBYFLOAT {f} 1.5
GETDEL {s}
GETEX {s} PX {ms}
MSET {s} {v} {s} {v}
SETNX {s} {v}
HSET {h} {m} {v} {m} {v}
HINCRBY {h} number {n}
HDEL {h} {m}
HPEXPIRE {h} {ms} FIELDS 1 {m}
HPERSIST {h} FIELDS 1 {m}
RPUSH {l} {m} {v} {m}
LPUSH {l} {m}
LPOP {l}
RPOP {l} 2
LSET {l} 0 {v}
LINSERT {l} BEFORE {m} {v}
LREM {l} 1 {m}
LTRIM {l} 0 50
LMOVE {l} {l} LEFT RIGHT
SADD {t} {m} {m} {m}
SREM {t} {m}
SPOP {t}
SMOVE {t} {t} {m}
SUNIONSTORE {t} {t} {t}
SDIFFSTORE {t} {t} {t}
ZADD {z} {n} {m} {n} {m}
ZINCRBY {z} 0.5 {m}
ZREM {z} {m}
ZPOPMIN {z}
ZREMRANGEBYRANK {z} 0 0
ZUNIONSTORE {z} 2 {z} {z}
ZRANGESTORE {z} {z} 0 2
GEOADD {g} 13.3 38.1 {m}
SETBIT {b} {n}00 1
BITOP OR {b} {b} {b}
BITFIELD {b} SET u8 {n} 200
PFADD {p} {m} {v} {n}
PFMERGE {p} {p} {p}
XADD {x} * {m} {v}
XADD {x} MAXLEN 20 * {m} {v}
XGROUP CREATE {x} g 0 MKSTREAM
XREADGROUP GROUP g {m} COUNT 2 STREAMS {x} >
XACK {x} g 1-1
XTRIM {x} MAXLEN 5
XDEL {x} 1-1
JSON.SET {j} $ {"a":[1,2,{n}]}
JSON.NUMINCRBY {j} $.a[0] {n}
JSON.ARRAPPEND {j} $.a {n}
BF.ADD {o} {m}
BF.RESERVE {o} 0.01 100
TDIGEST.CREATE {d}
TDIGEST.ADD {d} {n} {n}
SIADD {y} {n} {n}
SIREM {y} {n}
PEXPIRE {h} {ms}
PEXPIREAT {z} 99999999999999
PERSIST {h}
RENAME {l} {l}
COPY {h} {h} REPLACE
COPY {z} {z} REPLACE
DEL {h} {l} {t}
UNLINK {z}
DEL {s} {x} {b} {j}
CAS {s} {v} {v}
SORT {l} ALPHA STORE {l}
EVAL redis.call('HSET',KEYS[1],ARGV[1],'script')redis.call('LPUSH',KEYS[2],ARGV[1]) 2 {h} {l} {m}
EVAL for~i=1,5~do~redis.call('INCR',KEYS[1])end 1 {i}
FUNCTION LOAD REPLACE #!lua~name=lib{n}\nredis.register_function('f{n}',function(k,a)return~redis.call('SET',k[1],a[1])end)
FCALL f{n} 1 {s} {v}
SCRIPT LOAD return~{n}
PUBLISH channel {v}
MULTI|SET {s} {v}|HSET {h} {m} {v}|ZADD {z} {n} {m}|EXEC
MULTI|LPUSH {l} {m}|DEL {l}|RPUSH {l} {v}|EXEC
`), "\n")

// RandomWrites sends commands to a master, as r chooses; what they answer does not matter. With flushes
// some of them delete everything.
func (c *Client) RandomWrites(r *rand.Rand, n int, flushes bool) {
	c.T.Helper()
	for range n {
		switch r.IntN(400) {
		case 0:
			if flushes {
				c.Do([]string{"FLUSHDB", "FLUSHALL"}[r.IntN(2)])
			}
		case 1:
			c.Do("COMPACT")
		case 2, 3:
			c.Do("APPLYBATCH", SetBatch(expand("{s}", r), expand("{v}", r)))
		case 4, 5, 6:
			if _, dump, ok := strings.Cut(c.Do("DUMP", expand("{h}", r)), "\r\n"); ok && dump != "" {
				c.Do("RESTORE", expand("{h}", r), "0", strings.TrimSuffix(dump, "\r\n"), "REPLACE")
			}
		}
		for command := range strings.SplitSeq(writes[r.IntN(len(writes))], "|") {
			words := strings.Fields(command)
			for i, w := range words {
				w = strings.NewReplacer("~", " ", `\n`, "\n").Replace(w)
				words[i] = expand(w, r)
			}
			c.Do(words...)
		}
	}
}

func expand(word string, r *rand.Rand) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(word, "{")
		name, after, ended := strings.Cut(rest, "}")
		if !found {
			b.WriteString(word)
			return b.String()
		}
		b.WriteString(before)
		if !ended || len(name) > len("ms") {
			b.WriteByte('{')
			word = rest
			continue
		}
		switch name {
		case "n":
			b.WriteString(strconv.Itoa(r.IntN(9)))
		case "m":
			fmt.Fprintf(&b, "m%d", r.IntN(12))
		case "v":
			fmt.Fprintf(&b, "%0*d", 1+r.IntN(40)*r.IntN(8), r.IntN(1000))
		case "ms":
			b.WriteString("86400000")
		default:
			fmt.Fprintf(&b, "%s:%d", name, r.IntN(6))
		}
		word = after
	}
}
