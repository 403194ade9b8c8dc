package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestIndexedWrites: after each way to change a key, the index finds what the key has, and has no other tags.
func TestIndexedWrites(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("FT.CREATE i PREFIX 1 h: SCHEMA t TAG n NUMERIC", "+OK\r\n")
	for _, tt := range []struct {
		name, before, do string
		keys             string // with a tag, after it
		tags             string
	}{
		{"set", "", "HSET h:1 t a,b", "h:1", "a b"},
		{"pipeline", "", "HSET h:1 t a;HSET h:1 t b;HSET h:2 t c;DEL h:2", "h:1", "b"},
		{"same value", "HSET h:1 t a", "HSET h:1 t a", "h:1", "a"},
		{"field deleted", "HSET h:1 t a f v", "HDEL h:1 t", "", ""},
		{"last field deleted", "HSET h:1 t a", "HDEL h:1 t", "", ""},
		{"incremented", "HSET h:1 t 1", "HINCRBY h:1 t 4", "h:1", "5"},
		{"deleted", "HSET h:1 t a;HSET h:2 t b", "UNLINK h:1", "h:2", "b"},
		{"expired", "HSET h:1 t a", "PEXPIRE h:1 -1", "", ""},
		{"expires later", "HSET h:1 t a", "EXPIRE h:1 100", "h:1", "a"},
		{"field expired", "HSET h:1 t a f v", "HPEXPIREAT h:1 1 FIELDS 1 t", "", ""},
		{"got and deleted", "HSET h:1 t a", "HGETDEL h:1 FIELDS 1 t", "", ""},
		{"renamed", "HSET h:1 t a", "RENAME h:1 h:2", "h:2", "a"},
		{"renamed over", "HSET h:1 t a;HSET h:2 t b", "RENAME h:1 h:2", "h:2", "a"},
		{"renamed away", "HSET h:1 t a", "RENAME h:1 other", "", ""},
		{"renamed to it", "HSET other t a", "RENAMENX other h:1", "h:1", "a"},
		{"copied", "HSET h:1 t a", "COPY h:1 h:2", "h:1 h:2", "a"},
		{"overwritten", "HSET h:1 t a", "SET h:1 v", "", ""},
		{"stored over", "HSET h:1 t a;SADD s x", "SUNIONSTORE h:1 s", "", ""},
		{"flushed", "HSET h:1 t a", "FLUSHDB", "", ""},
		{"flushed and set", "HSET h:1 t a", "FLUSHALL;HSET h:1 t b", "h:1", "b"},
		{"transaction", "HSET h:1 t a", "MULTI;HSET h:1 t b;HSET h:2 t c;DEL h:1;EXEC", "h:2", "c"},
		{"discarded", "HSET h:1 t a", "MULTI;HSET h:1 t b;DISCARD", "h:1", "a"},
		{"script", "HSET h:1 t a", "EVAL redis.call('hset',KEYS[1],'t','b') 1 h:1", "h:1", "b"},
		{"script, key not declared", "HSET h:1 t a",
			"EVAL redis.call('del','h:1')redis.call('hset','h:2','t','c') 0", "h:2", "c"},
		{"script that fails", "HSET h:1 t a", "EVAL redis.call('hset',KEYS[1],'t','b')redis.call('lpush',KEYS[1],'x') 1 h:1",
			"h:1", "b"}, // what it has written stays, as in Redis
		{"script that catches an error", "HSET h:1 t a",
			"EVAL redis.pcall('hincrby',KEYS[1],'t',1)redis.call('hset',KEYS[1],'t','b') 1 h:1", "h:1", "b"},
		{"failed command", "HSET h:1 t a", "HINCRBY h:1 t 1", "h:1", "a"},
		{"failed in a transaction", "HSET h:1 t a", "MULTI;HINCRBY h:1 t 1;HSET h:2 t b;EXEC", "h:1 h:2", "a b"},
		{"bad number", "HSET h:1 t a n 1", "HSET h:1 n x", "", ""},
		{"good number again", "HSET h:1 t a n x", "HSET h:1 n 2", "h:1", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.Want("FLUSHALL", "+OK\r\n")
			c.DoAll(tt.before)
			n := strings.Count(tt.do, ";") + 1
			require.NoError(t, c.RoundTrip(servertest.Pipeline(strings.Split(tt.do, ";")...), n))
			var keys []string
			for _, key := range []string{"h:1", "h:2", "other"} {
				for _, tag := range []string{"a", "b", "c", "5"} {
					if strings.Contains(c.Do("FT.SEARCH", "i", "@t:{"+tag+"}"), "\r\n"+key+"\r\n") {
						keys = append(keys, key)
						break
					}
				}
			}
			if got := strings.Join(keys, " "); got != tt.keys {
				t.Errorf("keys %q, want %q", got, tt.keys)
			}
			c.Want("FT.TAGVALS i t", servertest.Bulk(strings.Fields(tt.tags)...))
		})
	}
}

