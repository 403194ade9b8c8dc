package command

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// ints returns the reply of an array of integers.
func ints(all ...int64) string {
	s := "*" + strconv.Itoa(len(all)) + "\r\n"
	for _, n := range all {
		s += ":" + strconv.FormatInt(n, 10) + "\r\n"
	}
	return s
}

// bulks returns the reply of an array of strings. The string "(nil)" stands for null.
func bulks(null string, all ...string) string {
	s := "*" + strconv.Itoa(len(all)) + "\r\n"
	for _, b := range all {
		if b == "(nil)" {
			s += null
		} else {
			s += bulkReply(b)
		}
	}
	return s
}

// values returns a command line with its reply [bulks] in both protocols.
func values(line string, all ...string) exchange {
	return exchange{line, bulks(replyNull, all...), bulks("_\r\n", all...)}
}

const (
	errReplyFields   = "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"
	errReplyMatch    = "-ERR The `numfields` parameter must match the number of arguments\r\n"
	errReplyPositive = "-ERR Number of fields must be a positive integer\r\n"
	errReplyNum      = "-ERR Parameter `numFields` should be greater than 0\r\n"
	errReplyNegative = "-ERR invalid expire time, must be >= 0\r\n"
)

func replyArity(name string) string {
	return "-ERR wrong number of arguments for '" + name + "' command\r\n"
}

func replyExpire(name string) string {
	return "-ERR invalid expire time in '" + name + "' command\r\n"
}

