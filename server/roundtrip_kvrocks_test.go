package server_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/servertest"
)

// The commands of TestKvrocksRoundTrip, with their replies: see replyText. Ids and times are beyond the present, so
// that they do not depend on the clock.
const (
	// Keys of each kind that this server writes and Kvrocks 2.10 does not, and some that both write.
	roundTripWrites = `
XADD s 9000000000000-1 f a | 9000000000000-1
XCFGSET s IDMP-DURATION 86400 IDMP-MAXSIZE 50 | OK
XADD s IDMP p 1 * f b | 9000000000000-2
XADD s IDMP p 2 * f c | 9000000000000-3
XADD s IDMPAUTO q * f d | 9000000000000-4
XADD s IDMP p 2 * f c | 9000000000000-3
XGROUP CREATE s g 0 | OK
XREADGROUP GROUP g alice COUNT 3 STREAMS s > | \
[[s [[9000000000000-1 [f a]] [9000000000000-2 [f b]] [9000000000000-3 [f c]]]]]
XNACK s g FAIL IDS 2 9000000000000-1 9000000000000-2 | 2
COPY s copy | 1
COPY s old | 1
RENAME old new | OK
COPY s trimmed | 1
COPY s emptied | 1
COPY s short | 1
XTRIM short MAXLEN 1 | 3
XDELEX short DELREF IDS 1 9000000000000-4 | [1]
XADD short IDMP p 3 * f e | 9000000000000-5
HSETEX h PXAT 9000000000000 FIELDS 1 a 1 | 1
HSET h b 2 | 1
HSET h2 a 1 | 1
HGETEX h2 PXAT 9000000000000 FIELDS 1 a | [1]
HSET plain a 1 | 1
TS.CREATE ts CHUNK_SIZE 2 | OK
TS.MADD ts 1 1 ts 2 2 ts 3 3 ts 4 4 ts 5 5 | [1 2 3 4 5]
TS.DEL ts 2 3 | 2
COPY ts ts:copy | 1
COPY ts ts:gone | 1
COPY ts ts:dies | 1
RENAME ts ts:new | OK
TDIGEST.CREATE td | OK
TDIGEST.ADD td 1 2 3 | OK
TS.CREATE ts:empty | OK
CF.RESERVE cf 100 | OK
CF.ADD cf a | 1
CF.ADD cf b | 1
CF.DEL cf b | 1
BF.ADD bf a | 1
PFADD hll a b | 1
JSON.SET json $ {"a":1} | OK
SIADD ints 1 2 | 2
SETBIT bits 7 1 | 0
SET string v IFNE w | OK
MSETEX 1 ms v PXAT 9000000000000 | 1
INCREX counter BYINT 5 PXAT 9000000000000 | [5 5]
RPUSH list a b c | 3
LMOVEM list moved LEFT RIGHT COUNT 2 BULK | [a b]
SADD set a b | 2
ZADD zset 1 a 2 b | 2
GEOADD geo 1 1 a | 1
FT.CREATE index ON HASH PREFIX 1 d: SCHEMA t TAG n NUMERIC | OK
HSET d:1 t a n 1 | 2
`
	// What Kvrocks 2.10 reads of them.
	roundTripReads = `
XRANGE s - + | [[9000000000000-1 [f a]] [9000000000000-2 [f b]] [9000000000000-3 [f c]] [9000000000000-4 [f d]]]
XREVRANGE s + - COUNT 1 | [[9000000000000-4 [f d]]]
XLEN s | 4
XINFO STREAM s | [length 4 last-generated-id 9000000000000-4 max-deleted-entry-id 0-0 entries-added 4 \
recorded-first-entry-id 9000000000000-1 first-entry [9000000000000-1 [f a]] last-entry [9000000000000-4 [f d]]]
XINFO GROUPS s | [[name g consumers 2 pending 3 last-delivered-id 9000000000000-3 entries-read 3 lag 1]]
XPENDING s g | [3 9000000000000-1 9000000000000-3 [["\x00nobody" 2] [alice 1]]]
XRANGE new - + COUNT 1 | [[9000000000000-1 [f a]]]
XPENDING copy g | [3 9000000000000-1 9000000000000-3 [["\x00nobody" 2] [alice 1]]]
XRANGE short - + | [[9000000000000-5 [f e]]]
HGETALL h | [a "\x00\x00\b/y\u0350\x001" b "\x00\x00\x00\x00\x00\x00\x00\x002"]
HGETALL h2 | [a "\x00\x00\b/y\u0350\x001"]
HGETALL plain | [a 1]
BF.EXISTS bf a | 1
PFCOUNT hll | 2
JSON.GET json | "{\"a\":1}"
SIRANGE ints 0 10 | [1 2]
GETBIT bits 7 | 1
GET string | v
MGET ms counter | [v 5]
LRANGE moved 0 -1 | [a b]
SMEMBERS set | [a b]
ZRANGE zset 0 -1 | [a b]
EXISTS ts:new cf | 2
EXISTS td ts:empty | 0
`
	// What Kvrocks 2.10 writes to them.
	roundTripChanges = `
XADD s * f e | 9000000000000-5
XREADGROUP GROUP g bob COUNT 1 STREAMS s > | [[s [[9000000000000-4 [f d]]]]]
XCLAIM s g bob 0 9000000000000-1 | [[9000000000000-1 [f a]]]
XACK s g 9000000000000-2 | 1
XPENDING s g | [3 9000000000000-1 9000000000000-4 [[bob 2] [alice 1]]]
XDEL s 9000000000000-2 | 1
XTRIM s MAXLEN 3 | 1
XGROUP SETID s g 9000000000000-4 | OK
RENAME s s:new | OK
COPY copy copy2 | 1
COPY copy copy3 | 1
XGROUP DELCONSUMER copy2 g alice | 1
XGROUP DELCONSUMER copy3 g "\x00nobody" | 2
XTRIM trimmed MAXLEN 0 | 4
XDEL emptied 9000000000000-1 9000000000000-2 9000000000000-3 9000000000000-4 | 4
XADD emptied * f x | 9000000000000-5
DEL new | 1
COPY h h:copy | 1
RENAME ts:new ts | OK
COPY ts:copy ts:copy2 | 1
RENAME cf cf:new | OK
DEL ts:gone | 1
PEXPIREAT ts:dies 9000000000000 | 1
HSET plain b 2 | 1
`
	// What this server reads and writes then.
	roundTripEnd = `
XRANGE s:new - + | [[9000000000000-3 [f c]] [9000000000000-4 [f d]] [9000000000000-5 [f e]]]
XINFO GROUPS s:new | [[name g consumers 2 pending 3 last-delivered-id 9000000000000-4 entries-read nil lag nil]]
XPENDING s:new g | [3 9000000000000-1 9000000000000-4 [[alice 1] [bob 2]]]
XADD s:new IDMP p 2 * f c | 9000000000000-3
XADD s:new IDMPAUTO q * f d | 9000000000000-4
XADD s:new IDMP p 4 * f g | 9000000000000-6
XADD s:new IDMP p 4 * f g | 9000000000000-6
XADD copy2 IDMP p 1 * f b | 9000000000000-2
XINFO GROUPS copy3 | [[name g consumers 1 pending 1 last-delivered-id 9000000000000-3 entries-read 3 lag 1]]
XINFO GROUPS copy2 | [[name g consumers 0 pending 2 last-delivered-id 9000000000000-3 entries-read 3 lag 1]]
XCLAIM copy2 g carol 9000000000000 9000000000000-1 | [[9000000000000-1 [f a]]]
XLEN trimmed | 0
XADD trimmed IDMP p 1 * f b | 9000000000000-2
XADD trimmed IDMP p 5 * f b | 9000000000000-5
XRANGE trimmed - + | [[9000000000000-5 [f b]]]
XADD emptied IDMP p 2 * f c | 9000000000000-3
XRANGE emptied - + | [[9000000000000-5 [f x]]]
XADD short IDMP p 3 * f e | 9000000000000-5
EXISTS new s ts:gone | 0
PEXPIRETIME ts:dies | 9000000000000
HGETALL h | [a 1 b 2]
HPEXPIRETIME h FIELDS 2 a b | [9000000000000 -1]
HPEXPIRETIME h:copy FIELDS 2 a b | [9000000000000 -1]
HPEXPIRETIME h2 FIELDS 1 a | [9000000000000]
HGETALL plain | [a 1 b 2]
TS.RANGE ts - + | [[1 1] [4 4] [5 5]]
TS.RANGE ts:copy - + | [[1 1] [4 4] [5 5]]
TS.RANGE ts:copy2 - + | [[1 1] [4 4] [5 5]]
TS.ADD ts 6 6 | 6
CF.MEXISTS cf:new a b | [1 0]
BF.EXISTS bf a | 1
PFCOUNT hll | 2
JSON.GET json | "{\"a\":1}"
PEXPIRETIME ms | 9000000000000
PEXPIRETIME counter | 9000000000000
LRANGE moved 0 -1 | [a b]
ZSCORE zset b | 2
FT.SEARCH index @t:{a} | [1 d:1 [n 1 t a]]
`
)

