package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/servertest"
)

// site is a configuration file and a database for several servers, one after the other.
type site struct {
	t    testing.TB
	file string
	db   *engine.DB
	last *server.Server // the present server, nil before the first one
}

// newSite writes a configuration file. The extension of its name, .conf or .toml, determines its format.
func newSite(t testing.TB, name, text string) *site {
	t.Helper()
	s := &site{t: t, file: filepath.Join(t.TempDir(), name), db: enginetest.Open(t)}
	require.NoError(t, os.WriteFile(s.file, []byte(text), 0o600))
	return s
}

// serve ends the present server and starts another one, with the file, the database and command line options.
func (s *site) serve(options ...string) (*servertest.Harness, error) {
	s.t.Helper()
	if s.last != nil {
		s.last.Close()
	}
	cfg, err := config.Load(append([]string{"-c", s.file, "--port", "0", "--bind", "127.0.0.1", "--dir",
		s.t.TempDir()}, options...), nil)
	require.NoError(s.t, err)
	s.last = server.New(cfg, s.db, zap.NewNop())
	if err := s.last.Start(); err != nil {
		return nil, err
	}
	s.t.Cleanup(s.last.Close)
	return &servertest.Harness{Server: s.last, DB: s.db}, nil
}

// admin is serve, and returns a client that has logged in as the administrator.
func (s *site) admin(options ...string) *servertest.Client {
	s.t.Helper()
	h, err := s.serve(options...)
	require.NoError(s.t, err)
	c := h.Dial(s.t)
	c.Want("AUTH p", "+OK\r\n")
	return c
}

// text returns the contents of the configuration file.
func (s *site) text() string {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	require.NoError(s.t, err)
	return string(text)
}

// stored returns the record of the namespaces in the column family propagate, "none" if it does not exist.
func (s *site) stored() (value string) {
	s.t.Helper()
	err := s.db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		v, found, err := tx.Get(cf.Propagate, []byte("__namespace_keys__"))
		if value = string(v); !found {
			value = "none"
		}
		return err
	})
	require.NoError(s.t, err)
	return value
}

const conf = "requirepass p\n"

