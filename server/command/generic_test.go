package command

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
)

func TestKeyCommands(t *testing.T) {
	converse(t, []exchange{
		{"MSET a 1 b 2 c 3", "+OK\r\n", ""},
		{"EXISTS a a hash missing", ":3\r\n", ""},
		{"TOUCH a a hash missing", ":3\r\n", ""},
		{"TYPE a", "+string\r\n", ""},
		{"TYPE hash", "+hash\r\n", ""},
		{"TYPE missing", "+none\r\n", ""},
		{"DEL a a missing", ":1\r\n", ""},
		{"UNLINK b hash", ":2\r\n", ""},
		{"EXISTS a b c hash", ":1\r\n", ""},
		{"RENAME missing x", "-ERR no such key\r\n", ""},
		{"RENAMENX missing x", "-ERR no such key\r\n", ""},
		{"RENAME c c", "+OK\r\n", ""},
		{"RENAMENX c c", ":0\r\n", ""},
		{"SET d 4", "+OK\r\n", ""},
		{"RENAMENX c d", ":0\r\n", ""},
		{"RENAME c d", "+OK\r\n", ""},
		{"GET d", bulkReply("3"), ""},
		{"COPY d e", ":1\r\n", ""},
		{"COPY d e", ":0\r\n", ""},
		{"COPY d e REPLACE DB 0", ":1\r\n", ""},
		{"COPY missing e REPLACE", ":0\r\n", ""},
		{"COPY d d", "-ERR source and destination objects are the same\r\n", ""},
		{"COPY d e DB 1", "-ERR DB index is out of range\r\n", ""},
		{"COPY d e DB x", replyNotInteger, ""},
		{"COPY d e DB 4294967296", "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n", ""},
		{"COPY d e DB", replySyntax, ""},
		{"COPY d e WHAT", replySyntax, ""},
	})
}

func TestExpiryCommands(t *testing.T) {
	converse(t, []exchange{
		{"TTL k", ":-2\r\n", ""},
		{"PEXPIRETIME k", ":-2\r\n", ""},
		{"EXPIRE k 100", ":0\r\n", ""},
		{"EXPIRE k abc", replyNotInteger, ""},
		{"EXPIRE k 100 WHAT", "-ERR Unsupported option WHAT\r\n", ""},
		{"EXPIRE k abc NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n", ""},
		{"EXPIRE k 100 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n", ""},
		{"SET k v", "+OK\r\n", ""},
		{"TTL k", ":-1\r\n", ""},
		{"PERSIST k", ":0\r\n", ""},
		{"EXPIRE k 100", ":1\r\n", ""},
		{"TTL k", ":100\r\n", ""},
		{"EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n", ""},
		{"PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command\r\n", ""},
		{"EXPIREAT k 9223372036854775807", "-ERR invalid expire time in 'expireat' command\r\n", ""},
		{"PEXPIREAT k 9223372036854775807", ":1\r\n", ""},
		{"PEXPIRETIME k", ":9223372036854775807\r\n", ""},
		{"EXPIRETIME k", ":9223372036854776\r\n", ""},
		{"PEXPIREAT k 9999999999499", ":1\r\n", ""},
		{"EXPIRETIME k", ":9999999999\r\n", ""},
		{"PEXPIREAT k 9999999999500", ":1\r\n", ""},
		{"EXPIRETIME k", ":10000000000\r\n", ""},
		{"EXPIREAT k 9999999999 GT", ":0\r\n", ""},
		{"EXPIREAT k 9999999999 lt", ":1\r\n", ""},
		{"EXPIREAT k 5 NX", ":0\r\n", ""},
		{"PERSIST k", ":1\r\n", ""},
		{"EXPIRE k -1 XX", ":0\r\n", ""},
		{"EXPIRE k -1", ":1\r\n", ""},
		{"EXISTS k", ":0\r\n", ""},
		{"EXPIRE hash 0", ":1\r\n", ""},
		{"TYPE hash", "+none\r\n", ""},
	})
}