// exchanges runs commands, whose words may be quoted, and compares their replies. A line that ends with a backslash
// goes on.
func exchanges(c *servertest.Client, text string) {
	c.T.Helper()
	for line := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(text, "\\\n", ""))) {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " | ")
		words := strings.Fields(command)
		for i, w := range words {
			if w[0] == '"' {
				words[i], _ = strconv.Unquote(w)
			}
		}
		if got := replyText(c, words); got != want {
			c.T.Errorf("%s\n%s, want\n%s", command, got, want)
		}
	}
}

// replyText sends a command and returns the reply as text: strings are quoted if they need it, arrays are in brackets.
func replyText(c *servertest.Client, words []string) string {
	c.T.Helper()
	c.Send(servertest.Encode(words...))
	r, err := resp.ReadReply(c.R, resp.ReplyLimits{Text: 1 << 20, Elems: 1 << 20, Depth: 10, Keep: 1 << 20})
	require.NoError(c.T, err)
	return textOf(r)
}

func textOf(r resp.Reply) string {
	switch s := r.String(); {
	case r.Null:
		return "nil"
	case r.Kind == '*':
		var elems []string
		for _, e := range r.Elems {
			elems = append(elems, textOf(e))
		}
		return "[" + strings.Join(elems, " ") + "]"
	case r.Kind == '$' && (s == "" || strconv.QuoteToASCII(s) != `"`+s+`"`):
		return strconv.QuoteToASCII(s)
	default:
		return s
	}
}

