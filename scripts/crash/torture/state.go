package torture

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// state is the data of one writer: its own keys, and its own members of the
// shared collections. A collection without members is absent.
type state struct {
	strings map[string]string
	hashes  map[string]map[string]string
	lists   map[string][]string
	sets    map[string]map[string]bool
	zsets   map[string]map[string]int
}

func newState() *state {
	return &state{
		strings: map[string]string{},
		hashes:  map[string]map[string]string{},
		lists:   map[string][]string{},
		sets:    map[string]map[string]bool{},
		zsets:   map[string]map[string]int{},
	}
}

// set sets m[key][field], making m[key] when it is absent.
func set[V any](m map[string]map[string]V, key, field string, v V) {
	if m[key] == nil {
		m[key] = map[string]V{}
	}
	m[key][field] = v
}

// remove deletes m[key][field], and also m[key] if no field is left. It reports
// whether the field existed.
func remove[V any](m map[string]map[string]V, key, field string) bool {
	_, found := m[key][field]
	delete(m[key], field)
	if len(m[key]) == 0 {
		delete(m, key)
	}
	return found
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
	before := s.size()
	delete(s.strings, key)
	delete(s.hashes, key)
	delete(s.lists, key)
	delete(s.sets, key)
	delete(s.zsets, key)
	return s.size() < before
}

// exists reports whether a key of any type exists.
func (s *state) exists(key string) bool {
	_, isString := s.strings[key]
	return isString || s.hashes[key] != nil || s.lists[key] != nil || s.sets[key] != nil || s.zsets[key] != nil
}

func (s *state) size() int {
	return len(s.strings) + len(s.hashes) + len(s.lists) + len(s.sets) + len(s.zsets)
}

// lowest returns the member of a sorted set that ZPOPMIN removes. members must not
// be empty.
func lowest(members map[string]int) string {
	names := slices.Collect(maps.Keys(members))
	sort.Slice(names, func(i, j int) bool {
		a, b := names[i], names[j]
		if members[a] != members[b] {
			return members[a] < members[b]
		}
		return a < b
	})
	return names[0]
}

// diff describes how got differs from s in at most a few lines. It returns "" if
// they are equal.
func (s *state) diff(got *state) string {
	var d differences
	compare(&d, s.strings, got.strings, func(v string) string { return strconv.Quote(shorten(v)) })
	compareNested(&d, s.hashes, got.hashes)
	compareNested(&d, s.sets, got.sets)
	compareNested(&d, s.zsets, got.zsets)
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

func compareNested[V comparable](d *differences, want, got map[string]map[string]V) {
	for _, key := range unionKeys(want, got) {
		var inner differences
		compare(&inner, want[key], got[key], func(v V) string { return shorten(fmt.Sprint(v)) })
		for _, line := range inner.lines {
			d.add("%s: %s", key, strings.TrimSpace(line))
		}
		d.more += inner.more
	}
}

func compare[V comparable](d *differences, want, got map[string]V, show func(V) string) {
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
