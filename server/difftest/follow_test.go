package difftest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// field returns a field of INFO, "" when there is none.
func (c *client) field(t testing.TB, section, name string) string {
	t.Helper()
	r := c.must(t, "INFO", section)
	for line := range strings.SplitSeq(string(r.text), "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value
		}
	}
	return ""
}

// follows makes a server a replica of a redis-server.
func follows(t *testing.T, replica *client, redis target) {
	t.Helper()
	host, port, err := net.SplitHostPort(redis.Addr())
	require.NoError(t, err)
	replica.must(t, "REPLICAOF", host, port)
}

// caughtUp waits until a replica has all that the master has sent.
func caughtUp(t *testing.T, replica, redis *client) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		offset := replica.field(t, "replication", "slave_repl_offset") // before the master's, which pings
		if replica.field(t, "replication", "master_link_status") == "up" &&
			offset == redis.field(t, "replication", "master_repl_offset") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the replica does not catch up: %s", replica.must(t, "INFO", "replication").text)
		}
	}
}

// readsOf are the commands that show all of a key of a type.
var readsOf = map[string][]string{
	"string": {"GET k"}, "list": {"LRANGE k 0 -1"}, "set": {"SMEMBERS k"}, "zset": {"ZRANGE k 0 -1 WITHSCORES"},
	"hash":   {"HGETALL k"},
	"stream": {"XRANGE k - +", "XINFO STREAM k FULL COUNT 0"},
}

var (
	hllHead = []byte("HYLL")
	// unlikeStream is what differs in XINFO STREAM FULL: how the stream lies in memory, and when consumers were seen,
	// which a replica tells by its own clock.
	unlikeStream = regexp.MustCompile(`\$11\r\nactive-time\r\n:-?\d+\r\n|(radix-tree-keys|radix-tree-nodes|` +
		`seen-time)\r\n:-?\d+`)
)

// sameKeys compares all keys of the 16 databases. redis is a replica too: some things do not travel, such as how many
// entries of a stream a group has read.
func sameKeys(t *testing.T, redis, basalt *client) (n int) {
	t.Helper()
	differ := 0
	for db := range 16 {
		var names [2][]string
		for i, c := range []*client{redis, basalt} {
			c.must(t, "SELECT", fmt.Sprint(db))
			for _, k := range c.must(t, "KEYS", "*").elems {
				names[i] = append(names[i], string(k.text))
			}
			slices.Sort(names[i])
		}
		if !slices.Equal(names[0], names[1]) {
			t.Errorf("database %d: %d keys, want %d: %.300q, want %.300q", db, len(names[1]), len(names[0]), names[1], names[0])
		}
		for _, k := range names[0] {
			if n++; differ == maxReported {
				t.Fatal("and more")
			}
			kind := string(redis.must(t, "TYPE", k).text)
			reads := append(slices.Clone(readsOf[kind]), "TYPE k")
			switch { // what are strings in Redis, and types of their own here
			case kind == "string" && bytes.HasPrefix(redis.must(t, "GETRANGE", k, "0", "3").text, hllHead):
				reads = []string{"PFCOUNT k"}
			case string(basalt.must(t, "TYPE", k).text) == "bitmap":
				reads = []string{"BITCOUNT k", "BITPOS k 1", "BITPOS k 0 1", "BITFIELD_RO k GET u63 0 GET u63 63 GET u63 1000"}
			}
			for _, line := range append(reads, "PTTL k") {
				cmd := newCommand(k, renamed(words(line), k)...)
				want, err := redis.do(cmd.args...)
				require.NoError(t, err)
				got, err := basalt.do(cmd.args...)
				require.NoError(t, err)
				text := ""
				switch {
				case cmd.name() == "PTTL":
					if d := want.number() - got.number(); d < -ttlMargin || d > ttlMargin ||
						(want.number() < 0) != (got.number() < 0) {
						text = fmt.Sprintf("PTTL %q: %d, want %d", k, got.number(), want.number())
					}
				case kind == "stream":
					a, b := unlikeStream.ReplaceAll(want.raw, nil), unlikeStream.ReplaceAll(got.raw, nil)
					if want.aggregate() && len(want.elems) > 0 { // their number, with and without active-time
						a, b = afterLine(a), afterLine(b)
					}
					if !bytes.Equal(consumersAlike(a), consumersAlike(b)) {
						text = fmt.Sprintf("%s: %s", cmd, firstDifference(b, a))
					}
				default:
					text = compareReplies(cmd, want, got, 0)
				}
				if text != "" {
					differ++
					t.Errorf("database %d: %s", db, text)
				}
			}
		}
	}
	return n
}

