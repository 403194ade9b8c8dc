package conffile

import (
	"errors"
	"fmt"
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

// UserKey is the key of a user's line and the name of the TOML table.
const UserKey = "user"

var errUserTable = errors.New("is a table: [user], with NAME = \"RULES\"")

// IsUserKey reports whether a key, in any case, is that of a user.
func IsUserKey(key string) bool { return strings.EqualFold(key, UserKey) }

// ParseUser splits the value of a user's line.
func ParseUser(text string) (User, error) {
	words, ok := resp.SplitArgs([]byte(text), nil)
	if !ok || len(words) == 0 || len(words[0]) == 0 {
		return User{}, errors.New("wants the name of a user, then rules; quotes must be balanced")
	}
	u := User{Name: string(words[0])}
	for _, w := range words[1:] {
		u.Rules = append(u.Rules, string(w))
	}
	return u, nil
}

// line writes a line that ParseUser can read.
func (u User) line() string { return JoinArgs(append([]string{u.Name}, u.Rules...)) }

// JoinArgs writes words on a line so that they can be split again.
func JoinArgs(words []string) string {
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
		return JoinArgs(words), nil
	}
	return "", errors.New("wants a string or an array of strings")
}
