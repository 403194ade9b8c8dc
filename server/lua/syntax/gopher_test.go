package syntax

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/basaltdb/basalt/internal/require"
)

// dumper writes syntax trees as text, so that trees which mean the same are the same text: numbers by value, and
// computed where Lua computes them.
type dumper struct{ lines bool }

func (d dumper) at(line int) string {
	if d.lines {
		return fmt.Sprintf("@%d", line)
	}
	return ""
}

func (d dumper) stmts(list []ast.Stmt) string {
	var out []string
	for _, s := range list {
		out = append(out, d.stmt(s))
	}
	return strings.Join(out, " ")
}

// block returns the text of a block, with a blank before it.
func (d dumper) block(list []ast.Stmt) string {
	if len(list) == 0 {
		return ""
	}
	return " {" + d.stmts(list) + "}"
}

func (d dumper) stmt(s ast.Stmt) string {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return "(=" + d.exprs(s.Lhs) + d.exprs(s.Rhs) + ")"
	case *ast.LocalAssignStmt:
		exprs := s.Exprs
		if len(s.Names) == 1 && len(exprs) == 2 {
			if _, ok := exprs[0].(*ast.FunctionExpr); ok {
				exprs = exprs[:1] // see hideName
			}
		}
		return "(local " + strings.Join(s.Names, " ") + " =" + d.exprs(exprs) + ")"
	case *ast.FuncCallStmt:
		return d.expr(s.Expr)
	case *ast.DoBlockStmt:
		return "(do" + d.block(s.Stmts) + ")"
	case *ast.WhileStmt:
		return "(while " + d.expr(s.Condition) + d.block(s.Stmts) + ")"
	case *ast.RepeatStmt:
		return "(repeat" + d.block(s.Stmts) + " " + d.expr(s.Condition) + ")"
	case *ast.IfStmt:
		return "(if " + d.expr(s.Condition) + d.block(s.Then) + d.block(s.Else) + ")"
	case *ast.NumberForStmt:
		step := ""
		if s.Step != nil {
			step = " " + d.expr(s.Step)
		}
		return "(for" + d.at(s.Line()) + " " + d.expr(s.Init) + " " + d.expr(s.Limit) + step + d.block(s.Stmts) + ")"
	case *ast.GenericForStmt:
		return "(for" + d.at(s.Line()) + d.exprs(s.Exprs) + d.block(s.Stmts) + ")"
	case *ast.FuncDefStmt:
		if s.Name.Receiver != nil {
			return "(function " + d.expr(s.Name.Receiver) + " :" + s.Name.Method + d.function(s.Func) + ")"
		}
		return "(function " + d.expr(s.Name.Func) + d.function(s.Func) + ")"
	case *ast.ReturnStmt:
		return "(return" + d.exprs(s.Exprs) + ")"
	case *ast.BreakStmt:
		return "(break)"
	}
	return fmt.Sprintf("%T", s)
}

func (d dumper) function(f *ast.FunctionExpr) string {
	params := strings.Join(f.ParList.Names, " ")
	if f.ParList.HasVargs {
		params += " ..."
	}
	if params != "" {
		params = " " + params
	}
	return params + d.block(f.Stmts)
}

// exprs returns the text of a list, with a blank before each.
func (d dumper) exprs(list []ast.Expr) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteByte(' ')
		b.WriteString(d.expr(e))
	}
	return b.String()
}

func (d dumper) expr(e ast.Expr) string {
	if f, ok := number(e); ok {
		return strconv.FormatFloat(f+0, 'g', -1, 64) // 0 and -0 are one constant of a function
	}
	at := d.at(e.Line())
	adjusted := func(yes bool) string {
		if yes {
			return "!"
		}
		return ""
	}
	op := func(op string, operands ...ast.Expr) string { return "(" + op + d.exprs(operands) + ")" + at }
	switch e := e.(type) {
	case *ast.TrueExpr:
		return "true"
	case *ast.FalseExpr:
		return "false"
	case *ast.NilExpr:
		return "nil"
	case *ast.StringExpr:
		return "'" + e.Value + "'"
	case *ast.Comma3Expr:
		return "..." + adjusted(e.AdjustRet)
	case *ast.IdentExpr:
		return e.Value + at
	case *ast.AttrGetExpr:
		return op(".", e.Object, e.Key)
	case *ast.TableExpr:
		var b strings.Builder
		for _, f := range e.Fields {
			if f.Key != nil {
				b.WriteString(" [" + d.expr(f.Key) + " " + d.expr(f.Value) + "]")
			} else {
				b.WriteString(" " + d.expr(f.Value))
			}
		}
		return "({}" + b.String() + ")" + at
	case *ast.FuncCallExpr:
		if e.Receiver != nil {
			return "(call" + adjusted(e.AdjustRet) + " " + d.expr(e.Receiver) + " :" + e.Method + d.exprs(e.Args) + ")" + at
		}
		return "(call" + adjusted(e.AdjustRet) + " " + d.expr(e.Func) + d.exprs(e.Args) + ")" + at
	case *ast.LogicalOpExpr:
		return op(e.Operator, e.Lhs, e.Rhs)
	case *ast.RelationalOpExpr:
		return op(e.Operator, e.Lhs, e.Rhs)
	case *ast.StringConcatOpExpr:
		return op("..", e.Lhs, e.Rhs)
	case *ast.ArithmeticOpExpr:
		return op(e.Operator, e.Lhs, e.Rhs)
	case *ast.UnaryMinusOpExpr:
		return op("-", e.Expr)
	case *ast.UnaryNotOpExpr:
		return op("not", e.Expr)
	case *ast.UnaryLenOpExpr:
		return op("#", e.Expr)
	case *ast.FunctionExpr:
		return "(function" + d.function(e) + ")" + at
	}
	return fmt.Sprintf("%T", e)
}

