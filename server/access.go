package server

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
)

// access is who may do what: the users of the ACL, of which default has requirepass for its password, and the tokens
// of the namespaces.
type access struct {
	change   sync.Mutex // held from the reading of the passwords until they are in force
	users    *acl.Store
	file     bool // there is an aclfile
	failures *acl.FailureLimiter

	// What is in force of the settings. ACL SETUSER may have changed the default user since: only a new requirepass
	// takes that back.
	known       bool
	requirepass string
}

// authFailuresLogged is how many failed authentications are written to the log in a second.
const authFailuresLogged = 5

func (s *Server) openAccess() {
	s.access.failures = acl.NewFailureLimiter(authFailuresLogged)
	s.access.file = s.cfg.Text("aclfile") != ""
	s.access.users = acl.NewStore(command.ACLTable(), acl.Options{
		File:        s.cfg.Text("aclfile"),
		AllChannels: s.cfg.Text("acl-pubsub-default") == "allchannels",
		LogEntries:  int(s.cfg.Int("acllog-max-len")),
		OnChange:    s.userChanged,
		Warn:        func(text string) { s.log.Warn(text) },
	})
	s.users = s.access.users
}

// refreshNamespaces takes over the namespaces that have come into the database by themselves.
func (s *Server) refreshNamespaces() {
	if err := s.cfg.ReloadNamespaces(); err != nil {
		s.log.Error("the namespaces cannot be read", zap.Error(err))
	}
	s.refreshAccess()
}

// declaredUsers makes the users that the configuration declares.
func declaredUsers(cfg *config.Config, t *acl.Table) ([]*acl.User, error) {
	var users []*acl.User
	for i, d := range cfg.Users() {
		u, err := t.Declare(d.Name, d.Rules, cfg.Text("acl-pubsub-default") == "allchannels")
		if err != nil {
			return nil, cfg.UserError(i, err)
		}
		users = append(users, u)
	}
	return users, nil
}

// presentUsers returns the users for CONFIG REWRITE: none when they live in the aclfile, and the default user only if
// there is more to say about it than requirepass does, so that a file without users stays one that Kvrocks can read.
func (s *Server) presentUsers(requirePass string) (list []config.User) {
	if s.access.file {
		return nil
	}
	for _, u := range s.access.users.Users() {
		if u.Name() != acl.DefaultUser || !s.access.users.DefaultIs(requirePass) {
			words := strings.Split(u.String(), " ")
			list = append(list, config.User{Name: words[1], Rules: words[2:]})
		}
	}
	return list
}

// loadUsers makes the users of the configuration, or reads the aclfile, if there is one.
func (s *Server) loadUsers() error {
	users, err := declaredUsers(s.cfg, command.ACLTable())
	if err != nil {
		return err
	}
	s.access.users.Declare(users)
	s.cfg.KeepUsers(s.presentUsers)
	if !s.access.file {
		return nil
	}
	if _, err := s.access.users.Load(); err != nil {
		return fmt.Errorf("aclfile: %w", err)
	}
	return nil
}

// ACL returns the users.
func (s *Server) ACL() *acl.Store { return s.access.users }

// set puts passwords in force; tokens are by namespace.
func (a *access) set(requirepass string, tokens map[string]string) {
	if !a.known || requirepass != a.requirepass {
		a.users.SetRequirePass(requirepass)
		a.known, a.requirepass = true, requirepass
	}
	a.users.SetTokens(tokens)
}

// refreshAccess takes over the passwords of the settings.
func (s *Server) refreshAccess() {
	s.access.change.Lock()
	defer s.access.change.Unlock()
	s.access.set(s.cfg.RequirePass(), s.cfg.Namespaces())
}

// userChanged cuts off the subscribers of a user that has lost channels.
func (s *Server) userChanged(old, next *acl.User) {
	if old == nil || next == nil || !old.LosesChannels(next) {
		return
	}
	s.mu.Lock()
	var lost []*conn
	for _, c := range s.conns {
		if v := c.info.view.Load(); v.user == old.Name() && v.subs != [3]int{} {
			lost = append(lost, c)
		}
	}
	s.mu.Unlock()
	for _, c := range lost {
		c.kill()
	}
}

