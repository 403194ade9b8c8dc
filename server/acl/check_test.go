package acl_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/acltest"
)

func TestCheck(t *testing.T) {
	key := func(arg int, use string) acl.Key {
		return acl.Key{Arg: arg, Read: strings.Contains(use, "r"), Write: strings.Contains(use, "w")}
	}
	for _, tt := range []struct {
		rules, line string
		keys        []acl.Key
		channels    acl.Channels
		reason      acl.Denied
		at          int
	}{
		{"", "get a", []acl.Key{key(1, "r")}, acl.Channels{}, acl.DeniedCommand, 0},
		{"", "auth p", nil, acl.Channels{}, acl.Allowed, 0},
		{"+get", "get a", []acl.Key{key(1, "r")}, acl.Channels{}, acl.DeniedKey, 1},
		{"+get ~a", "get a", []acl.Key{key(1, "r")}, acl.Channels{}, acl.Allowed, 0},
		{"+get ~a", "get ab", []acl.Key{key(1, "r")}, acl.Channels{}, acl.DeniedKey, 1},
		{"+get %W~a", "get a", []acl.Key{key(1, "r")}, acl.Channels{}, acl.DeniedKey, 1},
		{"+type %W~a", "type a", []acl.Key{key(1, "")}, acl.Channels{}, acl.Allowed, 0},
		{"+type %W~a", "type b", []acl.Key{key(1, "")}, acl.Channels{}, acl.DeniedKey, 1},
		{"+incr %R~a", "incr a", []acl.Key{key(1, "rw")}, acl.Channels{}, acl.DeniedKey, 1},
		// Reading and writing must be allowed by one pattern, unless it is given twice.
		{"+incr %R~a* %W~a", "incr a", []acl.Key{key(1, "rw")}, acl.Channels{}, acl.DeniedKey, 1},
		{"+incr %R~a %W~a", "incr a", []acl.Key{key(1, "rw")}, acl.Channels{}, acl.Allowed, 0},
		{"+rename ~a", "rename a b", []acl.Key{key(1, "rw"), key(2, "w")}, acl.Channels{}, acl.DeniedKey, 2},
		// A key that is not among the arguments is the handler's to refuse.
		{"+get ~a", "get a", []acl.Key{key(1, "r"), key(7, "r")}, acl.Channels{}, acl.Allowed, 0},
		{"+select|0", "select 0", nil, acl.Channels{}, acl.Allowed, 0},
		{"+select|0", "select 1", nil, acl.Channels{}, acl.DeniedCommand, 0},
		{"+select|0", "select", nil, acl.Channels{}, acl.DeniedCommand, 0},
		{"+echo|AbC", "echo aBc", nil, acl.Channels{}, acl.Allowed, 0},
		{"+config|get", "config get x", nil, acl.Channels{}, acl.DeniedCommand, 0}, // the container itself
		{"&a*", "ping a1 b", nil, acl.Channels{First: 1, Last: 3}, acl.DeniedCommand, 0},
		{"+ping &a*", "ping a1 b", nil, acl.Channels{First: 1, Last: 3}, acl.DeniedChannel, 2},
		{"+ping &a*", "ping a1 a2", nil, acl.Channels{First: 1, Last: 9}, acl.Allowed, 0},
		{"+ping &a*", "ping ab", nil, acl.Channels{First: 1, Last: 2, Pattern: true}, acl.DeniedChannel, 1},
		{"+ping &a*", "ping a*", nil, acl.Channels{First: 1, Last: 2, Pattern: true}, acl.Allowed, 0},
		{"+ping allchannels", "ping a*", nil, acl.Channels{First: 1, Last: 2, Pattern: true}, acl.Allowed, 0},
		// One selector must allow everything.
		{"+get (~a)", "get a", []acl.Key{key(1, "r")}, acl.Channels{}, acl.DeniedKey, 1},
		{"(+get ~a)", "get a", []acl.Key{key(1, "r")}, acl.Channels{}, acl.Allowed, 0},
		// Of several selectors the one that came farthest is the reason.
		{"+mget ~a (+mget ~a ~b)", "mget a b c", []acl.Key{key(1, "r"), key(2, "r"), key(3, "r")}, acl.Channels{},
			acl.DeniedKey, 3},
		{"(+mget ~a ~b) (-@all) (+mget)", "mget a b c", []acl.Key{key(1, "r"), key(2, "r"), key(3, "r")},
			acl.Channels{}, acl.DeniedKey, 3},
		{"(+ping) (~*)", "ping x", []acl.Key{key(1, "r")}, acl.Channels{First: 1, Last: 2}, acl.DeniedKey, 1},
		{"(+ping) (+ping ~*)", "ping x", []acl.Key{key(1, "r")}, acl.Channels{First: 1, Last: 2}, acl.DeniedChannel, 1},
	} {
		u := user(t, strings.Fields(tt.rules)...)
		raw := acltest.Args(strings.Fields(tt.line)...)
		reason, at := u.Check(acltest.ID(string(raw[0])), raw, tt.keys, tt.channels)
		if reason != tt.reason || at != tt.at {
			t.Errorf("%s: %s: %v at %d, want %v at %d", tt.rules, tt.line, reason, at, tt.reason, tt.at)
		}
	}
	if reason, _ := user(t, "+@all", "~a").Check(acl.ID(1<<40), acltest.Args("x"), nil,
		acl.Channels{}); reason != acl.DeniedCommand {
		t.Errorf("a command that is not in the table: %v", reason)
	}
	if reason, _ := user(t, "+@all", "~a").Check(-1, acltest.Args("x"), nil, acl.Channels{}); reason != acl.DeniedCommand {
		t.Errorf("a command with a negative ID: %v", reason)
	}
}

