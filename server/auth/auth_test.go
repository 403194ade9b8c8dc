package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/command"
)

// settings keep passwords in memory; adding a namespace a second time fails.
type settings struct {
	pass            string
	tokens          map[string]string
	certificateUser string
}

func (s *settings) RequirePass() string           { return s.pass }
func (s *settings) CertificateUser() string       { return s.certificateUser }
func (s *settings) Namespaces() map[string]string { return s.tokens }

func (s *settings) AddNamespace(name, token string) error {
	if s.tokens[name] != "" {
		return errors.New("the namespace exists")
	}
	return s.SetNamespace(name, token)
}

func (s *settings) SetNamespace(name, token string) error {
	s.tokens = maps.Clone(s.tokens)
	s.tokens[name] = token
	return nil
}

func (s *settings) DeleteNamespace(name string) error {
	s.tokens = maps.Clone(s.tokens)
	delete(s.tokens, name)
	return nil
}

type fixture struct {
	*Auth
	settings   *settings
	logs       *observer.ObservedLogs
	lost       []string // the users that have lost channels
	fromMaster bool
}

func newFixture(pass string, o accounts.Options) *fixture {
	core, logs := observer.New(zap.DebugLevel)
	f := &fixture{settings: &settings{pass: pass, tokens: map[string]string{}}, logs: logs}
	f.Auth = New(Options{Settings: f.settings, Log: zap.New(core), ACL: o,
		FromMaster:     func() bool { return f.fromMaster },
		OnChannelsLost: func(user *acl.User) { f.lost = append(f.lost, user.Name()) },
		Describe:       func(id int64) string { return "client" },
	})
	f.Refresh()
	return f
}

func TestPasswords(t *testing.T) {
	f := newFixture("", accounts.Options{})
	if id, ok := f.Anonymous(); !ok || f.PasswordRequired() || id.Namespace != cf.DefaultNamespace || !id.Admin {
		t.Errorf("without a password: %+v, %v", id, ok)
	}
	f.settings.pass = "secret"
	f.Refresh()
	if _, ok := f.Anonymous(); ok || !f.PasswordRequired() {
		t.Error("requirepass is not in force")
	}
	require.NoError(t, (Namespaces{f.Auth}).Add("ns", "token"))
	for _, tt := range []struct {
		user, password, namespace string
		admin, ok                 bool
	}{
		{"default", "secret", cf.DefaultNamespace, true, true}, {"default", "token", "ns", false, true},
		{"default", "wrong", "", false, false}, {"other", "secret", "", false, false},
	} {
		id, ok := f.Authenticate([]byte(tt.user), []byte(tt.password))
		if ok != tt.ok || ok && (id.Namespace != tt.namespace || id.Admin != tt.admin) {
			t.Errorf("%s %s: %+v, %v", tt.user, tt.password, id, ok)
		}
	}
}

func TestByCertificate(t *testing.T) {
	f := newFixture("secret", accounts.Options{})
	for _, user := range []string{"app", "spiffe://org/app"} {
		require.NoError(t, f.ACL().SetUser(user, "on", ">secret"))
	}
	require.NoError(t, f.ACL().SetUser("gone", "off"))
	cert := func(name string, uris ...string) *x509.Certificate {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
		for _, text := range uris {
			uri, err := url.Parse(text)
			require.NoError(t, err)
			c.URIs = append(c.URIs, uri)
		}
		return c
	}
	for _, tt := range []struct {
		mode   string
		cert   *x509.Certificate
		user   string
		denied string // names in ACL LOG, newest first
	}{
		{"off", cert("app"), "", ""},
		{"CN", nil, "", ""},
		{"CN", cert(""), "", ""},
		{"CN", cert("app"), "app", ""},
		{"CN", cert("none", "spiffe://org/app"), "", "none"},
		{"CN", cert("gone"), "", "gone"},
		{"CN", cert("default"), "default", ""},
		{"URI", cert("app"), "", ""},
		{"URI", cert("none", "spiffe://org/app"), "spiffe://org/app", ""},
		{"URI", cert("app", "spiffe://other", "spiffe://org/app", "spiffe://third"), "spiffe://org/app", "spiffe://other"},
	} {
		f.settings.certificateUser = tt.mode
		f.ACL().Log().Reset()
		id, ok := f.ByCertificate(&command.Session{ID: 1, Addr: "addr"}, tt.cert)
		user, denied := "", ""
		if ok {
			user = id.Account.User().Name()
		}
		for _, e := range f.ACL().Log().Entries(10) {
			if e.Reason != acl.DeniedCertificate || e.Object != "" {
				t.Errorf("%+v", e)
			}
			denied += e.Username
		}
		if ok != (tt.user != "") || user != tt.user || denied != tt.denied {
			t.Errorf("%s, %+v: %q, %v, denied %q", tt.mode, tt.cert, user, ok, denied)
		}
	}
}