// TestIndexOfExpired: a key that has expired is not found, and when it is made anew its old entries go.
func TestIndexOfExpired(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("FT.CREATE i SCHEMA t TAG n NUMERIC", "+OK\r\n")
	c.Want("HSET k t a n 1", ":2\r\n")
	c.Want("PEXPIRE k 1", ":1\r\n")
	servertest.Eventually(t, "the key expires", func() bool { return c.Do("EXISTS", "k") == ":0\r\n" })
	c.Want("FT.SEARCH i @n:[1,1]", "-ERR invalid syntax\r\n")
	c.Want("FT.SEARCH i @t:{a}", "*1\r\n:0\r\n")
	c.Want("HSET k t b", ":1\r\n")
	c.Want("FT.TAGVALS i t", servertest.Bulk("b"))
}

// TestIndexOfRDB: RDB LOAD indexes the hashes that it loads, and forgets those that it replaces.
func TestIndexOfRDB(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("FT.CREATE i SCHEMA t TAG", "+OK\r\n")
	c.Want("HSET k t old", ":1\r\n")
	c.Want("HSET gone t old", ":1\r\n")
	hash := "\x04" + rdbString("k") + "\x01" + rdbString("t") + rdbString("new")
	c.Want("RDB LOAD "+rdbFile(t, hash, rdbKey("gone", "v")), "+OK\r\n")
	c.Want("FT.TAGVALS i t", servertest.Bulk("new"))
}

// TestIndexNamespaces: each namespace has its own indexes, and MOVE takes a key from one to the other.
func TestIndexNamespaces(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "4")
	c := h.Dial(t)
	found := func(key string) string { return "*3\r\n:1\r\n$1\r\n" + key + "\r\n*2\r\n$1\r\nt\r\n$1\r\na\r\n" }
	const nothing = "*1\r\n:0\r\n"
	c.Want("FT.CREATE i SCHEMA t TAG", "+OK\r\n")
	c.Want("SELECT 1", "+OK\r\n")
	c.Want("FT._LIST", "*0\r\n")
	c.Want("FT.SEARCH i *", "-ERR index `i` not found\r\n")
	c.Want("FT.CREATE i SCHEMA t TAG", "+OK\r\n")
	c.Want("HSET k t a", ":1\r\n")
	c.Want("FT.SEARCH i @t:{a}", found("k"))
	c.Want("MOVE k 0", ":1\r\n")
	c.Want("FT.TAGVALS i t", "*0\r\n")
	c.Want("SELECT 0", "+OK\r\n")
	c.Want("FT.SEARCH i @t:{a}", found("k"))
	c.Want("COPY k l DB 1", ":1\r\n")
	c.Want("FLUSHDB", "+OK\r\n")
	c.Want("FT.SEARCH i @t:{a}", nothing)
	c.Want("SELECT 1", "+OK\r\n")
	c.Want("FT.SEARCH i @t:{a}", found("l"))
	c.Want("FT.DROPINDEX i", "+OK\r\n")
	c.Want("FT.DROPINDEX i", "-ERR index not found\r\n")
	c.Want("SELECT 0", "+OK\r\n")
	c.Want("FT._LIST", servertest.Bulk("i"))
}

