package command

import "testing"

// TestSetCard has the cases of the clients of Redis 8.10.
func TestSetCard(t *testing.T) {
	const (
		numKeys  = "-ERR numkeys should be greater than 0\r\n"
		manyKeys = "-ERR Number of keys can't be greater than number of args\r\n"
		negative = "-ERR LIMIT can't be negative\r\n"
	)
	script := []exchange{
		{"SADD a 1 2 3", ":3\r\n", ""},
		{"SADD b 3 4 5", ":3\r\n", ""},
		{"SADD c 5", ":1\r\n", ""},
		{"SUNIONCARD 2 a b", ":5\r\n", ""},
		{"SUNIONCARD 4 none b a none", ":5\r\n", ""},
		{"SUNIONCARD 2 a a", ":3\r\n", ""},
		{"SUNIONCARD 1 none", ":0\r\n", ""},
		{"SUNIONCARD 2 a b LIMIT 0", ":5\r\n", ""},
		{"SUNIONCARD 2 a b limit 3", ":3\r\n", ""},
		{"SUNIONCARD 2 a b LIMIT 100", ":5\r\n", ""},
		{"SUNIONCARD 2 a b APPROX", ":5\r\n", ""},
		{"SUNIONCARD 2 a b approx LIMIT 3", ":3\r\n", ""},
		{"SUNIONCARD 2 a b LIMIT 3 APPROX", ":3\r\n", ""},
		{"SUNIONCARD 2 a b LIMIT 3 LIMIT 4", ":4\r\n", ""},
		{"SUNIONCARD 2 a hash", replyWrongType, ""},
		{"SDIFFCARD 2 a b", ":2\r\n", ""},
		{"SDIFFCARD 3 b a c", ":1\r\n", ""},
		{"SDIFFCARD 2 a none", ":3\r\n", ""},
		{"SDIFFCARD 2 none a", ":0\r\n", ""},
		{"SDIFFCARD 2 a a", ":0\r\n", ""},
		{"SDIFFCARD 1 a", ":3\r\n", ""},
		{"SDIFFCARD 2 a b LIMIT 1", ":1\r\n", ""},
		{"SDIFFCARD 2 a b LIMIT 0", ":2\r\n", ""},
		{"SDIFFCARD 2 a b LIMIT 100", ":2\r\n", ""},
		{"SDIFFCARD 2 a b APPROX", replySyntax, ""},
		{"SINTERCARD 2 a b APPROX", replySyntax, ""},
		{"SDIFFCARD 2 none hash", replyWrongType, ""},
	}
	for _, name := range []string{"SUNIONCARD", "SDIFFCARD"} {
		for args, want := range map[string]string{
			"0 a": numKeys, "-1 a": numKeys, "x a": numKeys, "3 a b": manyKeys, "2 a LIMIT 3": replySyntax,
			"2 a b LIMIT": replySyntax, "2 a b LIMIT -1": negative, "2 a b LIMIT x": negative, "2 a b WHAT": replySyntax,
			"2 a b c": replySyntax,
		} {
			script = append(script, exchange{name + " " + args, want, ""})
		}
	}
	converse(t, script)
}
