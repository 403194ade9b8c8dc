package config

import (
	"errors"
	"slices"

	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

var (
	errUserTwice    = setting.ReplyError("Duplicate user found. A user can only be defined once in config files")
	errUsersAndFile = errors.New("users are declared with user and by an aclfile; use one of them only")
)

// addUser adds a user's line; at is its position.
func (d *Draft) addUser(text string, at conffile.Error) error {
	u, err := conffile.ParseUser(text)
	if err == nil && slices.ContainsFunc(d.c.users, func(o conffile.User) bool { return o.Name == u.Name }) {
		err = errUserTwice
	}
	if err != nil {
		at.Err = err
		return &at
	}
	d.c.users, d.c.userAt = append(d.c.users, u), append(d.c.userAt, at)
	return nil
}

// Users returns the users that were declared at the start, in their order.
func (c *Config) Users() []conffile.User { return c.users }

// UserError gives an error the position of the declaration of the i-th of [Config.Users].
func (c *Config) UserError(i int, err error) error {
	e := c.userAt[i]
	e.Err = err
	return &e
}

// KeepUsers sets the users that [Config.Rewrite] writes to the file: the users that present returns, sorted by name.
// Without KeepUsers the users of the file stay. present is called with the settings locked and must not read them.
func (c *Config) KeepUsers(present func(requirePass string) []conffile.User) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.presentUsers = present
}
