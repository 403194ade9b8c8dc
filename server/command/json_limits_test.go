package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestJSONWrongType: every command except JSON.MGET refuses a key of another type.
func TestJSONWrongType(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "HSET", "h", "f", "v")
	for _, line := range []string{
		`JSON.SET h $ 1`, `JSON.SET h $.a 1`, `JSON.MSET h $ 1`, `JSON.MERGE h $ 1`, `JSON.DEL h`, `JSON.FORGET h $.a`,
		`JSON.CLEAR h`, `JSON.TOGGLE h`, `JSON.NUMINCRBY h $ 1`, `JSON.NUMMULTBY h $ 1`, `JSON.STRAPPEND h '"x"'`,
		`JSON.ARRAPPEND h $ 1`, `JSON.ARRINSERT h $ 0 1`, `JSON.ARRPOP h`, `JSON.ARRTRIM h $ 0 1`, `JSON.GET h`,
		`JSON.TYPE h`, `JSON.ARRLEN h`, `JSON.ARRINDEX h $ 1`, `JSON.OBJKEYS h`, `JSON.OBJLEN h`, `JSON.STRLEN h`,
		`JSON.RESP h`, `JSON.INFO h`, `JSON.DEBUG MEMORY h`,
	} {
		if got, want := do(t, db,
			quotedWords(line)...), "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"; got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	if got := do(t, db, "JSON.MGET", "h", "$"); got != "*1\r\n$-1\r\n" {
		t.Errorf("JSON.MGET: %q", got)
	}
}

// TestJSONCorruptRecord: every command that reads a corrupt record replies with an error that names the key.
func TestJSONCorruptRecord(t *testing.T) {
	db := enginetest.Open(t)
	for _, tail := range []string{"", "\x02{}", "\x00", "\x00{", "\x00{} x", "\x01", "\x01\xbf",
		"\x01\x9b\xff\xff\xff\xff\xff\xff\xff\xff"} {
		require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte("bad")}, func(tx *engine.Tx) error {
			rec := tx.Fresh([]byte("bad"), cf.TypeJSON)
			tx.SaveAppend(&rec, []byte(tail))
			return nil
		}))
		for _, line := range []string{`JSON.GET bad`, `JSON.GET bad $`, `JSON.GET bad $.a`, `JSON.MGET bad $`,
			`JSON.SET bad $.a 1`, `JSON.DEL bad $.a`, `JSON.NUMINCRBY bad $ 1`, `JSON.ARRPOP bad $`, `JSON.TYPE bad`} {
			if got := do(t, db, strings.Fields(line)...); !strings.HasPrefix(got, `-ERR key "bad": `) {
				t.Errorf("%s of %q: %q", line, tail, got)
			}
		}
	}
}

// TestJSONNesting: a document with too many levels of nesting is refused.
func TestJSONNesting(t *testing.T) {
	db := enginetest.Open(t)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, n := range []int{1025, 100_000, 10_000_000} {
		if got := do(t, db, "JSON.SET", "deep", "$",
			nested(n)); got != "-ERR recursion limit exceeded at line 1 column 1025\r\n" {
			t.Errorf("%d arrays: %.100q", n, got)
		}
	}
	for _, s := range []jsonCase{
		{"JSON.SET deep $ " + nested(1024), jsonOK, nil},
		{"JSON.SET d $ " + nested(1000), jsonOK, nil},
		{"JSON.SET d $" + strings.Repeat("[0]", 999) + " " + nested(26), jsonErr("ERR recursion limit exceeded"), nil},
		{"JSON.SET d $" + strings.Repeat("[0]", 999) + " " + nested(25), jsonOK, nil},
		{"JSON.ARRAPPEND d $" + strings.Repeat("[0]", 1023) + " 1 []", jsonErr("ERR recursion limit exceeded"), nil},
		{"JSON.ARRAPPEND d $" + strings.Repeat("[0]", 1023) + " 1", array{1}, nil},
		{"JSON.ARRINSERT d $" + strings.Repeat("[0]", 1022) + " 0 [[]]", jsonErr("ERR recursion limit exceeded"), nil},
		{"JSON.MERGE d $" + strings.Repeat("[0]", 1022) + " " + nested(3), jsonErr("ERR recursion limit exceeded"), nil},
		{"JSON.SET o $ {}", jsonOK, nil},
		{"JSON.SET o $.a " + nested(1024), jsonErr("ERR recursion limit exceeded"), nil},
		{"JSON.SET o $.a " + nested(1023), jsonOK, nil},
		{"JSON.MSET o $.b 1 o $.c " + nested(1024), jsonErr("ERR recursion limit exceeded"), nil},
		{"JSON.OBJKEYS o", array{"a"}, nil},
	} {
		if got := do(t, db, quotedWords(s.line)...); got != jsonReply(2, s.want) {
			t.Errorf("%.60s: %.200q", s.line, got)
		}
	}
}

// jsonSettings are settings with given values.
type jsonSettings struct {
	testSettings
	settings map[string]string
	maxBulk  int64
}

func (s jsonSettings) Get(name string) (string, bool) { v, ok := s.settings[name]; return v, ok }

func (s jsonSettings) MaxBulk() int64 { return s.maxBulk }

// runOn is doOn with RESP2, for a line with quotes, see quotedWords.
func runOn(t *testing.T, s *Server, line string) string {
	t.Helper()
	args := bytesOf(quotedWords(line)...)
	spec, err := Resolve(args)
	require.NoError(t, err)
	var keys [][]byte
	for _, k := range spec.AppendKeys(nil, args) {
		keys = append(keys, args[k.Arg])
	}
	return writeWith(t, s.DB, func(c *Ctx) {
		err := s.DB.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
			*c = Ctx{Args: args, Out: c.Out, Tx: tx, Spec: spec, Srv: s}
			return spec.Handler(c)
		})
		if err != nil {
			c.Out.Reset()
			WriteError(c.Out, err)
		}
	})
}