// ttlMargin is how much the remaining time to live may differ, in milliseconds: masters before 7.0 send relative times,
// which count from when they arrive.
const ttlMargin = 30000

// number returns an integer.
func (r reply) number() int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(string(r.raw), ":")), 10, 64)
	return n
}

// firstDifference shows where two replies part.
func firstDifference(got, want []byte) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-80)
	return fmt.Sprintf("%.160q, want %.160q", got[from:], want[from:])
}

// consumersAlike gives the maps of consumers the same number of fields, with active-time and without it.
func consumersAlike(raw []byte) []byte {
	return regexp.MustCompile(`\*(10|8)\r\n\$4\r\nname\r\n`).ReplaceAll(raw, []byte("*\r\n$4\r\nname\r\n"))
}

func afterLine(b []byte) []byte {
	_, rest, _ := bytes.Cut(b, []byte("\r\n"))
	return rest
}

// fillMaster makes a key of every type and form.
func fillMaster(t *testing.T, c *client) {
	t.Helper()
	for n, d := range dumpedKeys() {
		name := fmt.Sprintf("key:%d:%s", n, d.name)
		for _, args := range d.make {
			c.must(t, renamed(args, name)...)
		}
		if n%3 == 0 {
			c.must(t, "PEXPIREAT", name, fmt.Sprint(4102444800000+n))
		}
	}
	c.must(t, "FUNCTION", "LOAD", "REPLACE",
		"#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)")
	c.must(t, "PFADD", "hll", "a", "b", "c")
	c.must(t, "SELECT", "5")
	c.must(t, "SET", "five", "of database 5")
	c.must(t, "SELECT", "0")
}

// startReplica starts a basalt as the program does: bitmaps have Redis's order of bits.
func startReplica(t *testing.T) target {
	t.Helper()
	return startBasaltOn(t, enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", RedisBitOrder: true}))
}

// TestFollowRedis: basalt as the replica of a redis-server has every key that the master has, of every type and form,
// after the transfer and after random histories.
func TestFollowRedis(t *testing.T) {
	for _, variant := range []struct {
		name    string
		options []string
	}{
		{"diskless", []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}},
		{"on disk, plain forms", []string{"--repl-diskless-sync", "no", "--rdbcompression", "no",
			"--hash-max-listpack-entries", "0", "--zset-max-listpack-entries", "0", "--set-max-intset-entries", "0",
			"--list-max-listpack-size", "1"}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			redis, other, basalt := startRedis(t, variant.options...), startRedis(t), startReplica(t)
			m, o, r := mustDial(t, redis), mustDial(t, other), mustDial(t, basalt)
			fillMaster(t, m)
			follows(t, o, redis)
			caughtUp(t, o, m)
			r.must(t, "SET", "gone", "with the old data")
			follows(t, r, redis)
			caughtUp(t, r, m)
			if n := sameKeys(t, o, r); n < 30 {
				t.Errorf("only %d keys", n)
			}
			if got := r.must(t, "FUNCTION", "LIST"); !bytes.Contains(got.raw, []byte("lib")) {
				t.Errorf("functions: %q", got.raw)
			}
			rounds, length := 12, 1500
			if testing.Short() {
				rounds = 3
			}
			for seed := range rounds {
				for _, history := range [][]command{randomCommands(uint64(seed), length), streamCommands(uint64(seed), length)} {
					if _, err := replies(redis, 2, true, inTransactions(history, uint64(seed))); err != nil {
						t.Fatal(err)
					}
					caughtUp(t, r, m)
					caughtUp(t, o, m)
					if sameKeys(t, o, r); t.Failed() {
						t.Fatalf("after round %d", seed)
					}
				}
			}
			if n := m.field(t, "stats", "sync_full"); n != "2" {
				t.Errorf("%s full synchronisations", n)
			}
		})
	}
}

// otherRedis is an environment variable with the paths of more versions of redis-server or valkey-server, parted by
// colons.
const otherRedis = "REDIS_SERVERS"

