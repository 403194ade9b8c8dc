package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// Hook applies a change of one setting. The new values can be read when it runs. After an error of this or a later
// hook of the same change, the old values are restored, and then the hooks that had succeeded are called with old and
// new exchanged. A hook must not change settings itself.
type Hook func(old, new string) error

// OnChange registers a hook of a setting. A name that is not in the table panics.
func (c *Config) OnChange(name string, h Hook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := setting.Index(name)
	c.hooks[i] = append(c.hooks[i], h)
}

// Reset restores the default of a setting that is meant for one start, so that CONFIG REWRITE does not keep its
// value.
func (c *Config) Reset(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := setting.Index(name)
	v, err := setting.Table[i].Parse("", setting.Table[i].Default)
	if err != nil {
		panic(err) // the defaults are tested
	}
	st := c.state.Load().clone()
	st.values[i] = v
	c.state.Store(st)
}

// Errors of [Config.Set] and the namespaces, with the texts that Redis 7.2 and Kvrocks give.
var (
	errFixed            = errors.New("can't set immutable config")
	errTwice            = errors.New("duplicate parameter")
	errBlobFilesOff     = setting.ReplyError("Must set rocksdb.enable_blob_files to yes first.")
	errDynamicLevelsOff = setting.ReplyError("Must set rocksdb.level_compaction_dynamic_level_bytes yes first.")
)

var errProtected = errors.New("can't set protected config")

func failed(name string, err error) error {
	return fmt.Errorf("CONFIG SET failed (possibly related to argument '%s') - %w", name, err)
}

// Set changes settings, given as name and text in turn: all of them or, with an error, none. The error's text is
// the reply of CONFIG SET without its code ERR.
func (c *Config) Set(pairs ...string) error { return c.set(true, pairs) }

// SetFor is Set for a client; local = the client is on this host. enable-protected-configs says whether the client
// may change protected settings.
func (c *Config) SetFor(local bool, pairs ...string) error {
	return c.set(c.MayNamePaths(local), pairs)
}

// MayNamePaths reports whether enable-protected-configs lets a client, on this host or not, name the paths to which
// the server writes.
func (c *Config) MayNamePaths(local bool) bool {
	mode := c.Text("enable-protected-configs")
	return mode == "yes" || mode == "local" && local
}