func TestObject(t *testing.T) {
	converse(t, []exchange{
		{"MSET i 12345 s short l " + strings.Repeat("x", 45), "+OK\r\n", ""},
		{"OBJECT ENCODING i", bulkReply("int"), ""},
		{"OBJECT ENCODING s", bulkReply("embstr"), ""},
		{"OBJECT encoding l", bulkReply("raw"), ""},
		{"OBJECT ENCODING hash", bulkReply("listpack"), ""},
		{"OBJECT ENCODING missing", replyNull, "_\r\n"},
		{"OBJECT REFCOUNT s", ":1\r\n", ""},
		{"OBJECT IDLETIME s", ":0\r\n", ""},
		{"OBJECT IDLETIME missing", replyNull, "_\r\n"},
		{"OBJECT FREQ missing", replyNull, "_\r\n"},
		{"OBJECT FREQ s", "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that " +
			"when switching between policies at runtime LRU and LFU data will take some time to adjust.\r\n", ""},
		{"OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command\r\n", ""},
		{"OBJECT DUMP missing", "*0\r\n", ""},
	})
	db := enginetest.Open(t)
	do(t, db, "SET", "s", "v", "PXAT", "9999999999123")
	got := do(t, db, "OBJECT", "DUMP", "s")
	for _, want := range []string{
		"*16\r\n" + bulkReply("namespace") + bulkReply("__namespace") + bulkReply("type") + bulkReply("string"),
		bulkReply("expire") + bulkReply("9999999999") + bulkReply("pexpire") + bulkReply("9999999999123"),
		bulkReply("is_64bit_common_field") + bulkReply("1") + bulkReply("created_at"),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("OBJECT DUMP: %q lacks %q", got, want)
		}
	}
	putCollection(t, db, "h", cf.TypeHash, "a", "b")
	if got := do(t, db, "OBJECT", "DUMP", "h"); !strings.Contains(got, bulkReply("size")+bulkReply("2")) {
		t.Errorf("OBJECT DUMP: %q", got)
	}
	if got := do(t, db, "OBJECT", "HELP"); !strings.HasPrefix(got, "*1") || !strings.Contains(got, "ENCODING <key>") {
		t.Errorf("OBJECT HELP: %q", got)
	}
}

// TestHandlersDoNotAllocate: the handlers of the most frequent commands do not allocate for small values.
func TestHandlersDoNotAllocate(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "SET", "k", "v")
	tx, w := db.NewTx(), new(resp.Writer)
	for _, args := range [][][]byte{bytesOf("GET", "k"), bytesOf("MGET", "k", "missing"), bytesOf("SET", "k", "v"),
		bytesOf("INCR", "n"), bytesOf("EXISTS", "k"), bytesOf("TTL", "k"), bytesOf("EXPIRE", "k", "100"),
		bytesOf("DEL", "k")} {
		spec := Lookup(args[0])
		c := &Ctx{Args: args, Out: w, Tx: tx, Spec: spec}
		n := testing.AllocsPerRun(100, func() {
			w.Reset()
			tx.Begin(cf.DefaultNamespace)
			require.NoError(t, spec.Handler(c))
			tx.Release()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", args[0], n)
		}
	}
}

