package accounts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/acl/acltest"
)

const hashOfP = "#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"

// changes notes what OnChange is told.
type changes struct{ list []string }

func (c *changes) note(old, next *acl.User) {
	switch {
	case old == nil:
		c.list = append(c.list, "+"+next.Name())
	case next == nil:
		c.list = append(c.list, "-"+old.Name())
	default:
		c.list = append(c.list, "="+next.Name())
	}
}

func (c *changes) take() string {
	s := strings.Join(c.list, " ")
	c.list = nil
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mayGet(a *accounts.Account) bool {
	reason, _ := a.User().Check(acltest.ID("get"), acltest.Args("get", "x"), []acl.Key{{Arg: 1, Read: true}},
		acl.Channels{})
	return reason == acl.Allowed
}

func TestStore(t *testing.T) {
	var told changes
	s := accounts.NewStore(acltest.Table(), accounts.Options{OnChange: told.note})
	if got := s.Lines(); !slices.Equal(got, []string{"user default on nopass sanitize-payload ~* &* +@all"}) {
		t.Fatalf("%q", got)
	}
	must(t, s.SetUser("bob", "on", ">p", "+get", "~x"))
	must(t, s.SetUser("bob", ">q"))
	must(t, s.SetUser("amy"))
	if got := told.take(); got != "+bob =bob +amy" {
		t.Errorf("told of %s", got)
	}
	if err := s.SetUser("amy", "on", "what"); err == nil || s.User("amy").Enabled() || told.take() != "" {
		t.Errorf("%v: %s", err, s.User("amy"))
	}
	for _, name := range []string{"a b", "a\x00", "a\n"} {
		if err := s.SetUser(name); !errors.Is(err, acl.ErrUserName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	var names []string
	for _, u := range s.Users() {
		names = append(names, u.Name())
	}
	if !slices.Equal(names, []string{"amy", "bob", "default"}) {
		t.Errorf("%q", names)
	}

	// A change has effect on those who have authenticated already, and so has the end of the user.
	bob, ok := s.Authenticate("bob", []byte("p"))
	if !ok || !mayGet(bob.Account) {
		t.Fatal(ok)
	}
	must(t, s.SetUser("bob", "-get"))
	if mayGet(bob.Account) {
		t.Error("what was taken away is still allowed")
	}
	must(t, s.SetUser("bob", "+get", "off"))
	if !mayGet(bob.Account) {
		t.Error("off has an effect on a connection")
	}
	if _, ok := s.Authenticate("bob", []byte("p")); ok {
		t.Error("a user who is off has authenticated")
	}
	if _, err := s.DeleteUsers("bob", acl.DefaultUser); !errors.Is(err, accounts.ErrDefaultUser) || s.User("bob") == nil {
		t.Error(err)
	}
	told.take()
	gone, err := s.DeleteUsers("bob", "nobody", "bob")
	if err != nil || !slices.Equal(gone, []string{"bob"}) || told.take() != "-bob" {
		t.Error(gone, err)
	}
	if mayGet(bob.Account) || bob.Account.User().Unrestricted() {
		t.Error("a deleted user may do something")
	}
	must(t, s.SetUser("bob", "+@all", "allkeys", "on", "nopass"))
	if mayGet(bob.Account) {
		t.Error("a new user of the same name revives the connections of the old one")
	}
}

func TestAuthenticate(t *testing.T) {
	s := accounts.NewStore(acltest.Table(), accounts.Options{})
	const admin = "admin in "
	try := func(name, password string) string {
		id, ok := s.Authenticate(name, []byte(password))
		if !ok {
			return ""
		}
		text := id.Account.User().Name()
		if id.Admin {
			text += " admin"
		}
		return text + " in " + id.Namespace
	}
	check := func(what string, want map[[2]string]string) {
		t.Helper()
		for who, w := range want {
			if got := try(who[0], who[1]); got != w {
				t.Errorf("%s: %s: %q, want %q", what, who, got, w)
			}
		}
	}
	anonymous := func(want bool) {
		t.Helper()
		if id, ok := s.Anonymous(); ok != want || ok && (!id.Admin || !mayGet(id.Account)) {
			t.Errorf("anonymous: %v %v", id, ok)
		}
	}
	check("at first", map[[2]string]string{{"default", "x"}: "default " + admin, {"bob", "x"}: ""})
	anonymous(true)

	s.SetRequirePass("secret")
	s.SetTokens(map[string]string{"one": "t1", "two": "t2"})
	must(t, s.SetUser("bob", "on", ">b1", ">b2"))
	must(t, s.SetUser("eve", "on", ">e", "namespace:one"))
	must(t, s.SetUser("off", ">o"))
	anonymous(false)
	want := map[[2]string]string{
		{"default", "secret"}: "default " + admin, {"default", "x"}: "", {"default", ""}: "", {"default",
			"t1"}: "default in one", {"default", "t2"}: "default in two",
		{"bob", "b1"}: "bob " + admin, {"bob", "b2"}: "bob " + admin, {"bob", "secret"}: "", {"bob", "t1"}: "",
		{"eve", "e"}: "eve in one", {"off", "o"}: "", {"nobody", ""}: "", {"nobody", "t1"}: "", {"BOB", "b1"}: "",
	}
	check("with a password", want)

	// What happens to the default user does not happen to the namespaces.
	must(t, s.SetUser(acl.DefaultUser, "off", "-@all"))
	anonymous(false)
	want[[2]string{"default", "secret"}] = ""
	check("default off", want)
	if who, _ := s.Authenticate(acl.DefaultUser, []byte("t1")); !mayGet(who.Account) {
		t.Error("a namespace may not GET")
	}

	s.SetRequirePass("")
	must(t, s.SetUser(acl.DefaultUser, "reset", "on", "nopass"))
	want[[2]string{"default", "secret"}] = "default " + admin
	want[[2]string{"default", "x"}] = "default " + admin
	want[[2]string{"default", ""}] = "default " + admin
	check("nopass", want)

	must(t, s.SetUser(acl.DefaultUser, ">new"))
	s.SetTokens(nil)
	check("without tokens", map[[2]string]string{{"default", "new"}: "default " + admin, {"default", "t1"}: "",
		{"default", "secret"}: ""})
	must(t, s.SetUser(acl.DefaultUser, "nopass"))
	s.SetRequirePass("again")
	check("requirepass after nopass", map[[2]string]string{{"default", "again"}: "default " + admin,
		{"default", "new"}: ""})
}

func TestDeclare(t *testing.T) {
	s := accounts.NewStore(acltest.Table(), accounts.Options{})
	declare := func(s *accounts.Store, lines ...string) (err error) {
		var users []*acl.User
		for _, line := range lines {
			words := strings.Fields(line)
			u, e := acltest.Table().Declare(words[0], words[1:], false)
			users, err = append(users, u), errors.Join(err, e)
		}
		if err == nil {
			s.Declare(users)
		}
		return err
	}
	if !s.DefaultIs("") || s.DefaultIs("p") {
		t.Error("the default user is not that of the start")
	}
	must(t, declare(s, "default on >p ~* +@all", "bob on nopass (+get ~x)"))
	want := []string{"user bob on nopass sanitize-payload resetchannels -@all (~x resetchannels -@all +get)",
		"user default on sanitize-payload " + hashOfP + " ~* resetchannels +@all"}
	if got := s.Lines(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if s.DefaultIs("p") { // it may not use channels
		t.Error("the default user is that of requirepass p")
	}
	s.SetRequirePass("q")
	must(t, s.SetUser(acl.DefaultUser, "allchannels"))
	if !s.DefaultIs("q") || s.DefaultIs("p") || s.DefaultIs("") {
		t.Error("the default user is not that of requirepass q")
	}
	for line, fault := range map[string]string{
		"a +what": `Error in ACL SETUSER modifier '+what': Unknown command or category name in ACL`,
		"a (":     `Unmatched parenthesis in acl selector starting at '('.`,
	} {
		if err := declare(s, line); err == nil || err.Error() != fault {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := acltest.Table().Declare("a b", nil, false); err == nil {
		t.Error("a name with a blank is accepted")
	}
}

func TestLoadAndSave(t *testing.T) {
	var told changes
	path := filepath.Join(t.TempDir(), "users.acl")
	s := accounts.NewStore(acltest.Table(), accounts.Options{File: path, OnChange: told.note})
	if _, err := s.Load(); err == nil ||
		err.Error() != "Error loading ACLs, opening file '"+path+"': No such file or directory" {
		t.Error(err)
	}
	login := func(name string) *accounts.Account {
		t.Helper()
		who, ok := s.Authenticate(name, nil)
		if !ok {
			t.Fatalf("%s cannot authenticate", name)
		}
		return who.Account
	}
	for _, name := range []string{"same", "changed", "gone"} {
		must(t, s.SetUser(name, "on", "nopass", "+@all", "~*"))
	}
	logged := map[string]*accounts.Account{}
	for _, name := range []string{"same", "changed", "gone", "default"} {
		logged[name] = login(name)
	}
	must(t, s.Save())
	data, err := os.ReadFile(path)
	must(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if string(data) != strings.Join(s.Lines(), "\n")+"\n" {
		t.Errorf("saved %q", data)
	}
	told.take()
	if gone, err := s.Load(); err != nil || gone != nil || told.take() != "" {
		t.Errorf("loading what was saved: %q %v", gone, err)
	}

	// An error changes nothing.
	must(t, os.WriteFile(path, []byte("user same off\nuser bad what\n"), 0o600))
	before := s.Lines()
	if _, err := s.Load(); err == nil || !strings.HasPrefix(err.Error(), path+":2: Syntax error. ") ||
		!slices.Equal(s.Lines(), before) {
		t.Error(err)
	}

	must(t, os.WriteFile(path,
		[]byte("user same on nopass +@all ~*\nuser changed on nopass -@all ~*\nuser new on nopass +@all\nuser default on "+
			"nopass +get ~*\n"), 0o600))
	gone, err := s.Load()
	must(t, err)
	if !slices.Equal(gone, []string{"changed", "gone"}) {
		t.Errorf("gone are %q", gone)
	}
	if got := told.take(); got != "-changed -gone +changed +new =default" {
		t.Errorf("told of %s", got)
	}
	for name, want := range map[string]bool{"same": true, "changed": false, "gone": false, "default": true} {
		if mayGet(logged[name]) != want {
			t.Errorf("%s may run GET: %v", name, !want)
		}
	}
	if logged["same"] != login("same") || logged["default"] != login("default") ||
		logged["changed"] == login("changed") {
		t.Error("the accounts are not the expected ones")
	}
	if logged["default"].User().Unrestricted() {
		t.Error("default has not changed")
	}

	// A file without the default user gives the initial one. Saving keeps the mode, and a link.
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := s.Load(); err != nil || !logged["default"].User().Unrestricted() || len(s.Lines()) != 1 {
		t.Errorf("%q %v", s.Lines(), err)
	}
	must(t, os.Chmod(path, 0o640))
	link := filepath.Join(t.TempDir(), "link.acl")
	must(t, os.Symlink(path, link))
	must(t, accounts.NewStore(acltest.Table(), accounts.Options{File: link}).Save())
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 || info.Size() == 0 {
		t.Errorf("the file behind the link: %v %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left over: %v", left)
	}

	warned := ""
	lost := accounts.NewStore(acltest.Table(), accounts.Options{File: filepath.Join(path, "x"),
		Warn: func(text string) { warned = text }})
	if err := lost.Save(); !errors.Is(err, accounts.ErrSave) || !strings.HasPrefix(warned, "saving the aclfile: ") {
		t.Errorf("%v, warned of %q", err, warned)
	}
	none := accounts.NewStore(acltest.Table(), accounts.Options{})
	if err := none.Save(); !errors.Is(err, accounts.ErrNoFile) {
		t.Error(err)
	}
	if _, err := none.Load(); !errors.Is(err, accounts.ErrNoFile) {
		t.Error(err)
	}
}

func TestAllChannels(t *testing.T) {
	s := accounts.NewStore(acltest.Table(), accounts.Options{AllChannels: true})
	must(t, s.SetUser("a", "(+get)"))
	must(t, s.SetUser("a", "resetchannels"))
	must(t, s.SetUser("b", "resetchannels", "reset"))
	want := []string{"user a off sanitize-payload resetchannels -@all (&* -@all +get)",
		"user b off sanitize-payload &* -@all"}
	if got := s.Lines()[:2]; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Users are changed, deleted, listed, loaded and authenticated at once.
func TestConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	s := accounts.NewStore(acltest.Table(), accounts.Options{File: path, OnChange: func(old, next *acl.User) {}})
	must(t, s.Save())
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				name := fmt.Sprint("u", i%5)
				switch (i + g) % 6 {
				case 0:
					must(t, s.SetUser(name, "on", "nopass", "+@all", "~*", "&*"))
				case 1:
					if _, err := s.DeleteUsers(name); err != nil {
						t.Error(err)
					}
				case 2:
					if who, ok := s.Authenticate(name, nil); ok {
						mayGet(who.Account)
					}
				case 3:
					s.Lines()
				case 4:
					s.Log().Add(accounts.Event{Reason: acl.DeniedCommand, Object: name}, time.Now())
					s.Log().Entries(10)
				case 5:
					s.SetTokens(map[string]string{"n": name})
					if _, err := s.Load(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if s.Log().Count(acl.DeniedCommand) == 0 {
		t.Error("nothing was logged")
	}
}
