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
