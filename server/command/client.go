package command

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/engine"
)

// clientFlags are the flags of the subcommands of CLIENT. All are Solo: they see or change sessions.
const clientFlags = NoScript | Loading | Stale | Solo

var clientCommands = []Spec{{Name: "client", Arity: -2, Sub: []Spec{
	{Name: "id", Handler: clientID, Arity: 2, Flags: clientFlags},
	{Name: "getname", Handler: clientGetName, Arity: 2, Flags: clientFlags},
	{Name: "setname", Handler: clientSetName, Arity: 3, Flags: clientFlags},
	{Name: "setinfo", Handler: clientSetInfo, Arity: 4, Flags: clientFlags},
	{Name: "info", Handler: clientInfo, Arity: 2, Flags: clientFlags},
	{Name: "list", Handler: clientList, Arity: -2, Flags: clientFlags | Admin},
	{Name: "kill", Handler: clientKill, Arity: -3, Flags: clientFlags | Admin},
	{Name: "reply", Handler: clientReply, Arity: 3, Flags: clientFlags},
	{Name: "no-evict", Handler: clientNoEvict, Arity: 3, Flags: clientFlags | Admin},
	{Name: "no-touch", Handler: clientNoTouch, Arity: 3, Flags: clientFlags},
	{Name: "unblock", Handler: clientUnblock, Arity: -3, Flags: clientFlags | Admin},
	{Name: "pause", Handler: clientPause, Arity: -3, Flags: clientFlags | Admin | AdminOnly},
	{Name: "unpause", Handler: clientUnpause, Arity: 2, Flags: clientFlags | Admin | AdminOnly},
	{Name: "tracking", Handler: clientTracking, Arity: -3, Flags: clientFlags},
	{Name: "trackinginfo", Handler: clientTrackingInfo, Arity: 2, Flags: clientFlags},
	{Name: "caching", Handler: clientCaching, Arity: 3, Flags: clientFlags},
	{Name: "getredir", Handler: clientGetRedir, Arity: 2, Flags: clientFlags},
	{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
}}}

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
	return replyOK(c, nil)
}

func clientSetInfo(c *Ctx) error {
	var field *string
	switch {
	case EqualFold(c.Args[2], "LIB-NAME"):
		field = &c.Sess.LibName
	case EqualFold(c.Args[2], "LIB-VER"):
		field = &c.Sess.LibVer
	default:
		return errorf("Unrecognized option '%s'", echoed(c.Args[2]))
	}
	if !printable(c.Args[3]) {
		return errorf("%s cannot contain spaces, newlines or special characters.", c.Args[2])
	}
	*field = string(c.Args[3])
	return replyOK(c, nil)
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
	return replyOK(c, nil)
}

// clients returns all connections; the own connection includes the fields that only it knows.
func clients(c *Ctx) []ClientInfo {
	all := c.Srv.Clients.List()
	for n := range all {
		i := &all[n]
		if i.ID != c.Sess.ID {
			continue
		}
		for _, a := range c.Args {
			i.ArgvBytes += int64(len(a))
		}
		i.ReplyBuf, i.ReplyBytes = int64(c.Out.Cap()), int64(c.Out.Len())
		i.ReplyPeak = max(i.ReplyPeak, i.ReplyBytes)
	}
	return all
}

// visible returns the connections that the session may see: all of them for an administrator, else those of its
// own namespace.
func visible(c *Ctx) []ClientInfo {
	all := clients(c)
	if c.Sess.Admin {
		return all
	}
	return slices.DeleteFunc(all, func(i ClientInfo) bool { return i.Namespace != c.Sess.Namespace })
}

