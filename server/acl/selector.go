package acl

import (
	"maps"
	"slices"
	"strings"
)

// selector is a set of permissions: a command may run if one selector of the user allows the command, all its keys and
// all its channels.
type selector struct {
	allKeys, allChannels bool
	keys                 []keyPattern
	channels             []channelPattern

	allowed bitmap // by command ID
	// base says that the rules start from +@all, not from -@all.
	base bool
	// rules are the command rules in the order of their effect, such as "+get" or "-@write"; names are in lower case.
	// Applied to the base they give allowed and firstArgs.
	rules []string
	// firstArgs are the first arguments, in lower case, with which a command that is not in allowed may still run.
	firstArgs map[ID][]string
}

type keyPattern struct {
	pattern     string
	read, write bool
	match       Matcher
}

type channelPattern struct {
	pattern string
	match   Matcher
}

func (t *Table) newSelector(allChannels bool) *selector {
	return &selector{allowed: newBitmap(len(t.commands)), allChannels: allChannels}
}

func (s *selector) clone() *selector {
	c := *s
	c.keys, c.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	c.allowed, c.rules = slices.Clone(s.allowed), slices.Clone(s.rules)
	c.firstArgs = maps.Clone(s.firstArgs)
	for id, list := range c.firstArgs {
		c.firstArgs[id] = slices.Clone(list)
	}
	return &c
}

// apply changes the selector by one rule.
func (s *selector) apply(t *Table, rule string) error {
	switch lower(rule) {
	case "allkeys", "~*":
		s.allKeys, s.keys = true, nil
		return nil
	case "resetkeys":
		s.allKeys, s.keys = false, nil
		return nil
	case "allchannels", "&*":
		s.allChannels, s.channels = true, nil
		return nil
	case "resetchannels":
		s.allChannels, s.channels = false, nil
		return nil
	case "allcommands", "+@all":
		s.resetCommands(t, true)
		return nil
	case "nocommands", "-@all":
		s.resetCommands(t, false)
		return nil
	}
	switch {
	case rule[0] == '~' || rule[0] == '%':
		return s.addKeys(t, rule)
	case rule[0] == '&':
		return s.addChannels(t, rule[1:])
	case strings.HasPrefix(rule, "+@") || strings.HasPrefix(rule, "-@"):
		return s.setCategory(t, lower(rule))
	case rule[0] == '+' && strings.Contains(rule, "|"):
		return s.allowPart(t, lower(rule[1:]))
	case rule[0] == '+' || rule[0] == '-':
		id, ok := t.lookup(rule[1:])
		if !ok {
			return errUnknown
		}
		s.setCommand(t, id, rule[0] == '+')
		s.note(rule[:1] + t.commands[id].Name)
		return nil
	}
	return errSyntax
}

// addKeys adds a key pattern: ~pattern, or % with the letters R and W before the tilde.
func (s *selector) addKeys(t *Table, rule string) error {
	if s.allKeys {
		return errAfterAllKeys
	}
	p := keyPattern{}
	i := 1
	if rule[0] == '~' {
		p.read, p.write = true, true
	} else {
	permissions:
		for ; i < len(rule); i++ {
			switch c := rule[i]; {
			case (c == 'R' || c == 'r') && !p.read:
				p.read = true
			case (c == 'W' || c == 'w') && !p.write:
				p.write = true
			case c == '~' && (p.read || p.write):
				i++
				break permissions
			default:
				return errSyntax
			}
		}
		if !p.read && !p.write {
			return errSyntax
		}
	}
	p.pattern = rule[i:]
	if hasSpace(p.pattern) {
		return errSyntax
	}
	for k := range s.keys {
		if have := &s.keys[k]; have.pattern == p.pattern {
			have.read, have.write = have.read || p.read, have.write || p.write
			return nil
		}
	}
	p.match = t.glob([]byte(p.pattern))
	s.keys = append(s.keys, p)
	return nil
}