func TestNamespaceCommand(t *testing.T) {
	s := newSite(t, "kvrocks.conf", conf)
	c := s.admin("--masterauth", "m")
	const sub = "-ERR NAMESPACE subcommand must be one of GET, SET, DEL, ADD, CURRENT\r\n"
	long := strings.Repeat("x", 255)
	for _, tt := range []struct{ command, want string }{
		{"NAMESPACE", "-ERR wrong number of arguments for 'namespace' command\r\n"},
		{"NAMESPACE GET", sub}, {"NAMESPACE GET a b", sub}, {"NAMESPACE ADD a", sub}, {"NAMESPACE ADD a b c",
			sub}, {"NAMESPACE SET a", sub},
		{"NAMESPACE DEL", sub}, {"NAMESPACE DEL a b", sub}, {"NAMESPACE CURRENT x", sub}, {"NAMESPACE WHAT a", sub},
		{"NAMESPACE CURRENT", "$11\r\n__namespace\r\n"},
		{"NAMESPACE GET *", servertest.Bulk("__namespace", "p")},
		{"NAMESPACE GET ns1", "$-1\r\n"},
		{"NAMESPACE GET __namespace", "$-1\r\n"},
		{"NAMESPACE ADD ns1 t1", "+OK\r\n"},
		{"NAMESPACE ADD ns1 t1", "+OK\r\n"},
		{"NAMESPACE ADD ns1 t2", "-ERR the namespace already exists\r\n"},
		{"namespace add ns2 t1", "-ERR the token already exists\r\n"},
		{"namespace Add ns2 a-token", "+OK\r\n"},
		{"NAMESPACE GET ns1", "$2\r\nt1\r\n"},
		{"NAMESPACE get *", servertest.Bulk("ns2", "a-token", "ns1", "t1", "__namespace", "p")},
		{"NAMESPACE SET ns1 t3", "+OK\r\n"},
		{"NAMESPACE SET ns1 t3", "+OK\r\n"},
		{"NAMESPACE SET ns3 t4", "+OK\r\n"},
		{"NAMESPACE SET ns3 a-token", "-ERR the token already exists\r\n"},
		{"NAMESPACE GET ns3", "$2\r\nt4\r\n"},
		{"NAMESPACE ADD ns4 p", "-ERR the token is duplicated with requirepass or masterauth\r\n"},
		{"NAMESPACE SET ns4 m", "-ERR the token is duplicated with requirepass or masterauth\r\n"},
		{"NAMESPACE ADD __namespace t5", "-ERR forbidden to add the default namespace\r\n"},
		{"NAMESPACE SET __namespace t5", "-ERR forbidden to add the default namespace\r\n"},
		{"NAMESPACE DEL __namespace", "-ERR forbidden to delete the default namespace\r\n"},
		{"NAMESPACE DEL ns4", "-ERR the namespace was not found\r\n"},
		{"NAMESPACE ADD " + long + "x t5", "-ERR size exceed limit 255\r\n"},
		{"NAMESPACE ADD n\x7f t5", "-ERR namespace contain illegal letter\r\n"},
		{"NAMESPACE ADD " + long + " t5", "+OK\r\n"},
		{"NAMESPACE DEL " + long, "+OK\r\n"},
		{"NAMESPACE DEL ns3", "+OK\r\n"},
		{"NAMESPACE GET *", servertest.Bulk("ns2", "a-token", "ns1", "t3", "__namespace", "p")},
		{"CONFIG SET requirepass t3",
			"-ERR CONFIG SET failed (possibly related to argument 'requirepass') - requirepass is duplicated with namespace " +
				"tokens\r\n"},
		{"CONFIG SET requirepass \"\"", "+OK\r\n"}, // the value is two quotes, not empty
		{"CONFIG SET requirepass p", "+OK\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	if got := c.Do("CONFIG", "SET", "requirepass",
		""); got != "-ERR CONFIG SET failed (possibly related to argument 'requirepass') - requirepass empty not allowed "+
		"while the namespace exists\r\n" {
		t.Errorf("no requirepass: %q", got)
	}
	c.Do("HELLO", "3")
	c.Want("NAMESPACE GET nosuch", "_\r\n")

	// A user of a namespace is no administrator.
	u := (&servertest.Harness{Server: s.last}).Dial(t)
	u.Want("NAMESPACE CURRENT", "-NOAUTH Authentication required.\r\n")
	u.Want("AUTH t3", "+OK\r\n")
	const refused = "-ERR admin permission required to perform the command\r\n"
	for _, tt := range []struct{ command, want string }{
		{"NAMESPACE CURRENT", "$3\r\nns1\r\n"},
		{"NAMESPACE GET *", refused}, {"NAMESPACE GET ns1", refused}, {"NAMESPACE ADD a b",
			refused}, {"NAMESPACE SET ns1 b", refused}, {"NAMESPACE DEL ns1", refused},
		{"NAMESPACE WHAT", refused}, {"CONFIG GET port", refused}, {"FLUSHALL", refused},
	} {
		u.Want(tt.command, tt.want)
	}
	for _, options := range [][]string{nil, {"requirepass", "p"}} {
		c := servertest.Start(t, options...).Dial(t)
		want := "-ERR forbidden to add namespace when requirepass was empty\r\n"
		if options != nil {
			c.Do("AUTH", "p")
			want = "-ERR modify namespace requires the server is running with a configuration file or enabled namespace " +
				"replication\r\n"
		}
		c.Want("NAMESPACE ADD a t", want)
		c.Want("NAMESPACE SET a t", want)
		c.Want("NAMESPACE DEL a",
			"-ERR modify namespace requires the server is running with a configuration file or enabled namespace "+
				"replication\r\n")
	}
	c = servertest.Start(t, "requirepass", "p", "cluster-enabled", "yes").Dial(t)
	c.Do("AUTH", "p")
	c.Want("NAMESPACE ADD a t", "-ERR forbidden to add namespace when cluster mode was enabled\r\n")
}

// Each namespace has its own keys, also after its token was changed or deleted.
func TestNamespacesAreApart(t *testing.T) {
	s := newSite(t, "kvrocks.conf", conf)
	c := s.admin()
	h := &servertest.Harness{Server: s.last}
	a, b := h.Dial(t), h.Dial(t)
	c.Do("NAMESPACE", "ADD", "ns1", "t1")
	c.Do("NAMESPACE", "ADD", "ns2", "t2")
	a.Want("AUTH t1", "+OK\r\n")
	b.Want("AUTH t2", "+OK\r\n")
	for i, u := range []*servertest.Client{a, b, c} {
		u.Want("SET k "+fmt.Sprint(i), "+OK\r\n")
		u.Want("SADD s "+fmt.Sprint(i), ":1\r\n")
	}
	for i, u := range []*servertest.Client{a, b, c} {
		u.Want("GET k", fmt.Sprintf("$1\r\n%d\r\n", i))
		u.Want("SMEMBERS s", servertest.Bulk(fmt.Sprint(i)))
		u.Want("DBSIZE", ":2\r\n")
		u.Want("KEYS *", servertest.Bulk("k", "s"))
		u.Want("SCAN 0", "*2\r\n$1\r\n0\r\n"+servertest.Bulk("k", "s"))
		if got := u.Do("RANDOMKEY"); !slices.Contains([]string{"$1\r\nk\r\n", "$1\r\ns\r\n"}, got) {
			t.Errorf("RANDOMKEY: %q", got)
		}
	}
	b.Want("FLUSHDB", "+OK\r\n")
	b.Want("DBSIZE", ":0\r\n")
	a.Want("DBSIZE", ":2\r\n")
	c.Want("DBSIZE", ":2\r\n")
	// NAMESPACE DEL: connected clients stay in the namespace, no client can log in any more, and the data is kept.
	c.Want("NAMESPACE DEL ns1", "+OK\r\n")
	a.Want("GET k", "$1\r\n0\r\n")
	a.Want("SET k2 v", "+OK\r\n")
	a.Want("NAMESPACE CURRENT", "$3\r\nns1\r\n")
	d := h.Dial(t)
	d.Want("AUTH t1", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	d.Want("GET k", "-NOAUTH Authentication required.\r\n")
	a.Want("AUTH t1", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	a.Want("DBSIZE", ":3\r\n")
	c.Want("NAMESPACE ADD ns1 new", "+OK\r\n")
	d.Want("AUTH new", "+OK\r\n")
	d.Want("MGET k k2", servertest.Bulk("0", "v"))
	c.Want("NAMESPACE SET ns1 newer", "+OK\r\n")
	d.Want("AUTH new", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	d.Want("AUTH default newer", "+OK\r\n")
	d.Want("GET k2", "$1\r\nv\r\n")
}

// Namespaces are stored in the configuration file, in both formats, and survive restarts.
func TestNamespacesInTheFile(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"kvrocks.conf", "requirepass p\n# kept\nnamespace.old told\n",
			"requirepass p\n# kept\nnamespace.a ta\nnamespace.b.c \"t b\"\n"},
		{"kvrocks.toml", "requirepass = \"p\"\n# kept\n[namespace]\nold = \"told\"\n",
			"requirepass = \"p\"\n# kept\n[namespace]\na = \"ta\"\n\"b.c\" = \"t b\"\n"},
	} {
		s := newSite(t, tt.name, tt.text)
		c := s.admin()
		c.Want("NAMESPACE ADD a ta", "+OK\r\n")
		if !strings.Contains(s.text(), "ta") {
			t.Errorf("%s: the namespace is not in the file at once: %s", tt.name, s.text())
		}
		if got := c.Do("NAMESPACE", "ADD", "b.c", "t b"); got != "+OK\r\n" {
			t.Errorf("%s: %s", tt.name, got)
		}
		c.Want("NAMESPACE DEL old", "+OK\r\n")
		c.Want("CONFIG REWRITE", "+OK\r\n")
		for _, line := range strings.Split(tt.want, "\n") {
			if !strings.Contains(s.text(), line+"\n") {
				t.Errorf("%s: no line %q in\n%s", tt.name, line, s.text())
			}
		}
		if strings.Contains(s.text(), "old") || s.stored() != "none" {
			t.Errorf("%s: the file is\n%s\nthe database has %s", tt.name, s.text(), s.stored())
		}
		c = s.admin()
		c.Want("NAMESPACE GET *", servertest.Bulk("b.c", "t b", "a", "ta", "__namespace", "p"))
	}
}

// With repl-namespace-enabled, namespaces are stored in the database and survive restarts. Changing the setting moves
// them from the file to the database, or the other way round.
func TestNamespacesInTheDatabase(t *testing.T) {
	s := newSite(t, "kvrocks.conf", "requirepass p\nnamespace.f tf\n")
	c := s.admin()
	c.Want("CONFIG SET repl-namespace-enabled yes", "+OK\r\n")
	if s.stored() != `{"tf":"f"}` || strings.Contains(s.text(), "namespace.") ||
		!strings.Contains(s.text(), "repl-namespace-enabled yes") {
		t.Errorf("stored %s, file\n%s", s.stored(), s.text())
	}
	c.Want("NAMESPACE ADD a T", "+OK\r\n")
	if want := `{"T":"a","tf":"f"}`; s.stored() != want {
		t.Errorf("stored %s, want %s", s.stored(), want)
	}
	const all = "*6\r\n$1\r\na\r\n$1\r\nT\r\n$1\r\nf\r\n$2\r\ntf\r\n$11\r\n__namespace\r\n$1\r\np\r\n"
	c.Want("NAMESPACE GET *", all)
	if got := c.Do("NAMESPACE", "ADD", "u", "\xff"); got != "-ERR only UTF-8 text can be kept in the database\r\n" {
		t.Errorf("a token that is no text: %q", got)
	}
	c = s.admin()
	c.Want("NAMESPACE GET *", all)
	u := (&servertest.Harness{Server: s.last}).Dial(t)
	u.Want("AUTH T", "+OK\r\n")
	u.Want("NAMESPACE CURRENT", "$1\r\na\r\n")

	// While the database has namespaces, the server does not start with settings that exclude them.
	if _, err := s.serve("--repl-namespace-enabled", "no"); err == nil ||
		err.Error() != "cannot switch off repl_namespace_enabled when namespaces exist in db" {
		t.Errorf("a start with repl-namespace-enabled no: %v", err)
	}
	if _, err := s.serve("--redis-databases", "2"); err == nil ||
		err.Error() != "redis-databases wasn't allowed while namespaces exist in the database" {
		t.Errorf("a start with redis-databases: %v", err)
	}
	c = s.admin()
	c.Want("CONFIG SET repl-namespace-enabled no",
		"-ERR CONFIG SET failed (possibly related to argument 'repl-namespace-enabled') - cannot switch off "+
			"repl_namespace_enabled when namespaces exist in db\r\n")
	c.Want("CONFIG GET repl-namespace-enabled", servertest.Bulk("repl-namespace-enabled", "yes"))
	c.Want("NAMESPACE SET a t3", "+OK\r\n")
	c.Want("NAMESPACE DEL f", "+OK\r\n")
	if want := `{"t3":"a"}`; s.stored() != want {
		t.Errorf("stored %s, want %s", s.stored(), want)
	}
	// After a failed write, the namespaces are unchanged.
	s.db.InjectWriteError(engine.NewError("ERR", "disk full"))
	c.Want("NAMESPACE ADD x tx", "-ERR disk full\r\n")
	c.Want("NAMESPACE DEL a", "-ERR disk full\r\n")
	s.db.InjectWriteError(nil)
	c.Want("NAMESPACE GET *", servertest.Bulk("a", "t3", "__namespace", "p"))
	c.Want("NAMESPACE DEL a", "+OK\r\n")
	if s.stored() != "{}" {
		t.Errorf("stored %s", s.stored())
	}
	c.Want("CONFIG SET repl-namespace-enabled no", "+OK\r\n")
	c.Want("NAMESPACE ADD a t", "+OK\r\n")
	if s.stored() != "{}" || !strings.Contains(s.text(), "namespace.a t\n") {
		t.Errorf("stored %s, file\n%s", s.stored(), s.text())
	}
	// With the database, no configuration file is needed.
	c = servertest.Start(t, "requirepass", "p", "repl-namespace-enabled", "yes").Dial(t)
	c.Do("AUTH", "p")
	c.Want("NAMESPACE ADD a t", "+OK\r\n")
	// A replica has the namespaces of its master.
	c = servertest.Start(t, "requirepass", "p", "repl-namespace-enabled", "yes", "slaveof", "127.0.0.1 1").Dial(t)
	c.Do("AUTH", "p")
	for _, cmd := range []string{"ADD a t", "SET a t", "DEL a"} {
		c.Want("NAMESPACE "+cmd, "-ERR namespace is read-only for slave\r\n")
	}
	c.Want("NAMESPACE GET a", "$-1\r\n")
}

// If the record of the namespaces is corrupt, the server does not start, and the error names the record.
func TestNamespacesCorrupt(t *testing.T) {
	s := newSite(t, "kvrocks.conf", conf)
	require.NoError(t, s.db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, []byte("__namespace_keys__"), []byte(`{"t":1}`))
		return nil
	}))
	if _, err := s.serve(); err == nil || !strings.HasPrefix(err.Error(),
		`key "__namespace_keys__" of the family propagate: corrupt record: `) {
		t.Errorf("%v", err)
	}
}

