package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bloom"
)

var bloomCommands = []Spec{
	{Name: "bf.reserve", Handler: bfReserve, Arity: -4, Flags: Write | DenyOOM | Fast},
	{Name: "bf.add", Handler: bfAdd, Arity: 3, Flags: Write | DenyOOM},
	{Name: "bf.madd", Handler: bfMAdd, Arity: -3, Flags: Write | DenyOOM},
	{Name: "bf.insert", Handler: bfInsert, Arity: -4, Flags: Write | DenyOOM},
	{Name: "bf.exists", Handler: bfExists, Arity: 3, Flags: ReadOnly | Fast},
	{Name: "bf.mexists", Handler: bfMExists, Arity: -3, Flags: ReadOnly | Fast},
	{Name: "bf.info", Handler: bfInfo, Arity: -2, Flags: ReadOnly | Fast | Single},
	{Name: "bf.card", Handler: bfCard, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "bf.scandump", Handler: bfScanDump, Arity: 3, Flags: ReadOnly},
	{Name: "bf.loadchunk", Handler: bfLoadChunk, Arity: 4, Flags: Write | DenyOOM},
}

// The error texts are those of Kvrocks.
var (
	errBadErrorRate     = engine.NewError("ERR", "Bad error rate")
	errBadCapacity      = engine.NewError("ERR", "Bad capacity")
	errBadExpansion     = engine.NewError("ERR", "Bad expansion")
	errErrorRateRange   = engine.NewError("ERR", "error rate should be between 0 and 1")
	errZeroCapacity     = engine.NewError("ERR", "capacity should be larger than 0")
	errZeroExpansion    = engine.NewError("ERR", "expansion should be greater or equal to 1")
	errNonscalingExpand = engine.NewError("ERR", "nonscaling filters cannot expand")
	errNoItems          = engine.NewError("ERR", "num of items should be greater than 0")
	errIterator         = engine.NewError("ERR", "Second argument must be numeric")
	errInfoField        = engine.NewError("ERR", "Invalid info argument")
)

// errFilterFull is what an item gets that a filter does not take any more.
var errFilterFull = engine.NewError("ERR", "nonscaling filter is full")

func parseErrorRate(b []byte, o *bloom.Options) error {
	rate, ok := ParseFloat(b)
	if !ok {
		return errBadErrorRate
	}
	if rate <= 0 || rate >= 1 {
		return errErrorRateRange
	}
	o.ErrorRate = rate
	return nil
}

func parseCapacity(b []byte, o *bloom.Options) error {
	n, ok := ParseInt(b)
	if !ok || n < 0 || n > math.MaxUint32 {
		return errBadCapacity
	}
	if n == 0 {
		return errZeroCapacity
	}
	o.Capacity = uint32(n)
	return nil
}

// bloomOptions reads the options of BF.RESERVE and BF.INSERT that say how a filter grows.
type bloomOptions struct {
	bloom.Options
	nonscaling, expansion bool
}

// take reads the option at the front of args and returns how many arguments it has taken, 0 when it is none of
// these options.
func (o *bloomOptions) take(args [][]byte) (int, error) {
	switch {
	case EqualFold(args[0], "NONSCALING"):
		o.nonscaling = true
		return 1, nil
	case EqualFold(args[0], "EXPANSION"):
		if len(args) < 2 {
			return 0, errBadExpansion
		}
		n, ok := ParseInt(args[1])
		if !ok || n < 0 || n > math.MaxUint16 {
			return 0, errBadExpansion
		}
		if n == 0 {
			return 0, errZeroExpansion
		}
		o.expansion, o.Expansion = true, uint16(n)
		return 2, nil
	}
	return 0, nil
}

// done checks the options against each other.
func (o *bloomOptions) done() error {
	if o.nonscaling {
		if o.expansion {
			return errNonscalingExpand
		}
		o.Expansion = 0
	}
	return nil
}

func bfReserve(c *Ctx) error {
	o := bloomOptions{Options: bloom.DefaultOptions}
	if err := parseErrorRate(c.Args[2], &o.Options); err != nil {
		return err
	}
	if err := parseCapacity(c.Args[3], &o.Options); err != nil {
		return err
	}
	for rest := c.Args[4:]; len(rest) > 0; {
		n, err := o.take(rest)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrSyntax
		}
		rest = rest[n:]
	}
	if err := o.done(); err != nil {
		return err
	}
	return replyOK(c, bloom.Reserve(c.Tx, c.Args[1], o.Options))
}

// writeAdded writes what became of an item: true or false in RESP3, 1 or 0 in RESP2, or an error.
func writeAdded(c *Ctx, r bloom.Result) {
	if r == bloom.Full {
		WriteError(c.Out, errFilterFull)
		return
	}
	c.Out.Bool(r == bloom.Added)
}

