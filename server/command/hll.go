package command

import (
	"strings"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hll"
)

var hllCommands = []Spec{
	{Name: "pfadd", Handler: pfadd, Arity: -2, Flags: Write | DenyOOM | Fast},
	{Name: "pfcount", Handler: pfcount, Arity: -2, Flags: ReadOnly | MayReplicate | Repeatable},
	{Name: "pfmerge", Handler: pfmerge, Arity: -2, Flags: Write | DenyOOM, Keys: destinationAt(1)},
	{Name: "pfdebug", Handler: pfdebug, Arity: 3, Flags: Write | DenyOOM | Admin},
	{Name: "pfselftest", Handler: pfselftest, Arity: 1, Flags: Admin},
}

func pfadd(c *Ctx) error {
	changed, err := hll.Add(c.Tx, c.Args[1], c.Args[2:])
	return replyBool(c, changed, err)
}

func pfcount(c *Ctx) error {
	n, err := hll.Count(c.Tx, c.Args[1:]...)
	return replyInt(c, n, err)
}

func pfmerge(c *Ctx) error {
	return replyOK(c, hll.Merge(c.Tx, c.Args[1], c.Args[2:]...))
}

// pfdebug has the subcommands of Redis. The only encoding is the dense one.
func pfdebug(c *Ctx) error {
	values, found, err := hll.Values(c.Tx, c.Args[2])
	switch {
	case err != nil:
		return err
	case !found:
		return errorf("The specified key does not exist")
	}
	switch sub := c.Args[1]; {
	case EqualFold(sub, "GETREG"):
		c.Out.Array(len(values))
		for _, v := range values {
			c.Out.Int(int64(v))
		}
	case EqualFold(sub, "DECODE"):
		return errorf("HLL encoding is not sparse")
	case EqualFold(sub, "ENCODING"):
		c.Out.SimpleString("dense")
	case EqualFold(sub, "TODENSE"):
		c.Out.Int(0)
	default:
		return errorf("Unknown PFDEBUG subcommand '%s'", echoed(sub))
	}
	return nil
}

func pfselftest(c *Ctx) error {
	if err := hll.SelfTest(); err != nil {
		return engine.NewError("ERR", "TESTFAILED "+strings.TrimSpace(err.Error()))
	}
	return replyOK(c, nil)
}
