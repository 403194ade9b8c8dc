package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestSortedIntCommands expects the replies of Kvrocks.
func TestSortedIntCommands(t *testing.T) {
	db := enginetest.Open(t)
	const greatest = "$20\r\n18446744073709551615\r\n"
	lines := [][2]string{
		{"SIADD s 5 1 10 5", ":3\r\n"},
		{"SIADD s 1 18446744073709551615", ":1\r\n"},
		{"SIADD s 0", ":1\r\n"},
		{"TYPE s", "+sortedint\r\n"},
		{"OBJECT ENCODING s", "$6\r\nintset\r\n"},
		{"SICARD s", ":5\r\n"},
		{"SICARD none", ":0\r\n"},
		{"SIEXISTS s 1 2 18446744073709551615", "*3\r\n:1\r\n:0\r\n:1\r\n"},
		{"SIEXISTS none 1 2", "*2\r\n:0\r\n:0\r\n"},
		{"SIRANGE s 0 0", "*5\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n5\r\n$2\r\n10\r\n" + greatest},
		{"SIRANGE s 1 2", "*2\r\n$1\r\n1\r\n$1\r\n5\r\n"},
		{"SIRANGE s 0 2 cursor 1", "*2\r\n$1\r\n5\r\n$2\r\n10\r\n"},
		{"SIRANGE s 1 2 CURSOR 2", "*2\r\n$2\r\n10\r\n" + greatest},
		{"SIRANGE s 0 1 CURSOR 0", "*1\r\n$1\r\n1\r\n"},
		{"SIRANGE s 0 1 CURSOR 18446744073709551615", "*0\r\n"},
		{"SIRANGE s 9 1", "*0\r\n"},
		{"SIRANGE none 0 10", "*0\r\n"},
		{"SIREVRANGE s 0 2", "*2\r\n" + greatest + "$2\r\n10\r\n"},
		{"SIREVRANGE s 1 2 CURSOR 10", "*2\r\n$1\r\n1\r\n$1\r\n0\r\n"},
		{"SIREVRANGE s 0 1 CURSOR 0", "*1\r\n" + greatest},
		{"SIREVRANGE s 0 9 CURSOR 1", "*1\r\n$1\r\n0\r\n"},
		{"SIRANGEBYVALUE s 1 10", "*3\r\n$1\r\n1\r\n$1\r\n5\r\n$2\r\n10\r\n"},
		{"SIRANGEBYVALUE s (1 (10", "*1\r\n$1\r\n5\r\n"},
		{"SIRANGEBYVALUE s -inf 1", "*2\r\n$1\r\n0\r\n$1\r\n1\r\n"},
		{"SIRANGEBYVALUE s 6 +inf", "*2\r\n$2\r\n10\r\n" + greatest},
		{"SIRANGEBYVALUE s 6 (18446744073709551615", "*1\r\n$2\r\n10\r\n"},
		{"SIRANGEBYVALUE s (18446744073709551615 +inf", "*0\r\n"},
		{"SIRANGEBYVALUE s -inf (0", "*0\r\n"},
		{"SIRANGEBYVALUE s 10 1", "*0\r\n"},
		{"SIRANGEBYVALUE s -inf +inf LIMIT 1 2", "*2\r\n$1\r\n1\r\n$1\r\n5\r\n"},
		{"SIRANGEBYVALUE s 5 10 limit -1 0", "*2\r\n$1\r\n5\r\n$2\r\n10\r\n"},
		{"SIREVRANGEBYVALUE s +inf (5 LIMIT 0 1", "*1\r\n" + greatest},
		{"SIREVRANGEBYVALUE s 10 1", "*3\r\n$2\r\n10\r\n$1\r\n5\r\n$1\r\n1\r\n"},
		{"SIREVRANGEBYVALUE s 1 10", "*0\r\n"},
		{"SIRANGEBYVALUE none -inf +inf", "*0\r\n"},

		{"SIADD s x", badInt}, {"SIADD s -1", badInt}, {"SIADD s 18446744073709551616", badInt}, {"SIADD s 1 x", badInt},
		{"SIREM s x", badInt}, {"SIEXISTS s x", badInt},
		{"SIADD s", "-ERR wrong number of arguments for 'siadd' command\r\n"},
		{"SIRANGE s x 1", badInt}, {"SIRANGE s 1 x", badInt}, {"SIRANGE s -1 1", badInt}, {"SIRANGE s 0 1 CURSOR x", badInt},
		{"SIRANGE s 0 1 CURSE 1", badSyntax}, {"SIRANGE s 0 1 CURSOR", badSyntax}, {"SIRANGE s 0 1 CURSOR 1 2", badSyntax},
		{"SIRANGEBYVALUE s +inf 1", "-ERR min > max\r\n"}, {"SIRANGEBYVALUE s 1 -inf", "-ERR min > max\r\n"},
		{"SIRANGEBYVALUE s x 1", "-ERR the min isn't integer\r\n"}, {"SIRANGEBYVALUE s 1 x",
			"-ERR the max isn't integer\r\n"},
		{"SIRANGEBYVALUE s ( 1", "-ERR the min isn't integer\r\n"}, {"SIREVRANGEBYVALUE s (+inf 1",
			"-ERR the max isn't integer\r\n"},
		{"SIRANGEBYVALUE s 1 2 LIMIT 1", badSyntax}, {"SIRANGEBYVALUE s 1 2 LIMITS 1 1",
			badSyntax}, {"SIRANGEBYVALUE s 1 2 LIMIT x 1", badInt}, {"SIRANGEBYVALUE s 1 2 LIMIT 1 2147483648", badInt},

		{"SET str 5", "+OK\r\n"},
		{"SIADD str 1", wrongType + "\r\n"}, {"SIREM str 1", wrongType + "\r\n"}, {"SICARD str", wrongType +
			"\r\n"}, {"SIEXISTS str 1", wrongType + "\r\n"}, {"SIRANGE str 0 1", wrongType + "\r\n"},
		{"SIRANGEBYVALUE str 0 1", wrongType + "\r\n"},
		{"GET s", wrongType + "\r\n"}, {"SADD s a", wrongType + "\r\n"},

		{"COPY s s2", ":1\r\n"},
		{"SIREM s 5 5 7 0", ":2\r\n"},
		{"SICARD s", ":3\r\n"},
		{"SIREM s 1 10 18446744073709551615", ":3\r\n"},
		{"EXISTS s", ":0\r\n"},
		{"SIREM s 1", ":0\r\n"},
		{"SIADD s 7", ":1\r\n"},
		{"SIRANGE s 0 0", "*1\r\n$1\r\n7\r\n"},
		{"RENAME s2 s", "+OK\r\n"},
		{"SICARD s", ":5\r\n"},
		{"EXPIREAT s 1", ":1\r\n"},
		{"SICARD s", ":0\r\n"},
	}
	script(t, db, lines)
	for _, l := range [][2]string{{"SIADD t 1 2", ":2\r\n"}, {"SIEXISTS t 1 3", "*2\r\n:1\r\n:0\r\n"},
		{"SIRANGE t 0 1", "*1\r\n$1\r\n1\r\n"}} {
		if got := do3(t, db, strings.Fields(l[0])...); got != l[1] {
			t.Errorf("RESP3 %s: %q, want %q", l[0], got, l[1])
		}
	}
}
