package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/engine"
)

// clientFlags are the flags of the subcommands of CLIENT. All are Solo: they see or change sessions.
const clientFlags = NoScript | Loading | Stale | Solo

var clientCommands = []Spec{{
	Name: "client", Arity: -2, Group: "connection", Since: "2.4.0", Complexity: "Depends on the subcommand.",
	Summary: "Commands about connections.",
	Sub: []Spec{
		{Name: "id", Handler: clientID, Arity: 2, Flags: clientFlags, Group: "connection", Since: "5.0.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Returns the id of the connection."},
		{Name: "getname", Handler: clientGetName, Arity: 2, Flags: clientFlags, Group: "connection", Since: "2.6.9", Complexity: "O(1)",
			Categories: "@connection", Summary: "Returns the name of the connection."},
		{Name: "setname", Handler: clientSetName, Arity: 3, Flags: clientFlags, Group: "connection", Since: "2.6.9", Complexity: "O(1)",
			Categories: "@connection", Summary: "Names the connection."},
		{Name: "setinfo", Handler: clientSetInfo, Arity: 4, Flags: clientFlags, Group: "connection", Since: "7.2.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Notes the name or the version of the client library."},
		{Name: "info", Handler: clientInfo, Arity: 2, Flags: clientFlags, Group: "connection", Since: "6.2.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Describes the connection."},
		{Name: "list", Handler: clientList, Arity: -2, Flags: clientFlags | Admin, Group: "connection", Since: "2.4.0", Complexity: "O(N) with N connections",
			Categories: "@connection", Summary: "Lists the connections; outside the default namespace only those of the same namespace."},
		{Name: "kill", Handler: clientKill, Arity: -3, Flags: clientFlags | Admin, Group: "connection", Since: "2.4.0", Complexity: "O(N) with N connections",
			Categories: "@connection", Summary: "Closes connections; outside the default namespace only those of the same namespace."},
		{Name: "reply", Handler: clientReply, Arity: 3, Flags: clientFlags, Group: "connection", Since: "3.2.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Turns replies on or off, or skips the next one."},
		{Name: "no-evict", Handler: clientNoEvict, Arity: 3, Flags: clientFlags | Admin, Group: "connection", Since: "7.0.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Marks the connection as not to be evicted."},
		{Name: "no-touch", Handler: clientNoTouch, Arity: 3, Flags: clientFlags, Group: "connection", Since: "7.2.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Sets whether commands of the connection count as access to the keys."},
		{Name: "unblock", Handler: clientUnblock, Arity: -3, Flags: clientFlags | Admin, Group: "connection", Since: "5.0.0", Complexity: "O(log(N)) with N connections",
			Categories: "@connection", Summary: "Ends the wait of a connection in a command that blocks."},
		{Name: "pause", Handler: clientPause, Arity: -3, Flags: clientFlags | Admin | AdminOnly, Group: "connection", Since: "3.0.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Lets all clients wait for a time with their writes, or with all commands."},
		{Name: "unpause", Handler: clientUnpause, Arity: 2, Flags: clientFlags | Admin | AdminOnly, Group: "connection", Since: "6.2.0", Complexity: "O(N) with N paused clients",
			Categories: "@connection", Summary: "Ends the pause."},
		{Name: "tracking", Handler: clientTracking, Arity: -3, Flags: clientFlags, Group: "connection", Since: "6.0.0", Complexity: "O(N) with N prefixes",
			Categories: "@connection", Summary: "Sends messages when keys change that the connection has read, or that have a prefix."},
		{Name: "trackinginfo", Handler: clientTrackingInfo, Arity: 2, Flags: clientFlags, Group: "connection", Since: "6.2.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Describes the tracking of the connection."},
		{Name: "caching", Handler: clientCaching, Arity: 3, Flags: clientFlags, Group: "connection", Since: "6.0.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Says whether the keys of the next command are tracked."},
		{Name: "getredir", Handler: clientGetRedir, Arity: 2, Flags: clientFlags, Group: "connection", Since: "6.0.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Returns the connection that gets the messages of tracking."},
		{Name: "help", Handler: clientHelp, Arity: 2, Flags: Loading | Stale, Group: "connection", Since: "5.0.0", Complexity: "O(1)",
			Categories: "@connection", Summary: "Explains the subcommands."},
	},
}}