// TestIndexSwapped: SWAPDB leaves each database its indexes, which have the keys that came.
func TestIndexSwapped(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "4")
	c := h.Dial(t)
	found := func(keys ...string) string {
		return fmt.Sprintf("*%d\r\n:%d\r\n", len(keys)+1, len(keys)) + strings.TrimPrefix(servertest.Bulk(keys...),
			fmt.Sprintf("*%d\r\n", len(keys)))
	}
	c.Want("FT.CREATE zero PREFIX 1 h: SCHEMA t TAG n NUMERIC", "+OK\r\n")
	c.Want("HSET h:1 t a n 1", ":2\r\n")
	c.Want("HSET h:2 t a,b n 2", ":2\r\n")
	c.Want("HSET other t a", ":1\r\n")
	c.Want("SELECT 1", "+OK\r\n")
	c.Want("FT.CREATE one SCHEMA t TAG", "+OK\r\n")
	c.Want("HSET h:3 t b n 3", ":2\r\n")
	c.Want("SET h:4 string", "+OK\r\n")
	for _, tt := range []struct {
		swap             string
		zeroA, zeroB     []string
		oneA, oneB, tags []string
	}{
		{"SWAPDB 0 1", nil, []string{"h:3"}, []string{"h:1", "h:2", "other"}, []string{"h:2"}, []string{"b"}},
		{"MULTI;SWAPDB 1 0;EXEC", []string{"h:1", "h:2"}, []string{"h:2"}, nil, []string{"h:3"}, []string{"a", "b"}},
		{"SWAPDB 0 2", nil, nil, nil, []string{"h:3"}, nil},
		{"SWAPDB 2 0", []string{"h:1", "h:2"}, []string{"h:2"}, nil, []string{"h:3"}, []string{"a", "b"}},
	} {
		for line := range strings.SplitSeq(tt.swap, ";") {
			if got := c.Do(strings.Fields(line)...); got[0] == '-' {
				t.Fatal(got)
			}
		}
		c.Want("SELECT 0", "+OK\r\n")
		c.Want("FT.SEARCH zero @t:{a} RETURN 0", found(tt.zeroA...))
		c.Want("FT.SEARCH zero @t:{b} RETURN 0", found(tt.zeroB...))
		c.Want("FT.TAGVALS zero t", servertest.Bulk(tt.tags...))
		c.Want("SELECT 1", "+OK\r\n")
		c.Want("FT.SEARCH one @t:{a} RETURN 0", found(tt.oneA...))
		c.Want("FT.SEARCH one @t:{b} RETURN 0", found(tt.oneB...))
	}
	c.Want("FT.CREATE v SCHEMA v VECTOR HNSW 6 TYPE FLOAT64 DIM 1 DISTANCE_METRIC L2", "+OK\r\n")
	c.Want("SWAPDB 0 1", "-ERR a database with a search index of vectors cannot be exchanged\r\n")
}

// TestIndexApplied: a server that gets the write batches of another one has its indexes, their definitions too.
func TestIndexApplied(t *testing.T) {
	from, to := servertest.Start(t), servertest.Start(t)
	a, b := from.Dial(t), to.Dial(t)
	for _, step := range []struct{ command, query, want string }{
		{"HSET k t a", "FT._LIST", "*0\r\n"},
		{"FT.CREATE i SCHEMA t TAG", "FT.TAGVALS i t", "*1\r\n$1\r\na\r\n"},
		{"HSET k t b", "FT.SEARCH i @t:{b}", "*3\r\n:1\r\n$1\r\nk\r\n*2\r\n$1\r\nt\r\n$1\r\nb\r\n"},
		{"FLUSHDB", "FT.TAGVALS i t", "*0\r\n"},
		{"FT.DROPINDEX i", "FT._LIST", "*0\r\n"},
	} {
		batches := enginetest.Batches(t, from.DB, func() { a.Do(strings.Fields(step.command)...) })
		if len(batches) != 1 && !strings.HasPrefix(step.command, "FT.CREATE") {
			t.Errorf("%s: %d batches", step.command, len(batches))
		}
		for _, rep := range batches {
			if got := b.Do("APPLYBATCH", string(rep)); got[0] != ':' {
				t.Fatal(got)
			}
		}
		b.Want(step.query, step.want)
		a.Want(step.query, step.want)
	}
}