func TestHexpire(t *testing.T) {
	converse(t, []exchange{
		{"HEXPIRE none 10 FIELDS 2 a b", ints(-2, -2), ""},
		{"HSET h a 1 b 2 c 3", ":3\r\n", ""},
		{"HEXPIRE h 100 FIELDS 3 a x a", ints(1, -2, 1), ""},
		{"HTTL h FIELDS 3 a b x", ints(100, -1, -2), ""},
		{"HPEXPIREAT h 9999999999123 FIELDS 1 a", ints(1), ""},
		{"HPEXPIRETIME h FIELDS 3 a b x", ints(9999999999123, -1, -2), ""},
		{"HEXPIRETIME h FIELDS 1 a", ints(10000000000), ""}, // rounded up
		{"HEXPIREAT h 9999999999 fields 1 b", ints(1), ""},
		{"HPEXPIRETIME h FIELDS 2 a b", ints(9999999999123, 9999999999000), ""},
		{"HPEXPIRE h 100000 FIELDS 1 c", ints(1), ""},
		{"HTTL h FIELDS 1 c", ints(100), ""},
		{"HPERSIST h FIELDS 3 c x c", ints(1, -2, -1), ""},

		// Conditions.
		{"HPEXPIREAT h 9999999999200 NX FIELDS 2 a c", ints(0, 1), ""},
		{"HPERSIST h FIELDS 1 c", ints(1), ""},
		{"HPEXPIREAT h 9999999999200 xx FIELDS 3 a c x", ints(1, 0, -2), ""},
		{"HPEXPIREAT h 9999999999200 GT FIELDS 2 a c", ints(0, 0), ""},
		{"HPEXPIREAT h 9999999999201 GT FIELDS 2 a c", ints(1, 0), ""},
		{"HPEXPIREAT h 9999999999201 LT FIELDS 2 a c", ints(0, 1), ""},
		{"HPEXPIREAT h 9999999999200 LT FIELDS 2 a c", ints(1, 1), ""},
		{"HPEXPIREAT h 1 GT FIELDS 1 a", ints(0), ""},
		{"HPEXPIREAT h 1 NX FIELDS 1 a", ints(0), ""},
		{"HEXPIRE h 0 LT FIELDS 2 c c", ints(2, -2), ""},
		{"HGETALL h", "*4\r\n" + bulkReply("a") + bulkReply("1") + bulkReply("b") + bulkReply("2"), "%2\r\n" +
			bulkReply("a") + bulkReply("1") + bulkReply("b") + bulkReply("2")},
		{"HEXPIREAT h 1 FIELDS 2 a b", ints(2, 2), ""},
		{"EXISTS h", ":0\r\n", ""},
		{"TYPE h", "+none\r\n", ""},

		// A hash keeps the plain encoding until a field gets an expiry.
		{"HSET p a 1", ":1\r\n", ""},
		{"HTTL p FIELDS 2 a x", ints(-1, -2), ""},
		{"HPERSIST p FIELDS 2 a x", ints(-1, -2), ""},
		{"HEXPIRE p 10 XX FIELDS 2 a x", ints(0, -2), ""},
		{"HEXPIRE p 10 GT FIELDS 2 a x", ints(0, -2), ""},

		// Errors.
		{"HEXPIRE p", replyArity("hexpire"), ""},
		{"HEXPIRE p 10 FIELDS 1", replyArity("hexpire"), ""},
		{"HEXPIRE p abc FIELDS 1 a", replyNotInteger, ""},
		{"HEXPIRE p -1 FIELDS 1 a", errReplyNegative, ""},
		{"HEXPIRE none -1 FIELDS 1 a", errReplyNegative, ""},
		{"HEXPIRE p 70368744178 FIELDS 1 a", replyExpire("hexpire"), ""},
		{"HEXPIRE p 70368744177 FIELDS 1 a", replyExpire("hexpire"), ""},
		{"HPEXPIRE p 70368744177663 FIELDS 1 a", replyExpire("hpexpire"), ""},
		{"HPEXPIRE p 9223372036854775807 FIELDS 1 a", replyExpire("hpexpire"), ""},
		{"HEXPIREAT p 9223372036854775807 FIELDS 1 a", replyExpire("hexpireat"), ""},
		{"HPEXPIREAT p 70368744177664 FIELDS 1 a", replyExpire("hpexpireat"), ""},
		{"HPEXPIREAT p 70368744177663 FIELDS 1 a", ints(1), ""},
		{"HEXPIRE p 10 FIELD 1 a", errReplyFields, ""},
		{"HEXPIRE p 10 NX XX FIELDS 1 a", errReplyFields, ""},
		{"HEXPIRE p 10 YY FIELDS 1 a", errReplyFields, ""},
		{"HEXPIRE p 10 FIELDS 0 a", errReplyNum, ""},
		{"HEXPIRE p 10 FIELDS -1 a", errReplyNum, ""},
		{"HEXPIRE p 10 FIELDS x a", errReplyNum, ""},
		{"HEXPIRE p 10 FIELDS 2 a", errReplyMatch, ""},
		{"HEXPIRE p 10 FIELDS 1 a b", errReplyMatch, ""},
		{"HEXPIRE p 10 NX FIELDS 1", errReplyMatch, ""},
		{"HEXPIRE p 10 FIELDS 1 a NX", errReplyMatch, ""},
		{"HTTL p FIELDS 1", replyArity("httl"), ""},
		{"HTTL p FIELDS 0 a", errReplyPositive, ""},
		{"HTTL p FIELDS 2 a", errReplyMatch, ""},
		{"HPTTL p FIELD 1 a", errReplyFields, ""},
		{"HEXPIRETIME none FIELDS 0 a", errReplyPositive, ""},
		{"HEXPIRETIME none FIELDS 1 a", ints(-2), ""},
		{"HPEXPIRETIME none FIELDS 1 a b", errReplyMatch, ""},
		{"HPERSIST none FIELDS 1 a", ints(-2), ""},
		{"HPERSIST p FIELDS x a", errReplyPositive, ""},
		{"HPERSIST p a 1 a", errReplyFields, ""},

		// The type of the key is checked before the arguments.
		{"SET s v", "+OK\r\n", ""},
		{"HEXPIRE s abc FIELDS 1 a", replyWrongType, ""},
		{"HEXPIRE s 10 FIELDS 1 a", replyWrongType, ""},
		{"HPEXPIREAT s 10 XX FIELDS 2 a", replyWrongType, ""},
		{"HTTL s FIELDS x a", replyWrongType, ""},
		{"HPEXPIRETIME s FIELDS 1 a", replyWrongType, ""},
		{"HPERSIST s a b c", replyWrongType, ""},
	})
}

