package accounts

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/server/acl"
)

// Account is the identity as which a connection has authenticated. It points at the current snapshot of a user.
type Account struct{ user atomic.Pointer[acl.User] }

// User returns the current snapshot. That of a deleted user has no permissions.
func (a *Account) User() *acl.User { return a.user.Load() }

func newAccount(u *acl.User) *Account {
	a := &Account{}
	a.user.Store(u)
	return a
}

// Identity is the result of an authentication.
type Identity struct {
	Account   *Account
	Namespace string // "" = the default one
	Admin     bool   // the user is in the default namespace
}

// Options of a [Store].
type Options struct {
	// File is the path of the aclfile, "" = none.
	File string
	// AllChannels gives new users and selectors access to all channels: acl-pubsub-default allchannels.
	AllChannels bool
	// LogEntries is the max length of the log, acllog-max-len; 0 = 128.
	LogEntries int
	// OnChange is called after a user was created (old is nil), changed, or deleted (next is nil). Calls do not overlap
	// and have the order of the changes. OnChange must not change the Store.
	OnChange func(old, next *acl.User)
	// Warn writes a line to the server's log; nil = warnings are lost.
	Warn func(text string)
}

// Store holds the users of a server and the tokens of its namespaces. Its methods are safe for concurrent use.
type Store struct {
	table *acl.Table
	opts  Options
	log   *Log

	changing sync.Mutex // held while users are changed, from reading them to OnChange

	mu       sync.RWMutex // guards the following fields; held briefly
	accounts map[string]*Account
	tokens   []token
	tenant   *Account // of all who have authenticated by a token
}

type token struct {
	namespace string
	hash      acl.Hash
}

// NewStore returns a store with the user default, who may do everything without a password.
func NewStore(t *acl.Table, opts Options) *Store {
	s := &Store{table: t, opts: opts, log: &Log{max: opts.LogEntries}, accounts: map[string]*Account{}}
	if opts.LogEntries <= 0 {
		s.log.max = defaultLogEntries
	}
	u := s.newDefault()
	s.accounts[acl.DefaultUser], s.tenant = newAccount(u), newAccount(u)
	return s
}

func (s *Store) newDefault() *acl.User {
	u, err := s.table.NewUser(acl.DefaultUser, s.opts.AllChannels).Apply("allkeys", "allchannels", "allcommands", "on",
		"nopass")
	if err != nil {
		panic("accounts: " + err.Error()) // these rules use only names that exist
	}
	return u
}

// Table returns the table of commands.
func (s *Store) Table() *acl.Table { return s.table }

// Log returns the log of denied actions.
func (s *Store) Log() *Log { return s.log }

// User returns the snapshot of a user, nil if the user does not exist.
func (s *Store) User(name string) *acl.User {
	if a := s.account(name); a != nil {
		return a.User()
	}
	return nil
}

func (s *Store) account(name string) *Account {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.accounts[name]
}

// Users returns all users sorted by name.
func (s *Store) Users() []*acl.User {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var users []*acl.User
	for _, name := range slices.Sorted(maps.Keys(s.accounts)) {
		users = append(users, s.accounts[name].User())
	}
	return users
}

