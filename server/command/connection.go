package command

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// defaultUser is the only user; the password selects the namespace.
const defaultUser = "default"

// RedisVersion is the version of Redis that clients see: they may expect its commands and replies.
const RedisVersion = "7.2.0"

var connectionCommands = []Spec{
	{Name: "ping", Handler: ping, Arity: -1, Flags: Fast},
	{Name: "echo", Handler: echo, Arity: 2, Flags: Loading | Stale | Fast},
	{Name: "auth", Handler: auth, Arity: -2, Flags: sessionFlags},
	{Name: "hello", Handler: hello, Arity: -1, Flags: sessionFlags},
	{Name: "quit", Handler: quit, Arity: -1, Flags: sessionFlags | NotQueued},
	{Name: "reset", Handler: reset, Arity: 1, Flags: sessionFlags | NotQueued},
}

// sessionFlags are the flags of the commands that set up a session.
const sessionFlags = NoScript | Loading | Stale | Fast | NoAuth | AllowBusy | Solo

var (
	errWrongPass = engine.NewError("WRONGPASS", "invalid username-password pair or user is disabled.")
	errNoPass    = engine.NewError("ERR",
		"AUTH <password> called without any password configured for the default user. Are you sure your configuration is "+
			"correct?")
	errHelloAuth = engine.NewError("NOAUTH",
		"HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option "+
			"can be used to authenticate the client and select the RESP protocol version at the same time")
	errNoProto   = engine.NewError("NOPROTO", "unsupported protocol version")
	errProtoText = engine.NewError("ERR", "Protocol version is not an integer or out of range")
	errName      = engine.NewError("ERR", "Client names cannot contain spaces, newlines or special characters.")
)

func ping(c *Ctx) error {
	if c.Out.Proto == 2 && len(c.Args) < 3 && c.Sess.Control != nil && c.Sess.Control.Subscribed() {
		c.Out.Array(2)
		c.Out.BulkString("pong")
		if len(c.Args) == 1 {
			c.Out.BulkString("")
		} else {
			c.Out.Bulk(c.Args[1])
		}
		return nil
	}
	switch len(c.Args) {
	case 1:
		c.Out.SimpleString("PONG")
	case 2:
		c.Out.Bulk(c.Args[1])
	default:
		return wrongArgs("ping")
	}
	return nil
}

func echo(c *Ctx) error {
	c.Out.Bulk(c.Args[1])
	return nil
}

func auth(c *Ctx) error {
	user, password := []byte(defaultUser), c.Args[1]
	switch len(c.Args) {
	case 2:
		if !c.Srv.Users.PasswordRequired() {
			return errNoPass
		}
	case 3:
		user, password = c.Args[1], c.Args[2]
	default:
		return ErrSyntax
	}
	return replyOK(c, login(c, user, password, string(c.Args[0])))
}

// login gives the session the rights of the user with this name and password. A failed login leaves the session as it
// was; by says which command it was.
func login(c *Ctx, user, password []byte, by string) error {
	id, ok := c.Srv.Users.Authenticate(user, password)
	if !ok {
		c.Srv.Users.AuthFailed(c.Sess, by, user)
		return errWrongPass
	}
	if id.Namespace == cf.DefaultNamespace && c.Srv.Settings.Databases() > 0 {
		// As in Redis, the database stays selected: a client may log in again on a connection that it keeps using.
		if _, ok := cf.NamespaceDatabase(c.Sess.Namespace); ok {
			id.Namespace = c.Sess.Namespace
		}
	}
	c.Sess.SetIdentity(id)
	return nil
}

func hello(c *Ctx) error {
	proto := int64(0)
	if len(c.Args) > 1 {
		n, ok := ParseInt(c.Args[1])
		if !ok {
			return errProtoText
		}
		if n < 2 || n > 3 {
			return errNoProto
		}
		proto = n
	}
	var user, password, name []byte
	var withAuth, withName bool
	o := options{args: c.Args[min(2, len(c.Args)):]}
	for o.more() {
		switch {
		case o.has("AUTH", 2):
			user, password, withAuth = o.next(), o.next(), true
		case o.value("SETNAME", &name):
			withName = true
			o.check(printable(name), errName)
		default:
			o.err = errorf("Syntax error in HELLO option '%s'", echoed(o.args[0]))
		}
	}
	if o.err != nil {
		return o.err
	}
	if withAuth {
		if err := login(c, user, password, string(c.Args[0])); err != nil {
			return err
		}
	}
	if !c.Sess.Authorized {
		return errHelloAuth
	}
	if withName {
		c.Sess.Name = string(name)
	}
	if v, ok := c.Srv.Settings.Get("resp3-enabled"); ok && v == "no" && proto == 3 {
		proto = 2 // as Kvrocks does, without an error
	}
	if proto != 0 {
		c.Sess.Control.SetProto(int(proto))
	}
	mode, role := "standalone", "master"
	if c.Srv.Cluster != nil {
		mode = "cluster"
	}
	if r := c.Srv.Replication; r != nil && r.IsReplica() {
		role = "replica"
	}
	c.Out.Map(7)
	stringField(c.Out, "server", "redis")
	stringField(c.Out, "version", RedisVersion)
	intField(c.Out, "proto", c.Sess.Proto)
	intField(c.Out, "id", c.Sess.ID)
	stringField(c.Out, "mode", mode)
	stringField(c.Out, "role", role)
	c.Out.BulkString("modules")
	c.Out.Array(0)
	return nil
}

func quit(c *Ctx) error {
	c.Sess.Control.CloseAfterReply()
	return replyOK(c, nil)
}

// reset keeps the library's name and version, which belong to the connection and not to its use.
func reset(c *Ctx) error {
	s := c.Sess
	s.Control.SetProto(2)
	s.Control.Discard()
	s.Control.UnsubscribeAll()
	s.Control.StopMonitor()
	s.Control.Untrack()
	s.Name, s.NoEvict, s.NoTouch = "", false, false
	s.ReadOnly, s.Asking, s.Relayed = false, false, false
	if s.ReplyMode == ReplyOff { // CLIENT REPLY SKIP is of this reply
		s.ReplyMode = ReplyOn
	}
	s.Namespace, s.Admin, s.Authorized, s.User = cf.DefaultNamespace, false, false, defaultUser
	s.Account = nil
	if id, ok := c.Srv.Users.Anonymous(); ok {
		s.SetIdentity(id)
	}
	c.Out.SimpleString("RESET")
	return nil
}

// printable reports whether a name can stand in the output of CLIENT LIST: no blanks, no control characters.
func printable(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < '!' || c > '~' })
}