func init() { register(clientCommands...) }

func clientHelp(c *Ctx) error {
	writeHelp(c, "CLIENT",
		"CACHING (YES|NO)", "    Whether the keys of the next command are tracked, with OPTIN or OPTOUT.",
		"GETREDIR", "    The id of the connection that gets the messages of tracking; 0 = this one, -1 = tracking is off.",
		"GETNAME", "    The name of this connection.",
		"ID", "    The id of this connection.",
		"INFO", "    A line that describes this connection.",
		"KILL <ip:port>", "    Close the connection from that address.",
		"KILL <filter> <value> [<filter> <value> ...]", "    Close the connections to which all filters apply:",
		"    ID <id>, ADDR <ip:port>, LADDR <ip:port>, USER <name>,", "    TYPE (NORMAL|MASTER|REPLICA|PUBSUB), SKIPME (YES|NO)",
		"LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)|ID <id> [<id> ...]]", "    A line for each connection.",
		"NO-EVICT (ON|OFF)", "    Protect this connection from eviction.",
		"NO-TOUCH (ON|OFF)", "    Do not count accesses of this connection.",
		"PAUSE <milliseconds> [WRITE|ALL]", "    Let clients wait with their writes, or with all commands.",
		"REPLY (ON|OFF|SKIP)", "    Whether replies are sent.",
		"SETINFO (LIB-NAME|LIB-VER) <value>", "    Note the client library.",
		"SETNAME <name>", "    Name this connection.",
		"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]", "    Hear of changes of keys.",
		"TRACKINGINFO", "    How this connection tracks keys.",
		"UNPAUSE", "    End the pause.",
		"UNBLOCK <id> [TIMEOUT|ERROR]", "    End the wait of the connection with that id.")
	return nil
}

