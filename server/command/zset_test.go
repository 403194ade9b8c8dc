package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// zsetCase is a command with its raw replies. reply3 is empty if the reply in RESP3 is the same as in RESP2.
type zsetCase struct {
	line   string
	reply  string
	reply3 string
}

func runZSetCases(t *testing.T, cases []zsetCase) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		db := enginetest.Open(t)
		for _, c := range cases {
			args := strings.Split(c.line, " ")
			for i := range args {
				if args[i] == `""` {
					args[i] = ""
				}
			}
			want := c.reply
			if proto == 3 && c.reply3 != "" {
				want = c.reply3
			}
			want = strings.ReplaceAll(want, " ", "\r\n") + "\r\n"
			if strings.HasPrefix(c.reply, "-") {
				want = c.reply + "\r\n"
			}
			if got := doProto(t, db, proto, args...); got != want {
				t.Errorf("RESP%d %s: %q, want %q", proto, c.line, got, want)
			}
		}
	}
}

const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"

func TestZAdd(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZADD z 1 a 2.5 b", ":2", ""},
		{"ZADD z 1 a 3 b 4 c", ":1", ""},
		{"ZADD z CH 1 a 4 b 5 d", ":2", ""},
		{"ZADD z CH 1 x 2 x", ":2", ""},
		{"ZADD z NX CH 9 a 9 e", ":1", ""},
		{"ZADD z XX CH 9 a 9 f", ":1", ""},
		{"ZADD z GT CH 8 a 10 b", ":1", ""},
		{"ZADD z LT CH 8 a 11 b", ":1", ""},
		{"ZADD z INCR 0.5 a", "$3 8.5", ",8.5"},
		{"ZADD z XX INCR 1 missing", "$-1", "_"},
		{"ZADD z NX INCR 1 a", "$-1", "_"},
		{"ZADD z GT INCR -1 a", "$-1", "_"},
		{"ZADD z inf big", ":1", ""},
		{"ZADD z INCR -inf big", "-ERR resulting score is not a number (NaN)", ""},
		{"ZINCRBY z -inf big", "-ERR resulting score is not a number (NaN)", ""},
		{"ZINCRBY z 1.5 new", "$3 1.5", ",1.5"},
		{"ZINCRBY z NX a", "-ERR syntax error", ""},
		{"ZINCRBY z nan a", "-ERR value is not a valid float", ""},
		{"ZADD z nan a", "-ERR value is not a valid float", ""},
		{"ZADD z 1 a x b", "-ERR value is not a valid float", ""},
		{"ZADD z 1 a 2", "-ERR syntax error", ""},
		{"ZADD z CH NX", "-ERR syntax error", ""},
		{"ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible", ""},
		{"ZADD z GT NX 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible", ""},
		{"ZADD z GT LT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible", ""},
		{"ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair", ""},
		{"ZADD z 1", "-ERR wrong number of arguments for 'zadd' command", ""},
		{"ZADD minus -0 a", ":1", ""},
		{"ZSCORE minus a", "$1 0", ",0"},
		{"SET s v", "+OK", ""},
		{"ZADD s 1 a", wrongType, ""},
		{"ZINCRBY s 1 a", wrongType, ""},
	})
}

func TestZSetPointReads(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZADD z 1 a 2 b 2 c -inf d", ":4", ""},
		{"ZCARD z", ":4", ""},
		{"ZCARD missing", ":0", ""},
		{"ZSCORE z b", "$1 2", ",2"},
		{"ZSCORE z d", "$4 -inf", ",-inf"},
		{"ZSCORE z x", "$-1", "_"},
		{"ZSCORE missing x", "$-1", "_"},
		{"ZMSCORE z a x b", "*3 $1 1 $-1 $1 2", "*3 ,1 _ ,2"},
		{"ZMSCORE missing a b", "*2 $-1 $-1", "*2 _ _"},
		{"ZRANK z d", ":0", ""},
		{"ZRANK z c", ":3", ""},
		{"ZREVRANK z c", ":0", ""},
		{"ZRANK z b WITHSCORE", "*2 :2 $1 2", "*2 :2 ,2"},
		{"ZREVRANK z b withscore", "*2 :1 $1 2", "*2 :1 ,2"},
		{"ZRANK z x", "$-1", "_"},
		{"ZRANK z x WITHSCORE", "*-1", "_"},
		{"ZRANK missing x WITHSCORE", "*-1", "_"},
		{"ZRANK z a b", "-ERR syntax error", ""},
		{"ZRANK z a WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command", ""},
		{"ZREM z a x a", ":1", ""},
		{"ZREM z b c d", ":3", ""},
		{"ZREM z a", ":0", ""},
		{"ZCARD z", ":0", ""},
		{"SET s v", "+OK", ""},
		{"ZCARD s", wrongType, ""},
		{"ZSCORE s a", wrongType, ""},
		{"ZMSCORE s a", wrongType, ""},
		{"ZRANK s a", wrongType, ""},
		{"ZREM s a", wrongType, ""},
	})
}

