package difftest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	commands "github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/glob"
)

// redisCommands returns what COMMAND says of all commands of a server, subcommands included, by their names:
// redis-server tells them in another order each time that it runs, and may change it while it does.
func redisCommands(t *testing.T, c *client) []reply {
	t.Helper()
	all := c.must(t, "COMMAND")
	var list []reply
	for _, info := range all.elems {
		list = append(append(list, info), subcommands(info)...)
	}
	slices.SortFunc(list, func(a, b reply) int {
		return strings.Compare(string(a.elems[0].text),
			string(b.elems[0].text))
	})
	return list
}

// texts are the texts of an array.
func texts(r reply) (out []string) {
	for _, e := range r.elems {
		out = append(out, string(e.text))
	}
	return out
}

// redisTable returns the commands of a redis-server as a table of ours.
func redisTable(t *testing.T, c *client) *acl.Table {
	t.Helper()
	var list []acl.Command
	for _, info := range redisCommands(t, c) {
		cmd := acl.Command{Name: string(info.elems[0].text)}
		for _, cat := range texts(info.elems[6]) {
			cmd.Categories = append(cmd.Categories, strings.TrimPrefix(cat, "@"))
		}
		cmd.NoAuth = slices.Contains(texts(info.elems[2]), "no_auth")
		list = append(list, cmd)
	}
	table, err := acl.NewTable(list, func(p []byte) acl.Matcher { return glob.Compile(p) })
	require.NoError(t, err)
	return table
}

// aclExact are modifiers whose error, or else whose ACL LIST line, must be that of Redis 7.0 to the letter.
var aclExact = [][]string{
	{},
	{"on"}, {"ON", "Off"}, {"nopass"}, {">a", ">b", ">a"}, {">a", "<a"}, {">"}, {"<x"}, {"nopass", ">a"}, {">a",
		"nopass"}, {">a", "resetpass"},
	{"#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"},
	{"#148DE9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"},
	{"#12"}, {"!12"}, {"!148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"},
	{">p", "!148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"}, {"#"},
	{"#g48de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"},
	{"~a", "~b", "~a"}, {"~*"}, {"allkeys", "~a"}, {"~a", "allkeys"}, {"~a", "resetkeys",
		"~b"}, {"ALLKEYS"}, {"~"}, {"~a b"}, {"~a\tb"}, {"~a\x00b"},
	{"%R~a"}, {"%W~a", "%r~a"}, {"%RW~a"}, {"%wR~a"}, {"%RR~a"}, {"%X~a"}, {"%R"}, {"%R~"}, {"%"}, {"%R~a b"}, {"%R~*"},
	{"%RW~*"},
	{"%R~a", "~a"}, {"%R~a", "%R~b", "%W~a"},
	{"&a", "&b", "&a"}, {"&*"}, {"&*", "&a"}, {"allchannels", "resetchannels", "&x"}, {"&a b"}, {"&"}, {"resetchannels"},
	{"+get"}, {"+GET"}, {"+get", "-get"}, {"-get"}, {"+get",
		"+set"}, {"+@all"}, {"allcommands"}, {"nocommands"}, {"+@ALL", "-@all"},
	{"+@all", "-get"}, {"+@nosuch"}, {"-@nosuch"}, {"+@"}, {"+"}, {"-"}, {"+nosuch"}, {"-nosuch"}, {"+@read"},
	{"+@Hash", "+@list"},
	{"+config|get"}, {"+Config|Get"}, {"+config",
		"-config|set"}, {"+config|nosuch"}, {"-config|nosuch"}, {"+config|"}, {"+|"}, {"+|x"},
	{"+config|get|x"}, {"+select|0"}, {"+select|0", "+select|1",
		"+select|0"}, {"-select|0"}, {"+select|"}, {"+select|0|1"}, {"+nosuch|x"},
	{"+select|ABC"}, {"+select|0", "+select"}, {"+select|0", "-select"},
	{"reset"}, {"on", ">a", "~a", "&a", "+get", "(+set)", "skip-sanitize-payload",
		"reset"}, {"skip-sanitize-payload"}, {"sanitize-payload"},
	{"(+get ~a)"}, {"(+get", "~a)"}, {"(", "+get", ")"}, {"()"}, {"(",
		")"}, {"(+get"}, {"("}, {")"}, {"(+nosuch)"}, {"(on)"}, {"(>a)"}, {"((+get))"},
	{"+get", "(~a +set)", "(%R~b &c -@all +@read)"}, {"(+get)", "clearselectors"}, {"(~a ~*)",
		"(~* ~a)"}, {"(allkeys allchannels allcommands)"},
	{`(~"a")`}, {`(~"\x41b")`}, {`('~c')`}, {"(~a &b +config|get -config)"}, {"(-@all +get)"}, {"(+@all -get)"},
	{""}, {"what"}, {"on "}, {" on"}, {"+get "}, {"+get", "", "~a"}, {"~a", "bad", "~b"}, {"nopass", "(+get) "},
}

