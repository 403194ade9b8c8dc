package command

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// readsOf is the number of blocks that a command reads from files when only indexes and filters are in memory.
type readsOf struct {
	made    string // the type of the keys, an index of made
	command string // KEY stands for a key, OTHER for another key of the same type
	missing int    // number of blocks if no key exists
	exists  int    // number of blocks if all keys exist
}

// made are the commands that create keys, by type.
var made = map[string]string{
	"string": "SET KEY 12345", "ttl": "SETEX KEY 100000 12345", "hash": "HSET KEY a 1 b 2", "list": "RPUSH KEY a b c",
	"set": "SADD KEY a b c", "zset": "ZADD KEY 1 a 2 b", "stream": "XADD KEY 1-1 a b", "bitmap": "SETBIT KEY 100 1",
	"hll": "PFADD KEY a b c", "json": `JSON.SET KEY $ {"a":1}`, "geo": "GEOADD KEY 13 38 a", "bloom": "BF.ADD KEY a",
	"cuckoo": "CF.ADD KEY a",
}

var reads = []readsOf{
	{"string", "SET KEY v", 0, 0},
	{"ttl", "SET KEY v", 0, 0},
	{"hash", "SET KEY v", 0, 0},
	{"string", "SETEX KEY 100 v", 0, 0},
	{"string", "PSETEX KEY 100000 v", 0, 0},
	{"string", "SET KEY v NX", 0, 1},
	{"string", "SET KEY v XX", 0, 1},
	{"string", "SET KEY v GET", 0, 1},
	{"string", "SET KEY v KEEPTTL", 0, 1},
	{"string", "SETNX KEY v", 0, 1},
	{"string", "GETSET KEY v", 0, 1},
	{"string", "GETDEL KEY", 0, 1},
	{"string", "GETEX KEY EX 100", 0, 1},
	{"string", "MSET KEY v OTHER v", 0, 0},
	{"string", "MSETNX KEY v OTHER v", 0, 1},
	{"string", "GET KEY", 0, 1},
	{"string", "MGET KEY OTHER", 0, 2},
	{"string", "INCR KEY", 0, 1},
	{"string", "INCRBYFLOAT KEY 1", 0, 1},
	{"string", "APPEND KEY v", 0, 1},
	{"string", "SETRANGE KEY 2 v", 0, 1},
	{"string", "STRLEN KEY", 0, 1},
	{"string", "DEL KEY", 0, 1},
	{"string", "UNLINK KEY", 0, 1},
	{"string", "EXISTS KEY", 0, 1},
	{"string", "TYPE KEY", 0, 1},
	{"string", "TTL KEY", 0, 1},
	{"string", "EXPIRE KEY 100", 0, 1},
	{"ttl", "PERSIST KEY", 0, 1},
	{"string", "RENAME KEY OTHER", 0, 1},
	{"string", "COPY KEY OTHER REPLACE", 0, 1},
	{"hash", "DEL KEY", 0, 1},
	{"hash", "EXPIRE KEY 100", 0, 1},
	{"hash", "HSET KEY a 2", 0, 2},
	{"hash", "HSET KEY new 2", 0, 1},
	{"hash", "HSETNX KEY new 2", 0, 1},
	{"hash", "HMSET KEY a 1 b 2 new 3", 0, 2},
	{"hash", "HINCRBY KEY a 1", 0, 2},
	{"hash", "HINCRBY KEY new 1", 0, 1},
	{"hash", "HGET KEY a", 0, 2},
	{"hash", "HGET KEY new", 0, 1},
	{"hash", "HMGET KEY a b", 0, 2},
	{"hash", "HGETALL KEY", 0, 2},
	{"hash", "HLEN KEY", 0, 1},
	{"hash", "HDEL KEY a", 0, 2},
	{"hash", "HDEL KEY new", 0, 1},
	{"hash", "HEXISTS KEY a", 0, 2},
	{"set", "SADD KEY a", 0, 2},
	{"set", "SADD KEY new", 0, 1},
	{"set", "SREM KEY a", 0, 2},
	{"set", "SISMEMBER KEY a", 0, 2},
	{"set", "SISMEMBER KEY new", 0, 1},
	{"set", "SMEMBERS KEY", 0, 2},
	{"set", "SCARD KEY", 0, 1},
	{"set", "SPOP KEY", 0, 2},
	{"set", "SMOVE KEY OTHER a", 0, 4},
	{"set", "SINTERSTORE KEY none:x none:y", 0, 1},
	{"set", "SUNIONSTORE KEY OTHER", 0, 2},
	{"zset", "ZADD KEY 5 a", 0, 2},
	{"zset", "ZADD KEY 5 new", 0, 1},
	{"zset", "ZINCRBY KEY 1 a", 0, 2},
	{"zset", "ZINCRBY KEY 1 new", 0, 1},
	{"zset", "ZSCORE KEY a", 0, 2},
	{"zset", "ZREM KEY a", 0, 2},
	{"zset", "ZREM KEY new", 0, 1},
	{"zset", "ZRANK KEY a", 0, 3},
	{"zset", "ZRANGE KEY 0 -1", 0, 2},
	{"zset", "ZCARD KEY", 0, 1},
	{"zset", "ZPOPMIN KEY", 0, 2},
	{"zset", "ZUNIONSTORE KEY 1 OTHER", 0, 2},
	{"zset", "ZRANGESTORE KEY OTHER 0 -1", 0, 2},
	{"list", "LPUSH KEY v", 0, 1},
	{"list", "RPUSH KEY v", 0, 1},
	{"list", "RPUSHX KEY v", 0, 1},
	{"list", "LPOP KEY", 0, 2},
	{"list", "RPOP KEY", 0, 2},
	{"list", "LLEN KEY", 0, 1},
	{"list", "LINDEX KEY 1", 0, 2},
	{"list", "LSET KEY 1 v", 0, 2},
	{"list", "LRANGE KEY 0 -1", 0, 2},
	{"list", "LTRIM KEY 0 0", 0, 1},
	{"list", "LMOVE KEY OTHER LEFT RIGHT", 0, 3},
	{"list", "LMOVEM KEY OTHER LEFT RIGHT", 0, 3},
	{"list", "LMOVEM KEY OTHER LEFT RIGHT COUNT 2 BULK", 0, 3},
	{"stream", "XADD KEY * a b", 0, 1},
	{"stream", "XADD KEY MAXLEN 1 * a b", 0, 1},
	{"stream", "XLEN KEY", 0, 1},
	{"stream", "XRANGE KEY - +", 0, 2},
	{"stream", "XDEL KEY 1-1", 0, 2},
	{"stream", "XADD KEY NOMKSTREAM * a b", 0, 1},
	{"bitmap", "SETBIT KEY 7 1", 0, 2},
	{"bitmap", "SETBIT KEY 100000 1", 0, 1},
	{"bitmap", "GETBIT KEY 7", 0, 2},
	{"bitmap", "BITCOUNT KEY", 0, 2},
	{"string", "SETBIT KEY 7 1", 0, 1},
	{"bitmap", "BITOP NOT KEY OTHER", 0, 2},
	{"hll", "PFADD KEY new", 0, 1},
	{"hll", "PFCOUNT KEY", 0, 2},
	{"hll", "PFMERGE KEY OTHER", 0, 4},
	{"json", "JSON.SET KEY $ 1", 0, 1},
	{"json", "JSON.SET KEY $.a 1", 0, 1},
	{"json", "JSON.GET KEY", 0, 1},
	{"json", "JSON.DEL KEY", 0, 1},
	{"geo", "GEOADD KEY 13 38 a", 0, 2},
	{"geo", "GEOADD KEY 13 38 new", 0, 1},
	{"geo", "GEOPOS KEY a", 0, 2},
	{"bloom", "BF.ADD KEY new", 0, 2},
	{"bloom", "BF.EXISTS KEY new", 0, 2},
	{"cuckoo", "CF.ADD KEY new", 0, 2},
	{"cuckoo", "CF.EXISTS KEY new", 0, 2},
	{"string", "SORT none:x STORE KEY", 0, 1},
}