// clientInfo shows only the fields of Redis 7.2, because go-redis refuses fields that it does not know. CLIENT LIST,
// whose reply clients do not parse, shows all.
func clientInfo(c *Ctx) error {
	var b strings.Builder
	for _, i := range clients(c) {
		if i.ID == c.Sess.ID {
			i.line(&b, false)
		}
	}
	return replyVerbatim(c, b.String(), nil)
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
			if at, ok := slices.BinarySearchFunc(show, id, func(i ClientInfo,
				id int64) int {
				return cmp.Compare(i.ID, id)
			}); ok {
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
	return replyVerbatim(c, b.String(), nil)
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
	return "", errorf("Unknown client type '%s'", echoed(arg))
}

// killFilter says which connections CLIENT KILL closes: the connections that match all filters set.
type killFilter struct {
	id          int64
	addr, laddr string
	kind, user  string
	age         int64 // seconds, at least
	other       bool  // except the client that asks
}

func (f *killFilter) matches(i *ClientInfo) bool {
	return (f.id == 0 || i.ID == f.id) && (f.addr == "" || i.Addr == f.addr) && (f.laddr == "" || i.LAddr == f.laddr) &&
		(f.kind == "" || i.Type == f.kind) && (f.user == "" || i.User == f.user) && int64(i.Age.Seconds()) >= f.age
}

// clientKill knows the filters of Redis 7.2, and MAXAGE of 7.4, whose clients send it. If a filter is given twice,
// the last one counts.
func clientKill(c *Ctx) error {
	if len(c.Args) == 3 { // the old form: one address, which may be the client's own
		addr := string(c.Args[2])
		n := killClients(c, false, func(i *ClientInfo) bool { return i.Addr == addr })
		if n == 0 && !killLink(c, &killFilter{addr: addr}) {
			return engine.NewError("ERR", "No such client")
		}
		return replyOK(c, nil)
	}
	f, err := parseKill(c)
	if err != nil {
		return err
	}
	n := killClients(c, f.other, f.matches)
	if killLink(c, &f) {
		n++
	}
	return replyInt(c, n, nil)
}

// killLink closes the connection to the master if the filters that are set apply to it, and match. It has no entry in
// CLIENT LIST, as in Kvrocks.
func killLink(c *Ctx, f *killFilter) bool {
	applies := f.id == 0 && f.laddr == "" && f.user == "" && f.age == 0 && (f.kind == "" || f.kind == "master")
	return c.Sess.Admin && applies && c.Srv.Replication.Disconnect(f.addr)
}

var (
	errKillID  = engine.NewError("ERR", "client-id should be greater than 0")
	errKillAge = engine.NewError("ERR", "maxage should be greater than 0")
	errAge     = engine.NewError("ERR", "maxage is not an integer or out of range")
)

func parseKill(c *Ctx) (f killFilter, err error) {
	f.other = true
	o := options{args: c.Args[2:]}
	for o.more() {
		switch {
		case o.intOr("ID", &f.id, errKillID):
			o.check(f.id >= 1, errKillID)
		case o.has("TYPE", 1):
			f.kind, o.err = clientType(o.next())
		case o.has("ADDR", 1):
			f.addr = address(o.next())
		case o.has("LADDR", 1):
			f.laddr = address(o.next())
		case o.has("USER", 1):
			f.user = string(o.next())
			if c.Srv.Users.ACL().User(f.user) == nil {
				o.err = errorf("No such user '%s'", echoed([]byte(f.user)))
			}
		case o.intOr("MAXAGE", &f.age, errAge):
			o.check(f.age >= 1, errKillAge)
		case o.has("SKIPME", 1):
			f.other = o.is("YES")
			o.check(f.other || o.is("NO"), ErrSyntax)
		default:
			o.err = ErrSyntax
		}
	}
	return f, o.err
}

// address returns an address of a filter. The empty address, which no connection has, must not mean "no filter".
func address(value []byte) string {
	if len(value) == 0 {
		return "-"
	}
	return string(value)
}

// killClients closes the connections that match, and returns how many; the own connection closes after its reply.
func killClients(c *Ctx, skipMe bool, match func(*ClientInfo) bool) (n int) {
	list := visible(c)
	for i := range list {
		info := &list[i]
		switch {
		case !match(info):
		case info.ID != c.Sess.ID:
			if c.Srv.Clients.Close(info.ID) {
				n++
			}
		case !skipMe:
			c.Sess.Control.CloseAfterReply()
			n++
		}
	}
	return n
}

func (i *ClientInfo) InfoLine() string {
	var b strings.Builder
	i.line(&b, false)
	return strings.TrimSuffix(b.String(), "\n")
}

// TotalMem returns how many bytes the connection takes: its buffers, its queues, and the connection itself. (The
// arguments of a command are in the read buffer; the copies of a waiting command count as the connection's own.)
func (i *ClientInfo) TotalMem() int64 {
	return i.Overhead + i.QueryBuf + i.QueryFree + i.MultiBytes + i.ReplyBuf + i.OutputBytes
}

// line writes the line of CLIENT LIST. The fields are those of Redis 7.2 in its order, and if all is set also watch
// and the last three fields of newer versions, obuf of Kvrocks, and the namespace unless databases are configured.
//
// A connection has buffers only while it has something to do: qbuf and qbuf-free are 0 when nothing was received, rbs
// and obl (the bytes of replies that are ready but not on their way) are 0 for all but the client that asks. rbp is
// the longest reply of the last seconds, or the longest series of replies sent at once. argv-mem is that of the
// client that asks and of clients that wait for data or for the end of a pause.
//
// Flags are S replica, M master, P subscriber, O monitor, x in MULTI, b blocked, d a watched key has changed, t
// tracks keys, B in broadcasting mode, R to a connection that is gone, e no-evict, T no-touch, c closes after its
// replies, U of the Unix socket, N none of these.
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
	if all {
		number("watch", int64(i.Watch))
	}
	number("qbuf", i.QueryBuf)
	number("qbuf-free", i.QueryFree)
	number("argv-mem", i.ArgvBytes)
	number("multi-mem", i.MultiBytes)
	number("rbs", i.ReplyBuf)
	number("rbp", i.ReplyPeak)
	number("obl", i.ReplyBytes)
	number("oll", i.OutputList)
	number("omem", i.OutputBytes)
	if all {
		number("obuf", i.OutputBytes)
	}
	number("tot-mem", i.TotalMem())
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
