package acl

import (
	"fmt"
	"strings"
)

// ID is the number of a command or subcommand in a [Table].
type ID int

// Command describes a command for the [Table].
type Command struct {
	// Name is in lower case; a subcommand's name begins with its container's: "config|get".
	Name string
	// Categories are the names of its categories, without @.
	Categories []string
	// NoAuth marks commands that every connection may run, such as AUTH.
	NoAuth bool
}

// Matcher is a compiled glob pattern.
type Matcher interface {
	Match(subject []byte) bool
}

// Table holds the commands that rules can name, under their original names: renaming a command does not affect rules.
// It is immutable and safe for concurrent use.
type Table struct {
	commands []Command
	parent   []ID   // of a subcommand; -1 for other commands
	subs     [][]ID // of a container
	byName   map[string]ID

	categories []string // Redis's, followed by additional ones
	byCategory map[string][]ID
	open       bitmap // commands with NoAuth
	glob       func(pattern []byte) Matcher
}

// redisCategories are the categories of Redis 7, in its order.
var redisCategories = []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
	"hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection",
	"transaction", "scripting"}

// NewTable returns a table; the index of a command is its ID. glob compiles patterns of keys and channels. Repeated
// names and missing containers are errors.
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

// Categories returns the names of the categories, without @: Redis's in its order, then additional ones. The slice is
// read-only.
func (t *Table) Categories() []string { return t.categories }

// InCategory returns the names of the commands in a category, given in any case and without @. ok is false if the
// category does not exist.
func (t *Table) InCategory(category string) (names []string, ok bool) {
	ids, ok := t.byCategory[lower(category)]
	for _, id := range ids {
		names = append(names, t.commands[id].Name)
	}
	return names, ok
}

// lookup finds a command by name, ignoring case.
func (t *Table) lookup(name string) (ID, bool) {
	id, ok := t.byName[lower(name)]
	return id, ok
}

// lower converts only ASCII letters to lower case: names are bytes.
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

// has reports whether the set contains id. IDs outside the table are in no set.
func (b bitmap) has(id ID) bool {
	word := uint(id) >> 6
	return word < uint(len(b)) && b[word]&(1<<(uint(id)&63)) != 0
}

func (b bitmap) set(id ID)   { b[id>>6] |= 1 << (id & 63) }
func (b bitmap) clear(id ID) { b[id>>6] &^= 1 << (id & 63) }

// fill sets the set to all IDs below n, or to none.
func (b bitmap) fill(n int, all bool) {
	clear(b)
	if all {
		for id := range ID(n) {
			b.set(id)
		}
	}
}

// full reports whether the set contains all IDs below n.
func (b bitmap) full(n int) bool {
	for id := range ID(n) {
		if !b.has(id) {
			return false
		}
	}
	return true
}
