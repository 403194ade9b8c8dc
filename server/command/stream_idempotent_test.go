package command

import (
	"strings"
	"testing"
)

// The cases are those of Redis's own tests. The first entry is of the future, so that the next ids are known.

// TestAddOnce: XADD with IDMP and IDMPAUTO, and what XINFO STREAM shows.
func TestAddOnce(t *testing.T) {
	const (
		twice   = "-ERR IDMP/IDMPAUTO specified multiple times"
		autoID  = "-ERR IDMP/IDMPAUTO can be used only with auto-generated IDs"
		first   = "9999999999999-0"
		fields  = "length :1 radix-tree-keys :1 radix-tree-nodes :2 last-generated-id " + first
		counted = " max-deleted-entry-id 0-0 entries-added :1 recorded-first-entry-id " + first
		edge    = "*2 " + first + " *2 f v"
		unused  = "%10 " + fields + counted + " groups :0 first-entry " + edge + " last-entry " + edge
	)
	about := func(length, duration, maxSize, producers, iids, added, duplicates string) string {
		return "%16 length :" + length + " radix-tree-keys :? radix-tree-nodes :? last-generated-id ? " +
			"max-deleted-entry-id 0-0 entries-added :" + length + " recorded-first-entry-id " + first +
			" idmp-duration :" + duration + " idmp-maxsize :" + maxSize + " pids-tracked :" + producers +
			" iids-tracked :" + iids + " iids-added :" + added + " iids-duplicates :" + duplicates +
			" groups :? first-entry *2 ? *2 ? ? last-entry *2 ? *2 ? ?"
	}
	n := func(seq string) string { return "9999999999999-" + seq }
	long := strings.Repeat("x", 65536)
	runStreamCases(t, []streamCase{
		{"XADD m IDMP p1 * f v", invalidID},
		{"XADD m IDMP p1", "-ERR wrong number of arguments for 'xadd' command"},
		{"XADD m IDMP p1 i1 1-1 f v", autoID},
		{"XADD m IDMP p1 i1 1-* f v", autoID},
		{"XADD m IDMPAUTO p1 1-1 f v", autoID},
		{"XADD m IDMP p1 i1 IDMP p2 i2 * f v", twice},
		{"XADD m IDMP p1 i1 IDMPAUTO p2 * f v", twice},
		{"XADD m IDMPAUTO p1 IDMP p2 i2 * f v", twice},
		{"XADD m IDMPAUTO p1 IDMPAUTO p2 * f v", twice},
		{`XADD m IDMP "" i1 * f v`, "-ERR IDMP requires a non-empty producer ID"},
		{`XADD m IDMP p1 "" * f v`, "-ERR IDMP requires a non-empty idempotent ID"},
		{`XADD m IDMPAUTO "" * f v`, "-ERR IDMPAUTO requires a non-empty producer ID"},
		{"XADD m NOMKSTREAM IDMP p1 i1 * f v", "_"},
		{"XTRIM m IDMP p1 i1", "-ERR syntax error"},
		{"XADD m " + first + " f v", first},
		{"XINFO STREAM m", unused},

		// the id of the first entry, whatever the second one has
		{"XADD m IDMP p1 a * f v1", n("1")},
		{"XADD m IDMP p1 a * g v2 h v3", n("1")},
		{"XADD m idmp p1 a MAXLEN 0 * f v", n("1")},
		{"XRANGE m (" + first + " +", "*1 *2 " + n("1") + " *2 f v1"},
		{"XADD m IDMP p1 b * f v", n("2")},
		{"XADD m IDMP p2 a * f v", n("3")},
		{"XADD m IDMP p2 a * f w", n("3")},
		{"XINFO STREAM m", about("4", "100", "100", "2", "3", "3", "3")},

		// ids that look like options, and long ones
		{"XADD m IDMP p1 * * f v", n("4")},
		{"XADD m IDMP p1 IDMP * f v", n("5")},
		{"XADD m IDMP IDMP IDMPAUTO * f v", n("6")},
		{"XADD m IDMP p1 " + long + " * f v", n("7")},
		{"XADD m IDMP p1 " + long + " * f v", n("7")},
		{"XADD m IDMP p1 " + long + "y * f v", n("8")},

		// other options
		{"XADD m IDMP p1 c KEEPREF MAXLEN ~ 1000 LIMIT 10 * f v", n("9")},
		{"XADD m NOMKSTREAM KEEPREF MINID ~ 0 IDMP p1 c * f w", n("9")},
		{"XADD m NOMKSTREAM MAXLEN ~ 100 IDMP p1 d * f v", n("10")},

		// IDMPAUTO: the fields and values, in any order
		{"XADD m IDMPAUTO auto * f v g w", n("11")},
		{"XADD m IDMPAUTO auto KEEPREF * g w f v", n("11")},
		{"XADD m IDMPAUTO auto MAXLEN ~ 100 * f v g x", n("12")},
		{"XADD m IDMPAUTO auto * f v", n("13")},
		{`XADD m IDMPAUTO auto * f ""`, n("14")},
		{`XADD m IDMPAUTO auto * f ""`, n("14")},
		{"XADD m IDMPAUTO p1 * f v", n("15")},
		{"XINFO STREAM m", about("16", "100", "100", "4", "15", "15", "7")},

		// deleted entries count, and groups do not matter
		{"XGROUP CREATE m g 0", "+OK"},
		{"XDEL m " + n("1"), ":1"},
		{"XADD m IDMP p1 a * f v", n("1")},
		{"XTRIM m MAXLEN 1", ":14"},
		{"XADD m IDMP p1 b * f v", n("2")},
		{"XLEN m", ":1"},

		// copies have their own iids, a new stream has none
		{"COPY m n", ":1"},
		{"XADD n IDMP p1 new * f v", n("16")},
		{"XADD m IDMP p1 new * f v", n("16")},
		{"XADD n IDMP p1 b * f v", n("2")},
		{"RENAME n o", "+OK"},
		{"XADD o IDMP p1 b * f v", n("2")},
		{"DEL m", ":1"},
		{"XADD m " + first + " f v", first},
		{"XADD m IDMP p1 a * f v", n("1")},
	})
}