func TestZRanges(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZADD z 1 a 2 b 3 c 4 d", ":4", ""},
		{"ZRANGE z 0 1", "*2 $1 a $1 b", ""},
		{"ZRANGE z -2 -1 WITHSCORES", "*4 $1 c $1 3 $1 d $1 4", "*2 *2 $1 c ,3 *2 $1 d ,4"},
		{"ZRANGE z 0 0 REV WITHSCORES", "*2 $1 d $1 4", "*1 *2 $1 d ,4"},
		{"ZREVRANGE z 0 1", "*2 $1 d $1 c", ""},
		{"ZRANGE z 5 9", "*0", ""},
		{"ZRANGE missing 0 -1", "*0", ""},
		{"ZRANGE z (1 3 BYSCORE", "*2 $1 b $1 c", ""},
		{"ZRANGE z 3 (1 BYSCORE REV LIMIT 1 5", "*1 $1 b", ""},
		{"ZRANGEBYSCORE z -inf +inf LIMIT 1 2", "*2 $1 b $1 c", ""},
		{"ZRANGEBYSCORE z -inf +inf LIMIT -1 2", "*0", ""},
		{"ZRANGEBYSCORE z -inf +inf LIMIT 3 -5", "*1 $1 d", ""},
		{`ZRANGEBYSCORE z "" 1`, "*1 $1 a", ""},
		{"ZRANGEBYSCORE z -1e999 0x2", "*2 $1 a $1 b", ""},
		{"ZREVRANGEBYSCORE z 2 1 WITHSCORES", "*4 $1 b $1 2 $1 a $1 1", "*2 *2 $1 b ,2 *2 $1 a ,1"},
		{"ZRANGE z 0 1 LIMIT 0 1",
			"-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX", ""},
		{"ZRANGE z - + BYLEX WITHSCORES", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX", ""},
		{"ZRANGE z 0 1 BYSCORE BYLEX", "-ERR syntax error", ""},
		{"ZRANGE z 0 1 REV REV", "-ERR syntax error", ""},
		{"ZRANGE z a 1", "-ERR value is not an integer or out of range", ""},
		{"ZRANGEBYSCORE z 1 3 LIMIT a 1", "-ERR value is not an integer or out of range", ""},
		{"ZRANGEBYSCORE z nan 1", "-ERR min or max is not a float", ""},
		{"ZRANGEBYSCORE z 1 ((3", "-ERR min or max is not a float", ""},
		{"ZRANGEBYLEX z a +", "-ERR min or max not valid string range item", ""},
		{"ZRANGEBYLEX z - +x", "-ERR min or max not valid string range item", ""},
		{"ZCOUNT z (1 3", ":2", ""},
		{"ZCOUNT z 3 1", ":0", ""},
		{"ZCOUNT z a 1", "-ERR min or max is not a float", ""},
		{"ZADD l 0 a 0 b 0 bb 0 c", ":4", ""},
		{"ZRANGEBYLEX l [b +", "*3 $1 b $2 bb $1 c", ""},
		{"ZREVRANGEBYLEX l (c [b", "*2 $2 bb $1 b", ""},
		{"ZRANGE l - (bb BYLEX LIMIT 1 1", "*1 $1 b", ""},
		{"ZLEXCOUNT l [b (c", ":2", ""},
		{"ZLEXCOUNT l + -", ":0", ""},
		{"ZRANGESTORE d z (1 +inf BYSCORE LIMIT 0 2", ":2", ""},
		{"ZRANGE d 0 -1 WITHSCORES", "*4 $1 b $1 2 $1 c $1 3", "*2 *2 $1 b ,2 *2 $1 c ,3"},
		{"ZRANGESTORE d z 0 -1 WITHSCORES", "-ERR syntax error", ""},
		{"ZRANGESTORE d z 9 10", ":0", ""},
		{"ZCARD d", ":0", ""},
		{"ZRANGESTORE z z 1 2", ":2", ""},
		{"ZRANGE z 0 -1", "*2 $1 b $1 c", ""},
		{"SET s v", "+OK", ""},
		{"ZRANGE s 0 -1", wrongType, ""},
		{"ZRANGE s - + BYLEX", wrongType, ""},
		{"ZCOUNT s 0 1", wrongType, ""},
		{"ZLEXCOUNT s - +", wrongType, ""},
		{"ZRANGESTORE s z 0 -1", ":2", ""},
		{"ZREMRANGEBYRANK s 0 0", ":1", ""},
		{"ZREMRANGEBYSCORE s (2 3", ":1", ""},
		{"ZREMRANGEBYLEX l [b [bb", ":2", ""},
		{"ZRANGE l 0 -1", "*2 $1 a $1 c", ""},
		{"ZREMRANGEBYLEX l b c", "-ERR min or max not valid string range item", ""},
		{"ZREMRANGEBYRANK l b c", "-ERR value is not an integer or out of range", ""},
		{"ZREMRANGEBYSCORE l b c", "-ERR min or max is not a float", ""},
	})
}