// TestFollowOtherRedis: the same with masters of other versions.
func TestFollowOtherRedis(t *testing.T) {
	paths := filepath.SplitList(os.Getenv(otherRedis))
	if len(paths) == 0 {
		t.Skip("the environment variable " + otherRedis + " names no servers")
	}
	for _, path := range paths {
		for _, diskless := range []string{"yes", "no"} {
			t.Run(path+" diskless "+diskless, func(t *testing.T) {
				redis := startRedisAt(t, path, "--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0")
				other, basalt := startRedisAt(t, path), startReplica(t)
				m, o, r := mustDial(t, redis), mustDial(t, other), mustDial(t, basalt)
				version := m.field(t, "server", "redis_version")
				t.Log(version)
				if strings.Compare(version, "7.") < 0 { // it tells less of streams
					defer func(all []string) { readsOf["stream"] = all }(readsOf["stream"])
					readsOf["stream"] = []string{"XRANGE k - +"}
				}
				if strings.Compare(version, "7.9") > 0 { // it computes the lag of a group behind deleted entries otherwise
					defer func(old *regexp.Regexp) { unlikeStream = old }(unlikeStream)
					unlikeStream = regexp.MustCompile(unlikeStream.String() + `|lag\r\n(:|\$)-?\d+`)
				}
				for n, d := range dumpedKeys() {
					for _, args := range d.make { // some are newer than the server
						if _, err := m.do(renamed(args, fmt.Sprintf("key:%d", n))...); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, line := range []string{"HSET fields a 1 b 2 c 3", "HPEXPIRE fields 100000000 FIELDS 2 a b",
					"SCRIPT LOAD return(1)"} {
					if _, err := m.do(words(line)...); err != nil {
						t.Fatal(err)
					}
				}
				follows(t, o, redis)
				caughtUp(t, o, m)
				follows(t, r, redis)
				caughtUp(t, r, m)
				if n := sameKeys(t, o, r); n < 20 {
					t.Errorf("only %d keys", n)
				}
				for seed := range 4 {
					history := slices.Concat(randomCommands(uint64(seed), 1500), streamCommands(uint64(seed), 1500))
					for i := range 30 {
						k := fmt.Sprint("e", i%5)
						for _, line := range []string{"SET " + k + " v EX 100000", "SETEX " + k + " 200000 v", "PSETEX " + k +
							" 300000000 v",
							"EXPIRE " + k + " 400000", "GETEX " + k + " EX 500000", "SET " + k + " 1.5 KEEPTTL", "INCRBYFLOAT " + k +
								" 1.25", "HSET h" + k + " f 1 g 2", "HINCRBYFLOAT h" + k + " f 1.5", "HEXPIRE h" + k + " 100000 FIELDS 1 f",
							"HDEL h" + k + " g",
							"EVAL redis.call('SET',KEYS[1],ARGV[1]);redis.call('INCR',KEYS[2]) 2 s" + k + " n" + k + " v",
							"RESTORE r" + k + " 100000 x", "SADD t" + k + " a b c d", "SPOP t" + k + " 2", "GETDEL g" + k} {
							history = append(history, newCommand("", words(line)...))
						}
					}
					if _, err := replies(redis, 2, true, inTransactions(history, uint64(seed))); err != nil {
						t.Fatal(err)
					}
					caughtUp(t, r, m)
					caughtUp(t, o, m)
					if sameKeys(t, o, r); t.Failed() {
						t.Fatalf("after round %d", seed)
					}
				}
			})
		}
	}
}

// inTransactions puts some of the commands between MULTI and EXEC, and some into other databases.
func inTransactions(all []command, seed uint64) []command {
	rng := rand.New(rand.NewPCG(seed, 9))
	var out []command
	for len(all) > 0 {
		n := min(1+rng.IntN(6), len(all))
		switch rng.IntN(4) {
		case 0:
			out = append(out, newCommand("", "MULTI"))
			out = append(out, all[:n]...)
			out = append(out, newCommand("", "EXEC"))
		case 1:
			out = append(out, newCommand("", "SELECT", fmt.Sprint(rng.IntN(3))))
			out = append(out, all[:n]...)
		default:
			out = append(out, all[:n]...)
		}
		all = all[n:]
	}
	return out
}

// TestFollowTables: the effects of every command of the tables, errors and all.
func TestFollowTables(t *testing.T) {
	redis, other, basalt := startRedis(t, "--repl-diskless-sync-delay", "0"), startRedis(t), startReplica(t)
	m, o, r := mustDial(t, redis), mustDial(t, other), mustDial(t, basalt)
	follows(t, o, redis)
	caughtUp(t, o, m)
	follows(t, r, redis)
	caughtUp(t, r, m)
	for _, file := range tableFiles(t) {
		if _, err := replies(redis, 2, true, mustReadTable(t, file)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		caughtUp(t, r, m)
		caughtUp(t, o, m)
		sameKeys(t, o, r)
		if t.Failed() {
			t.Fatalf("after %s", file)
		}
	}
}
