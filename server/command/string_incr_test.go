package command

import "testing"

// pair is a reply of INCREX without BYFLOAT.
func pair(value, applied string) string { return "*2\r\n:" + value + "\r\n:" + applied + "\r\n" }

// floats is an INCREX with BYFLOAT, and what it replies.
func floats(line, value, applied string) exchange {
	return exchange{line, "*2\r\n" + bulkReply(value) + bulkReply(applied),
		"*2\r\n," + value + "\r\n," + applied + "\r\n"}
}

// TestIncrEx has the cases of Redis's tests/unit/type/increx.tcl and of Valkey's tests/unit/type/incr.tcl.
func TestIncrEx(t *testing.T) {
	const big, small = "9223372036854775807", "-9223372036854775808"
	converse(t, []exchange{
		{"INCREX k", pair("1", "1"), ""},
		{"INCREX k BYINT 104", pair("105", "104"), ""},
		{"INCREX k BYINT -10", pair("95", "-10"), ""},
		{"INCREX k BYINT 0", pair("95", "0"), ""},
		{"GET k", bulkReply("95"), ""},

		// A sum that is out of bounds changes nothing.
		{"SET k 10", "+OK\r\n", ""},
		{"INCREX k BYINT 10 UBOUND 15 EX 100", pair("10", "0"), ""},
		{"INCREX k BYINT -10 LBOUND 5", pair("10", "0"), ""},
		{"INCREX k BYINT 5 LBOUND 20", pair("10", "0"), ""},
		{"INCREX k BYINT 5 LBOUND 10 UBOUND 10", pair("10", "0"), ""},
		{"TTL k", ":-1\r\n", ""},
		{"INCREX k BYINT 5 LBOUND 0 UBOUND 15", pair("15", "5"), ""},
		{"INCREX k LBOUND 15 BYINT -10 UBOUND 100 SATURATE", pair("15", "0"), ""},
		{"INCREX k BYINT 100 UBOUND 80 SATURATE EX 100", pair("80", "65"), ""},
		{"TTL k", ":100\r\n", ""},
		{"INCREX k BYINT -100 LBOUND 0 SATURATE", pair("0", "-80"), ""},
		{"SET k 50", "+OK\r\n", ""},
		{"INCREX k BYINT 5 UBOUND 30 SATURATE", pair("30", "-20"), ""},
		{"SET k -50", "+OK\r\n", ""},
		{"INCREX k BYINT -5 LBOUND -30 SATURATE", pair("-30", "20"), ""},
		{"SET k 50", "+OK\r\n", ""},
		{"INCREX k BYINT -25 UBOUND 30", pair("25", "-25"), ""},

		// The limits of integers are bounds too.
		{"SET k " + big[:18] + "0", "+OK\r\n", ""},
		{"INCREX k BYINT " + big, pair(big[:18]+"0", "0"), ""},
		{"INCREX k BYINT " + big + " UBOUND " + big, pair(big[:18]+"0", "0"), ""},
		{"INCREX k BYINT " + big + " SATURATE", pair(big, "7"), ""},
		{"INCREX k SATURATE UBOUND " + small, "-ERR applied increment would overflow\r\n", ""},
		{"INCREX k BYINT 10 UBOUND 100 SATURATE", pair("100", "-9223372036854775707"), ""},
		{"SET k " + small[:19] + "0", "+OK\r\n", ""},
		{"INCREX k BYINT -" + big + " LBOUND " + small, pair(small[:19]+"0", "0"), ""},
		{"INCREX k BYINT -" + big + " LBOUND " + small + " SATURATE", pair(small, "-8"), ""},

		// A missing key counts as 0.
		{"INCREX new BYINT 15 UBOUND 10", pair("0", "0"), ""},
		{"INCREX new UBOUND 0", pair("0", "0"), ""},
		{"EXISTS new", ":0\r\n", ""},
		{"INCREX new UBOUND 0 SATURATE", pair("0", "0"), ""},
		{"GET new", bulkReply("0"), ""},
		{"INCREX new2 LBOUND 5 SATURATE", pair("5", "5"), ""},

		floats("INCREX f BYFLOAT 1.5", "1.5", "1.5"),
		floats("INCREX f BYFLOAT 0.25 UBOUND 10.0 SATURATE", "1.75", "0.25"),
		floats("INCREX f BYFLOAT 1 LBOUND 0", "2.75", "1"),
		floats("INCREX f BYFLOAT -3 LBOUND 0", "2.75", "0"),
		floats("INCREX f BYFLOAT 100 UBOUND 42.5 SATURATE", "42.5", "39.75"),
		floats("INCREX f BYFLOAT 5.5 UBOUND 30", "42.5", "0"),
		floats("INCREX f BYFLOAT 5.5 UBOUND 30 SATURATE", "30", "-12.5"),
		floats("INCREX f BYFLOAT -100 LBOUND -5.5 SATURATE", "-5.5", "-35.5"),
		{"GET f", bulkReply("-5.5"), ""},
		floats("INCREX none BYFLOAT -0.5 UBOUND -1.5", "0", "0"),
		{"EXISTS none", ":0\r\n", ""},
		{"SET f 10", "+OK\r\n", ""},
		floats("INCREX f BYFLOAT 1e4931 UBOUND 100", "10", "0"),
		floats("INCREX f BYFLOAT 1e4931 UBOUND 100 SATURATE", "100", "90"),
		floats("INCREX f BYFLOAT -1e4931 LBOUND -100 SATURATE", "-100", "-200"),

		// Expiry.
		{"SET k 5 EX 1000", "+OK\r\n", ""},
		{"INCREX k", pair("6", "1"), ""},
		{"TTL k", ":1000\r\n", ""},
		{"INCREX k EX 10 ENX", pair("7", "1"), ""},
		{"TTL k", ":1000\r\n", ""},
		{"INCREX k EXAT 1 ENX", pair("8", "1"), ""},
		{"INCREX k PERSIST", pair("9", "1"), ""},
		{"TTL k", ":-1\r\n", ""},
		{"INCREX k ENX PX 100000", pair("10", "1"), ""},
		{"TTL k", ":100\r\n", ""},
		floats("INCREX k PXAT 9999999999123 BYFLOAT 1", "11", "1"),
		{"PEXPIRETIME k", ":9999999999123\r\n", ""},
		{"INCREX k EXAT 1", pair("12", "1"), ""},
		{"EXISTS k", ":0\r\n", ""},
		{"INCREX k EXAT 1", pair("1", "1"), ""},
		{"EXISTS k", ":0\r\n", ""},

		// Valkey's conditions.
		{"INCREX k XX", pair("0", "0"), ""},
		floats("INCREX k XX BYFLOAT 1.5", "0", "0"),
		{"EXISTS k", ":0\r\n", ""},
		{"INCREX k NX EX 100 BYINT 3", pair("3", "3"), ""},
		{"INCREX k NX EX 100 BYINT 3", pair("3", "0"), ""},
		{"INCREX k XX", pair("4", "1"), ""},
	})
}