func TestHsetex(t *testing.T) {
	twoExpiries := "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified\r\n"
	twoConditions := "-ERR Only one of FXX or FNX arguments can be specified\r\n"
	converse(t, []exchange{
		{"HSETEX h FXX FIELDS 1 a 1", ":0\r\n", ""},
		{"EXISTS h", ":0\r\n", ""},
		{"HSETEX h FIELDS 2 a 1 b 2", ":1\r\n", ""},
		{"HTTL h FIELDS 2 a b", ints(-1, -1), ""},
		{"HSETEX h PXAT 9999999999123 FIELDS 2 a 3 c 4", ":1\r\n", ""},
		{"HPEXPIRETIME h FIELDS 3 a b c", ints(9999999999123, -1, 9999999999123), ""},
		values("HMGET h a b c", "3", "2", "4"),
		{"HSETEX h KEEPTTL FIELDS 3 a 5 b 6 d 7", ":1\r\n", ""},
		{"HPEXPIRETIME h FIELDS 4 a b c d", ints(9999999999123, -1, 9999999999123, -1), ""},
		values("HMGET h a b c d", "5", "6", "4", "7"),
		{"HSETEX h FIELDS 1 a 8", ":1\r\n", ""},
		{"HTTL h FIELDS 1 a", ints(-1), ""},
		{"HSETEX h FNX EX 100 FIELDS 2 e 1 a 9", ":0\r\n", ""},
		{"HSETEX h EX 100 fnx FIELDS 2 e 1 f 2", ":1\r\n", ""},
		{"HTTL h FIELDS 2 e f", ints(100, 100), ""},
		{"HSETEX h FXX PX 200000 FIELDS 2 e 3 x 2", ":0\r\n", ""},
		{"HSETEX h FXX PX 200000 FIELDS 2 e 3 f 4", ":1\r\n", ""},
		{"HTTL h FIELDS 2 e f", ints(200, 200), ""},
		{"HSETEX h EXAT 9999999999 FIELDS 3 e 1 f 2 e 3", ":1\r\n", ""},
		values("HMGET h e f", "3", "2"),
		{"HEXPIRETIME h FIELDS 1 e", ints(9999999999), ""},
		{"HSETEX h FXX FIELDS 1 e 4 EX 100", ":1\r\n", ""},
		{"HTTL h FIELDS 1 e", ints(100), ""},
		{"HSETEX h EXAT 1 FIELDS 2 e 1 new 2", ":1\r\n", ""},
		values("HMGET h e new", "(nil)", "(nil)"),
		{"HSETEX other PXAT 1 FIELDS 1 a 1", ":1\r\n", ""},
		{"EXISTS other", ":0\r\n", ""},

		{"HSETEX h FIELDS 1 a", replyArity("hsetex"), ""},
		{"HSETEX h FIELDS 1 a b c", "-ERR unknown argument: c\r\n", ""},
		{"HSETEX h FIELDS 1 a b FIELDS 1 c d", "-ERR FIELDS keyword specified multiple times\r\n", ""},
		{"HSETEX h FIELDS 2 a b", replyArity("hsetex"), ""},
		{"HSETEX h FIELDS 1 a b EX", "-ERR missing expire time\r\n", ""},
		{"HSETEX h FIELDS 1 a b PERSIST", "-ERR unknown argument: PERSIST\r\n", ""},
		{"HSETEX h EX 10 FIELDS 1 a b PX", twoExpiries, ""},
		{"HSETEX h FIELDS 2147483648 a b", "-ERR invalid number of fields\r\n", ""},
		{"HSETEX h EX 10 FNX FIELDS 1 a", replyArity("hsetex"), ""},
		{"HSETEX h FIELDS 0 a b", "-ERR invalid number of fields\r\n", ""},
		{"HSETEX h FIELDS x a b", "-ERR invalid number of fields\r\n", ""},
		{"HSETEX h EX 10 PX 10 FIELDS 1 a b", twoExpiries, ""},
		{"HSETEX h KEEPTTL EX 10 FIELDS 1 a b", twoExpiries, ""},
		{"HSETEX h EX 10 KEEPTTL FIELDS 1 a b", twoExpiries, ""},
		{"HSETEX h FNX FXX FIELDS 1 a b", twoConditions, ""},
		{"HSETEX h FXX FXX FIELDS 1 a b", twoConditions, ""},
		{"HSETEX h FNX KEEPTTL a b", "-ERR unknown argument: a\r\n", ""},
		{"HSETEX h EX 10 FNX EX", twoExpiries, ""},
		{"HSETEX h NX FIELDS 1 a b", "-ERR unknown argument: NX\r\n", ""},
		{"HSETEX h EX abc FIELDS 1 a b", replyNotInteger, ""},
		{"HSETEX h EX -1 FIELDS 1 a b", errReplyNegative, ""},
		{"HSETEX h EX 70368744177 FIELDS 1 a b", replyExpire("hsetex"), ""},
		{"SET s v", "+OK\r\n", ""},
		{"HSETEX s EX abc FIELDS 1 a b", replyNotInteger, ""}, // HSETEX checks the arguments first
		{"HSETEX s EX 10 FIELDS 1 a b", replyWrongType, ""},
	})
}

