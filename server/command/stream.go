package command

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/resp"
)

var streamCommands = []Spec{
	{Name: "xadd", Handler: xadd, Arity: -5, Flags: Write | DenyOOM | Fast},
	{Name: "xlen", Handler: xlen, Arity: -2, Flags: ReadOnly | Fast | Single},
	{Name: "xrange", Handler: xrange, Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "xrevrange", Handler: xrange, Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "xdel", Handler: xdel, Arity: -3, Flags: Write | Fast},
	{Name: "xtrim", Handler: xtrim, Arity: -4, Flags: Write},
	{Name: "xsetid", Handler: xsetid, Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "xcfgset", Handler: xcfgset, Arity: -2, Flags: Write | Fast},
}

var (
	errTrimTwice    = engine.NewError("ERR", "syntax error, MAXLEN and MINID options at the same time are not compatible")
	errMaxLen       = engine.NewError("ERR", "The MAXLEN argument must be >= 0.")
	errTrimLimit    = engine.NewError("ERR", "The LIMIT argument must be >= 0.")
	errLimitNoTrim  = engine.NewError("ERR", "syntax error, LIMIT cannot be used without specifying a trimming strategy")
	errNoTrim       = engine.NewError("ERR", "syntax error, XTRIM must be called with a trimming strategy")
	errLimitExact   = engine.NewError("ERR", "syntax error, LIMIT cannot be used without the special ~ option")
	errEntriesAdded = engine.NewError("ERR", "entries_added must be positive")

	errIDMPTwice    = engine.NewError("ERR", "IDMP/IDMPAUTO specified multiple times")
	errIDMPWithID   = engine.NewError("ERR", "IDMP/IDMPAUTO can be used only with auto-generated IDs")
	errIDMPProducer = engine.NewError("ERR", "IDMP requires a non-empty producer ID")
	errIDMPEmpty    = engine.NewError("ERR", "IDMP requires a non-empty idempotent ID")
	errAutoProducer = engine.NewError("ERR", "IDMPAUTO requires a non-empty producer ID")
	errNoIDMP       = engine.NewError("ERR", "At least one parameter must be specified")
	errIDMPDuration = engine.NewError("ERR",
		fmt.Sprintf("IDMP-DURATION must be between 1 and %d seconds", stream.MaxIdempotenceDuration))
	errIDMPSize = engine.NewError("ERR",
		fmt.Sprintf("IDMP-MAXSIZE must be between 1 and %d entries", stream.MaxIdempotenceSize))
)

// defaultTrimLimit is how many entries an inexact trim removes at most when no LIMIT is given.
const defaultTrimLimit = 100 * stream.TrimNode

