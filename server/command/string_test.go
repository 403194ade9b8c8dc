package command

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

const (
	replyWrongType  = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	replySyntax     = "-ERR syntax error\r\n"
	replyNotInteger = "-ERR value is not an integer or out of range\r\n"
	replyNull       = "$-1\r\n"
)

// exchange is a command line and its expected reply. resp3 is empty if the reply is the same as in RESP2.
type exchange struct{ line, resp2, resp3 string }

// converse runs the commands one after another in an empty database, once with each protocol. Words are separated by
// single blanks; "" stands for an empty word.
func converse(t *testing.T, script []exchange) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			db := enginetest.Open(t)
			putHash(t, db, "hash", "f")
			began := time.Now()
			for _, e := range script {
				words := strings.Split(e.line, " ")
				for i, w := range words {
					if w == `""` {
						words[i] = ""
					}
				}
				want := e.resp2
				if proto == 3 && e.resp3 != "" {
					want = e.resp3
				}
				if got := doProto(t, db, proto, words...); got != want &&
					!(strings.HasSuffix(words[0], "TTL") && sameLives(got, want, time.Since(began))) {
					t.Errorf("%s: %q, want %q", e.line, got, want)
				}
			}
		})
	}
}

// putHash writes a hash with the given fields.
func putHash(t testing.TB, db *engine.DB, key string, fields ...string) {
	t.Helper()
	putCollection(t, db, key, cf.TypeHash, fields...)
}

// putCollection writes a collection whose elements are subkeys of the default family.
func putCollection(t testing.TB, db *engine.DB, key string, typ cf.Type, subs ...string) {
	t.Helper()
	require.NoError(t, db.Update(cf.DefaultNamespace, bytesOf(key), func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte(key), typ)
		for _, s := range subs {
			tx.Put(cf.Default, tx.Subkey(&rec, []byte(s)), []byte("v:"+s))
			rec.Size++
		}
		tx.SaveAppend(&rec, nil)
		return nil
	}))
}