// SetUser creates a user or changes it by rules: by all of them, or by none if one is refused. The error is
// acl.ErrUserName, a [*acl.RuleError] or an [*acl.UnmatchedError].
func (s *Store) SetUser(name string, rules ...string) error {
	if !acl.ValidName(name) {
		return acl.ErrUserName
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	old := s.User(name)
	from := old
	if from == nil {
		from = s.table.NewUser(name, s.opts.AllChannels)
	}
	next, err := from.Apply(rules...)
	if err != nil {
		return err
	}
	s.put(old, next)
	return nil
}

// put replaces the snapshot of a user by next. changing must be held.
func (s *Store) put(old, next *acl.User) {
	s.mu.Lock()
	if a := s.accounts[next.Name()]; a != nil {
		a.user.Store(next)
	} else {
		s.accounts[next.Name()] = newAccount(next)
	}
	s.mu.Unlock()
	s.changed(old, next)
}

func (s *Store) changed(old, next *acl.User) {
	if s.opts.OnChange != nil {
		s.opts.OnChange(old, next)
	}
}

// DeleteUsers deletes users and returns the names of those that existed. Their connections lose all permissions, and
// the caller should close them. If one is the default user, it deletes none and returns ErrDefaultUser.
func (s *Store) DeleteUsers(names ...string) (deleted []string, err error) {
	if slices.Contains(names, acl.DefaultUser) {
		return nil, ErrDefaultUser
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, name := range names {
		s.mu.Lock()
		a := s.accounts[name]
		delete(s.accounts, name)
		s.mu.Unlock()
		if a != nil {
			s.retire(a)
			deleted = append(deleted, name)
		}
	}
	return deleted, nil
}

// retire removes all permissions from the connections of a removed account.
func (s *Store) retire(a *Account) {
	old := a.user.Swap(s.table.NewUser(a.User().Name(), false))
	s.changed(old, nil)
}

// SetRequirePass replaces the passwords of the default user by one; an empty one makes the user nopass.
func (s *Store) SetRequirePass(password string) {
	rules := []string{"resetpass", ">" + password}
	if password == "" {
		rules[1] = "nopass"
	}
	if err := s.SetUser(acl.DefaultUser, rules...); err != nil {
		panic("accounts: " + err.Error()) // these rules are always valid
	}
}

// SetTokens replaces the tokens, indexed by namespace.
func (s *Store) SetTokens(tokens map[string]string) {
	var list []token
	for namespace, text := range tokens {
		list = append(list, token{namespace, sha256.Sum256([]byte(text))})
	}
	s.mu.Lock()
	s.tokens = list
	s.mu.Unlock()
}

// Anonymous returns the identity of a connection before it authenticates; ok is false if it must authenticate.
func (s *Store) Anonymous() (id Identity, ok bool) {
	a := s.account(acl.DefaultUser)
	if u := a.User(); !u.Enabled() || !u.NoPass() {
		return Identity{}, false
	}
	return identity(a), true
}

func identity(a *Account) Identity {
	ns := a.User().Namespace()
	return Identity{Account: a, Namespace: ns, Admin: ns == ""}
}

// Named returns the identity of an enabled user whose password need not be checked.
func (s *Store) Named(name string) (id Identity, ok bool) {
	a := s.account(name)
	if a == nil || !a.User().Enabled() {
		return Identity{}, false
	}
	return identity(a), true
}

// Authenticate returns the identity for a name and a password, or for a namespace's token with the name default. Its
// time does not depend on which password matches, and it hashes the password even if the user does not exist.
func (s *Store) Authenticate(name string, password []byte) (id Identity, ok bool) {
	h := acl.Hash(sha256.Sum256(password))
	s.mu.RLock()
	a, tokens, tenant := s.accounts[name], s.tokens, s.tenant
	s.mu.RUnlock()
	var tokenOf *token
	if name == acl.DefaultUser {
		for i := range tokens {
			if subtle.ConstantTimeCompare(h[:], tokens[i].hash[:]) == 1 {
				tokenOf = &tokens[i]
			}
		}
	}
	if a == nil {
		return Identity{}, false
	}
	u := a.User()
	fits := u.Fits(h)
	switch {
	case fits && u.Enabled():
		return identity(a), true
	case tokenOf != nil:
		return Identity{Account: tenant, Namespace: tokenOf.namespace}, true
	case u.NoPass() && u.Enabled():
		return identity(a), true
	}
	return Identity{}, false
}

// Declare creates the users of a configuration file, replacing existing ones such as default.
func (s *Store) Declare(users []*acl.User) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, u := range users {
		s.put(s.User(u.Name()), u)
	}
}

// DefaultIs reports whether the default user equals the initial one with the given requirepass.
func (s *Store) DefaultIs(requirepass string) bool {
	fresh := NewStore(s.table, Options{AllChannels: s.opts.AllChannels})
	fresh.SetRequirePass(requirepass)
	return s.User(acl.DefaultUser).String() == fresh.User(acl.DefaultUser).String()
}

// Lines returns the lines of all users, sorted by name.
func (s *Store) Lines() []string {
	var lines []string
	for _, u := range s.Users() {
		lines = append(lines, u.String())
	}
	return lines
}

// Load replaces all users by those of the aclfile; if the file does not have the default user, it becomes the initial
// one. gone are the names of users that are missing in the file or differ: their connections lose all permissions, and
// the caller should close them. Connections of the default user and of unchanged users continue. On an error nothing
// changes; the error is ErrNoFile or lists all mistakes in the file.
func (s *Store) Load() (gone []string, err error) {
	if s.opts.File == "" {
		return nil, ErrNoFile
	}
	data, err := os.ReadFile(s.opts.File)
	if err != nil {
		return nil, fmt.Errorf("Error loading ACLs, opening file '%s': %s", s.opts.File, reasonOf(err))
	}
	users, err := s.table.ParseFile(s.opts.File, data, s.opts.AllChannels)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(users, func(u *acl.User) bool { return u.Name() == acl.DefaultUser }) {
		users = append(users, s.newDefault())
	}
	s.changing.Lock()
	defer s.changing.Unlock()

	s.mu.Lock()
	old := s.accounts
	s.accounts = make(map[string]*Account, len(users))
	var changes [][2]*acl.User
	for _, u := range users {
		a := old[u.Name()]
		switch {
		case a == nil:
			changes = append(changes, [2]*acl.User{nil, u})
			a = newAccount(u)
		case a.User().String() == u.String():
			delete(old, u.Name())
		case u.Name() == acl.DefaultUser:
			changes = append(changes, [2]*acl.User{a.user.Swap(u), u})
			delete(old, u.Name())
		default:
			changes = append(changes, [2]*acl.User{nil, u})
			a = newAccount(u)
		}
		s.accounts[u.Name()] = a
	}
	s.mu.Unlock()

	for _, name := range slices.Sorted(maps.Keys(old)) {
		s.retire(old[name])
		gone = append(gone, name)
	}
	for _, c := range changes {
		s.changed(c[0], c[1])
	}
	return gone, nil
}

// reasonOf returns the system's error text in the spelling of C's strerror.
func reasonOf(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	text := []rune(err.Error())
	if len(text) > 0 {
		text[0] = unicode.ToUpper(text[0])
	}
	return string(text)
}

// Save writes all users to the aclfile. The new file is synced before it replaces the old one; a symbolic link remains
// one. The error is ErrNoFile or ErrSave; Warn gets the details.
func (s *Store) Save() error {
	if s.opts.File == "" {
		return ErrNoFile
	}
	if err := durable.Replace(s.opts.File, acl.Format(s.Users()), 0o600); err != nil {
		if s.opts.Warn != nil {
			s.opts.Warn("saving the aclfile: " + err.Error())
		}
		return ErrSave
	}
	return nil
}
