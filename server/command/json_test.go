package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// quotedWords splits a line at blanks. A text between two ' is one word.
func quotedWords(line string) []string {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var word string
		if line[0] == '\'' {
			word, line, _ = strings.Cut(line[1:], "'")
		} else {
			word, line, _ = strings.Cut(line, " ")
		}
		words = append(words, word)
	}
	return words
}

// jsonReply encodes a reply: a string becomes a bulk string, nil null, an int an integer, and a []any an array.
func jsonReply(proto int, v any) string {
	switch v := v.(type) {
	case nil:
		if proto == 3 {
			return "_\r\n"
		}
		return "$-1\r\n"
	case int:
		return fmt.Sprintf(":%d\r\n", v)
	case string:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v), v)
	case raw:
		return string(v) + "\r\n"
	case float64:
		if proto == 3 {
			return fmt.Sprintf(",%v\r\n", v)
		}
		return jsonReply(proto, fmt.Sprint(v))
	case []any:
		s := fmt.Sprintf("*%d\r\n", len(v))
		for _, e := range v {
			s += jsonReply(proto, e)
		}
		return s
	}
	panic(fmt.Sprintf("no reply for %T", v))
}

// raw is a line of a reply, without CRLF.
type raw string

const jsonOK = raw("+OK")

func jsonErr(text string) raw { return raw("-" + text) }

type array = []any

// jsonCase is a command and its reply. want3 is the reply in RESP3 if it differs in more than the notation of null and
// doubles.
type jsonCase struct {
	line  string
	want  any
	want3 any
}

func runJSON(t *testing.T, cases []jsonCase) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		db := enginetest.Open(t)
		for _, c := range cases {
			want := c.want
			if proto == 3 && c.want3 != nil {
				want = c.want3
			}
			if got := doProto(t, db, proto, quotedWords(c.line)...); got != jsonReply(proto, want) {
				t.Errorf("RESP%d %s:\n%q, want\n%q", proto, c.line, got, jsonReply(proto, want))
			}
		}
	}
}

const noJSONKey = "ERR could not perform this operation on a key that doesn't exist"

