package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// DefaultUser is the name of the user of connections that have not authenticated.
const DefaultUser = "default"

// Hash is the SHA-256 of a password.
type Hash [sha256.Size]byte

// User is a snapshot of a user. It is immutable and safe for concurrent use.
type User struct {
	name         string
	table        *Table
	allChannels  bool // for new selectors, see accounts.Options
	enabled      bool
	noPass       bool // any password is accepted
	skipSanitize bool
	namespace    string // "" = the default one
	passwords    []Hash
	selectors    []*selector // the first one holds the user's own permissions

	// The following fields are derived by compile.
	unrestricted, needKeys bool
}

// NewUser returns the initial user of ACL SETUSER: off, without passwords and permissions, but with all channels if
// allChannels is true (acl-pubsub-default allchannels).
func (t *Table) NewUser(name string, allChannels bool) *User {
	u := &User{name: name, table: t, allChannels: allChannels, selectors: []*selector{t.newSelector(allChannels)}}
	u.compile()
	return u
}

// Apply returns a copy of the user with rules applied. The error is a [*RuleError] or an [*UnmatchedError].
func (u *User) Apply(rules ...string) (*User, error) {
	merged, err := mergeSelectors(rules)
	if err != nil {
		return nil, err
	}
	c := u.clone()
	for _, rule := range merged {
		if err := c.apply(rule); err != nil {
			return nil, &RuleError{rule, err}
		}
	}
	c.compile()
	return c, nil
}

func (u *User) clone() *User {
	c := *u
	c.passwords = slices.Clone(u.passwords)
	c.selectors = make([]*selector, len(u.selectors))
	for i, s := range u.selectors {
		c.selectors[i] = s.clone()
	}
	return &c
}

// mergeSelectors joins the arguments that form a selector: from one that begins with ( to one that ends with ).
func mergeSelectors(args []string) ([]string, error) {
	var merged []string
	for i := 0; i < len(args); i++ {
		start := i
		if strings.HasPrefix(args[i], "(") {
			for !strings.HasSuffix(args[i], ")") {
				if i++; i == len(args) {
					return nil, &UnmatchedError{args[start]}
				}
			}
		}
		merged = append(merged, strings.Join(args[start:i+1], " "))
	}
	return merged, nil
}

// apply applies one rule to a user under construction.
func (u *User) apply(rule string) error {
	if rule == "" {
		return nil
	}
	switch lower(rule) {
	case "on":
		u.enabled = true
		return nil
	case "off":
		u.enabled = false
		return nil
	case "sanitize-payload":
		u.skipSanitize = false
		return nil
	case "skip-sanitize-payload":
		u.skipSanitize = true
		return nil
	case "nopass":
		u.noPass, u.passwords = true, nil
		return nil
	case "resetpass":
		u.noPass, u.passwords = false, nil
		return nil
	case "clearselectors":
		u.selectors = u.selectors[:1]
		return nil
	case "reset":
		*u = *u.table.NewUser(u.name, u.allChannels)
		return nil
	}
	switch rule[0] {
	case '>', '#':
		h, err := passwordOf(rule)
		if err != nil {
			return err
		}
		u.noPass = false
		if !slices.Contains(u.passwords, h) {
			u.passwords = append(u.passwords, h)
		}
		return nil
	case '<', '!':
		h, err := passwordOf(rule)
		if err != nil {
			return err
		}
		i := slices.Index(u.passwords, h)
		if i < 0 {
			return errNoPassword
		}
		u.passwords = slices.Delete(u.passwords, i, i+1)
		return nil
	case '(':
		if strings.HasSuffix(rule, ")") {
			return u.addSelector(rule[1 : len(rule)-1])
		}
	}
	if strings.HasPrefix(lower(rule), namespaceRule) {
		return u.setNamespace(rule[len(namespaceRule):])
	}
	return u.selectors[0].apply(u.table, rule)
}

