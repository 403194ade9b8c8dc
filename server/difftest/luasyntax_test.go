package difftest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/lua/luac"
)

// TestLuaSyntax compares which of many random chunks are Lua, and what is said of the others.
func TestLuaSyntax(t *testing.T) {
	n := 20000
	if testing.Short() {
		n = 2000
	}
	c := connect(t, startRedis(t).Addr(), 2)
	g := newChunkGenerator(t, 1)
	accepted, differ := 0, 0
	for i := range n {
		if i%1000 == 0 {
			if _, err := c.do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
		}
		chunk := g.chunk()
		want, err := c.do("SCRIPT", "LOAD", chunk)
		if err != nil {
			t.Fatalf("%q: %v", chunk, err)
		}
		got := "$40"
		if _, err := luac.Compile([]byte(chunk), "user_script", 0); err != nil {
			got = "-ERR Error compiling script (new function): " + strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error())
		} else {
			accepted++
		}
		// Debian's Redis has another Lua 5.1, which does not mind nested brackets; that of Redis does.
		isNested := strings.Contains(got, "nesting of [[...]] is deprecated")
		if first, _, _ := strings.Cut(string(want.raw), "\r\n"); got != first && !isNested {
			if t.Errorf("%q\nRedis %q\n  got %q", chunk, first, got); differ == 20 {
				t.FailNow()
			}
			differ++
		}
	}
	if accepted < n/100 || accepted > n-n/10 {
		t.Errorf("%d of %d chunks were accepted: that tests little", accepted, n)
	}
}

// chunkGenerator makes Lua, or nearly.
type chunkGenerator struct {
	*rand.Rand
	scripts []string
}