func bfAdd(c *Ctx) error {
	full := false
	err := bloom.Add(c.Tx, c.Args[1], c.Args[2:], &bloom.DefaultOptions, func(r bloom.Result) {
		if full = r == bloom.Full; !full {
			writeAdded(c, r)
		}
	})
	if err == nil && full {
		err = errFilterFull
	}
	return err
}

// bfAddAll adds items; each of them has its element in the reply.
func bfAddAll(c *Ctx, items [][]byte, create *bloom.Options) error {
	c.Out.Array(len(items))
	return bloom.Add(c.Tx, c.Args[1], items, create, func(r bloom.Result) { writeAdded(c, r) })
}

func bfMAdd(c *Ctx) error { return bfAddAll(c, c.Args[2:], &bloom.DefaultOptions) }

func bfInsert(c *Ctx) error {
	o := bloomOptions{Options: bloom.DefaultOptions}
	create := &o.Options
	for rest := c.Args[2:]; len(rest) > 0; {
		n, err := o.take(rest)
		switch {
		case err != nil:
			return err
		case n > 0:
		case EqualFold(rest[0], "CAPACITY"):
			if n = 2; len(rest) < n {
				return errBadCapacity
			}
			err = parseCapacity(rest[1], &o.Options)
		case EqualFold(rest[0], "ERROR"):
			if n = 2; len(rest) < n {
				return errBadErrorRate
			}
			err = parseErrorRate(rest[1], &o.Options)
		case EqualFold(rest[0], "NOCREATE"):
			create, n = nil, 1
		case EqualFold(rest[0], "ITEMS"):
			if err := o.done(); err != nil {
				return err
			}
			if len(rest) == 1 {
				return errNoItems
			}
			return bfAddAll(c, rest[1:], create)
		default:
			return ErrSyntax
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	if err := o.done(); err != nil {
		return err
	}
	return ErrSyntax
}

func bfExists(c *Ctx) error { return bloom.Exists(c.Tx, c.Args[1], c.Args[2:], c.Out.Bool) }

func bfMExists(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	return bloom.Exists(c.Tx, c.Args[1], c.Args[2:], c.Out.Bool)
}

// bloomField is a field of BF.INFO.
type bloomField struct {
	option, label string
	write         func(c *Ctx, info *bloom.Info)
}

var bloomFields = []bloomField{
	{"CAPACITY", "Capacity", func(c *Ctx, info *bloom.Info) { c.Out.Int(int64(info.Capacity)) }},
	{"SIZE", "Size", func(c *Ctx, info *bloom.Info) { c.Out.Int(int64(info.Bytes)) }},
	{"FILTERS", "Number of filters", func(c *Ctx, info *bloom.Info) { c.Out.Int(int64(info.Filters)) }},
	{"ITEMS", "Number of items inserted", func(c *Ctx, info *bloom.Info) { c.Out.Int(int64(info.Items)) }},
	{"EXPANSION", "Expansion rate", func(c *Ctx, info *bloom.Info) {
		if info.Expansion == 0 {
			c.Out.Null()
		} else {
			c.Out.Int(int64(info.Expansion))
		}
	}},
}

func bfInfo(c *Ctx) error {
	if len(c.Args) > 3 {
		return wrongArgs(c.Spec.FullName())
	}
	var only *bloomField
	if len(c.Args) == 3 {
		for i := range bloomFields {
			if EqualFold(c.Args[2], bloomFields[i].option) {
				only = &bloomFields[i]
			}
		}
		if only == nil {
			return errInfoField
		}
	}
	info, found, err := bloom.Describe(c.Tx, c.Args[1])
	switch {
	case err != nil:
		return err
	case !found:
		return bloom.ErrNotFound
	}
	if only != nil {
		only.write(c, &info)
		return nil
	}
	c.Out.Map(len(bloomFields))
	for i := range bloomFields {
		c.Out.SimpleString(bloomFields[i].label)
		bloomFields[i].write(c, &info)
	}
	return nil
}

func bfCard(c *Ctx) error {
	info, _, err := bloom.Describe(c.Tx, c.Args[1])
	return replyInt(c, info.Items, err)
}

// bfScanDump is BF.SCANDUMP key iterator: the iterator is 0 for the first piece, and 0 in the reply at the end.
func bfScanDump(c *Ctx) error {
	position, ok := ParseInt(c.Args[2])
	if !ok {
		return errIterator
	}
	if position < 0 {
		return bloom.ErrPosition
	}
	next, data, err := bloom.Dump(c.Tx, c.Args[1], uint64(position))
	return replyPiece(c, next, data, err)
}

func bfLoadChunk(c *Ctx) error {
	next, ok := ParseInt(c.Args[2])
	if !ok {
		return errIterator
	}
	if next < 0 {
		return bloom.ErrBadDump
	}
	return replyOK(c, bloom.Load(c.Tx, c.Args[1], uint64(next), c.Args[3]))
}