func TestHgetexAndHgetdel(t *testing.T) {
	twoExpiries := "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified\r\n"
	converse(t, []exchange{
		values("HGETEX none FIELDS 2 a b", "(nil)", "(nil)"),
		values("HGETEX none EX 10 FIELDS 1 a", "(nil)"),
		{"HSET h a 1 b 2 c 3", ":3\r\n", ""},
		{"HSET h empty " + `""`, ":1\r\n", ""},
		values("HGETEX h FIELDS 3 a x empty", "1", "(nil)", ""),
		{"HTTL h FIELDS 2 a b", ints(-1, -1), ""},
		values("HGETEX h PXAT 9999999999123 FIELDS 4 a x b empty", "1", "(nil)", "2", ""),
		{"HPEXPIRETIME h FIELDS 4 a b c empty", ints(9999999999123, 9999999999123, -1, 9999999999123), ""},
		values("HGETEX h FIELDS 2 a empty", "1", ""),
		{"HPEXPIRETIME h FIELDS 1 a", ints(9999999999123), ""},
		values("HGETEX h EX 100 FIELDS 1 a", "1"),
		{"HTTL h FIELDS 1 a", ints(100), ""},
		values("HGETEX h PX 200000 FIELDS 1 a", "1"),
		{"HTTL h FIELDS 1 a", ints(200), ""},
		values("HGETEX h EXAT 9999999999 FIELDS 1 a", "1"),
		{"HEXPIRETIME h FIELDS 1 a", ints(9999999999), ""},
		values("HGETEX h FIELDS 1 a EX 50", "1"),
		{"HTTL h FIELDS 1 a", ints(50), ""},
		values("HGETEX h PERSIST FIELDS 2 a c", "1", "3"),
		{"HTTL h FIELDS 2 a c", ints(-1, -1), ""},
		values("HGETEX h PXAT 1 FIELDS 2 a a", "1", "(nil)"),
		{"HEXISTS h a", ":0\r\n", ""},

		{"HGETEX h EX abc FIELDS 1 a", replyNotInteger, ""},
		{"HGETEX h EX -1 FIELDS 1 a", errReplyNegative, ""},
		{"HGETEX h EX 70368744177 FIELDS 1 a", replyExpire("hgetex"), ""},
		{"HGETEX h EX 10 FIELDS", replyArity("hgetex"), ""},
		{"HGETEX h EX 10 PERSIST", twoExpiries, ""},
		{"HGETEX h PERSIST FIELDS 1 a PX", twoExpiries, ""},
		{"HGETEX h PERSIST FIELDS 1", replyArity("hgetex"), ""},
		{"HGETEX h KEEPTTL FIELDS 1 a", "-ERR unknown argument: KEEPTTL\r\n", ""},
		{"HGETEX h FIELDS 1 a b", "-ERR unknown argument: b\r\n", ""},
		{"HGETEX h FIELDS 1 a FIELDS 1 b", "-ERR FIELDS keyword specified multiple times\r\n", ""},
		{"HGETEX h FIELDS 1 a EX", "-ERR missing expire time\r\n", ""},
		{"HGETEX h FIELDS 0 a", "-ERR invalid number of fields\r\n", ""},
		{"HGETEX h FIELDS 2 a", replyArity("hgetex"), ""},
		{"HGETEX h EX 10 PX", twoExpiries, ""},
		{"HGETEX h EX 10", replyArity("hgetex"), ""},
		{"HGETEX h FIELDS 1", replyArity("hgetex"), ""},

		values("HGETDEL none FIELDS 1 a", "(nil)"),
		values("HGETDEL h FIELDS 3 b b x", "2", "(nil)", "(nil)"),
		{"HEXISTS h b", ":0\r\n", ""},
		{"HGETDEL h FIELDS 1", replyArity("hgetdel"), ""},
		{"HGETDEL h a 1 a", errReplyFields, ""},
		{"HGETDEL h FIELDS 0 a", errReplyPositive, ""},
		{"HGETDEL h FIELDS 1 a b", errReplyMatch, ""},
		values("HGETDEL h FIELDS 2 empty c", "", "3"),
		{"EXISTS h", ":0\r\n", ""},
		{"SET s v", "+OK\r\n", ""},
		{"HGETEX s EX abc FIELDS 1 a", replyWrongType, ""},
		{"HGETEX s FIELDS 1 a", replyWrongType, ""},
		{"HGETDEL s x 1 a", replyWrongType, ""},
		{"HGETDEL s FIELDS 1 a", replyWrongType, ""},
	})
}