// aclNewer are the command rules of Redis 7.2 where they differ from those of 7.0: it keeps the rules as they were
// given but for those that a later one has made void.
var aclNewer = map[string]string{
	"+get -get":                     "-@all -get",
	"+get +set":                     "-@all +get +set", // 7.0 tells them in any order
	"-get":                          "-@all -get",
	"+@Hash +@list":                 "-@all +@hash +@list",
	"+select|0 +select|1 +select|0": "-@all +select|1 +select|0",
	"+select|ABC":                   "-@all +select|abc",
	"+select|0 -select":             "-@all -select",
	"(~a &b +config|get -config)":   "-@all (~a resetchannels &b -@all -config)",
}

// TestACLRules gives users rules and compares the errors, or the lines of ACL LIST.
func TestACLRules(t *testing.T) {
	c := connect(t, startRedis(t).Addr(), 2)
	table := redisTable(t, c)
	for _, rules := range aclExact {
		wantErr, want := redisUser(t, c, rules)
		if newer := aclNewer[strings.Join(rules, " ")]; newer != "" {
			want = "user u off resetchannels " + newer
		}
		gotErr, got := "", ""
		if u, err := table.NewUser("u", false).Apply(rules...); err != nil {
			gotErr = "-ERR " + err.Error() + "\r\n"
		} else {
			got = as70(u.String())
		}
		if gotErr != wantErr || got != want {
			t.Errorf("%q:\n\tredis:  %s%s\n\tbasalt: %s%s", rules, wantErr, want, gotErr, got)
		}
	}
}

// as70 is a line without what Redis 7.0 tells only after it was set: that payloads are sanitized.
func as70(line string) string { return strings.Replace(line, " sanitize-payload", "", 1) }

// redisUser makes the user u anew and returns the error or its line.
func redisUser(t *testing.T, c *client, rules []string) (fault, line string) {
	t.Helper()
	do := func(args ...string) reply {
		r, err := c.do(args...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return r
	}
	do("ACL", "DELUSER", "u")
	if r := do(append([]string{"ACL", "SETUSER", "u"}, rules...)...); r.kind == '-' {
		return string(r.raw), ""
	}
	for _, line := range texts(do("ACL", "LIST")) {
		if strings.HasPrefix(line, "user u ") {
			return "", as70(line)
		}
	}
	t.Fatal("the user is not in ACL LIST")
	return "", ""
}

// TestACLRandomRules gives users random rules. Redis 7.0 finds its own command rules for what the user may run, and
// 7.2 keeps those that were given: so compared is what our user and the one read from Redis's line may run, and
// what Redis makes of our line.
func TestACLRandomRules(t *testing.T) {
	c := connect(t, startRedis(t).Addr(), 2)
	table := redisTable(t, c)
	infos := redisCommands(t, c)
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	for range rounds {
		var rules []string
		for range 1 + rng.IntN(12) {
			rules = append(rules, randomRule(rng, table, infos, true))
		}
		wantErr, want := redisUser(t, c, rules)
		u, err := table.NewUser("u", false).Apply(rules...)
		gotErr := ""
		if err != nil {
			gotErr = "-ERR " + err.Error() + "\r\n"
		}
		if gotErr != wantErr {
			t.Fatalf("%q:\n\tredis:  %q\n\tbasalt: %q", rules, wantErr, gotErr)
		}
		if err != nil {
			continue
		}
		theirs, err := table.Parse(want, false)
		if err != nil {
			t.Fatalf("%q: %s: %v", rules, want, err)
		}
		if d := differ(u, theirs, infos); d != "" {
			t.Fatalf("%q:\n\tredis:  %s\n\tbasalt: %s\n\t%s", rules, want, u, d)
		}
		fault, again := redisUser(t, c, strings.Split(u.String(), " ")[2:])
		if fault == "" && sameWords(again, want) {
			// Which subcommand comes first changes while Redis still moves them to a larger table.
			if same, err := table.Parse(again, false); err == nil && differ(theirs, same, infos) == "" {
				continue
			}
		}
		t.Fatalf("%q: %s is for Redis\n\t%s%s instead of\n\t%s", rules, u, fault, again, want)
	}
}

// sameWords reports whether two lines have the same words, in any order.
func sameWords(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.FieldsSeq(a)), slices.Sorted(strings.FieldsSeq(b)))
}

