package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/resp"
)

var streamGroupCommands = []Spec{
	{Name: "xgroup", Arity: -2, Sub: []Spec{
		{Name: "create", Handler: xgroupCreate, Arity: -5, Flags: Write | DenyOOM},
		{Name: "createconsumer", Handler: xgroupCreateConsumer, Arity: 5, Flags: Write | DenyOOM},
		{Name: "delconsumer", Handler: xgroupDelConsumer, Arity: 5, Flags: Write},
		{Name: "destroy", Handler: xgroupDestroy, Arity: 4, Flags: Write},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
		{Name: "setid", Handler: xgroupSetID, Arity: -5, Flags: Write},
	}},
	{Name: "xack", Handler: xack, Arity: -4, Flags: Write | Fast},
	{Name: "xnack", Handler: xnack, Arity: -7, Flags: Write | Fast},
	{Name: "xclaim", Handler: xclaim, Arity: -6, Flags: Write | Fast},
	{Name: "xautoclaim", Handler: xautoclaim, Arity: -6, Flags: Write | Fast},
	{Name: "xpending", Handler: xpending, Arity: -3, Flags: ReadOnly},
}

var (
	errEntriesRead    = engine.NewError("ERR", "value for ENTRIESREAD must be positive or -1")
	errClaimMinIdle   = engine.NewError("ERR", "Invalid min-idle-time argument for XCLAIM")
	errClaimIdle      = engine.NewError("ERR", "Invalid IDLE option argument for XCLAIM")
	errClaimTime      = engine.NewError("ERR", "Invalid TIME option argument for XCLAIM")
	errClaimRetries   = engine.NewError("ERR", "Invalid RETRYCOUNT option argument for XCLAIM")
	errAutoClaimIdle  = engine.NewError("ERR", "Invalid min-idle-time argument for XAUTOCLAIM")
	errAutoClaimCount = engine.NewError("ERR", "COUNT must be > 0")
	errNackMode       = engine.NewError("ERR", "mode must be SILENT, FAIL, or FATAL")
	errNackNumIDs     = engine.NewError("ERR", "numids must be a positive integer")
	errNackMatch      = engine.NewError("ERR", "number of IDs doesn't match numids")
	errNackRetries    = engine.NewError("ERR", "Invalid RETRYCOUNT value, must be >= 0")
	errNackIDs        = engine.NewError("ERR", "syntax error, expected IDS keyword")
)

// groupStart reads the options of XGROUP CREATE and SETID, behind the id.
func groupStart(c *Ctx, create bool) (o stream.GroupStart, mkStream bool, err error) {
	o.EntriesRead = stream.UnknownReads
	w := options{args: c.Args[5:]}
	for w.more() {
		switch {
		case create && w.flag("MKSTREAM", &mkStream):
		case w.int("ENTRIESREAD", &o.EntriesRead):
			w.check(o.EntriesRead >= 0 || o.EntriesRead == stream.UnknownReads, errEntriesRead)
		default:
			w.err = wrongSubcommand(c)
		}
	}
	return o, mkStream, w.err
}

func xgroupCreate(c *Ctx) error {
	o, mkStream, err := groupStart(c, true)
	if err != nil {
		return err
	}
	_, found, err := stream.About(c.Tx, c.Args[2])
	switch {
	case err != nil:
		return err
	case !found && !mkStream:
		return stream.ErrNoStream
	case len(c.Args) > 8:
		return wrongSubcommand(c)
	}
	if o.Last = string(c.Args[4]) == "$"; !o.Last {
		if o.ID, err = stream.ParseID(c.Args[4], 0); err != nil {
			return err
		}
	}
	return replyOK(c, stream.CreateGroup(c.Tx, c.Args[2], c.Args[3], o, mkStream))
}

// ofGroup returns the group that a subcommand of XGROUP names; with optional, nil when the stream has none of that
// name.
func ofGroup(c *Ctx, optional bool) (*stream.Group, error) {
	g, err := stream.OpenGroup(c.Tx, c.Args[2], c.Args[3])
	if err != nil || g != nil {
		return g, err
	}
	_, found, err := stream.About(c.Tx, c.Args[2])
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, stream.ErrNoStream
	case optional:
		return nil, nil
	}
	return nil, noGroup("No such consumer group '%s' for key name '%s'", c.Args[3], c.Args[2])
}

func xgroupSetID(c *Ctx) error {
	o, _, err := groupStart(c, false)
	if err != nil {
		return err
	}
	g, err := ofGroup(c, false)
	if err != nil {
		return err
	}
	if len(c.Args) > 7 {
		return wrongSubcommand(c)
	}
	if o.Last = string(c.Args[4]) == "$"; !o.Last {
		if o.ID, err = stream.ParseIDOrEnd(c.Args[4], 0); err != nil {
			return err
		}
	}
	g.SetStart(o)
	return replyOK(c, nil)
}