// putExpired writes a hash whose field "gone" has expired and whose field "late" has not. Unless all is set, the field
// "kept" has no expiry. The size is one too large, as after a compaction that has dropped an expired field.
func putExpired(t testing.TB, db *engine.DB, key string, all bool) {
	t.Helper()
	now := uint64(time.Now().UnixMilli())
	require.NoError(t, db.Update(cf.DefaultNamespace, bytesOf(key), func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte(key), cf.TypeHash)
		ttl := cf.HashTTL{Lower: now - 5000, Upper: 9999999999123}
		for field, expire := range map[string]uint64{"gone": now - 5000, "late": 9999999999123, "kept": 0} {
			if expire == 0 {
				if all {
					continue
				}
				ttl.Persist++
			}
			rec.Size++
			tx.Put(cf.Default, tx.Subkey(&rec, []byte(field)), cf.AppendHashValue(nil, expire, []byte("7")))
		}
		rec.Size++ // for the field that a compaction has dropped
		rec.SetFieldsEnd(ttl.FieldsEnd())
		tx.Save(&rec, cf.AppendHashTail(nil, ttl))
		return nil
	}))
}

// TestExpiredFieldIsNotThere runs every hash command on a hash with an expired field.
func TestExpiredFieldIsNotThere(t *testing.T) {
	db := enginetest.Open(t)
	pair := func(head string) string {
		return head + bulkReply("kept") + bulkReply("7") + bulkReply("late") + bulkReply("7")
	}
	for _, e := range []struct {
		exchange
		then, reply string // a command that checks the hash afterwards, and its reply
	}{
		{exchange{"HLEN h", ":2\r\n", ""}, "HLEN h", ":2\r\n"},
		{exchange{"HGET h gone", replyNull, "_\r\n"}, "", ""},
		{exchange{"HGET h late", bulkReply("7"), ""}, "", ""},
		{values("HMGET h gone late kept", "(nil)", "7", "7"), "", ""},
		{exchange{"HGETALL h", pair("*4\r\n"), pair("%2\r\n")}, "", ""},
		{values("HKEYS h", "kept", "late"), "", ""},
		{values("HVALS h", "7", "7"), "", ""},
		{exchange{"HSTRLEN h gone", ":0\r\n", ""}, "", ""},
		{exchange{"HSTRLEN h late", ":1\r\n", ""}, "", ""},
		{exchange{"HEXISTS h gone", ":0\r\n", ""}, "", ""},
		{exchange{"HEXISTS h late", ":1\r\n", ""}, "", ""},
		{exchange{"HDEL h gone x late", ":1\r\n", ""}, "HLEN h", ":1\r\n"},
		{exchange{"HSET h gone 1 late 2", ":1\r\n", ""}, "HTTL h FIELDS 2 gone late", ints(-1, -1)},
		{exchange{"HMSET h gone 1", "+OK\r\n", ""}, "HLEN h", ":3\r\n"},
		{exchange{"HSETNX h gone 1", ":1\r\n", ""}, "HTTL h FIELDS 1 gone", ints(-1)},
		{exchange{"HSETNX h late 1", ":0\r\n", ""}, "HPEXPIRETIME h FIELDS 1 late", ints(9999999999123)},
		{exchange{"HINCRBY h gone 1", ":1\r\n", ""}, "HTTL h FIELDS 1 gone", ints(-1)},
		{exchange{"HINCRBY h late 1", ":8\r\n", ""}, "HPEXPIRETIME h FIELDS 1 late", ints(9999999999123)},
		{exchange{"HINCRBYFLOAT h gone 1.5", bulkReply("1.5"), ""}, "HTTL h FIELDS 1 gone", ints(-1)},
		{exchange{"HINCRBYFLOAT h late 1.5", bulkReply("8.5"), ""}, "HPEXPIRETIME h FIELDS 1 late", ints(9999999999123)},
		{exchange{"HRANDFIELD h 10 WITHVALUES", pair("*4\r\n"), "*2\r\n*2\r\n" + bulkReply("kept") + bulkReply("7") +
			"*2\r\n" + bulkReply("late") + bulkReply("7")}, "", ""},
		{exchange{"HSCAN h 0", "*2\r\n" + bulkReply("0") + pair("*4\r\n"), ""}, "", ""},
		{exchange{"HSCAN h 0 NOVALUES", "*2\r\n" + bulkReply("0") + "*2\r\n" + bulkReply("kept") + bulkReply("late"),
			""}, "", ""},
		{exchange{"HSCAN h 0 MATCH gone", "*2\r\n" + bulkReply("0") + "*0\r\n", ""}, "", ""},
		{exchange{"HRANGEBYLEX h - +", pair("*4\r\n"), ""}, "", ""},
		{exchange{"HRANGEBYLEX h - + LIMIT 1 1", "*2\r\n" + bulkReply("late") + bulkReply("7"), ""}, "", ""},
		{exchange{"HTTL h FIELDS 1 gone", ints(-2), ""}, "", ""},
		{exchange{"HEXPIRE h 10 FIELDS 1 gone", ints(-2), ""}, "HLEN h", ":2\r\n"},
		{exchange{"HPERSIST h FIELDS 2 gone late", ints(-2, 1), ""}, "HLEN h", ":2\r\n"},
		{values("HGETEX h PERSIST FIELDS 2 gone late", "(nil)", "7"), "HTTL h FIELDS 2 gone late", ints(-2, -1)},
		{values("HGETDEL h FIELDS 2 gone late", "(nil)", "7"), "HLEN h", ":1\r\n"},
		{exchange{"HSETEX h FNX FIELDS 1 gone 1", ":1\r\n", ""}, "HTTL h FIELDS 1 gone", ints(-1)},
		{exchange{"HSETEX h FXX FIELDS 1 gone 1", ":0\r\n", ""}, "HLEN h", ":2\r\n"},
		{exchange{"HSETEX h KEEPTTL FIELDS 1 gone 1", ":1\r\n", ""}, "HTTL h FIELDS 1 gone", ints(-1)},
		{exchange{"COPY h copy", ":1\r\n", ""}, "HGETALL copy", pair("*4\r\n")},
		{exchange{"RENAME h copy", "+OK\r\n", ""}, "HPEXPIRETIME copy FIELDS 3 gone late kept", ints(-2, 9999999999123, -1)},
		{exchange{"EXPIREAT h 9999999999", ":1\r\n", ""}, "HPEXPIRETIME h FIELDS 3 gone late kept",
			ints(-2, 9999999999123, -1)},
		{exchange{"EXISTS h", ":1\r\n", ""}, "TYPE h", "+hash\r\n"},
	} {
		for _, proto := range []int{2, 3} {
			do(t, db, "DEL", "h", "copy")
			putExpired(t, db, "h", false)
			want := e.resp2
			if proto == 3 && e.resp3 != "" {
				want = e.resp3
			}
			if got := doProto(t, db, proto, strings.Split(e.line, " ")...); got != want {
				t.Errorf("RESP%d, %s: %q, want %q", proto, e.line, got, want)
			}
			if e.then == "" {
				continue
			}
			if got := do(t, db, strings.Split(e.then, " ")...); got != e.reply {
				t.Errorf("%s, then %s: %q, want %q", e.line, e.then, got, e.reply)
			}
		}
	}
}

