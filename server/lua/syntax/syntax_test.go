package syntax

import (
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// golden calls f for each chunk of a file of testdata and what redis-server 7.2.6 says of it, "" when it takes it.
// The file has the chunks, quoted, one a line, each followed by the message, quoted behind a tab; lines that begin
// with # are comments.
func golden(t testing.TB, f func(chunk, message string)) {
	t.Helper()
	text := require.File(t, "testdata/messages.txt")
	chunk, n := "", 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		quoted, isMessage := strings.CutPrefix(line, "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		s, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !isMessage {
			chunk = s
			continue
		}
		n++
		f(chunk, s)
	}
	if n == 0 {
		t.Fatal("no chunks")
	}
}

// message returns what is said of a chunk, as Redis writes it, in one line; "" when it is taken.
func message(chunk string, calls int) string {
	if _, err := Parse(chunk, "user_script", calls); err != nil {
		return strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error())
	}
	return ""
}

func TestMessages(t *testing.T) {
	golden(t, func(chunk, want string) {
		if got := message(chunk, 0); got != want {
			t.Errorf("%.300q\n got %q\nwant %q", chunk, got, want)
		}
	})
}

// list returns name0,name1,... of n names.
func list(n int, name string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + strconv.Itoa(i))
	}
	return b.String()
}

// limits are the largest chunks that Redis takes, and what it says of those that are larger by one.
func limits() []limit {
	r := strings.Repeat
	const levels, complex, long = "user_script:1: chunk has too many syntax levels",
		"user_script:1: function or expression too complex near ", "user_script:1: control structure too long near "
	return []limit{
		{"parentheses", 198, func(n int) string { return "return " + r("(", n) + "1" + r(")", n) }, levels},
		{"operators with one operand", 198, func(n int) string { return "return " + r("not ", n) + "x" }, levels},
		{"operators to the right", 198, func(n int) string { return "return a" + r("^a", n) }, levels},
		{"tables", 199, func(n int) string { return "x = " + r("{", n) + r("}", n) }, levels},
		{"blocks", 199, func(n int) string { return r("do ", n) + r("end ", n) }, levels},
		{"functions", 199, func(n int) string { return r("function f() ", n) + r("end ", n) }, levels},
		{"local variables", 200, func(n int) string { return "local " + list(n, "a") },
			"user_script:1: main function has more than 200 local variables"},
		{"local variables of a function", 200, func(n int) string {
			return "\nfunction f() local " + list(n, "a") +
				" end"
		}, "user_script:2: function at line 2 has more than 200 local variables"},
		{"parameters", 199, func(n int) string { return "function a:f(" + list(n, "a") + ") end" },
			"user_script:1: function at line 1 has more than 200 local variables"},
		{"variables of a loop", 197, func(n int) string { return "for " + list(n, "a") + " in x do end" },
			"user_script:1: main function has more than 200 local variables"},
		{"all local variables", 32767, func(n int) string { return r("do local a end ", n) }, "too many local variables"},
		{"upvalues", 60, func(n int) string {
			return "local " + list(100, "a") + "\nfunction f() x = " + strings.ReplaceAll(list(n, "a"), ",", "+") + " end"
		}, "user_script:2: function at line 2 has more than 60 upvalues"},
		{"variables in an assignment", 200, func(n int) string { return list(n, "a") + " = 1" },
			"user_script:1: main function has more than 199 variables in assignment"},
		{"arguments", 248, func(n int) string { return "f(" + list(n, "a") + ")" }, complex + "'<eof>'"},
		{"values", 249, func(n int) string { return "return " + list(n, "a") }, complex + "'<eof>'"},
		{"registers beside variables", 49, func(n int) string {
			return "local " + list(199, "a") + " = 1 x = {" +
				list(n, "a") + "}"
		}, complex + "'<eof>'"},
		{"texts", 262143, func(n int) string {
			return "return {" + strings.ReplaceAll(list(n, "'a"), ",", "',") +
				"'}"
		}, "constant table overflow"},
		{"numbers", 262143, func(n int) string { return "return {" + list(n, "") + "}" }, "constant table overflow"},
		{"functions in a function", 262143, func(n int) string { return "return {" + r("function()end,", n) + "}" },
			"constant table overflow"},
		{"a loop of numbers", 65535, func(n int) string { return "for i = 1, 2 do " + r("x = 1 ", n) + "end" }, long +
			"'end'"},
		{"a loop", 65533, func(n int) string { return "while x do " + r("x = 1 ", n) + "end" }, long + "'end'"},
	}
}

type limit struct {
	name  string
	most  int
	chunk func(n int) string
	want  string
}

func TestLimits(t *testing.T) {
	for _, tt := range limits() {
		if testing.Short() && tt.most > 30000 {
			continue
		}
		if got := message(tt.chunk(tt.most), 0); got != "" {
			t.Errorf("%s: %d are refused: %s", tt.name, tt.most, got)
		}
		if got := message(tt.chunk(tt.most+1), 0); got != tt.want {
			t.Errorf("%s: %d are %q, want %q", tt.name, tt.most+1, got, tt.want)
		}
	}
}

