package json

import (
	"fmt"
	"strings"
	"testing"
)

// selectText returns the results of a path as the text of an array, or the error.
func selectText(doc, path string) string {
	p, err := ParsePath(path)
	if err != nil {
		return "error: " + err.Error()
	}
	v, err := Parse(doc, 100)
	if err != nil {
		panic(doc + ": " + err.Error())
	}
	places, err := p.locate(place{in: &box{vals: []Value{v}}}, NewBudget(0))
	if err != nil {
		return "error: " + err.Error()
	}
	out := ArrayOf()
	for _, at := range places {
		out.box.vals = append(out.box.vals, *at.value())
	}
	return string(Append(nil, &out))
}

// store is the example document of RFC 9535, section 1.5.
const store = `{"store":{"book":[
{"category":"reference","author":"Nigel Rees","title":"Sayings of the Century","price":8.95},
{"category":"fiction","author":"Evelyn Waugh","title":"Sword of Honour","price":12.99},
{"category":"fiction","author":"Herman Melville","title":"Moby Dick","isbn":"0-553-21311-3","price":8.99},
{"category":"fiction","author":"J. R. R. Tolkien","title":"The Lord of the Rings",
"isbn":"0-395-19395-8","price":22.99}],
"bicycle":{"color":"red","price":399}}}`