// randomRule returns a rule that is mostly valid.
func randomRule(rng *rand.Rand, table *acl.Table, infos []reply, selectors bool) string {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	name := func() string { return string(infos[rng.IntN(len(infos))].elems[0].text) }
	switch rng.IntN(10) {
	case 0, 1:
		return pick("+", "-") + name()
	case 2, 3:
		return pick("+@", "-@") + pick(table.Categories()...)
	case 4:
		return pick("+select|", "+get|", "+set|", "+config|") + pick("0", "1", "get", "x")
	case 5:
		return pick("~", "%R~", "%W~", "%RW~", "&") + pick("a", "b*", "[x]")
	case 6:
		return pick("on", "off", ">a", ">b", "resetkeys", "resetchannels", "nopass", "clearselectors", "allchannels")
	case 7:
		return pick("+@all", "-@all", "+get", "-get", "+@read", "-@read", "+config", "-config", "+config|get", "-config|get")
	case 8:
		if !selectors {
			return "+get"
		}
		var inside []string
		for range rng.IntN(5) {
			for {
				r := randomRule(rng, table, infos, false)
				if strings.ContainsAny(r[:1], "+-~%&") {
					inside = append(inside, r)
					break
				}
			}
		}
		return "(" + strings.Join(inside, " ") + ")"
	}
	return pick("+", "-") + pick("get", "set", "config", "config|get", "select", "client", "client|kill", "subscribe",
		"eval")
}

// differ says in what two users differ; their command rules may read differently.
func differ(u, v *acl.User, infos []reply) string {
	if a, b := fmt.Sprint(u.Flags(), u.Passwords()), fmt.Sprint(v.Flags(), v.Passwords()); a != b {
		return a + " " + b
	}
	a, b := u.Permissions(), v.Permissions()
	if len(a) != len(b) {
		return "selectors"
	}
	for i := range a {
		if a[i].Keys != b[i].Keys || a[i].Channels != b[i].Channels {
			return "patterns"
		}
	}
	for id, info := range infos {
		for _, arg := range []string{"0", "1", "get", "x", "y"} {
			args := [][]byte{info.elems[0].text, []byte(arg)}
			for _, keys := range [][]acl.Key{nil, {{Arg: 1}}, {{Arg: 1, Read: true}}, {{Arg: 1, Write: true}}} {
				x, i := u.Check(acl.ID(id), args, keys, acl.Channels{})
				y, k := v.Check(acl.ID(id), args, keys, acl.Channels{})
				if x != y || i != k {
					return fmt.Sprintf("%s %s: %v at %d, %v at %d", args[0], arg, x, i, y, k)
				}
			}
		}
	}
	return ""
}

// TestACLCategories compares the commands of each category as far as both know them.
func TestACLCategories(t *testing.T) {
	c := connect(t, startRedis(t).Addr(), 2)
	both := 0
	for _, info := range redisCommands(t, c) {
		name := string(info.elems[0].text)
		s := specOf(name)
		if s == nil {
			continue
		}
		both++
		want, got := texts(info.elems[6]), s.ACLCategories()
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%s: redis %v, basalt %v", name, want, got)
		}
	}
	if both < 200 {
		t.Errorf("both know only %d commands", both)
	}
	cats := c.must(t, "ACL", "CAT")
	if want, got := texts(cats), commands.ACLTable().Categories(); !slices.Equal(want, got[:len(want)]) {
		t.Errorf("categories %v, want %v", got, want)
	}
}

// specOf finds a command by its full name.
func specOf(name string) *commands.Spec {
	for id := range commands.NumSpecs() {
		if s := commands.ByID(id); s.FullName() == name {
			return s
		}
	}
	return nil
}