// RocksDB's counter of blocks also includes blocks that it was not allowed to read. So blocks count only if bytes were
// read.
var blockReads, bytesRead = regexp.MustCompile(`block_read_count = (\d+)`), regexp.MustCompile(`bytes_read = [1-9]`)

// TestReads counts the blocks that commands read. A larger number means an additional disk read for each such command.
func TestReads(t *testing.T) {
	// The smallest number of five tries counts: filters have false positives for one key of a hundred, and one of 256
	// blind writes reads its key.
	const tries = 5
	// Other keys lie between any two keys of the test, so that these share no block in any column family.
	long := strings.Repeat("v", 3000)
	between := []string{"SET KEY " + long, "HSET KEY f " + long, "ZADD KEY 1 " + long, "XADD KEY 1-1 f " + long}
	r := engine.DefaultRocksOptions()
	r.BlockCacheSize, r.BlockSize, r.CacheIndexAndFilterBlocks, r.Compression = 2<<20, 2<<10, false, "no"
	o := engine.Options{Dir: t.TempDir() + "/db", Rocks: r, RecordCache: -1}
	db := enginetest.OpenPlain(t, o)
	key := func(row, try int, kind string) string {
		return fmt.Sprintf("%s:%03d:%02d", kind, row, try*(1+len(between)))
	}
	perform := func(command, key string) {
		words := strings.Fields(strings.ReplaceAll(command, "KEY", key))
		if reply := do(t, db, words...); strings.HasPrefix(reply, "-") {
			t.Fatalf("%q: %q", words, reply)
		}
	}
	for i, row := range reads {
		for try := range tries {
			for _, kind := range []string{"exists", "other"} {
				perform(made[row.made], key(i, try, kind))
				for j, c := range between {
					perform(c, fmt.Sprintf("%s:%03d:%02d", kind, i, try*(1+len(between))+j+1))
				}
			}
		}
	}
	for id := range cf.NumFamilies {
		require.NoError(t, db.CompactRange(cf.ID(id), nil, nil))
	}
	require.NoError(t, db.Close())
	db = enginetest.OpenPlain(t, o)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func(row int, kind, other string) int {
		least := 1 << 30
		for try := range tries {
			names := strings.NewReplacer("KEY", key(row, try, kind), "OTHER", key(row, try, other))
			words := strings.Fields(names.Replace(reads[row].command))
			stop := engine.ProfileThread()
			reply := do(t, db, words...)
			perf, io := stop()
			if kind == "exists" && strings.HasPrefix(reply, "-") {
				t.Errorf("%q: %q", words, reply)
			}
			n := 0
			if m := blockReads.FindStringSubmatch(perf); m != nil && bytesRead.MatchString(io) {
				n, _ = strconv.Atoi(m[1])
			}
			least = min(least, n)
		}
		return least
	}
	for i, row := range reads {
		if n := count(i, "none", "nor"); n != row.missing {
			t.Errorf("%s, no key: %d blocks, want %d", row.command, n, row.missing)
		}
		if n := count(i, "exists", "other"); n != row.exists {
			t.Errorf("%s of a %s: %d blocks, want %d", row.command, row.made, n, row.exists)
		}
	}
}