// A replica whose settings allow no namespaces in its database says so when it gets them, not at its next start only.
func TestNamespacesOfTheMaster(t *testing.T) {
	for _, own := range [][]string{{}, {"repl-namespace-enabled", "yes", "redis-databases", "4"}} {
		m := servertest.Start(t, "requirepass", "secret", "repl-namespace-enabled", "yes")
		c := m.Dial(t)
		c.Want("AUTH secret", "+OK\r\n")
		r := servertest.Start(t, append(own, "masterauth", "secret")...)
		r.Dial(t).Want(replicaOf(r, m), "+OK\r\n")
		c.Want("SET k v", "+OK\r\n")
		caughtUp(t, r, m)
		const text = "the namespaces in the database are not used"
		if n := r.Logs.FilterMessage(text).Len(); n != 0 {
			t.Errorf("%q: logged without namespaces", own)
		}
		c.Want("NAMESPACE ADD ns token", "+OK\r\n")
		servertest.Eventually(t, "an error line", func() bool { return r.Logs.FilterMessage(text).Len() == 1 })
	}
}

func TestNamespacesConcurrently(t *testing.T) {
	for _, mode := range []string{"no", "yes"} {
		s := newSite(t, "kvrocks.conf", conf+"repl-namespace-enabled "+mode+"\n")
		s.admin()
		h := &servertest.Harness{Server: s.last}
		var wg sync.WaitGroup
		for w := range 4 {
			c, u := h.Dial(t), h.Dial(t)
			c.Do("AUTH", "p")
			wg.Go(func() {
				for i := range 10 {
					name := fmt.Sprintf("n%d-%d", w, i)
					c.Want("NAMESPACE ADD "+name+" t"+name, "+OK\r\n")
					u.Want("AUTH t"+name, "+OK\r\n")
					u.Want("NAMESPACE CURRENT", fmt.Sprintf("$%d\r\n%s\r\n", len(name), name))
					if i%2 == 1 {
						c.Want("NAMESPACE DEL "+name, "+OK\r\n")
					}
					c.Want("CONFIG SET masterauth m"+name, "+OK\r\n")
				}
			})
		}
		wg.Wait()
		c := s.admin()
		if n := strings.Count(c.Do("NAMESPACE", "GET", "*"), "$5\r\ntn"); n != 20 {
			t.Errorf("repl-namespace-enabled %s: %d namespaces", mode, n)
		}
	}
}

