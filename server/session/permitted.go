package session

import (
	"time"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/command"
)

// check compares a command with the permissions of a user. at is the index of the denied argument.
func (r *request) check(u *acl.User) (reason acl.Denied, at int) {
	var keys []acl.Key
	if u.NeedsKeys() {
		keys = r.spec.ACLKeys(nil, r.spec.AppendKeys(nil, r.args), r.args)
	}
	return u.Check(acl.ID(r.spec.ID), r.args, keys, r.spec.ACLChannels(r.args))
}

// denial is the entry of ACL LOG for a denied command.
func (c *conn) denial(u *acl.User, r *request, reason acl.Denied, at int) accounts.Event {
	e := accounts.Event{Reason: reason, Object: r.spec.FullName(), Username: u.Name(), Client: c.srv.Describe(c.sess.ID)}
	if reason == acl.DeniedKey || reason == acl.DeniedChannel {
		e.Object = string(r.args[at])
	}
	return e
}

// permitted checks the command of a blocked client against the present permissions of its user. It reads only fields
// that the connection does not change while it waits.
func (w *waiter) permitted() error {
	c := w.conn
	if c.sess.Account == nil || !c.sess.Authorized {
		return nil
	}
	u := c.sess.Account.User()
	if u.Unrestricted() {
		return nil
	}
	r := request{args: w.args, spec: w.spec}
	reason, at := r.check(u)
	if reason == acl.Allowed {
		return nil
	}
	c.srv.Auth.ACL().Log().Add(c.denial(u, &r, reason, at), time.Now())
	return command.Denial(reason, u, w.spec)
}

// permitted checks a command against the permissions of a restricted user.
func (c *run) permitted(u *acl.User, r *request) error {
	reason, at := r.check(u)
	if reason == acl.Allowed {
		return nil
	}
	inScript := c.frame.mode == scripted
	switch { // the last command, as in Redis: it need not run
	case inScript:
		c.info.lastCmd.Store(c.script.caller)
	case !c.inTx():
		c.info.lastCmd.Store(r.spec)
	}
	e := c.denial(u, r, reason, at)
	switch {
	case inScript:
		e.Context = accounts.Script
	case c.multi != nil || c.inTx():
		e.Context = accounts.Multi
	}
	c.srv.Auth.ACL().Log().Add(e, time.Now())
	if inScript {
		return command.ScriptDenial(reason, u, r.spec)
	}
	return command.Denial(reason, u, r.spec)
}