// Lua has no limit here, but those who go through the tree have.
func TestDepth(t *testing.T) {
	r := strings.Repeat
	for _, tt := range []struct {
		most  int
		chunk func(n int) string
	}{
		{maxDepth, func(n int) string { return "return a" + r("+a", n) }},
		{maxDepth, func(n int) string { return "return a" + r(" and a", n) }},
		{maxDepth, func(n int) string { return "return a" + r(".b", n) }},
		{maxDepth, func(n int) string { return "return a" + r("[1]", n) }},
		{maxDepth, func(n int) string { return "a" + r("()", n) }},
		{maxDepth - 1, func(n int) string { return "f(a" + r("-a", n) + ")" }},
		{maxDepth - 1, func(n int) string { return "x = {1, a" + r(":b()", n) + ", 2}" }},
		{maxDepth - 1, func(n int) string { return "x = {[a" + r(".b", n) + "] = 2}" }},
		{maxDepth - 1, func(n int) string { return "x = function() y = a" + r(".b", n) + " end" }},
		{maxDepth, func(n int) string { return "if a then " + r("elseif a then ", n) + "end" }},
		{maxDepth - 100, func(n int) string {
			return "if a then " + r("elseif a then ", 100) + "x = a" + r(".b", n) +
				" end"
		}},
	} {
		if got := message(tt.chunk(tt.most), 0); got != "" {
			t.Errorf("%.30q: %s", tt.chunk(tt.most), got)
		}
		if got := message(tt.chunk(tt.most+1), 0); got != "user_script:1: chunk has too many syntax levels" {
			t.Errorf("%.30q: %q", tt.chunk(tt.most+1), got)
		}
	}
	for _, chunk := range []string{
		"return 1" + r("+1", 100000), "return a" + r(",a+1", 200), r("x = a.b ",
			10000), r("if a then elseif b then end ", 10000), r("a(b + c) ", 10000), "x = {" + r("a+b,", 10000) + "}",
		r("x = function() return a.b end ", 10000), r("function f() return a.b end ", 10000),
	} {
		if got := message(chunk, 0); got != "" {
			t.Errorf("%.30q: %s", chunk, got)
		}
	}
}

// Calls from C to Lua count as levels.
func TestCallsAreLevels(t *testing.T) {
	for _, calls := range []int{0, 1, 50, 200} {
		n := maxLevels - calls
		if got := message(strings.Repeat("do ", n)+strings.Repeat("end ", n), calls); !strings.Contains(got,
			"syntax levels") {
			t.Errorf("%d calls and %d levels: %q", calls, n+1, got)
		}
		if n--; n > 0 {
			if got := message(strings.Repeat("do ", n)+strings.Repeat("end ", n), calls); got != "" {
				t.Errorf("%d calls and %d levels: %q", calls, n+1, got)
			}
		}
	}
}

// The lines of nodes are those of the instructions that Lua makes of them.
func TestLines(t *testing.T) {
	for _, tt := range []struct{ chunk, want string }{
		{"return\na\n.b\n.c", "(return (. (. a@2 'b')@3 'c')@4)"},
		{"x = a.b\n", "(= x@1 (. a@1 'b')@1)"},
		{"x\n=\ny", "(= x@3 y@3)"},
		{"x.y,\nz =\n1, 2", "(= (. x@1 'y')@3 z@3 1 2)"},
		{"return a\n+\nb\n*\nc", "(return (+ a@2 (* b@4 c@5)@5)@5)"},
		{"return a.b\n< c.d\n", "(return (< (. a@1 'b')@2 (. c@2 'd')@2)@2)"},
		{"return a\n..\nb..\nc", "(return (.. a@2 (.. b@3 c@4)@4)@4)"},
		{"return a..(b\n..c\n)", "(return (.. a@1 (.. b@2 c@2)@2)@2)"},
		{"return -\na", "(return (- a@2)@2)"},
		{"f\n{\n}", "(call f@1 ({})@2)@2"},
		{"f(\na,\nb\n)", "(call f@1 a@2 b@4)@1"},
		{"f(a.b\n)", "(call f@1 (. a@1 'b')@2)@1"},
		{"a\n:b(\n)\n:c()", "(call (call a@2 :b)@2 :c)@4"},
		{"return (a\n)", "(return a@2)"},
		{"return a\nand b.c\nor d", "(return (or (and a@2 (. b@2 'c')@2)@2 d@3)@3)"},
		{"return {\na.b,\nc.d\n}", "(return ({} (. a@2 'b')@2 (. c@3 'd')@4)@1)"},
		{"return {\n[a]\n=\nb}", "(return ({} [a@2 b@4])@4)"},
		{"function a.b\n.c() end", "(function (. (. a@1 'b')@1 'c')@1)"},
		{"for i =\n1,\n2\ndo end", "(for@4 1 2)"},
		{"for i\nin\nx\ndo end", "(for@3 x@3)"},
		{"if a.b\nthen end", "(if (. a@1 'b')@1)"},
	} {
		stmts, err := Parse(tt.chunk, "c", 0)
		if err != nil {
			t.Fatal(err)
		}
		d := dumper{lines: true}
		if got := d.stmts(stmts); got != tt.want {
			t.Errorf("%q\n got %s\nwant %s", tt.chunk, got, tt.want)
		}
	}
}
