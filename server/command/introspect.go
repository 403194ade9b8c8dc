package command

import (
	"slices"
	"strings"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/glob"
)

const commandFlags = Loading | Stale

var introspectCommands = []Spec{{Name: "command", Handler: commandAll, Arity: -1, Flags: commandFlags, Sub: []Spec{
	{Name: "count", Handler: commandCount, Arity: 2, Flags: commandFlags},
	{Name: "info", Handler: commandInfo, Arity: -2, Flags: commandFlags},
	{Name: "docs", Handler: commandDocs, Arity: -2, Flags: commandFlags},
	{Name: "list", Handler: commandList, Arity: -2, Flags: commandFlags},
	{Name: "getkeys", Handler: commandGetKeys, Arity: -3, Flags: commandFlags},
	{Name: "getkeysandflags", Handler: commandGetKeysAndFlags, Arity: -3, Flags: commandFlags},
	{Name: "help", Handler: help, Arity: 2, Flags: commandFlags},
}}}

func commandCount(c *Ctx) error {
	return replyInt(c, c.Srv.Table.Len(), nil)
}

func commandAll(c *Ctx) error {
	all := c.Srv.Table.All()
	c.Out.Array(len(all))
	for _, s := range all {
		s.writeInfo(c)
	}
	return nil
}

func commandInfo(c *Ctx) error {
	if len(c.Args) == 2 {
		return commandAll(c)
	}
	c.Out.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if s := c.Srv.Table.byFullName(name); s != nil {
			s.writeInfo(c)
		} else {
			c.Out.Null()
		}
	}
	return nil
}

// byFullName finds a command by its name, a subcommand by both names with | between them.
func (t *Table) byFullName(name []byte) *Spec {
	container, sub, has := strings.Cut(string(name), "|")
	s := t.Lookup([]byte(container))
	if s != nil && has {
		s = s.Subcommand([]byte(sub))
	}
	return s
}

// categories are the ACL categories in the order in which Redis lists them.
var categories = []string{"@keyspace", "@read", "@write", "@set", "@sortedset", "@list", "@hash", "@string",
	"@bitmap", "@hyperloglog",
	"@geo", "@stream", "@pubsub", "@admin", "@fast", "@slow", "@blocking", "@dangerous", "@connection", "@transaction",
	"@scripting"}

