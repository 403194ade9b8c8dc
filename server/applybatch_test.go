package server_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// updates is a reply of POLLUPDATES in RESP2.
type updates struct {
	latest, next int
	batches      []string // bytes
}

// poll returns the reply to POLLUPDATES after a sequence number.
func poll(c *servertest.Client, after int, options ...string) updates {
	c.T.Helper()
	reply := c.Do(append([]string{"POLLUPDATES", strconv.Itoa(after)}, options...)...)
	lines := strings.Split(strings.TrimSuffix(reply, "\r\n"), "\r\n")
	num := func(s string) int {
		n, err := strconv.Atoi(s[1:])
		if err != nil {
			c.T.Fatalf("%q", reply)
		}
		return n
	}
	if len(lines) < 9 || lines[0] != "*6" || lines[2] != "latest_sequence" || lines[5] != "updates" ||
		lines[len(lines)-2] != "next_sequence" {
		c.T.Fatalf("%q", reply)
	}
	u := updates{latest: num(lines[3]), next: num(lines[len(lines)-1])}
	for i := range num(lines[6]) {
		rep, err := hex.DecodeString(lines[8+2*i])
		if err != nil {
			c.T.Fatal(err)
		}
		u.batches = append(u.batches, string(rep))
	}
	return u
}

// ship applies to one server all batches that another server has written after a sequence number, and returns the last
// sequence number.
func ship(from, to *servertest.Client, after int, options ...string) int {
	from.T.Helper()
	for {
		u := poll(from, after, "MAX", "1000", "STRICT")
		if len(u.batches) == 0 {
			return u.latest
		}
		for _, rep := range u.batches {
			if got := to.Do(append([]string{"APPLYBATCH", rep}, options...)...); got != fmt.Sprintf(":%d\r\n", len(rep)) {
				from.T.Fatalf("APPLYBATCH of %q: %q", rep, got)
			}
		}
		after = u.next
	}
}