func xgroupDestroy(c *Ctx) error {
	g, err := ofGroup(c, true)
	if err != nil {
		return err
	}
	if g == nil {
		c.Out.Int(0)
		return nil
	}
	if err := g.Destroy(); err != nil {
		return err
	}
	c.Out.Int(1)
	return nil
}

func xgroupCreateConsumer(c *Ctx) error {
	g, err := ofGroup(c, false)
	if err != nil {
		return err
	}
	created, err := g.CreateConsumer(c.Args[4])
	return replyBool(c, created, err)
}

func xgroupDelConsumer(c *Ctx) error {
	g, err := ofGroup(c, false)
	if err != nil {
		return err
	}
	n, err := g.DeleteConsumer(c.Args[4])
	return replyInt(c, n, err)
}

func xack(c *Ctx) error {
	ids, invalid := parseStreamIDs(c.Args[3:])
	if invalid != nil { // counts only if the group exists
		g, err := stream.OpenGroup(c.Tx, c.Args[1], c.Args[2])
		if err != nil {
			return err
		}
		if g != nil {
			return invalid
		}
		c.Out.Int(0)
		return nil
	}
	n, err := stream.Ack(c.Tx, c.Args[1], c.Args[2], ids)
	return replyInt(c, n, err)
}

// xnack is XNACK key group mode IDS numids id ... [RETRYCOUNT n] [FORCE]. The options may come before IDS too.
func xnack(c *Ctx) error {
	g, err := keyGroup(c)
	if err != nil {
		return err
	}
	w := options{args: c.Args[3:]}
	var deliveries func(uint64) uint64
	switch {
	case w.is("SILENT"):
		deliveries = stream.Silent
	case w.is("FAIL"):
		deliveries = stream.Fail
	case w.is("FATAL"):
		deliveries = stream.Fatal
	default:
		return errNackMode
	}
	var words [][]byte
	var n, retries int64
	force := false
	for w.more() {
		switch {
		case w.intOr("IDS", &n, errNackNumIDs):
			w.check(n >= 1, errNackNumIDs)
			w.check(n <= int64(len(w.args)), errNackMatch)
			if w.err == nil {
				words, w.args = w.args[:n], w.args[n:]
			}
		case w.flag("FORCE", &force):
		case w.int("RETRYCOUNT", &retries):
			w.check(retries >= 0, errNackRetries)
			deliveries = func(uint64) uint64 { return uint64(retries) }
		default:
			w.err = errorf("Unrecognized XNACK option '%s'", cString(w.args[0]))
		}
	}
	w.check(words != nil, errNackIDs)
	if w.err != nil {
		return w.err
	}
	ids, err := parseStreamIDs(words)
	if err != nil {
		return err
	}
	nacked, err := g.Nack(ids, deliveries, force)
	return replyInt(c, nacked, err)
}

// keyGroup returns the group of commands whose first argument is the key.
func keyGroup(c *Ctx) (*stream.Group, error) {
	g, err := stream.OpenGroup(c.Tx, c.Args[1], c.Args[2])
	if err == nil && g == nil {
		err = noGroup("No such key '%s' or consumer group '%s'", c.Args[1], c.Args[2])
	}
	tellOfConsumers(c, g, c.Args[1])
	return g, err
}

// tellOfConsumers tells of the consumers that the group, which may be nil, gets because somebody asks for something in
// their names.
func tellOfConsumers(c *Ctx, g *stream.Group, key []byte) {
	if g != nil && c.Events != nil {
		g.OnNewConsumer = func() { c.Tell(EventStream, "xgroup-createconsumer", key) }
	}
}

func xclaim(c *Ctx) error {
	g, err := keyGroup(c)
	if err != nil {
		return err
	}
	minIdle, ok := ParseInt(c.Args[4])
	if !ok {
		return errClaimMinIdle
	}
	o := stream.ClaimOptions{MinIdle: max(minIdle, 0), Deliveries: -1}
	var ids []stream.ID
	i := 5
	for ; i < len(c.Args); i++ {
		id, err := stream.ParseID(c.Args[i], 0)
		if err != nil {
			break // the options begin
		}
		ids = append(ids, id)
	}
	if err := claimOptions(c.Args[i:], c.Tx.Clock(), &o); err != nil {
		return err
	}
	w := c.Out
	mark, n := w.Mark(), 0
	err = g.Claim(c.Args[3], ids, &o, func(id stream.ID, e *stream.Entry) {
		writeClaimed(w, id, e)
		n++
	})
	w.InsertArray(mark, n)
	return err
}

