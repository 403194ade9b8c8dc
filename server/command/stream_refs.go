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
	errNoIDs       = engine.NewError("ERR", "IDS option is required")
)

// setRefs sets what KEEPREF, DELREF or ACKED chooses; false for another word.
func setRefs(to *stream.Refs, b []byte) bool {
	switch {
	case EqualFold(b, "KEEPREF"):
		*to = stream.KeepRefs
	case EqualFold(b, "DELREF"):
		*to = stream.DeleteRefs
	case EqualFold(b, "ACKED"):
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
	for len(args) > 0 {
		switch {
		case !chosen && setRefs(&refs, args[0]):
			chosen = true
			args = args[1:]
		case len(args) > 1 && EqualFold(args[0], "IDS"):
			n, ok := ParseInt(args[1])
			if !ok || n < 1 {
				return nil, 0, errNumIDs
			}
			if args = args[2:]; n > int64(len(args)) {
				return nil, 0, errNumIDsMatch
			}
			words, args = args[:n], args[n:]
		default:
			return nil, 0, ErrSyntax
		}
	}
	if words == nil {
		return nil, 0, errNoIDs
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
