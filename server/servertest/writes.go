package servertest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/server/rdb"
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
TS.CREATE {w} CHUNK_SIZE 3 LABELS label {m}
TS.ADD {w} 1{n}{n} {n} ON_DUPLICATE LAST LABELS label {m}
TS.MADD {w} 1{n}{n} {n} {w} 1{n}{n} {n} {w} 1{n}{n} {n}
TS.ALTER {w} RETENTION 3{n} LABELS label {m}
TS.CREATERULE {w} {w} AGGREGATION avg 10
TS.DELETERULE {w} {w}
TS.DEL {w} 1{n}0 1{n}9
SIADD {y} {n} {n}
SIREM {y} {n}
PEXPIRE {h} {ms}
PEXPIREAT {z} 99999999999999
PERSIST {h}
RENAME {l} {l}
RENAME {w} {w}
COPY {w} {w} REPLACE
COPY {h} {h} REPLACE
COPY {z} {z} REPLACE
DEL {h} {l} {t}
UNLINK {z}
DEL {s} {x} {b} {j}
CAS {s} {v} {v}
SORT {l} ALPHA STORE {l}
EVAL redis.call('HSET',KEYS[1],ARGV[1],'script')redis.call('LPUSH',KEYS[2],ARGV[1]) 2 {h} {l} {m}
EVAL for~i=1,5~do~redis.call('INCR',KEYS[1])end 1 {i}
FUNCTION LOAD REPLACE #!lua~name=lib{n}\nredis.register_function('f{n}',function(k,a)redis.call('SET',k[1],a[1])end)
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
			if dump := c.dump(expand("{h}", r)); dump != "" {
				c.Do("RESTORE", expand("{h}", r), "0", dump, "REPLACE")
			}
		case 7, 8:
			if dump := c.dump(expand("{h}", r)); dump != "" {
				c.Do("RDB", "LOAD", rdbFile(c.T, expand("{h}", r), dump))
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

// dump returns what DUMP tells of a key, "" when the key does not exist.
func (c *Client) dump(key string) string {
	_, dump, _ := strings.Cut(c.Do("DUMP", key), "\r\n")
	return strings.TrimSuffix(dump, "\r\n")
}

// rdbFile makes an RDB file of one key from what DUMP has told, which is the type, the value, and ten bytes of version
// and checksum.
func rdbFile(t testing.TB, key, dump string) (path string) {
	t.Helper()
	b := rdb.AppendString([]byte("REDIS0011"+dump[:1]), []byte(key))
	b = append(b, dump[1:len(dump)-10]...)
	b = append(b, 0xff)
	b = binary.LittleEndian.AppendUint64(b, crc64.Update(0, b))
	path = filepath.Join(t.TempDir(), "dump.rdb")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Error(err)
	}
	return path
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
