package command

import "testing"

// The cases are those of Redis's own tests, and of its documentation.

const noSuchGroup = "-NOGROUP No such key 'm' or consumer group 'x'"

// TestReadGroupClaim: XREADGROUP with CLAIM.
func TestReadGroupClaim(t *testing.T) {
	const negative, noInteger = "-ERR min-idle-time must be a positive integer",
		"-ERR min-idle-time is not an integer or out of range"
	runStreamCases(t, []streamCase{
		{"XADD m 1-0 f v1", "1-0"},
		{"XADD m 2-0 f v2", "2-0"},
		{"XGROUP CREATE m g 0", "+OK"},
		{"XREADGROUP GROUP g a COUNT 1 STREAMS m >", "&1 & m *1 *2 1-0 *2 f v1"},
		{"XREADGROUP GROUP g b CLAIM 0 STREAMS m >", "&1 & m *2 *4 1-0 *2 f v1 :? :1 *4 2-0 *2 f v2 :0 :0"},
		{"XPENDING m g - + 10", "*2 *4 1-0 b :? :2 *4 2-0 b :? :1"},
		{"XREADGROUP GROUP g c CLAIM 100000 STREAMS m >", "_*"},
		{"XINFO CONSUMERS m g", "*3 %4 name a pending :0 idle :? inactive :? %4 name b pending :2 idle :? inactive :? " +
			"%4 name c pending :0 idle :? inactive :-1"},

		// the longest idle first; as many as COUNT, together with new ones
		{"XADD m 3-0 f v3", "3-0"},
		{"XADD m 4-0 f v4", "4-0"},
		{"XCLAIM m g a 0 1-0 IDLE 50000 JUSTID", "*1 1-0"},
		{"XCLAIM m g a 0 2-0 IDLE 60000 JUSTID", "*1 2-0"},
		{"XREADGROUP GROUP g b CLAIM 55000 COUNT 1 STREAMS m >", "&1 & m *1 *4 2-0 *2 f v2 :? :1"},
		{"XREADGROUP GROUP g b COUNT 2 CLAIM 45000 STREAMS m >", "&1 & m *2 *4 1-0 *2 f v1 :? :2 *4 3-0 *2 f v3 :0 :0"},
		{"XREADGROUP GROUP g b CLAIM 45000 STREAMS m >", "&1 & m *1 *4 4-0 *2 f v4 :0 :0"},
		{"XPENDING m g - + 10", "*4 *4 1-0 b :? :3 *4 2-0 b :? :2 *4 3-0 b :? :1 *4 4-0 b :? :1"},

		// XACK takes entries away, XCLAIM counts as a delivery
		{"XACK m g 1-0 4-0", ":2"},
		{"XCLAIM m g c 0 2-0 TIME 1000", "*1 *2 2-0 *2 f v2"},
		{"XCLAIM m g c 0 3-0 TIME 2000 RETRYCOUNT 7", "*1 *2 3-0 *2 f v3"},
		{"XREADGROUP GROUP g d CLAIM 100000 STREAMS m >", "&1 & m *2 *4 2-0 *2 f v2 :? :3 *4 3-0 *2 f v3 :? :7"},
		{"XCLAIM m g c 0 1-0 FORCE JUSTID TIME 1000", "*1 1-0"},
		{"XREADGROUP GROUP g d CLAIM 100000 STREAMS m >", "&1 & m *1 *4 1-0 *2 f v1 :? :1"},

		// deleted entries are passed over, and stay pending
		{"XCLAIM m g c 0 1-0 2-0 3-0 TIME 1000 JUSTID", "*3 1-0 2-0 3-0"},
		{"XDEL m 1-0 3-0", ":2"},
		{"XREADGROUP GROUP g e CLAIM 100000 STREAMS m >", "&1 & m *1 *4 2-0 *2 f v2 :? :4"},
		{"XREADGROUP GROUP g e CLAIM 100000 STREAMS m >", "_*"},
		{"XPENDING m g", "*4 :3 1-0 3-0 *2 *2 c 2 *2 e 1"},
		{"XTRIM m MAXLEN 0", ":2"},
		{"XREADGROUP GROUP g e CLAIM 0 STREAMS m >", "_*"},

		// NOACK concerns new entries only
		{"XADD m 5-0 f v5", "5-0"},
		{"XREADGROUP GROUP g e STREAMS m >", "&1 & m *1 *2 5-0 *2 f v5"},
		{"XADD m 6-0 f v6", "6-0"},
		{"XREADGROUP GROUP g f NOACK CLAIM 0 STREAMS m >", "&1 & m *2 *4 5-0 *2 f v5 :? :1 *4 6-0 *2 f v6 :0 :0"},
		{"XREADGROUP GROUP g f NOACK CLAIM 0 STREAMS m >", "&1 & m *1 *4 5-0 *2 f v5 :? :2"},

		// the group goes on before its pending entries
		{"XGROUP SETID m g 0", "+OK"},
		{"XREADGROUP GROUP g f CLAIM 0 STREAMS m >",
			"&1 & m *3 *4 5-0 *2 f v5 :? :3 *4 5-0 *2 f v5 :0 :0 *4 6-0 *2 f v6 :0 :0"},
		{"XREADGROUP GROUP g f CLAIM 0 STREAMS m >", "&1 & m *2 *4 5-0 *2 f v5 :? :1 *4 6-0 *2 f v6 :? :1"},
		{"XGROUP DELCONSUMER m g f", ":2"},
		{"XREADGROUP GROUP g f CLAIM 0 STREAMS m >", "_*"},

		// other ids than >; several streams
		{"XADD n 1-0 f v", "1-0"},
		{"XADD n 2-0 f v", "2-0"},
		{"XADD m 7-0 f v7", "7-0"},
		{"XADD m 8-0 f v8", "8-0"},
		{"XGROUP CREATE n g 0", "+OK"},
		{"XREADGROUP GROUP g a COUNT 1 STREAMS m n > >", "&2 & m *1 *2 7-0 *2 f v7 & n *1 *2 1-0 *2 f v"},
		{"XREADGROUP GROUP g a CLAIM 0 STREAMS m n 0 0", "&2 & m *1 *2 7-0 *2 f v7 & n *1 *2 1-0 *2 f v"},
		{"XREADGROUP GROUP g b CLAIM 0 STREAMS m n 0 >", "&2 & m *0 & n *2 *4 1-0 *2 f v :? :2 *4 2-0 *2 f v :0 :0"},
		{"XREADGROUP GROUP g b CLAIM 0 COUNT 1 STREAMS n m > >", "&2 & n *1 *4 1-0 *2 f v :? :3 & m *1 *4 7-0 *2 f v7 :? :2"},
		{"XCLAIM n g b 0 1-0 2-0 TIME 1000 JUSTID", "*2 1-0 2-0"},
		{"XREADGROUP GROUP g b CLAIM 0 STREAMS n n > >",
			"&2 & n *2 *4 1-0 *2 f v :? :4 *4 2-0 *2 f v :? :1 & n *2 *4 1-0 *2 f v :? :5 *4 2-0 *2 f v :? :2"},

		// the position of the option
		{"XREADGROUP CLAIM 9223372036854775807 GROUP g b COUNT 1 CLAIM 0 NOACK STREAMS n >", "&1 & n *1 *4 1-0 *2 f v :? :6"},
		{"XREADGROUP GROUP g b CLAIM 9223372036854775807 STREAMS m >", "&1 & m *1 *4 8-0 *2 f v8 :0 :0"},
		{"XREADGROUP GROUP g CLAIM 50 c STREAMS m >", "-ERR syntax error"},
		{"XREADGROUP GROUP g c STREAMS m CLAIM >",
			"-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."},
		{"XREADGROUP GROUP g c CLAIM STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM 10 CLAIM COUNT 1 STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM test STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM 5.5 STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM +10 STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM -0 STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM 9223372036854775808 STREAMS m >", noInteger},
		{"XREADGROUP GROUP g c CLAIM -10 STREAMS m >", negative},
		{"XREADGROUP GROUP x c CLAIM 50 STREAMS m >", noSuchGroup + " in XREADGROUP with GROUP option"},
		{"XREAD COUNT 2 CLAIM 10 STREAMS m 0-0",
			"-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead."},
	})
}

