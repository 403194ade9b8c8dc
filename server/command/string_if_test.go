package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

const (
	helloDigest   = "9555e8555c62dcfd"
	replyDigest   = "-ERR must be exactly 16 hexadecimal characters\r\n"
	replyNoString = "-ERR Key should be of string type if conditions are specified\r\n"
)

// TestSetConditions has the cases of Redis's tests/unit/type/string.tcl.
func TestSetConditions(t *testing.T) {
	wrong := strings.Repeat("0", 16)
	converse(t, []exchange{
		{"SET k v IFEQ x", replyNull, "_\r\n"},
		{"EXISTS k", ":0\r\n", ""},
		{"SET k v IFDEQ 1234567890", replyNull, "_\r\n"},
		{"SET k v IFEQ x GET", replyNull, "_\r\n"},
		{"EXISTS k", ":0\r\n", ""},
		{"SET k hello IFNE x", "+OK\r\n", ""},
		{"SET j hello IFDNE 1234567890 GET", replyNull, "_\r\n"},
		{"GET j", bulkReply("hello"), ""},
		{"SET k x IFNE hello", replyNull, "_\r\n"},
		{"SET k x IFNE hello GET", bulkReply("hello"), ""},
		{"SET k x ifeq hell", replyNull, "_\r\n"},
		{"SET k x IFEQ helloo GET", bulkReply("hello"), ""},
		{"SET k x IFDEQ " + wrong, replyNull, "_\r\n"},
		{"SET k x IFDNE " + helloDigest, replyNull, "_\r\n"},
		{"SET k x IFDNE " + strings.ToUpper(helloDigest) + " GET", bulkReply("hello"), ""},
		{"SET k x IFDEQ " + helloDigest[1:], replyDigest, ""},
		{"SET k x IFDNE 0" + helloDigest + " GET", replyDigest, ""},
		{"SET k x IFDEQ zzzzzzzzzzzzzzzz", replyNull, "_\r\n"},
		{"GET k", bulkReply("hello"), ""},
		{"SET k b GET IFEQ hello PXAT 9999999999123", bulkReply("hello"), ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"SET k hello IFNE c KEEPTTL", "+OK\r\n", ""},
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"SET k d IFDEQ " + strings.ToUpper(helloDigest), "+OK\r\n", ""},
		{"TTL k", ":-1\r\n", ""},
		{"SET k hello IFDNE " + helloDigest + " GET", bulkReply("d"), ""},
		{"SET k x IFEQ y IFEQ hello", "+OK\r\n", ""},
		{"SET k x IFEQ x EXAT 1", "+OK\r\n", ""},
		{"EXISTS k", ":0\r\n", ""},
		{`SET k x IFNE ""`, "+OK\r\n", ""},
		{`SET k "" IFNE ""`, "+OK\r\n", ""},
		{`SET k x IFEQ ""`, "+OK\r\n", ""},
		{"SET k y IFEQ", replySyntax, ""},
		{"SET k y IFEQ x NX", replySyntax, ""},
		{"SET k y XX IFEQ x", replySyntax, ""},
		{"SET k y IFEQ x IFNE x", replySyntax, ""},
		{"SET k y IFDEQ x IFEQ x", replySyntax, ""},
		{"SET k y IFGT x", replySyntax, ""},
		{"SET k y IFEQ x EX abc", replyNotInteger, ""},
		{"GET k", bulkReply("x"), ""},
		{"SET hash y IFEQ x", replyWrongType, ""},
		{"SET hash y IFNE x", replyWrongType, ""},
		{"SET hash y IFDNE x GET", replyWrongType, ""},
		{"SETBIT bits 1 1", ":0\r\n", ""},
		{"SET bits y IFEQ x GET", bulkReply("@"), ""},
		{"SET bits y IFEQ @ GET", bulkReply("@"), ""},
		{"GET bits", bulkReply("y"), ""},
	})
}