// TestACLDryRun asks for all commands of the tables whether some users may run them.
func TestACLDryRun(t *testing.T) {
	redis := startRedis(t)
	c := connect(t, redis.Addr(), 2)
	ours := map[string]*acl.User{}
	for name, rules := range map[string][]string{
		"reads":     {"+@all", "%R~*", "&*"},
		"writes":    {"+@all", "%W~*", "&*"},
		"few":       {"+@all", "~h*", "%R~s*", "%W~d*", "&a*"},
		"nothing":   {},
		"selectors": {"+@read", "%R~*", "(+@write %W~*)", "(+@write ~k*)", "(+@pubsub &*)"},
	} {
		if r, err := c.do(append([]string{"ACL", "SETUSER", name}, rules...)...); err != nil || r.kind != '+' {
			t.Fatal(name, string(r.raw), err)
		}
		u, err := commands.ACLTable().NewUser(name, false).Apply(rules...)
		require.NoError(t, err)
		ours[name] = u
	}
	lines := [][]string{{"PUBLISH", "a1", "m"}, {"PUBLISH", "b", "m"}, {"SUBSCRIBE", "a", "a2", "b", "c"},
		{"SSUBSCRIBE", "b"}, {"SPUBLISH", "b", "m"},
		{"PSUBSCRIBE", "a*"}, {"PSUBSCRIBE", "a"}, {"UNSUBSCRIBE", "b"}, {"SET", "k", "v", "GET"}, {"BITFIELD", "k",
			"GET", "u4", "0"},
		{"BITFIELD", "k", "GET", "u4", "0", "SET", "u4", "0", "1"}}
	for _, file := range tableFiles(t) {
		for _, cmd := range mustReadTable(t, file) {
			lines = append(lines, cmd.args)
		}
	}
	seen := map[string]bool{}
	compared, reported := 0, 0
	for _, args := range lines {
		text := fmt.Sprintf("%q", args)
		if seen[text] {
			continue
		}
		seen[text] = true
		raw := make([][]byte, len(args))
		for i, a := range args {
			raw[i] = []byte(a)
		}
		spec, err := commands.Resolve(raw)
		if err != nil {
			continue
		}
		keys := spec.ACLKeys(nil, spec.AppendKeys(nil, raw), raw)
		for name, u := range ours {
			r, err := c.do(append([]string{"ACL", "DRYRUN", name}, args...)...)
			require.NoError(t, err)
			if r.kind == '-' {
				break // a command or an option that Redis 7.0 does not have
			}
			compared++
			reason, at := u.Check(acl.ID(spec.ID), raw, keys, spec.ACLChannels(raw))
			got := "OK"
			if reason != acl.Allowed {
				got = strings.Replace(reason.Text(name, spec.FullName(), cString(args[at])), "User "+name, "This user", 1)
			}
			if want := string(r.text); want != got && !aclDiffers(t, redis.Addr(), args) && reported < maxReported {
				reported++
				t.Errorf("%s for %s:\n\tredis:  %q\n\tbasalt: %q", text, name, want, got)
			}
		}
	}
	if compared < 5000 {
		t.Errorf("compared only %d commands", compared)
	}
}

// aclDiffers reports whether a command may be judged differently: with the empty key, which * does not match for
// Redis; PFMERGE of no sources, whose key Redis does not find; two destinations, of which Redis sees the last one; and
// commands that are refused anyway, whose keys cannot be known.
func aclDiffers(t *testing.T, addr string, args []string) bool {
	if slices.Contains(args, "") || strings.EqualFold(args[0], "PFMERGE") && len(args) == 2 ||
		slices.Contains(args, "STORE") && slices.Contains(args, "STOREDIST") {
		return true
	}
	c := connect(t, addr, 2) // one of its own: the command may subscribe to something
	defer c.close()
	r, err := c.do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return strings.HasPrefix(string(r.raw), "-ERR")
}

// cString is what C prints of a text.
func cString(s string) string {
	before, _, _ := strings.Cut(s, "\x00")
	return before
}

