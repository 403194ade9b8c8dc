package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/resp"
)

// aclServer is a server with users and four connections. It records which connections are closed.
type aclServer struct {
	Users
	Clients
	store  *accounts.Store
	closed []int64
}

func (s *aclServer) ACL() *accounts.Store { return s.store }

func (s *aclServer) List() []ClientInfo {
	return []ClientInfo{{ID: 1, User: "bob"}, {ID: 2, User: "bob"}, {ID: 3, User: "amy"}, {ID: 4, User: "default"}}
}

func (s *aclServer) Close(id int64) bool {
	s.closed = append(s.closed, id)
	return true
}

type aclControl struct {
	Control
	closing bool
}

func (c *aclControl) CloseAfterReply() { c.closing = true }

// aclDo runs a command as the first connection.
func aclDo(t *testing.T, s *aclServer, control *aclControl, proto int, args ...string) string {
	t.Helper()
	raw := bytesOf(args...)
	w := &resp.Writer{Proto: proto}
	spec, err := Resolve(raw)
	if err == nil {
		srv := &Server{Table: DefaultTable(), Users: s, Clients: s}
		sess := &Session{ID: 1, User: "bob", Proto: proto, Control: control}
		err = spec.Handler(&Ctx{Args: raw, Out: w, Srv: srv, Spec: spec, Sess: sess})
	}
	if err != nil {
		w.Reset()
		WriteError(w, err)
	}
	return string(w.Bytes())
}

func aclBulks(words ...string) string {
	w := &resp.Writer{Proto: 2}
	w.Array(len(words))
	for _, x := range words {
		w.BulkString(x)
	}
	return string(w.Bytes())
}

func aclBulk(s string) string { return strings.TrimPrefix(aclBulks(s), "*1\r\n") }

