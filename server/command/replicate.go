package command

import (
	"strconv"

	"github.com/basaltdb/basalt/engine"
)

// The commands of Kvrocks with which external programs copy writes from the log of one server to another. The batches
// carry no namespaces, so both commands are for administrators. (In Kvrocks 2.10 all users may call them; in its
// newest sources all users may still call APPLYBATCH.)
var replicateCommands = []Spec{
	{Name: "applybatch", Handler: applyBatch, Arity: -2,
		Flags: Write | DenyOOM | Admin | NoScript | NoMulti | Solo | AdminOnly},
	{Name: "pollupdates", Handler: pollUpdates, Arity: -2,
		Flags: ReadOnly | Admin | NoScript | Solo | AdminOnly},
}

// applyBatch is APPLYBATCH batch [LOWPRI].
func applyBatch(c *Ctx) error {
	switch {
	case len(c.Args) > 3:
		return wrongArgs("applybatch")
	case len(c.Args) == 3 && !EqualFold(c.Args[2], "LOWPRI"):
		return engine.NewError("ERR", "only support LOWPRI option")
	}
	batch := c.Args[1]
	if err := c.Sess.Control.ApplyBatch(batch, len(c.Args) == 3); err != nil {
		return err
	}
	return replyInt(c, len(batch), nil)
}

// Bounds of a reply of POLLUPDATES. Kvrocks bounds only the number of batches, but one batch may hold the writes of a
// long pipeline.
const (
	defaultUpdates = 16
	mostUpdates    = 1000
	updatesBytes   = 8 << 20 // before they are written in hexadecimal
)

var (
	errUpdatesMost   = engine.NewError("ERR", "out of numeric range")
	errUpdatesFormat = engine.NewError("ERR", "invalid FORMAT option, only support RAW")
)

// pollUpdates is POLLUPDATES sequence [MAX n] [STRICT] [FORMAT RAW].
func pollUpdates(c *Ctx) error {
	seq, err := strconv.ParseUint(string(c.Args[1]), 10, 64)
	if err != nil {
		return ErrNotInteger
	}
	limit := engine.UpdatesLimit{Bytes: updatesBytes}
	batches := int64(defaultUpdates)
	o := options{args: c.Args[2:]}
	for o.more() {
		switch {
		case o.flag("STRICT", &limit.Strict):
		case o.int("MAX", &batches):
			o.check(batches >= 1 && batches <= mostUpdates, errUpdatesMost)
		case o.has("FORMAT", 1):
			o.check(o.is("RAW"), errUpdatesFormat)
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	limit.Batches = int(batches)
	u, err := c.Srv.DB.UpdatesAfter(seq, limit)
	if err != nil {
		return err
	}
	c.Out.Map(3)
	intField(c.Out, "latest_sequence", u.Latest)
	c.Out.BulkString("updates")
	c.Out.Array(len(u.Batches))
	for i, rep := range u.Batches {
		c.Out.Bulk(upperHex(rep))
		u.Batches[i] = nil
	}
	intField(c.Out, "next_sequence", u.Last)
	return nil
}

// upperHex returns bytes in hexadecimal, with capital letters, as in Kvrocks.
func upperHex(b []byte) []byte {
	const digits = "0123456789ABCDEF"
	text := make([]byte, 0, 2*len(b))
	for _, x := range b {
		text = append(text, digits[x>>4], digits[x&15])
	}
	return text
}