// TestJSONDocumentation runs the examples of the documentation of RedisJSON.
func TestJSONDocumentation(t *testing.T) {
	const item = `{"name":"Noise-cancelling Bluetooth headphones","description":"Wireless Bluetooth headphones with ` +
		`noise-cancelling technology","connection":{"wireless":true,"type":"Bluetooth"},"price":99.98,"stock":25,` +
		`"colors":["black","silver"]}`
	const two = `[{"name":"Healthy headphones","max_level":[60,70,80]},{"name":"Noisy ` +
		`headphones","max_level":[80,90,100,120]}]`
	runJSON(t, []jsonCase{
		// JSON.SET
		{`JSON.SET doc $ '{"a":2}'`, jsonOK, nil},
		{`JSON.SET doc $.a '3'`, jsonOK, nil},
		{`JSON.GET doc $`, `[{"a":3}]`, nil},
		{`JSON.SET doc $ '{"a":2}'`, jsonOK, nil},
		{`JSON.SET doc $.b '8'`, jsonOK, nil},
		{`JSON.GET doc $`, `[{"a":2,"b":8}]`, nil},
		{`JSON.SET doc $ '{"f1": {"a":1}, "f2":{"a":2}}'`, jsonOK, nil},
		{`JSON.SET doc $..a 3`, jsonOK, nil},
		{`JSON.GET doc`, `{"f1":{"a":3},"f2":{"a":3}}`, nil},
		// JSON.GET
		{`JSON.SET doc $ '{"a":2, "b": 3, "nested": {"a": 4, "b": null}}'`, jsonOK, nil},
		{`JSON.GET doc $..b`, `[3,null]`, nil},
		{`JSON.GET doc ..a $..b`, `{"..a":[2,4],"$..b":[3,null]}`, nil},
		// JSON.MERGE
		{`JSON.SET doc $ '{"a":2}'`, jsonOK, nil},
		{`JSON.MERGE doc $.b '8'`, jsonOK, nil},
		{`JSON.GET doc $`, `[{"a":2,"b":8}]`, nil},
		{`JSON.MERGE doc $.a '3'`, jsonOK, nil},
		{`JSON.GET doc $`, `[{"a":3,"b":8}]`, nil},
		{`JSON.MERGE doc $.a 'null'`, jsonOK, nil},
		{`JSON.GET doc $`, `[{"b":8}]`, nil},
		{`JSON.SET doc $ '{"a":[2,4,6,8]}'`, jsonOK, nil},
		{`JSON.MERGE doc $.a '[10,12]'`, jsonOK, nil},
		{`JSON.GET doc $`, `[{"a":[10,12]}]`, nil},
		{`JSON.SET doc $ '{"f1": {"a":1}, "f2":{"a":2}}'`, jsonOK, nil},
		{`JSON.MERGE doc $ '{"f1": null, "f2":{"a":3, "b":4}, "f3":[2,4,6]}'`, jsonOK, nil},
		{`JSON.GET doc`, `{"f2":{"a":3,"b":4},"f3":[2,4,6]}`, nil},
		// JSON.MGET, JSON.MSET
		{`JSON.MSET doc1 $ '{"a":1, "b": 2, "nested": {"a": 3}, "c": null}' doc2 $ '{"a":4, "b": 5, "nested": {"a": 6}, ` +
			`"c": null}'`, jsonOK, nil},
		{`JSON.MGET doc1 doc2 $..a`, array{`[1,3]`, `[4,6]`}, nil},
		{`JSON.MSET doc1 $ '{"a":1}' doc2 $ '{"f":{"a":2}}' doc3 $ '{"f1":{"a":0},"f2":{"a":0}}'`, jsonOK, nil},
		{`JSON.MSET doc1 $ '{"a":2}' doc2 $.f.a '3' doc3 $ '{"f1":{"a":1},"f2":{"a":2}}'`, jsonOK, nil},
		{`JSON.MGET doc1 doc2 doc3 $`, array{`[{"a":2}]`, `[{"f":{"a":3}}]`, `[{"f1":{"a":1},"f2":{"a":2}}]`}, nil},
		// JSON.ARRAPPEND, JSON.ARRINSERT, JSON.ARRINDEX
		{`JSON.SET item:1 $ '` + item + `'`, jsonOK, nil},
		{`JSON.ARRAPPEND item:1 $.colors '"blue"'`, array{3}, nil},
		{`JSON.GET item:1`, strings.Replace(item, `"silver"`, `"silver","blue"`, 1), nil},
		{`JSON.GET item:1 '$.colors[*]'`, `["black","silver","blue"]`, nil},
		{`JSON.ARRINSERT item:1 $.colors 2 '"yellow"' '"gold"'`, array{5}, nil},
		{`JSON.GET item:1 $.colors`, `[["black","silver","yellow","gold","blue"]]`, nil},
		{`JSON.ARRINDEX item:1 $..colors '"silver"'`, array{1}, nil},
		// JSON.ARRPOP, JSON.ARRTRIM
		{`JSON.SET key $ '` + two + `'`, jsonOK, nil},
		{`JSON.GET key $.[1].max_level`, `[[80,90,100,120]]`, nil},
		{`JSON.ARRPOP key $.[1].max_level 0`, array{`80`}, nil},
		{`JSON.GET key $.[1].max_level`, `[[90,100,120]]`, nil},
		{`JSON.ARRINSERT key $.[1].max_level 0 85`, array{4}, nil},
		{`JSON.ARRAPPEND key $.[1].max_level 140 160 180 200 220 240 260 280`, array{12}, nil},
		{`JSON.ARRTRIM key $.[1].max_level 4 8`, array{5}, nil},
		{`JSON.GET key $.[1].max_level`, `[[140,160,180,200,220]]`, nil},
		// JSON.ARRLEN
		{`JSON.SET item:2 $ '{"name":"Wireless earbuds","colors":["black","white"],"max_level":[80, 100, 120]}'`,
			jsonOK, nil},
		{`JSON.ARRLEN item:2 '$.[*]'`, array{nil, 2, 3}, nil},
		{`JSON.ARRLEN item:2 '$.max_level'`, array{3}, nil},
		// JSON.CLEAR
		{`JSON.SET doc $ '{"obj":{"a":1, "b":2}, "arr":[1,2,3], "str": "foo", "bool": true, "int": 42, "float": 3.14}'`,
			jsonOK, nil},
		{`JSON.CLEAR doc $.*`, 4, nil},
		{`JSON.GET doc $`, `[{"obj":{},"arr":[],"str":"foo","bool":true,"int":0,"float":0}]`, nil},
		{`JSON.CLEAR doc $.*`, 0, nil},
		// JSON.DEL
		{`JSON.SET doc $ '{"a": 1, "nested": {"a": 2, "b": 3}}'`, jsonOK, nil},
		{`JSON.DEL doc $..a`, 2, nil},
		{`JSON.GET doc $`, `[{"nested":{"b":3}}]`, nil},
		// JSON.NUMINCRBY, JSON.NUMMULTBY
		{`JSON.SET doc . '{"a":"b","b":[{"a":2}, {"a":5}, {"a":"c"}]}'`, jsonOK, nil},
		{`JSON.NUMINCRBY doc $.a 2`, `[null]`, array{nil}},
		{`JSON.NUMINCRBY doc $..a 2`, `[null,4,7,null]`, array{nil, 4, 7, nil}},
		{`JSON.SET doc . '{"a":"b","b":[{"a":2}, {"a":5}, {"a":"c"}]}'`, jsonOK, nil},
		{`JSON.NUMMULTBY doc $.a 2`, `[null]`, array{nil}},
		{`JSON.NUMMULTBY doc $..a 2`, `[null,4,10,null]`, array{nil, 4, 10, nil}},
		// JSON.OBJKEYS, JSON.OBJLEN
		{`JSON.SET doc $ '{"a":[3], "nested": {"a": {"b":2, "c": 1}}}'`, jsonOK, nil},
		{`JSON.OBJKEYS doc $..a`, array{nil, array{"b", "c"}}, nil},
		{`JSON.OBJLEN doc $..a`, array{nil, 2}, nil},
		// JSON.STRAPPEND, JSON.STRLEN
		{`JSON.SET doc $ '{"a":"foo", "nested": {"a": "hello"}, "nested2": {"a": 31}}'`, jsonOK, nil},
		{`JSON.STRAPPEND doc $..a '"baz"'`, array{6, 8, nil}, nil},
		{`JSON.GET doc $`, `[{"a":"foobaz","nested":{"a":"hellobaz"},"nested2":{"a":31}}]`, nil},
		{`JSON.STRLEN doc $..a`, array{6, 8, nil}, nil},
		// JSON.TOGGLE
		{`JSON.SET doc $ '{"bool": true}'`, jsonOK, nil},
		{`JSON.TOGGLE doc $.bool`, array{0}, nil},
		{`JSON.TOGGLE doc $.bool`, array{1}, nil},
		// JSON.TYPE
		{`JSON.SET doc $ '{"a":2, "nested": {"a": true}, "foo": "bar"}'`, jsonOK, nil},
		{`JSON.TYPE doc $..foo`, array{"string"}, array{array{"string"}}},
		{`JSON.TYPE doc $..a`, array{"integer", "boolean"}, array{array{"integer", "boolean"}}},
		{`JSON.TYPE doc $..dummy`, array{}, array{array{}}},
		// JSON.RESP
		{`JSON.SET item:2 $ '{"name":"Wireless ` +
			`earbuds","connection":{"wireless":true,"type":"Bluetooth"},"price":64.99,"stock":17,"colors":["black","white"],` +
			`"x":null}'`, jsonOK, nil},
		{`JSON.RESP item:2`, array{raw("+{"), "name", "Wireless earbuds", "connection",
			array{raw("+{"), "wireless", raw("+true"), "type", "Bluetooth"},
			"price", 64.99, "stock", 17, "colors", array{raw("+["), "black", "white"}, "x", nil}, nil},
		{`JSON.RESP item:2 $.colors`, array{array{raw("+["), "black", "white"}}, nil},
	})
}