func (s *selector) addChannels(t *Table, pattern string) error {
	switch {
	case s.allChannels:
		return errAfterAllChannels
	case hasSpace(pattern):
		return errSyntax
	case slices.ContainsFunc(s.channels, func(c channelPattern) bool { return c.pattern == pattern }):
		return nil
	}
	s.channels = append(s.channels, channelPattern{pattern, t.glob([]byte(pattern))})
	return nil
}

func (s *selector) resetCommands(t *Table, all bool) {
	s.base, s.rules, s.firstArgs = all, nil, nil
	s.allowed.fill(len(t.commands), all)
}

// setCommand allows or denies a command with its subcommands.
func (s *selector) setCommand(t *Table, id ID, allow bool) {
	change := s.allowed.clear
	if allow {
		change = s.allowed.set
	}
	change(id)
	for _, sub := range t.subs[id] {
		change(sub)
	}
	delete(s.firstArgs, id)
}

// setCategory applies +@category or -@category.
func (s *selector) setCategory(t *Table, rule string) error {
	ids, ok := t.byCategory[rule[2:]]
	if !ok {
		return errUnknown
	}
	for _, id := range ids {
		s.setCommand(t, id, rule[0] == '+')
	}
	s.note(rule)
	return nil
}

// allowPart allows a subcommand, or one first argument of a command without subcommands.
func (s *selector) allowPart(t *Table, name string) error {
	cut := strings.LastIndexByte(name, '|')
	arg := name[cut+1:]
	id, ok := t.lookup(name[:cut])
	switch {
	case !ok:
		return errUnknown
	case t.parent[id] >= 0:
		return errFirstArg
	case arg == "" || hasSpace(arg):
		return errSyntax
	case t.subs[id] != nil:
		sub, ok := t.lookup(name)
		if !ok {
			return errUnknown
		}
		s.setCommand(t, sub, true)
	case !slices.Contains(s.firstArgs[id], arg):
		if s.firstArgs == nil {
			s.firstArgs = map[ID][]string{}
		}
		s.firstArgs[id] = append(s.firstArgs[id], arg)
	}
	s.note("+" + name)
	return nil
}

// note appends a command rule. It removes the rules that no longer have an effect: those with the same name, and those
// for its subcommands and first arguments.
func (s *selector) note(rule string) {
	name := rule[1:]
	s.rules = slices.DeleteFunc(s.rules, func(have string) bool {
		rest, ok := strings.CutPrefix(have[1:], name)
		return ok && (rest == "" || rest[0] == '|')
	})
	s.rules = append(s.rules, rule)
}

// commandText returns the base followed by the command rules.
func (s *selector) commandText() string {
	base := "-@all"
	if s.base {
		base = "+@all"
	}
	return strings.Join(append([]string{base}, s.rules...), " ")
}

func (p *keyPattern) String() string {
	switch {
	case !p.write:
		return "%R~" + p.pattern
	case !p.read:
		return "%W~" + p.pattern
	}
	return "~" + p.pattern
}

// keyRules returns the rules for the key patterns.
func (s *selector) keyRules() []string {
	var rules []string
	for i := range s.keys {
		rules = append(rules, s.keys[i].String())
	}
	// A pattern * covers all keys if it is for both reading and writing; then no other pattern can be added.
	if s.allKeys || slices.Contains(rules, "~*") {
		return []string{"~*"}
	}
	return rules
}

func (s *selector) channelRules() []string {
	if s.allChannels {
		return []string{"&*"}
	}
	var rules []string
	for _, c := range s.channels {
		rules = append(rules, "&"+c.pattern)
	}
	return rules
}

// allRules returns rules that turn a new selector into this one.
func (s *selector) allRules() []string {
	rules := s.keyRules()
	if !s.allChannels {
		rules = append(rules, "resetchannels")
	}
	rules = append(rules, s.channelRules()...)
	return append(rules, strings.Split(s.commandText(), " ")...)
}

// hasSpace reports whether a name or pattern has bytes that are impossible in a line of rules.
func hasSpace(s string) bool { return strings.ContainsAny(s, " \t\n\v\f\r\x00") }

// ValidName reports whether a user may have a name.
func ValidName(name string) bool { return !hasSpace(name) }
