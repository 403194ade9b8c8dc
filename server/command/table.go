package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table maps names to commands: the names by which the clients of one server call them. It must not be changed while
// it is in use; then any number of goroutines may read it.
type Table struct {
	byName  map[string]*Spec // in lower case
	longest int              // bytes of the longest name
}

// original is the table in which every command has its own name.
var original = &Table{byName: table, longest: maxName}

// DefaultTable returns the table in which every command has its own name. It must not be changed.
func DefaultTable() *Table { return original }

// Clone returns a copy that can be changed.
func (t *Table) Clone() *Table {
	c := *t
	c.byName = maps.Clone(t.byName)
	return &c
}

// Rename gives the command with the name from the new name to; an empty name disables the command. Case does not
// matter. The errors name it. Replies and statistics keep using the command's own name, so that they do not reveal
// the new one.
func (t *Table) Rename(from, to string) error {
	from, to = lowerName(from), lowerName(to)
	s := t.byName[from]
	switch {
	case s == nil:
		return fmt.Errorf("no such command: '%s'", from)
	case to != "" && t.byName[to] != nil:
		return fmt.Errorf("target command name already exists: '%s'", to)
	}
	delete(t.byName, from)
	if to == "" {
		return nil
	}
	t.byName[to] = s
	t.longest = max(t.longest, len(to))
	return nil
}

// Len returns the number of commands, without subcommands.
func (t *Table) Len() int { return len(t.byName) }

// All returns the commands without their subcommands, sorted by their own names.
func (t *Table) All() []*Spec {
	return slices.SortedFunc(maps.Values(t.byName), func(a, b *Spec) int { return strings.Compare(a.Name, b.Name) })
}

// Lookup finds a command by its name in any case, nil = no such command.
func (t *Table) Lookup(name []byte) *Spec {
	if len(name) > maxName {
		// Only a new name is so long.
		if len(name) > t.longest {
			return nil
		}
		return t.byName[lowerName(string(name))]
	}
	return find(t.byName, name)
}

// Resolve finds the command, or the subcommand of a container, that the arguments name, and checks the number
// of arguments. The error is the reply.
func (t *Table) Resolve(args [][]byte) (*Spec, error) {
	s := t.Lookup(args[0])
	if s == nil {
		return nil, unknownCommand(args)
	}
	if s.sub != nil {
		if len(args) > 1 {
			c := s.Subcommand(args[1])
			if c == nil {
				return s, unknownSubcommand(s, args[1])
			}
			s = c
		} else if s.Handler == nil {
			return s, wrongArgs(s.full)
		}
	}
	return s, s.checkArity(args)
}

// Lookup finds a command in the default table.
func Lookup(name []byte) *Spec { return original.Lookup(name) }

// Resolve is [Table.Resolve] of the default table.
func Resolve(args [][]byte) (*Spec, error) { return original.Resolve(args) }

// Subcommand finds a subcommand, nil = no such subcommand.
func (s *Spec) Subcommand(name []byte) *Spec { return find(s.sub, name) }

// maxName is the longest name in bytes that a command has of its own.
const maxName = 32

// find looks up a name in any case; names longer than maxName are never found.
func find(m map[string]*Spec, name []byte) *Spec {
	if len(name) > maxName {
		return nil
	}
	var buf [maxName]byte
	for i, c := range name {
		buf[i] = lower(c)
	}
	return m[string(buf[:len(name)])]
}

// lowerName turns ASCII letters, and no others, to lower case: names are bytes.
func lowerName(name string) string {
	b := []byte(name)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

func (s *Spec) checkArity(args [][]byte) error {
	if s.Arity > 0 && len(args) != s.Arity || len(args) < -s.Arity {
		return wrongArgs(s.full)
	}
	return nil
}

// Resolver is [Table.Resolve] for the commands of one connection. It remembers the last command, since pipelines
// mostly repeat a command: without that GET takes 1.08 times the CPU time at P = 64. The zero Resolver has the default
// table.
type Resolver struct {
	name  [maxName]byte // as it was sent
	n     int
	spec  *Spec
	table *Table // nil = the default table
}

// Use makes it look in a table.
func (r *Resolver) Use(t *Table) { r.table, r.spec = t, nil }

// Resolve is [Table.Resolve].
func (r *Resolver) Resolve(args [][]byte) (*Spec, error) {
	if r.spec != nil && string(args[0]) == string(r.name[:r.n]) {
		return r.spec, r.spec.checkArity(args)
	}
	t := r.table
	if t == nil {
		t = original
	}
	s, err := t.Resolve(args)
	r.spec = nil
	if err == nil && s.Parent == nil && s.sub == nil && len(args[0]) <= maxName {
		r.spec = s
		r.n = copy(r.name[:], args[0])
	}
	return s, err
}