// TestJSONPathKinds checks the replies for legacy paths and for paths without results.
func TestJSONPathKinds(t *testing.T) {
	missing := func(path string) raw { return jsonErr("ERR Path '" + path + "' does not exist") }
	runJSON(t, []jsonCase{
		{`JSON.SET d . '{"s":"str","n":1,"f":1.5,"b":true,"z":null,"a":[1,2,[3]],"o":{"x":1,"y":"q"}}'`, jsonOK, nil},
		{`JSON.GET d .`, `{"s":"str","n":1,"f":1.5,"b":true,"z":null,"a":[1,2,[3]],"o":{"x":1,"y":"q"}}`, nil},
		{`JSON.GET d s`, `"str"`, nil},
		{`JSON.GET d .a[2][0]`, `3`, nil},
		{`JSON.GET d a[0]`, `1`, nil},
		{`JSON.GET d .nope`, missing("$.nope"), nil},
		{`JSON.GET d $.nope`, `[]`, nil},
		{`JSON.GET d .n .o.x`, `{".n":1,".o.x":1}`, nil},
		{`JSON.GET d .n .nope`, missing("$.nope"), nil},
		{`JSON.GET d .n $.nope .n`, `{".n":[1],"$.nope":[]}`, nil},
		{`JSON.GET d INDENT '  ' NEWLINE '|' SPACE '~' .o`, `{|  "x":~1,|  "y":~"q"|}`, nil},
		{`JSON.GET d NEWLINE '|' indent - $.a`, `[|-[|--1,|--2,|--[|---3|--]|-]|]`, nil},
		{`JSON.GET d INDENT - NOESCAPE $.nope`, `[]`, nil},
		{`JSON.GET d INDENT - .n`, `1`, nil},
		{`JSON.GET d INDENT`, jsonErr("ERR wrong number of arguments for 'json.get' command"), nil},
		{`JSON.GET d FORMAT STRING $.n`, jsonErr("ERR FORMAT argument is not supported on RESP2"), `[1]`},
		{`JSON.GET d FORMAT EXPAND1 $.* $.o.x`, jsonErr("ERR FORMAT argument is not supported on RESP2"),
			array{array{`"str"`, 1, 1.5, raw("#t"), nil, `[1,2,[3]]`, `{"x":1,"y":"q"}`}, array{1}}},
		{`JSON.GET d FORMAT EXPAND $.*`, jsonErr("ERR FORMAT argument is not supported on RESP2"),
			array{array{"str", 1, 1.5, raw("#t"), nil, array{1, 2, array{3}},
				raw("%2\r\n$1\r\nx\r\n:1\r\n$1\r\ny\r\n$1\r\nq")}}},
		{`JSON.GET d FORMAT STRINGS $.*`, jsonErr("ERR FORMAT argument is not supported on RESP2"),
			jsonErr("ERR wrong reply format")},
		{`JSON.GET nokey`, nil, nil},
		{`JSON.GET nokey $.a $.b`, nil, nil},

		{`JSON.TYPE d`, "object", array{"object"}},
		{`JSON.TYPE d .f`, "number", array{"number"}},
		{`JSON.TYPE d $.*`, array{"string", "integer", "number", "boolean", "null", "array", "object"},
			array{array{"string", "integer", "number", "boolean", "null", "array", "object"}}},
		{`JSON.TYPE d .nope`, nil, array{nil}},
		{`JSON.TYPE nokey`, nil, array{nil}},
		{`JSON.TYPE nokey $`, nil, array{nil}},

		{`JSON.MGET d nokey d .n`, array{"1", nil, "1"}, nil},
		{`JSON.MGET d nokey $.n`, array{"[1]", nil}, nil},
		{`JSON.MGET d .nope`, array{nil}, nil},
		{`JSON.MGET d $[`, array{nil}, nil},

		{`JSON.ARRLEN d .a`, 3, nil},
		{`JSON.ARRLEN d .n`, jsonErr("ERR Path '$.n' does not exist or not an array"), nil},
		{`JSON.ARRLEN d .nope`, missing("$.nope"), nil},
		{`JSON.ARRLEN nokey`, nil, nil},
		{`JSON.ARRLEN nokey $.a`, jsonErr(noJSONKey), nil},
		{`JSON.OBJLEN d`, 7, nil},
		{`JSON.OBJLEN d .o`, 2, nil},
		{`JSON.OBJLEN d .nope`, nil, nil},
		{`JSON.OBJLEN d .a`, jsonErr("WRONGTYPE wrong type of path value - expected object but found array"), nil},
		{`JSON.OBJLEN nokey`, nil, nil},
		{`JSON.OBJLEN nokey $.o`, jsonErr("ERR Path '$.o' does not exist or not an object"), nil},
		{`JSON.OBJKEYS d .o`, array{"x", "y"}, nil},
		{`JSON.OBJKEYS d .nope`, nil, nil},
		{`JSON.OBJKEYS d .n`, jsonErr("ERR Path '$.n' does not exist or not an object"), nil},
		{`JSON.OBJKEYS nokey`, nil, nil},
		{`JSON.OBJKEYS nokey $`, jsonErr(noJSONKey), nil},
		{`JSON.STRLEN d .s`, 3, nil},
		{`JSON.STRLEN d .n`, jsonErr("WRONGTYPE wrong type of path value - expected string but found integer"), nil},
		{`JSON.STRLEN d .nope`, missing("$.nope"), nil},
		{`JSON.STRLEN nokey`, nil, nil},
		{`JSON.STRLEN nokey $`, jsonErr(noJSONKey), nil},
		{`JSON.RESP d .a`, array{raw("+["), 1, 2, array{raw("+["), 3}}, nil},
		{`JSON.RESP d .nope`, missing("$.nope"), nil},
		{`JSON.RESP d $.b`, array{raw("+true")}, nil},
		{`JSON.RESP d $.nope`, array{}, nil},
		{`JSON.RESP nokey`, nil, nil},

		{`JSON.ARRINDEX d .a 2`, 1, nil},
		{`JSON.ARRINDEX d .a [3]`, 2, nil},
		{`JSON.ARRINDEX d .a 2 2`, -1, nil},
		{`JSON.ARRINDEX d .a 2 0 -1`, 1, nil},
		{`JSON.ARRINDEX d .a 2 0 -2`, -1, nil},
		{`JSON.ARRINDEX d .a [3] 100`, 2, nil},
		{`JSON.ARRINDEX d .a 2.0`, -1, nil},
		{`JSON.ARRINDEX d .n 2`, jsonErr("WRONGTYPE wrong type of path value - expected array but found integer"), nil},
		{`JSON.ARRINDEX d .nope 2`, missing("$.nope"), nil},
		{`JSON.ARRINDEX d $.* 1`, array{nil, nil, nil, nil, nil, 0, nil}, nil},
		{`JSON.ARRINDEX nokey $ 1`, missing("$"), nil},
		{`JSON.ARRINDEX d .a 2 x`, jsonErr("ERR value is not an integer or out of range"), nil},
		{`JSON.ARRINDEX d .a 2 0 0 0`, jsonErr("ERR wrong number of arguments for 'json.arrindex' command"), nil},

		{`JSON.DEBUG MEMORY d .a`, 9, nil},
		{`JSON.DEBUG MEMORY d $.a`, array{9}, nil},
		{`JSON.DEBUG MEMORY d`, 77, nil},
		{`JSON.DEBUG MEMORY d $`, array{77}, nil},
		{`JSON.DEBUG MEMORY d .nope`, missing("$.nope"), nil},
		{`JSON.DEBUG MEMORY d $.nope`, array{}, nil},
		{`JSON.DEBUG MEMORY nokey`, 0, nil},
		{`JSON.DEBUG MEMORY nokey $`, array{}, nil},
		{`JSON.DEBUG NOPE d`, jsonErr("ERR unknown subcommand 'NOPE'. Try JSON.DEBUG HELP."), nil},
		{`JSON.INFO d`, array{"storage_format", "json"}, nil},
		{`JSON.INFO nokey`, jsonErr(noJSONKey), nil},
	})
}

