// Package config holds the settings: one table of them, read from a kvrocks.toml, a kvrocks.conf or the command
// line, shown and changed by CONFIG, and written back to the file that they came from.
package config

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Config is the settings of a running server. Reading is lock-free; all methods may be called concurrently.
type Config struct {
	state    atomic.Pointer[state]
	mu       sync.Mutex // held while settings are changed or written to the file
	hooks    map[int][]Hook
	store    NamespaceStore // nil = none
	file     string         // absolute; empty = none
	format   format
	warnings []string
	renames  []Error // position of each line of rename-command
	users    []User
	userAt   []Error // position of each user's declaration

	presentUsers func(requirePass string) []User // nil = the file's
}

// state is all values at one time. It is never changed, only replaced.
type state struct {
	values []value // by index in the table
	limits [numClasses]BufferLimit
	tokens map[string]string // namespace to token
}

// Pair is the name and the text of a setting.
type Pair struct {
	Name, Value string
	Redis       bool // a setting of Redis that has no effect here
}

// Default returns the settings of a server without file and command line.
func Default() *Config {
	c := &Config{hooks: map[int][]Hook{}}
	st := &state{values: make([]value, len(table)), tokens: map[string]string{}}
	for i, s := range table {
		if s.Kind == Multi {
			continue
		}
		v, err := s.parse("", s.Default)
		if err != nil {
			panic("config: default of " + s.Name + ": " + err.Error())
		}
		st.values[i] = v
	}
	st.limits, _ = parseLimits("", st.values[clientOutputBufferLimit].text)
	c.state.Store(st)
	return c
}

func (st *state) clone() *state {
	return &state{slices.Clone(st.values), st.limits, maps.Clone(st.tokens)}
}

// set stores a value.
func (st *state) set(i int, v value) {
	st.values[i] = v
	if i == clientOutputBufferLimit {
		st.limits, _ = parseLimits("", v.text)
	}
}

// text returns a value as CONFIG GET shows it: settings that are derived from others while they are empty are
// filled in.
func (st *state) text(i int) string {
	switch i {
	case databases:
		return strconv.FormatInt(max(1, st.values[redisDatabases].num), 10)
	case appendFsync:
		return st.fsync()
	}
	v := st.values[i].text
	if v != "" {
		return v
	}
	switch i {
	case backupDir:
		return st.values[dir].text + "/backup"
	case pidFile:
		return st.values[dir].text + "/kvrocks.pid"
	case logDir:
		return st.values[dir].text
	case bind:
		if st.values[unixSocket].text == "" {
			return table[bind].Default
		}
	case checkerCron:
		if r := st.values[checkerRange].text; r != "" {
			return rangeCron(r)
		}
	}
	return v
}

// Names returns the names of all settings, with their aliases, sorted.
func (c *Config) Names() []string { return names }

// Inert returns the names of the settings that have no effect.
func Inert() []string {
	var list []string
	for _, s := range table {
		if s.Inert != "" {
			list = append(list, s.Name)
		}
	}
	return list
}

// Get returns the text of a setting as CONFIG GET shows it; of rename-command, its lines. The name's case does
// not matter.
func (c *Config) Get(name string) (string, bool) {
	_, i, ok := find(name)
	if !ok {
		return "", false
	}
	return c.state.Load().text(i), true
}

// Match returns the reply of CONFIG GET: the settings whose names match, sorted by name; a setting of several lines
// appears once for each line. All values come from the same state.
func (c *Config) Match(match func(name string) bool) []Pair {
	st := c.state.Load()
	var pairs []Pair
	for _, name := range names {
		if !match(name) {
			continue
		}
		s, i, _ := find(name)
		text := st.text(i)
		if s.Kind != Multi {
			pairs = append(pairs, Pair{name, text, s.Redis})
			continue
		}
		for _, line := range lines(text) {
			pairs = append(pairs, Pair{name, line, s.Redis})
		}
	}
	return pairs
}

// Text, Int and Bool return the value of a setting by its name in lower case. A name that is not in the table is
// a mistake in the program and panics.
func (c *Config) Text(name string) string { return c.state.Load().text(index(name)) }

// Int returns the number of a Bool, Int, Bytes or Octal setting.
func (c *Config) Int(name string) int64 { return c.num(index(name)) }

// Bool reports whether a Bool setting is yes.
func (c *Config) Bool(name string) bool { return c.num(index(name)) != 0 }

func (c *Config) num(i int) int64 { return c.state.Load().values[i].num }

func (c *Config) text(i int) string { return c.state.Load().text(i) }

// index returns the index of a name in the table. The name must exist.
func index(name string) int {
	_, i, ok := find(name)
	if !ok {
		panic("config: no setting " + name)
	}
	return i
}

// File returns the absolute path of the configuration file; empty = no file.
func (c *Config) File() string { return c.file }

// Warnings returns the warnings about the settings, one line each, for the log.
func (c *Config) Warnings() []string { return c.warnings }

// Settings returns a description of each setting, in the order of kvrocks.toml.
func Settings() []Setting {
	all := make([]Setting, len(table))
	for i, s := range table {
		all[i] = *s
	}
	return all
}