func TestACL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	s, control := &aclServer{store: accounts.NewStore(ACLTable(), accounts.Options{File: path})}, &aclControl{}
	const hash = "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"
	const bob = "user bob on sanitize-payload #" + hash +
		" ~k* resetchannels &c -@all +get (%R~r resetchannels -@all +@read)"
	const byDefault = "user default on nopass sanitize-payload ~* &* +@all"
	for _, tt := range []struct{ args, want string }{
		{"ACL WHOAMI", "$3\r\nbob\r\n"},
		{"ACL USERS", aclBulks("default")},
		{"ACL SETUSER bob on >p ~k* &c +get (%R~r +@read)", "+OK\r\n"},
		{"ACL SETUSER bob what", "-ERR Error in ACL SETUSER modifier 'what': Syntax error\r\n"},
		{"ACL SETUSER bob (+get", "-ERR Unmatched parenthesis in acl selector starting at '(+get'.\r\n"},
		{"ACL LIST", aclBulks(bob, byDefault)},
		{"ACL GETUSER nobody", "$-1\r\n"},
		{"ACL GETUSER bob", "*12\r\n$5\r\nflags\r\n" + aclBulks("on", "sanitize-payload") + "$9\r\npasswords\r\n" +
			aclBulks(hash) +
			strings.TrimPrefix(aclBulks("commands", "-@all +get", "keys", "~k*", "channels", "&c", "selectors"), "*7\r\n") +
			"*1\r\n" + aclBulks("commands", "-@all +@read", "keys", "%R~r", "channels", "")},
		{"ACL SETUSER tenant namespace:ns", "+OK\r\n"},
		{"ACL GETUSER tenant", "*14\r\n$5\r\nflags\r\n" + aclBulks("off", "sanitize-payload") + "$9\r\npasswords\r\n*0\r\n" +
			strings.TrimPrefix(aclBulks("commands", "-@all", "keys", "", "channels", "", "selectors"), "*7\r\n") +
			"*0\r\n$9\r\nnamespace\r\n$2\r\nns\r\n"},
		{"ACL DELUSER tenant nobody", ":1\r\n"},
		{"ACL DELUSER default", "-ERR The 'default' user cannot be removed\r\n"},
		{"ACL DRYRUN nobody get k", "-ERR User 'nobody' not found\r\n"},
		{"ACL DRYRUN bob nosuch", "-ERR Command 'nosuch' not found\r\n"},
		{"ACL DRYRUN bob config nosuch", "-ERR Command 'config' not found\r\n"},
		{"ACL DRYRUN bob get", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"ACL DRYRUN bob GET k1", "+OK\r\n"},
		{"ACL DRYRUN bob GET r", "+OK\r\n"},
		{"ACL DRYRUN bob MGET r x", aclBulk("User bob has no permissions to access the 'x' key")},
		{"ACL DRYRUN bob config get x", aclBulk("User bob has no permissions to run the 'config|get' command")},
		{"ACL GENPASS x", "-ERR value is not an integer or out of range\r\n"},
		{"ACL GENPASS 0",
			"-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096\r\n"},
		{"ACL GENPASS 4097",
			"-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096\r\n"},
		{"ACL genpass 1 2", "-ERR unknown subcommand or wrong number of arguments for 'genpass'. Try ACL HELP.\r\n"},
		{"ACL CAT nosuch", "-ERR Unknown category 'nosuch'\r\n"},
		{"ACL CAT a b", "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.\r\n"},
		{"ACL LOG", "*0\r\n"},
		{"ACL LOG RESET", "+OK\r\n"},
		{"ACL LOG x", "-ERR value is not an integer or out of range\r\n"},
		{"ACL LOG 1 2", "-ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.\r\n"},
		{"ACL WHAT", "-ERR unknown subcommand 'WHAT'. Try ACL HELP.\r\n"},
		{"ACL SAVE", "+OK\r\n"},
		{"ACL LOAD", "+OK\r\n"},
	} {
		if got := aclDo(t, s, control, 2, strings.Fields(tt.args)...); got != tt.want {
			t.Errorf("%s:\n%q\nwant\n%q", tt.args, got, tt.want)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != bob+"\n"+byDefault+"\n" {
		t.Errorf("saved %q %v", data, err)
	}
	if got := aclDo(t, s, control, 3, "ACL", "GETUSER", "bob"); !strings.HasPrefix(got,
		"%6\r\n$5\r\nflags\r\n~2\r\n") || !strings.Contains(got, "$9\r\nselectors\r\n*1\r\n%3\r\n") {
		t.Errorf("ACL GETUSER in RESP3: %q", got)
	}
	if got := aclDo(t, s, control, 3, "ACL", "GETUSER", "nobody"); got != "_\r\n" {
		t.Errorf("%q", got)
	}
	if got := aclDo(t, s, control, 2, "ACL",
		"GENPASS"); !regexp.MustCompile(`^\$64\r\n[0-9a-f]{64}\r\n$`).MatchString(got) {
		t.Errorf("ACL GENPASS: %q", got)
	}
	if got := aclDo(t, s, control, 2, "ACL", "CAT"); !strings.Contains(got,
		"$8\r\nkeyspace\r\n$4\r\nread\r\n$5\r\nwrite\r\n") {
		t.Errorf("ACL CAT: %q", got)
	}
	if got := aclDo(t, s, control, 2, "ACL", "CAT", "Admin"); !strings.Contains(got, "$11\r\nacl|setuser\r\n") ||
		strings.Contains(got, "acl|whoami") {
		t.Errorf("ACL CAT admin: %q", got)
	}
	if got := aclDo(t, s, control, 2, "ACL", "HELP"); !strings.Contains(got, "+WHOAMI\r\n") {
		t.Errorf("ACL HELP: %q", got)
	}

	// ACL DELUSER closes the connections of deleted users, the connection that sends the command after the reply.
	if s.closed != nil || control.closing {
		t.Fatalf("closed %v", s.closed)
	}
	if got := aclDo(t, s, control, 2, "ACL", "DELUSER", "amy", "bob", "nobody"); got != ":1\r\n" ||
		!slices.Equal(s.closed, []int64{2}) || !control.closing {
		t.Errorf("%q closed %v and itself %v", got, s.closed, control.closing)
	}
}

// ACL LOAD closes the connections of users that it has changed.
func TestACLLoadCloses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	require.NoError(t, os.WriteFile(path, []byte("user bob on\nuser amy off\n"), 0o600))
	s, control := &aclServer{store: accounts.NewStore(ACLTable(), accounts.Options{File: path})}, &aclControl{}
	for _, rules := range [][]string{{"amy", "on"}, {"bob", "on"}} {
		require.NoError(t, s.store.SetUser(rules[0], rules[1]))
	}
	if got := aclDo(t, s, control, 2, "ACL", "LOAD"); got != "+OK\r\n" || !slices.Equal(s.closed, []int64{3}) ||
		control.closing {
		t.Errorf("%q closed %v and itself %v", got, s.closed, control.closing)
	}
	require.NoError(t, os.WriteFile(path, []byte("what"), 0o600))
	want := "-ERR " + path +
		":1 should start with user keyword followed by the username. WARNING: ACL errors detected, no change to the " +
		"previously active ACL rules was performed\r\n"
	if got := aclDo(t, s, control, 2, "ACL", "LOAD"); got != want {
		t.Errorf("%q", got)
	}
	s.store = accounts.NewStore(ACLTable(), accounts.Options{})
	for _, sub := range []string{"LOAD", "SAVE"} {
		if got := aclDo(t, s, control, 2, "ACL", sub); !strings.HasPrefix(got,
			"-ERR This Redis instance is not configured to use an ACL file.") {
			t.Errorf("ACL %s: %q", sub, got)
		}
	}
}