// MOVEX works like in Kvrocks.
func TestMoveX(t *testing.T) {
	s := newSite(t, "kvrocks.conf", conf+"namespace.ns1 t1\nnamespace.ns2 t2\n")
	c := s.admin()
	u := (&servertest.Harness{Server: s.last}).Dial(t)
	u.Want("AUTH t1", "+OK\r\n")
	c.Want("RPUSH l a b", ":2\r\n")
	c.Want("EXPIREAT l 4102444800", ":1\r\n")
	for _, tt := range []struct {
		c             *servertest.Client
		command, want string
	}{
		{c, "MOVEX l", "-ERR wrong number of arguments for 'movex' command\r\n"},
		{c, "MOVEX l t3", "-ERR Invalid password\r\n"},
		{c, "MOVEX l p", ":0\r\n"},
		{c, "MOVEX nosuch t1", ":0\r\n"},
		{c, "MOVEX l t1", ":1\r\n"},
		{c, "EXISTS l", ":0\r\n"},
		{u, "LRANGE l 0 -1", servertest.Bulk("a", "b")},
		{u, "EXPIRETIME l", ":4102444800\r\n"},
		{u, "MOVEX l t1", ":0\r\n"},
		{c, "SET l here", "+OK\r\n"},
		{u, "MOVEX l p", ":0\r\n"},
		{c, "DEL l", ":1\r\n"},
		{u, "MULTI", "+OK\r\n"},
		{u, "MOVEX l p", "+QUEUED\r\n"},
		{u, "EXISTS l", "+QUEUED\r\n"},
		{u, "EXEC", "*2\r\n:1\r\n:0\r\n"},
		{c, "LPOP l", "$1\r\na\r\n"},
		{c, "DBSIZE", ":1\r\n"},
		{u, "DBSIZE", ":0\r\n"},
	} {
		tt.c.Want(tt.command, tt.want)
	}
	// A wrong token is a failed login.
	if log := c.Do("ACL", "LOG"); strings.Count(log, "count\r\n") != 1 || !strings.Contains(log, "count\r\n:1\r\n") ||
		!strings.Contains(log, "$5\r\nMOVEX\r\n") {
		t.Errorf("ACL LOG: %q, want one failed login", log)
	}
	// MOVEX serves clients that are blocked in the other namespace.
	u.Send(servertest.Encode("BLPOP", "l", "0"))
	servertest.Eventually(t, "the client waits", func() bool { return s.last.Sessions().Counts().Blocked == 1 })
	c.Want("MOVEX l t1", ":1\r\n")
	if got := u.Reply(); got != servertest.Bulk("l", "b") {
		t.Errorf("BLPOP: %q", got)
	}
}
