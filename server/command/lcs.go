package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/str"
)

var lcsCommands = []Spec{
	{Name: "lcs", Handler: lcs, Arity: -3, Flags: ReadOnly | Single},
}

func lcs(c *Ctx) error {
	a, _, err := stringValue(c, c.Args[1])
	if err != nil {
		return lcsError(err)
	}
	b, _, err := stringValue(c, c.Args[2])
	if err != nil {
		return lcsError(err)
	}
	var length, index, withLen bool
	var minLen int64
	o := options{args: c.Args[3:]}
	for o.more() {
		switch {
		case o.flag("IDX", &index):
		case o.flag("LEN", &length):
		case o.flag("WITHMATCHLEN", &withLen):
		case o.int("MINMATCHLEN", &minLen):
		default:
			o.err = ErrSyntax
		}
	}
	switch {
	case o.err != nil:
		return o.err
	case length && index:
		return errorf("If you want both the length and indexes, please just use IDX.")
	case str.LCSCost(a, b) > uint64(c.Srv.Settings.MaxBulk()):
		return errorf("Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
	}
	c.Tx.ReadsDone()
	if length {
		return replyInt(c, str.LCSLen(a, b), nil)
	}
	common, parts := str.LCS(a, b)
	if !index {
		c.Out.Bulk(common)
		return nil
	}
	c.Out.Map(2)
	c.Out.BulkString("matches")
	mark, n := c.Out.Mark(), 0
	for _, p := range parts {
		if int64(p.Len()) < minLen {
			continue
		}
		n++
		if withLen {
			c.Out.Array(3)
		} else {
			c.Out.Array(2)
		}
		writePair(c, p.AStart, p.AEnd)
		writePair(c, p.BStart, p.BEnd)
		if withLen {
			c.Out.Int(int64(p.Len()))
		}
	}
	c.Out.InsertArray(mark, n)
	intField(c.Out, "len", len(common))
	return nil
}

// lcsError is the error of reading one of the values: LCS has its own error text for a key of another type.
func lcsError(err error) error {
	if err == engine.ErrWrongType {
		return errorf("The specified keys must contain string values")
	}
	return err
}

func writePair(c *Ctx, a, b int) {
	c.Out.Array(2)
	c.Out.Int(int64(a))
	c.Out.Int(int64(b))
}