func TestDigest(t *testing.T) {
	converse(t, []exchange{
		{"DIGEST k", replyNull, "_\r\n"},
		{"SET k hello", "+OK\r\n", ""},
		{"DIGEST k", bulkReply(helloDigest), ""},
		{`SET k ""`, "+OK\r\n", ""},
		{"DIGEST k", bulkReply("2d06800538d394c2"), ""},
		{"SET k 123", "+OK\r\n", ""},
		{"DIGEST k", bulkReply("404a763b3f4c8c9a"), ""},
		{"SET k v8", "+OK\r\n", ""},
		{"DIGEST k", bulkReply("0cc76dbb41381419"), ""},
		{"DIGEST hash", replyWrongType, ""},
	})
	db := enginetest.Open(t)
	do(t, db, "SETBIT", "bits", "1", "1")
	do(t, db, "SET", "k", "@")
	if bits, k := do(t, db, "DIGEST", "bits"), do(t, db, "DIGEST", "k"); bits != k {
		t.Errorf("a bitmap has the digest %q, the same string %q", bits, k)
	}
}

// TestDelIfEq has the cases of Valkey's tests/unit/type/string.tcl.
func TestDelIfEq(t *testing.T) {
	converse(t, []exchange{
		{"DELIFEQ k v", ":0\r\n", ""},
		{"SET k hello", "+OK\r\n", ""},
		{"DELIFEQ k hell", ":0\r\n", ""},
		{"DELIFEQ k helloo", ":0\r\n", ""},
		{"DELIFEQ k HELLO", ":0\r\n", ""},
		{"GET k", bulkReply("hello"), ""},
		{"DELIFEQ k hello", ":1\r\n", ""},
		{"EXISTS k", ":0\r\n", ""},
		{`SET k ""`, "+OK\r\n", ""},
		{`DELIFEQ k ""`, ":1\r\n", ""},
		{"SETBIT bits 1 1", ":0\r\n", ""},
		{"DELIFEQ bits @", ":1\r\n", ""},
		{"DELIFEQ hash v", replyWrongType, ""},
		{"DELIFEQ k", "-ERR wrong number of arguments for 'delifeq' command\r\n", ""},
	})
}

func TestDelEx(t *testing.T) {
	arity := "-ERR wrong number of arguments for 'delex' command\r\n"
	invalid := "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE\r\n"
	wrong := strings.Repeat("0", 16)
	converse(t, []exchange{
		{"DELEX k", ":0\r\n", ""},
		{"DELEX k IFEQ v", ":0\r\n", ""},
		{"DELEX k IFNE v", ":0\r\n", ""},
		{"DELEX k IFDEQ v", ":0\r\n", ""},
		{"DELEX k IFDNE v", ":0\r\n", ""},
		{"DELEX k WHAT v", ":0\r\n", ""},
		{"DELEX k IFEQ", arity, ""},
		{"DELEX k IFEQ v x", arity, ""},
		{"SET k hello", "+OK\r\n", ""},
		{"DELEX k IFEQ x", ":0\r\n", ""},
		{"DELEX k ifne hello", ":0\r\n", ""},
		{"DELEX k IFDEQ " + wrong, ":0\r\n", ""},
		{"DELEX k IFDNE " + strings.ToUpper(helloDigest), ":0\r\n", ""},
		{"DELEX k IFDEQ abc", replyDigest, ""},
		{`DELEX k IFDNE ""`, replyDigest, ""},
		{"DELEX k IFDEQ zzzzzzzzzzzzzzzz", ":0\r\n", ""},
		{"DELEX k WHAT hello", invalid, ""},
		{"DELEX k IFEQUAL hello", invalid, ""},
		{"GET k", bulkReply("hello"), ""},
		{"DELEX k IfEq hello", ":1\r\n", ""},
		{"EXISTS k", ":0\r\n", ""},
		{"SET k hello", "+OK\r\n", ""},
		{"DELEX k IFNE x", ":1\r\n", ""},
		{"SET k hello", "+OK\r\n", ""},
		{"DELEX k IFDEQ " + helloDigest, ":1\r\n", ""},
		{"SET k hello", "+OK\r\n", ""},
		{"DELEX k IFDNE " + wrong, ":1\r\n", ""},
		{"SET k 0123", "+OK\r\n", ""},
		{"DELEX k IFEQ 123", ":0\r\n", ""},
		{"DELEX k", ":1\r\n", ""},
		{"DELEX hash IFEQ v", replyNoString, ""},
		{"DELEX hash IFDNE v", replyNoString, ""},
		{"DELEX hash WHAT v", replyNoString, ""},
		{"SETBIT bits 1 1", ":0\r\n", ""},
		{"DELEX bits IFEQ x", ":0\r\n", ""},
		{"DELEX bits IFEQ @", ":1\r\n", ""},
		{"EXISTS bits hash", ":1\r\n", ""},
		{"DELEX hash", ":1\r\n", ""},
		{"EXISTS hash", ":0\r\n", ""},
	})
}