func TestZPops(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZADD z 1 a 2 b 3 c 4 d 5 e 6 f", ":6", ""},
		{"ZPOPMIN z", "*2 $1 a $1 1", "*2 $1 a ,1"},
		{"ZPOPMAX z 2", "*4 $1 f $1 6 $1 e $1 5", "*2 *2 $1 f ,6 *2 $1 e ,5"},
		{"ZPOPMIN z 0", "*0", ""},
		{"ZPOPMIN z -1", "-ERR value is out of range, must be positive", ""},
		{"ZPOPMIN z 1 2", "-ERR syntax error", ""},
		{"ZPOPMIN missing", "*0", ""},
		{"ZMPOP 2 missing z MIN", "*2 $1 z *1 *2 $1 b $1 2", "*2 $1 z *1 *2 $1 b ,2"},
		{"ZMPOP 1 z max count 9", "*2 $1 z *2 *2 $1 d $1 4 *2 $1 c $1 3", "*2 $1 z *2 *2 $1 d ,4 *2 $1 c ,3"},
		{"ZMPOP 1 z MIN", "*-1", "_"},
		{"ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0", ""},
		{"ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0", ""},
		{"ZMPOP 1 z MIN COUNT 1 COUNT 1", "-ERR syntax error", ""},
		{"ZMPOP 1 z MID", "-ERR syntax error", ""},
		{"ZMPOP 9 z MIN", "-ERR syntax error", ""},
		{"ZADD z 7 again", ":1", ""},
		{"ZPOPMAX z", "*2 $5 again $1 7", "*2 $5 again ,7"},
		{"SET s v", "+OK", ""},
		{"ZPOPMIN s 0", wrongType, ""},
		{"ZMPOP 1 s MIN", wrongType, ""},
	})
}