// ACLCategories returns the categories of a command: the categories implied by its flags, and its own.
func (s *Spec) ACLCategories() []string {
	has := slices.Clone(s.facts.categories)
	for _, f := range []struct {
		flag Flag
		cats []string
	}{{Write, []string{"@write"}}, {ReadOnly, []string{"@read"}}, {Admin, []string{"@admin", "@dangerous"}}, {PubSub,
		[]string{"@pubsub"}}, {Fast, []string{"@fast"}}, {Blocking, []string{"@blocking"}}} {
		if s.Flags&f.flag != 0 && !(f.flag == ReadOnly && slices.Contains(s.facts.categories, "@scripting")) { // EVAL_RO
			has = append(has, f.cats...)
		}
	}
	if s.Flags&Fast == 0 {
		has = append(has, "@slow")
	}
	var out []string
	for _, c := range categories {
		if slices.Contains(has, c) {
			out = append(out, c)
		}
	}
	for _, c := range has { // the categories that Redis does not have
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// writeInfo writes the ten elements of COMMAND INFO: name, arity, flags, first key, last key, step, ACL
// categories, tips, key specifications, subcommands.
func (s *Spec) writeInfo(c *Ctx) {
	w := c.Out
	w.Array(10)
	w.BulkString(s.FullName())
	w.Int(int64(s.Arity))
	writeWords(c.Out, s.Flags.Names())
	w.Int(int64(s.first))
	w.Int(int64(s.last))
	w.Int(int64(s.step))
	writeWords(c.Out, s.ACLCategories())
	writeBulkSet(w, s.facts.tips)
	s.writeKeySpecs(c)
	w.Set(len(s.Sub))
	for i := range s.Sub {
		s.Sub[i].writeInfo(c)
	}
}

func commandDocs(c *Ctx) error {
	mark, n := c.Out.Mark(), 0
	if len(c.Args) == 2 {
		for _, s := range c.Srv.Table.All() {
			s.writeDocs(c)
			n++
		}
	}
	for _, name := range c.Args[2:] {
		if s := c.Srv.Table.byFullName(name); s != nil {
			s.writeDocs(c)
			n++
		}
	}
	c.Out.InsertMap(mark, n)
	return nil
}

func (s *Spec) writeDocs(c *Ctx) {
	w, f := c.Out, s.facts
	w.BulkString(s.FullName())
	mark, n := w.Mark(), 0
	field := func(name, value string) {
		if value != "" {
			stringField(w, name, value)
			n++
		}
	}
	field("summary", f.summary)
	field("since", f.since)
	field("group", f.group)
	field("complexity", f.complexity)
	flag := func(name string) {
		w.BulkString("doc_flags")
		w.Set(1)
		w.SimpleString(name)
		n++
	}
	if f.system {
		flag("syscmd")
	}
	if f.deprecated != "" {
		flag("deprecated")
		field("deprecated_since", f.deprecated)
		field("replaced_by", f.replaced)
	}
	if f.history != nil {
		w.BulkString("history")
		w.Set(len(f.history))
		for _, h := range f.history {
			w.Array(2)
			w.BulkString(h.version)
			w.BulkString(h.change)
		}
		n++
	}
	if f.arguments != nil {
		w.BulkString("arguments")
		writeArguments(w, f.arguments)
		n++
	}
	if len(s.Sub) > 0 {
		n++
		w.BulkString("subcommands")
		w.Map(len(s.Sub))
		for i := range s.Sub {
			s.Sub[i].writeDocs(c)
		}
	}
	w.InsertMap(mark, n)
}

func commandList(c *Ctx) error {
	table := c.Srv.Table
	keep := func(*Spec) bool { return true }
	switch {
	case len(c.Args) == 2:
	case len(c.Args) != 5 || !EqualFold(c.Args[2], "FILTERBY"):
		return ErrSyntax
	case EqualFold(c.Args[3], "MODULE"):
		keep = func(*Spec) bool { return false } // there are no modules
	case EqualFold(c.Args[3], "ACLCAT"):
		want := "@" + strings.ToLower(string(c.Args[4]))
		keep = func(s *Spec) bool { return slices.Contains(s.ACLCategories(), want) }
	case EqualFold(c.Args[3], "PATTERN"):
		pattern := glob.Compile([]byte(strings.ToLower(string(c.Args[4]))))
		keep = func(s *Spec) bool { return pattern.Match([]byte(s.FullName())) }
	default:
		return ErrSyntax
	}
	mark, n := c.Out.Mark(), 0
	for _, s := range table.All() {
		list := []*Spec{s}
		for i := range s.Sub {
			list = append(list, &s.Sub[i])
		}
		for _, s := range list {
			if keep(s) {
				c.Out.BulkString(s.FullName())
				n++
			}
		}
	}
	c.Out.InsertArray(mark, n)
	return nil
}

func commandGetKeys(c *Ctx) error {
	_, keys, err := keysInCommand(c)
	if err != nil {
		return err
	}
	c.Out.Array(len(keys))
	for _, k := range keys {
		c.Out.Bulk(c.Args[2+k.Arg])
	}
	return nil
}

func commandGetKeysAndFlags(c *Ctx) error {
	s, keys, err := keysInCommand(c)
	if err != nil {
		return err
	}
	c.Out.Array(len(keys))
	for i, k := range keys {
		c.Out.Array(2)
		c.Out.Bulk(c.Args[2+k.Arg])
		writeWords(c.Out, s.useOfKey(i, c.Args[2:]).flags)
	}
	return nil
}

// keysInCommand finds the keys of a command that is given as arguments; the positions are relative to that command.
func keysInCommand(c *Ctx) (*Spec, []KeyRef, error) {
	args := c.Args[2:]
	s := c.Srv.Table.Lookup(args[0])
	if s != nil && s.sub != nil && len(args) > 1 {
		s = s.Subcommand(args[1])
	}
	switch {
	case s == nil:
		return nil, nil, engine.NewError("ERR", "Invalid command specified")
	case !s.HasKeys():
		return nil, nil, engine.NewError("ERR", "The command has no key arguments")
	case s.Arity > 0 && len(args) != s.Arity || len(args) < -s.Arity:
		return nil, nil, engine.NewError("ERR", "Invalid number of arguments specified for command")
	}
	keys := s.AppendKeys(nil, args)
	if len(keys) == 0 || s.Keys != nil && s.Keys(args, func(int, bool) {}) != nil {
		if s.Flags&NoMandatoryKeys != 0 {
			return s, nil, nil
		}
		return nil, nil, engine.NewError("ERR", "Invalid arguments specified for command")
	}
	return s, keys, nil
}
