package command

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/acl"
)

const (
	aclFlags      = NoScript | Loading | Stale | Solo
	aclAdminFlags = aclFlags | Admin | AdminOnly
)

var aclCommands = []Spec{{Name: "acl", Arity: -2, Sub: []Spec{
	{Name: "cat", Handler: aclCat, Arity: -2, Flags: aclFlags},
	{Name: "deluser", Handler: aclDelUser, Arity: -3, Flags: aclAdminFlags},
	{Name: "dryrun", Handler: aclDryRun, Arity: -4, Flags: aclAdminFlags},
	{Name: "genpass", Handler: aclGenPass, Arity: -2, Flags: aclFlags},
	{Name: "getuser", Handler: aclGetUser, Arity: 3, Flags: aclAdminFlags},
	{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	{Name: "list", Handler: aclList, Arity: 2, Flags: aclAdminFlags},
	{Name: "load", Handler: aclLoad, Arity: 2, Flags: aclAdminFlags},
	{Name: "log", Handler: aclLog, Arity: -2, Flags: aclAdminFlags},
	{Name: "save", Handler: aclSave, Arity: 2, Flags: aclAdminFlags},
	{Name: "setuser", Handler: aclSetUser, Arity: -3, Flags: aclAdminFlags},
	{Name: "users", Handler: aclUsers, Arity: 2, Flags: aclAdminFlags},
	{Name: "whoami", Handler: aclWhoAmI, Arity: 2, Flags: aclFlags},
}}}

func aclCat(c *Ctx) error {
	t := ACLTable()
	switch len(c.Args) {
	case 2:
		writeBulks(c.Out, t.Categories())
	case 3:
		names, ok := t.InCategory(string(c.Args[2]))
		if !ok {
			return errorf("Unknown category '%s'", echoed(c.Args[2]))
		}
		writeBulks(c.Out, names)
	default:
		return wrongSubcommand(c)
	}
	return nil
}

func aclGenPass(c *Ctx) error {
	bits := int64(256)
	if len(c.Args) > 3 {
		return wrongSubcommand(c)
	}
	if len(c.Args) == 3 {
		n, ok := ParseInt(c.Args[2])
		if !ok {
			return ErrNotInteger
		}
		bits = n
	}
	if bits <= 0 || bits > acl.MaxPasswordBits {
		return errorf("ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d",
			acl.MaxPasswordBits)
	}
	c.Out.BulkString(acl.GeneratePassword(int(bits)))
	return nil
}

func aclWhoAmI(c *Ctx) error {
	c.Out.BulkString(c.Sess.User)
	return nil
}

func aclUsers(c *Ctx) error {
	s := c.Srv.Users.ACL()
	var names []string
	for _, u := range s.Users() {
		names = append(names, u.Name())
	}
	writeBulks(c.Out, names)
	return nil
}

func aclList(c *Ctx) error {
	writeBulks(c.Out, c.Srv.Users.ACL().Lines())
	return nil
}

func aclGetUser(c *Ctx) error {
	s := c.Srv.Users.ACL()
	u := s.User(string(c.Args[2]))
	if u == nil {
		c.Out.Null()
		return nil
	}
	w := c.Out
	fields := 6
	if u.Namespace() != "" {
		fields++
	}
	w.Map(fields)
	w.BulkString("flags")
	writeBulkSet(w, u.Flags())
	w.BulkString("passwords")
	writeBulks(c.Out, u.Passwords())
	permissions := u.Permissions()
	writePermissions(c, permissions[0])
	w.BulkString("selectors")
	w.Array(len(permissions) - 1)
	for _, p := range permissions[1:] {
		w.Map(3)
		writePermissions(c, p)
	}
	if u.Namespace() != "" {
		stringField(w, "namespace", u.Namespace())
	}
	return nil
}

// writePermissions writes three pairs.
func writePermissions(c *Ctx, p acl.Permissions) {
	for _, s := range []string{"commands", p.Commands, "keys", p.Keys, "channels", p.Channels} {
		c.Out.BulkString(s)
	}
}

func aclSetUser(c *Ctx) error {
	return replyOK(c, c.Srv.Users.ACL().SetUser(string(c.Args[2]), texts(c.Args[3:])...))
}

// texts copies arguments, which are valid only until the handler returns.
func texts(args [][]byte) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = string(a)
	}
	return out
}