// number returns the value of an expression that Lua computes when it reads it.
func number(e ast.Expr) (float64, bool) {
	switch e := e.(type) {
	case *ast.NumberExpr:
		f, err := strconv.ParseFloat(e.Value, 64)
		if err != nil {
			f, _ = parseNumber(e.Value)
		}
		return f, true
	case *ast.UnaryMinusOpExpr:
		f, ok := number(e.Expr)
		return -f, ok
	case *ast.ArithmeticOpExpr:
		a, ok1 := number(e.Lhs)
		b, ok2 := number(e.Rhs)
		if ok1 && ok2 {
			return fold(e.Operator[0], a, b)
		}
	}
	return 0, false
}

// scripts returns those that the interpreter is tested with, and the chunks of the golden file.
func scripts(t testing.TB) (list []string) {
	t.Helper()
	golden(t, func(chunk, message string) { list = append(list, chunk) })
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		text := require.File(t, file)
		for line := range strings.Lines(string(text)) {
			if line[0] != '#' && line[0] != '\t' {
				list = append(list, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return list
}

// sameTree compares the tree of a chunk with that of gopher-lua's parser, if both take it. It returns whether they do.
func sameTree(t *testing.T, chunk string) bool {
	ours, err := Parse(chunk, "c", 0)
	if err != nil {
		return false
	}
	theirs, err := parse.Parse(strings.NewReader(chunk), "c")
	if err != nil {
		return false
	}
	if got, want := (dumper{}).stmts(ours), (dumper{}).stmts(theirs); got != want {
		t.Errorf("%q\n got %s\nwant %s", chunk, got, want)
	}
	return true
}

func TestTrees(t *testing.T) {
	both := 0
	for _, s := range scripts(t) {
		if sameTree(t, s) {
			both++
		}
	}
	if both < 1000 {
		t.Errorf("%d trees were compared", both)
	}
}

// readsDifferently reports whether a chunk may have numbers, or ends of them, that gopher-lua reads in another way:
// such with exponents of 2 or that begin with 0, or zero bytes.
func readsDifferently(chunk string) bool {
	return strings.ContainsAny(chunk, "pP\x00") || strings.Contains(chunk, "0")
}

func FuzzParse(f *testing.F) {
	for _, s := range scripts(f) {
		if len(s) < 500 {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, chunk string) {
		if len(chunk) > 10000 {
			return
		}
		if !readsDifferently(chunk) {
			sameTree(t, chunk)
		}
		if _, err := Parse(chunk, "c", 0); err != nil {
			e, ok := err.(*Error)
			if !ok || e.Line > 1+strings.Count(chunk, "\n")+strings.Count(chunk, "\r") {
				t.Errorf("%q: %#v", chunk, err)
			}
		}
	})
}

func benchmarkChunks(b *testing.B) (chunks []string, size int64) {
	for _, s := range scripts(b) {
		if _, err := Parse(s, "c", 0); err != nil {
			continue
		}
		if _, err := parse.Parse(strings.NewReader(s), "c"); err == nil {
			chunks = append(chunks, s)
			size += int64(len(s))
		}
	}
	return chunks, size
}

// BenchmarkParse reads the scripts of the tests, and one long chunk made of them.
func BenchmarkParse(b *testing.B) {
	chunks, size := benchmarkChunks(b)
	long := ""
	for _, s := range chunks {
		long += "f(function(...) " + s + "\nend)\n"
	}
	for _, of := range []struct {
		name   string
		chunks []string
		size   int64
	}{{"short", chunks, size}, {"long", []string{long}, int64(len(long))}} {
		b.Run(of.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(of.size)
			for b.Loop() {
				for _, s := range of.chunks {
					if _, err := Parse(s, "c", 0); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(of.name+"/gopher-lua", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(of.size)
			for b.Loop() {
				for _, s := range of.chunks {
					if _, err := parse.Parse(strings.NewReader(s), "c"); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