// TestNack: XNACK.
func TestNack(t *testing.T) {
	option := func(name string) string { return "-ERR Unrecognized XNACK option '" + name + "'" }
	const (
		arity  = "-ERR wrong number of arguments for 'xnack' command"
		numIDs = "-ERR numids must be a positive integer"
		number = "-ERR value is not an integer or out of range"
		most   = ":9223372036854775807"
	)
	runStreamCases(t, []streamCase{
		{"XNACK m x SILENT IDS 1", arity},
		{"XNACK m x SILENT IDS 1 1-0", noSuchGroup},
		{"XADD m 1-0 f v", "1-0"},
		{"XNACK m x SILENT IDS 1 1-0", noSuchGroup},
		{"SET str v", "+OK"},
		{"XNACK str g FAIL IDS 1 1-0", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"XADD m 2-0 f v", "2-0"},
		{"XADD m 3-0 f v", "3-0"},
		{"XGROUP CREATE m g 0", "+OK"},
		{"XREADGROUP GROUP g a COUNT 2 STREAMS m >", "&1 & m *2 *2 1-0 *2 f v *2 2-0 *2 f v"},
		{"XREADGROUP GROUP g b STREAMS m >", "&1 & m *1 *2 3-0 *2 f v"},
		{"XNACK m g FAIL BADOPT IDS 1 1-0", option("BADOPT")},
		{"XNACK m g FAIL IDS 1 1-0 BADOPT", option("BADOPT")},
		{"XNACK m g SILENT FORCE BADOPT IDS 1 1-0", option("BADOPT")},
		{"XNACK m g FAIL IDS 1 1-0 RETRYCOUNT 5 BADOPT", option("BADOPT")},
		{"XNACK m g BADMODE IDS 1 1-0", "-ERR mode must be SILENT, FAIL, or FATAL"},
		{"XNACK m g FAIL FATAL IDS 1 1-0", option("FATAL")},
		{"XNACK m g SILENT NOTIDS 1 1-0", option("NOTIDS")},
		{"XNACK m g SILENT FORCE RETRYCOUNT 5", "-ERR syntax error, expected IDS keyword"},
		{"XNACK m g SILENT IDS abc 1-0", numIDs},
		{"XNACK m g SILENT IDS 0 1-0", numIDs},
		{"XNACK m g SILENT IDS -1 1-0", numIDs},
		{"XNACK m g SILENT IDS 2 1-0", "-ERR number of IDs doesn't match numids"},
		{"XNACK m g FAIL IDS 1 not-a-valid-id", invalidID},
		{"XNACK m g FAIL IDS 1 1-0 RETRYCOUNT abc", number},
		{"XNACK m g FAIL IDS 1 1-0 RETRYCOUNT 99999999999999999999", number},
		{"XNACK m g FAIL IDS 1 1-0 RETRYCOUNT -1", "-ERR Invalid RETRYCOUNT value, must be >= 0"},
		{"XNACK m g FAIL IDS 1 1-0 RETRYCOUNT", option("RETRYCOUNT")},
		{"XNACK m g FAIL IDS 1 1-0 2-0", option("2-0")},

		// who gives entries back does not matter; the number of deliveries
		{"XNACK m g FAIL IDS 1 9-9", ":0"},
		{"XNACK m g FAIL IDS 3 3-0 9-9 1-0", ":2"},
		{"XPENDING m g - + 10", "*3 *4 1-0 \"\" :-1 :1 *4 2-0 a :? :1 *4 3-0 \"\" :-1 :1"},
		{"XPENDING m g - + 10 a", "*1 *4 2-0 a :? :1"},
		{"XPENDING m g - + 10 b", "*0"},
		{"XPENDING m g IDLE 9223372036854775807 - + 10", "*2 *4 1-0 \"\" :-1 :1 *4 3-0 \"\" :-1 :1"},
		{"XPENDING m g", "*4 :3 1-0 3-0 *1 *2 a 1"},
		{"XINFO GROUPS m", "*1 %6 name g consumers :2 pending :3 last-delivered-id 3-0 entries-read :3 lag :0"},
		{"XINFO CONSUMERS m g", "*2 %4 name a pending :1 idle :? inactive :? %4 name b pending :0 idle :? inactive :?"},
		{"XREADGROUP GROUP g b STREAMS m 0", "&1 & m *0"},
		{"XINFO STREAM m FULL", "%9 length :3 radix-tree-keys :1 radix-tree-nodes :2 last-generated-id 3-0 " +
			"max-deleted-entry-id 0-0 entries-added :3 recorded-first-entry-id 1-0 entries *3 *2 1-0 *2 f v *2 2-0 *2 f v " +
			"*2 3-0 *2 f v groups *1 %8 name g last-delivered-id 3-0 entries-read :3 lag :0 pel-count :3 nacked-count :2 " +
			"pending *3 *4 1-0 \"\" :0 :1 *4 2-0 a :? :1 *4 3-0 \"\" :0 :1 " +
			"consumers *2 %5 name a seen-time :? active-time :? pel-count :1 pending *1 *3 2-0 :? :1 " +
			"%5 name b seen-time :? active-time :? pel-count :0 pending *0"},
		{"XNACK m g SILENT IDS 2 1-0 1-0", ":2"},
		{"XNACK m g FATAL IDS 1 3-0", ":1"},
		{"XPENDING m g - + 10", "*3 *4 1-0 \"\" :-1 :0 *4 2-0 a :? :1 *4 3-0 \"\" :-1 " + most},
		{"XNACK m g FATAL IDS 1 1-0 RETRYCOUNT 42", ":1"},
		{"XPENDING m g 1-0 1-0 10", "*1 *4 1-0 \"\" :-1 :42"},
		{"XNACK m g SILENT IDS 1 1-0", ":1"},
		{"XPENDING m g 1-0 1-0 10", "*1 *4 1-0 \"\" :-1 :41"},

		// they are claimed first, in the order in which they were given back, however short their idle time may be
		{"XREADGROUP GROUP g c CLAIM 100000 STREAMS m >", "&1 & m *2 *4 3-0 *2 f v :? " + most + " *4 1-0 *2 f v :? :41"},
		{"XPENDING m g - + 10", "*3 *4 1-0 c :? :42 *4 2-0 a :? :1 *4 3-0 c :? " + most},
		{"XNACK m g FAIL IDS 3 1-0 2-0 3-0", ":3"},
		{"XNACK m g FAIL IDS 1 1-0", ":1"},
		{"XREADGROUP GROUP g c COUNT 1 CLAIM 5 STREAMS m >", "&1 & m *1 *4 2-0 *2 f v :? :1"},
		{"XREADGROUP GROUP g c COUNT 1 CLAIM 5 STREAMS m >", "&1 & m *1 *4 3-0 *2 f v :? " + most},
		{"XREADGROUP GROUP g c COUNT 1 CLAIM 5 STREAMS m >", "&1 & m *1 *4 1-0 *2 f v :? :42"},
		{"XNACK m g FAIL IDS 2 1-0 3-0", ":2"},
		{"XCLAIM m g b 99999 1-0 2-0", "*1 *2 1-0 *2 f v"},
		{"XAUTOCLAIM m g b 99999 0-0", "*3 0-0 *1 *2 3-0 *2 f v *0"},
		{"XPENDING m g", "*4 :3 1-0 3-0 *2 *2 b 2 *2 c 1"},

		// deleted entries, deleted consumers, acknowledged entries
		{"XNACK m g FAIL IDS 2 1-0 3-0", ":2"},
		{"XDEL m 1-0 3-0", ":2"},
		{"XPENDING m g - + 10", "*3 *4 1-0 \"\" :-1 :44 *4 2-0 c :? :2 *4 3-0 \"\" :-1 " + most},
		{"XCLAIM m g b 0 1-0", "*0"},
		{"XAUTOCLAIM m g b 0 0-0", "*3 0-0 *1 *2 2-0 *2 f v *1 3-0"},
		{"XPENDING m g", "*4 :1 2-0 2-0 *1 *2 b 1"},
		{"XADD m 4-0 f v", "4-0"},
		{"XREADGROUP GROUP g b STREAMS m >", "&1 & m *1 *2 4-0 *2 f v"},
		{"XNACK m g FAIL IDS 1 4-0", ":1"},
		{"XGROUP DELCONSUMER m g b", ":1"},
		{"XPENDING m g - + 10", "*1 *4 4-0 \"\" :-1 :1"},
		{"XACK m g 4-0", ":1"},
		{"XNACK m g FAIL IDS 1 4-0", ":0"},
		{"XPENDING m g", "*4 :0 _ _ _*"},

		// FORCE
		{"XNACK m g FAIL IDS 2 4-0 9-9 FORCE", ":1"},
		{"XNACK m g SILENT FORCE IDS 1 2-0", ":1"},
		{"XPENDING m g - + 10", "*2 *4 2-0 \"\" :-1 :0 *4 4-0 \"\" :-1 :0"},
		{"XNACK m g FATAL FORCE IDS 1 2-0", ":1"},
		{"XNACK m g FAIL RETRYCOUNT 3 IDS 1 4-0 FORCE", ":1"},
		{"XPENDING m g - + 10", "*2 *4 2-0 \"\" :-1 " + most + " *4 4-0 \"\" :-1 :3"},
		{"XACKDEL m g IDS 1 4-0", "*1 :1"},
		{"XTRIM m MAXLEN 0 DELREF", ":1"},
		{"XPENDING m g", "*4 :0 _ _ _*"},
		{"XNACK m g FAIL IDS 1 2-0 FORCE", ":0"},

		// a consumer with the empty name is another one
		{"XADD m 5-0 f v", "5-0"},
		{"XADD m 6-0 f v", "6-0"},
		{`XREADGROUP GROUP g "" STREAMS m >`, "&1 & m *2 *2 5-0 *2 f v *2 6-0 *2 f v"},
		{"XNACK m g FAIL IDS 1 5-0", ":1"},
		{`XPENDING m g - + 10`, `*2 *4 5-0 "" :-1 :1 *4 6-0 "" :? :1`},
		{`XPENDING m g - + 10 ""`, `*1 *4 6-0 "" :? :1`},
		{"XPENDING m g", `*4 :2 5-0 6-0 *1 *2 "" 1`},

		// DUMP and COPY, and a group that goes on before what was given back
		{"XNACK m g FATAL IDS 2 6-0 5-0", ":2"},
		{"COPY m n", ":1"},
		{"XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS n >", "&1 & n *1 *4 6-0 *2 f v :? " + most},
		{"XPENDING m g - + 10", `*2 *4 5-0 "" :-1 ` + most + ` *4 6-0 "" :-1 ` + most},
		{"XGROUP SETID m g 0", "+OK"},
		{"XREADGROUP GROUP g b STREAMS m >", "&1 & m *2 *2 5-0 *2 f v *2 6-0 *2 f v"},
		{"XPENDING m g - + 10", "*2 *4 5-0 b :? :1 *4 6-0 b :? :1"},
		{"XNACK m g FAIL IDS 1 5-0", ":1"},
		{"XGROUP DESTROY m g", ":1"},
		{"XGROUP CREATE m g 0", "+OK"},
		{"XPENDING m g", "*4 :0 _ _ _*"},
	})
}