func TestZSetOperations(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZADD a 1 x 2 y 3 z", ":3", ""},
		{"ZADD b 10 y 20 z 30 w", ":3", ""},
		{"ZADD i inf x", ":1", ""},
		{"ZADD j -inf x", ":1", ""},
		{"ZUNION 2 a b", "*4 $1 x $1 y $1 z $1 w", ""},
		{"ZUNION 2 a b WITHSCORES WEIGHTS 2 1", "*8 $1 x $1 2 $1 y $2 14 $1 z $2 26 $1 w $2 30",
			"*4 *2 $1 x ,2 *2 $1 y ,14 *2 $1 z ,26 *2 $1 w ,30"},
		{"ZINTER 2 a b AGGREGATE MAX WITHSCORES", "*4 $1 y $2 10 $1 z $2 20", "*2 *2 $1 y ,10 *2 $1 z ,20"},
		{"ZDIFF 2 a b WITHSCORES", "*2 $1 x $1 1", "*1 *2 $1 x ,1"},
		{"ZUNION 2 i j WITHSCORES", "*2 $1 x $1 0", "*1 *2 $1 x ,0"},
		{"ZINTERCARD 2 a b", ":2", ""},
		{"ZINTERCARD 2 a b LIMIT 1", ":1", ""},
		{"ZINTERCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative", ""},
		{"ZUNIONSTORE d 2 a b AGGREGATE MIN", ":4", ""},
		{"ZRANGE d 0 -1 WITHSCORES", "*8 $1 x $1 1 $1 y $1 2 $1 z $1 3 $1 w $2 30",
			"*4 *2 $1 x ,1 *2 $1 y ,2 *2 $1 z ,3 *2 $1 w ,30"},
		{"ZINTERSTORE d 2 a b WEIGHTS 0 1", ":2", ""},
		{"ZRANGE d 0 -1 WITHSCORES", "*4 $1 y $2 10 $1 z $2 20", "*2 *2 $1 y ,10 *2 $1 z ,20"},
		{"ZDIFFSTORE d 2 a a", ":0", ""},
		{"ZCARD d", ":0", ""},
		{"ZUNIONSTORE a 2 a missing", ":3", ""},
		{"ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command", ""},
		{"ZINTERSTORE d -1 a", "-ERR at least 1 input key is needed for 'zinterstore' command", ""},
		{"ZUNION x a", "-ERR value is not an integer or out of range", ""},
		{"ZUNION 3 a b", "-ERR syntax error", ""},
		{"ZUNION 2 a b WEIGHTS 1 x", "-ERR weight value is not a float", ""},
		{"ZUNION 2 a b WEIGHTS 1", "-ERR syntax error", ""},
		{"ZUNION 2 a b AGGREGATE AVG", "-ERR syntax error", ""},
		{"ZDIFF 2 a b WEIGHTS 1 2", "-ERR syntax error", ""},
		{"ZDIFFSTORE d 2 a b WITHSCORES", "-ERR syntax error", ""},
		{"SET s v", "+OK", ""},
		{"ZUNION 2 a s BAD", wrongType, ""},
		{"ZINTERCARD 2 missing s", wrongType, ""},
		{"ZUNIONSTORE s 1 a", ":3", ""},
		{"ZCARD s", ":3", ""},
	})
}