// TestSearchReturn: which fields a reply has. RETURN 0 leaves the keys alone.
func TestSearchReturn(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("FT.CREATE i SCHEMA t TAG n NUMERIC", "+OK\r\n")
	c.Want("HSET a t x n 1", ":2\r\n")
	c.Want("HSET b t x", ":1\r\n")
	fields := func(pairs ...string) string { return servertest.Bulk(pairs...) }
	row := func(key, fields string) string { return fmt.Sprintf("$%d\r\n%s\r\n%s", len(key), key, fields) }
	for _, tt := range []struct{ query, want string }{
		{"*", "*5\r\n:2\r\n" + row("a", fields("n", "1", "t", "x")) + row("b", fields("t", "x"))},
		{"* RETURN 1 n", "*5\r\n:2\r\n" + row("a", fields("n", "1")) + row("b", fields())},
		{"* RETURN 0", "*3\r\n:2\r\n" + row("a", "") + row("b", "")},
		{"@t:{x} RETURN 0 SORTBY n LIMIT 0 5", "*2\r\n:1\r\n" + row("a", "")},
		{"@t:{y} RETURN 0", "*1\r\n:0\r\n"},
	} {
		c.Want("FT.SEARCH i "+tt.query, tt.want)
	}
	const text = "project nothing: full-scan i"
	c.Want("FT.EXPLAIN i * RETURN 0", row(text, ""))
}

// TestIndexErrors: what is refused, in which words, and that nothing is left of it.
func TestIndexErrors(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("FT.CREATE i SCHEMA t TAG n NUMERIC", "+OK\r\n")
	for command, want := range map[string]string{
		"FT.CREATE i SCHEMA t TAG":              "index already exists",
		"FT.CREATE j":                           "expect SCHEMA section for this index",
		"FT.CREATE j ON LIST SCHEMA t TAG":      "expect HASH or JSON after ON",
		"FT.CREATE j PREFIX 2 a SCHEMA t TAG":   "expect SCHEMA section for this index",
		"FT.CREATE j PREFIX 9 a SCHEMA t TAG":   "no more item to parse",
		"FT.CREATE j SCHEMA t TEXT":             "expect field type TAG, NUMERIC or VECTOR",
		"FT.CREATE j SCHEMA t":                  "expect field type TAG, NUMERIC or VECTOR",
		"FT.CREATE j SCHEMA t TAG SEPARATOR ab": "only one character separator is supported",
		"FT.SEARCH j *":                         "index `j` not found",
		"FT.SEARCH i * LIMIT 1":                 "no more item to parse",
		"FT.SEARCH i * LIMIT a 1":               "value is not an integer or out of range",
		"FT.SEARCH i * RETURN 2 t":              "no more item to parse",
		"FT.SEARCH i * RETURN 1 z":              "field `z` not found in index `i`",
		"FT.SEARCH i * DIALECT 3":               "only DIALECT 2 is supported currently",
		"FT.SEARCH i * PARAMS 1 a":              "nargs of PARAMS must be multiple of 2",
		"FT.SEARCH i * SORTBY t":                "field `t` is not sortable",
		"FT.SEARCH i * NOCONTENT":               "syntax error",
		"FT.SEARCHSQL select":                   "invalid syntax",
		"FT.INFO j":                             "index not found",
		"FT.TAGVALS j t":                        "index not found",
		"FT.DROPINDEX j":                        "index not found",
	} {
		if got := c.Do(strings.Fields(command)...); got != "-ERR "+want+"\r\n" {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	c.Want("FT._LIST", servertest.Bulk("i"))
	const text = "project *: (filter t hastag \"a\": tag-scan t, a)"
	want := fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	c.Want("FT.EXPLAIN i @t:{a}", want)
	for _, format := range [][]string{nil, {"SIMPLE"}} {
		if got := c.Do(append([]string{"FT.EXPLAINSQL", `select * from i where t hastag "a"`}, format...)...); got != want {
			t.Errorf("%q", got)
		}
	}
	if got := c.Do("FT.EXPLAINSQL", "select * from i", "DOT"); got != "-ERR the format DOT is not supported\r\n" {
		t.Errorf("%q", got)
	}
	servertest.Start(t, "cluster-enabled", "yes").Dial(t).Want("FT.CREATE i SCHEMA t TAG",
		"-ERR currently index cannot work in cluster mode\r\n")
	c.Want("ACL SETUSER u on nopass +@all ~h:*", "+OK\r\n")
	c.Want("AUTH u x", "+OK\r\n")
	const denied = "-NOPERM the user may not read all keys, which a query of an index requires\r\n"
	c.Want("FT.SEARCH i *", denied)
	c.Want("FT.TAGVALS i t", denied)
}
