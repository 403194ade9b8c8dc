package config

import (
	"reflect"
	"testing"

	"github.com/basaltdb/basalt/server/config/conffile"
)

// TestUsers reads the users of a redis.conf, a kvrocks.toml and the command line.
func TestUsers(t *testing.T) {
	const hash = "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	conf := "port 1\nuser alice on " + hash + " ~app:* +@all   \r\nUSER bob\tON \"~a b\" '>p\"q' (+get ~x) \"\\x41\"\n"
	want := []conffile.User{
		{Name: "alice", Rules: []string{"on", hash, "~app:*", "+@all"}},
		{Name: "bob", Rules: []string{"ON", "~a b", `>p"q`, "(+get", "~x)", "A"}},
	}
	for name, text := range map[string]string{
		"redis.conf": conf,
		"kvrocks.toml": "port = 1\n[user]\nalice = 'on " + hash +
			" ~app:* +@all' # comment\nbob = [\"ON\", '~a b', '>p\"q', '(+get', '~x)', 'A']\n",
		"dotted.toml": "user.alice = \"on " + hash + " ~app:* +@all\"\nuser.bob = '''ON \"~a b\" '>p\"q' (+get ~x) A'''\n",
	} {
		c, err := Load([]string{"-c", write(t, name, text)}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if have := c.Users(); !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %q", name, have)
		}
		// Nobody says which users there are: the file's stay.
		if err := c.Rewrite(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if have := readBack(t, c); have != text {
			t.Errorf("%s became %q", name, have)
		}
	}
	c := load(t, "--user", "alice on", "--user", `"a b" off`)
	want = []conffile.User{{Name: "alice", Rules: []string{"on"}}, {Name: "a b", Rules: []string{"off"}}}
	if have := c.Users(); !reflect.DeepEqual(have, want) {
		t.Errorf("of the command line: %q", have)
	}
}

func TestUserErrors(t *testing.T) {
	const form = ": wants the name of a user, then rules; quotes must be balanced"
	for _, tt := range []struct{ name, text, want string }{
		{"a.conf", "port 1\nuser a on\nuser b\nuser a off\n",
			":4: user: Duplicate user found. A user can only be defined once in config files"},
		{"a.conf", "user\n", ":1: user" + form},
		{"a.conf", "user \"\" on\n", ":1: user" + form},
		{"a.conf", "user a \"on\n", ":1: user" + form},
		{"a.conf", "user a 'on'x\n", ":1: user" + form},
		{"a.conf", "aclfile f\nuser a on\n",
			":1: aclfile: users are declared with user and by an aclfile; use one of them only"},
		{"a.toml", "[user]\na = 1\n", ":2: user.a: wants a string or an array of strings"},
		{"a.toml", "[user]\na = ['on', 1]\n", ":2: user.a: wants strings in its array"},
		{"a.toml", "[user.a]\nb = 'on'\n", ":1: user.a: unknown key"},
		{"a.toml", "[user]\na = '\"on'\n", ":2: user" + form},
		{"a.toml", "user = 'a on'\n", `:1: user: is a table: [user], with NAME = "RULES"`},
		{"a.toml", "aclfile = 'f'\n[user]\na = 'on'\n",
			":1: aclfile: users are declared with user and by an aclfile; use one of them only"},
	} {
		path := write(t, tt.name, tt.text)
		if _, err := Load([]string{"-c", path}, nil); err == nil || err.Error() != path+tt.want {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// TestRewriteUsers replaces, drops and adds users.
func TestRewriteUsers(t *testing.T) {
	present := []conffile.User{
		{Name: "alice", Rules: []string{"on", "#hash", "~*", "+@all"}},
		{Name: "bob", Rules: []string{"off", "~\"x\""}},
		{Name: "kept", Rules: []string{"on", "nopass"}},
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a.conf", "# c\nuser alice on >p ~* +@all\nport 1\nuser gone on\n  user kept on nopass  \ntimeout 5\n",
			"# c\nuser alice on #hash ~* +@all\nport 1\n  user kept on nopass  \ntimeout 5\nuser bob off \"~\\\"x\\\"\"\n"},
		{"b.conf", "", "user alice on #hash ~* +@all\nuser bob off \"~\\\"x\\\"\"\nuser kept on nopass\n"},
		{"a.toml", "port = 1\n[user] # c\nalice = ['on', '>p'] # d\ngone = 'on'\nkept = 'on nopass' # e\n",
			"port = 1\n[user] # c\nalice = \"on #hash ~* +@all\" # d\nkept = 'on nopass' # e\nbob = \"off " +
				"\\\"~\\\\\\\"x\\\\\\\"\\\"\"\n"},
		{"b.toml", "port = 1\n",
			"port = 1\n\n[user]\nalice = \"on #hash ~* +@all\"\nbob = \"off \\\"~\\\\\\\"x\\\\\\\"\\\"\"\nkept = \"on " +
				"nopass\"\n"},
	} {
		c := load(t, "-c", write(t, tt.name, tt.text))
		c.KeepUsers(func(string) []conffile.User { return present })
		if err := c.Rewrite(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if have := readBack(t, c); have != tt.want {
			t.Errorf("%s:\n have %q\n want %q", tt.name, have, tt.want)
		}
		again := load(t, "-c", c.File())
		for _, u := range again.Users() {
			for _, p := range present {
				if p.Name == u.Name && !reflect.DeepEqual(p, u) {
					t.Errorf("%s: %q was written as %q", tt.name, p, u)
				}
			}
		}
		if len(again.Users()) != len(present) {
			t.Errorf("%s: %q", tt.name, again.Users())
		}
	}
}
