package luac

import (
	"fmt"
	"strings"
	"testing"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/internal/require"
)

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"x = = 1", "s:1: unexpected symbol near '='"},
		{"local a\n\nlocal b = (", "s:3: unexpected symbol near '<eof>'"},
		{strings.Repeat("x", maxSource+1), "s:1: source is too long"},
	} {
		if _, err := Compile([]byte(tt.source), "s", 0); err == nil || err.Error() != tt.want {
			t.Errorf("%.20q: %v, want %s", tt.source, err, tt.want)
		}
	}
}

func TestScopes(t *testing.T) {
	const source = "local a = 1\ndo local b = f(a) g(b) end\nlocal c = 2\nreturn function(d)\nreturn c + d end"
	proto, err := Compile([]byte(source), "s", 0)
	require.NoError(t, err)
	names := func(p *vm.FunctionProto) (names string) {
		for _, line := range p.DbgSourcePositions {
			if line < 0 || line > 5 {
				t.Errorf("line %d", line)
			}
		}
		for _, v := range p.DbgLocals {
			if v.StartPc >= v.EndPc {
				t.Errorf("%s is in scope from %d to %d", v.Name, v.StartPc, v.EndPc)
			}
			names += v.Name
		}
		return names
	}
	outer, inner := names(proto), names(proto.FunctionPrototypes[0])
	if outer != "abc" || inner[0] != 'd' { // its last instruction has the scope of the outer one
		t.Errorf("variables %s, and %s in the function", outer, inner)
	}
}

// 190 local variables and a call with 50 arguments fit into the registers.
func TestRegisters(t *testing.T) {
	var b strings.Builder
	names := make([]string, 190)
	for i := range names {
		names[i] = fmt.Sprintf("v%d", i)
		fmt.Fprintf(&b, "local %s = %d\n", names[i], i)
	}
	b.WriteString("return f(" + strings.Join(names[:50], ", ") + ")")
	proto, err := Compile([]byte(b.String()), "s", 0)
	require.NoError(t, err)
	if proto.NumUsedRegisters != 242 {
		t.Errorf("%d registers", proto.NumUsedRegisters)
	}
}