// TestHashWithoutLiveFields: a hash does not exist any more when it loses its last live field, although an expired
// field is still stored.
func TestHashWithoutLiveFields(t *testing.T) {
	for _, line := range []string{"HDEL h late", "HGETDEL h FIELDS 1 late", "HEXPIRE h 0 FIELDS 1 late",
		"HSETEX h EX 0 FIELDS 1 late v", "HGETEX h EX 0 FIELDS 1 late"} {
		db := enginetest.Open(t)
		putExpired(t, db, "h", true)
		if got := do(t, db, "EXISTS", "h"); got != ":1\r\n" {
			t.Errorf("EXISTS: %q", got)
		}
		if got := do(t, db, strings.Split(line, " ")...); strings.HasPrefix(got, "-") {
			t.Errorf("%s: %q", line, got)
		}
		for _, then := range []string{"EXISTS h", "HLEN h", "DBSIZE"} {
			if got := do(t, db, strings.Split(then, " ")...); got != ":0\r\n" {
				t.Errorf("%s, then %s: %q", line, then, got)
			}
		}
		if got := do(t, db, "TYPE", "h"); got != "+none\r\n" {
			t.Errorf("%s, then TYPE h: %q", line, got)
		}
	}
}

// TestHscanOverExpired scans a hash most of whose fields have expired: the scan ends, and returns all live fields.
func TestHscanOverExpired(t *testing.T) {
	db := enginetest.Open(t)
	now := uint64(time.Now().UnixMilli())
	err := db.Update(cf.DefaultNamespace, bytesOf("h"), func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("h"), cf.TypeHash)
		ttl := cf.HashTTL{Persist: 10, Lower: now - 1000, Upper: now - 1000}
		for i := range 1000 {
			expire := now - 1000
			if i%100 == 0 {
				expire = 0
			}
			tx.Put(cf.Default, tx.Subkey(&rec, []byte(strconv.Itoa(1000+i))), cf.AppendHashValue(nil, expire, []byte("v")))
			rec.Size++
		}
		tx.Save(&rec, cf.AppendHashTail(nil, ttl))
		return nil
	})
	require.NoError(t, err)
	want := strings.Fields("1000 1100 1200 1300 1400 1500 1600 1700 1800 1900")
	if got := scanAll(t, db, "HSCAN h", "NOVALUES", "COUNT", "50"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// OBJECT ENCODING of a hash is Redis 7.4's, also after a field has got an expiry.
func TestEncodingOfExpiringHash(t *testing.T) {
	db := enginetest.Open(t)
	long := strings.Repeat("x", 64)
	for _, tt := range []struct{ commands, want string }{
		{"HSET k a " + long, "listpack"},
		{"HSET k a " + long + ";HEXPIRE k 100 FIELDS 1 a", "listpackex"},
		{"HSET k a " + long + ";HEXPIRE k 100 FIELDS 1 a;HPERSIST k FIELDS 1 a", "listpackex"},
		{"HSET k a " + long + "x;HEXPIRE k 100 FIELDS 1 a", "hashtable"},
		{"HSET k " + long + "x v;HEXPIRE k 100 FIELDS 1 " + long + "x", "hashtable"},
	} {
		do(t, db, "DEL", "k")
		for _, line := range strings.Split(tt.commands, ";") {
			do(t, db, strings.Fields(line)...)
		}
		if got := do(t, db, "OBJECT", "ENCODING", "k"); got != bulkReply(tt.want) {
			t.Errorf("%.60s: %q, want %s", tt.commands, got, tt.want)
		}
	}
}

// The facts of these commands that differ from command to command in Redis: the access of HGETDEL and HGETEX, the flag
// denyoom, and the tips.
func TestHashExpireCommandInfo(t *testing.T) {
	converse(t, []exchange{
		{"COMMAND GETKEYSANDFLAGS HGETDEL h FIELDS 1 a", "*1\r\n*2\r\n$1\r\nh\r\n*3\r\n+RW\r\n+access\r\n+delete\r\n",
			"*1\r\n*2\r\n$1\r\nh\r\n~3\r\n+RW\r\n+access\r\n+delete\r\n"},
		{"COMMAND GETKEYSANDFLAGS HGETEX h FIELDS 1 a", "*1\r\n*2\r\n$1\r\nh\r\n*3\r\n+RW\r\n+access\r\n+update\r\n",
			"*1\r\n*2\r\n$1\r\nh\r\n~3\r\n+RW\r\n+access\r\n+update\r\n"},
	})
	for name, want := range map[string]Flag{"hexpire": 0, "hpexpireat": 0, "hsetex": DenyOOM, "hset": DenyOOM} {
		if got := Lookup([]byte(name)).Flags & DenyOOM; got != want {
			t.Errorf("%s: denyoom %v, want %v", name, got != 0, want != 0)
		}
	}
	for _, name := range []string{"httl", "hpttl"} {
		if got := Lookup([]byte(name)).facts.tips; !slices.Equal(got, []string{"nondeterministic_output"}) {
			t.Errorf("the tips of %s are %q", name, got)
		}
	}
}