// writeHelp writes what the HELP subcommand of a container returns.
func writeHelp(c *Ctx, name string, lines ...string) {
	c.Out.Array(len(lines) + 3)
	c.Out.SimpleString(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, l := range lines {
		c.Out.SimpleString(l)
	}
	c.Out.SimpleString("HELP")
	c.Out.SimpleString("    This text.")
}

func clientID(c *Ctx) error {
	c.Out.Int(c.Sess.ID)
	return nil
}

func clientGetName(c *Ctx) error {
	if c.Sess.Name == "" {
		c.Out.Null()
	} else {
		c.Out.BulkString(c.Sess.Name)
	}
	return nil
}

func clientSetName(c *Ctx) error {
	if !printable(c.Args[2]) {
		return errName
	}
	c.Sess.Name = string(c.Args[2])
	c.Out.OK()
	return nil
}

func clientSetInfo(c *Ctx) error {
	var field *string
	switch {
	case EqualFold(c.Args[2], "LIB-NAME"):
		field = &c.Sess.LibName
	case EqualFold(c.Args[2], "LIB-VER"):
		field = &c.Sess.LibVer
	default:
		return engine.NewError("ERR", fmt.Sprintf("Unrecognized option '%s'", shorten(c.Args[2], echoed)))
	}
	if !printable(c.Args[3]) {
		return engine.NewError("ERR", fmt.Sprintf("%s cannot contain spaces, newlines or special characters.", c.Args[2]))
	}
	*field = string(c.Args[3])
	c.Out.OK()
	return nil
}

func clientReply(c *Ctx) error {
	switch {
	case EqualFold(c.Args[2], "ON"):
		c.Sess.ReplyMode = ReplyOn
		c.Out.OK()
	case EqualFold(c.Args[2], "OFF"):
		c.Sess.ReplyMode = ReplyOff
	case EqualFold(c.Args[2], "SKIP"):
		if c.Sess.ReplyMode != ReplyOff {
			c.Sess.ReplyMode = ReplySkip
		}
	default:
		return ErrSyntax
	}
	return nil
}

func clientNoEvict(c *Ctx) error { return onOff(c, &c.Sess.NoEvict) }

func clientNoTouch(c *Ctx) error { return onOff(c, &c.Sess.NoTouch) }

func onOff(c *Ctx, field *bool) error {
	switch {
	case EqualFold(c.Args[2], "ON"):
		*field = true
	case EqualFold(c.Args[2], "OFF"):
		*field = false
	default:
		return ErrSyntax
	}
	c.Out.OK()
	return nil
}

// visible returns the connections that the session may see: all of them for an administrator, else those of its
// own namespace.
func visible(c *Ctx) []ClientInfo {
	all := c.Srv.Clients()
	if c.Sess.Admin {
		return all
	}
	return slices.DeleteFunc(all, func(i ClientInfo) bool { return i.Namespace != c.Sess.Namespace })
}

// clientInfo shows the fields of Redis 7.2 and no others, because go-redis refuses those that it does not know. CLIENT
// LIST, whose reply clients do not parse, shows all.
func clientInfo(c *Ctx) error {
	var b strings.Builder
	for _, i := range c.Srv.Clients() {
		if i.ID == c.Sess.ID {
			i.line(&b, false)
		}
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

func clientList(c *Ctx) error {
	var kind string
	var err error
	show := visible(c)
	switch {
	case len(c.Args) == 2:
	case len(c.Args) == 4 && EqualFold(c.Args[2], "TYPE"):
		if kind, err = clientType(c.Args[3]); err != nil {
			return err
		}
		show = slices.DeleteFunc(show, func(i ClientInfo) bool { return i.Type != kind })
	case len(c.Args) > 3 && EqualFold(c.Args[2], "ID"):
		var chosen []ClientInfo
		for _, a := range c.Args[3:] {
			id, ok := ParseInt(a)
			if !ok {
				return engine.NewError("ERR", "Invalid client ID")
			}
			if at, ok := slices.BinarySearchFunc(show, id, func(i ClientInfo, id int64) int { return cmp.Compare(i.ID, id) }); ok {
				chosen = append(chosen, show[at])
			}
		}
		show = chosen
	default:
		return ErrSyntax
	}
	var b strings.Builder
	for i := range show {
		show[i].line(&b, true)
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

func clientType(arg []byte) (string, error) {
	for _, t := range []string{"normal", "pubsub", "master", "replica"} {
		if EqualFold(arg, t) {
			return t, nil
		}
	}
	if EqualFold(arg, "slave") {
		return "replica", nil
	}
	return "", engine.NewError("ERR", fmt.Sprintf("Unknown client type '%s'", shorten(arg, echoed)))
}

func clientKill(c *Ctx) error {
	type filter func(*ClientInfo) bool
	if len(c.Args) == 3 { // the old form: one address, and it may be one's own
		addr := string(c.Args[2])
		if killClients(c, false, func(i *ClientInfo) bool { return i.Addr == addr }) == 0 {
			return engine.NewError("ERR", "No such client")
		}
		c.Out.OK()
		return nil
	}
	var filters []filter
	skipMe := true
	for i := 2; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return ErrSyntax
		}
		opt, value := c.Args[i], string(c.Args[i+1])
		switch {
		case EqualFold(opt, "ID"):
			id, ok := ParseInt(c.Args[i+1])
			if !ok || id < 1 {
				return engine.NewError("ERR", "client-id should be greater than 0")
			}
			filters = append(filters, func(i *ClientInfo) bool { return i.ID == id })
		case EqualFold(opt, "TYPE"):
			kind, err := clientType(c.Args[i+1])
			if err != nil {
				return err
			}
			filters = append(filters, func(i *ClientInfo) bool { return i.Type == kind })
		case EqualFold(opt, "ADDR"):
			filters = append(filters, func(i *ClientInfo) bool { return i.Addr == value })
		case EqualFold(opt, "LADDR"):
			filters = append(filters, func(i *ClientInfo) bool { return i.LAddr == value })
		case EqualFold(opt, "USER"):
			if value != defaultUser {
				return engine.NewError("ERR", fmt.Sprintf("No such user '%s'", shorten(c.Args[i+1], echoed)))
			}
			filters = append(filters, func(i *ClientInfo) bool { return i.User == value })
		case EqualFold(opt, "MAXAGE"):
			age, ok := ParseInt(c.Args[i+1])
			if !ok {
				return engine.NewError("ERR", "maxage is not an integer or out of range")
			}
			if age < 1 {
				return engine.NewError("ERR", "maxage should be greater than 0")
			}
			filters = append(filters, func(i *ClientInfo) bool { return int64(i.Age.Seconds()) >= age })
		case EqualFold(opt, "SKIPME") && EqualFold(c.Args[i+1], "YES"):
			skipMe = true
		case EqualFold(opt, "SKIPME") && EqualFold(c.Args[i+1], "NO"):
			skipMe = false
		default:
			return ErrSyntax
		}
	}
	c.Out.Int(int64(killClients(c, skipMe, func(i *ClientInfo) bool {
		for _, f := range filters {
			if !f(i) {
				return false
			}
		}
		return true
	})))
	return nil
}

// killClients closes the connections that match, and returns how many; this one after its reply.
func killClients(c *Ctx, skipMe bool, match func(*ClientInfo) bool) (n int) {
	list := visible(c)
	for i := range list {
		info := &list[i]
		switch {
		case !match(info):
		case info.ID != c.Sess.ID:
			if c.Srv.CloseClient(info.ID) {
				n++
			}
		case !skipMe:
			c.Sess.Control.CloseAfterReply()
			n++
		}
	}
	return n
}

// Line returns the line of CLIENT LIST.
func (i *ClientInfo) Line() string {
	var b strings.Builder
	i.line(&b, true)
	return strings.TrimSuffix(b.String(), "\n")
}

// line writes the line of CLIENT LIST. The fields are those of Redis 7.2 in its order, but for argv-mem
// (arguments lie in qbuf) and the size of the reply buffer, and if all is set those that newer ones have, obuf of Kvrocks, and its namespace while there are no databases.
// Flags are S replica, M master, P subscriber, O monitor, x in MULTI, b blocked, d a watched key has changed,
// t tracks keys, B in broadcasting mode, R to a connection that is gone, e no-evict, T no-touch, c closes after its replies, U of the unix socket, N none of these.
func (i *ClientInfo) line(b *strings.Builder, all bool) {
	field := func(name, value string) {
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(value)
		b.WriteByte(' ')
	}
	number := func(name string, n int64) { field(name, strconv.FormatInt(n, 10)) }
	command := i.Command
	if command == "" {
		command = "NULL"
	}
	number("id", i.ID)
	field("addr", i.Addr)
	field("laddr", i.LAddr)
	number("fd", int64(i.FD))
	field("name", i.Name)
	number("age", int64(i.Age.Seconds()))
	number("idle", int64(i.Idle.Seconds()))
	field("flags", i.Flags)
	if all && !i.Databases {
		field("namespace", i.Namespace)
	}
	number("db", int64(i.DB))
	number("sub", int64(i.Sub))
	number("psub", int64(i.PSub))
	number("ssub", int64(i.SSub))
	number("multi", int64(i.Multi))
	number("watch", int64(i.Watch))
	number("qbuf", i.QueryBuf)
	number("qbuf-free", i.QueryFree)
	number("multi-mem", i.MultiBytes)
	number("obl", 0)
	number("oll", i.OutputList)
	number("omem", i.OutputBytes)
	if all {
		number("obuf", i.OutputBytes)
	}
	number("tot-mem", i.QueryBuf+i.QueryFree+i.MultiBytes+i.OutputBytes)
	field("events", i.Events)
	field("cmd", command)
	field("user", i.User)
	number("redir", i.Redirect)
	number("resp", int64(i.Proto))
	field("lib-name", i.LibName)
	b.WriteString("lib-ver=")
	b.WriteString(i.LibVer)
	if all {
		b.WriteByte(' ')
		number("tot-net-in", i.NetIn)
		number("tot-net-out", i.NetOut)
		b.WriteString("tot-cmds=")
		b.WriteString(strconv.FormatInt(i.Commands, 10))
	}
	b.WriteByte('\n')
}