// fillRanges writes a stream and a time series and deletes most of each by a range.
func fillRanges(c *servertest.Client) {
	c.T.Helper()
	const n = 5000
	var add, samples []string
	for i := range n {
		add = append(add, fmt.Sprintf("XADD long %d-1 f v", i+1))
		samples = append(samples, fmt.Sprintf("ts:long %d 1", i+1))
	}
	require.NoError(c.T, c.RoundTrip(servertest.Pipeline(add...), n))
	exchanges(c, "TS.CREATE ts:long CHUNK_SIZE 8 | OK")
	c.Do(strings.Fields("TS.MADD " + strings.Join(samples, " "))...)
	exchanges(c, "XTRIM long MAXLEN 1 | 4999\nTS.DEL ts:long 2 4999 | 4998")
}

// compactKvrocks lets Kvrocks compact all of its data.
func compactKvrocks(k *servertest.Client) {
	k.T.Helper()
	k.Want("COMPACT", "+OK\r\n")
	servertest.Eventually(k.T, "the compaction ends", func() bool { return field(k, "rocksdb", "is_compacting") == "no" })
}

// TestKvrocksRoundTrip: Kvrocks 2.10 gets keys of all kinds from this server, reads them, writes to them and compacts
// them; then this server gets them back. They go by the directory, or by replication from the log or in full.
func TestKvrocksRoundTrip(t *testing.T) {
	for _, way := range []string{"directory", "log", "full"} {
		t.Run(way, func(t *testing.T) {
			if os.Getenv(kvrocksServer) == "" {
				t.Skip("the environment variable " + kvrocksServer + " names no kvrocks binary")
			}
			dir := t.TempDir()
			o := engine.Options{Dir: dir + "/db", Rocks: engine.DefaultRocksOptions()}
			if way == "full" {
				o.Rocks.WALTTLSeconds, o.Rocks.WALSizeLimitMB = 0, 0
			}
			h := startOn(t, enginetest.OpenPlain(t, o))
			c := h.Dial(t)
			exchanges(c, roundTripWrites)
			fillRanges(c)

			var k *servertest.Client
			stop := func() {}
			if way == "directory" {
				h.Close()
				require.NoError(t, h.DB.Close())
				var dial func() *servertest.Client
				dial, stop = startKvrocksIn(t, dir)
				k = dial()
			} else {
				if way == "full" {
					for id := range cf.NumFamilies {
						require.NoError(t, h.DB.FlushMemtable(id))
					}
				}
				k = startKvrocks(t, fmt.Sprintf("slaveof 127.0.0.1 %d", h.Port()))()
				servertest.Eventually(t, "Kvrocks has caught up", func() bool {
					return field(k, "replication", "master_link_status") == "up" &&
						field(k, "replication", "slave_repl_offset") == fmt.Sprint(h.DB.LatestSequence())
				})
				if full := h.Master().Stats().SyncFull > 0; full != (way == "full") {
					t.Errorf("%d full synchronisations", h.Master().Stats().SyncFull)
				}
			}
			exchanges(k, roundTripReads)
			k.Want("SLAVEOF NO ONE", "+OK\r\n")
			exchanges(k, roundTripChanges)
			compactKvrocks(k)

			if way == "directory" {
				stop()
				h = startOn(t, enginetest.OpenPlain(t, engine.Options{Dir: dir + "/db"}))
				c = h.Dial(t)
			} else {
				h = startOn(t, enginetest.OpenPlain(t, engine.Options{Dir: t.TempDir() + "/db"}))
				c = h.Dial(t)
				c.Want(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", port(k)), "+OK\r\n")
				servertest.Eventually(t, "basalt has caught up", func() bool {
					return field(c, "replication", "master_link_status") == "up" &&
						field(c, "replication", "slave_repl_offset") == field(k, "replication", "master_repl_offset")
				})
				c.Want("REPLICAOF NO ONE", "+OK\r\n")
			}
			exchanges(c, roundTripEnd)
		})
	}
}