// TestJSONSettings: documents are written in the format and with the max nesting of the settings. Both formats can be
// read, and documents with more nesting.
func TestJSONSettings(t *testing.T) {
	s, settings := testServer(enginetest.Open(t)), map[string]string{}
	s.Settings = jsonSettings{settings: settings, maxBulk: 1 << 20}
	check := func(line string, want any) {
		t.Helper()
		if got := runOn(t, s, line); got != jsonReply(2, want) {
			t.Errorf("%s: %q, want %q", line, got, jsonReply(2, want))
		}
	}
	check(`JSON.SET text $ '{"b":[1,2.5,"x"],"a":null}'`, jsonOK)
	settings["json-storage-format"] = "cbor"
	check(`JSON.SET cbor $ '{"b":[1,2.5,"x"],"a":null}'`, jsonOK)
	for key, format := range map[string]string{"text": "json", "cbor": "cbor"} {
		check("JSON.INFO "+key, array{"storage_format", format})
		check("JSON.GET "+key, `{"b":[1,2.5,"x"],"a":null}`)
		check("JSON.GET "+key+" $", `[{"b":[1,2.5,"x"],"a":null}]`)
		check("JSON.GET "+key+" .b[1]", `2.5`)
	}
	check("JSON.DEBUG MEMORY cbor", 15)
	check("JSON.DEBUG MEMORY cbor .b", 9)
	check("JSON.DEBUG MEMORY text .b", 11)
	check("JSON.ARRAPPEND text $.b 3", array{4})
	check("JSON.INFO text", array{"storage_format", "cbor"})
	settings["json-storage-format"] = "json"
	check("JSON.NUMINCRBY cbor .b[0] 1", "2")
	check("JSON.INFO cbor", array{"storage_format", "json"})
	check("JSON.GET cbor .b", "[2,2.5,\"x\"]")
	check("JSON.GET text .b", "[1,2.5,\"x\",3]")

	settings["json-max-nesting-depth"] = "3"
	check("JSON.SET n $ [[[]]]", jsonOK)
	check("JSON.SET n $ [[[[]]]]", jsonErr("ERR recursion limit exceeded at line 1 column 4"))
	check("JSON.SET n $[0][0] [[]]", jsonErr("ERR recursion limit exceeded"))
	settings["json-max-nesting-depth"] = "1"
	check("JSON.GET n", "[[[]]]") // a stored document can be read, whatever its nesting
	check("JSON.TYPE n $[0][0]", array{"array"})
}

// TestJSONBounds: commands fail early if they would turn a small document into a very large document or reply, or visit
// its values too often. Without the bounds most of these commands would not end before the test times out, and the
// others would have another reply.
func TestJSONBounds(t *testing.T) {
	s := testServer(enginetest.Open(t))
	s.Settings = jsonSettings{settings: map[string]string{"json-max-nesting-depth": "1000"}, maxBulk: 1 << 20}
	long := strings.Repeat("x", 4000)
	nested := strings.Repeat(`{"a":`, 900) + `"` + long + `"` + strings.Repeat("}", 900)
	runOn(t, s, "JSON.SET deep $ "+nested)
	runOn(t, s, "JSON.SET wide $ ["+strings.Repeat("1,", 9999)+"1]")
	const (
		replyLong = "-ERR the reply would be too long\r\n"
		tooLarge  = "-ERR the document would be too large\r\n"
		tooMuch   = "-ERR the path takes too much work or has too many results\r\n"
	)
	for _, c := range []struct{ line, want string }{
		{"JSON.GET deep $..*", replyLong},
		{"JSON.GET deep $..a $..*", replyLong},
		{"JSON.MGET deep $..*", replyLong},
		{"JSON.MGET wide " + strings.Repeat("wide ", 60) + "$", replyLong},
		{"JSON.RESP deep $..*", replyLong},
		{"JSON.GET deep " + "INDENT " + long + " $", replyLong},
		{"JSON.GET deep $..*..*..*", tooMuch},
		{"JSON.GET deep $" + strings.Repeat("..*", 100), tooMuch},
		{"JSON.MGET deep deep $..*..*..*..*", tooMuch},
		{"JSON.DEL deep $" + strings.Repeat("..*", 10), tooMuch},
		{"JSON.GET wide '$[?(count($[?(count($[?(@>0)])>0)])>0)]'", tooMuch},
		{"JSON.GET wide $[" + strings.Repeat("*,", 1000) + "*]", tooMuch},
		{`JSON.SET wide $[*] '"` + long + `"'`, tooLarge},
		{"JSON.SET wide $[0] 2", "+OK\r\n"}, // the refused commands have changed nothing
		{"JSON.MSET wide $[*] [" + strings.Repeat("1,", 999) + "1] wide $[0] 1", tooMuch},
		{`JSON.MERGE wide $[*] {"a":{},"b":"` + long + `"}`, tooLarge},
		{`JSON.STRAPPEND deep $..a '"` + strings.Repeat("x", 1<<20) + `"'`, tooLarge},
		{"JSON.ARRAPPEND wide $" + " " + strings.Repeat(`"`+long+`" `, 300), tooLarge},
	} {
		if got := runOn(t, s, c.line); got != c.want {
			t.Errorf("%.60s: %.100q", c.line, got)
		}
	}
	if got := runOn(t, s, "JSON.GET wide $[0]"); got != "$3\r\n[2]\r\n" {
		t.Errorf("%q", got)
	}
}
