package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/servertest"
)

// library returns the source of a library with one function, which returns result.
func library(name, function, result string) string {
	return "#!lua name=" + name + "\nredis.register_function('" + function + "', function() return '" + result + "' end)"
}

// The changes of FUNCTION and SCRIPT commands take effect with the commit. After a failed commit, memory and database
// are unchanged.
func TestScriptsAfterAFailedWrite(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	const script, other, evaluated = "return 'kept'", "return 'other'", "return 'evaluated'"
	sha := lua.SHA([]byte(script))
	c.Do("FUNCTION", "LOAD", library("other", "g", "other"))
	_, dump, _ := strings.Cut(c.Do("FUNCTION", "DUMP"), "\r\n")
	dump = strings.TrimSuffix(dump, "\r\n")
	c.Want("FUNCTION FLUSH", "+OK\r\n")
	c.Do("FUNCTION", "LOAD", library("lib", "f", "old"))
	c.Do("SCRIPT", "LOAD", script)
	c.Do("EVAL", evaluated, "0")
	before := c.Do("FUNCTION", "LIST", "WITHCODE")
	check := func(when string) {
		t.Helper()
		if got := c.Do("FUNCTION", "LIST", "WITHCODE"); got != before {
			t.Errorf("%s: libraries %q", when, got)
		}
		for _, tt := range []struct{ command, want string }{
			{"FCALL f 0", "$3\r\nold\r\n"}, {"FCALL g 0", "-ERR Function not found\r\n"},
			{"EVALSHA " + sha + " 0", "$4\r\nkept\r\n"},
			{"SCRIPT EXISTS " + sha + " " + lua.SHA([]byte(other)) + " " + lua.SHA([]byte(evaluated)),
				"*3\r\n:1\r\n:0\r\n:1\r\n"},
			{"EVALSHA " + lua.SHA([]byte(other)) + " 0", "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
		} {
			if got := c.Do(strings.Fields(tt.command)...); got != tt.want {
				t.Errorf("%s: %s: %q, want %q", when, tt.command, got, tt.want)
			}
		}
	}
	check("before")
	for _, cmd := range [][]string{
		{"FUNCTION", "LOAD", library("new", "g", "new")},
		{"FUNCTION", "LOAD", "REPLACE", library("lib", "f", "new")},
		{"FUNCTION", "LOAD", "REPLACE", library("lib", "g", "new")},
		{"FUNCTION", "DELETE", "lib"},
		{"FUNCTION", "FLUSH"},
		{"FUNCTION", "RESTORE", dump},
		{"FUNCTION", "RESTORE", dump, "FLUSH"},
		{"SCRIPT", "LOAD", other},
		{"SCRIPT", "FLUSH"},
	} {
		name := strings.Join(cmd[:2], " ")
		h.DB.InjectWriteError(engine.NewError("ERR", "write failed"))
		if r := c.Do(cmd...); r != "-ERR write failed\r\n" {
			t.Errorf("%s: %q", name, r)
		}
		check(name + " while writes fail")
		// In a transaction the commands after the change see it; after a failed commit no command does.
		c.Want("MULTI", "+OK\r\n")
		c.Do(cmd...)
		c.Want("FCALL f 0", "+QUEUED\r\n")
		if r := c.Do("EXEC"); r != "-ERR write failed\r\n" {
			t.Errorf("EXEC of %s: %q", name, r)
		}
		h.DB.InjectWriteError(nil)
		check(name)
	}
	if got := c.Do("FUNCTION", "LOAD", library("new", "g", "new")); got != "$3\r\nnew\r\n" {
		t.Errorf("%q", got)
	}
	c.Want("FCALL g 0", "$3\r\nnew\r\n")
}

// The commands of a transaction see the changes to scripts and libraries of the commands before them.
func TestScriptsInATransaction(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	sha := lua.SHA([]byte("return 1"))
	for _, tt := range []struct {
		commands [][]string
		want     string
	}{
		{[][]string{{"FUNCTION", "LOAD", library("lib", "f", "x")}, {"FCALL", "f", "0"},
			{"FUNCTION", "DELETE", "lib"}, {"FCALL", "f", "0"}},
			"*4\r\n$3\r\nlib\r\n$1\r\nx\r\n+OK\r\n-ERR Function not found\r\n"},
		{[][]string{{"SCRIPT", "LOAD", "return 1"}, {"EVALSHA", sha, "0"}, {"SCRIPT", "FLUSH"}, {"EVALSHA", sha, "0"}},
			"*4\r\n$40\r\n" + sha + "\r\n:1\r\n+OK\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n"},
		{[][]string{{"SCRIPT", "FLUSH"}, {"EVAL", "return 1", "0"}, {"SCRIPT", "EXISTS", sha}},
			"*3\r\n+OK\r\n:1\r\n*1\r\n:0\r\n"},
	} {
		c.Want("MULTI", "+OK\r\n")
		for _, cmd := range tt.commands {
			if r := c.Do(cmd...); r != "+QUEUED\r\n" {
				t.Fatalf("%v: %q", cmd, r)
			}
		}
		if r := c.Do("EXEC"); r != tt.want {
			t.Errorf("%v: %q, want %q", tt.commands, r, tt.want)
		}
	}
	// The script that was evaluated after the flush is cached.
	c.Want("EVALSHA "+sha+" 0", ":1\r\n")
	c.Want("FUNCTION LIST", "*0\r\n")
}

// FUNCTION LISTFUNC and LISTLIB are commands of Kvrocks, and have Kvrocks's replies.
func TestKvrocksListsOfFunctions(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	two := "#!lua name=two\nredis.register_function('beta', function() end) redis.register_function('alpha', function() " +
		"end)"
	c.Do("FUNCTION", "LOAD", two)
	c.Do("FUNCTION", "LOAD", library("one", "alpine", "x"))
	row := func(function, lib string) string {
		return "*4\r\n" + text("function_name", function, "from_library", lib)
	}
	for _, tt := range []struct{ command, want string }{
		{"FUNCTION LISTFUNC", "*3\r\n" + row("alpha", "two") + row("alpine", "one") + row("beta", "two")},
		{"FUNCTION listfunc funcname al", "*2\r\n" + row("alpha", "two") + row("alpine", "one")},
		{"FUNCTION LISTFUNC FUNCNAME beta", "*1\r\n" + row("beta", "two")},
		{"FUNCTION LISTFUNC FUNCNAME none", "*0\r\n"},
		{"FUNCTION LISTFUNC NAME x", "-ERR Unknown argument NAME\r\n"},
		{"FUNCTION LISTFUNC FUNCNAME",
			"-ERR unknown subcommand or wrong number of arguments for 'LISTFUNC'. Try FUNCTION HELP.\r\n"},
		{"FUNCTION LISTLIB two", "*6\r\n" + text("library_name", "two", "engine", "lua") + "+functions\r\n*2\r\n" +
			text("beta", "alpha")},
		{"FUNCTION LISTLIB nosuch", "-ERR The library is not found or not loaded from storage\r\n"},
		{"FUNCTION LISTLIB", "-ERR wrong number of arguments for 'function|listlib' command\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	c.Do("HELLO", "3")
	c.Want("FUNCTION LISTFUNC FUNCNAME beta", "*1\r\n%2\r\n"+text("function_name", "beta", "from_library", "two"))
	c.Want("FUNCTION LISTLIB one", "%3\r\n"+text("library_name", "one", "engine",
		"lua")+"+functions\r\n*1\r\n"+text("alpine"))
	// Also in a transaction, with its changes.
	c.Want("MULTI", "+OK\r\n")
	c.Want("FUNCTION DELETE two", "+QUEUED\r\n")
	c.Want("FUNCTION LISTLIB two", "+QUEUED\r\n")
	c.Want("EXEC", "*2\r\n+OK\r\n-ERR The library is not found or not loaded from storage\r\n")
}

// text encodes bulk strings.
func text(words ...string) string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}