// TestKeysOfCommands: the rows of the table name the positions of the keys, and whether the command writes them.
func TestKeysOfCommands(t *testing.T) {
	for line, want := range map[string][]KeyRef{
		"COPY a b":        {{1, false}, {2, true}},
		"RENAME a b":      {{1, true}, {2, true}},
		"MSET a 1 b 2":    {{1, true}, {3, true}},
		"LCS a b LEN":     {{1, false}, {2, false}},
		"DEL a b":         {{1, true}, {2, true}},
		"OBJECT FREQ k":   {{2, false}},
		"PFMERGE d a b":   {{1, true}, {2, false}, {3, false}},
		"PFCOUNT a b":     {{1, false}, {2, false}},
		"SCAN 0 COUNT 10": nil,
	} {
		args := bytesOf(strings.Fields(line)...)
		spec, err := Resolve(args)
		require.NoError(t, err)
		if got := spec.AppendKeys(nil, args); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestKMetadata(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "SET", "s", "v", "PXAT", "9999999999123")
	do(t, db, "HSET", "h", "f", "v", "g", "w")
	str := "*6\r\n" + bulkReply("type") + bulkReply("string") + bulkReply("expire") + ":9999999999123\r\n" +
		bulkReply("flags") + ":129\r\n"
	if got := do(t, db, "KMETADATA", "s"); got != str {
		t.Errorf("a string: %q", got)
	}
	if got, want := do3(t, db, "KMETADATA", "s"), "%3"+str[2:]; got != want {
		t.Errorf("RESP3: %q", got)
	}
	do(t, db, "HSET", "x", "f", "v", "g", "w")
	do(t, db, "HPEXPIREAT", "x", "9999999999123", "FIELDS", "1", "f")
	do(t, db, "LPUSH", "l", "a", "b")
	do(t, db, "JSON.SET", "j", "$", "{}")
	version := regexp.MustCompile(`version [1-9][0-9]+`)
	for key, want := range map[string]string{
		"h": "type hash size 2 expire 0 flags 130 VERSION mode legacy",
		"x": "type hash size 2 expire 0 flags 130 VERSION mode field-expiration " +
			"persist 1 lower 9999999999123 upper 9999999999123",
		"l": "type list size 2 expire 0 flags 131 VERSION head 9223372036854775805 tail 9223372036854775807",
		"j": "type ReJSON-RL expire 0 flags 138 format json",
	} {
		words := strings.Fields(regexp.MustCompile(`[*$][0-9]+\r\n|:`).ReplaceAllString(do(t, db, "KMETADATA", key), ""))
		if got := version.ReplaceAllString(strings.Join(words, " "), "VERSION"); got != want {
			t.Errorf("KMETADATA %s: %s, want %s", key, got, want)
		}
	}
	if got := do(t, db, "KMETADATA", "none"); got != "-ERR NotFound: no such key\r\n" {
		t.Errorf("a missing key: %q", got)
	}
}

func TestHSetExpire(t *testing.T) {
	converse(t, []exchange{
		{"HSETEXPIRE h 100 f", "-ERR wrong number of arguments for 'hsetexpire' command\r\n", ""},
		{"HSETEXPIRE h 100 f v g", "-ERR Invalid number of arguments: field-value pairs must be complete\r\n", ""},
		{"HSETEXPIRE h x f v", replyNotInteger, ""},
		{"HSETEXPIRE h 0 f v", "-ERR invalid expire time in 'hsetexpire' command\r\n", ""},
		{"EXISTS h", ":0\r\n", ""},
		{"HSETEXPIRE h 100 f v g w", "+OK\r\n", ""},
		{"HMGET h f g", "*2\r\n" + bulkReply("v") + bulkReply("w"), ""},
		{"TTL h", ":100\r\n", ""},
		{"HSETEXPIRE h 200 f x", "+OK\r\n", ""},
		{"HGET h f", bulkReply("x"), ""},
		{"HLEN h", ":2\r\n", ""},
		{"TTL h", ":200\r\n", ""},
		{"SET s v", "+OK\r\n", ""},
		{"HSETEXPIRE s 100 f v", replyWrongType, ""},
		{"TTL s", ":-1\r\n", ""},
	})
}

// TestHRangeByLex: HRANGEBYLEX is a command of Kvrocks, and its errors about bounds have the texts of Kvrocks.
func TestHRangeByLex(t *testing.T) {
	pairs := func(words string) string { return bulks(replyNull, strings.Fields(words)...) }
	const (
		order = "-ERR min > max\r\n"
		low   = "-ERR the min is illegal\r\n"
		high  = "-ERR the max is illegal\r\n"
	)
	converse(t, []exchange{
		{"HSET h a 1 b 2 c 3", ":3\r\n", ""},
		{"HRANGEBYLEX h [a (c", pairs("a 1 b 2"), ""},
		{"HRANGEBYLEX h (a +", pairs("b 2 c 3"), ""},
		{"HRANGEBYLEX h + - REV", pairs("c 3 b 2 a 1"), ""},
		{"HRANGEBYLEX h [c (a rev", pairs("c 3 b 2"), ""},
		{"HRANGEBYLEX h - + LIMIT 1 -1", pairs("b 2 c 3"), ""},
		{"HRANGEBYLEX h + - limit 0 1 REV", pairs("c 3"), ""},
		{"HRANGEBYLEX h (a (a", pairs(""), ""},
		{"HRANGEBYLEX missing - +", pairs(""), ""},
		{"HRANGEBYLEX h + -", order, ""},
		{"HRANGEBYLEX h - + REV", order, ""},
		{"HRANGEBYLEX h a +", low, ""},
		{"HRANGEBYLEX h - c", high, ""},
		{"HRANGEBYLEX h + a REV", low, ""},
		{"HRANGEBYLEX h - + LIMIT x 1", replyNotInteger, ""},
		{"HRANGEBYLEX h - + LIMIT 0 x", replyNotInteger, ""},
		{"HRANGEBYLEX h - + LIMIT 0", replySyntax, ""},
		{"HRANGEBYLEX h - + WHAT", replySyntax, ""},
		{"SET s v", "+OK\r\n", ""},
		{"HRANGEBYLEX s - +", replyWrongType, ""},
	})
}