// passwordOf returns the hash in >password, <password, #hash or !hash.
func passwordOf(rule string) (h Hash, err error) {
	text := rule[1:]
	if rule[0] == '>' || rule[0] == '<' {
		return sha256.Sum256([]byte(text)), nil
	}
	if len(text) != hex.EncodedLen(len(h)) || strings.ContainsAny(text, "ABCDEF") {
		return h, errHash
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return h, errHash
	}
	return h, nil
}

func (u *User) addSelector(text string) error {
	rules, ok := resp.SplitArgs([]byte(text), nil)
	if !ok {
		return errSyntax
	}
	s := u.table.newSelector(u.allChannels)
	for _, rule := range rules {
		if len(rule) == 0 {
			return errSyntax
		}
		if err := s.apply(u.table, string(rule)); err != nil {
			return err
		}
	}
	u.selectors = append(u.selectors, s)
	return nil
}

// namespaceRule is the prefix of the rule that puts a user into a namespace.
const namespaceRule = "namespace:"

// setNamespace validates a name by Kvrocks's rules: at most 255 bytes, and not 0x7f at the end.
func (u *User) setNamespace(name string) error {
	if len(name) > 255 || hasSpace(name) || strings.HasSuffix(name, "\x7f") {
		return errSyntax
	}
	u.namespace = name
	return nil
}

// compile computes the derived fields.
func (u *User) compile() {
	n := len(u.table.commands)
	u.unrestricted, u.needKeys = false, false
	for _, s := range u.selectors {
		u.unrestricted = u.unrestricted || s.allKeys && s.allChannels && s.allowed.full(n)
		u.needKeys = u.needKeys || !s.allKeys
	}
}

func (u *User) Name() string { return u.name }

// Enabled reports whether the user can authenticate.
func (u *User) Enabled() bool { return u.enabled }

// NoPass reports whether any password is accepted.
func (u *User) NoPass() bool { return u.noPass }

// Namespace returns the namespace of the rule namespace:, "" without one.
func (u *User) Namespace() string { return u.namespace }

// Fits compares a hash with all passwords, in a time that does not depend on which one matches.
func (u *User) Fits(h Hash) bool {
	var found int
	for i := range u.passwords {
		found |= subtle.ConstantTimeCompare(h[:], u.passwords[i][:])
	}
	return found == 1
}

// Flags returns the flags that ACL GETUSER shows.
func (u *User) Flags() []string {
	flags := []string{"off"}
	if u.enabled {
		flags[0] = "on"
	}
	if u.noPass {
		flags = append(flags, "nopass")
	}
	if u.skipSanitize {
		return append(flags, "skip-sanitize-payload")
	}
	return append(flags, "sanitize-payload")
}

// Passwords returns the SHA-256 of each password in hexadecimal, in the order in which the passwords were added.
func (u *User) Passwords() []string {
	list := make([]string, len(u.passwords))
	for i, h := range u.passwords {
		list[i] = hex.EncodeToString(h[:])
	}
	return list
}

// Permissions is a selector in the form of ACL GETUSER.
type Permissions struct {
	Commands, Keys, Channels string // rules separated by blanks
}

// Permissions returns the user's own permissions and then those of its selectors.
func (u *User) Permissions() []Permissions {
	list := make([]Permissions, len(u.selectors))
	for i, s := range u.selectors {
		list[i] = Permissions{s.commandText(), strings.Join(s.keyRules(), " "), strings.Join(s.channelRules(), " ")}
	}
	return list
}

// String returns the user's line in ACL LIST. It contains hashes of the passwords, never passwords.
func (u *User) String() string {
	var b strings.Builder
	b.WriteString("user " + u.name)
	for _, f := range u.Flags() {
		b.WriteString(" " + f)
	}
	if u.namespace != "" {
		b.WriteString(" " + namespaceRule + u.namespace)
	}
	for _, p := range u.Passwords() {
		b.WriteString(" #" + p)
	}
	for i, s := range u.selectors {
		rules := s.allRules()
		if i == 0 {
			b.WriteString(" " + strings.Join(rules, " "))
			continue
		}
		for k, rule := range rules {
			rules[k] = quote(rule)
		}
		b.WriteString(" (" + strings.Join(rules, " ") + ")")
	}
	return b.String()
}
