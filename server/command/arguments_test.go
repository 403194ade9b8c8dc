package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestArgumentsOfCommands: every command that takes arguments has a description of its arguments, and no other command
// has one.
func TestArgumentsOfCommands(t *testing.T) {
	// Commands that Redis does not describe, and commands that Redis does not have and that have subcommands.
	without := strings.Fields("debug quit function|listfunc function|listlib object|dump disk disk|usage kprofile movex " +
		"namespace perflog|get json.debug json.info")
	for _, name := range without {
		if original.byFullName([]byte(name)) == nil {
			t.Errorf("the command %s does not exist", name)
		}
	}
	for id := range NumSpecs() {
		s := ByID(id)
		own := 1
		if s.Parent != nil {
			own = 2
		}
		want := len(s.Sub) == 0 && s.Arity != own && !slices.Contains(without, s.FullName())
		if got := s.facts.arguments != nil; got != want {
			t.Errorf("%s, arity %d: arguments described: %v", s.FullName(), s.Arity, got)
		}
	}
}

// TestArgumentKeys: an argument that is a key names a key specification that the command has.
func TestArgumentKeys(t *testing.T) {
	var check func(s *Spec, list []argument)
	check = func(s *Spec, list []argument) {
		for _, a := range list {
			if n := len(s.facts.keys); a.keySpec >= n {
				t.Errorf("%s has %d key specifications, the argument %s names number %d", s.FullName(), n, a.name, a.keySpec)
			}
			check(s, a.parts)
		}
	}
	for _, s := range ordered {
		check(s, s.facts.arguments)
	}
}

func TestArgumentNotation(t *testing.T) {
	for text, wrong := range map[string]string{
		"":            "a name and a type are missing",
		"key":         "a name and a type are missing",
		"key:":        "a name and a type are missing",
		"key:x":       "has no type that fits",
		"a:o":         "has no type that fits",
		"a:s(b:s)":    "has no type that fits",
		"a:b(b:s":     "a ) is missing",
		"a:s  b:s":    "a name and a type are missing",
		"a:b(b:s c)":  "a name and a type are missing",
		"key:k0 a:i?": "",
	} {
		_, err := parseArguments(text)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v, want %q", text, err, wrong)
		}
	}
}

// TestCommandDocsArguments checks COMMAND DOCS for an argument of each kind.
func TestCommandDocsArguments(t *testing.T) {
	db := enginetest.Open(t)
	for name, want := range map[string][]string{
		"get":    {"arguments [{name key type key display_text key key_spec_index 0}]"},
		"unlink": {"[{name key type key display_text key key_spec_index 0 flags [multiple]}]"},
		"set": {"{name value type string display_text value}",
			"{name get type pure-token display_text get token GET since 6.2.0 flags [optional]}",
			"{name condition type oneof since 2.6.12 flags [optional] arguments [{name nx type pure-token display_text nx " +
				"token NX}",
			"{name unix-time-seconds type unix-time display_text unix-time-seconds token EXAT since 6.2.0}"},
		"xadd": {"{name approximately type pure-token display_text approximately token ~}",
			"{name data type block flags [multiple] arguments [{name field type string display_text field} {name value type " +
				"string display_text value}]}"},
		"sort": {"{name get-pattern type pattern display_text pattern key_spec_index 1 token GET flags [optional multiple " +
			"multiple_token]}"},
	} {
		got := readable(t, do3(t, db, "COMMAND", "DOCS", name))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %s is not in\n%s", name, w, got)
			}
		}
	}
}

// readable prints a RESP3 reply: words, maps in braces, arrays and sets in brackets.
func readable(t *testing.T, reply string) string {
	lines := strings.Split(reply, "\r\n")
	var one func() string
	count := func(text string) (n int) {
		for _, c := range text {
			n = n*10 + int(c-'0')
		}
		return n
	}
	next := func() string {
		if len(lines) == 0 {
			t.Fatal("the reply ends too early")
		}
		line := lines[0]
		lines = lines[1:]
		return line
	}
	one = func() string {
		line := next()
		switch line[0] {
		case '$':
			return next()
		case '*', '~', '%':
			n, open, shut := count(line[1:]), "[", "]"
			if line[0] == '%' {
				n, open, shut = 2*n, "{", "}"
			}
			var parts []string
			for range n {
				parts = append(parts, one())
			}
			return open + strings.Join(parts, " ") + shut
		}
		return line[1:]
	}
	return one()
}