// trimOptions reads the options of XADD and XTRIM. at is the index of the first argument after them: in XADD, of the
// one behind the id.
//
// A master has put = in the place of ~, and left LIMIT, which means nothing then.
func trimOptions(args [][]byte, xadd, fromMaster bool) (o stream.AddOptions, at int, err error) {
	limited, refs, withID := false, false, false
	limit := int64(0)
	t := &o.Trim
	w := options{args: args[2:]}
	// threshold takes what may stand between the name of a strategy and its value.
	threshold := func(by stream.TrimBy) []byte {
		w.check(t.By == stream.TrimNone, errTrimTwice)
		t.By = by
		if len(w.args) > 1 && !w.is("=") {
			w.flag("~", &t.Approx)
		}
		return w.next()
	}
	for w.more() && !withID {
		switch {
		case w.has("MINID", 1):
			t.MinID, err = stream.ParseID(threshold(stream.TrimMinID), 0)
			w.fail(err)
		case w.has("MAXLEN", 1):
			n, ok := ParseInt(threshold(stream.TrimMaxLen))
			w.check(ok, ErrNotInteger)
			w.check(n >= 0, errMaxLen)
			t.MaxLen = uint64(n)
		case w.int("LIMIT", &limit):
			w.check(limit >= 0, errTrimLimit)
			t.Limit, limited = uint64(limit), true
		case !refs && takeRefs(&w, &t.Refs):
			refs = true
		case xadd && w.flag("NOMKSTREAM", &o.NoCreate):
		case xadd && w.has("IDMP", 2):
			w.check(o.Producer == nil, errIDMPTwice)
			o.Producer, o.IID = w.next(), w.next()
			w.check(len(o.Producer) > 0, errIDMPProducer)
			w.check(len(o.IID) > 0, errIDMPEmpty)
		case xadd && w.has("IDMPAUTO", 1):
			w.check(o.Producer == nil, errIDMPTwice)
			o.Producer = w.next()
			w.check(len(o.Producer) > 0, errAutoProducer)
		case xadd:
			o.NewID, w.err = stream.ParseNewID(w.next())
			withID = true
		default:
			w.err = ErrSyntax
		}
	}
	switch {
	case w.err != nil:
		return o, 0, w.err
	case o.Producer != nil && o.Auto != stream.AutoID && !fromMaster:
		return o, 0, errIDMPWithID
	case t.Limit > 0 && t.By == stream.TrimNone:
		return o, 0, errLimitNoTrim
	case !xadd && t.By == stream.TrimNone:
		return o, 0, errNoTrim
	case limited && !t.Approx && fromMaster:
		t.Limit = 0
	case limited && !t.Approx:
		return o, 0, errLimitExact
	case !limited && t.Approx:
		t.Limit = defaultTrimLimit
	}
	return o, len(args) - len(w.args), nil
}

func xadd(c *Ctx) error {
	o, at, err := trimOptions(c.Args, true, c.Tx.IsFromMaster())
	if err != nil {
		return err
	}
	if n := len(c.Args) - at; n < 2 || n%2 != 0 {
		return wrongArgs(c.Spec.FullName())
	}
	if o.Producer != nil && o.IID == nil {
		o.IID = stream.ContentIID(c.Args[at:])
	}
	id, added, err := stream.Add(c.Tx, c.Args[1], c.Args[at:], &o)
	if err != nil {
		return err
	}
	if added {
		if !o.Duplicate {
			c.Tell(EventStream, "xadd", c.Args[1])
		}
		if o.Trimmed {
			c.Tell(EventStream, "xtrim", c.Args[1])
		}
		writeID(c.Out, id)
	} else {
		c.Out.Null()
	}
	return nil
}

func writeID(w *resp.Writer, id stream.ID) {
	var buf [48]byte
	w.Bulk(stream.AppendID(buf[:0], id))
}

// writeEntry writes an entry: its id and the array of its fields and values.
func writeEntry(w *resp.Writer, e *stream.Entry) { writeLongEntry(w, e, 2) }

// writeLongEntry writes an entry as an array of so many elements. The caller writes those after the first two.
func writeLongEntry(w *resp.Writer, e *stream.Entry, elements int) {
	w.Array(elements)
	writeID(w, e.ID)
	w.Array(e.Len())
	for s, ok := e.Next(); ok; s, ok = e.Next() {
		w.Bulk(s)
	}
}

// xlen is XLEN, and Kvrocks's XLEN key id [+ | -]: how many entries are after or before an id. The metadata record and
// the entries may then be of different times, as no lock is held: a stream that goes meanwhile counts as empty.
func xlen(c *Ctx) error {
	n, err := uint64(0), error(nil)
	switch count := stream.LenAfter; {
	case len(c.Args) == 2:
		n, err = stream.Len(c.Tx, c.Args[1])
	case len(c.Args) > 4:
		return wrongArgs("xlen")
	default:
		id, e := stream.ParseID(c.Args[2], 0)
		if e != nil {
			return e
		}
		if len(c.Args) == 4 {
			switch string(c.Args[3]) {
			case "+":
			case "-":
				count = stream.LenBefore
			default:
				return ErrSyntax
			}
		}
		n, err = count(c.Tx, c.Args[1], id)
	}
	return replyInt(c, n, err)
}

