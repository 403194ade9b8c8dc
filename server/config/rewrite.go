package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// ErrNoFile is returned by [Config.Rewrite] when the settings did not come from a file.
var ErrNoFile error = replyError("The server is running without a config file")

// Rewrite writes the settings to the file that they came from, in its own grammar. Comments, unknown lines and the
// order stay; a value that has changed is replaced in its place, a key that is missing is added when its value is
// not the default. The new file is complete on disk before it takes the old one's name.
func (c *Config) Rewrite() error {
	if c.file == "" {
		return ErrNoFile
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.rewrite(); err != nil {
		return replyError("Rewriting config file: " + err.Error())
	}
	return nil
}

func (c *Config) rewrite() error {
	path := c.file
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	perm := fs.FileMode(0o644)
	old, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); statErr == nil {
		perm = info.Mode().Perm()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	st := c.state.Load()
	var data []byte
	users := c.usersForFile(st)
	if c.format == tomlFile {
		data, err = rewriteTOML(old, st, users)
	} else {
		data, err = rewriteConf(old, st, users)
	}
	if err != nil {
		return err
	}
	if err := verify(c.format, data, st, users); err != nil {
		return err
	}
	return replaceFile(path, data, perm)
}

// verify checks the content of a file before it is written.
func verify(f format, data []byte, want *state, users *fileUsers) error {
	entries, err := f.entries(data)
	if err != nil {
		return err
	}
	l := &loader{c: Default(), given: map[int]entry{}, files: map[int]string{}}
	l.st = l.c.state.Load().clone()
	for _, e := range entries {
		if err := l.add("file", e, true); err != nil && !errors.Is(err, errUnknown) {
			return err
		}
	}
	l.derive()
	for i, v := range want.values {
		if table[i].Kind != Multi && !table[i].Redis && l.st.values[i] != v {
			return fmt.Errorf("%s cannot be written", table[i].Name)
		}
	}
	if !maps.Equal(l.st.tokens, want.fileTokens()) {
		return errors.New("a namespace cannot be written")
	}
	return users.check(l.c.users)
}

// fileTokens returns the namespaces that belong in the file.
func (st *state) fileTokens() map[string]string {
	if st.values[replNamespaceEnabled].num != 0 {
		return map[string]string{}
	}
	return st.tokens
}

// replaceFile writes path.tmp, syncs it and gives it the name path.
func replaceFile(path string, data []byte, perm fs.FileMode) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(tmp)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// missing returns the settings that a file lacks and must have, because their values differ from the defaults of such
// a file. Settings that only Redis has are not written.
func missing(st *state, written map[int]bool) []int {
	var list []int
	for i, s := range table {
		def, _ := s.parse("", s.Default)
		if i == bind && st.values[unixSocket].text != "" {
			def = value{}
		}
		if !written[i] && s.Kind != Multi && !s.Redis && st.values[i] != def {
			list = append(list, i)
		}
	}
	return list
}

// inFile reports whether a string in a file means a value. Each string is compared as if it stood alone.
func inFile(s *Setting, text string, v value) bool {
	have, err := s.parse(s.Default, text)
	return err == nil && have == v
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