func TestPaths(t *testing.T) {
	const (
		letters = `["a","b","c","d","e","f","g"]`
		// Section 2.3.5.3 of RFC 9535.
		filters = `{"a":[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}],"o":{"p":1,"q":2,"r":3,"s":5,"t":{"u":6}},` +
			`"e":"f"}`
	)
	for _, c := range []struct{ doc, path, want string }{
		{store, "$.store.book[*].author", `["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]`},
		{store, "$..author", `["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]`},
		{store, "$.store..price", `[8.95,12.99,8.99,22.99,399]`},
		{store, "$..book[2].title", `["Moby Dick"]`},
		{store, "$..book[-1].price", `[22.99]`},
		{store, "$..book[0,1].price", `[8.95,12.99]`},
		{store, "$..book[:2].price", `[8.95,12.99]`},
		{store, "$..book[?(@.isbn)].title", `["Moby Dick","The Lord of the Rings"]`},
		{store, "$..book[?@.isbn].title", `["Moby Dick","The Lord of the Rings"]`},
		{store, "$..book[?(@.price<10)].title", `["Sayings of the Century","Moby Dick"]`},
		{store, "$..book[?(@.price < $.store.bicycle.price && @.price > 20)].title", `["The Lord of the Rings"]`},
		{store, `$..book[?(@.author =~ "(?i)^.*tolkien$")].price`, `[22.99]`},
		{store, `$..book[?@.author =~ 'el[yv]|Mel']["title","price"]`, `["Sword of Honour",12.99,"Moby Dick",8.99]`},
		{store, ".store.bicycle.color", `["red"]`},
		{store, "store.bicycle['color']", `["red"]`},
		{store, "..color", `["red"]`},
		{store, "$.store.*.color", `["red"]`},
		{store, "$.store.bicycle[?(@=='red')]", `["red"]`},

		// Names.
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, "$.a-b", `[1]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, "$.$ref", `[2]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, "$ref", `[2]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, "$.x:y", `[3]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, "é", `[4]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, ".1", `[5]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, `$.["a b"]['']`, `[]`},
		{`{"a-b":1,"$ref":2,"x:y":3,"é":4,"1":5,"a b":6,"":7}`, `$.["a b", '']`, `[6,7]`},
		{`{"a":{"b":{"c":1}}}`, " $ ", `[]`},
		{`{"a":{"b":{"c":1}}}`, "$ . a . b [ 'c' ] ", `[]`}, // a legacy path
		{`{"a":{"b":{"c":1}}}`, "$. a . b [ 'c' ] ", `[1]`},
		{`{"it's":1,"q\"":2,"b\\s":3,"t\t":4,"ü😀":5}`, `$['it\'s']`, `[1]`},
		{`{"it's":1,"q\"":2,"b\\s":3,"t\t":4,"ü😀":5}`, `$["it's"]`, `[1]`},
		{`{"it's":1,"q\"":2,"b\\s":3,"t\t":4,"ü😀":5}`, `$["q\""]`, `[2]`},
		{`{"it's":1,"q\"":2,"b\\s":3,"t\t":4,"ü😀":5}`, `$['b\\s','t\t']`, `[3,4]`},
		{`{"it's":1,"q\"":2,"b\\s":3,"t\t":4,"ü😀":5}`, `$['\u00fc\ud83d\ude00']`, `[5]`},

		// Elements and slices.
		{letters, "$[0]", `["a"]`},
		{letters, "[0]", `["a"]`},
		{letters, ".[0]", `["a"]`},
		{letters, "$[-2]", `["f"]`},
		{letters, "$[7]", `[]`},
		{letters, "$[-8]", `[]`},
		{letters, "$[1:3]", `["b","c"]`},
		{letters, "$[5:]", `["f","g"]`},
		{letters, "$[1:5:2]", `["b","d"]`},
		{letters, "$[5:1:-2]", `["f","d"]`},
		{letters, "$[::-1]", `["g","f","e","d","c","b","a"]`},
		{letters, "$[::]", letters},
		{letters, "$[:]", letters},
		{letters, "$[-2:]", `["f","g"]`},
		{letters, "$[:-5]", `["a","b"]`},
		{letters, "$[::3]", `["a","d","g"]`},
		{letters, "$[100:-100:-3]", `["g","d","a"]`},
		{letters, "$[-100:100:9223372036854775807]", `["a"]`},
		{letters, "$[100:-100:-9223372036854775808]", `["g"]`},
		{letters, "$[9223372036854775807:0]", `[]`},
		{letters, "$[0,0,-1,1:3,*]", `["a","a","g","b","c","a","b","c","d","e","f","g"]`},
		{letters, "$.a", `[]`},
		{letters, "$['0']", `[]`},
		{`{"0":1}`, "$[0]", `[]`},

		// Two dots.
		{`{"o":{"j":1,"k":2},"a":[5,3,[{"j":4},{"k":6}]]}`, "$..j", `[1,4]`},
		{`{"o":{"j":1,"k":2},"a":[5,3,[{"j":4},{"k":6}]]}`, "$..[0]", `[5,{"j":4}]`},
		{`{"o":{"j":1,"k":2},"a":[5,3,[{"j":4},{"k":6}]]}`, "$..*",
			`[{"j":1,"k":2},[5,3,[{"j":4},{"k":6}]],1,2,5,3,[{"j":4},{"k":6}],{"j":4},{"k":6},4,6]`},
		{`{"o":{"j":1,"k":2},"a":[5,3,[{"j":4},{"k":6}]]}`, "$.a..[0, 1]", `[5,3,{"j":4},{"k":6}]`},
		{`{"a":{"a":{"a":1}}}`, "$..a..a", `[{"a":1},1,1]`},

		// Filters, RFC 9535.
		{filters, "$.a[?@.b == 'kilo']", `[{"b":"kilo"}]`},
		{filters, "$.a[?(@.b == 'kilo')]", `[{"b":"kilo"}]`},
		{filters, "$.a[?@>3.5]", `[5,4,6]`},
		{filters, "$.a[?@.b]", `[{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]`},
		{filters, "$.o[?@<3, ?@<3]", `[1,2,1,2]`},
		{filters, `$.a[?@<2 || @.b == "k"]`, `[1,{"b":"k"}]`},
		{filters, `$.a[?match(@.b, "[jk]")]`, `[{"b":"j"},{"b":"k"}]`},
		{filters, `$.a[?search(@.b, "[jk]")]`, `[{"b":"j"},{"b":"k"},{"b":"kilo"}]`},
		{filters, "$.o[?@>1 && @<4]", `[2,3]`},
		{filters, "$.o[?@.u || @.x]", `[{"u":6}]`},
		{filters, "$.a[?@.b == $.x]", `[]`},
		{filters, "$.a[?@ == @]", `[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]`},
		{filters, "$.a[?!@.b]", `[3,5,1,2,4,6]`},
		{filters, "$.a[?!(@.b || @ > 2)]", `[1,2]`},
		{filters, "$.a[?length(@.b) > 1]", `[{"b":"kilo"}]`},
		{filters, "$.a[?count(@.*) == 1 && @.b != 'j']", `[{"b":"k"},{"b":{}},{"b":"kilo"}]`},
		{filters, "$.a[?value(@..b) == 'k']", `[{"b":"k"}]`},
		{filters, "$[?@.p == 1 || @ == 'f' && 1 == 2]", `[{"p":1,"q":2,"r":3,"s":5,"t":{"u":6}}]`},
		{filters, "$[?(@.p == 1 || @ == 'f') && 1 == 2]", `[]`},
		{filters, "$.e[?(@ == 'f')]", `["f"]`}, // as RedisJSON: a value with no children is tested itself
		{filters, "$..[?(@ == 'f')]", `["f"]`},
		{`[1,2,{"a":[1,2]},{"a":[1]}]`, "$[?(@.a[*] == 1)]", `[{"a":[1]}]`}, // a path with two results is nothing
		{`[1,2,{"a":[1,2]},{"a":[1]}]`, "$[?(@.a[*])]", `[{"a":[1]}]`},
		{`[{"a":1},{"b":1}]`, "$[?(@.a != 1)]", `[{"b":1}]`},
		{`[{"a":1},{"b":1}]`, "$[?(@.a == @.c)]", `[]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ == 1)]", `[1,1.0]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ == null)]", `[null]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ == true)]", `[true]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ == $[5])]", `[[1]]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ <= null)]", `[null]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ < 'a')]", `["1"]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ > false)]", `[true]`},
		{`[1,1.0,"1",true,null,[1],{"a":1}]`, "$[?(@ > @)]", `[]`},
		{`[{"a":[1,{"x":2}],"b":[1,{"x":2.0}]},{"a":[1],"b":[2]}]`, "$[?(@.a == @.b)].a", `[[1,{"x":2}]]`},
		{`[9007199254740993,9007199254740992.0,18446744073709551615,-5,1e300]`, "$[?(@ > 9007199254740992)]",
			`[9007199254740993,18446744073709551615,1e300]`},
		{`[9007199254740993,123456789012345678901234567890]`, "$[?(@ == 9007199254740992.0)]", `[]`},
		{`[9007199254740993,123456789012345678901234567890]`, "$[?(@ == 123456789012345678901234567890)]",
			`[123456789012345678901234567890]`},
		{`[9007199254740993,123456789012345678901234567890]`, "$[?(@ > 1.5e29)]", `[]`},
		{`[-1.5,0,3]`, "$[?(@ >= -1.5e0)]", `[-1.5,0,3]`},
		{`[{"s":"abc","r":"^a"},{"s":"abc","r":"^b"},{"s":"abc","r":"("},{"s":1,"r":"1"}]`, "$[?(@.s =~ @.r)].r", `["^a"]`},
		{`["abc"]`, "$[?(@ =~ '(')]", `[]`}, // no regular expression: no match, as in RedisJSON
		{`["aéb"]`, "$[?(length(@) == 3)]", `["aéb"]`},
		{`[{"x y":1},{"x y":2}]`, `$[?(@["x y"]==2)]`, `[{"x y":2}]`},
		{`[{"a":{"b":[{"c":1}]}},{"a":{"b":[{"c":2}]}}]`, "$[?(@.a.b[?(@.c==2)])].a.b", `[[{"c":2}]]`},
		{`{"k":2,"l":[1,2]}`, "$.l[?(@ == $.k)]", `[2]`},
		{`{"k":[2],"l":[1,2]}`, "$.l[?(@ == $.k[?(@ == 2)])]", `[2]`},
	} {
		if got := selectText(c.doc, c.path); got != c.want && !(strings.HasPrefix(c.want, "error") &&
			strings.HasPrefix(got, c.want)) {
			t.Errorf("%s of %.60s:\n%s, want\n%s", c.path, c.doc, got, c.want)
		}
	}
}

func TestPathErrors(t *testing.T) {
	deep := strings.Repeat("(", 200) + "@" + strings.Repeat(")", 200)
	for path, want := range map[string]string{
		"": `Error occurred on position 2, "$. <<<<----", expected one of the following: ` +
			`<string>, '*', '['.`,
		"$.":                         `Error occurred on position 2, "$. <<<<----"`,
		"$..":                        `Error occurred on position 3, "$.. <<<<----"`,
		"$...a":                      `Error occurred on position 3, "$.. ---->>>> .a"`,
		".\x00":                      "Error occurred on position 2",
		"$.a\x00b":                   `Error occurred on position 3`,
		"$.\xff":                     "Error occurred on position 1",
		"$.a]":                       `Error occurred on position 3, "$.a ---->>>> ]"`,
		"$[":                         "Error occurred on position 2",
		"$[]":                        "Error occurred on position 2",
		"$[1":                        "Error occurred on position 3",
		"$[1 2]":                     "Error occurred on position 4",
		"$[1,]":                      "Error occurred on position 4",
		"$[01]":                      "Error occurred on position 2",
		"$[-]":                       "Error occurred on position 2",
		"$[1.5]":                     "Error occurred on position 3",
		"$[0:1:0]":                   "Error occurred on position 6",
		"$[0:1:2:3]":                 "Error occurred on position 7",
		"$[9999999999999999999]":     "Error occurred on position 2",
		"$['a]":                      "Error occurred on position 5",
		"$['a\\":                     "Error occurred on position 4",
		"$['a\\q']":                  "Error occurred on position 4",
		"$['\\ud800']":               "Error occurred on position 3",
		"$[a]":                       "Error occurred on position 2",
		"$[?]":                       "Error occurred on position 3",
		"$[?()]":                     "Error occurred on position 4",
		"$[?(@.a]":                   "Error occurred on position 7",
		"$[?(@.a ==)]":               "Error occurred on position 10",
		"$[?(@.a = 1)]":              "Error occurred on position 8",
		"$[?(@.a == 1 == 2)]":        "Error occurred on position 13",
		"$[?(@.a == tru)]":           "Error occurred on position 11",
		"$[?(@.a == 01)]":            "Error occurred on position 11",
		"$[?(@.a && )]":              "Error occurred on position 11",
		"$[?(@.a == !@.b)]":          "Error occurred on position 11",
		"$[?(nope(@))]":              "Error occurred on position 4",
		"$[?(count(1) > 1)]":         "Error occurred on position 10",
		"$[?(match(@))]":             "Error occurred on position 11",
		"$[?(match(@,'a') == true)]": "Error occurred on position 19",
		"$[?(length(@.a,@.b) == 1)]": "Error occurred on position 14",
		"$[?(1e999 == @)]":           "Error occurred on position 4",
		"$[?" + deep + "]":           "filters of more than 64 levels",
		"$[?(" + strings.Repeat("!", 200) + "@)]":        "filters of more than 64 levels",
		"$" + strings.Repeat("[?@", 200):                 "filters of more than 64 levels",
		"$[?(" + strings.Repeat("length(", 200) + "@":    "filters of more than 64 levels",
		"$." + strings.Repeat("a", 70_000):               "path of more than 65536 bytes",
		"$[?(@ =~ '(abcdefghijkl){1000}')]":              "the regular expression is too large",
		"$[?(@ =~ '" + strings.Repeat("a", 5000) + "')]": "the regular expression is too large",
	} {
		p, err := ParsePath(path)
		if err == nil {
			t.Errorf("%.60q is the path %q", path, p)
		} else if !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.60q: %.200s, want %s", path, err, want)
		}
	}
}

// TestHostilePaths: a pattern from the document is bounded like one of the path, and so is what comparisons cost.
func TestHostilePaths(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	many := func(elem string, n int) string {
		return "[" + strings.Repeat(elem+",", n-1) + elem + "]"
	}
	for _, c := range []struct{ doc, path, want string }{
		{`[{"s":"a","r":"(abcdefghijkl){1000}"}]`, "$[?(@.s =~ @.r)]", "error: the regular expression is too large"},
		{many(`"`+long+`"`, 3), "$[?(@ =~ '(x+x+)+y')]", "[]"},
		{many(`"`+long+`"`, 5), "$[?(@ =~ '(x+x+){100}y')]", "error: " + ErrTooMuchWork.Text},
		{many(`"`+long+`"`, 300), "$[?(count($[?(@ == $[0])]) == 0)]", "error: " + ErrTooMuchWork.Text},
		{many(many("1", 300), 300), "$[?(count($[?(@ == $[0])]) == 0)]", "error: " + ErrTooMuchWork.Text},
		{many("["+strings.Repeat("7", 4000)+"]", 300), "$[?(count($[?(@ == $[0])]) == 0)]", "error: " + ErrTooMuchWork.Text},
		{many("1", 2000), "$[*]" + strings.Repeat("[?(@)]", 10_000), "error: " + ErrTooMuchWork.Text},
		{many("1", 2000), "$[" + strings.Repeat("*,", 2000) + "*]", "error: " + ErrTooMuchWork.Text},
	} {
		if got := selectText(c.doc, c.path); got != c.want {
			t.Errorf("%.50s: %.200s", c.path, got)
		}
	}
}

func TestPathForms(t *testing.T) {
	for path, want := range map[string]string{
		"$":         "$ root static",
		".":         "$ legacy root static",
		"$.a":       "$.a static",
		".a":        "$.a legacy static",
		"a":         "$.a legacy static",
		"a[0].b":    "$.a[0].b legacy static",
		"[0]":       "$.[0] legacy static",
		"..a":       "$..a legacy",
		"$a":        "$.$a legacy static",
		"$['a'][0]": "$['a'][0] static",
		"$['a',0]":  "$['a',0]",
		"$[0:1]":    "$[0:1]",
		"$.*":       "$.*",
		"$[?(@)]":   "$[?(@)]",
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got := p.String()
		for _, is := range []struct {
			ok   bool
			name string
		}{{p.Legacy(), " legacy"}, {p.IsRoot(), " root"}, {p.static(), " static"}} {
			if is.ok {
				got += is.name
			}
		}
		if got != want || p.Original() != path {
			t.Errorf("%s: %q of %q, want %q", path, got, p.Original(), want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"$", ".", "a[0]", "$..a[?(@.b > 1 && !(@.c == 'x'))]", "$[1:2:-3,'q',*]",
		"$[?match(@.a,'[a-c]+')||count(@..*)>2]", "$[?(@ =~ $.a[0])]", `$["\u00e9\""]`} {
		f.Add(s, `{"a":[{"b":2,"c":"y"},"x",1.5,null,[true]]}`)
	}
	f.Fuzz(func(t *testing.T, path, doc string) {
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil {
			t.Fatalf("%q is a path, but %q not: %v", path, p.String(), err)
		}
		v, err := Parse(doc, 50)
		if err != nil {
			return
		}
		root := place{in: &box{vals: []Value{v}}}
		left := &Budget{steps: 100_000, results: 10_000}
		places, err := p.locate(root, left)
		if err != nil {
			return
		}
		if p.static() && len(places) > 1 {
			t.Fatalf("%q has %d results", path, len(places))
		}
		same, err := again.locate(root, &Budget{steps: 100_000, results: 10_000})
		if err != nil || fmt.Sprint(places) != fmt.Sprint(same) {
			t.Fatalf("%q and %q differ", path, again.String())
		}
		for _, at := range places {
			at.value() // is in the document
		}
	})
}