func (c *Config) set(protected bool, pairs []string) error {
	if len(pairs)%2 != 0 || len(pairs) == 0 {
		return errors.New("syntax error")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	// The order of Redis: first the names, in order, then the values. An immutable setting may be set to its present
	// value, so that a tool can write back all values that it has read.
	seen := map[int]bool{}
	for p := 0; p < len(pairs); p += 2 {
		s, i, ok := setting.Find(pairs[p])
		same := ok && s.Kind != setting.Multi && pairs[p+1] == old.text(i)
		target := i
		if i == redisLogLevel && !same {
			target = logLevel
		}
		switch {
		case !ok:
			return setting.ReplyError("Unknown option or number of arguments for CONFIG SET - '" + pairs[p] + "'")
		case !s.Dynamic && !same:
			return failed(pairs[p], errFixed)
		case s.Protected && !protected && !same:
			return failed(pairs[p], errProtected)
		case seen[i], seen[target]:
			return failed(pairs[p], errTwice)
		}
		seen[i], seen[target] = true, true
	}
	st := old.clone()
	var changed []change
	for p := 0; p < len(pairs); p += 2 {
		s, i, _ := setting.Find(pairs[p])
		if (!s.Dynamic || s.Protected || i == redisLogLevel) && pairs[p+1] == old.text(i) {
			continue
		}
		v, err := s.Parse(old.values[i].Text, pairs[p+1])
		if err != nil {
			return failed(pairs[p], err)
		}
		if i == redisLogLevel {
			st.set(i, v)
			i = logLevel
			if v, err = setting.Table[i].Parse("", setting.LogLevels[v.Text]); err != nil {
				panic(err) // every value of LogLevels is a level
			}
		}
		if v != old.values[i] || s.Volatile {
			st.set(i, v)
			changed = append(changed, change{pairs[p], i})
		}
	}
	for _, p := range changed {
		if err := st.checkChange(p.index); err != nil {
			return failed(p.name, err)
		}
	}
	return c.apply(old, st, changed)
}

// change is a setting that CONFIG SET changes, under the name that the client gave.
type change struct {
	name  string
	index int
}

// apply makes st the current state and calls the hooks of what has changed. The namespaces are moved last.
func (c *Config) apply(old, st *state, changed []change) error {
	c.state.Store(st)
	moved := ""
	type call struct {
		hook     Hook
		old, new string
	}
	var done []call
	undo := func(name string, err error) error {
		c.state.Store(old)
		for k := len(done) - 1; k >= 0; k-- {
			if back := done[k].hook(done[k].new, done[k].old); back != nil {
				err = fmt.Errorf("%w; restoring the old value failed too: %w", err, back)
			}
		}
		return failed(name, err)
	}
	for _, p := range changed {
		if p.index == replNamespaceEnabled {
			moved = p.name
		}
		for _, h := range c.hooks[p.index] {
			now := call{h, old.text(p.index), st.text(p.index)}
			if err := h(now.old, now.new); err != nil {
				return undo(p.name, err)
			}
			done = append(done, now)
		}
	}
	if moved != "" {
		if err := c.moveNamespaces(); err != nil {
			return undo(moved, err)
		}
	}
	return nil
}

// checkChange checks the rules between settings for a setting that changes at run time.
func (st *state) checkChange(i int) error {
	switch i {
	case requirePass, masterAuth:
		return st.checkPasswords()
	case checkerRange:
		return st.checkCheckerRange()
	case logRetentionDays:
		if strings.EqualFold(st.values[logDir].Text, "stdout") {
			return errors.New("can't set the 'log-retention-days' when the log dir is stdout")
		}
	}
	if err := st.checkRedis(i); err != nil {
		return err
	}
	switch setting.Table[i].Name {
	case "rocksdb.min_blob_size", "rocksdb.blob_file_size", "rocksdb.enable_blob_garbage_collection",
		"rocksdb.blob_garbage_collection_age_cutoff":
		if st.values[setting.Index("rocksdb.enable_blob_files")].Num == 0 {
			return errBlobFilesOff
		}
	case "rocksdb.max_bytes_for_level_base", "rocksdb.max_bytes_for_level_multiplier":
		if st.values[setting.Index("rocksdb.level_compaction_dynamic_level_bytes")].Num == 0 {
			return errDynamicLevelsOff
		}
	}
	return nil
}

func (st *state) checkCheckerRange() error {
	if st.values[checkerRange].Text != "" && st.values[checkerCron].Text != "" {
		return errors.New("compaction-checker-range cannot be set while compaction-checker-cron is set")
	}
	return nil
}

// checkPasswords checks that no password has two meanings.
func (st *state) checkPasswords() error {
	pass, auth := st.values[requirePass].Text, st.values[masterAuth].Text
	if pass == "" && len(st.tokens) > 0 {
		return errors.New("requirepass empty not allowed while the namespace exists")
	}
	for _, token := range st.tokens {
		switch token {
		case pass:
			return errors.New("requirepass is duplicated with namespace tokens")
		case auth:
			return errors.New("masterauth is duplicated with namespace tokens")
		}
	}
	return nil
}

// SetMaster records the argument of SLAVEOF, "host port" or "no one", so that [Config.Rewrite] keeps it.
func (c *Config) SetMaster(slaveof string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := setting.Table[slaveOf].Parse("", slaveof)
	if err != nil {
		return err
	}
	st := c.state.Load().clone()
	st.set(slaveOf, v)
	c.state.Store(st)
	return nil
}
