package conffile

import (
	"maps"
	"slices"

	"github.com/basaltdb/basalt/server/config/setting"
)

// Content is the new content of a file.
type Content struct {
	Values    []setting.Value   // by index in the table
	Tokens    map[string]string // token of each namespace
	Users     []User
	KeepUsers bool // the users of the file stay, and Users is ignored
}

// Rewrite returns a file with new content. Comments, unknown lines and the order stay. A changed value is replaced in
// its place, and a missing key is added when its value is not the default.
func (f Format) Rewrite(old []byte, c *Content) ([]byte, error) {
	users := &userPlaces{keep: c.KeepUsers, all: c.Users, done: map[string]bool{}}
	if f == TOML {
		return rewriteTOML(old, c, users)
	}
	return rewriteConf(old, c, users), nil
}

var (
	bind       = setting.Index("bind")
	unixSocket = setting.Index("unixsocket")
)

// missing returns the settings that a file lacks and must have, because their values differ from the defaults of such
// a file. Settings that only Redis has are not written.
func (c *Content) missing(written map[int]bool) []int {
	var list []int
	for i, s := range setting.Table {
		def, _ := s.Parse("", s.Default)
		if i == bind && c.Values[unixSocket].Text != "" {
			def = setting.Value{}
		}
		if !written[i] && s.Kind != setting.Multi && !s.Redis && c.Values[i] != def {
			list = append(list, i)
		}
	}
	return list
}

// inFile reports whether a string in a file means a value. Each string is compared as if it were alone.
func inFile(s *setting.Setting, text string, v setting.Value) bool {
	have, err := s.Parse(s.Default, text)
	return err == nil && have == v
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// userPlaces finds the places of the users in a file.
type userPlaces struct {
	keep bool // keep the users of the file
	all  []User
	done map[string]bool
}

// replace decides about a user's place in the file: it is removed, or stays unchanged, or u takes it.
func (f *userPlaces) replace(have User) (u User, stays, goes bool) {
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
func (f *userPlaces) rest() (list []User) {
	for _, u := range f.all {
		if !f.done[u.Name] {
			list = append(list, u)
		}
	}
	return list
}
