package acl

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
)

// Account is what a connection has authenticated as. It points at the present snapshot of a user.
type Account struct{ user atomic.Pointer[User] }

// User returns the present snapshot. That of a user who was deleted may run nothing.
func (a *Account) User() *User { return a.user.Load() }

func newAccount(u *User) *Account {
	a := &Account{}
	a.user.Store(u)
	return a
}

// Identity is what a connection is after it has authenticated.
type Identity struct {
	Account   *Account
	Namespace string // "" = the default one
	Admin     bool   // the namespace is the default one
}

// Options of a [Store].
type Options struct {
	// File is the path of the aclfile, "" = none.
	File string
	// AllChannels lets new users and selectors start with all channels: acl-pubsub-default allchannels.
	AllChannels bool
	// LogEntries is the length of the log, acllog-max-len; 0 = 128.
	LogEntries int
	// OnChange is called after a user was made (old is nil), changed, or deleted (next is nil). Calls do not overlap
	// and come in the order of the changes; it must not change the Store.
	OnChange func(old, next *User)
	// Warn writes a line to the server's log; nil = it is lost.
	Warn func(text string)
}

// Store is the users of a server and the tokens of its namespaces. Its methods may be called by several goroutines.
type Store struct {
	table *Table
	opts  Options
	log   *Log

	changing sync.Mutex // held by those who change users, from reading them to OnChange

	mu       sync.RWMutex // guards what follows; held shortly
	accounts map[string]*Account
	tokens   []token
	tenant   *Account // of all who have authenticated by a token
}

type token struct {
	namespace string
	hash      hash
}

// NewStore makes a store with the user default, who may do everything without a password.
func NewStore(t *Table, opts Options) *Store {
	s := &Store{table: t, opts: opts, log: newLog(opts.LogEntries), accounts: map[string]*Account{}}
	u := s.newDefault()
	s.accounts[DefaultUser], s.tenant = newAccount(u), newAccount(u)
	return s
}

func (s *Store) newDefault() *User {
	u, err := s.table.NewUser(DefaultUser, s.opts.AllChannels).Apply("allkeys", "allchannels", "allcommands", "on",
		"nopass")
	if err != nil {
		panic("acl: " + err.Error()) // these rules name nothing that could be missing
	}
	return u
}

// Table returns the commands.
func (s *Store) Table() *Table { return s.table }

// Log returns the log of what was denied.
func (s *Store) Log() *Log { return s.log }

