package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

func TestHyperLogLogCommands(t *testing.T) {
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	const noHLL = "-WRONGTYPE Key is not a valid HyperLogLog string value."
	runZSetCases(t, []zsetCase{
		{"PFADD h a b c d e f g", ":1", ""},
		{"PFADD h a", ":0", ""},
		{"PFADD h", ":0", ""},
		{"PFADD empty", ":1", ""},
		{"PFADD empty", ":0", ""},
		{"PFCOUNT h", ":7", ""},
		{"PFCOUNT h empty missing", ":7", ""},
		{"PFCOUNT missing", ":0", ""},
		{"PFADD other f g h i", ":1", ""},
		{"PFCOUNT h other", ":9", ""},
		{"PFMERGE all h other missing", "+OK", ""},
		{"PFCOUNT all", ":9", ""},
		{"PFMERGE made", "+OK", ""},
		{"EXISTS made", ":1", ""},
		{"TYPE h", "+hyperloglog", ""},
		{"OBJECT ENCODING h", "$3 raw", ""},
		{"COPY h copy", ":1", ""},
		{"PFADD copy new", ":1", ""},
		{"PFCOUNT copy", ":8", ""},
		{"PFCOUNT h", ":7", ""},
		{"RENAME copy moved", "+OK", ""},
		{"PFCOUNT moved copy", ":8", ""},
		{"DEL moved", ":1", ""},
		{"PFCOUNT moved", ":0", ""},
		{"PFADD moved x", ":1", ""},
		{"PFCOUNT moved", ":1", ""},
		{"SCAN 0 TYPE hyperloglog MATCH mo*", "*2 $1 0 *1 $5 moved", ""},
		{"SET s v", "+OK", ""},
		{"SADD set a", ":1", ""},
		{"PFADD s a", noHLL, ""},
		{"PFCOUNT h s", noHLL, ""},
		{"PFMERGE h s", noHLL, ""},
		{"PFADD set a", wrongType, ""},
		{"PFCOUNT set", wrongType, ""},
		{"PFMERGE set h", wrongType, ""},
		{"LPUSH h a", wrongType, ""},
		{"SADD h a", wrongType, ""},
		{"PFDEBUG ENCODING h", "+dense", ""},
		{"PFDEBUG TODENSE h", ":0", ""},
		{"PFDEBUG DECODE h", "-ERR HLL encoding is not sparse", ""},
		{"PFDEBUG WHAT h", "-ERR Unknown PFDEBUG subcommand 'WHAT'", ""},
		{"PFDEBUG GETREG missing", "-ERR The specified key does not exist", ""},
		{"PFDEBUG GETREG s", noHLL, ""},
		{"PFSELFTEST", "+OK", ""},
		{"PFADD", "-ERR wrong number of arguments for 'pfadd' command", ""},
		{"PFCOUNT", "-ERR wrong number of arguments for 'pfcount' command", ""},
		{"PFMERGE", "-ERR wrong number of arguments for 'pfmerge' command", ""},
	})
}

func TestPFDebugGetReg(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "PFADD", "h", "hello")
	got := do(t, db, "PFDEBUG", "GETREG", "h")
	if !strings.HasPrefix(got, "*16384\r\n:0\r\n") || strings.Count(got, ":0\r\n") != 16383 {
		t.Errorf("%.100q", got)
	}
}

// A HyperLogLog is a string in Redis. String commands see this string, and a string command that changes it makes the
// key a string. A string with a valid HyperLogLog is accepted by the PF commands, so that GET and SET can copy a
// HyperLogLog from Redis and back.
func TestStringCommandsOnHyperLogLog(t *testing.T) {
	db := enginetest.Open(t)
	do := func(args ...string) string { return doProto(t, db, 2, args...) }
	do("PFADD", "h", "a", "b", "c")
	do("EXPIREAT", "h", "9999999999")
	if n := do("STRLEN", "h"); n != ":12304\r\n" {
		t.Errorf("STRLEN: %q", n)
	}
	if part := do("GETRANGE", "h", "0", "3"); part != "$4\r\nHYLL\r\n" {
		t.Errorf("GETRANGE: %q", part)
	}
	_, image, _ := strings.Cut(do("GET", "h"), "\r\n")
	image = strings.TrimSuffix(image, "\r\n")
	if kind := do("TYPE", "h"); kind != "+hyperloglog\r\n" {
		t.Errorf("TYPE after GET: %q", kind)
	}
	for _, tt := range []struct{ key, change, value, kind, count, ttl string }{
		{"same", "0", image[:1], "+string\r\n", ":3\r\n", ":-1\r\n"},
		{"magic", "0", "0123", "+string\r\n", "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n", ":-1\r\n"},
		{"encoding", "4", "x", "+string\r\n", "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n", ":-1\r\n"},
		{"sparse", "4", "\x01", "+string\r\n", "-INVALIDOBJ Corrupted HLL object detected\r\n", ":-1\r\n"},
		{"h", "0", "H", "+string\r\n", ":3\r\n", ":9999999999\r\n"},
	} {
		if tt.key != "h" {
			do("COPY", "h", tt.key)
			do("PERSIST", tt.key)
		}
		if n := do("SETRANGE", tt.key, tt.change, tt.value); n != ":12304\r\n" {
			t.Errorf("%s: SETRANGE: %q", tt.key, n)
		}
		if kind := do("TYPE", tt.key); kind != tt.kind {
			t.Errorf("%s: TYPE %q", tt.key, kind)
		}
		if count := do("PFCOUNT", tt.key); count != tt.count {
			t.Errorf("%s: PFCOUNT %q, want %q", tt.key, count, tt.count)
		}
		if ttl := do("EXPIRETIME", tt.key); ttl != tt.ttl {
			t.Errorf("%s: TTL %q", tt.key, ttl)
		}
	}
	// A string that GET of another server has returned.
	do("SET", "from", image, "EXAT", "9999999998")
	do("PFADD", "other", "c", "d")
	for _, tt := range []struct{ command, want string }{
		{"PFCOUNT from", ":3\r\n"}, {"PFCOUNT from other", ":4\r\n"}, {"TYPE from", "+string\r\n"},
		{"PFADD from a", ":0\r\n"}, {"PFADD from d", ":1\r\n"}, {"TYPE from", "+hyperloglog\r\n"}, {"PFCOUNT from", ":4\r\n"},
		{"EXPIRETIME from", ":9999999998\r\n"}, {"PFMERGE h other", "+OK\r\n"}, {"PFCOUNT h", ":4\r\n"}, {"TYPE h",
			"+hyperloglog\r\n"},
		{"EXPIRETIME h", ":9999999999\r\n"}, {"SET h v GET", ""}, {"GET h", "$1\r\nv\r\n"},
	} {
		want := tt.want
		if tt.command == "SET h v GET" {
			want = do("GET", "h")
		}
		if have := do(strings.Fields(tt.command)...); have != want {
			t.Errorf("%s: %.60q, want %.60q", tt.command, have, want)
		}
	}
}
