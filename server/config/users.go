package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// Users of the ACL are declared in the file as in a redis.conf, one line per user with words split as in a command
// line:
//
//	user alice on >secret "~some key" +@all
//
// in a kvrocks.toml in the table [user], as a string that is split in the same way or as an array of rules:
//
//	[user]
//	alice = 'on >secret "~some key" +@all'
//	bob = ["on", ">secret", "~some key", "+@all"]
//
// The server knows the meaning of the rules.

// User is a user of the ACL as a file declares it.
type User struct {
	Name  string
	Rules []string
}

// userKey is the key of a user's line and the name of the TOML table.
const userKey = "user"

var (
	errUserForm     = errors.New("wants the name of a user, then rules; quotes must be balanced")
	errUserTable    = errors.New("is a table: [user], with NAME = \"RULES\"")
	errUserTwice    = replyError("Duplicate user found. A user can only be defined once in config files")
	errUsersAndFile = errors.New("users are declared with user and by an aclfile; use one of them only")
)

func isUserKey(key string) bool { return strings.EqualFold(key, userKey) }

// parseUser splits the value of a user's line.
func parseUser(text string) (User, error) {
	words, ok := resp.SplitArgs([]byte(text), nil)
	if !ok || len(words) == 0 || len(words[0]) == 0 {
		return User{}, errUserForm
	}
	u := User{Name: string(words[0])}
	for _, w := range words[1:] {
		u.Rules = append(u.Rules, string(w))
	}
	return u, nil
}

// line writes a line that parseUser can read.
func (u User) line() string { return joinArgs(append([]string{u.Name}, u.Rules...)) }

// joinArgs writes words on a line so that they can be split again.
func joinArgs(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteArg(w)
	}
	return strings.Join(quoted, " ")
}

// quoteArg writes a word bare where that works, else in quotes.
func quoteArg(word string) string {
	plain := word != ""
	for i := 0; i < len(word) && plain; i++ {
		plain = word[i] > ' ' && word[i] < 0x7f && !strings.ContainsRune(`"'\`, rune(word[i]))
	}
	if plain {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(word) {
		switch c := word[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlUser turns an entry of the TOML table into the value of a user's line.
func tomlUser(name string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return quoteArg(name) + " " + v, nil
	case []any:
		words := []string{name}
		for _, w := range v {
			word, ok := w.(string)
			if !ok {
				return "", errors.New("wants strings in its array")
			}
			words = append(words, word)
		}
		return joinArgs(words), nil
	}
	return "", errors.New("wants a string or an array of strings")
}

// addUser adds a user's line; at is its position.
func (l *loader) addUser(text string, at Error) error {
	u, err := parseUser(text)
	if err == nil && slices.ContainsFunc(l.c.users, func(o User) bool { return o.Name == u.Name }) {
		err = errUserTwice
	}
	if err != nil {
		at.Err = err
		return &at
	}
	l.c.users, l.c.userAt = append(l.c.users, u), append(l.c.userAt, at)
	return nil
}

// Users returns the users that were declared at the start, in their order.
func (c *Config) Users() []User { return c.users }

// UserError gives an error the position of the declaration of the i-th of [Config.Users].
func (c *Config) UserError(i int, err error) error {
	e := c.userAt[i]
	e.Err = err
	return &e
}

// KeepUsers sets the users that [Config.Rewrite] writes to the file: the users that present returns, sorted by name.
// Without KeepUsers the users of the file stay. present is called with the settings locked and must not read them.
func (c *Config) KeepUsers(present func(requirePass string) []User) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.presentUsers = present
}

// fileUsers are the users to write to a file.
type fileUsers struct {
	keep bool // keep the users of the file
	all  []User
	done map[string]bool
}

func (c *Config) usersForFile(st *state) *fileUsers {
	f := &fileUsers{keep: c.presentUsers == nil, done: map[string]bool{}}
	if !f.keep {
		f.all = c.presentUsers(st.values[requirePass].text)
	}
	return f
}

// replace decides about a user's place in the file: it is removed, or stays unchanged, or u takes it.
func (f *fileUsers) replace(have User) (u User, stays, goes bool) {
	if f.keep {
		return have, true, false
	}
	i := slices.IndexFunc(f.all, func(u User) bool { return u.Name == have.Name })
	if i < 0 || f.done[have.Name] {
		return User{}, false, true
	}
	f.done[have.Name] = true
	return f.all[i], slices.Equal(f.all[i].Rules, have.Rules), false
}

// rest returns the users without a place in the file.
func (f *fileUsers) rest() (list []User) {
	for _, u := range f.all {
		if !f.done[u.Name] {
			list = append(list, u)
		}
	}
	return list
}

// check checks the users read back from a file.
func (f *fileUsers) check(have []User) error {
	if f.keep {
		return nil
	}
	same := len(have) == len(f.all)
	for _, u := range f.all {
		same = same && slices.ContainsFunc(have, func(h User) bool {
			return h.Name == u.Name &&
				slices.Equal(h.Rules, u.Rules)
		})
	}
	if !same {
		return errors.New("a user cannot be written")
	}
	return nil
}