func TestIncrExErrors(t *testing.T) {
	const (
		noExpiry  = "-ERR ENX flag requires an expiration\r\n"
		noTime    = "-ERR invalid expire time in 'increx' command\r\n"
		bounds    = "-ERR LBOUND can't be greater than UBOUND\r\n"
		notInt    = " is not an integer or out of range\r\n"
		notFloat  = " is not a valid float\r\n"
		increment = "-ERR Increment"
	)
	var rows []exchange
	for _, bad := range []string{"FOO", "BYINT 1 FOO", "BYINT", "BYINT 1 BYFLOAT 1.5", "BYFLOAT 1.5 BYINT 1",
		"BYINT 1 BYINT 2", "LBOUND 0 LBOUND 1", "UBOUND 9 UBOUND 8", "SATURATE SATURATE", "SAT LBOUND 0", "EX 10 PX 5000",
		"EX 10 EX 20", "PXAT 9999999999000 PXAT 9999999998000", "EX 10 PERSIST", "PERSIST EX 10", "PERSIST PERSIST",
		"PERSIST ENX", "ENX PERSIST", "ENX ENX EX 10", "NX XX", "NX NX", "EX"} {
		rows = append(rows, exchange{"INCREX k " + bad, replySyntax, ""})
	}
	converse(t, append(rows, []exchange{
		{"INCREX", "-ERR wrong number of arguments for 'increx' command\r\n", ""},
		{"INCREX k ENX", noExpiry, ""},
		{"INCREX k BYINT 1 ENX", noExpiry, ""},
		{"INCREX k BYINT abc", increment + notInt, ""},
		{"INCREX k BYINT 1.5", increment + notInt, ""},
		{"INCREX k BYFLOAT abc", increment + notFloat, ""},
		{"INCREX k BYFLOAT nan", increment + notFloat, ""},
		{"INCREX k BYFLOAT 1e99999", increment + notFloat, ""},
		{"INCREX k BYFLOAT -inf", "-ERR BYFLOAT increment cannot be Infinity\r\n", ""},
		{"INCREX k LBOUND 1.5", "-ERR LBOUND" + notInt, ""},
		{"INCREX k UBOUND abc BYFLOAT 1", "-ERR UBOUND" + notFloat, ""},
		{"INCREX k LBOUND 10 UBOUND 5", bounds, ""},
		{"INCREX k BYFLOAT 0.5 LBOUND 10.5 UBOUND 1.5", bounds, ""},
		{"INCREX k EX 0", noTime, ""},
		{"INCREX k PX -1", noTime, ""},
		{"INCREX k BYFLOAT 1 EX abc", replyNotInteger, ""},
		{"EXISTS k", ":0\r\n", ""},
		{"INCREX hash", replyWrongType, ""},
		{"INCREX hash BYFLOAT 1 EXAT 1", replyWrongType, ""},
		{"SET s abc", "+OK\r\n", ""},
		{"INCREX s EXAT 1", replyNotInteger, ""},
		{"INCREX s BYFLOAT 1", "-ERR value is not a valid float\r\n", ""},
		{"SET s inf", "+OK\r\n", ""},
		{"INCREX s BYFLOAT 1", "-ERR value cannot be Infinity\r\n", ""},
		{"GET s", bulkReply("inf"), ""},
		{"SETBIT bits 2 1", ":0\r\n", ""},
		{"SETBIT bits 3 1", ":0\r\n", ""},
		{"SETBIT bits 7 1", ":0\r\n", ""},
		{"INCREX bits", pair("2", "1"), ""},
	}...))
}