// TestZSetOperationsOnSets has plain sets as operands: their members have the score 1.
func TestZSetOperationsOnSets(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "ZADD", "z", "5", "a", "7", "b")
	do(t, db, "SADD", "s", "b", "c")
	for line, want := range map[string]string{
		"ZUNION 2 z s WITHSCORES":              "*6\r\n$1\r\nc\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\n5\r\n$1\r\nb\r\n$1\r\n8\r\n",
		"ZINTER 2 s z WEIGHTS 10 1 WITHSCORES": "*2\r\n$1\r\nb\r\n$2\r\n17\r\n",
		"ZDIFF 2 s z WITHSCORES":               "*2\r\n$1\r\nc\r\n$1\r\n1\r\n",
		"ZINTERCARD 2 s z":                     ":1\r\n",
	} {
		if got := do(t, db, strings.Split(line, " ")...); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestAggregateCount: the scores do not count, each set adds its weight.
func TestAggregateCount(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "ZADD", "a", "7", "x", "-inf", "y")
	do(t, db, "ZADD", "b", "inf", "y", "9", "z")
	do(t, db, "SADD", "s", "y", "z")
	for _, tt := range []struct{ options, union, inter string }{
		{"AGGREGATE COUNT", "x 1 z 2 y 3", "y 3"},
		{"WEIGHTS 2 3 5 AGGREGATE COUNT", "x 2 z 8 y 10", "y 10"},
		{"aggregate count weights 2 3 5", "x 2 z 8 y 10", "y 10"},
		{"WEIGHTS 0 -3 0 AGGREGATE COUNT", "y -3 z -3 x 0", "y -3"},
		{"WEIGHTS inf -inf 1 AGGREGATE COUNT", "z -inf y 1 x inf", "y 1"},
		{"AGGREGATE COUNT AGGREGATE MIN", "y -inf z 1 x 7", "y -inf"},
	} {
		for name, want := range map[string]string{"ZUNION": tt.union, "ZINTER": tt.inter} {
			operands := append([]string{"3", "a", "b", "s"}, strings.Fields(tt.options)...)
			got := do(t, db, slices.Concat([]string{name}, operands, []string{"WITHSCORES"})...)
			do(t, db, slices.Concat([]string{name + "STORE", "d"}, operands)...)
			stored := do(t, db, "ZRANGE", "d", "0", "-1", "WITHSCORES")
			if got != arrayReply(want) || stored != arrayReply(want) {
				t.Errorf("%s %s: %q, stored %q", name, tt.options, got, stored)
			}
		}
	}
	for _, line := range []string{"ZDIFF 1 a AGGREGATE COUNT", "ZUNION 1 a AGGREGATE COUNT 1",
		"ZINTERCARD 1 a AGGREGATE COUNT"} {
		if got := do(t, db, strings.Fields(line)...); got != replySyntax {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestZRandMember(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZRANDMEMBER missing", "$-1", "_"},
		{"ZRANDMEMBER missing 3", "*0", ""},
		{"ZADD z 1.5 a", ":1", ""},
		{"ZRANDMEMBER z", "$1 a", ""},
		{"ZRANDMEMBER z 0", "*0", ""},
		{"ZRANDMEMBER z 5", "*1 $1 a", ""},
		{"ZRANDMEMBER z -2", "*2 $1 a $1 a", ""},
		{"ZRANDMEMBER z 5 WITHSCORES", "*2 $1 a $3 1.5", "*1 *2 $1 a ,1.5"},
		{"ZRANDMEMBER z -2 withscores", "*4 $1 a $3 1.5 $1 a $3 1.5", "*2 *2 $1 a ,1.5 *2 $1 a ,1.5"},
		{"ZRANDMEMBER z x", "-ERR value is not an integer or out of range", ""},
		{"ZRANDMEMBER z 1 x", "-ERR syntax error", ""},
		{"ZRANDMEMBER z -9223372036854775808",
			"-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807", ""},
		{"ZRANDMEMBER z -9223372036854775807 WITHSCORES", "-ERR value is out of range", ""},
		{"SET s v", "+OK", ""},
		{"ZRANDMEMBER s", wrongType, ""},
		{"ZRANDMEMBER s 1", wrongType, ""},
	})
}

func TestZScan(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"ZSCAN missing 0", "*2 $1 0 *0", ""},
		{"ZADD z 2 a 1 b 0.5 c", ":3", ""},
		{"ZSCAN z 0", "*2 $1 0 *6 $1 a $1 2 $1 b $1 1 $1 c $3 0.5", ""},
		{"ZSCAN z 0 MATCH [bc] COUNT 10", "*2 $1 0 *4 $1 b $1 1 $1 c $3 0.5", ""},
		{"ZSCAN z x", "-ERR invalid cursor", ""},
		{"ZSCAN z 0 NOVALUES", "-ERR syntax error", ""},
		{"ZSCAN z 0 COUNT x", "-ERR value is not an integer or out of range", ""},
		{"SET s v", "+OK", ""},
		{"ZSCAN s 0", wrongType, ""},
	})
	db := enginetest.Open(t)
	var want []string // the members, in the order of their bytes, with their scores
	for i := range 100 {
		member, score := fmt.Sprintf("m%02d", i), fmt.Sprint(i)
		do(t, db, "ZADD", "z", score, member)
		want = append(want, member, score)
	}
	if got := scanAll(t, db, "ZSCAN z", "COUNT", "7"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestZSetKeys(t *testing.T) {
	for line, want := range map[string]string{
		"ZADD k 1 a":                  "1w",
		"ZRANGESTORE d s 0 1":         "1w 2r",
		"ZUNION 2 a b WITHSCORES":     "2r 3r",
		"ZINTERSTORE d 2 a b":         "1w 3r 4r",
		"ZINTERCARD 2 a b LIMIT 1":    "2r 3r",
		"ZMPOP 2 a b MIN":             "2w 3w",
		"ZUNION 9 a b":                "",
		"ZUNIONSTORE d 9 a":           "1w",
		"ZDIFF 9223372036854775807 a": "",
	} {
		var args [][]byte
		for _, a := range strings.Split(line, " ") {
			args = append(args, []byte(a))
		}
		spec, err := Resolve(args)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range spec.AppendKeys(nil, args) {
			side := "r"
			if k.Write {
				side = "w"
			}
			got = append(got, fmt.Sprint(k.Arg, side))
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("keys of %s: %q, want %q", line, g, want)
		}
	}
}

func FuzzScoreBound(f *testing.F) {
	for _, s := range []string{"", "(", "1", "(1.5", " 2", "0x1p3", "1e999", "-1e-999", "nan", "1_0", "inf\x00", "0x",
		"(0x_1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, open, ok := scoreBound(b)
		if ok && v != v {
			t.Errorf("%q is NaN", b)
		}
		if ok && open != (len(b) > 0 && b[0] == '(') {
			t.Errorf("%q: open %v", b, open)
		}
	})
}

func FuzzLexBound(f *testing.F) {
	for _, s := range []string{"", "-", "+", "[a", "(", "+x", "-\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, ok := lexBound(b)
		if ok && l.Infinite == 0 && string(l.Member) != string(b[1:]) {
			t.Errorf("%q: %+v", b, l)
		}
	})
}