func TestUnrestricted(t *testing.T) {
	for rules, want := range map[string][2]bool{ // unrestricted, needs keys
		"":                                {false, true},
		"+@all":                           {false, true},
		"+@all ~* &*":                     {true, false},
		"+@all -get +get ~* &*":           {true, false},
		"+@all -config|get ~* &*":         {false, false},
		"(+@all ~* &*)":                   {true, true},
		"+get ~* (+set allkeys ~* -@all)": {false, false}, // ~* again is no error
		"+get ~* (+set allkeys)":          {false, false},
	} {
		u := user(t, strings.Fields(rules)...)
		if got := [2]bool{u.Unrestricted(), u.NeedsKeys()}; got != want {
			t.Errorf("%s: %v, want %v", rules, got, want)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		reason      acl.Denied
		text, reply string
	}{
		{acl.DeniedCommand, "User bob has no permissions to run the 'config|get' command",
			"User bob has no permissions to run the 'config|get' command"},
		{acl.DeniedKey, "User bob has no permissions to access the 'k' key", "No permissions to access a key"},
		{acl.DeniedChannel, "User bob has no permissions to access the 'k' channel", "No permissions to access a channel"},
	} {
		if got := tt.reason.Text("bob", "config|get", "k"); got != tt.text {
			t.Errorf("%v: %s", tt.reason, got)
		}
		if got := tt.reason.Reply("bob", "config|get"); got != tt.reply {
			t.Errorf("%v: %s", tt.reason, got)
		}
	}
}

func TestAccess(t *testing.T) {
	u := user(t, "%R~r*", "&a", "(~k +sort &b*)")
	for channel, want := range map[string][2]bool{"a": {true, true}, "b1": {true, false}, "b*": {true, true}, "c": {}} {
		if got := [2]bool{u.MayAccessChannel([]byte(channel), false), u.MayAccessChannel([]byte(channel),
			true)}; got != want {
			t.Errorf("%s: %v, want %v", channel, got, want)
		}
	}
	for rules, want := range map[string]bool{"+sort ~*": true, "+sort ~k": false, "+sort %R~*": true,
		"+sort %R~* ~k": true, "~* (+sort ~k)": false, "~*": false, "+sort %W~*": false} {
		if got := user(t, strings.Fields(rules)...).MayReadAllKeys(acltest.ID("sort"), acltest.Args("sort", "k"),
			[]acl.Key{{Arg: 1, Read: true}}); got != want {
			t.Errorf("%s may read all keys: %v", rules, got)
		}
	}
	for _, tt := range []struct {
		from, to string
		want     bool
	}{{"&a &b", "&b &a", false}, {"&a &b", "&b", true}, {"&a", "&*", false}, {"&*", "&a", true}, {"&*", "(&*)",
		false}, {"(&a)", "&a", false}, {"", "", false}, {"&a", "&a*", true}} {
		if got := user(t, strings.Fields(tt.from)...).LosesChannels(user(t, strings.Fields(tt.to)...)); got != tt.want {
			t.Errorf("%s to %s: %v", tt.from, tt.to, got)
		}
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	u := user(t, "+@read", "-@dangerous", "+select|0", "~user:*", "~cache:*", "(+set ~x)")
	get, raw, keys := acltest.ID("get"), acltest.Args("get", "cache:1"), []acl.Key{{Arg: 1, Read: true}}
	sel, zero := acltest.ID("select"), acltest.Args("select", "0")
	if n := testing.AllocsPerRun(100, func() {
		if reason, _ := u.Check(get, raw, keys, acl.Channels{}); reason != acl.Allowed {
			t.Fatal(reason)
		}
		if reason, _ := u.Check(sel, zero, nil, acl.Channels{}); reason != acl.Allowed {
			t.Fatal(reason)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, bm := range []struct{ name, rules string }{
		{"unrestricted", "+@all ~* &*"},
		{"commands", "+@all -@dangerous ~* &*"},
		{"onePattern", "+@all -@dangerous ~user:* &*"},
		{"threePatterns", "+@all ~a:* ~b:* ~user:* &*"},
		{"denied", "+@all -get ~* &*"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			u := user(b, strings.Fields(bm.rules)...)
			get, raw, keys := acltest.ID("get"), acltest.Args("get", "user:1000"), []acl.Key{{Arg: 1, Read: true}}
			b.ReportAllocs()
			for b.Loop() {
				u.Check(get, raw, keys, acl.Channels{})
			}
		})
	}
}
