package acl

import (
	"fmt"
	"strings"
)

// ID is the number of a command or subcommand in a [Table].
type ID int

// Command describes a command to the [Table].
type Command struct {
	// Name is in lower case; a subcommand's has its container's before it: "config|get".
	Name string
	// Categories are the names of its categories, without the @.
	Categories []string
	// NoAuth marks the commands that every connection may run, as AUTH.
	NoAuth bool
}

// Matcher is a compiled glob pattern.
type Matcher interface {
	Match(subject []byte) bool
}

// Table is the commands that rules can name, under their original names: renaming a command does not change the
// rules. It does not change; any number of goroutines may use it.
type Table struct {
	commands []Command
	parent   []ID   // of a subcommand, -1 of others
	subs     [][]ID // of a container
	byName   map[string]ID

	categories []string // Redis's and then those that it does not have
	byCategory map[string][]ID
	open       bitmap // commands that are NoAuth
	glob       func(pattern []byte) Matcher
}

// redisCategories are those of Redis 7, in its order.
var redisCategories = []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
	"hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection",
	"transaction", "scripting"}

// NewTable makes a table; the index of a command is its ID. Glob compiles patterns of keys and channels. The error
// says that names are not unique or that a container is missing.
func NewTable(commands []Command, glob func(pattern []byte) Matcher) (*Table, error) {
	t := &Table{
		commands: commands, parent: make([]ID, len(commands)), subs: make([][]ID, len(commands)),
		byName: make(map[string]ID, len(commands)), byCategory: map[string][]ID{},
		open: newBitmap(len(commands)), glob: glob,
	}
	for _, c := range redisCategories {
		t.categories = append(t.categories, c)
		t.byCategory[c] = nil
	}
	for i, c := range commands {
		if _, twice := t.byName[c.Name]; twice {
			return nil, fmt.Errorf("command %q is there twice", c.Name)
		}
		t.byName[c.Name] = ID(i)
		if c.NoAuth {
			t.open.set(ID(i))
		}
		for _, cat := range c.Categories {
			if _, known := t.byCategory[cat]; !known {
				t.categories = append(t.categories, cat)
			}
			t.byCategory[cat] = append(t.byCategory[cat], ID(i))
		}
	}
	for i, c := range commands {
		t.parent[i] = -1
		if container, _, isSub := strings.Cut(c.Name, "|"); isSub {
			p, ok := t.byName[container]
			if !ok {
				return nil, fmt.Errorf("command %q has no container", c.Name)
			}
			t.parent[i] = p
			t.subs[p] = append(t.subs[p], ID(i))
		}
	}
	return t, nil
}

// Categories returns the names of the categories, without the @: those of Redis in its order, then others. The
// caller must not change them.
func (t *Table) Categories() []string { return t.categories }

// InCategory returns the names of the commands of a category, given in any case without the @. Ok is false when
// there is no such category.
func (t *Table) InCategory(category string) (names []string, ok bool) {
	ids, ok := t.byCategory[lower(category)]
	for _, id := range ids {
		names = append(names, t.commands[id].Name)
	}
	return names, ok
}

// lookup finds a command by its name in any case.
func (t *Table) lookup(name string) (ID, bool) {
	id, ok := t.byName[lower(name)]
	return id, ok
}

// lower turns ASCII letters, and no others, to lower case: names are bytes.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// bitmap is a set of IDs.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

// has reports whether id is in the set. What is not in the table is in no set.
func (b bitmap) has(id ID) bool {
	word := uint(id) >> 6
	return word < uint(len(b)) && b[word]&(1<<(uint(id)&63)) != 0
}

func (b bitmap) set(id ID)   { b[id>>6] |= 1 << (id & 63) }
func (b bitmap) clear(id ID) { b[id>>6] &^= 1 << (id & 63) }

// fill makes it all IDs below n, or none.
func (b bitmap) fill(n int, all bool) {
	clear(b)
	if all {
		for id := range ID(n) {
			b.set(id)
		}
	}
}

// full reports whether all IDs below n are in the set.
func (b bitmap) full(n int) bool {
	for id := range ID(n) {
		if !b.has(id) {
			return false
		}
	}
	return true
}
