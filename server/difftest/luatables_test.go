package difftest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLuaTables compares in which order pairs comes by the keys of tables, and what #t says of those with nil within:
// both follow from all that was done to the table.
func TestLuaTables(t *testing.T) {
	ask := askBoth(t)
	r := rand.New(rand.NewPCG(1, 3))
	const programs = 1000
	long := 0
	for range programs {
		g := tableGenerator{r, []int{3, 5, 9, 20, 40, 200}[r.IntN(6)]}
		script := g.program()
		want, got := ask("EVAL", script, "0")
		if got != want {
			t.Fatalf("%s\n  got %q\nRedis %q", script, got, want)
		}
		if len(want) > 100 && want[0] == '$' {
			long++
		}
	}
	if long < programs/2 {
		t.Errorf("%d of %d programs show much of a table: that tests little", long, programs)
	}
}

// tableGenerator makes scripts that change a table t in many ways, and show it. Keys are of about span different ones.
type tableGenerator struct {
	*rand.Rand
	span int
}

func (g *tableGenerator) of(list ...string) string { return list[g.IntN(len(list))] }

func (g *tableGenerator) key() string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("'%s'", g.of("a", "b", "id", "name", "ts", "a_long_field_name_of_more_than_32_bytes_1",
			"a_long_field_name_of_more_than_32_bytes_2"))
	case 1:
		return fmt.Sprintf("'k'..%d", g.IntN(g.span))
	case 2:
		return g.of("true", "false", "0", "-1", "-5", "1.5", "2.25", "1e15", "2^31", "100", "33", "-0.5", "7e7",
			"#t+1", "#t+2")
	}
	return fmt.Sprint(1 + g.IntN(g.span+2))
}

func (g *tableGenerator) value() string {
	if g.IntN(2) == 0 {
		return fmt.Sprint(g.IntN(100))
	}
	return g.of("1", "2", "'v'", "true", "nil", "nil")
}

// table returns an expression, or statements, that make the table.
func (g *tableGenerator) table() string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("for i=1,%d do t[i]=i end", g.IntN(2*g.span))
	case 1:
		return fmt.Sprintf("for i=%d,1,-1 do t[i]=i end", g.IntN(2*g.span))
	case 2:
		return fmt.Sprintf("for i=1,%d do t['f'..i]=i end", g.IntN(2*g.span))
	}
	var fields []string
	for range g.IntN(g.span) {
		switch g.IntN(3) {
		case 0:
			fields = append(fields, g.value())
		case 1:
			fields = append(fields, string(rune('a'+g.IntN(8)))+"="+g.value())
		default:
			fields = append(fields, "["+strings.ReplaceAll(g.key(), "#t", "1")+"]="+g.value())
		}
	}
	if g.IntN(4) == 0 {
		fields = append(fields, "several()")
	}
	return "t={" + strings.Join(fields, ",") + "}"
}

func (g *tableGenerator) change() string {
	switch g.IntN(14) {
	case 0:
		return "if #t>=0 then table.insert(t," + g.of("1", "'x'", "true") + ") end"
	case 1:
		return "table.remove(t)"
	case 2:
		return "show()"
	case 3:
		return "for k,v in pairs(t) do if " + g.of("type(k)=='string'", "v==1", "k==1", "v==true") + " then t[k]=nil end end"
	case 4, 5:
		return "t." + string(rune('a'+g.IntN(8))) + "=" + g.value()
	}
	return "t[" + g.key() + "]=" + g.value()
}

func (g *tableGenerator) program() string {
	var b strings.Builder
	// Where the collector has been, a name that comes again gets another place than the one that it had: not so here.
	b.WriteString("collectgarbage('stop')\nlocal t,o={},{}\nlocal function several() return 7,nil,8 end\n" +
		"local function show() for k,v in pairs(t) do o[#o+1]=tostring(k)..'='..tostring(v) end o[#o+1]='#'..#t end\n")
	b.WriteString(g.table())
	for range g.IntN(40) {
		b.WriteString("\n" + g.change())
	}
	b.WriteString("\nshow() pcall(function() o[#o+1]=cjson.encode(t) end)\nreturn table.concat(o,' ')")
	return b.String()
}
