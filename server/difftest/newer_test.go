package difftest

import "testing"

// TestNewerThanRedis70 has the commands and options of Redis 7.2 that the
// redis-server of the comparison may lack, with the replies of Redis 7.2.
func TestNewerThanRedis70(t *testing.T) {
	basalt := startBasalt(t)
	for _, proto := range []int{2, 3} {
		c := connect(t, basalt.Addr(), proto)
		for _, line := range []struct{ command, resp2, resp3 string }{
			{"FLUSHALL", "+OK\r\n", ""},
			{"ZADD z 1.5 a 2 b", ":2\r\n", ""},
			{"SET s v", "+OK\r\n", ""},
			{"ZRANK z b WITHSCORE", "*2\r\n:1\r\n$1\r\n2\r\n", "*2\r\n:1\r\n,2\r\n"},
			{"ZRANK z a withscore", "*2\r\n:0\r\n$3\r\n1.5\r\n", "*2\r\n:0\r\n,1.5\r\n"},
			{"ZREVRANK z a WITHSCORE", "*2\r\n:1\r\n$3\r\n1.5\r\n", "*2\r\n:1\r\n,1.5\r\n"},
			{"ZRANK z x WITHSCORE", "*-1\r\n", "_\r\n"},
			{"ZRANK missing a WITHSCORE", "*-1\r\n", "_\r\n"},
			{"ZRANK z a WITHSCORES", "-ERR syntax error\r\n", ""},
			{"ZRANK missing a WHAT", "-ERR syntax error\r\n", ""},
			{"ZRANK s a WITHSCORE", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", ""},
			{"ZREVRANK z a WITHSCORE x", "-ERR wrong number of arguments for 'zrevrank' command\r\n", ""},
			{"CLIENT SETINFO lib-name go-redis", "+OK\r\n", ""},
			{"CLIENT SETINFO LIB-VER 1.2.3", "+OK\r\n", ""},
			{"CLIENT SETINFO lib-name \"a b\"", "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n", ""},
			{"CLIENT SETINFO lib-what x", "-ERR Unrecognized option 'lib-what'\r\n", ""},
			{"CLIENT SETINFO lib-name", "-ERR wrong number of arguments for 'client|setinfo' command\r\n", ""},
			{"CLIENT NO-TOUCH on", "+OK\r\n", ""},
			{"CLIENT NO-TOUCH OFF", "+OK\r\n", ""},
			{"CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n", ""},
			{"CLIENT NO-TOUCH", "-ERR wrong number of arguments for 'client|no-touch' command\r\n", ""},
			{"ZADD d 0.1 a 100000000000000000 b 12345.678901234 c", ":3\r\n", ""},
			{"ZSCORE d a", "$3\r\n0.1\r\n", ",0.1\r\n"},
			{"ZSCORE d b", "$18\r\n100000000000000000\r\n", ",100000000000000000\r\n"},
			{"ZSCORE d c", "$18\r\n1.2345678901234e+4\r\n", ",1.2345678901234e+4\r\n"},
			{"ZINCRBY d 0.2 a", "$19\r\n0.30000000000000004\r\n", ",0.30000000000000004\r\n"},
		} {
			want := line.resp3
			if proto == 2 || want == "" {
				want = line.resp2
			}
			words, err := splitLine(line.command)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.do(words...)
			if err != nil {
				t.Fatalf("%s: %v", line.command, err)
			}
			if string(got.raw) != want {
				t.Errorf("RESP%d, %s: %q, want %q", proto, line.command, got.raw, want)
			}
		}
	}
}