// TestReadLimits: XREAD and XREADGROUP with MAXCOUNT and MAXSIZE.
func TestReadLimits(t *testing.T) {
	const count, size = "-ERR MAXCOUNT must be a positive integer", "-ERR MAXSIZE must be a positive integer"
	const a, b, c = "& a *2 *2 1-0 *2 f 1 *2 2-0 *2 f 2", "& b *2 *2 1-0 *2 f 3 *2 2-0 *2 f 4",
		"& c *2 *2 1-0 *2 f 5 *2 2-0 *2 f 6"
	runStreamCases(t, []streamCase{
		{"XADD a 1-0 f 1", "1-0"}, {"XADD a 2-0 f 2", "2-0"},
		{"XADD b 1-0 f 3", "1-0"}, {"XADD b 2-0 f 4", "2-0"},
		{"XADD c 1-0 f 5", "1-0"}, {"XADD c 2-0 f 6", "2-0"},
		{"XREAD COUNT 2 MAXCOUNT 3 STREAMS a b c 0 0 0", "&2 " + a + " & b *1 *2 1-0 *2 f 3"},
		{"XREAD COUNT 1 MAXCOUNT 2 STREAMS a b c 0 0 0", "&2 & a *1 *2 1-0 *2 f 1 & b *1 *2 1-0 *2 f 3"},
		{"XREAD MAXCOUNT 2 STREAMS a b c 0 0 0", "&1 " + a},
		{"XREAD MAXCOUNT 2 STREAMS a b c 2 1 1", "&2 & b *1 *2 2-0 *2 f 4 & c *1 *2 2-0 *2 f 6"},
		{"XREAD MAXCOUNT 100 STREAMS a b c 0 0 0", "&3 " + a + " " + b + " " + c},
		{"XREAD COUNT 0 MAXCOUNT 1 STREAMS a b 0 0", "&1 & a *1 *2 1-0 *2 f 1"},
		{"XREAD COUNT -5 MAXCOUNT 1 STREAMS a b 0 0", "&1 & a *1 *2 1-0 *2 f 1"},
		{"XREAD MAXSIZE 1 STREAMS a b 0 0", "&1 & a *1 *2 1-0 *2 f 1"},
		// the first entry ends after 42 bytes in RESP2 and after 38 in RESP3, each other one has 31
		{"XREAD MAXSIZE 60 STREAMS a b 0 0", "&1 " + a},
		{"XREAD MAXSIZE 80 STREAMS a b 0 0", "&2 " + a + " & b *1 *2 1-0 *2 f 3"},
		{"XREAD MAXSIZE 1000 MAXCOUNT 1 STREAMS a b 0 0", "&1 & a *1 *2 1-0 *2 f 1"},
		{"XREAD MAXSIZE 1 MAXCOUNT 5 STREAMS a b 2 0", "&1 & b *1 *2 1-0 *2 f 3"},
		{"XREAD MAXSIZE 10000 STREAMS a b c 0 0 0", "&3 " + a + " " + b + " " + c},
		{"XREAD MAXSIZE 10 MAXCOUNT 5 STREAMS a b 2 2", "_*"},
		{"XREAD MAXCOUNT 0 STREAMS a 0", count},
		{"XREAD MAXCOUNT -1 STREAMS a 0", count},
		{"XREAD MAXSIZE 0 STREAMS a 0", size},
		{"XREAD MAXCOUNT x STREAMS a 0", notInteger},
		{"XREAD MAXSIZE STREAMS a 0", notInteger},
		{"XREAD COUNT 2 MAXCOUNT 1 STREAMS a 0", "-ERR MAXCOUNT must be greater than or equal to COUNT"},

		{"XGROUP CREATE a g 0", "+OK"}, {"XGROUP CREATE b g 0", "+OK"}, {"XGROUP CREATE c g 0", "+OK"},
		{"XREADGROUP GROUP g x MAXCOUNT 0 STREAMS a >", count},
		{"XREADGROUP GROUP g x MAXSIZE -1 STREAMS a >", size},
		{"XREADGROUP GROUP g x COUNT 2 MAXCOUNT 1 STREAMS a >", "-ERR MAXCOUNT must be greater than or equal to COUNT"},
		{"XREADGROUP GROUP g x MAXCOUNT 3 STREAMS a b c > > >", "&2 " + a + " & b *1 *2 1-0 *2 f 3"},
		{"XPENDING b g", "*4 :1 1-0 1-0 *1 *2 x 1"}, // what was not returned was not delivered
		{"XREADGROUP GROUP g x MAXSIZE 1 STREAMS b c > >", "&1 & b *1 *2 2-0 *2 f 4"},
		{"XREADGROUP GROUP g y MAXSIZE 1 CLAIM 0 STREAMS a c > >", "&1 & a *1 *4 1-0 *2 f 1 :? :1"},
		{"XCLAIM a g x 0 2-0 TIME 1000 JUSTID", "*1 2-0"},
		{"XREADGROUP GROUP g y MAXCOUNT 3 CLAIM 0 STREAMS c a > >",
			"&2 & c *2 *4 1-0 *2 f 5 :0 :0 *4 2-0 *2 f 6 :0 :0 & a *1 *4 2-0 *2 f 2 :? :1"},
		{"XPENDING a g - + 10", "*2 *4 1-0 y :? :2 *4 2-0 y :? :2"},
		{"XDEL b 1-0", ":1"},
		{"XREADGROUP GROUP g x MAXCOUNT 2 STREAMS b a 0 0", "&1 & b *2 *2 1-0 _* *2 2-0 *2 f 4"},
		{"XREADGROUP GROUP g x MAXCOUNT 1 STREAMS b a 0 0", "&1 & b *1 *2 1-0 _*"},
		{"XREADGROUP GROUP g x MAXSIZE 1 STREAMS b a 1 0", "&1 & b *1 *2 2-0 *2 f 4"},
		{"XPENDING b g - + 10", "*2 *4 1-0 x :? :1 *4 2-0 x :? :3"},
	})
}