// TestACLFile compares what is said of broken aclfiles.
func TestACLFile(t *testing.T) {
	path := t.TempDir() + "/users.acl"
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("user default on nopass ~* &* +@all\n")
	c := connect(t, startRedis(t, "--aclfile", path).Addr(), 2)
	store := accounts.NewStore(redisTable(t, c), accounts.Options{File: path})
	for _, text := range []string{
		"", "\n\n", "user a\n", "user a on >x ~* &* +@all\nuser default on nopass ~* &* +@all", "  user a on  \r\n",
		"user a on\t\n",
		"what", "user", "user ", // an open parenthesis makes Redis 7.0 crash
		"user  on", "user a what", "user a +nosuch -nosuch what how",
		"user a\nuser a", "user a +@x (+get what)\nuser b ~* ~a\nuser b", "# comment\n", "user a\tb on\n", "\tuser a on\n",
		"user a (+get ~a ) on", "user default off -@all +@all on nopass\n", "user a <x\n", "user a ( +get   ~b )\n",
	} {
		write(text)
		want, err := c.do("ACL", "LOAD")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		_, err = store.Load()
		got := "+OK\r\n"
		if err != nil {
			got = "-ERR " + err.Error() + "\r\n"
		}
		if got != string(want.raw) {
			t.Errorf("%q:\n\tredis:  %s\tbasalt: %s", text, want.raw, got)
		}
		list := c.must(t, "ACL", "LIST")
		var lines, theirs []string
		for _, l := range store.Lines() {
			lines = append(lines, as70(l))
		}
		for _, l := range texts(list) {
			theirs = append(theirs, as70(l))
		}
		if !slices.Equal(theirs, lines) {
			t.Errorf("%q:\n\tredis:  %q\n\tbasalt: %q", text, theirs, lines)
		}
	}
	// What basalt saves Redis reads, and the other way round.
	require.NoError(t, store.SetUser("z", "reset"))
	for _, rules := range [][]string{{"on", ">p", "~a*", "%R~b", "&c", "+@read", "-get", "+config|get", "+select|0"},
		{"(~a +get)", "(%W~b &* +@all -@admin)"}} {
		require.NoError(t, store.SetUser("z", rules...))
	}
	before := store.Lines()
	require.NoError(t, store.Save())
	for _, cmd := range []string{"LOAD", "SAVE"} {
		if r, err := c.do("ACL", cmd); err != nil || string(r.raw) != "+OK\r\n" {
			t.Fatal(cmd, string(r.raw), err)
		}
	}
	if gone, err := store.Load(); err != nil || len(gone) > 1 {
		t.Fatal(gone, err)
	}
	var before70, after70 []string
	for _, l := range before {
		before70 = append(before70, as70(l))
	}
	for _, l := range store.Lines() {
		after70 = append(after70, as70(l))
	}
	if len(before) != 3 || len(after70) != 3 || !slices.Equal(after70[:2], before70[:2]) ||
		!strings.HasPrefix(after70[2], "user z on #148de9c5") {
		t.Errorf("%q became %q", before, after70)
	}
	if _, err := accounts.NewStore(store.Table(), accounts.Options{File: path + "x"}).Load(); err == nil ||
		err.Error() != "Error loading ACLs, opening file '"+path+"x': No such file or directory" {
		t.Error(err)
	}
	if _, err := accounts.NewStore(store.Table(), accounts.Options{}).Load(); !errors.Is(err, accounts.ErrNoFile) {
		t.Error(err)
	}
}

// TestACLInScripts compares what a restricted user's scripts get. Texts that Redis 7.2 has changed are permitted
// differences.
func TestACLInScripts(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	list := []command{newCommand("acl",
		words("ACL SETUSER u on nopass ~a* %R~r* resetchannels &ch* +@all -set -object|encoding")...),
		newCommand("acl", "AUTH", "u", "x")}
	for _, call := range []string{
		"'set','a','1'", "'SeT','a','1'", "'object','encoding','a'", "'object','freq'", "'get','b'", "'get','a'",
		"'get','rx'", "'incr','rx'", "'incr','a'", "'mget','a','b'", "'publish','x','m'", "'publish','ch1','m'",
		"'spublish','x','m'", "'nosuch','b'", "'get'", "'sort','a','by','w*'",
	} {
		for _, how := range []string{"call", "pcall"} {
			list = append(list, newCommand("acl", "EVAL", "return redis."+how+"("+call+")", "0"))
		}
	}
	diffTo(t, "acl", redis, basalt, 2, false, list)
}