func TestApplyBatchReplies(t *testing.T) {
	h := servertest.Start(t, "requirepass", "p", "namespace.ns1", "t")
	c := h.Dial(t)
	good := servertest.SetBatch("k", "v")
	size := fmt.Sprintf(":%d\r\n", len(good))
	do := func(want string, args ...string) {
		t.Helper()
		if got := c.Do(args...); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	do("-NOAUTH Authentication required.\r\n", "APPLYBATCH", good)
	do("+OK\r\n", "AUTH", "t")
	do("-ERR admin permission required to perform the command\r\n", "APPLYBATCH", good)
	do("-ERR admin permission required to perform the command\r\n", "POLLUPDATES", "0")
	do("+OK\r\n", "AUTH", "p")
	do(size, "APPLYBATCH", good)
	do("$1\r\nv\r\n", "GET", "k")
	do(size, "applybatch", good, "lowpri")
	do(":12\r\n", "APPLYBATCH", good[:8]+"\x00\x00\x00\x00")
	do("-ERR wrong number of arguments for 'applybatch' command\r\n", "APPLYBATCH")
	do("-ERR wrong number of arguments for 'applybatch' command\r\n", "APPLYBATCH", good, "LOWPRI", "LOWPRI")
	do("-ERR only support LOWPRI option\r\n", "APPLYBATCH", good, "HIGHPRI")
	do("-ERR invalid write batch: write batch is shorter than its header: 0 bytes\r\n", "APPLYBATCH", "")
	do("-ERR invalid write batch: write batch record runs over the end: 10 bytes at byte 32 of 41\r\n", "APPLYBATCH",
		good[:len(good)-1])
	do(":1\r\n", "DBSIZE")

	do("+OK\r\n", "MULTI")
	do("-ERR Command not allowed inside a transaction\r\n", "APPLYBATCH", good)
	do("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	if got := c.Do("EVAL", "return redis.call('APPLYBATCH', ARGV[1])", "0", good); !strings.HasPrefix(got,
		"-ERR This Redis command is not allowed from script") {
		t.Errorf("in a script: %q", got)
	}
	do("+OK\r\n", "DEBUG", "DBSIZE-LIMIT", "1")
	do("-ERR write command not allowed when reached max-db-size.\r\n", "APPLYBATCH", good)
	do("+OK\r\n", "DEBUG", "DBSIZE-LIMIT", "0")
	do("+OK\r\n", "CONFIG", "SET", "rocksdb.write_options.write_batch_max_bytes", "40")
	do("-ERR the write batch is larger than rocksdb.write_options.write_batch_max_bytes\r\n", "APPLYBATCH", good)
}

func TestPollUpdatesReplies(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.DoAll("HSET h f v;SET k v;SET k w")
	for _, tt := range []struct {
		command    string
		want       string // the error; "" = a reply with batches
		n, to, all int    // number of batches, next_sequence, latest_sequence
	}{
		{"POLLUPDATES 0", "", 3, 4, 4},
		{"POLLUPDATES 0 MAX 2", "", 2, 3, 4},
		{"pollupdates 2 max 1 strict format raw", "", 1, 3, 4},
		{"POLLUPDATES 1", "", 3, 4, 4},
		{"POLLUPDATES 1 STRICT", "-ERR mismatched sequence number, expected 2 but got 1", 0, 0, 0},
		{"POLLUPDATES 4", "", 0, 4, 4},
		{"POLLUPDATES 5", "-ERR next sequence is out of range", 0, 0, 0},
		{"POLLUPDATES 18446744073709551615", "-ERR next sequence is out of range", 0, 0, 0},
		{"POLLUPDATES 18446744073709551616", "-ERR value is not an integer or out of range", 0, 0, 0},
		{"POLLUPDATES -1", "-ERR value is not an integer or out of range", 0, 0, 0},
		{"POLLUPDATES x", "-ERR value is not an integer or out of range", 0, 0, 0},
		{"POLLUPDATES 0 MAX 0", "-ERR out of numeric range", 0, 0, 0},
		{"POLLUPDATES 0 MAX -1", "-ERR out of numeric range", 0, 0, 0},
		{"POLLUPDATES 0 MAX 1001", "-ERR out of numeric range", 0, 0, 0},
		{"POLLUPDATES 0 MAX 1000", "", 3, 4, 4},
		{"POLLUPDATES 0 MAX x", "-ERR value is not an integer or out of range", 0, 0, 0},
		{"POLLUPDATES 0 MAX", "-ERR syntax error", 0, 0, 0},
		{"POLLUPDATES 0 FORMAT", "-ERR syntax error", 0, 0, 0},
		{"POLLUPDATES 0 FORMAT COMMAND", "-ERR invalid FORMAT option, only support RAW", 0, 0, 0},
		{"POLLUPDATES 0 LOUD", "-ERR syntax error", 0, 0, 0},
		{"POLLUPDATES", "-ERR wrong number of arguments for 'pollupdates' command", 0, 0, 0},
	} {
		args := strings.Fields(tt.command)
		if tt.want != "" {
			c.Want(tt.command, tt.want+"\r\n")
			continue
		}
		if got := c.Do(args...); strings.HasPrefix(got, "-") {
			t.Errorf("%s: %q", tt.command, got)
			continue
		}
		from, err := strconv.Atoi(args[1])
		require.NoError(t, err)
		if u := poll(c, from, args[2:]...); len(u.batches) != tt.n || u.next != tt.to || u.latest != tt.all {
			t.Errorf("%s: %d batches up to %d of %d", tt.command, len(u.batches), u.next, u.latest)
		}
	}
	// The batches are those of the log, in hexadecimal digits with capital letters. In RESP3 the reply is a map.
	rep := logged(h, t, 4)
	c.Do("HELLO", "3")
	want := fmt.Sprintf("%%3\r\n$15\r\nlatest_sequence\r\n:4\r\n$7\r\nupdates\r\n*1\r\n$%d\r\n%s\r\n$13\r\n"+
		"next_sequence\r\n:4\r\n", 2*len(rep), strings.ToUpper(hex.EncodeToString(rep)))
	c.Want("POLLUPDATES 3", want)
	// The reply contains earlier writes of the same pipeline, but not earlier writes of the same transaction.
	c.Send(servertest.Pipeline("SET k x", "POLLUPDATES 4", "MULTI", "SET k y", "POLLUPDATES 5", "EXEC"))
	var replies []string
	for range 6 {
		replies = append(replies, c.Reply())
	}
	if !strings.Contains(replies[1], "latest_sequence\r\n:5\r\n") {
		t.Errorf("%q", replies[1])
	}
	if !strings.Contains(replies[5], "latest_sequence\r\n:5\r\n$7\r\nupdates\r\n*0\r\n$13\r\nnext_sequence\r\n:5\r\n") {
		t.Errorf("%q", replies[5])
	}
}

// logged returns the batch that begins with a sequence number.
func logged(h *servertest.Harness, t *testing.T, seq uint64) []byte {
	t.Helper()
	all := enginetest.LogFrom(t, h.DB, seq)
	if len(all) == 0 {
		t.Fatalf("the log has no batch from sequence number %d on", seq)
	}
	return all[0]
}

// TestPollUpdatesBytes: a reply has at most 8 MiB of batches, but at least one batch.
func TestPollUpdatesBytes(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for i, n := range []int{3 << 20, 3 << 20, 3 << 20, 12 << 20} {
		c.Do("SET", fmt.Sprint("k", i), strings.Repeat("x", n))
	}
	for _, tt := range []struct{ after, n int }{{0, 2}, {2, 1}, {3, 1}} {
		if u := poll(c, tt.after); len(u.batches) != tt.n || u.next != tt.after+tt.n || u.latest != 4 {
			t.Errorf("after %d: %d batches up to %d", tt.after, len(u.batches), u.next)
		}
	}
}

// TestApplyBatchOfKvrocks applies the log of a Kvrocks to an empty server, which must then reply to the recorded reads
// like that Kvrocks.
func TestApplyBatchOfKvrocks(t *testing.T) {
	h := servertest.Start(t, "requirepass", fixture.Password, "namespace."+fixture.Namespace, fixture.NamespaceToken)
	c := h.Dial(t)
	c.Want("AUTH "+fixture.Password, "+OK\r\n")
	batches := fixture.WAL(t)
	for i, b := range batches {
		if got := c.Do("APPLYBATCH", string(b.Rep)); got != fmt.Sprintf(":%d\r\n", len(b.Rep)) {
			t.Fatalf("batch %d: %q", i, got)
		}
	}
	checked := wantFixture(c)
	if len(batches) < 50 || checked < 50 {
		t.Errorf("only %d batches and %d reads", len(batches), checked)
	}
	for _, token := range []string{fixture.Password, fixture.NamespaceToken} {
		c.Want("AUTH "+token, "+OK\r\n")
		keys := strings.Count(c.Do("KEYS", "*"), "$")
		if got, want := c.Do("DBSIZE"), fmt.Sprintf(":%d\r\n", keys); got != want || keys == 0 {
			t.Errorf("%s: DBSIZE is %q, KEYS returns %d keys", token, got, keys)
		}
	}
}

// pingPong returns a random command that has the same reply on all servers with the same data. i is the number of the
// command, for ids of streams.
func pingPong(rng *rand.Rand, i int) []string {
	n := func(limit int) string { return strconv.Itoa(rng.IntN(limit)) }
	all := []string{
		"ZADD z " + n(2000) + " m" + n(3000), "ZREM z m" + n(3000), "ZPOPMIN z " +
			n(3), "ZPOPMAX z", "ZPOPMIN z", "ZRANK z m" + n(3000),
		"ZREVRANK z m" + n(3000), "ZCOUNT z " + n(1000) + " " +
			n(3000), "ZRANGE z 0 20 WITHSCORES", "ZRANGE z 700 710", "ZCARD z", "ZRANGE z 0 20 WITHSCORES",
		"PFADD p a" + n(2000), "PFADD p a" + n(2000), "PFADD p a" + n(20), "PFCOUNT p",
		"XADD x MAXLEN 50 " + strconv.Itoa(i+1) + "-1 f v" + n(9), "XADD x MAXLEN 50 " + strconv.Itoa(i+1) +
			"-1 f v" + n(9), "XREADGROUP GROUP g c COUNT 2 NOACK STREAMS x >",
		"XLEN x", "XRANGE x - + COUNT 3", "XDEL x " + n(i+1) + "-1", "XTRIM x MAXLEN 20",
		"LPUSH l a" + n(9), "RPUSH l b" + n(9), "LPOP l", "RPOP l 2", "LRANGE l 0 5", "LINDEX l 3", "LLEN l",
		"HSET h f" + n(20) + " v" + n(9), "HDEL h f" + n(20), "HGET h f" + n(20), "HLEN h", "HGETALL h", "HGETALL h",
		"SADD s e" + n(30), "SREM s e" + n(30), "SISMEMBER s e" + n(30), "SCARD s",
		"SETBIT b " + n(20000) + " 1", "BITCOUNT b", "GETBIT b " + n(20000),
		"SET str" + n(5) + " v" + n(9), "APPEND str" + n(5) + " x", "GET str" +
			n(5), "INCR n", "GET n", "MGET str0 str1 str2", "STRLEN str" + n(5),
		"DEL str" + n(5), "EXPIRE str" + n(5) + " 5000", "PERSIST str" + n(5), "DEL l", "DBSIZE", "DBSIZE",
		"JSON.SET j $ {\"a\":" + n(9) + "}", "JSON.NUMINCRBY j $.a 1", "JSON.GET j $.a", "BF.ADD bf e" +
			n(99), "BF.EXISTS bf e" + n(99),
		"SIADD si " + n(99), "SIRANGE si 0 5", "RENAME str0 str1", "COPY h h2 REPLACE", "HGETALL h2",
	}
	return strings.Fields(all[rng.IntN(len(all))])
}

// TestApplyBatchPingPong sends each command to one of two servers, chosen at random, and to a third server. Each of the
// two servers applies the batches of the other one; the third applies none. The data that a server caches about a key
// (counts for ranks, members to pop next, prefetched stream entries, HyperLogLogs, replies, records, whether the key
// exists) must not survive a batch that changes the key: otherwise the replies differ.
func TestApplyBatchPingPong(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	var h [3]*servertest.Harness
	var c [3]*servertest.Client
	for i := range c {
		h[i] = servertest.Start(t)
		c[i] = h[i].Dial(t)
	}
	step := func(args ...string) {
		t.Helper()
		w := rng.IntN(2)
		at := h[w].DB.LatestSequence()
		if got, want := c[w].Do(args...), c[2].Do(args...); got != want {
			t.Fatalf("%q: %q, want %q", args, got, want)
		}
		if h[w].DB.LatestSequence() != at {
			ship(c[w], c[1-w], int(at))
		}
	}
	zadd := []string{"ZADD", "z"}
	for i := range 2500 {
		zadd = append(zadd, strconv.Itoa(rng.IntN(2000)), fmt.Sprint("m", i))
	}
	step(zadd...)
	step("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
	for i := range 2000 {
		step(pingPong(rng, i)...)
		if i == 1500 {
			step("FLUSHDB")
		}
	}
	for i := range 2 {
		if got, want := c[i].Do("DEBUG", "DIGEST"), c[2].Do("DEBUG", "DIGEST"); got != want {
			t.Errorf("the digests are %q and %q", got, want)
		}
	}
}

// TestApplyBatchWakes: a batch serves clients that are blocked on its keys, in any namespace.
func TestApplyBatchWakes(t *testing.T) {
	source, h := servertest.Start(t, "redis-databases", "4"), servertest.Start(t, "redis-databases", "4")
	from := source.Dial(t)
	for _, tt := range []struct{ name, blocked, write, want, check, left string }{
		{"list", "BLPOP l 0", "RPUSH l a b", servertest.Bulk("l", "a"), "LRANGE l 0 -1", servertest.Bulk("b")},
		{"sorted set", "BZPOPMAX z 0", "ZADD z 1 a 2 b", servertest.Bulk("z", "b", "2"), "ZRANGE z 0 -1",
			servertest.Bulk("a")},
		{"stream", "XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 f v", "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n" +
			servertest.Bulk("f", "v"), "XLEN s", ":1\r\n"},
		{"to a key whose lock is not held", "BLMOVE o d LEFT LEFT 0", "RPUSH o a b", "$1\r\na\r\n", "LRANGE o 0 -1",
			servertest.Bulk("b")},
		{"a deleted key", "XREADGROUP GROUP g c BLOCK 0 STREAMS gone >", "FLUSHDB",
			"-NOGROUP No such key 'gone' or consumer group 'g' in XREADGROUP with GROUP option\r\n", "DBSIZE", ":0\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			waiting, other, c := h.Dial(t), h.Dial(t), h.Dial(t)
			for _, c := range []*servertest.Client{from, waiting} {
				c.Want("SELECT 3", "+OK\r\n")
			}
			if tt.name == "a deleted key" {
				at := int(source.DB.LatestSequence())
				from.Want("XGROUP CREATE gone g 0 MKSTREAM", "+OK\r\n")
				ship(from, c, at)
			}
			other.Send(servertest.Encode(strings.Fields(tt.blocked)...)) // the same key of another database
			if tt.name == "a deleted key" {
				other.Reply()
				other.Send(servertest.Encode("BLPOP", "gone", "0"))
			}
			waiting.Send(servertest.Encode(strings.Fields(tt.blocked)...))
			h.BlockedClients(t, 2)
			at := int(source.DB.LatestSequence())
			from.Do(strings.Fields(tt.write)...)
			ship(from, c, at)
			if got := waiting.Reply(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			waiting.Want(tt.check, tt.left)
			h.BlockedClients(t, 1)
			other.Close()
			h.BlockedClients(t, 0)
		})
	}
}

// TestApplyBatchIndexes: the search indexes follow the batches of a server that has none, and of one that has the same.
func TestApplyBatchIndexes(t *testing.T) {
	const create = "FT.CREATE i PREFIX 1 h: SCHEMA t TAG"
	for _, both := range []bool{false, true} {
		source, h := servertest.Start(t, "redis-databases", "4"), servertest.Start(t, "redis-databases", "4")
		from, c := source.Dial(t), h.Dial(t)
		for _, c := range []*servertest.Client{from, c} {
			c.Want("SELECT 3", "+OK\r\n")
		}
		c.Want(create, "+OK\r\n")
		if both {
			from.Want(create, "+OK\r\n")
		}
		at := int(source.DB.LatestSequence())
		for _, tt := range []struct{ do, found string }{
			{"HSET h:1 t a;HSET h:2 t a", servertest.Bulk("h:1", "h:2")},
			{"HSET h:1 t b", servertest.Bulk("h:2")},
			{"MULTI;HSET h:1 t a;HSET h:1 n 1;RENAME h:2 h:3;EXEC", servertest.Bulk("h:1", "h:3")},
			{"DEL h:1;SET h:3 v", "*0\r\n"},
		} {
			from.DoAll(tt.do)
			at = ship(from, c, at)
			if got := c.Do("EVAL", `local k = {}
				for i, v in ipairs(redis.call('ft.search', 'i', '@t:{a}')) do if i % 2 == 0 then k[#k+1] = v end end
				return k`, "0"); got != tt.found {
				t.Errorf("both %t: %s: %q, want %q", both, tt.do, got, tt.found)
			}
		}
		c.Want("FT.TAGVALS i t", "*0\r\n")
	}
}

// TestApplyBatchAbortsExec: a batch is a write for WATCH and for tracking.
func TestApplyBatchAbortsExec(t *testing.T) {
	h := servertest.Start(t)
	c, tracking, w := h.Dial(t), h.Dial3(t), h.Dial(t)
	c.Want("WATCH k", "+OK\r\n")
	tracking.Want("CLIENT TRACKING ON", "+OK\r\n")
	tracking.Want("GET k", "_\r\n")
	w.Do("APPLYBATCH", servertest.SetBatch("other", "v"))
	tracking.Quiet()
	w.Do("APPLYBATCH", servertest.SetBatch("k", "v"))
	tracking.Expect(servertest.Invalidated("k"))
	c.Want("MULTI", "+OK\r\n")
	c.Want("GET k", "+QUEUED\r\n")
	c.Want("EXEC", "*-1\r\n")
}

// TestApplyBatchPaused: CLIENT PAUSE holds APPLYBATCH like any write.
func TestApplyBatchPaused(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.Send(servertest.Encode("APPLYBATCH", servertest.SetBatch("k", "v")))
	wantPausedBatch(h, t, admin, c)
}

// wantPausedBatch waits until a pause holds the APPLYBATCH that c has sent, and checks that it runs afterwards.
func wantPausedBatch(h *servertest.Harness, t *testing.T, admin, c *servertest.Client) {
	t.Helper()
	h.PausedClients(t, 1)
	admin.Want("GET k", "$-1\r\n")
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	if got := c.Reply(); !strings.HasPrefix(got, ":") {
		t.Errorf("%q", got)
	}
	admin.Want("GET k", "$1\r\nv\r\n")
}

// TestApplyBatchPausedMeanwhile: a pause that begins while APPLYBATCH waits for the lock of a key holds APPLYBATCH,
// too.
func TestApplyBatchPausedMeanwhile(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	tx := h.DB.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.End()
	tx.AddLock([]byte("k"), true)
	require.NoError(t, tx.Acquire())
	c.Send(servertest.Encode("APPLYBATCH", servertest.SetBatch("k", "v")))
	servertest.Eventually(t, "it runs",
		func() bool { return strings.Contains(admin.Do("CLIENT", "LIST"), " cmd=applybatch ") })
	admin.Send(servertest.Encode("CLIENT", "PAUSE", "60000", "WRITE"))
	servertest.Eventually(t, "the pause has begun", func() bool { return h.IsPaused() })
	tx.Unlock()
	admin.Expect("+OK\r\n")
	wantPausedBatch(h, t, admin, c)
}

// TestApplyBatchScripts: batches of another server create and delete scripts and libraries.
func TestApplyBatchScripts(t *testing.T) {
	from, to := servertest.Start(t).Dial(t), servertest.Start(t).Dial(t)
	at := 0
	const script, library = "return 'mine'", "#!lua name=l\nredis.register_function('f', function() return 1 end)"
	noScript := "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	sha := strings.Split(from.Do("SCRIPT", "LOAD", script), "\r\n")[1]
	noFunction := to.Do("FCALL", "f", "0")
	to.Want("EVALSHA "+sha+" 0", noScript)
	for _, step := range []struct {
		change          []string
		script, library string
	}{
		{[]string{"PING"}, "$4\r\nmine\r\n", noFunction},
		{[]string{"FUNCTION", "LOAD", library}, "$4\r\nmine\r\n", ":1\r\n"},
		{[]string{"FUNCTION", "LOAD", "REPLACE", strings.Replace(library, "1", "2", 1)}, "$4\r\nmine\r\n", ":2\r\n"},
		{[]string{"SCRIPT", "FLUSH"}, noScript, ":2\r\n"},
		{[]string{"FUNCTION", "DELETE", "l"}, noScript, noFunction},
		{[]string{"SCRIPT", "LOAD", script}, "$4\r\nmine\r\n", noFunction},
	} {
		from.Do(step.change...)
		at = ship(from, to, at)
		to.Want("EVALSHA "+sha+" 0", step.script)
		if got := to.Do("FCALL", "f", "0"); got != step.library {
			t.Errorf("after %q, FCALL: %q, want %q", step.change, got, step.library)
		}
	}
}

// TestApplyBatchNamespaces: with repl-namespace-enabled, a batch may contain namespaces and their tokens. Otherwise
// such a batch is refused, because the server could not start again with namespaces in the database.
func TestApplyBatchNamespaces(t *testing.T) {
	from := newSite(t, "kvrocks.conf", conf+"repl-namespace-enabled yes\n").admin()
	site := newSite(t, "kvrocks.conf", conf+"repl-namespace-enabled yes\n")
	to := site.admin()
	try := func(token string) string {
		t.Helper()
		nc := (&servertest.Harness{Server: site.last, DB: site.db}).Dial(t)
		return nc.Do("AUTH", token)
	}
	at := 0
	for _, step := range []struct{ change, token, want string }{
		{"NAMESPACE ADD a ta", "ta", "+OK\r\n"},
		{"NAMESPACE SET a tb", "tb", "+OK\r\n"},
		{"SET k v", "ta", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"NAMESPACE DEL a", "tb", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"NAMESPACE ADD c tc", "tc", "+OK\r\n"},
	} {
		from.Want(step.change, "+OK\r\n")
		at = ship(from, to, at)
		if got := try(step.token); got != step.want {
			t.Errorf("after %s, AUTH %s: %q, want %q", step.change, step.token, got, step.want)
		}
	}
	to.Want("NAMESPACE GET c", "$2\r\ntc\r\n")
	site.admin() // the server starts again

	for _, settings := range [][]string{{}, {"redis-databases", "4"}} {
		other := servertest.Start(t, settings...).Dial(t)
		refused := 0
		for _, rep := range poll(from, 0).batches {
			got := other.Do("APPLYBATCH", rep)
			if strings.HasPrefix(got, "-ERR the batch holds namespaces: ") {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%q: namespaces were not refused", settings)
		}
	}
}

// TestApplyBatchLowPriority applies batches with LOWPRI while another client writes.
func TestApplyBatchLowPriority(t *testing.T) {
	a, b := servertest.Start(t), servertest.Start(t)
	from, to, busy := a.Dial(t), b.Dial(t), b.Dial(t)
	for i := range 50 {
		from.Do("RPUSH", "l", strconv.Itoa(i))
	}
	busy.Send(strings.Repeat(servertest.Encode("INCR", "n"), 200))
	ship(from, to, 0, "LOWPRI")
	for range 199 {
		busy.Reply()
	}
	busy.Expect(":200\r\n")
	to.Want("LLEN l", ":50\r\n")
	to.Want("DBSIZE", ":2\r\n")
}

// TestApplyBatchFailedWrite: a batch that RocksDB fails to write has no effect.
func TestApplyBatchFailedWrite(t *testing.T) {
	h := servertest.Start(t)
	c, w := h.Dial(t), h.Dial(t)
	w.Want("WATCH k", "+OK\r\n")
	h.DB.InjectWriteError(engine.NewError("DISK", "full"))
	if got := c.Do("APPLYBATCH", servertest.SetBatch("k", "v")); !strings.HasPrefix(got, "-DISK ") {
		t.Errorf("%q", got)
	}
	h.DB.InjectWriteError(nil)
	c.Want("GET k", "$-1\r\n")
	c.Want("DBSIZE", ":0\r\n")
	w.Want("MULTI", "+OK\r\n")
	w.Want("EXEC", "*0\r\n")
}