// TestCfgSet: XCFGSET.
func TestCfgSet(t *testing.T) {
	const (
		first    = "9999999999999-0"
		duration = "-ERR IDMP-DURATION must be between 1 and 86400 seconds"
		size     = "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries"
	)
	about := func(duration, maxSize, producers, iids, added, duplicates string) string {
		return "%15 length :? radix-tree-keys :? radix-tree-nodes :? last-generated-id ? max-deleted-entry-id ? " +
			"entries-added :? recorded-first-entry-id ? idmp-duration :" + duration + " idmp-maxsize :" + maxSize +
			" pids-tracked :" + producers + " iids-tracked :" + iids + " iids-added :" + added + " iids-duplicates :" +
			duplicates + " entries *1 *2 ? *2 f v groups *0"
	}
	n := func(seq string) string { return "9999999999999-" + seq }
	cases := []streamCase{
		{"XCFGSET m IDMP-DURATION 5", "-ERR no such key"},
		{"SET s v", "+OK"},
		{"XCFGSET s IDMP-DURATION 5", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"XADD m " + first + " f v", first},
		{"XCFGSET m", "-ERR At least one parameter must be specified"},
		{"XCFGSET m IDMP-DURATION", "-ERR syntax error"},
		{"XCFGSET m IDMP-MAXSIZE", "-ERR syntax error"},
		{"XCFGSET m IDMP-MAXSIZE 5 IDMP-DURATION", "-ERR syntax error"},
		{"XCFGSET m INVALID", "-ERR syntax error"},
		{"XCFGSET m IDMP-DURATION 0", duration},
		{"XCFGSET m IDMP-DURATION -100", duration},
		{"XCFGSET m IDMP-DURATION 86401", duration},
		{"XCFGSET m IDMP-MAXSIZE 0", size},
		{"XCFGSET m IDMP-MAXSIZE -50", size},
		{"XCFGSET m IDMP-MAXSIZE 10001", size},
		{"XCFGSET m IDMP-DURATION 5 IDMP-MAXSIZE 0", size},
		{"XCFGSET m idmp-duration 86400 IDMP-MAXSIZE 10000", "+OK"},
		{"XINFO STREAM m FULL COUNT 1", about("86400", "10000", "0", "0", "0", "0")},
		{"XCFGSET m IDMP-MAXSIZE 1 IDMP-DURATION 1 IDMP-MAXSIZE 3", "+OK"},
		{"XCFGSET m IDMP-DURATION 60", "+OK"},

		// as many as are remembered, of each producer
		{"XADD m IDMP p1 1 * f v", n("1")},
		{"XADD m IDMP p1 2 * f v", n("2")},
		{"XADD m IDMP p1 3 * f v", n("3")},
		{"XADD m IDMP p2 1 * f v", n("4")},
		{"XADD m IDMP p1 1 * f v", n("1")},
		{"XADD m IDMP p1 4 * f v", n("5")},
		{"XADD m IDMP p1 1 * f v", n("6")},
		{"XADD m IDMP p1 3 * f v", n("3")},
		{"XADD m IDMP p1 2 * f v", n("7")},
		{"XADD m IDMP p2 1 * f v", n("4")},
		{"XINFO STREAM m FULL COUNT 1", about("60", "3", "2", "4", "7", "3")},

		// the same settings change nothing, others make the stream forget
		{"XCFGSET m IDMP-DURATION 60 IDMP-MAXSIZE 3", "+OK"},
		{"XADD m IDMP p2 1 * f v", n("4")},
		{"XCFGSET m IDMP-DURATION 61", "+OK"},
		{"XINFO STREAM m FULL COUNT 1", about("61", "3", "0", "0", "7", "4")},
		{"XADD m IDMP p2 1 * f v", n("8")},
		{"XADD m IDMP p2 1 * f v", n("8")},
		{"XCFGSET m IDMP-MAXSIZE 5", "+OK"},
		{"XADD m IDMP p2 1 * f v", n("9")},
		{"XADD m IDMP p2 1 * f v", n("9")},
		{"XINFO STREAM m FULL COUNT 1", about("61", "5", "1", "1", "9", "6")},
	}
	for _, bad := range []string{"A", "AAA", "*", "-", "+", "120-5", "3.14", "000000000", "IDMP-DURATION",
		"IDMP-DURATION IDMP-DURATION", "INVALID IDMP-MAXSIZE"} {
		cases = append(cases, streamCase{"XCFGSET m IDMP-DURATION " + bad, notInteger},
			streamCase{"XCFGSET m IDMP-MAXSIZE " + bad, notInteger})
	}
	runStreamCases(t, cases)
}
