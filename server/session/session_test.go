package session_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

const hello2 = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:2\r\n$2\r\n" +
	"id\r\n:%d\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"

func TestHello(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	id := 1
	hello3 := strings.NewReplacer("*14", "%7", ":2", ":3").Replace(fmt.Sprintf(hello2, id))
	for _, tt := range []struct{ command, want string }{
		{"HELLO", fmt.Sprintf(hello2, id)},
		{"GET missing", "$-1\r\n"},
		{"HELLO 3", hello3},
		{"GET missing", "_\r\n"},
		{"HELLO 3 SETNAME me AUTH default anything", hello3},
		{"CLIENT GETNAME", "$2\r\nme\r\n"},
		{"HELLO 4", "-NOPROTO unsupported protocol version\r\n"},
		{"HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"},
		{"HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'\r\n"},
		{"HELLO 2 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'\r\n"},
		{"HELLO 2 AUTH other pass", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"GET missing", "_\r\n"}, // a failed HELLO changes nothing
		{"RESET", "+RESET\r\n"},
		{"GET missing", "$-1\r\n"},
		{"CLIENT GETNAME", "$-1\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
}

func TestAuth(t *testing.T) {
	const noAuth, wrong = "-NOAUTH Authentication required.\r\n",
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	h := servertest.Start(t, "requirepass", "secret", "repl-namespace-enabled", "yes")
	h.AddNamespaces(t, "ns1", "ns2")
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"PING", noAuth},
		{"HELLO 3",
			"-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> " +
				"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n"},
		{"AUTH nope", wrong},
		{"AUTH default nope", wrong},
		{"AUTH other secret", wrong},
		{"AUTH a b c", "-ERR syntax error\r\n"},
		{"PING", noAuth},
		{"AUTH secret", "+OK\r\n"},
		{"SET k admin", "+OK\r\n"},
		{"AUTH default token1", "+OK\r\n"},
		{"GET k", "$-1\r\n"},
		{"SET k one", "+OK\r\n"},
		{"CONFIG GET x", "-ERR admin permission required to perform the command\r\n"},
		{"FLUSHALL", "-ERR admin permission required to perform the command\r\n"},
		{"AUTH token2", "+OK\r\n"},
		{"GET k", "$-1\r\n"},
		{"DBSIZE", ":0\r\n"},
		{"AUTH wrong", wrong}, // the connection keeps its user and namespace
		{"SET k two", "+OK\r\n"},
		{"FLUSHDB", "+OK\r\n"},
		{"AUTH token1", "+OK\r\n"},
		{"GET k", "$3\r\none\r\n"},
		{"RESET", "+RESET\r\n"},
		{"GET k", noAuth},
		{"AUTH secret", "+OK\r\n"},
		{"GET k", "$5\r\nadmin\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	open := servertest.Start(t)
	open.Dial(t).Want("AUTH x",
		"-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "+
			"is correct?\r\n")
	open.Dial(t).Want("AUTH default x", "+OK\r\n")
	open.Dial(t).Want("AUTH other x", wrong)
}

func TestClientList(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret", "repl-namespace-enabled", "yes")
	h.AddNamespaces(t, "ns1")
	a, b := h.Dial(t), h.Dial(t)
	a.Want("AUTH secret", "+OK\r\n")
	b.Want("AUTH token1", "+OK\r\n")
	a.Want("CLIENT SETNAME first", "+OK\r\n")
	a.Want("CLIENT SETINFO LIB-NAME lib", "+OK\r\n")
	a.Want("CLIENT SETINFO lib-ver 1.2", "+OK\r\n")
	a.Want("CLIENT NO-EVICT ON", "+OK\r\n")
	b.Want("CLIENT NO-TOUCH ON", "+OK\r\n")
	b.Want("PING", "+PONG\r\n")

	// An age that is larger than the duration of the test, which may take seconds on a busy host.
	h.Sessions().Each(func(c *session.Loop) { c.Older(100 * time.Second) })

	line := func(id int, c *servertest.Client, rest string) string {
		return fmt.Sprintf(`id=%d addr=%s laddr=%s fd=\d+ %s\n`, id, regexp.QuoteMeta(c.LocalAddr().String()),
			regexp.QuoteMeta(c.RemoteAddr().String()), rest)
	}
	first := line(1, a,
		`name=first age=1\d\d idle=\d\d? flags=e namespace=__namespace db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=\d+ `+
			`qbuf-free=\d+ argv-mem=\d+ multi-mem=0 rbs=\d+ rbp=\d+ obl=0 oll=0 omem=0 obuf=0 tot-mem=\d+ events=r `+
			`cmd=client\|list user=default redir=-1 resp=2 lib-name=lib lib-ver=1.2 tot-net-in=\d+ tot-net-out=\d+ tot-cmds=\d+`)
	second := line(2, b,
		`name= age=1\d\d idle=\d\d? flags=T namespace=ns1 db=0 .* cmd=ping user=default redir=-1 resp=2 lib-name= lib-ver= `+
			`.*`)
	check := func(c *servertest.Client, command, pattern string) {
		t.Helper()
		got := c.Do(strings.Fields(command)...)
		if !regexp.MustCompile(`^\$\d+\r\n` + pattern + `\r\n$`).MatchString(got) {
			t.Errorf("%s:\n%s\nwant\n%s", command, got, pattern)
		}
	}
	check(a, "CLIENT LIST", first+second)
	check(a, "CLIENT LIST TYPE normal", first+second)
	check(a, "CLIENT LIST TYPE replica", "")
	check(a, "CLIENT LIST ID 2 77", second)
	// go-redis refuses the reply to CLIENT INFO when it has a field that Redis 7.2 lacks.
	check(a, "CLIENT INFO", strings.NewReplacer("list", "info", " namespace=__namespace", "", " watch=0", "",
		" obuf=0", "",
		` tot-net-in=\d+ tot-net-out=\d+ tot-cmds=\d+`, "").Replace(first))
	check(b, "CLIENT INFO", strings.NewReplacer("cmd=ping", `cmd=client\|info`, " namespace=ns1", "", "lib-ver= .*",
		"lib-ver=").Replace(second))
	// A namespace sees its own connections only.
	check(b, "CLIENT LIST", strings.Replace(second, "cmd=ping", `cmd=client\|list`, 1))
	check(b, "CLIENT LIST ID 1", "")
	a.Want("CLIENT ID", ":1\r\n")
	for _, tt := range []struct{ command, want string }{
		{"CLIENT LIST TYPE odd", "-ERR Unknown client type 'odd'\r\n"},
		{"CLIENT LIST ID x", "-ERR Invalid client ID\r\n"},
		{"CLIENT LIST odd", "-ERR syntax error\r\n"},
		{"CLIENT SETINFO lib-foo x", "-ERR Unrecognized option 'lib-foo'\r\n"},
		{"CLIENT SETINFO lib-ver a\x01b", "-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n"},
		{"CLIENT SETNAME \x7f", "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
		{"CLIENT NO-EVICT odd", "-ERR syntax error\r\n"},
		{"CLIENT REPLY odd", "-ERR syntax error\r\n"},
	} {
		a.Want(tt.command, tt.want)
	}
	a.Send(servertest.Encode("HELLO", "3"))
	a.Reply()
	if got := a.Do("CLIENT", "INFO"); !strings.HasPrefix(got, "=") || !strings.Contains(got, "\r\ntxt:id=1 ") ||
		!strings.Contains(got, " resp=3 ") {
		t.Errorf("in RESP3: %q", got)
	}
}

// CLIENT LIST shows the state of a transaction, and the last command even if it failed or was refused.
func TestClientListState(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	id := strings.Trim(c.Do("CLIENT", "ID"), ":\r\n")
	for _, tt := range []struct{ other, command, flags, rest string }{
		{"", "WATCH k", "N", "multi=-1 watch=1 .* multi-mem=0 .* cmd=watch"},
		{"SET k v", "PING", "d", "multi=-1 watch=1 .* cmd=ping"},
		{"", "MULTI", "xd", "multi=0 .* cmd=multi"},
		{"", "GET k", "xd", `multi=1 .* multi-mem=[1-9]\d* .* cmd=get`},
		{"", "DISCARD", "N", "multi=-1 watch=0 .* multi-mem=0 .* cmd=discard"},
		{"", "INCR k", "N", "cmd=incr "}, // an error of the command
		{"", "SET k", "N", "cmd=set "},   // refused
		{"", "NOSUCH", "N", "cmd=NULL "},
		{"", "CONFIG GET timeout", "N", `cmd=config\|get `},
		{"", "CONFIG NOSUCH", "N", "cmd=NULL "},
	} {
		if tt.other != "" {
			admin.Do(strings.Fields(tt.other)...)
		}
		c.Do(strings.Fields(tt.command)...)
		got := admin.Do("CLIENT", "LIST", "ID", id)
		if !regexp.MustCompile(" flags=" + tt.flags + " .*" + tt.rest).MatchString(got) {
			t.Errorf("after %s: %s, want %s %s", tt.command, got, tt.flags, tt.rest)
		}
	}
}

func TestClientKill(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret", "repl-namespace-enabled", "yes")
	h.AddNamespaces(t, "ns1")
	connect := func(password string) *servertest.Client {
		c := h.Dial(t)
		c.Want("AUTH "+password, "+OK\r\n")
		return c
	}
	me := connect("secret")
	for _, tt := range []struct{ command, want string }{
		{"CLIENT KILL 1.2.3.4:5", "-ERR No such client\r\n"},
		{"CLIENT KILL ID abc", "-ERR client-id should be greater than 0\r\n"},
		{"CLIENT KILL ID 0", "-ERR client-id should be greater than 0\r\n"},
		{"CLIENT KILL ID 9999", ":0\r\n"},
		{"CLIENT KILL ID 1 ADDR", "-ERR syntax error\r\n"},
		{"CLIENT KILL TYPE odd", "-ERR Unknown client type 'odd'\r\n"},
		{"CLIENT KILL USER odd", "-ERR No such user 'odd'\r\n"},
		{"CLIENT KILL SKIPME odd", "-ERR syntax error\r\n"},
		{"CLIENT KILL TYPE master", ":0\r\n"},
		{"CLIENT KILL LADDR 1.2.3.4:5", ":0\r\n"},
	} {
		me.Want(tt.command, tt.want)
	}
	victim := connect("secret")
	addr := victim.LocalAddr().String()
	me.Want("CLIENT KILL "+addr, "+OK\r\n")
	// After the reply the connection is not listed any more, even if its goroutine has not ended yet.
	me.Want("CLIENT KILL "+addr, "-ERR No such client\r\n")
	if n := strings.Count(me.Do("CLIENT", "LIST"), "id="); n != 1 {
		t.Errorf("%d clients are shown after one of two was killed", n)
	}
	victim.Closed()
	victim = connect("secret")
	me.Want("CLIENT KILL ADDR "+victim.LocalAddr().String()+" LADDR 9.9.9.9:9", ":0\r\n") // all filters must fit
	me.Want("CLIENT KILL ADDR "+victim.LocalAddr().String()+" LADDR "+h.Addr()+" USER default TYPE normal", ":1\r\n")
	victim.Closed()

	// A waiting client is killed at once.
	sleeper := connect("secret")
	sleeper.Send(servertest.Pipeline("DEBUG SLEEP 1000"))
	servertest.Eventually(t, "it sleeps",
		func() bool { c := h.Sessions().Services.Clients.List(); return c[len(c)-1].Command == "debug" })
	me.Want("CLIENT KILL TYPE normal", ":1\r\n")
	sleeper.Closed()
	servertest.Eventually(t, "the killed client is disconnected", func() bool { return h.Sessions().Clients() == 1 })

	// A client of a namespace can kill clients of this namespace only.
	own, other := connect("token1"), connect("token1")
	own.Want("CLIENT KILL ID 1", ":0\r\n")
	own.Want("CLIENT KILL TYPE normal SKIPME no", ":2\r\n")
	own.Closed()
	other.Closed()
	me.Want("CLIENT KILL ID 1 SKIPME yes", ":0\r\n")
	me.Want("CLIENT KILL ID 1", ":0\r\n")
	me.Send(servertest.Pipeline("CLIENT KILL "+me.LocalAddr().String(), "PING"))
	if got := me.Closed(); got != "+OK\r\n" {
		t.Errorf("killing oneself: %q", got)
	}
}

func TestSelectAndEcho(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"SELECT 0", "+OK\r\n"},
		{"SELECT 1", "-ERR DB index is out of range\r\n"},
		{"SELECT -1", "-ERR DB index is out of range\r\n"},
		{"SELECT x", "-ERR value is not an integer or out of range\r\n"},
		{"SELECT 4294967296", "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n"},
		{"ECHO hi", "$2\r\nhi\r\n"},
		{"PING hi", "$2\r\nhi\r\n"},
		{"PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"},
		{"CLIENT", "-ERR wrong number of arguments for 'client' command\r\n"},
		{"CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command\r\n"},
		{"QUIT a b c", "+OK\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	c.Closed()
}