// TestJSONWrites checks the replies of commands that write, with legacy paths and in case of errors.
func TestJSONWrites(t *testing.T) {
	const root = "ERR new objects must be created at the root"
	runJSON(t, []jsonCase{
		{`JSON.SET d $ 1 XX`, nil, nil},
		{`JSON.SET d $ '{"a":{"b":[1]}}' NX`, jsonOK, nil},
		{`JSON.SET d $ 2 NX`, nil, nil},
		{`JSON.SET d $ 2 NX XX`, jsonErr("ERR syntax error"), nil},
		{`JSON.SET d $ 2 FORMAT`, jsonErr("ERR syntax error"), nil},
		{`JSON.SET d $ 2 NX FORMAT BSON`, jsonErr("ERR wrong format"), nil},
		{`JSON.SET d $.a.c 5 XX`, nil, nil},
		{`JSON.SET d $.a.c 5 NX FORMAT JSON`, jsonOK, nil},
		{`JSON.SET d $.a.c 6 NX`, nil, nil},
		{`JSON.SET d .a.c 6 XX`, jsonOK, nil},
		{`JSON.GET d`, `{"a":{"b":[1],"c":6}}`, nil},
		{`JSON.SET d $.a.b[1] 5`, jsonErr("ERR array index out of range"), nil},
		{`JSON.SET d $.a.b[0] 5 NX`, nil, nil},
		{`JSON.SET d $.x.y 5`, nil, nil},
		{`JSON.SET d $.a.c.y 5`, nil, nil},
		{`JSON.SET d $..nope 5`, jsonErr("ERR wrong static path"), nil},
		{`JSON.SET d '$.a["d","e"]' 5`, jsonErr("ERR wrong static path"), nil},
		{`JSON.SET d '$.a["d"]' '"x"'`, jsonOK, nil},
		{`JSON.SET nokey $.a 1`, jsonErr(root), nil},
		{`JSON.SET nokey $.a 1 NX`, jsonErr(root), nil},
		{`JSON.SET nokey $.a 1 XX`, nil, nil},
		{`JSON.SET nokey $ '{"a":}'`, jsonErr("ERR expected value at line 1 column 6"), nil},
		{`JSON.SET d $ '{"a":}' NX`, jsonErr("ERR expected value at line 1 column 6"), nil},
		{`JSON.SET d $.a '[1,]'`, jsonErr("ERR trailing comma at line 1 column 4"), nil},
		{`JSON.SET d '' 1`,
			jsonErr(`ERR Error occurred on position 2, "$. <<<<----", expected one of the following: <string>, '*', '['.`), nil},
		{`EXISTS nokey`, 0, nil},
		{`JSON.GET d`, `{"a":{"b":[1],"c":6,"d":"x"}}`, nil},

		{`JSON.MSET d $.a.c 7 e $ '{"q":1}' e $.r 2 e $..s 3`, jsonErr("ERR wrong static path"), nil},
		{`JSON.MSET d $.a.c 7 e $.q 1`, jsonErr(root), nil},
		{`JSON.MSET d $.a.c 7 e $`, jsonErr("ERR wrong number of arguments for 'json.mset' command"), nil},
		{`JSON.MSET d $.a.c 7 e $ '{"q":{},"p":{}}' e $.* '{"v":1}' e $.p.v 2`, jsonOK, nil},
		{`JSON.MGET d e .`, array{`{"a":{"b":[1],"c":7,"d":"x"}}`, `{"q":{"v":1},"p":{"v":2}}`}, nil},

		{`JSON.MERGE nokey $.a 1`, jsonErr(root), nil},
		{`JSON.MERGE m $ '{"a":{"b":1,"c":null},"d":[1]}'`, jsonOK, nil},
		{`JSON.MERGE m $ '{"a":{"b":null,"x":{"y":null,"z":2}},"d":{"e":1},"f":null}'`, jsonOK, nil},
		{`JSON.GET m`, `{"a":{"c":null,"x":{"z":2}},"d":{"e":1}}`, nil},
		{`JSON.MERGE m $..* '{"k":1}'`, jsonOK, nil},
		{`JSON.GET m`, `{"a":{"c":{"k":1},"x":{"z":{"k":1},"k":1},"k":1},"d":{"e":{"k":1},"k":1}}`, nil},
		{`JSON.MERGE m $.a.* null`, jsonOK, nil},
		{`JSON.MERGE m $.nope.x 1`, nil, nil},
		{`JSON.MERGE m $..nope 1`, jsonErr("ERR wrong static path"), nil},
		{`JSON.GET m`, `{"a":{},"d":{"e":{"k":1},"k":1}}`, nil},
		{`JSON.SET m $ '{"x":{"a":1,"b":{"a":2,"c":3},"d":{"a":5}}}'`, jsonOK, nil},
		{`JSON.MERGE m $..* '{"a":null}'`, jsonOK, nil}, // moves and removes members that are results themselves
		{`JSON.GET m`, `{"x":{"b":{"c":{}},"d":{}}}`, nil},
		{`JSON.SET m $ '{"p":{"q":{"r":{"s":{}}}}}'`, jsonOK, nil},
		{`JSON.MERGE m $..*..* '{"s":null}'`, jsonOK, nil}, // finds values several times
		{`JSON.GET m`, `{"p":{"q":{"r":{}}}}`, nil},
		{`JSON.MERGE m $ null`, jsonOK, nil},
		{`JSON.GET m`, `null`, nil},
		{`JSON.MERGE m $ 1 FORMAT`, jsonErr("ERR syntax error"), nil},
		{`JSON.MERGE m $ 1 FORMAT BSON`, jsonErr("ERR wrong format"), nil},
		{`JSON.MERGE m $ 1 format JSON`, jsonOK, nil},
		{`JSON.GET m`, `1`, nil},

		{`JSON.DEL nokey`, 0, nil},
		{`JSON.DEL nokey $.a`, 0, nil},
		{`JSON.DEL d $.nope`, 0, nil},
		{`JSON.DEL d .a.d`, 1, nil},
		{`JSON.FORGET d`, 1, nil},
		{`EXISTS d`, 0, nil},
		{`JSON.SET d $ '{"b":[1,2,3],"x":{"b":[1,2,3],"c":[[1],[1,2,3]]}}'`, jsonOK, nil},
		{`JSON.DEL d $..x.b[1,0,2,0]`, 3, nil},
		{`JSON.DEL d $..[0]`, 3, nil}, // not the 1 in the [1] that is deleted
		{`JSON.GET d`, `{"b":[2,3],"x":{"b":[],"c":[[2,3]]}}`, nil},
		{`JSON.DEL d a b`, jsonErr("ERR wrong number of arguments for 'json.del' command"), nil},

		{`JSON.CLEAR nokey`, jsonErr(noJSONKey), nil},
		{`JSON.CLEAR d $..*`, 2, nil},
		{`JSON.CLEAR d`, 1, nil},
		{`JSON.GET d`, `{}`, nil},

		{`JSON.SET d $ '{"b":true,"n":2,"s":"x","a":[1,[2],{"b":false}],"e":[]}'`, jsonOK, nil},
		{`JSON.RESP d $..b`, array{raw("+true"), raw("+false")}, nil},
		{`JSON.TOGGLE d .b`, "false", nil},
		{`JSON.TOGGLE d ..b`, "true", nil},
		{`JSON.TOGGLE d .n`, jsonErr("ERR Path '$.n' does not exist or not a bool"), nil},
		{`JSON.TOGGLE d $.*`, array{0, nil, nil, nil, nil}, nil},
		{`JSON.TOGGLE nokey $`, jsonErr(noJSONKey), nil},

		{`JSON.NUMINCRBY d .n 3`, "5", array{5}},
		{`JSON.NUMINCRBY d .n 0.5`, "5.5", array{5.5}},
		{`JSON.NUMMULTBY d .n 2`, "11.0", array{raw(",11")}},
		{`JSON.NUMINCRBY d .s 3`, jsonErr("ERR Path '$.s' does not exist or does not contains a number"), array{nil}},
		{`JSON.NUMINCRBY d .n x`, jsonErr("ERR expected value at line 1 column 1"), nil},
		{`JSON.NUMINCRBY d .n '"1"'`, jsonErr("ERR bad input number"), nil},
		{`JSON.NUMMULTBY d .n 1e308`, jsonErr("ERR result is not a number"), nil},
		{`JSON.NUMINCRBY nokey $ 1`, jsonErr(noJSONKey), nil},
		{`JSON.SET d $.n 9223372036854775806`, jsonOK, nil},
		{`JSON.NUMINCRBY d $.n 1`, `[9223372036854775807]`, array{9223372036854775807}},
		{`JSON.NUMINCRBY d $.n 1`, `[9223372036854775808]`, array{raw("(9223372036854775808")}},

		{`JSON.STRAPPEND d .s '"y"'`, 2, nil},
		{`JSON.STRAPPEND d .n '"y"'`, jsonErr("ERR Path '$.n' does not exist or not a string"), nil},
		{`JSON.STRAPPEND d .s 1`, jsonErr("WRONGTYPE wrong type of path value - expected string but found integer"), nil},
		{`JSON.STRAPPEND d .s '"y"' z`, jsonErr("ERR wrong number of arguments for 'json.strappend' command"), nil},
		{`JSON.SET str $ '"é"'`, jsonOK, nil},
		{`JSON.STRAPPEND str '"\u00fc"'`, 4, nil},
		{`JSON.GET str`, `"éü"`, nil},

		{`JSON.ARRAPPEND d .a '{"q":1}' 4`, 5, nil},
		{`JSON.ARRAPPEND d .n 1`, jsonErr("ERR Path '$.n' does not exist or not an array"), nil},
		{`JSON.ARRAPPEND d $.* 1`, array{nil, nil, nil, 6, 1}, nil},
		{`JSON.ARRAPPEND nokey $ 1`, jsonErr(noJSONKey), nil},
		{`JSON.ARRAPPEND d $.a 1 ]`, jsonErr("ERR expected value at line 1 column 1"), nil},
		{`JSON.ARRINSERT d .a -1 7 8`, 8, nil},
		{`JSON.ARRINSERT d $.a 8 9`, array{9}, nil},
		{`JSON.ARRINSERT d $.a 10 9`, jsonErr("ERR index out of bounds"), nil},
		{`JSON.ARRINSERT d $.a -10 9`, jsonErr("ERR index out of bounds"), nil},
		{`JSON.ARRINSERT d $.a x 9`, jsonErr("ERR value is not an integer or out of range"), nil},
		{`JSON.GET d .a`, `[1,[2],{"b":true},{"q":1},4,7,8,1,9]`, nil},
		{`JSON.ARRPOP d .a`, "9", nil},
		{`JSON.ARRPOP d .a -100`, "1", nil},
		{`JSON.ARRPOP d $.a 100`, array{"1"}, nil},
		{`JSON.ARRPOP d $.e`, array{"1"}, nil},
		{`JSON.ARRPOP d $.e`, array{nil}, nil},
		{`JSON.ARRPOP d .e`, nil, nil},
		{`JSON.ARRPOP d`, jsonErr("ERR Path '$' does not exist or not an array"), nil},
		{`JSON.ARRPOP d $.a 0 0`, jsonErr("ERR wrong number of arguments for 'json.arrpop' command"), nil},
		{`JSON.ARRPOP d $.a x`, jsonErr("ERR value is not an integer or out of range"), nil},
		{`JSON.ARRPOP d FORMAT EXPAND $.a 0`, jsonErr("ERR FORMAT argument is not supported on RESP2"), array{array{2}}},
		{`JSON.ARRPOP d FORMAT EXPAND .a 0`, jsonErr("ERR FORMAT argument is not supported on RESP2"),
			jsonErr("ERR Legacy paths are supported only with FORMAT STRINGS")},
		{`JSON.ARRPOP d FORMAT STRING .a 0`, jsonErr("ERR wrong reply format"), nil},
		{`JSON.SET d $ '[[1,2],[3,4]]'`, jsonOK, nil},
		{`JSON.ARRPOP d $..*`, array{"2", "4", nil, nil, nil, nil}, nil},
		{`JSON.GET d`, `[[1],[3]]`, nil},
		{`JSON.ARRTRIM d . 1 -1`, 1, nil},
		{`JSON.ARRTRIM d $.* 0 0`, array{1}, nil},
		{`JSON.ARRTRIM d $ 5 7`, array{0}, nil},
		{`JSON.ARRTRIM d $ -5 7`, array{0}, nil},
		{`JSON.ARRTRIM d .x 0 0`, jsonErr("ERR Path '$.x' does not exist or not an array"), nil},
		{`JSON.ARRTRIM d $ 0 x`, jsonErr("ERR value is not an integer or out of range"), nil},
		{`JSON.GET d`, `[]`, nil},

		{`SET string x`, jsonOK, nil},
		{`JSON.MGET string d .`, array{nil, "[]"}, nil},
		{`JSON.SET d $ 3.5`, jsonOK, nil},
		{`PEXPIREAT d 99999999999999`, 1, nil},
		{`JSON.SET d $ '{"x":1}'`, jsonOK, nil},
		{`JSON.SET d $.x 2`, jsonOK, nil},
		{`PEXPIRETIME d`, 99999999999999, nil},
		{`TYPE d`, raw("+ReJSON-RL"), nil},
		{`OBJECT ENCODING d`, "raw", nil},
	})
}