func TestMSetEx(t *testing.T) {
	numkeys := "-ERR invalid numkeys value\r\n"
	pairs := "-ERR wrong number of key-value pairs\r\n"
	converse(t, []exchange{
		{"MSETEX 2 a", "-ERR wrong number of arguments for 'msetex' command\r\n", ""},
		{"MSETEX key1 val1 EX 10", numkeys, ""},
		{"MSETEX 0 a b", numkeys, ""},
		{"MSETEX -1 a b", numkeys, ""},
		{"MSETEX 2147483648 a b EX 10", numkeys, ""},
		{"MSETEX 2147483647 a b EX 10", pairs, ""},
		{"MSETEX 2 a b c", pairs, ""},
		{"MSETEX 1 a b WHAT", replySyntax, ""},
		{"MSETEX 1 a b EX", replySyntax, ""},
		{"MSETEX 1 a b NX XX", replySyntax, ""},
		{"MSETEX 1 a b XX NX", replySyntax, ""},
		{"MSETEX 1 a b EX 10 PX 10", replySyntax, ""},
		{"MSETEX 1 a b KEEPTTL EX 10", replySyntax, ""},
		{"MSETEX 1 a b EXAT 10 KEEPTTL", replySyntax, ""},
		{"MSETEX 1 a b IFEQ x", replySyntax, ""},
		{"MSETEX 1 a b EX abc", replyNotInteger, ""},
		{"MSETEX 1 a b PX 0", "-ERR invalid expire time in 'msetex' command\r\n", ""},
		{"EXISTS a", ":0\r\n", ""},
		{"MSETEX 2 a 1 b 2", ":1\r\n", ""},
		{"MGET a b", "*2\r\n" + bulkReply("1") + bulkReply("2"), ""},
		{"MSETEX 2 a 3 b 4 pxat 9999999999123", ":1\r\n", ""},
		{"PEXPIRETIME a", ":9999999999123\r\n", ""},
		{"PEXPIRETIME b", ":9999999999123\r\n", ""},
		{"MSETEX 3 a 5 c 6 a 7 KEEPTTL", ":1\r\n", ""},
		{"PEXPIRETIME a", ":9999999999123\r\n", ""},
		{"TTL c", ":-1\r\n", ""},
		{"MGET a c", "*2\r\n" + bulkReply("7") + bulkReply("6"), ""},
		{"MSETEX 2 a 8 d 9 NX", ":0\r\n", ""},
		{"MSETEX 2 a 8 d 9 EX 10 xx", ":0\r\n", ""},
		{"MGET a d", "*2\r\n" + bulkReply("7") + replyNull, "*2\r\n" + bulkReply("7") + "_\r\n"},
		{"MSETEX 2 a 8 c 9 XX EX 100", ":1\r\n", ""},
		{"TTL a", ":100\r\n", ""},
		{"MSETEX 2 d 1 e 2 PX 100400 NX", ":1\r\n", ""},
		{"TTL e", ":100\r\n", ""},
		{"MSETEX 2 d 1 new 2 EXAT 1", ":1\r\n", ""},
		{"EXISTS d new e", ":1\r\n", ""},
		{"MSETEX 1 hash v", ":1\r\n", ""},
		{"TYPE hash", "+string\r\n", ""},
		{"COMMAND GETKEYS MSETEX 2 a 1 b 2 NX", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", ""},
	})
}
