package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/stream"
)

var streamRefCommands = []Spec{
	{Name: "xdelex", Handler: xdelEx, Arity: -5, Flags: Write | Fast},
	{Name: "xackdel", Handler: xackDel, Arity: -6, Flags: Write | Fast},
}

var (
	errNumIDs      = engine.NewError("ERR", "Number of IDs must be a positive integer")
	errNumIDsMatch = engine.NewError("ERR", "The `numids` parameter must match the number of arguments")
)

func takeRefs(o *options, to *stream.Refs) bool {
	switch {
	case o.is("KEEPREF"):
		*to = stream.KeepRefs
	case o.is("DELREF"):
		*to = stream.DeleteRefs
	case o.is("ACKED"):
		*to = stream.OnlyIfAcked
	default:
		return false
	}
	return true
}

// deleteOptions reads [KEEPREF | DELREF | ACKED] IDS numids id ..., whose parts may come in any order.
func deleteOptions(args [][]byte) (ids []stream.ID, refs stream.Refs, err error) {
	chosen := false
	var words [][]byte
	var n int64
	o := options{args: args}
	for o.more() {
		switch {
		case !chosen && takeRefs(&o, &refs):
			chosen = true
		case o.intOr("IDS", &n, errNumIDs):
			o.check(n >= 1, errNumIDs)
			o.check(n <= int64(len(o.args)), errNumIDsMatch)
			if o.err == nil {
				words, o.args = o.args[:n], o.args[n:]
			}
		default:
			o.err = ErrSyntax
		}
	}
	switch {
	case o.err != nil:
		return nil, 0, o.err
	case words == nil:
		return nil, 0, errorf("IDS option is required")
	}
	ids, err = parseStreamIDs(words)
	return ids, refs, err
}

func xdelEx(c *Ctx) error {
	ids, refs, err := deleteOptions(c.Args[2:])
	if err != nil {
		return err
	}
	list, err := stream.DeleteWithRefs(c.Tx, c.Args[1], ids, refs)
	return writeOutcomes(c, list, err)
}

func xackDel(c *Ctx) error {
	ids, refs, err := deleteOptions(c.Args[3:])
	if err != nil {
		return err
	}
	list, err := stream.AckDelete(c.Tx, c.Args[1], c.Args[2], ids, refs)
	return writeOutcomes(c, list, err)
}

func writeOutcomes(c *Ctx, list []stream.Outcome, err error) error {
	if err != nil {
		return err
	}
	deleted := false
	c.Out.Array(len(list))
	for _, o := range list {
		c.Out.Int(int64(o))
		deleted = deleted || o == stream.Deleted
	}
	if deleted {
		c.Tell(EventStream, "xdel", c.Args[1])
	}
	return nil
}