// TestJSONFixture runs recorded commands and compares with Kvrocks's replies. The members of the first document are in
// the order of JSON.SET; Kvrocks sorts them.
func TestJSONFixture(t *testing.T) {
	runJSON(t, []jsonCase{
		{`JSON.SET json:doc $ ` +
			`'{"name":"kvrocks","n":1,"f":1.5,"arr":[1,2,{"x":null}],"t":true,"nested":{"a":{"b":"c"}},"u":"h\u00e9"}'`, jsonOK,
			nil},
		{`JSON.SET json:doc $.nested.a.b '"changed"'`, jsonOK, nil},
		{`JSON.ARRAPPEND json:doc $.arr '"tail"'`, array{4}, nil},
		{`JSON.NUMINCRBY json:doc $.n 41`, "[42]", array{42}},
		{`JSON.SET json:scalar $ 3.5`, jsonOK, nil},
		{`JSON.MSET json:m1 $ '{"a":1}' json:m2 $ '{"b":2}'`, jsonOK, nil},
		{`JSON.GET json:doc`,
			`{"name":"kvrocks","n":42,"f":1.5,"arr":[1,2,{"x":null},"tail"],"t":true,"nested":{"a":{"b":"changed"}},"u":"hé"}`,
			nil},
		{`JSON.GET json:scalar`, `3.5`, nil},
		{`JSON.GET json:m2`, `{"b":2}`, nil},
	})
}

func BenchmarkJSON(b *testing.B) {
	db := enginetest.Open(b)
	doc := `{"id":12345,"tags":["a","b","c"],"price":99.98,"text":"` + strings.Repeat("lorem ipsum ", 78) + `"}`
	for _, bench := range []struct {
		name string
		args []string
	}{
		{"SET", []string{"JSON.SET", "k", "$", doc}},
		{"GET", []string{"JSON.GET", "k"}},
		{"SET path", []string{"JSON.SET", "k", "$.price", "1.5"}},
		{"GET path", []string{"JSON.GET", "k", "$.price"}},
		{"NUMINCRBY", []string{"JSON.NUMINCRBY", "k", "$.id", "1"}},
		{"plain SET", []string{"SET", "s", doc}},
		{"plain GET", []string{"GET", "s"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := do(b, db, bench.args...); got[0] == '-' {
					b.Fatal(got)
				}
			}
		})
	}
}