func aclDelUser(c *Ctx) error {
	s := c.Srv.Users.ACL()
	gone, err := s.DeleteUsers(texts(c.Args[2:])...)
	if err != nil {
		return err
	}
	closeUsers(c, gone)
	return replyInt(c, len(gone), nil)
}

// closeUsers closes the connections of users; the own connection closes after its reply.
func closeUsers(c *Ctx, names []string) {
	if len(names) == 0 {
		return
	}
	for _, client := range c.Srv.Clients.List() {
		if client.ID != c.Sess.ID && slices.Contains(names, client.User) {
			c.Srv.Clients.Close(client.ID)
		}
	}
	if slices.Contains(names, c.Sess.User) {
		c.Sess.Control.CloseAfterReply()
	}
}

func aclLoad(c *Ctx) error {
	s := c.Srv.Users.ACL()
	gone, err := s.Load()
	if err != nil {
		return err
	}
	closeUsers(c, gone)
	return replyOK(c, nil)
}

func aclSave(c *Ctx) error {
	return replyOK(c, c.Srv.Users.ACL().Save())
}

func aclLog(c *Ctx) error {
	s := c.Srv.Users.ACL()
	count := int64(10)
	switch len(c.Args) {
	case 2:
	case 3:
		if EqualFold(c.Args[2], "RESET") {
			s.Log().Reset()
			return replyOK(c, nil)
		}
		n, ok := ParseInt(c.Args[2])
		if !ok {
			return ErrNotInteger
		}
		count = max(n, 0)
	default:
		return wrongSubcommand(c)
	}
	entries, now := s.Log().Entries(int(count)), time.Now()
	w := c.Out
	w.Array(len(entries))
	for _, e := range entries {
		w.Map(10)
		intField(w, "count", e.Count)
		for _, field := range []string{"reason", e.Reason.String(), "context", e.Context.String(), "object", e.Object,
			"username", e.Username, "age-seconds"} {
			w.BulkString(field)
		}
		w.Double(float64(now.Sub(e.Updated).Milliseconds()) / 1000)
		stringField(w, "client-info", e.Client)
		intField(w, "entry-id", e.ID)
		intField(w, "timestamp-created", e.Created.UnixMilli())
		intField(w, "timestamp-last-updated", e.Updated.UnixMilli())
	}
	return nil
}

func aclDryRun(c *Ctx) error {
	s := c.Srv.Users.ACL()
	u := s.User(string(c.Args[2]))
	if u == nil {
		return errorf("User '%s' not found", cString(c.Args[2]))
	}
	args := c.Args[3:]
	spec, err := c.Srv.Table.Resolve(args)
	if err != nil {
		if e, ok := errors.AsType[*engine.Error](err); ok && strings.HasPrefix(e.Text, "wrong number of arguments") {
			return err
		}
		return errorf("Command '%s' not found", cString(args[0]))
	}
	keys := spec.ACLKeys(nil, spec.AppendKeys(nil, args), args)
	reason, at := u.Check(acl.ID(spec.ID), args, keys, spec.ACLChannels(args))
	if reason == acl.Allowed {
		return replyOK(c, nil)
	}
	c.Out.BulkString(reason.Text(u.Name(), spec.FullName(), string(args[at])))
	return nil
}

// mayReadAllKeys reports whether the user may read keys that the arguments of the command do not name.
func mayReadAllKeys(c *Ctx) bool {
	if c.Sess.Account == nil {
		return true
	}
	u := c.Sess.Account.User()
	return u.Unrestricted() || u.MayReadAllKeys(acl.ID(c.Spec.ID), c.Args,
		c.Spec.ACLKeys(nil, c.Spec.AppendKeys(nil, c.Args), c.Args))
}

// Denial is the error for a command that a user may not run.
func Denial(reason acl.Denied, u *acl.User, s *Spec) error {
	return engine.NewError("NOPERM", reason.Reply(u.Name(), s.FullName()))
}

// ScriptDenial is Denial for a command that a script calls.
func ScriptDenial(reason acl.Denied, u *acl.User, s *Spec) error {
	return engine.NewError("ERR", "ACL failure in script: "+reason.Reply(u.Name(), s.FullName()))
}