// Only a new requirepass takes back what ACL SETUSER has made of the default user.
func TestRefreshKeepsTheDefaultUser(t *testing.T) {
	f := newFixture("secret", accounts.Options{})
	require.NoError(t, f.ACL().SetUser("default", ">mine"))
	f.Refresh()
	if _, ok := f.Authenticate([]byte("default"), []byte("mine")); !ok {
		t.Error("the password of ACL SETUSER is gone")
	}
	f.settings.pass = "new"
	f.Refresh()
	if _, ok := f.Authenticate([]byte("default"), []byte("mine")); ok {
		t.Error("the password of ACL SETUSER outlives a new requirepass")
	}
}

func TestNamespaces(t *testing.T) {
	f := newFixture("secret", accounts.Options{})
	n := Namespaces{f.Auth}
	list := func() (words []string) {
		for _, ns := range n.List() {
			words = append(words, ns.Name+"="+ns.Token)
		}
		return words
	}
	for _, err := range []error{n.Add("b", "1"), n.Add("a", "2"), n.Set("b", "3")} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{"a=2", "b=3", cf.DefaultNamespace + "=secret"}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var reply *engine.Error
	if err := n.Add("a", "9"); !errors.As(err, &reply) || reply.Code != "ERR" || reply.Text != "the namespace exists" {
		t.Errorf("added twice: %v", err)
	}
	f.fromMaster = true
	if err := n.Delete("a"); err != errReplicaNamespaces {
		t.Errorf("on a replica: %v", err)
	}
	f.fromMaster = false
	if err := n.Delete("a"); err != nil || len(list()) != 2 {
		t.Errorf("%v, left is %q", err, list())
	}
	if _, ok := f.Authenticate([]byte("default"), []byte("2")); ok {
		t.Error("the token of a deleted namespace is in force")
	}
}

// A failure is counted, and stands in the log of the server and of the ACL; only a few a second are written.
func TestFailures(t *testing.T) {
	f := newFixture("secret", accounts.Options{LogEntries: 10})
	for range failuresLogged + 3 {
		f.AuthFailed(&command.Session{ID: 1, Addr: "addr"}, "AUTH", []byte("eve"))
	}
	if n := f.logs.FilterMessageSnippet("failed to authenticate").Len(); n > 2*failuresLogged { // a second may pass
		t.Errorf("%d lines", n)
	}
	e := f.ACL().Log().Entries(9)
	if len(e) != 1 || e[0].Count != failuresLogged+3 || e[0].Username != "eve" || e[0].Object != "AUTH" ||
		e[0].Client != "client" {
		t.Errorf("%+v", e)
	}
}

func TestLostChannels(t *testing.T) {
	f := newFixture("", accounts.Options{})
	for _, rules := range []string{"on &a &b", "&c", "resetchannels &a"} {
		require.NoError(t, f.ACL().SetUser("bob", strings.Fields(rules)...))
	}
	if !slices.Equal(f.lost, []string{"bob"}) {
		t.Errorf("lost channels: %q", f.lost)
	}
}

func TestMissingFile(t *testing.T) {
	f := newFixture("", accounts.Options{File: t.TempDir() + "/none"})
	if err := f.Declare(nil); err == nil || !strings.HasPrefix(err.Error(), "aclfile: ") {
		t.Errorf("%v", err)
	}
}

func TestNamespaceStore(t *testing.T) {
	s := NamespaceStore{enginetest.Open(t)}
	if tokens, err := s.LoadNamespaces(); err != nil || len(tokens) != 0 {
		t.Errorf("of a new database: %v, %v", tokens, err)
	}
	want := map[string]string{"a": "1", "b": "2"}
	require.NoError(t, s.StoreNamespaces(want))
	if tokens, err := s.LoadNamespaces(); err != nil || !maps.Equal(tokens, want) {
		t.Errorf("%v, %v", tokens, err)
	}
	require.NoError(t, s.DB.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, []byte(cf.PropagateNamespaces), []byte("{damaged"))
		return nil
	}))
	if _, err := s.LoadNamespaces(); err == nil {
		t.Error("damaged namespaces are read")
	}
}
