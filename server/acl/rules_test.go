package acl_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/acltest"
)

const hashOfP = "#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"

func user(t testing.TB, rules ...string) *acl.User {
	t.Helper()
	u, err := acltest.Table().NewUser("u", false).Apply(rules...)
	if err != nil {
		t.Fatalf("%q: %v", rules, err)
	}
	return u
}

// The command rules are kept as Redis 7.2 keeps them.
func TestCommandRules(t *testing.T) {
	for _, tt := range []struct{ rules, want string }{
		{"", "-@all"},
		{"allcommands", "+@all"},
		{"+@all -@all", "-@all"},
		{"-@all +get", "-@all +get"},
		{"+GET +Set", "-@all +get +set"},
		{"+get +set +get", "-@all +set +get"},
		{"+get -get", "-@all -get"},
		{"+@all -@write +set", "+@all -@write +set"},
		{"+@all -@write +set +@all", "+@all"},
		{"+@read +get -@READ", "-@all +get -@read"},
		{"+config -config|set", "-@all +config -config|set"},
		{"+config|get +config|set +config", "-@all +config"},
		{"+config|get +client|id -config", "-@all +client|id -config"},
		{"-config|set +config|set", "-@all +config|set"},
		{"+select|0 +select|1", "-@all +select|0 +select|1"},
		{"+select|0 +select|1 +select", "-@all +select"},
		{"+select|A +select|a", "-@all +select|a"},
		{"+get +getrange -get", "-@all +getrange -get"},
		{"+@json -json.set", "-@all +@json -json.set"},
	} {
		u := user(t, strings.Fields(tt.rules)...)
		if got := u.Permissions()[0].Commands; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rules, got, tt.want)
		}
		again := user(t, strings.Fields(tt.want)...)
		if !acl.SamePermissions(u, again) {
			t.Errorf("%s: %s is not the same", tt.rules, tt.want)
		}
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		rules []string
		want  string
	}{
		{nil, "off sanitize-payload resetchannels -@all"},
		{[]string{"on", "nopass", "~*", "&*", "+@all"}, "on nopass sanitize-payload ~* &* +@all"},
		{[]string{"on", ">p", "~a", "%R~b", "%W~c", "&d", "+get"}, "on sanitize-payload " + hashOfP +
			" ~a %R~b %W~c resetchannels &d -@all +get"},
		{[]string{"skip-sanitize-payload", "(+get", "~a)"},
			"off skip-sanitize-payload resetchannels -@all (~a resetchannels -@all +get)"},
		{[]string{"namespace:ns", ">p"}, "off sanitize-payload namespace:ns " + hashOfP + " resetchannels -@all"},
		{[]string{"namespace:ns", "NAMESPACE:"}, "off sanitize-payload resetchannels -@all"},
		{[]string{"namespace:ns", "reset"}, "off sanitize-payload resetchannels -@all"},
		// Patterns that would be read differently inside of a selector are quoted.
		{[]string{"~a)", "(~a) ~b)"}, `off sanitize-payload ~a) resetchannels -@all ("~a\x29" ~b resetchannels -@all)`},
		{[]string{`(~"a\"b" "~c)" ~d\e)`},
			`off sanitize-payload resetchannels -@all ("~a\"b" "~c\x29" ~d\e resetchannels -@all)`},
		// A pattern * for reading and writing leaves no room for others.
		{[]string{"%R~*", "~a", "%W~*"}, "off sanitize-payload ~* resetchannels -@all"},
	} {
		u := user(t, tt.rules...)
		if got := u.String(); got != "user u "+tt.want {
			t.Errorf("%q:\n%s\nwant\n%s", tt.rules, got, "user u "+tt.want)
		}
		checkRoundTrip(t, u)
	}
}

