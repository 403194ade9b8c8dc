package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestStreamRefs tests stream commands of Redis 8.2. The expected replies are those of Redis's documentation and tests.
func TestStreamRefs(t *testing.T) {
	const (
		syntax = "-ERR syntax error"
		numIDs = "-ERR Number of IDs must be a positive integer"
		match  = "-ERR The `numids` parameter must match the number of arguments"
	)
	twoGroups := []string{"DEL m", "XADD m 1-0 f v", "XADD m 2-0 f v", "XGROUP CREATE m a 0", "XGROUP CREATE m b 0",
		"XREADGROUP GROUP a c STREAMS m >", "XREADGROUP GROUP b d STREAMS m >"}
	db := enginetest.Open(t)
	for _, tt := range []struct {
		before        []string
		command, want string
	}{
		{nil, "XDELEX s IDS", "-ERR wrong number of arguments for 'xdelex' command"},
		{nil, "XACKDEL s g IDS 1", "-ERR wrong number of arguments for 'xackdel' command"},
		{nil, "XDELEX s IDS 2 1-1 2-2", "*2 :-1 :-1"},
		{nil, "XACKDEL s g IDS 2 1-1 2-2", "*2 :-1 :-1"},
		{[]string{"XADD s 1-0 f v"}, "XACKDEL s g IDS 2 1-1 2-2", "*2 :-1 :-1"},
		{nil, "XDELEX s IDS abc 1-1", numIDs},
		{nil, "XDELEX s IDS 0 1-1", numIDs},
		{nil, "XACKDEL s g IDS -5 1-1", numIDs},
		{nil, "XACKDEL s g IDS 3 1-1 2-2", match},
		{nil, "XACKDEL s g IDS 1 1-1 2-2", syntax},
		{nil, "XDELEX s KEEPREF DELREF IDS 1 1-1", syntax},
		{nil, "XDELEX s KEEPREF 1-1 1-1", syntax},
		{nil, "XDELEX s IDS 1 x", "-ERR Invalid stream ID specified as stream command argument"},
		{[]string{"SET str v"}, "XDELEX str IDS 1 1-1", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{nil, "XACKDEL str g IDS 1 1-1", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{nil, "XDELEX s IDS 3 1-0 1-0 2-0", "*3 :1 :-1 :-1"},
		{nil, "XLEN s", ":0"},

		{twoGroups, "XDELEX m ACKED IDS 1 1-0", "*1 :2"},
		{nil, "XACK m a 1-0", ":1"},
		{nil, "XDELEX m ACKED IDS 1 1-0", "*1 :2"},
		{nil, "XACK m b 1-0", ":1"},
		{nil, "XDELEX m ACKED IDS 2 1-0 3-0", "*2 :1 :-1"},
		{nil, "XPENDING m a", "*4 :1 $3 2-0 $3 2-0 *1 *2 $1 c $1 1"},
		{nil, "XDELEX m IDS 1 2-0", "*1 :1"},
		{nil, "XPENDING m b", "*4 :1 $3 2-0 $3 2-0 *1 *2 $1 d $1 1"},
		{nil, "XDELEX m IDS 1 2-0 DELREF", "*1 :-1"}, // the entry is deleted already, and its references are deleted now
		{nil, "XPENDING m a", "*4 :0 $-1 $-1 *-1"},
		{nil, "XPENDING m b", "*4 :0 $-1 $-1 *-1"},
		{[]string{"XADD m 3-0 f v"}, "XDELEX m ACKED IDS 1 3-0", "*1 :2"}, // the entry was not delivered
		{[]string{"XGROUP DESTROY m a", "XGROUP DESTROY m b"}, "XDELEX m ACKED IDS 1 3-0", "*1 :1"},

		{twoGroups, "XACKDEL m a DELREF IDS 2 1-0 2-0", "*2 :1 :1"},
		{nil, "XLEN m", ":0"},
		{nil, "XPENDING m b", "*4 :0 $-1 $-1 *-1"},
		{nil, "XACKDEL m b DELREF IDS 2 1-0 2-0", "*2 :-1 :-1"},

		{twoGroups, "XACKDEL m a ACKED IDS 2 1-0 2-0", "*2 :2 :2"},
		{nil, "XPENDING m a", "*4 :0 $-1 $-1 *-1"},
		{nil, "XLEN m", ":2"},
		{nil, "XACKDEL m b ACKED IDS 2 1-0 2-0", "*2 :1 :1"},
		{nil, "XLEN m", ":0"},

		{twoGroups, "XACKDEL m a KEEPREF IDS 2 1-0 2-0", "*2 :1 :1"},
		{nil, "XPENDING m b", "*4 :2 $3 1-0 $3 2-0 *1 *2 $1 d $1 2"},
		{nil, "XACKDEL m b IDS 2 1-0 2-0", "*2 :1 :1"},

		{[]string{"DEL m", "XADD m 1 f v", "XADD m 2 f v", "XADD m 3 f v", "XADD m 4 f v", "XADD m 5 f v",
			"XGROUP CREATE m g 0",
			"XADD m MAXLEN = 1 ACKED 6 f v"}, "XLEN m", ":6"},
		{[]string{"XREADGROUP GROUP g c COUNT 1 STREAMS m >", "XACK m g 1", "XADD m ACKED MAXLEN = 1 7 f v"}, "XLEN m", ":6"},
		{[]string{"XREADGROUP GROUP g c STREAMS m >", "XACK m g 2 3 4 6 7", "XADD m MAXLEN = 1 ACKED 8 f v"}, "XRANGE m - +",
			"*2 *2 $3 5-0 *2 $1 f $1 v *2 $3 8-0 *2 $1 f $1 v"},
		{nil, "XTRIM m MAXLEN 0 DELREF", ":2"},
		{nil, "XPENDING m g", "*4 :0 $-1 $-1 *-1"},
		{[]string{"XADD m 9 f v", "XREADGROUP GROUP g c STREAMS m >"}, "XADD m MAXLEN = 1 DELREF 10 f v", "$4 10-0"},
		{nil, "XPENDING m g", "*4 :0 $-1 $-1 *-1"},
		{[]string{"XREADGROUP GROUP g c STREAMS m >"}, "XTRIM m MINID 11 KEEPREF", ":1"},
		{nil, "XPENDING m g", "*4 :1 $4 10-0 $4 10-0 *1 *2 $1 c $1 1"},
		{nil, "XTRIM m ACKED DELREF MINID 11", syntax},
		{nil, "XADD m KEEPREF KEEPREF 12 f v", "-ERR Invalid stream ID specified as stream command argument"},
		{nil, "XADD m KEEPREF 12 f v", "$4 12-0"},
	} {
		for _, line := range tt.before {
			do(t, db, strings.Fields(line)...)
		}
		got := strings.TrimSuffix(do(t, db, strings.Fields(tt.command)...), "\r\n")
		if got = strings.ReplaceAll(got, "\r\n", " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.command, got, tt.want)
		}
	}
}

// TestReadLast: the id + of XREAD is the last entry.
func TestReadLast(t *testing.T) {
	runStreamCases(t, []streamCase{
		{"XADD s 1-1 a 1", "1-1"},
		{"XADD s 2-0 a 2", "2-0"},
		{"XREAD STREAMS s +", "&1 & s *1 *2 2-0 *2 a 2"},
		{"XREAD COUNT 5 STREAMS s missing + +", "&1 & s *1 *2 2-0 *2 a 2"},
		{"XDEL s 2-0", ":1"},
		{"XREAD STREAMS s +", "&1 & s *1 *2 1-1 *2 a 1"},
		{"XDEL s 1-1", ":1"},
		{"XREAD STREAMS s +", "_*"},
		{"XREAD STREAMS missing +", "_*"},
		{"XGROUP CREATE s g 0", "+OK"},
		{"XREADGROUP GROUP g c STREAMS s +", "-" + errPlusInGroup.Code + " " + errPlusInGroup.Text},
	})
}