// writeClaimed writes an entry that was claimed, or with JUSTID its id.
func writeClaimed(w *resp.Writer, id stream.ID, e *stream.Entry) {
	if e == nil {
		writeID(w, id)
		return
	}
	writeEntry(w, e)
}

// claimOptions reads the options of XCLAIM behind the ids.
func claimOptions(args [][]byte, now int64, o *stream.ClaimOptions) error {
	delivered := int64(-1) // not given
	w := options{args: args}
	for w.more() {
		switch {
		case w.flag("FORCE", &o.Force):
		case w.flag("JUSTID", &o.JustID):
		case w.intOr("IDLE", &delivered, errClaimIdle):
			delivered = now - delivered
		case w.intOr("TIME", &delivered, errClaimTime):
		case w.intOr("RETRYCOUNT", &o.Deliveries, errClaimRetries):
		case w.has("LASTID", 1):
			o.LastID, w.err = stream.ParseID(w.next(), 0)
		default:
			w.err = errorf("Unrecognized XCLAIM option '%s'", cString(w.args[0]))
		}
	}
	if w.err != nil {
		return w.err
	}
	if delivered < 0 || delivered > now { // clients' clocks may differ
		delivered = now
	}
	o.Delivered = uint64(delivered)
	return nil
}

func xautoclaim(c *Ctx) error {
	minIdle, ok := ParseInt(c.Args[4])
	if !ok {
		return errAutoClaimIdle
	}
	o := stream.AutoClaimOptions{MinIdle: max(minIdle, 0)}
	var err error
	if o.From, err = stream.ParseStart(c.Args[5]); err != nil {
		return err
	}
	count := int64(100)
	w := options{args: c.Args[6:]}
	for w.more() {
		switch {
		case w.intOr("COUNT", &count, errAutoClaimCount):
			w.check(count >= 1 && count <= math.MaxInt64/16, errAutoClaimCount)
		case w.flag("JUSTID", &o.JustID):
		default:
			w.err = ErrSyntax
		}
	}
	if w.err != nil {
		return w.err
	}
	o.Count = uint64(count)
	g, err := keyGroup(c)
	if err != nil {
		return err
	}
	entries, n := resp.Writer{Proto: c.Out.Proto}, 0
	next, deleted, err := g.AutoClaim(c.Args[3], &o, func(id stream.ID, e *stream.Entry) {
		writeClaimed(&entries, id, e)
		n++
	})
	if err != nil {
		return err
	}
	c.Out.Array(3)
	writeID(c.Out, next)
	c.Out.Array(n)
	c.Out.Raw(entries.Bytes())
	c.Out.Array(len(deleted))
	for _, id := range deleted {
		writeID(c.Out, id)
	}
	return nil
}

func xpending(c *Ctx) error {
	args := c.Args[3:]
	if len(args) == 0 {
		return pendingSummary(c)
	}
	if len(args) < 3 || len(args) > 6 {
		return ErrSyntax
	}
	var o stream.PendingOptions
	var ok bool
	if EqualFold(args[0], "IDLE") {
		if o.MinIdle, ok = ParseInt(args[1]); !ok {
			return ErrNotInteger
		}
		if len(args) < 5 {
			return ErrSyntax
		}
		args = args[2:]
	}
	count, ok := ParseInt(args[2])
	if !ok {
		return ErrNotInteger
	}
	var err error
	if o.From, err = stream.ParseStart(args[0]); err != nil {
		return err
	}
	if o.To, err = stream.ParseEnd(args[1]); err != nil {
		return err
	}
	if len(args) > 3 {
		o.Consumer = args[3]
	}
	g, err := keyGroup(c)
	if err != nil {
		return err
	}
	if count <= 0 {
		c.Out.Array(0)
		return nil
	}
	o.Count = uint64(count)
	w := c.Out
	mark, n := w.Mark(), 0
	err = g.Each(o, func(p *stream.Pending) {
		w.Array(4)
		writeID(w, p.ID)
		w.Bulk(p.Consumer)
		w.Int(p.Idle)
		w.Int(int64(p.Deliveries))
		n++
	})
	w.InsertArray(mark, n)
	return err
}

func pendingSummary(c *Ctx) error {
	g, err := keyGroup(c)
	if err != nil {
		return err
	}
	p, err := g.Summary()
	if err != nil {
		return err
	}
	w := c.Out
	w.Array(4)
	w.Int(int64(p.Pending))
	if p.First == (stream.ID{}) {
		w.Null()
		w.Null()
		w.NullArray()
		return nil
	}
	writeID(w, p.First)
	writeID(w, p.Last)
	w.Array(len(p.Consumers))
	for _, x := range p.Consumers {
		w.Array(2)
		w.Bulk(x.Name)
		w.BulkInt(int64(x.Pending))
	}
	return nil
}