// checkRoundTrip checks that the line of a user gives the same user.
func checkRoundTrip(t testing.TB, u *acl.User) {
	t.Helper()
	line := u.String()
	again, err := acltest.Table().Parse(line, false)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if again.String() != line || !acl.SamePermissions(u, again) {
		t.Fatalf("%q became %q", line, again.String())
	}
	if strings.ContainsAny(line, "\n\r\x00") {
		t.Fatalf("%q is no line", line)
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		rules []string
		want  string
	}{
		{[]string{"on", "what"}, "Error in ACL SETUSER modifier 'what': Syntax error"},
		{[]string{"wh\x00at"}, "Error in ACL SETUSER modifier 'wh': Syntax error"},
		{[]string{"+nosuch"}, "Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"},
		{[]string{"%~a"}, "Error in ACL SETUSER modifier '%~a': Syntax error"},
		{[]string{"+select|a b"}, "Error in ACL SETUSER modifier '+select|a b': Syntax error"},
		{[]string{"(~a", "'b)"}, "Error in ACL SETUSER modifier '(~a 'b)': Syntax error"},
		{[]string{`(~a "")`}, `Error in ACL SETUSER modifier '(~a "")': Syntax error`},
		{[]string{"(+get", "~a"}, "Unmatched parenthesis in acl selector starting at '(+get'."},
		{[]string{"namespace:a b"}, "Error in ACL SETUSER modifier 'namespace:a b': Syntax error"},
		{[]string{"namespace:a\x7f"}, "Error in ACL SETUSER modifier 'namespace:a\x7f': Syntax error"},
		{[]string{"namespace:" + strings.Repeat("a", 256)}, "Error in ACL SETUSER modifier 'namespace:" +
			strings.Repeat("a", 256) + "': Syntax error"},
		{[]string{"(namespace:a)"}, "Error in ACL SETUSER modifier '(namespace:a)': Syntax error"},
	} {
		before := user(t, "on", "~a")
		u, err := before.Apply(tt.rules...)
		if err == nil || err.Error() != tt.want || u != nil {
			t.Errorf("%q: %v %v, want %s", tt.rules, u, err, tt.want)
		}
		if before.String() != "user u on sanitize-payload ~a resetchannels -@all" {
			t.Errorf("%q has changed the user to %s", tt.rules, before)
		}
	}
	_, err := acltest.Table().NewUser("u", false).Apply("bad")
	if e, ok := errors.AsType[*acl.RuleError](err); !ok || e.Rule != "bad" {
		t.Errorf("%#v", err)
	}
}

// A changed user is another one; nothing is shared that changes.
func TestApplyLeavesTheUserAlone(t *testing.T) {
	base := user(t, "on", ">a", ">b", "~x", "~y", "&c", "+get", "+select|0", "+select|1", "+@list", "(+set ~z)",
		"(+del ~z)")
	line := base.String()
	for _, rules := range []string{"<a", ">c", "%R~z ~w", "&d", "-get", "+select|2", "+select|3", "-select", "-@list",
		"(+get)", "clearselectors (+get)",
		"+@all", "-@all", "reset", "allkeys", "allchannels", "resetkeys ~q", "+config -config|get", "namespace:n"} {
		changed, err := base.Apply(strings.Fields(rules)...)
		if err != nil {
			t.Fatal(err)
		}
		if base.String() != line {
			t.Fatalf("%s has changed the user to %s", rules, base)
		}
		if changed.String() == line {
			t.Errorf("%s has changed nothing", rules)
		}
		if reason, _ := base.Check(acltest.ID("select"), acltest.Args("select", "2"), nil,
			acl.Channels{}); reason != acl.DeniedCommand {
			t.Fatalf("%s has allowed SELECT 2", rules)
		}
		if reason, _ := base.Check(acltest.ID("get"), acltest.Args("get", "x"), []acl.Key{{Arg: 1, Read: true}},
			acl.Channels{}); reason != acl.Allowed {
			t.Fatalf("%s has denied GET: %v", rules, reason)
		}
	}
}

func TestRandomRulesRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	rule := func() string {
		name := pick("get", "set", "config", "config|get", "config|set", "select", "client", "client|list", "@read",
			"@write", "@all", "@json", "@admin")
		pattern := pick("a", "b*", "c)", "(d", `e"`, `'f`, `g\`, "*", "", "[h-j]", "\xff", "ü")
		switch rng.IntN(7) {
		case 0, 1:
			return pick("+", "-") + name
		case 2:
			return pick("~", "%R~", "%w~", "%RW~") + pattern
		case 3:
			return "&" + pattern
		case 4:
			return "+select|" + pick("0", "A", `"`, ")", "'x'", "(")
		case 5:
			return pick("resetkeys", "resetchannels", "allkeys", "allchannels", "allcommands", "nocommands")
		}
		return pick("on", "off", "nopass", ">a", ">b)", "resetpass", "clearselectors", "namespace:x",
			"sanitize-payload", "skip-sanitize-payload")
	}
	good := 0
	for range 20000 {
		u := acltest.Table().NewUser("u", rng.IntN(2) == 0)
		for range rng.IntN(12) {
			r := rule()
			if rng.IntN(4) == 0 {
				var inside []string
				for range rng.IntN(4) {
					inside = append(inside, rule())
				}
				r = "(" + strings.Join(inside, " ") + ")"
			}
			if next, err := u.Apply(r); err == nil {
				u = next
				good++
			}
		}
		checkRoundTrip(t, u)
	}
	if good < 30000 {
		t.Errorf("only %d rules were good", good)
	}
}

func FuzzRules(f *testing.F) {
	for _, s := range []string{"on\n>p\n~a*\n&b\n+@read\n-get", "(+get\n~a)", "+config|get\n+select|0\n-@all",
		`(~"\x41)" +set)`, "%R~a\n%W~a\nreset", "namespace:x",
		"(~a) ~b')", "#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u := acltest.Table().NewUser("u", false)
		next, err := u.Apply(strings.Split(text, "\n")...)
		if err != nil {
			return
		}
		checkRoundTrip(t, next)
	})
}

func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"user a on nopass ~* &* +@all\n\nuser b off -@all (+get ~x)\n", "user  on",
		"user a\nuser a", "what\nuser", "user a ( +get", "user a (~\")\" \"", "\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		users, err := acltest.Table().ParseFile("f", data, false)
		if err != nil {
			return
		}
		out := acl.Format(users)
		again, err := acltest.Table().ParseFile("f", out, false)
		if err != nil || len(again) != len(users) {
			t.Fatalf("%q: %v", out, err)
		}
		for i := range users {
			if !acl.SamePermissions(users[i], again[i]) || users[i].String() != again[i].String() {
				t.Fatalf("%q became %q", users[i].String(), again[i].String())
			}
		}
	})
}

func TestParseFileTellsEverything(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"user a (+get ~x) (-set\n", "f:1: Unmatched parenthesis in selector definition."},
		{"user a +nosuch what how -nosuch",
			"f:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. f:1: Syntax error. " +
				"f:1: Error in applying operation '-nosuch': Unknown command or category name in ACL. "},
		{"user a on\n\nwhat\nuser a off\n",
			"f:3 should start with user keyword followed by the username. WARNING: Duplicate user 'a' found on line 4. "},
		{"user a\tb on", "'f:1: username 'a\tb' contains invalid characters. "},
	} {
		users, err := acltest.Table().ParseFile("f", []byte(tt.text), false)
		want := tt.want + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
		if err == nil || err.Error() != want || users != nil {
			t.Errorf("%q: %v\nwant %s", tt.text, err, want)
		}
	}
}

func TestNewTable(t *testing.T) {
	for _, list := range [][]acl.Command{{{Name: "a"}, {Name: "a"}}, {{Name: "a|b"}}} {
		if _, err := acl.NewTable(list, nil); err == nil {
			t.Errorf("%v is a table", list)
		}
	}
	cats := acltest.Table().Categories()
	if len(cats) != 22 || cats[0] != "keyspace" || cats[20] != "scripting" || cats[21] != "json" {
		t.Errorf("categories %v", cats)
	}
	if names, ok := acltest.Table().InCategory("JSON"); !ok || !slices.Equal(names, []string{"json.get", "json.set"}) {
		t.Errorf("@json: %v", names)
	}
	if _, ok := acltest.Table().InCategory("nosuch"); ok {
		t.Error("there is a category nosuch")
	}
}
