// Package config holds the settings: one table of them, read from a kvrocks.toml, a kvrocks.conf or the command
// line, shown and changed by CONFIG, and written back to the file that they came from.
package config

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

// Config holds the settings of a running server. Reading is lock-free; all methods may be called concurrently.
type Config struct {
	state    atomic.Pointer[state]
	mu       sync.Mutex // held while settings are changed or written to the file
	hooks    map[int][]Hook
	store    NamespaceStore // nil = none
	file     string         // absolute; empty = none
	format   conffile.Format
	warnings []string
	renames  []conffile.Error // position of each line of rename-command
	users    []conffile.User
	userAt   []conffile.Error // position of each user's declaration

	presentUsers func(requirePass string) []conffile.User // nil = the file's
}

// state is the set of all values at one time. It is never changed, only replaced.
type state struct {
	values []setting.Value // by index in the table
	limits [setting.NumClasses]setting.BufferLimit
	tokens map[string]string // namespace to token
}

// Pair is the name and the text of a setting.
type Pair struct {
	Name, Value string
}

// Default returns the settings of a server without file and command line.
func Default() *Config {
	c := &Config{hooks: map[int][]Hook{}}
	st := &state{values: make([]setting.Value, len(setting.Table)), tokens: map[string]string{}}
	for i, s := range setting.Table {
		if s.Kind == setting.Multi {
			continue
		}
		v, err := s.Parse("", s.Default)
		if err != nil {
			panic("config: default of " + s.Name + ": " + err.Error())
		}
		st.values[i] = v
	}
	st.limits, _ = setting.ParseLimits("", st.values[clientOutputBufferLimit].Text)
	c.state.Store(st)
	return c
}

func (st *state) clone() *state {
	return &state{slices.Clone(st.values), st.limits, maps.Clone(st.tokens)}
}

// set stores a value.
func (st *state) set(i int, v setting.Value) {
	st.values[i] = v
	if i == clientOutputBufferLimit {
		st.limits, _ = setting.ParseLimits("", v.Text)
	}
}

// text returns a value as CONFIG GET shows it: an empty setting that is derived from others shows the derived value.
func (st *state) text(i int) string {
	switch i {
	case databases:
		return strconv.FormatInt(max(1, st.values[redisDatabases].Num), 10)
	case appendFsync:
		return st.fsync()
	case redisLogLevel:
		return st.redisLogLevel()
	}
	v := st.values[i].Text
	if v != "" {
		return v
	}
	switch i {
	case backupDir:
		return st.values[dir].Text + "/backup"
	case pidFile:
		return st.values[dir].Text + "/kvrocks.pid"
	case logDir:
		return st.values[dir].Text
	case bind:
		if st.values[unixSocket].Text == "" {
			return setting.Table[bind].Default
		}
	case checkerCron:
		if r := st.values[checkerRange].Text; r != "" {
			return setting.RangeCron(r)
		}
	}
	return v
}

// Get returns the text of a setting as CONFIG GET shows it; of rename-command, its lines. The name's case does
// not matter.
func (c *Config) Get(name string) (string, bool) {
	_, i, ok := setting.Find(name)
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
	for _, name := range setting.Names() {
		if !match(name) {
			continue
		}
		s, i, _ := setting.Find(name)
		text := st.text(i)
		if s.Kind != setting.Multi {
			pairs = append(pairs, Pair{name, text})
			continue
		}
		for _, line := range setting.Lines(text) {
			pairs = append(pairs, Pair{name, line})
		}
	}
	return pairs
}

// Text, Int and Bool return the value of a setting by its name in lower case. A name that is not in the table is
// a mistake in the program and panics.
func (c *Config) Text(name string) string { return c.state.Load().text(setting.Index(name)) }

// Int returns the number of a Bool, Int, Bytes or Octal setting.
func (c *Config) Int(name string) int64 { return c.num(setting.Index(name)) }

// Bool reports whether a Bool setting is yes.
func (c *Config) Bool(name string) bool { return c.num(setting.Index(name)) != 0 }

func (c *Config) num(i int) int64 { return c.state.Load().values[i].Num }

func (c *Config) text(i int) string { return c.state.Load().text(i) }

// AtDefault reports whether a setting has its default. kvrocks.toml lists the defaults, so it does not matter whether
// the default was given.
func (c *Config) AtDefault(name string) bool {
	i := setting.Index(name)
	return c.text(i) == setting.Table[i].Default
}

// File returns the absolute path of the configuration file; empty = no file.
func (c *Config) File() string { return c.file }

// Warnings returns the warnings about the settings, one line each, for the log.
func (c *Config) Warnings() []string { return c.warnings }