// Anonymous returns what a connection is that has not authenticated; ok is false when it must.
func (s *Server) Anonymous() (id command.Identity, ok bool) {
	a, ok := s.access.users.Anonymous()
	return identity(a), ok
}

// PasswordRequired reports whether a client must authenticate.
func (s *Server) PasswordRequired() bool {
	_, ok := s.access.users.Anonymous()
	return !ok
}

// Authenticate returns what a name and a password, or the token of a namespace, stand for.
func (s *Server) Authenticate(user, password []byte) (id command.Identity, ok bool) {
	a, ok := s.access.users.Authenticate(string(user), password)
	return identity(a), ok
}

func identity(a acl.Identity) command.Identity {
	id := command.Identity{Namespace: a.Namespace, Admin: a.Admin, Account: a.Account}
	if id.Namespace == "" {
		id.Namespace = cf.DefaultNamespace
	}
	return id
}

// AuthFailed notes a failed authentication by a command.
func (s *Server) AuthFailed(sess *command.Session, name string, user []byte) {
	s.access.users.Log().Add(acl.Event{Reason: acl.DeniedAuth, Object: name, Username: string(user), Client: s.describe(sess.ID)}, time.Now())
	if write, suppressed := s.access.failures.Fail(time.Now()); write {
		s.log.Warn("a client failed to authenticate", zap.String("addr", sess.Addr), zap.ByteString("user", user), zap.Int64("not logged before", suppressed))
	}
}

// describe returns what CLIENT INFO shows of a connection, for ACL LOG: go-redis parses both.
func (s *Shared) describe(id int64) string {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil {
		return ""
	}
	i := c.describe(time.Now())
	return i.InfoLine()
}

// check compares a command with the permissions of a user. at is the argument that is denied.
func (r *request) check(u *acl.User) (reason acl.Denied, at int) {
	var keys []acl.Key
	if u.NeedsKeys() {
		keys = r.spec.ACLKeys(nil, r.spec.AppendKeys(nil, r.args), r.args)
	}
	return u.Check(acl.ID(r.spec.ID), r.args, keys, r.spec.ACLChannels(r.args))
}

// denial is what the log has of a command that was denied.
func (c *conn) denial(u *acl.User, r *request, reason acl.Denied, at int) acl.Event {
	e := acl.Event{Reason: reason, Object: r.spec.FullName(), Username: u.Name(), Client: c.srv.describe(c.sess.ID)}
	if reason == acl.DeniedKey || reason == acl.DeniedChannel {
		e.Object = string(r.args[at])
	}
	return e
}

// permitted checks the command of a client that waits against what its user may do by now. It looks only at what the connection
// leaves alone while it waits.
func (w *waiter) permitted() error {
	c := w.conn
	if c.sess.Account == nil || !c.sess.Authorized {
		return nil
	}
	u := c.sess.Account.User()
	if u.Unrestricted() {
		return nil
	}
	r := request{args: w.args, spec: w.spec}
	reason, at := r.check(u)
	if reason == acl.Allowed {
		return nil
	}
	c.srv.users.Log().Add(c.denial(u, &r, reason, at), time.Now())
	return command.Denial(reason, u, w.spec)
}

// permitted checks a command against the permissions of a user that may not do everything.
func (c *run) permitted(u *acl.User, r *request) error {
	reason, at := r.check(u)
	if reason == acl.Allowed {
		return nil
	}
	inScript := c.frame.mode == scripted
	switch { // the last command, as Redis has it: it need not run
	case inScript:
		c.info.lastCmd.Store(c.script.caller)
	case !c.inTx():
		c.info.lastCmd.Store(r.spec)
	}
	e := c.denial(u, r, reason, at)
	switch {
	case inScript:
		e.Context = acl.Script
	case c.multi != nil || c.inTx():
		e.Context = acl.Multi
	}
	c.srv.users.Log().Add(e, time.Now())
	if inScript {
		return command.ScriptDenial(reason, u, r.spec)
	}
	return command.Denial(reason, u, r.spec)
}
