package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

// ErrNoFile is returned by [Config.Rewrite] when the settings did not come from a file.
var ErrNoFile error = setting.ReplyError("The server is running without a config file")

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
		return setting.ReplyError("Rewriting config file: " + err.Error())
	}
	return nil
}

func (c *Config) rewrite() error {
	old, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	st := c.state.Load()
	content := c.content(st)
	data, err := c.format.Rewrite(old, content)
	if err != nil {
		return err
	}
	if err := verify(c.format, data, content); err != nil {
		return err
	}
	return durable.Replace(c.file, data, 0o644)
}

// content returns the new content of the file.
func (c *Config) content(st *state) *conffile.Content {
	content := &conffile.Content{Values: st.values, Tokens: st.tokens, KeepUsers: c.presentUsers == nil}
	if st.values[replNamespaceEnabled].Num != 0 { // the namespaces are in the database
		content.Tokens = nil
	}
	if !content.KeepUsers {
		content.Users = c.presentUsers(st.values[requirePass].Text)
	}
	return content
}

// verify checks the content of a file before it is written.
func verify(f conffile.Format, data []byte, want *conffile.Content) error {
	entries, err := f.Entries(data)
	if err != nil {
		return err
	}
	d := NewDraft()
	for _, e := range entries {
		if err := d.Add("file", e, true); err != nil && !errors.Is(err, conffile.ErrUnknown) {
			return err
		}
	}
	d.derive()
	for i, v := range want.Values {
		if s := setting.Table[i]; s.Kind != setting.Multi && !s.Redis && d.st.values[i] != v {
			return fmt.Errorf("%s cannot be written", s.Name)
		}
	}
	if !maps.Equal(d.st.tokens, want.Tokens) {
		return errors.New("a namespace cannot be written")
	}
	if !want.KeepUsers && !sameUsers(d.c.users, want.Users) {
		return errors.New("a user cannot be written")
	}
	return nil
}

// sameUsers reports whether two lists have the same users, in any order.
func sameUsers(a, b []conffile.User) bool {
	for _, u := range b {
		if !slices.ContainsFunc(a, func(v conffile.User) bool {
			return v.Name == u.Name && slices.Equal(v.Rules, u.Rules)
		}) {
			return false
		}
	}
	return len(a) == len(b)
}
