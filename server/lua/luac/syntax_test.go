package luac

import (
	"strconv"
	"strings"
	"testing"

	vm "github.com/yuin/gopher-lua"

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
	if _, err := Compile([]byte(chunk), "user_script", calls); err != nil {
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

// Lua has no limit here, nor has the compiler.
func TestDepth(t *testing.T) {
	const n = 10000
	r := strings.Repeat
	for _, chunk := range []string{
		"return a" + r("+a", n), "return a" + r(" and a", n), "return a" + r(".b", n), "return a" + r("[1]", n),
		"a" + r("()", n), "f(a" + r("-a", n) + ")", "x = {1, a" + r(":b()", n) + ", 2}", "x = {[a" + r(".b", n) + "] = 2}",
		"x = function() y = a" + r(".b", n) + " end", "if a then " + r("elseif a then ", n) + "end",
		"if a then " + r("elseif a then ", 100) + "x = a" + r(".b", n) + " end",
		"return 1" + r("+1", 100000), "return a" + r(",a+1", 200), r("x = a.b ", n), r("if a then elseif b then end ", n),
		r("a(b + c) ", n), "x = {" + r("a+b,", n) + "}",
		r("x = function() return a.b end ", n), r("function f() return a.b end ", n),
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

func FuzzCompile(f *testing.F) {
	golden(f, func(chunk, _ string) {
		if len(chunk) < 500 {
			f.Add(chunk)
		}
	})
	f.Fuzz(func(t *testing.T, chunk string) {
		if _, err := Compile([]byte(chunk), "c", 0); err != nil {
			e, ok := err.(*Error)
			if !ok || e.Line > 1+strings.Count(chunk, "\n")+strings.Count(chunk, "\r") ||
				strings.Contains(e.Text, "runtime error") {
				t.Errorf("%q: %#v", chunk, err)
			}
		}
	})
}

// opNames are the names of instructions that TestLines has.
var opNames = map[int]string{vm.OP_GETGLOBAL: "getglobal", vm.OP_GETTABLE: "gettable", vm.OP_GETTABLEKS: "getfield",
	vm.OP_SETGLOBAL: "setglobal", vm.OP_SETTABLEKS: "setfield", vm.OP_SETTABLE: "settable",
	vm.OP_ADD: "add", vm.OP_MUL: "mul", vm.OP_LT: "lt", vm.OP_JMP: "jmp", vm.OP_CONCAT: "concat", vm.OP_UNM: "unm",
	vm.OP_CALL: "call", vm.OP_SELF: "self",
	vm.OP_NEWTABLE: "newtable", vm.OP_SETLIST: "setlist", vm.OP_CLOSURE: "closure", vm.OP_FORPREP: "forprep",
	vm.OP_FORLOOP: "forloop", vm.OP_TFORLOOP: "tforloop", vm.OP_LOADK: "loadk", vm.OP_LOADNIL: "loadnil",
	vm.OP_LOADBOOL: "loadbool", vm.OP_TEST: "test", vm.OP_TESTSET: "testset", vm.OP_RETURN: "return",
	vm.OP_TAILCALL: "tailcall"}

// The line of an instruction is that of the last token that was read before it was made, as in Lua.
func TestLines(t *testing.T) {
	for _, tt := range []struct{ chunk, want string }{
		{"return\na\n.b\n.c", "getglobal@2 getfield@3 getfield@4 return@4"},
		{"x = a.b\n", "getglobal@1 getfield@1 setglobal@1"},
		{"x\n=\ny", "getglobal@3 setglobal@3"},
		{"x.y,\nz =\n1, 2", "getglobal@1 loadk@3 loadk@3 setglobal@3 setfield@3"},
		{"return a\n+\nb\n*\nc", "getglobal@2 getglobal@4 getglobal@5 mul@5 add@5 return@5"},
		{"return a.b\n< c.d\n", "getglobal@1 getfield@2 getglobal@2 getfield@2 lt@2 jmp@2 loadbool@2 loadbool@2 return@2"},
		{"return a\n..\nb..\nc", "getglobal@2 getglobal@3 getglobal@4 concat@4 return@4"},
		{"return a..(b\n..c\n)", "getglobal@1 getglobal@2 getglobal@2 concat@2 return@3"},
		{"return -\na", "getglobal@2 unm@2 return@2"},
		{"f\n{\n}", "getglobal@1 newtable@1 call@2"},
		{"f(\na,\nb\n)", "getglobal@1 getglobal@2 getglobal@4 call@1"},
		{"f(a.b\n)", "getglobal@1 getglobal@1 getfield@2 call@1"},
		{"a\n:b(\n)\n:c()", "getglobal@2 self@2 call@2 self@4 call@4"},
		{"return (a\n)", "getglobal@2 return@2"},
		{"return a\nand b.c\nor d", "getglobal@2 test@2 jmp@2 getglobal@2 getfield@2 test@3 jmp@3 getglobal@3 return@3"},
		{"return {\na.b,\nc.d\n}", "newtable@1 getglobal@2 getfield@2 getglobal@3 getfield@4 setlist@4 return@4"},
		{"return {\n[a]\n=\nb}", "newtable@1 getglobal@2 getglobal@4 settable@4 return@4"},
		{"function a.b\n.c() end", "getglobal@1 getfield@1 closure@2 setfield@1"},
		{"for i =\n1,\n2\ndo end", "loadk@2 loadk@3 loadk@3 forprep@4 forloop@1"},
		{"for i\nin\nx\ndo end", "getglobal@3 loadnil@3 jmp@4 tforloop@3 jmp@4"},
		{"if a.b\nthen end", "getglobal@1 getfield@1 test@1 jmp@1"},
	} {
		proto, err := Compile([]byte(tt.chunk), "c", 0)
		require.NoError(t, err)
		var got []string
		for pc, inst := range proto.Code[:len(proto.Code)-1] {
			got = append(got, opNames[opcode(inst)]+"@"+strconv.Itoa(proto.DbgSourcePositions[pc]))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%q\n got %s\nwant %s", tt.chunk, got, tt.want)
		}
	}
}