func TestACLLog(t *testing.T) {
	s := &aclServer{store: accounts.NewStore(ACLTable(), accounts.Options{})}
	at := time.Now().Add(-2 * time.Second)
	s.store.Log().Add(accounts.Event{Reason: acl.DeniedAuth, Context: accounts.TopLevel, Object: "AUTH", Username: "eve",
		Client: "id=1"}, at)
	s.store.Log().Add(accounts.Event{Reason: acl.DeniedKey, Context: accounts.Script, Object: "k", Username: "bob",
		Client: "id=2"}, at)
	one := func(reason, context, object, user, client string, id byte) string {
		text := "%10\r\n$5\r\ncount\r\n:1\r\n" + strings.TrimPrefix(aclBulks("reason", reason, "context", context,
			"object", object, "username", user, "age-seconds"), "*9\r\n") +
			",AGE\r\n" + strings.TrimPrefix(aclBulks("client-info", client, "entry-id"), "*3\r\n") + ":" + string(id) + "\r\n"
		return text + "$17\r\ntimestamp-created\r\n:AT\r\n$22\r\ntimestamp-last-updated\r\n:AT\r\n"
	}
	key, auth := one("key", "lua", "k", "bob", "id=2", '1'), one("auth", "toplevel", "AUTH", "eve", "id=1", '0')
	for count, want := range map[string]string{"": "*2\r\n" + key + auth, "1": "*1\r\n" + key, "-1": "*0\r\n",
		"99": "*2\r\n" + key + auth} {
		args := []string{"ACL", "LOG"}
		if count != "" {
			args = append(args, count)
		}
		got := aclDo(t, s, nil, 3, args...)
		got = regexp.MustCompile(`,([2-9]|\d\d+)(\.\d+)?\r`).ReplaceAllString(got, ",AGE\r")
		got = strings.ReplaceAll(got, fmt.Sprint(":", at.UnixMilli()), ":AT")
		if got != want {
			t.Errorf("ACL LOG %s:\n%q\nwant\n%q", count, got, want)
		}
	}
	if got := aclDo(t, s, nil, 2, "ACL", "LOG", "reset"); got != "+OK\r\n" || len(s.store.Log().Entries(9)) != 0 {
		t.Errorf("ACL LOG RESET: %q", got)
	}
}

func TestACLKeys(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"GET k", "1:r"}, {"EXISTS a b", "1: 2:"}, {"SET k v", "1:w"}, {"SET k v NX get", "1:rw"}, {"SET get v",
			"1:w"}, {"INCR k", "1:rw"},
		{"RENAME a b", "1:rw 2:w"}, {"COPY a b", "1:r 2:w"}, {"SMOVE a b m", "1:rw 2:w"}, {"ZUNIONSTORE d 2 a b",
			"1:w 3:r 4:r"},
		{"BITFIELD k GET u4 0", "1:r"}, {"BITFIELD k get u4 0 SET u4 0 1", "1:rw"}, {"BITFIELD k OVERFLOW WRAP",
			"1:r"}, {"BITFIELD k OVERFLOW WRAP GET u4", "1:rw"}, {"BITFIELD k OVERFLOW SAT INCRBY u4 0 1", "1:rw"},
		{"MSET a 1 b 2", "1:w 3:w"},
		{"SORT a STORE b", "1:r 3:w"}, {"XREADGROUP GROUP g c STREAMS a b > >", "5:r 6:r"}, {"PFMERGE a b c",
			"1:rw 2:r 3:r"}, {"JSON.SET k $ 1", "1:w"},
		{"JSON.NUMINCRBY k $ 1", "1:rw"}, {"PING", ""},
		{"SSUBSCRIBE a b", ""}, {"SPUBLISH a m", ""},
	} {
		args := bytesOf(strings.Fields(tt.line)...)
		spec, err := Resolve(args)
		if err != nil {
			t.Error(tt.line, err)
			continue
		}
		var got []string
		for _, k := range spec.ACLKeys(nil, spec.AppendKeys(nil, args), args) {
			text := string(rune('0'+k.Arg)) + ":"
			if k.Read {
				text += "r"
			}
			if k.Write {
				text += "w"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %s", tt.line, got, tt.want)
		}
	}
}

func TestACLChannels(t *testing.T) {
	args := bytesOf("x", "a", "b")
	for name, want := range map[string]acl.Channels{
		"subscribe": {First: 1, Last: 3}, "ssubscribe": {First: 1, Last: 3}, "psubscribe": {First: 1, Last: 3, Pattern: true},
		"publish": {First: 1, Last: 2}, "spublish": {First: 1, Last: 2}, "mpublish": {First: 1,
			Last: 2}, "unsubscribe": {}, "punsubscribe": {},
	} {
		s := &Spec{Flags: PubSub, full: name}
		if got := s.ACLChannels(args); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := (&Spec{full: "get"}).ACLChannels(args); got != (acl.Channels{}) {
		t.Errorf("GET: %+v", got)
	}
}

func TestDenial(t *testing.T) {
	u := accounts.NewStore(ACLTable(), accounts.Options{}).User("default")
	spec := Lookup([]byte("config")).Subcommand([]byte("get"))
	for reason, want := range map[acl.Denied]string{
		acl.DeniedCommand: "-NOPERM User default has no permissions to run the 'config|get' command\r\n",
		acl.DeniedKey:     "-NOPERM No permissions to access a key\r\n",
		acl.DeniedChannel: "-NOPERM No permissions to access a channel\r\n",
	} {
		w := &resp.Writer{Proto: 2}
		WriteError(w, Denial(reason, u, spec))
		if got := string(w.Bytes()); got != want {
			t.Errorf("%v: %q", reason, got)
		}
	}
}
