package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// renamed returns a table after renames "old new". A rename "old" without a new name disables the command.
func renamed(t testing.TB, renames ...string) *Table {
	t.Helper()
	table := DefaultTable().Clone()
	for _, r := range renames {
		from, to, _ := strings.Cut(r, " ")
		require.NoError(t, table.Rename(from, to))
	}
	return table
}

func TestRename(t *testing.T) {
	long := strings.Repeat("b840fc02", 20)
	table := renamed(t, "CONFIG "+long, "keys", "Get GETÄ", "SET a", "a b", "exists c", "C EXISTS")
	for _, tt := range []struct{ sent, name string }{
		{"config", ""},
		{strings.ToUpper(long), "config"},
		{long[1:], ""},
		{long + "x", ""},
		{"KEYS", ""},
		{"get", ""},
		{"getÄ", "get"},
		{"getä", ""}, // the case of letters other than ASCII matters
		{"set", ""},
		{"a", ""},
		{"B", "set"},
		{"c", ""},
		{"exists", "exists"},
		{"ping", "ping"},
	} {
		s := table.Lookup([]byte(tt.sent))
		if tt.name == "" {
			if s != nil {
				t.Errorf("%s is %s", tt.sent, s.FullName())
			}
			continue
		}
		if s == nil || s.FullName() != tt.name {
			t.Errorf("%s: %v", tt.sent, s)
		}
	}
	if table.Len() != DefaultTable().Len()-1 || len(table.All()) != table.Len() {
		t.Errorf("%d commands, %d by default", table.Len(), DefaultTable().Len())
	}
	for _, name := range []string{"config", "keys", "get", "set"} {
		if Lookup([]byte(name)) == nil {
			t.Errorf("%s is missing in the default table", name)
		}
	}
	for _, tt := range []struct{ from, to, want string }{
		{"nosuch", "x", "no such command: 'nosuch'"},
		{"nosuch", "", "no such command: 'nosuch'"},
		{"Keys", "x", "no such command: 'keys'"}, // the command is disabled
		{"set", "x", "no such command: 'set'"},
		{"ping", "B", "target command name already exists: 'b'"},
		{"ping", "PING", "target command name already exists: 'ping'"},
	} {
		if err := table.Rename(tt.from, tt.to); err == nil || err.Error() != tt.want {
			t.Errorf("%s to %s: %v", tt.from, tt.to, err)
		}
	}
}

// TestResolverWithTable checks that the resolver never returns a remembered command for another name.
func TestResolverWithTable(t *testing.T) {
	long := strings.Repeat("x", maxName) + "y"
	table := renamed(t, "PING "+long, "ECHO "+long[:maxName], "SET GETT", "GET")
	var r Resolver
	r.Use(table)
	for range 2 {
		for _, tt := range []struct{ sent, name string }{
			{long, "ping"}, {long[:maxName], "echo"}, {long, "ping"}, {"ping", ""}, {"get", ""}, {"gett", "set"}, {"set", ""},
		} {
			for range 2 {
				s, err := r.Resolve(bytesOf(tt.sent, "k", "v")[:map[string]int{"echo": 2,
					"set": 3}[tt.name]+map[bool]int{true: 1}[tt.name == "ping" || tt.name == ""]])
				switch {
				case tt.name == "" && (s != nil || err == nil || !strings.HasPrefix(err.Error(), "unknown command '"+tt.sent+"'")):
					t.Errorf("%s: %v %v", tt.sent, s, err)
				case tt.name != "" && (err != nil || s.FullName() != tt.name):
					t.Errorf("%s: %v %v", tt.sent, s, err)
				}
			}
		}
	}
	r.Use(DefaultTable())
	if s, err := r.Resolve(bytesOf("get", "k")); err != nil || s.FullName() != "get" {
		t.Errorf("after a change of the table: %v %v", s, err)
	}
}

func TestRenamedLookupDoesNotAllocate(t *testing.T) {
	table := renamed(t, "GET fetch")
	args, gone := bytesOf("FeTCH", "x"), bytesOf("get", "x")
	if n := testing.AllocsPerRun(100, func() {
		if s, err := table.Resolve(args); s == nil || err != nil {
			t.Fatal(err)
		}
		if table.Lookup(gone[0]) != nil {
			t.Fatal("the old name still exists")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// COMMAND finds renamed commands by their new names and shows their original names, as Redis and Kvrocks do. It shows
// nothing of a disabled command.
func TestCommandOfRenames(t *testing.T) {
	table := renamed(t, "GET fetch", "CONFIG conf", "KEYS", "ZADD zzz")
	srv := testServer(enginetest.Open(t))
	srv.Table = table
	run := func(words ...string) string {
		t.Helper()
		return writeWith(t, srv.DB, func(c *Ctx) {
			c.Args, c.Srv = bytesOf(words...), srv
			spec, err := table.Resolve(c.Args)
			if err == nil {
				err = spec.Handler(c)
			}
			if err != nil {
				WriteError(c.Out, err)
			}
		})
	}
	list := run("command", "list")
	for name, want := range map[string]bool{"fetch": false, "get": true, "keys": false, "conf": false, "config": true,
		"conf|set": false, "config|set": true, "zadd": true, "zzz": false} {
		if got := strings.Contains(list, "\r\n"+name+"\r\n"); got != want {
			t.Errorf("COMMAND LIST names %s: %v", name, got)
		}
	}
	if i, j := strings.Index(list, "\r\nzadd\r\n"), strings.Index(list, "\r\nzunion\r\n"); i > j {
		t.Error("the order of COMMAND LIST reveals the new names")
	}
	if got := run("command", "list", "filterby", "pattern", "config|s*"); got != "*1\r\n$10\r\nconfig|set\r\n" {
		t.Errorf("COMMAND LIST FILTERBY PATTERN: %q", got)
	}
	for _, tt := range []struct{ name, begins string }{
		{"fetch", "*1\r\n*10\r\n$3\r\nget\r\n:2\r\n"}, {"get", "*1\r\n$-1\r\n"}, {"keys", "*1\r\n$-1\r\n"},
		{"Conf|SET", "*1\r\n*10\r\n$10\r\nconfig|set\r\n"}, {"config|set", "*1\r\n$-1\r\n"},
	} {
		if got := run("command", "info", tt.name); !strings.HasPrefix(got, tt.begins) {
			t.Errorf("COMMAND INFO %s: %.40q", tt.name, got)
		}
	}
	if got := run("command", "docs", "get", "fetch"); !strings.HasPrefix(got, "*2\r\n$3\r\nget\r\n") {
		t.Errorf("COMMAND DOCS: %.40q", got)
	}
	if got, want := run("command", "count"), fmt.Sprintf(":%d\r\n", DefaultTable().Len()-1); got != want {
		t.Errorf("COMMAND COUNT: %q, want %q: one command is disabled", got, want)
	}
	if got := run("command", "getkeys", "fetch", "k"); got != "*1\r\n$1\r\nk\r\n" {
		t.Errorf("COMMAND GETKEYS: %q", got)
	}
	if got := run("command", "getkeys", "get", "k"); got != "-ERR Invalid command specified\r\n" {
		t.Errorf("COMMAND GETKEYS of a former name: %q", got)
	}
	if got := run("command", "getkeys", "ping"); got != "-ERR The command has no key arguments\r\n" {
		t.Errorf("COMMAND GETKEYS of a command without keys: %q", got)
	}
}