func bulkReply(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// arrayReply is an array of strings without blanks.
func arrayReply(elems string) string {
	list := strings.Fields(elems)
	s := fmt.Sprintf("*%d\r\n", len(list))
	for _, e := range list {
		s += bulkReply(e)
	}
	return s
}

func TestSetAndGet(t *testing.T) {
	invalid := func(name string) string { return "-ERR invalid expire time in '" + name + "' command\r\n" }
	converse(t, []exchange{
		{"GET k", replyNull, "_\r\n"},
		{"SET k v", "+OK\r\n", ""},
		{"GET k", bulkReply("v"), ""},
		{"SET k w NX", replyNull, "_\r\n"},
		{"SET k w xx", "+OK\r\n", ""},
		{"SET j v XX", replyNull, "_\r\n"},
		{"SET k x NX GET", bulkReply("w"), ""},
		{"SET j v NX GET", replyNull, "_\r\n"},
		{"GET j", bulkReply("v"), ""},
		{"SET k x NX XX", replySyntax, ""},
		{"SET k x XX NX", replySyntax, ""},
		{"SET k x NX NX", replyNull, "_\r\n"},
		{"SET k x EX", replySyntax, ""},
		{"SET k x EX 10 PX 10", replySyntax, ""},
		{"SET k x EX 10 EX 20", "+OK\r\n", ""},
		{"SET k x EX 10 EXAT 10", replySyntax, ""},
		{"SET k x KEEPTTL EX 10", replySyntax, ""},
		{"SET k x EX 10 KEEPTTL", replySyntax, ""},
		{"SET k x PERSIST", replySyntax, ""},
		{"SET k x EX abc", replyNotInteger, ""},
		{"SET k x EX 0", invalid("set"), ""},
		{"SET k x PX -1", invalid("set"), ""},
		{"SET k x EX 9223372036854776", invalid("set"), ""},
		{"SET k x PX 9223372036854775807", invalid("set"), ""},
		{"SET k x EXAT 9223372036854775807", invalid("set"), ""},
		{"SET k x PXAT 9999999999123", "+OK\r\n", ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"SET k y KEEPTTL", "+OK\r\n", ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"SET k z", "+OK\r\n", ""},
		{"TTL k", ":-1\r\n", ""},
		{"SET k v EXAT 1", "+OK\r\n", ""},
		{"EXISTS k", ":0\r\n", ""},
		{"SET hash v GET", replyWrongType, ""},
		{"TYPE hash", "+hash\r\n", ""},
		{"GET hash", replyWrongType, ""},
		{"GETSET hash v", replyWrongType, ""},
		{"GETDEL hash", replyWrongType, ""},
		{"GETEX hash EX abc", replyWrongType, ""},
		{"STRLEN hash", replyWrongType, ""},
		{"APPEND hash v", replyWrongType, ""},
		{"CAS hash a b", replyWrongType, ""},
		{"CAD hash a", replyWrongType, ""},
		{"MGET hash k j", "*3\r\n$-1\r\n$-1\r\n" + bulkReply("v"), "*3\r\n_\r\n_\r\n" + bulkReply("v")},
		{"SETNX hash v", ":0\r\n", ""},
		{"SETEX k 0 v", invalid("setex"), ""},
		{"PSETEX k 0 v", invalid("psetex"), ""},
		{"SETEX k abc v", replyNotInteger, ""},
		{"SETEX k 100 v", "+OK\r\n", ""},
		{"TTL k", ":100\r\n", ""},
		{"PSETEX k 200400 v", "+OK\r\n", ""},
		{"TTL k", ":200\r\n", ""},
		{"GETSET k w", bulkReply("v"), ""},
		{"TTL k", ":-1\r\n", ""},
		{"GETDEL k", bulkReply("w"), ""},
		{"GETDEL k", replyNull, "_\r\n"},
		{"SETNX k v", ":1\r\n", ""},
		{"SET hash v", "+OK\r\n", ""},
		{"TYPE hash", "+string\r\n", ""},
	})
}

func TestGetEx(t *testing.T) {
	converse(t, []exchange{
		{"GETEX k EX abc", replyNull, "_\r\n"},
		{"GETEX k WHAT", replySyntax, ""},
		{"SET k v", "+OK\r\n", ""},
		{"GETEX k EX abc", replyNotInteger, ""},
		{"GETEX k EX 0", "-ERR invalid expire time in 'getex' command\r\n", ""},
		{"GETEX k PXAT 9999999999123", bulkReply("v"), ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"GETEX k", bulkReply("v"), ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"GETEX k KEEPTTL", replySyntax, ""},
		{"GETEX k PERSIST EX 1", replySyntax, ""},
		{"GETEX k EX 1 PERSIST", replySyntax, ""},
		{"GETEX k PERSIST PERSIST", bulkReply("v"), ""},
		{"TTL k", ":-1\r\n", ""},
		{"GETEX k EXAT 1", bulkReply("v"), ""},
		{"EXISTS k", ":0\r\n", ""},
	})
}

func TestSeveralStrings(t *testing.T) {
	converse(t, []exchange{
		{"MSET a 1 b 2 a 3", "+OK\r\n", ""},
		{"MGET a b", "*2\r\n" + bulkReply("3") + bulkReply("2"), ""},
		{"MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n", ""},
		{"MSETNX c 1 d", "-ERR wrong number of arguments for 'msetnx' command\r\n", ""},
		{"MSETNX c 1 a 2", ":0\r\n", ""},
		{"EXISTS c", ":0\r\n", ""},
		{"MSETNX c 1 hash 2", ":0\r\n", ""},
		{"MSETNX c 1 d 2", ":1\r\n", ""},
		{"MGET c d", "*2\r\n" + bulkReply("1") + bulkReply("2"), ""},
		{"MSET hash v", "+OK\r\n", ""},
		{"GET hash", bulkReply("v"), ""},
	})
}

func TestPartsOfStrings(t *testing.T) {
	tooLong := "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
	converse(t, []exchange{
		{`APPEND k ""`, ":0\r\n", ""},
		{"EXISTS k", ":1\r\n", ""},
		{"APPEND k hello", ":5\r\n", ""},
		{"APPEND k +", ":6\r\n", ""},
		{"STRLEN k", ":6\r\n", ""},
		{"STRLEN missing", ":0\r\n", ""},
		{"SETRANGE k 8 x", ":9\r\n", ""},
		{"GET k", bulkReply("hello+\x00\x00x"), ""},
		{"SETRANGE k -1 x", "-ERR offset is out of range\r\n", ""},
		{"SETRANGE k abc x", replyNotInteger, ""},
		{"SETRANGE k 536870911 xx", tooLong, ""},
		{"SETRANGE k 9223372036854775807 xx", tooLong, ""},
		{`SETRANGE k 9223372036854775807 ""`, ":9\r\n", ""},
		{`SETRANGE missing 3 ""`, ":0\r\n", ""},
		{"EXISTS missing", ":0\r\n", ""},
		{"GETRANGE k 0 4", bulkReply("hello"), ""},
		{"GETRANGE k -3 -1", bulkReply("\x00\x00x"), ""},
		{"GETRANGE k 0 -20", bulkReply("h"), ""},
		{"GETRANGE k -5 -20", bulkReply(""), ""},
		{"GETRANGE k 5 2", bulkReply(""), ""},
		{"GETRANGE k 9 20", bulkReply(""), ""},
		{"GETRANGE k -9223372036854775808 9223372036854775807", bulkReply("hello+\x00\x00x"), ""},
		{"SUBSTR k 0 0", bulkReply("h"), ""},
		{"GETRANGE missing 0 -1", bulkReply(""), ""},
		{"GETRANGE missing a -1", replyNotInteger, ""},
		{"GETRANGE hash 0 -1", replyWrongType, ""},
	})
}

func TestNumbers(t *testing.T) {
	notFloat := "-ERR value is not a valid float\r\n"
	converse(t, []exchange{
		{"INCR n", ":1\r\n", ""},
		{"DECR n", ":0\r\n", ""},
		{"INCRBY n 10", ":10\r\n", ""},
		{"DECRBY n 20", ":-10\r\n", ""},
		{"INCRBY n 1.5", replyNotInteger, ""},
		{"DECRBY n -9223372036854775808", "-ERR decrement would overflow\r\n", ""},
		{"DECRBY n 9223372036854775807", "-ERR increment or decrement would overflow\r\n", ""},
		{"INCRBY n 9223372036854775807", ":9223372036854775797\r\n", ""},
		{"INCRBY n 11", "-ERR increment or decrement would overflow\r\n", ""},
		{"INCR hash", replyWrongType, ""},
		{"INCRBYFLOAT hash abc", replyWrongType, ""},
		{"SET f 10.50", "+OK\r\n", ""},
		{"INCR f", replyNotInteger, ""},
		{"INCRBYFLOAT f 0.1", bulkReply("10.6"), ""},
		{"INCRBYFLOAT f abc", notFloat, ""},
		{"INCRBYFLOAT f nan", notFloat, ""},
		{"INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity\r\n", ""},
		{"GET f", bulkReply("10.6"), ""},
		{"INCRBYFLOAT new 3e2", bulkReply("300"), ""},
		{"EXPIRE f 100", ":1\r\n", ""},
		{"INCRBYFLOAT f 1", bulkReply("11.6"), ""},
		{"TTL f", ":100\r\n", ""},
	})
}

func TestCompareCommands(t *testing.T) {
	converse(t, []exchange{
		{"CAS k a b", ":-1\r\n", ""},
		{"CAD k a", ":-1\r\n", ""},
		{"SET k a EX 100", "+OK\r\n", ""},
		{"CAS k x b", ":0\r\n", ""},
		{"CAS k a b EX", replySyntax, ""},
		{"CAS k a b WHAT 1", replySyntax, ""},
		{"CAS k a b EX 0", "-ERR invalid expire time in 'cas' command\r\n", ""},
		{"CAS k a b EX x", replyNotInteger, ""},
		{"CAS k a b", ":1\r\n", ""},
		{"GET k", bulkReply("b"), ""},
		{"TTL k", ":-1\r\n", ""},
		{"CAS k b c PXAT 9999999999123", ":1\r\n", ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"CAD k b", ":0\r\n", ""},
		{"CAD k c", ":1\r\n", ""},
		{"EXISTS k", ":0\r\n", ""},
	})
}

func TestLCS(t *testing.T) {
	converse(t, []exchange{
		{"MSET a ohmytext b mynewtext", "+OK\r\n", ""},
		{"LCS a b", bulkReply("mytext"), ""},
		{"LCS a b LEN", ":6\r\n", ""},
		{"LCS a missing", bulkReply(""), ""},
		{"LCS a missing IDX", "*4\r\n" + bulkReply("matches") + "*0\r\n" + bulkReply("len") + ":0\r\n", "%2\r\n" +
			bulkReply("matches") + "*0\r\n" + bulkReply("len") + ":0\r\n"},
		{"LCS a b IDX", "*4\r\n" + bulkReply("matches") +
			"*2\r\n*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n*2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n" +
			bulkReply("len") + ":6\r\n",
			"%2\r\n" + bulkReply("matches") +
				"*2\r\n*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n*2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n" +
				bulkReply("len") + ":6\r\n"},
		{"LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "*4\r\n" + bulkReply("matches") +
			"*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n" + bulkReply("len") + ":6\r\n",
			"%2\r\n" + bulkReply("matches") + "*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n" +
				bulkReply("len") + ":6\r\n"},
		{"LCS a b IDX LEN", "-ERR If you want both the length and indexes, please just use IDX.\r\n", ""},
		{"LCS a b MINMATCHLEN", replySyntax, ""},
		{"LCS a b MINMATCHLEN x", replyNotInteger, ""},
		{"LCS a hash WHAT", "-ERR The specified keys must contain string values\r\n", ""},
	})
	// 20,000 × 20,000 pairs: Redis's table would not fit into the limit.
	db := enginetest.Open(t)
	long := strings.Repeat("x", 20000)
	do(t, db, "MSET", "a", long, "b", long)
	if got := do(t, db, "LCS", "a", "b",
		"LEN"); got != "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n" {
		t.Errorf("%.100q", got)
	}
}