func xrange(c *Ctx) error {
	start, end := c.Args[2], c.Args[3]
	reverse := c.Spec.Name == "xrevrange"
	if reverse {
		start, end = end, start
	}
	from, err := stream.ParseStart(start)
	if err != nil {
		return err
	}
	to, err := stream.ParseEnd(end)
	if err != nil {
		return err
	}
	count, counted := int64(0), false
	w := options{args: c.Args[4:]}
	for w.more() {
		counted = w.int("COUNT", &count)
		w.check(counted, ErrSyntax)
	}
	if w.err != nil {
		return w.err
	}
	if counted && count <= 0 {
		rec, err := c.Tx.Load(c.Args[1], cf.TypeStream)
		switch {
		case err != nil:
			return err
		case rec.Exists:
			c.Out.NullArray()
		default:
			c.Out.Array(0)
		}
		return nil
	}
	o := stream.RangeOptions{From: from, To: to, Reverse: reverse, Count: uint64(count), LastRead: true}
	mark, n := c.Out.Mark(), 0
	err = stream.Range(c.Tx, c.Args[1], o, func(e *stream.Entry) {
		writeEntry(c.Out, e)
		n++
	})
	c.Out.InsertArray(mark, n)
	return err
}

// parseStreamIDs parses IDs; all of them must be valid.
func parseStreamIDs(args [][]byte) ([]stream.ID, error) {
	ids := make([]stream.ID, len(args))
	for i, a := range args {
		var err error
		if ids[i], err = stream.ParseID(a, 0); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func xdel(c *Ctx) error {
	rec, err := c.Tx.Load(c.Args[1], cf.TypeStream)
	if err != nil {
		return err
	}
	if !rec.Exists { // Redis does not check the IDs then
		c.Out.Int(0)
		return nil
	}
	ids, err := parseStreamIDs(c.Args[2:])
	if err != nil {
		return err
	}
	n, err := stream.Delete(c.Tx, c.Args[1], ids)
	return replyInt(c, n, err)
}

func xtrim(c *Ctx) error {
	o, _, err := trimOptions(c.Args, false, c.Tx.IsFromMaster())
	if err != nil {
		return err
	}
	n, err := stream.TrimOld(c.Tx, c.Args[1], &o.Trim)
	return replyInt(c, n, err)
}

func xsetid(c *Ctx) error {
	id, err := stream.ParseID(c.Args[2], 0)
	if err != nil {
		return err
	}
	var o stream.SetIDOptions
	var added int64
	w := options{args: c.Args[3:]}
	for w.more() {
		switch {
		case w.int("ENTRIESADDED", &added):
			w.check(added >= 0, errEntriesAdded)
			o.EntriesAdded, o.SetEntriesAdded = uint64(added), true
		case w.has("MAXDELETEDID", 1):
			o.MaxDeleted, w.err = stream.ParseID(w.next(), 0)
			w.check(id.Compare(o.MaxDeleted) >= 0, stream.ErrSetIDBelowDeleted)
		default:
			w.err = ErrSyntax
		}
	}
	if w.err != nil {
		return w.err
	}
	return replyOK(c, stream.SetID(c.Tx, c.Args[1], id, o))
}

func xcfgset(c *Ctx) error {
	var duration, size int64
	w := options{args: c.Args[2:]}
	w.check(w.more(), errNoIDMP)
	for w.more() {
		switch {
		case w.int("IDMP-DURATION", &duration):
			w.check(duration >= 1 && duration <= stream.MaxIdempotenceDuration, errIDMPDuration)
		case w.int("IDMP-MAXSIZE", &size):
			w.check(size >= 1 && size <= stream.MaxIdempotenceSize, errIDMPSize)
		default:
			w.err = ErrSyntax
		}
	}
	if w.err != nil {
		return w.err
	}
	found, err := stream.SetIdempotence(c.Tx, c.Args[1], uint64(duration), uint64(size))
	if err == nil && !found {
		err = ErrNoSuchKey
	}
	return replyOK(c, err)
}
