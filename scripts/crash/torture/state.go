package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// state is the data of one writer: its own keys, and its own members of the
// shared collections. A collection without members is absent.
type state struct {
	strings map[string]string
	lists   map[string][]string
	members map[string]map[string]string // of hashes with their values, of sets, of sorted sets with their scores
}

func newState() *state {
	return &state{strings: map[string]string{}, lists: map[string][]string{}, members: map[string]map[string]string{}}
}

// set sets a member of a collection, which it makes when it is absent. It reports whether the member is new.
func (s *state) set(key, member, value string) (added bool) {
	if s.members[key] == nil {
		s.members[key] = map[string]string{}
	}
	_, found := s.members[key][member]
	s.members[key][member] = value
	return !found
}

// remove deletes members, and the collection if none is left. It returns how many existed.
func (s *state) remove(key string, members ...string) (removed int) {
	before := len(s.members[key])
	for _, m := range members {
		delete(s.members[key], m)
	}
	removed = before - len(s.members[key])
	if removed == before {
		delete(s.members, key)
	}
	return removed
}

// number returns the integer that a member has as its value, 0 if the member is absent.
func (s *state) number(key, member string) int {
	n, _ := strconv.Atoi(s.members[key][member])
	return n
}

// setList sets a list, or removes it when l is empty.
func (s *state) setList(key string, l []string) {
	if len(l) == 0 {
		delete(s.lists, key)
		return
	}
	s.lists[key] = l
}

// drop removes a key of any type and reports whether the key existed.
func (s *state) drop(key string) bool {
	existed := s.exists(key)
	delete(s.strings, key)
	delete(s.lists, key)
	delete(s.members, key)
	return existed
}

// exists reports whether a key of any type exists.
func (s *state) exists(key string) bool {
	_, isString := s.strings[key]
	return isString || s.lists[key] != nil || s.members[key] != nil
}

// lowest returns the member of a sorted set that ZPOPMIN removes; the set must not be empty.
func (s *state) lowest(key string) string {
	return slices.MinFunc(slices.Collect(maps.Keys(s.members[key])), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.number(key, a), s.number(key, b)), cmp.Compare(a, b))
	})
}

// diff describes how got differs from s in at most a few lines. It returns "" if they are equal.
func (s *state) diff(got *state) string {
	var d differences
	compare(&d, s.strings, got.strings, strconv.Quote)
	for _, key := range unionKeys(s.members, got.members) {
		var inner differences
		compare(&inner, s.members[key], got.members[key], func(v string) string { return v })
		for _, line := range inner.lines {
			d.add("%s: %s", key, strings.TrimSpace(line))
		}
		d.more += inner.more
	}
	for _, key := range unionKeys(s.lists, got.lists) {
		d.list(key, s.lists[key], got.lists[key])
	}
	return d.String()
}

type differences struct {
	lines []string // the first differences
	more  int      // number of further differences
}

func (d *differences) add(format string, args ...any) {
	const shown = 8
	if len(d.lines) >= shown {
		d.more++
		return
	}
	d.lines = append(d.lines, "    "+fmt.Sprintf(format, args...))
}

func (d *differences) String() string {
	if d.more > 0 {
		return strings.Join(d.lines, "\n") + fmt.Sprintf("\n    and %d more", d.more)
	}
	return strings.Join(d.lines, "\n")
}

func (d *differences) list(key string, want, got []string) {
	if slices.Equal(want, got) {
		return
	}
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	at := func(l []string) string {
		if i < len(l) {
			return strconv.Quote(shorten(l[i]))
		}
		return "nothing"
	}
	d.add("%s: %d elements, expected %d; at index %d %s, expected %s", key, len(got), len(want), i, at(got), at(want))
}

func compare(d *differences, want, got map[string]string, quote func(string) string) {
	show := func(v string) string { return quote(shorten(v)) }
	for _, key := range unionKeys(want, got) {
		w, wanted := want[key]
		g, found := got[key]
		switch {
		case wanted && !found:
			d.add("%s is missing, expected %s", key, show(w))
		case !wanted && found:
			d.add("%s is %s, expected to be absent", key, show(g))
		case w != g:
			d.add("%s is %s, expected %s", key, show(g), show(w))
		}
	}
}

func unionKeys[V any](a, b map[string]V) []string {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return s[:limit] + fmt.Sprintf("... (%d bytes)", len(s))
}
