package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestLMoveM has the cases of Redis's tests/unit/type/list-4.tcl, and what its implementation replies besides.
func TestLMoveM(t *testing.T) {
	const count, nullArray = "-ERR count should be greater than 0\r\n", "*-1\r\n"
	converse(t, []exchange{
		{"RPUSH s a b c", ":3\r\n", ""},
		{"LMOVEM s d left right", arrayReply("a"), ""},
		{"LRANGE s 0 -1", arrayReply("b c"), ""},
		{"LMOVEM s d LEFT RIGHT COUNT 100 BULK", arrayReply("b c"), ""},
		{"EXISTS s", ":0\r\n", ""},
		{"LRANGE d 0 -1", arrayReply("a b c"), ""},
		{"LMOVEM d s RIGHT LEFT EXACTLY 3 obo", arrayReply("a b c"), ""},
		{"LMOVEM s d LEFT RIGHT exactly 4 bulk", nullArray, "_\r\n"},
		{"LRANGE s 0 -1", arrayReply("a b c"), ""},
		{"EXISTS d", ":0\r\n", ""},
		{"LMOVEM none d LEFT RIGHT", nullArray, "_\r\n"},
		{"LMOVEM none d LEFT RIGHT COUNT 5 BULK", nullArray, "_\r\n"},
		{"LMOVEM none none LEFT RIGHT EXACTLY 5 OBO", nullArray, "_\r\n"},
		{"EXISTS d none", ":0\r\n", ""},

		{"LMOVEM s d LEFT RIGHT COUNT 0 BULK", count, ""},
		{"LMOVEM s d LEFT RIGHT EXACTLY 0 BULK", count, ""},
		{"LMOVEM s d LEFT RIGHT COUNT -1 BULK", count, ""},
		{"LMOVEM s d LEFT RIGHT COUNT a BULK", count, ""},
		{"LMOVEM s d LEFT RIGHT EXACTLY 9223372036854775808 BULK", count, ""},
		{"LMOVEM s d LEFT RIGHT EXACTLY 9223372036854775807 BULK", nullArray, "_\r\n"},
		{"LMOVEM s d LEFT", "-ERR wrong number of arguments for 'lmovem' command\r\n", ""},
		{"LMOVEM s d LEFT RIGHT COUNT", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT COUNT 2", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT OBO", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT COUNT 2 OBO extra", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT COUNT 2 EXACTLY 2 OBO", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT OBO COUNT 2", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT bad 2 OBO", replySyntax, ""},
		{"LMOVEM s d LEFT RIGHT COUNT 2 bad", replySyntax, ""},
		{"LMOVEM s d bad RIGHT COUNT 2 OBO", replySyntax, ""},
		{"LMOVEM s d LEFT bad COUNT 2 OBO", replySyntax, ""},
		{"LMOVEM none d LEFT bad", replySyntax, ""},

		{"LMOVEM hash d LEFT RIGHT", replyWrongType, ""},
		{"LMOVEM hash none LEFT RIGHT EXACTLY 9 BULK", replyWrongType, ""},
		{"LMOVEM s hash LEFT RIGHT COUNT 2 BULK", replyWrongType, ""},
		{"LMOVEM s hash LEFT RIGHT COUNT 1 BULK", replyWrongType, ""},
		{"LMOVEM s hash LEFT RIGHT EXACTLY 9 BULK", nullArray, "_\r\n"}, // the number comes first
		{"LMOVEM none hash LEFT RIGHT", nullArray, "_\r\n"},
		{"LRANGE s 0 -1", arrayReply("a b c"), ""},

		{"PEXPIREAT s 9999999999123", ":1\r\n", ""},
		{"LMOVEM s s LEFT LEFT COUNT 9 OBO", arrayReply("c b a"), ""},
		{"PEXPIRETIME s", ":9999999999123\r\n", ""},
		{"BLMOVEM s d LEFT RIGHT 0 COUNT 2 BULK", arrayReply("c b"), ""},
		{"PEXPIRETIME s", ":9999999999123\r\n", ""},
		{"PEXPIRETIME d", ":-1\r\n", ""},
	})
}

// TestLMoveMOrder moves elements between all ends.
func TestLMoveMOrder(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct{ how, moved, dst, src, all string }{
		// Two elements of a b c d: the reply, x y after it, a b c d itself when the two are moved to it, and when all are.
		{"LEFT LEFT OBO", "b a", "b a x y", "b a c d", "d c b a"},
		{"LEFT LEFT BULK", "a b", "a b x y", "a b c d", "a b c d"},
		{"LEFT RIGHT OBO", "a b", "x y a b", "c d a b", "a b c d"},
		{"LEFT RIGHT BULK", "a b", "x y a b", "c d a b", "a b c d"},
		{"RIGHT LEFT OBO", "c d", "c d x y", "c d a b", "a b c d"},
		{"RIGHT LEFT BULK", "c d", "c d x y", "c d a b", "a b c d"},
		{"RIGHT RIGHT OBO", "d c", "x y d c", "a b d c", "d c b a"},
		{"RIGHT RIGHT BULK", "c d", "x y c d", "a b c d", "a b c d"},
	} {
		how := strings.Fields(tt.how)
		for _, call := range []struct{ to, count, reply, left string }{
			{"dst", "2", tt.moved, tt.dst}, {"src", "2", tt.moved, tt.src}, {"src", "4", tt.all, tt.all},
		} {
			do(t, db, "DEL", "src", "dst")
			do(t, db, "RPUSH", "src", "a", "b", "c", "d")
			do(t, db, "RPUSH", "dst", "x", "y")
			got := do(t, db, "LMOVEM", "src", call.to, how[0], how[1], "EXACTLY", call.count, how[2])
			left := do(t, db, "LRANGE", call.to, "0", "-1")
			if got != arrayReply(call.reply) || left != arrayReply(call.left) {
				t.Errorf("LMOVEM src %s %s, %s elements: %q, which left %q", call.to, tt.how, call.count, got, left)
			}
		}
	}
}
