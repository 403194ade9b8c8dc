// Package auth decides which clients may connect: it knows the users of the ACL, the password of the default user,
// and the tokens of namespaces.
package auth

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
)

// Settings are the passwords of the configuration. A change of a namespace outlives the process.
type Settings interface {
	// RequirePass returns the password of the default user, "" = none.
	RequirePass() string
	// Namespaces returns the token of each namespace but the default one.
	Namespaces() map[string]string
	AddNamespace(name, token string) error
	SetNamespace(name, token string) error
	DeleteNamespace(name string) error
}

// Options say where users and passwords come from.
type Options struct {
	Settings Settings
	Log      *zap.Logger
	// ACL has the options of the users but for OnChange and Warn.
	ACL acl.Options
	// FromMaster reports whether the namespaces are those of a master and cannot be changed here.
	FromMaster func() bool
	// OnChannelsLost is called when a user has lost channels: clients of that name may be subscribed to them.
	OnChannelsLost func(user string)
	// Describe returns what CLIENT INFO shows of a client, for ACL LOG.
	Describe func(id int64) string
}

// Auth is the users of the ACL, of which default has requirepass as its password, and the tokens of the namespaces. It
// implements command.Users. Any number of goroutines may use it.
type Auth struct {
	options  Options
	users    *acl.Store
	failures *acl.FailureLimiter

	change sync.Mutex // held from the reading of the passwords until they are in force
	// What is in force of the settings. ACL SETUSER may have changed the default user since: only a new requirepass
	// takes that back.
	known       bool
	requirepass string
}

// failuresLogged is how many failed authentications are written to the log in a second.
const failuresLogged = 5

// New returns the users that exist without a declaration. The passwords are in force after Refresh.
func New(o Options) *Auth {
	a := &Auth{options: o, failures: acl.NewFailureLimiter(failuresLogged)}
	o.ACL.OnChange = a.userChanged
	o.ACL.Warn = func(text string) { o.Log.Warn(text) }
	a.users = acl.NewStore(command.ACLTable(), o.ACL)
	return a
}

// Declare makes the users of the configuration, or reads the aclfile if there is one.
func (a *Auth) Declare(users []*acl.User) error {
	a.users.Declare(users)
	if !a.HasFile() {
		return nil
	}
	if _, err := a.users.Load(); err != nil {
		return fmt.Errorf("aclfile: %w", err)
	}
	return nil
}

// HasFile reports whether the users live in an aclfile.
func (a *Auth) HasFile() bool { return a.options.ACL.File != "" }

// ACL returns the users and their permissions.
func (a *Auth) ACL() *acl.Store { return a.users }

// Refresh takes over the passwords of the settings.
func (a *Auth) Refresh() {
	a.change.Lock()
	defer a.change.Unlock()
	a.set(a.options.Settings.RequirePass(), a.options.Settings.Namespaces())
}

// set puts passwords in force; tokens are by namespace. change must be held.
func (a *Auth) set(requirepass string, tokens map[string]string) {
	if !a.known || requirepass != a.requirepass {
		a.users.SetRequirePass(requirepass)
		a.known, a.requirepass = true, requirepass
	}
	a.users.SetTokens(tokens)
}

func (a *Auth) userChanged(old, next *acl.User) {
	if old != nil && next != nil && old.LosesChannels(next) {
		a.options.OnChannelsLost(old.Name())
	}
}

// Anonymous returns the identity of an unauthenticated client; ok is false when the client must authenticate.
func (a *Auth) Anonymous() (id command.Identity, ok bool) {
	who, ok := a.users.Anonymous()
	return identity(who), ok
}

// PasswordRequired reports whether a client must authenticate.
func (a *Auth) PasswordRequired() bool {
	_, ok := a.users.Anonymous()
	return !ok
}

// Authenticate returns what a name and a password, or the token of a namespace, stand for.
func (a *Auth) Authenticate(user, password []byte) (id command.Identity, ok bool) {
	who, ok := a.users.Authenticate(string(user), password)
	return identity(who), ok
}

func identity(a acl.Identity) command.Identity {
	id := command.Identity{Namespace: a.Namespace, Admin: a.Admin, Account: a.Account}
	if id.Namespace == "" {
		id.Namespace = cf.DefaultNamespace
	}
	return id
}

// AuthFailed notes a failed authentication by a command.
func (a *Auth) AuthFailed(sess *command.Session, name string, user []byte) {
	a.failed(name, string(user), a.options.Describe(sess.ID), sess.Addr)
}

// AuthFailedOver notes a failed authentication of a client that is no connection of commands: what it has asked for,
// and where it comes from (host:port).
func (a *Auth) AuthFailedOver(what, user, addr string) { a.failed(what, user, "addr="+addr, addr) }

func (a *Auth) failed(object, user, client, addr string) {
	now := time.Now()
	a.users.Log().Add(acl.Event{Reason: acl.DeniedAuth, Object: object, Username: user, Client: client}, now)
	if write, suppressed := a.failures.Fail(now); write {
		a.options.Log.Warn("a client failed to authenticate", zap.String("addr", addr), zap.String("user", user),
			zap.Int64("not logged before", suppressed))
	}
}

// Failures returns how many authentications have failed.
func (a *Auth) Failures() int64 { return a.failures.Total() }