// User returns the snapshot of a user, nil when there is none.
func (s *Store) User(name string) *User {
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
func (s *Store) Users() []*User {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var users []*User
	for _, name := range slices.Sorted(maps.Keys(s.accounts)) {
		users = append(users, s.accounts[name].User())
	}
	return users
}

// SetUser makes a user or changes it by rules: all, or none when one is refused. The error is ErrUserName, a
// [*RuleError] or an [*UnmatchedError].
func (s *Store) SetUser(name string, rules ...string) error {
	if hasSpace(name) {
		return ErrUserName
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

// put makes next the snapshot of its user. The caller holds changing.
func (s *Store) put(old, next *User) {
	s.mu.Lock()
	if a := s.accounts[next.name]; a != nil {
		a.user.Store(next)
	} else {
		s.accounts[next.name] = newAccount(next)
	}
	s.mu.Unlock()
	s.changed(old, next)
}

func (s *Store) changed(old, next *User) {
	if s.opts.OnChange != nil {
		s.opts.OnChange(old, next)
	}
}

// DeleteUsers deletes users and returns the names of those that there were. Their connections can run nothing any
// more and are to be closed. ErrDefaultUser when one is the default user; then none is deleted.
func (s *Store) DeleteUsers(names ...string) (deleted []string, err error) {
	if slices.Contains(names, DefaultUser) {
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

// retire takes all permissions from the connections of an account that is not in accounts any more.
func (s *Store) retire(a *Account) {
	old := a.user.Swap(s.table.NewUser(a.User().name, false))
	s.changed(old, nil)
}

// SetRequirePass gives the default user a password instead of those that it has; without one it is nopass.
func (s *Store) SetRequirePass(password string) {
	rules := []string{"resetpass", ">" + password}
	if password == "" {
		rules[1] = "nopass"
	}
	if err := s.SetUser(DefaultUser, rules...); err != nil {
		panic("acl: " + err.Error()) // these rules cannot be refused
	}
}

// SetTokens replaces the tokens; they are by namespace.
func (s *Store) SetTokens(tokens map[string]string) {
	var list []token
	for namespace, text := range tokens {
		list = append(list, token{namespace, sha256.Sum256([]byte(text))})
	}
	s.mu.Lock()
	s.tokens = list
	s.mu.Unlock()
}

// Anonymous returns what a connection is before it authenticates; ok is false when it must authenticate.
func (s *Store) Anonymous() (id Identity, ok bool) {
	a := s.account(DefaultUser)
	if u := a.User(); !u.enabled || !u.noPass {
		return Identity{}, false
	}
	return identity(a), true
}

func identity(a *Account) Identity {
	ns := a.User().namespace
	return Identity{Account: a, Namespace: ns, Admin: ns == ""}
}

// Authenticate returns what a name and a password, or the token of a namespace with the name default, stand for. It
// takes the same time whichever password fits, and hashes the password even when there is no such user.
func (s *Store) Authenticate(name string, password []byte) (id Identity, ok bool) {
	h := hash(sha256.Sum256(password))
	s.mu.RLock()
	a, tokens, tenant := s.accounts[name], s.tokens, s.tenant
	s.mu.RUnlock()
	var tokenOf *token
	if name == DefaultUser {
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
	fits := u.fits(h)
	switch {
	case fits && u.enabled:
		return identity(a), true
	case tokenOf != nil:
		return Identity{Account: tenant, Namespace: tokenOf.namespace}, true
	case u.noPass && u.enabled:
		return identity(a), true
	}
	return Identity{}, false
}

// Declare makes users of a configuration file, or replaces those that are there already, as default.
func (s *Store) Declare(users []*User) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, u := range users {
		s.put(s.User(u.name), u)
	}
}

// DefaultIs reports whether the default user is what it is at the start with that password for requirepass.
func (s *Store) DefaultIs(requirepass string) bool {
	fresh := NewStore(s.table, Options{AllChannels: s.opts.AllChannels})
	fresh.SetRequirePass(requirepass)
	return s.User(DefaultUser).String() == fresh.User(DefaultUser).String()
}

// Lines returns the line of each user sorted by name.
func (s *Store) Lines() []string {
	var lines []string
	for _, u := range s.Users() {
		lines = append(lines, u.String())
	}
	return lines
}

// Load replaces all users by those of the aclfile; the default user is the initial one when the file does not have
// it. Gone are the names of the users that are not in the file or differ: their connections can run nothing any more
// and are to be closed. Those of the default user and of users that stay as they were go on. With an error nothing
// is changed; it is ErrNoFile or describes everything that is wrong in the file.
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
	if !slices.ContainsFunc(users, func(u *User) bool { return u.name == DefaultUser }) {
		users = append(users, s.newDefault())
	}
	s.changing.Lock()
	defer s.changing.Unlock()

	s.mu.Lock()
	old := s.accounts
	s.accounts = make(map[string]*Account, len(users))
	var changes [][2]*User
	for _, u := range users {
		a := old[u.name]
		switch {
		case a == nil:
			changes = append(changes, [2]*User{nil, u})
			a = newAccount(u)
		case a.User().String() == u.String():
			delete(old, u.name)
		case u.name == DefaultUser:
			changes = append(changes, [2]*User{a.user.Swap(u), u})
			delete(old, u.name)
		default:
			changes = append(changes, [2]*User{nil, u})
			a = newAccount(u)
		}
		s.accounts[u.name] = a
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

// reasonOf is what the system says, as C's strerror spells it.
func reasonOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	text := []rune(err.Error())
	if len(text) > 0 {
		text[0] = unicode.ToUpper(text[0])
	}
	return string(text)
}

// Save writes all users to the aclfile. The new file is complete on disk before it takes the old one's name; a
// symbolic link stays one. The error is ErrNoFile or ErrSave; Warn is told more.
func (s *Store) Save() error {
	if s.opts.File == "" {
		return ErrNoFile
	}
	if err := replaceFile(s.opts.File, Format(s.Users())); err != nil {
		if s.opts.Warn != nil {
			s.opts.Warn("saving the aclfile: " + err.Error())
		}
		return ErrSave
	}
	return nil
}
