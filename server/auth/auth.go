// Package auth decides which clients may connect: it knows the users of the ACL, the password of the default user,
// and the tokens of namespaces.
package auth

import (
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/command"
)

// Settings are the passwords of the configuration. Changes of namespaces are persistent.
type Settings interface {
	// RequirePass returns the password of the default user, "" = none.
	RequirePass() string
	// CertificateUser returns what in the certificate of a client names its user: CN, URI or off.
	CertificateUser() string
	// Namespaces returns the token of each namespace except the default one.
	Namespaces() map[string]string
	AddNamespace(name, token string) error
	SetNamespace(name, token string) error
	DeleteNamespace(name string) error
}

// Options are the sources of users and passwords, and callbacks.
type Options struct {
	Settings Settings
	Log      *zap.Logger
	// ACL holds the options of the ACL except OnChange and Warn.
	ACL accounts.Options
	// FromMaster reports whether the namespaces are a master's, so that they cannot be changed here.
	FromMaster func() bool
	// OnChannelsLost is called with a user that may have lost access to channels: its clients may be subscribed to them.
	OnChannelsLost func(user *acl.User)
	// Describe returns the CLIENT INFO line of a client, for ACL LOG.
	Describe func(id int64) string
}

// Auth holds the users of the ACL, among them default with requirepass as its password, and the tokens of the
// namespaces. It implements command.Users. It is safe for concurrent use.
type Auth struct {
	options  Options
	users    *accounts.Store
	failures *accounts.FailureLimiter

	change sync.Mutex // held from reading the passwords until they are in force
	// The applied values of the settings. ACL SETUSER may have changed the default user since; only a new requirepass
	// overrides that.
	known       bool
	requirepass string
}

// failuresLogged is the max number of failed authentications logged in a second.
const failuresLogged = 5

// New returns the users that exist without declaration. Refresh puts the passwords in force.
func New(o Options) *Auth {
	a := &Auth{options: o, failures: accounts.NewFailureLimiter(failuresLogged)}
	o.ACL.OnChange = a.userChanged
	o.ACL.Warn = func(text string) { o.Log.Warn(text) }
	a.users = accounts.NewStore(command.ACLTable(), o.ACL)
	return a
}

// Declare declares the users of the configuration, or loads the aclfile if that is set.
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

// HasFile reports whether the users are in an aclfile.
func (a *Auth) HasFile() bool { return a.options.ACL.File != "" }

// ACL returns the users and their permissions.
func (a *Auth) ACL() *accounts.Store { return a.users }

// Refresh applies the passwords of the settings.
func (a *Auth) Refresh() {
	a.change.Lock()
	defer a.change.Unlock()
	a.set(a.options.Settings.RequirePass(), a.options.Settings.Namespaces())
}

// set applies passwords; tokens is indexed by namespace. change must be held.
func (a *Auth) set(requirepass string, tokens map[string]string) {
	if !a.known || requirepass != a.requirepass {
		a.users.SetRequirePass(requirepass)
		a.known, a.requirepass = true, requirepass
	}
	a.users.SetTokens(tokens)
}

func (a *Auth) userChanged(old, next *acl.User) {
	if old != nil && next != nil && old.LosesChannels(next) {
		a.options.OnChannelsLost(next)
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

// Authenticate returns the identity for a name and a password, or for the token of a namespace.
func (a *Auth) Authenticate(user, password []byte) (id command.Identity, ok bool) {
	who, ok := a.users.Authenticate(string(user), password)
	return identity(who), ok
}

// ByCertificate returns the identity of the user that the verified certificate of a client names, nil = it has none. A
// name without an enabled user is recorded as a failed authentication.
func (a *Auth) ByCertificate(sess *command.Session, cert *x509.Certificate) (id command.Identity, ok bool) {
	if cert == nil {
		return id, false
	}
	names := []string{cert.Subject.CommonName}
	switch a.options.Settings.CertificateUser() {
	case "CN":
	case "URI":
		names = names[:0]
		for _, uri := range cert.URIs {
			names = append(names, uri.String())
		}
	default:
		return id, false
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if who, ok := a.users.Named(name); ok {
			return identity(who), true
		}
		a.denied(accounts.Event{Reason: acl.DeniedCertificate, Username: name, Client: a.options.Describe(sess.ID)},
			sess.Addr)
	}
	return id, false
}

func identity(a accounts.Identity) command.Identity {
	id := command.Identity{Namespace: a.Namespace, Admin: a.Admin, Account: a.Account}
	if id.Namespace == "" {
		id.Namespace = cf.DefaultNamespace
	}
	return id
}

// AuthFailed records a failed authentication by a command.
func (a *Auth) AuthFailed(sess *command.Session, name string, user []byte) {
	a.failed(name, string(user), a.options.Describe(sess.ID), sess.Addr)
}

// AuthFailedOver notes a failed authentication outside of a session, such as over HTTP: what was asked for, and from
// which address (host:port).
func (a *Auth) AuthFailedOver(what, user, addr string) { a.failed(what, user, "addr="+addr, addr) }

func (a *Auth) failed(object, user, client, addr string) {
	a.denied(accounts.Event{Reason: acl.DeniedAuth, Object: object, Username: user, Client: client}, addr)
}

// denied records a failed authentication in ACL LOG, and in the server's log unless that has enough of them.
func (a *Auth) denied(e accounts.Event, addr string) {
	now := time.Now()
	a.users.Log().Add(e, now)
	if write, suppressed := a.failures.Fail(now); write {
		a.options.Log.Warn("a client failed to authenticate", zap.String("addr", addr), zap.String("user", e.Username),
			zap.Int64("not logged before", suppressed))
	}
}
