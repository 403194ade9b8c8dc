package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

var bytesOf = enginetest.Bytes

func TestResolve(t *testing.T) {
	long := strings.Repeat("x", 200)
	var resolver Resolver
	for _, tt := range []struct {
		args []string
		name string // of the command, "" = an error
		err  string
	}{
		{[]string{"PING"}, "ping", ""},
		{[]string{"pInG", "a"}, "ping", ""},
		{[]string{"client", "LIST"}, "client|list", ""},
		{[]string{"COMMAND"}, "command", ""},
		{[]string{"Command", "Count"}, "command|count", ""},
		{[]string{"nosuch"}, "", "unknown command 'nosuch', with args beginning with: "},
		{[]string{"nosuch", "a", "b c"}, "", "unknown command 'nosuch', with args beginning with: 'a' 'b c' "},
		{[]string{"nosuch", "a\x00b"}, "", "unknown command 'nosuch', with args beginning with: 'a' "},
		{[]string{long, long, "z"}, "", "unknown command '" + long[:128] + "', with args beginning with: '" +
			long[:128] + "' "},
		// The error echoes at most 128 bytes of the arguments, quotes and blanks included.
		{[]string{"nosuch", long[:120], long[:20], "z"}, "", "unknown command 'nosuch', with args beginning with: '" +
			long[:120] + "' '" + long[:5] + "' "},
		{[]string{"client", "nosuch"}, "", "unknown subcommand 'nosuch'. Try CLIENT HELP."},
		{[]string{"client", long}, "", "unknown subcommand '" + long[:128] + "'. Try CLIENT HELP."},
		{[]string{"client"}, "", "wrong number of arguments for 'client' command"},
		{[]string{"client", "kill"}, "", "wrong number of arguments for 'client|kill' command"},
		{[]string{"echo", "a"}, "echo", ""},
		{[]string{"echo"}, "", "wrong number of arguments for 'echo' command"},
		{[]string{"echo", "a", "b"}, "", "wrong number of arguments for 'echo' command"},
		{[]string{""}, "", "unknown command '', with args beginning with: "},
	} {
		spec, err := Resolve(bytesOf(tt.args...))
		for range 2 { // the second time the Resolver may remember the command
			if again, err2 := resolver.Resolve(bytesOf(tt.args...)); again != spec || fmt.Sprint(err2) != fmt.Sprint(err) {
				t.Errorf("%.60q: the Resolver returns %v %v", tt.args, again, err2)
			}
		}
		switch {
		case tt.err != "" && (err == nil || err.Error() != tt.err):
			t.Errorf("%.60q: %v, want %s", tt.args, err, tt.err)
		case tt.err == "" && (err != nil || spec.FullName() != tt.name):
			t.Errorf("%.60q: %v %v, want %s", tt.args, spec, err, tt.name)
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	args := bytesOf("PiNG", "x")
	var resolver Resolver
	if n := testing.AllocsPerRun(100, func() {
		if s, err := Resolve(args); s == nil || err != nil {
			t.Fatal(err)
		}
		if s, err := resolver.Resolve(args); s == nil || err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Conditions for every row of the table of commands.
func TestTable(t *testing.T) {
	seen := map[int]bool{}
	check := func(s *Spec) {
		name := s.FullName()
		if seen[s.ID] || ByID(s.ID) != s {
			t.Errorf("%s: the ID belongs to another command", name)
		}
		seen[s.ID] = true
		if s.Handler == nil && len(s.Sub) == 0 {
			t.Errorf("%s has no handler", name)
		}
		if len(s.Name) > maxName {
			t.Errorf("%s: the name is longer than the look-up allows", name)
		}
		if s.Arity == 0 || s.facts.group == "" || s.facts.summary == "" || s.facts.since == "" || s.facts.complexity == "" {
			t.Errorf("%s: arity or documentation is missing", name)
		}
		if s.Flags&Write != 0 && s.Flags&ReadOnly != 0 {
			t.Errorf("%s has the flags Write and ReadOnly", name)
		}
		if s.Flags&Single != 0 && (s.Flags&ReadOnly == 0 || s.first == 0 && s.Keys == nil) {
			t.Errorf("%s: only readers with keys can be Single", name)
		}
		if s.first > 0 && s.step <= 0 {
			t.Errorf("%s: the positions of keys have no step", name)
		}
		if s.Flags&Solo != 0 && s.Flags&Single != 0 {
			t.Errorf("%s has the flags Solo and Single", name)
		}
	}
	for _, s := range original.All() {
		check(s)
		for i := range s.Sub {
			check(&s.Sub[i])
		}
	}
	if len(seen) != NumSpecs() {
		t.Errorf("%d rows, %d IDs", len(seen), NumSpecs())
	}
}

// With any arguments, the key finders neither panic nor return an index outside of the arguments.
func TestKeyFinders(t *testing.T) {
	for id := range NumSpecs() {
		s := ByID(id)
		for n := range 8 {
			for _, filler := range []string{"", "0", "1", "-1", "3", "9223372036854775807", "x", "STORE", "STREAMS",
				"KEYS", "LEFT"} {
				args := [][]byte{[]byte(s.Name)}
				for range n {
					args = append(args, []byte(filler))
				}
				for _, k := range s.AppendKeys(nil, args) {
					if k.Arg <= 0 || k.Arg >= len(args) {
						t.Fatalf("%s: key at %d of %d arguments", s.FullName(), k.Arg, len(args))
					}
				}
			}
		}
	}
}

func TestAppendKeys(t *testing.T) {
	for _, tt := range []struct {
		first, last, step int
		args              int
		want              []int
	}{
		{1, 1, 1, 3, []int{1}},
		{1, -1, 1, 4, []int{1, 2, 3}},
		{1, -2, 1, 4, []int{1, 2}},
		{1, -1, 2, 5, []int{1, 3}},
		{2, 2, 1, 4, []int{2}},
		{1, 2, 1, 2, []int{1}}, // too few arguments
		{0, 0, 0, 4, nil},
	} {
		s := Spec{first: tt.first, last: tt.last, step: tt.step, Flags: Write}
		var got []int
		for _, k := range s.AppendKeys(nil, make([][]byte, tt.args)) {
			got = append(got, k.Arg)
			if !k.Write {
				t.Error("a key of a command that writes is not marked as written")
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestCommandInfo(t *testing.T) {
	db := enginetest.Open(t)
	// name, arity, flags, first, last, step, categories, tips, key specifications, subcommands
	ping := "*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n*2\r\n+@fast\r\n+@connection\r\n*2\r\n$25\r\n" +
		"request_policy:all_shards\r\n$29\r\nresponse_policy:all_succeeded\r\n*0\r\n*0\r\n"
	list := "*10\r\n$11\r\nclient|list\r\n:-2\r\n*4\r\n+admin\r\n+noscript\r\n+loading\r\n+stale\r\n:0\r\n:0\r\n:0\r\n" +
		"*4\r\n+@admin\r\n+@slow\r\n+@dangerous\r\n+@connection\r\n*1\r\n$23\r\nnondeterministic_output\r\n*0\r\n*0\r\n"
	for _, tt := range []struct{ args, want string }{
		{"COMMAND INFO ping nosuch PING", "*3\r\n" + ping + "$-1\r\n" + ping},
		{"COMMAND INFO client|list", "*1\r\n" + list},
		{"COMMAND INFO client|nosuch", "*1\r\n$-1\r\n"},
	} {
		if got := do(t, db, strings.Fields(tt.args)...); got != tt.want {
			t.Errorf("%s: %q", tt.args, got)
		}
	}
	if got := do3(t, db, "COMMAND", "INFO", "ping", "x"); got != "*2\r\n"+strings.NewReplacer("*0\r\n", "~0\r\n",
		"*1\r\n", "~1\r\n", "*2\r\n", "~2\r\n").Replace(ping)+"_\r\n" {
		t.Errorf("RESP3: %q", got)
	}
	count := do(t, db, "COMMAND", "COUNT")
	all := do(t, db, "COMMAND")
	if want := "*" + strings.TrimPrefix(count, ":"); !strings.HasPrefix(all, want) || do(t, db, "COMMAND", "INFO") != all {
		t.Errorf("COMMAND begins with %.20q, COMMAND COUNT is %q", all, count)
	}
}

func TestKeySpecs(t *testing.T) {
	db := enginetest.Open(t)
	words := func(list ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(list))
		for _, w := range list {
			text += "+" + w + "\r\n"
		}
		return text
	}
	// A map of names to numbers or strings.
	fields := func(pairs ...any) string {
		text := fmt.Sprintf("*%d\r\n", len(pairs))
		for _, v := range pairs {
			if s, ok := v.(string); ok {
				text += fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
			} else {
				text += fmt.Sprintf(":%d\r\n", v)
			}
		}
		return text
	}
	spec := func(flags, begin, beginFields, find, findFields string) string {
		search := func(name, kind, fields string) string {
			return fmt.Sprintf("$%d\r\n%s\r\n*4\r\n$4\r\ntype\r\n$%d\r\n%s\r\n$4\r\nspec\r\n%s", len(name), name,
				len(kind), kind, fields)
		}
		return "*6\r\n$5\r\nflags\r\n" + flags + search("begin_search", begin, beginFields) +
			search("find_keys", find, findFields)
	}
	one := fields("lastkey", 0, "keystep", 1, "limit", 0)
	for name, want := range map[string]string{
		"ping": "*0\r\n",
		"get":  "*1\r\n" + spec(words("RO", "access"), "index", fields("index", 1), "range", one),
		"mset": "*1\r\n" + spec(words("OW", "update"), "index", fields("index", 1), "range",
			fields("lastkey", -1, "keystep", 2, "limit", 0)),
		"lmpop": "*1\r\n" + spec(words("RW", "access", "delete"), "index", fields("index", 1), "keynum",
			fields("keynumidx", 0, "firstkey", 1, "keystep", 1)),
		"rename": "*2\r\n" + spec(words("RW", "access", "delete"), "index", fields("index", 1), "range", one) +
			spec(words("OW", "update"), "index", fields("index", 2), "range", one),
		"xread": "*1\r\n" + spec(words("RO", "access"), "keyword", fields("keyword", "STREAMS", "startfrom", 1),
			"range", fields("lastkey", -1, "keystep", 1, "limit", 2)),
		"sort_ro": "*2\r\n" + spec(words("RO", "access"), "index", fields("index", 1), "range", one) +
			spec(words("RO", "access"), "unknown", "*0\r\n", "unknown", "*0\r\n"),
	} {
		if got := writeWith(t, db, original.byFullName([]byte(name)).writeKeySpecs); got != want {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, want)
		}
	}
}

func TestCommandDocsListGetKeys(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct{ args, want string }{
		{"COMMAND DOCS nosuch", "*0\r\n"},
		{"COMMAND DOCS quit nosuch",
			"*2\r\n$4\r\nquit\r\n*14\r\n$7\r\nsummary\r\n$22\r\nCloses the connection.\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\n" +
				"group\r\n$10\r\nconnection\r\n$10\r\ncomplexity\r\n$4\r\nO(1)\r\n" +
				"$9\r\ndoc_flags\r\n*1\r\n+deprecated\r\n$16\r\ndeprecated_since\r\n$5\r\n7.2.0\r\n$11\r\nreplaced_by\r\n$22\r\n" +
				"closing the connection\r\n"},
		{"COMMAND LIST FILTERBY PATTERN CONFIG|re*", "*2\r\n$14\r\nconfig|rewrite\r\n$16\r\nconfig|resetstat\r\n"},
		{"COMMAND LIST FILTERBY MODULE x", "*0\r\n"},
		{"COMMAND LIST FILTERBY ACLCAT nosuch", "*0\r\n"},
		{"COMMAND LIST FILTERBY WHAT x", "-ERR syntax error\r\n"},
		{"COMMAND LIST WHAT", "-ERR syntax error\r\n"},
		{"COMMAND GETKEYS nosuch x", "-ERR Invalid command specified\r\n"},
		{"COMMAND GETKEYS ping x", "-ERR The command has no key arguments\r\n"},
		{"COMMAND GETKEYS client nosuch", "-ERR Invalid command specified\r\n"},
		{"COMMAND WHAT", "-ERR unknown subcommand 'WHAT'. Try COMMAND HELP.\r\n"},
	} {
		if got := do(t, db, strings.Fields(tt.args)...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.args, got, tt.want)
		}
	}
	admins := do(t, db, "COMMAND", "LIST", "FILTERBY", "ACLCAT", "Admin")
	if !strings.Contains(admins, "config|set\r\n") || !strings.Contains(admins, "lastsave\r\n") ||
		strings.Contains(admins, "ping\r\n") {
		t.Errorf("ACLCAT admin: %q", admins)
	}
	if got := do3(t, db, "COMMAND", "DOCS", "client"); !strings.HasPrefix(got, "%1\r\n$6\r\nclient\r\n%5\r\n") ||
		!strings.Contains(got, "$11\r\nclient|list\r\n%6\r\n") {
		t.Errorf("COMMAND DOCS client in RESP3: %.200q", got)
	}
	for _, name := range []string{"CLIENT", "COMMAND", "CONFIG", "DEBUG"} {
		got := do(t, db, name, "HELP")
		if !strings.Contains(got, "\r\n+"+name+" <subcommand> ") || !strings.HasSuffix(got, "+HELP\r\n+    This text.\r\n") {
			t.Errorf("%s HELP: %q", name, got)
		}
	}
}