// newChunkGenerator makes one with the scripts that the interpreter is tested with.
func newChunkGenerator(t *testing.T, seed uint64) *chunkGenerator {
	t.Helper()
	g := &chunkGenerator{Rand: rand.New(rand.NewPCG(seed, 5))}
	files, err := filepath.Glob("../lua/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		text := require.File(t, file)
		for line := range strings.Lines(string(text)) {
			if line[0] != '#' && line[0] != '\t' && len(line) < 3000 {
				g.scripts = append(g.scripts, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return g
}

// luaTokens are words, and separators that the scanner takes apart.
var luaTokens = strings.Split(`and break do else elseif end false for function if in local nil not or repeat return `+
	`then true until while `+
	`.. ... == >= <= ~= + - * / % ^ # < > = ( ) { } [ ] ; : , . :: ~ ! & | @ $ \ ? goto arg self a b c f t x 0 1 2 3.5 `+
	`.5 1e3 1e 0x1F 0x 0x1p4 08 3..2 1..2 5x `+
	`"s" 's' "\n" "\65" "\400" "\x" "\z" 'it''s' [[long]] [==[l]=]==] [=[ [[ ]] ]=] [= [== --c --[[c]] --[==[c]==] --[[ `+
	`]==] "open 'open [[open`, " ")

func pick[T any](g *chunkGenerator, list []T) T { return list[g.IntN(len(list))] }

// chunk returns a script with some changes, or tokens one after the other.
func (g *chunkGenerator) chunk() string {
	switch g.IntN(8) {
	case 0:
		return g.crowded()
	case 1, 2:
		var b strings.Builder
		for range 1 + g.IntN(12) {
			b.WriteString(pick(g, luaTokens))
			b.WriteString(g.space())
		}
		return noShebang(b.String())
	}
	s := pick(g, g.scripts)
	if g.IntN(3) == 0 { // a part of it
		from := g.IntN(len(s))
		s = s[from : from+g.IntN(len(s)-from+1)]
	}
	for range g.IntN(4) {
		at := g.IntN(len(s) + 1)
		end := min(at+g.IntN(6), len(s))
		switch g.IntN(8) {
		case 0:
			s = s[:at] + s[end:]
		case 1:
			s = s[:at] + pick(g, luaTokens) + s[at:]
		case 2:
			s = s[:at] + " " + pick(g, luaTokens) + g.space() + s[end:]
		case 3:
			s = s[:at] + g.space() + s[at:]
		case 4:
			s = s[:at] + string(byte(g.IntN(256))) + s[at:]
		case 5:
			s = s[:at] + pick(g, []string{"\n", "\r", "\r\n", "\n\r", "\x00", "\\", "\\\n", "]", "=", "'", "\""}) + s[end:]
		case 6:
			s = s[:at] + s[end:] + s[at:end]
		case 7: // ends of lines in place of blanks
			s = strings.ReplaceAll(s[:at], " ", pick(g, []string{"\n", "\r\n", "\n\n"})) + s[at:]
		}
	}
	return noShebang(s)
}

// crowded returns a function that has many local variables, and constants, so that a large expression may need more
// registers than there are. Where that is noticed depends on all that the compiler does.
func (g *chunkGenerator) crowded() string {
	var b strings.Builder
	b.WriteString("local u,v local function w(...) local a")
	locals := 150 + g.IntN(50)
	for i := range locals {
		fmt.Fprintf(&b, ",a%d", i)
	}
	if g.IntN(2) == 0 {
		b.WriteString("\nlocal b = 'k1'")
		for i := range 200 + g.IntN(60) {
			fmt.Fprintf(&b, "<%d", i+1000)
		}
	}
	b.WriteByte('\n')
	for range 1 + g.IntN(3) {
		size := 10 + g.IntN(250-locals)
		e := func() string { return g.expression(&size) }
		switch g.IntN(8) {
		case 0:
			b.WriteString("local b,c = " + e() + "," + e())
		case 1:
			b.WriteString("a,u[" + e() + "],v." + pick(g, luaNames) + " = " + e() + "," + e())
		case 2:
			b.WriteString("if " + e() + " then a = " + e() + " elseif " + e() + " then " + pick(g, luaNames) + " = " +
				e() + " end")
		case 3:
			b.WriteString("for i=" + e() + "," + e() + " do x=" + e() + " end")
		case 4:
			b.WriteString("for i,j in " + e() + " do x=" + e() + " end")
		case 5:
			b.WriteString("while " + e() + " do x=" + e() + " end")
		case 6:
			b.WriteString("repeat local z = " + e() + " until " + e())
		case 7:
			b.WriteString("f(" + e() + ")")
		}
		b.WriteByte('\n')
	}
	b.WriteString("return " + strings.Repeat("a..", g.IntN(70)) + "a end")
	return b.String()
}

var luaNames = []string{"a", "a0", "a10", "u", "v", "g", "h"}

// expression returns one with about size operators, of which most keep what is left of them in a register.
func (g *chunkGenerator) expression(size *int) string {
	*size--
	if *size <= 0 {
		return pick(g, []string{"a", "a1", "u", "v", "g", "1", "2000", "'k'", "'l'", "nil", "true", "false", "...",
			"-1", "g.x", "u.k", "a.b", "a[1]", "a[a]", "{}", "w()", "(w())", "(...)"})
	}
	e := func() string { return g.expression(size) }
	few := func() string {
		s := e()
		for range g.IntN(4) {
			s += "," + e()
		}
		return s
	}
	switch g.IntN(16) {
	case 0, 1:
		return pick(g, luaNames) + "(" + few() + ")"
	case 2:
		return pick(g, luaNames) + "[" + e() + "](" + e() + ")"
	case 3:
		return pick(g, luaNames) + ":m(" + few() + ")"
	case 4:
		return "{" + few() + "}"
	case 5:
		return "{" + e() + ",k=" + e() + ",[" + e() + "]=" + e() + ";" + e() + "}"
	case 6, 7:
		return pick(g, luaNames) + ".." + e()
	case 8:
		return "(" + e() + ").x[" + e() + "]"
	case 9, 10:
		return pick(g, luaNames) + pick(g, []string{"+", "-", "*", "/", "%", "^", "==", "<", ">="}) + "(" + e() + ")"
	case 11:
		return "(" + e() + ")" + pick(g, []string{"+", "-", "*", "/", "%", "^", "==", "~=", ">"}) + e()
	case 12:
		return e() + pick(g, []string{" and ", " or "}) + e()
	case 13:
		return pick(g, []string{"not ", "-", "#", "not not ", "not -"}) + e()
	case 14:
		return "function(b,...) local c=" + e() + " return " + few() + " end"
	}
	return "(" + e() + ")"
}

func (g *chunkGenerator) space() string {
	return pick(g, []string{" ", " ", " ", "\n", "", "\t", "\r\n"})
}

// noShebang makes the first line none that Redis reads itself.
func noShebang(s string) string { return strings.Replace(s, "#!", "# !", 1) }
