package difftest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	commands "github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
)

// notCompared are the commands of redis-server 7.0 that are not compared with it, with the reason. Each has a test of
// its own.
var notCompared = map[string]string{
	"cluster|help": "has the subcommands of Kvrocks too",
	"failover":     "needs replicas, which have Kvrocks's protocol",
	"script|debug": "there is no debugger; redis-server refuses it in a pipeline",
}

// notTested are the commands that no test calls by name, with the reason.
var notTested = map[string]string{
	"_db_name":    "in the recorded conversations of replicas",
	"_fetch_file": "in the recorded conversations of replicas",
	"_ingest":     "in the migrations between two nodes",
	"_fetch_meta": "in the recorded conversations of replicas",
}

// TestEveryCommandIsCompared walks the command table. A command that redis-server has must stand in a table of this
// package; any other must be called by a test of the server that says what it replies.
func TestEveryCommandIsCompared(t *testing.T) {
	redis := startRedis(t)
	c := connect(t, redis.Addr(), 2)
	all := c.must(t, "COMMAND")
	known := map[string]bool{}
	for _, info := range all.elems {
		known[string(info.elems[0].text)] = true
		for _, sub := range subcommands(info) {
			known[string(sub.elems[0].text)] = true
		}
	}

	compared, tested := called{}, called{}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, file := range files {
		for _, cmd := range mustReadTable(t, file) {
			compared.add(cmd.args)
		}
	}
	compared.addFiles(t, ".")
	tested.addFiles(t, "..")

	specs := map[string]bool{}
	check := func(s *commands.Spec) {
		name := s.FullName()
		specs[name] = true
		switch {
		case known[name] && notCompared[name] == "" && !compared[name]:
			t.Errorf("%s: redis-server has it, yet no table of differences", name)
		case known[name] && notCompared[name] != "" && compared[name]:
			t.Errorf("%s is compared, and an exception: %s", name, notCompared[name])
		case (!known[name] || notCompared[name] != "") && notTested[name] == "" && !tested[name]:
			t.Errorf("%s: redis-server is not compared, and no test calls it", name)
		case notTested[name] != "" && tested[name]:
			t.Errorf("%s is tested, and an exception: %s", name, notTested[name])
		}
	}
	for _, s := range commands.DefaultTable().All() {
		if len(s.Sub) == 0 {
			check(s)
		}
		for i := range s.Sub {
			check(&s.Sub[i])
		}
	}
	for name := range notCompared {
		if !specs[name] || !known[name] {
			t.Errorf("the exception %s is no command that both have", name)
		}
	}
	for name := range notTested {
		if !specs[name] {
			t.Errorf("the exception %s is no command", name)
		}
	}
	if len(specs) < 300 {
		t.Errorf("the table has only %d commands", len(specs))
	}
}

// called are full names of commands.
type called map[string]bool

// add notes a command line. Of a container with its subcommand that is config|get.
func (c called) add(words []string) {
	if len(words) == 0 {
		return
	}
	name := strings.ToLower(words[0])
	c[name] = true
	if len(words) > 1 {
		c[name+"|"+strings.ToLower(words[1])] = true
	}
}

// addFiles notes the commands that stand in the tests under a directory: as one text, or as the arguments of a call or
// the elements of a list one after the other. Names are written there in capital letters.
func (c called) addFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "coverage_test.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				c.addTexts([]ast.Expr{n})
			case *ast.CallExpr:
				c.addTexts(n.Args)
			case *ast.CompositeLit:
				c.addTexts(n.Elts)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c called) addTexts(list []ast.Expr) {
	var texts []string
	for _, e := range list {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			texts = append(texts, "")
			continue
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			text = ""
		}
		texts = append(texts, text)
	}
	for i := range texts {
		for _, line := range strings.FieldsFunc(texts[i], func(r rune) bool { return r == '\n' || r == ';' }) {
			words, ok := resp.SplitArgs([]byte(line), nil)
			if !ok || len(words) == 0 || string(words[0]) != strings.ToUpper(string(words[0])) {
				continue
			}
			c.add(slices.Concat(toStrings(words), texts[i+1:]))
		}
	}
}
