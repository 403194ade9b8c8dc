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

// bloomOptions reads the options of BF.RESERVE and BF.INSERT.
type bloomOptions struct {
	options
	filter                bloom.Options
	nonscaling, expansion bool
}

// errorRate takes the rate of errors.
func (o *bloomOptions) errorRate() {
	rate, ok := ParseFloat(o.next())
	o.check(ok, errBadErrorRate)
	o.check(rate > 0 && rate < 1, errErrorRateRange)
	o.filter.ErrorRate = rate
}

// number takes a number from 1 to most.
func (o *bloomOptions) number(most int64, bad, zero error) int64 {
	n, ok := ParseInt(o.next())
	o.check(ok && n >= 0 && n <= most, bad)
	o.check(n != 0, zero)
	return n
}

func (o *bloomOptions) capacity() {
	o.filter.Capacity = uint32(o.number(math.MaxUint32, errBadCapacity, errZeroCapacity))
}

// growth takes an option that says how a filter grows.
func (o *bloomOptions) growth() bool {
	switch {
	case o.flag("NONSCALING", &o.nonscaling):
	case o.flag("EXPANSION", &o.expansion):
		o.filter.Expansion = uint16(o.number(math.MaxUint16, errBadExpansion, errZeroExpansion))
	default:
		return false
	}
	return true
}

// done checks the options against each other.
func (o *bloomOptions) done() error {
	o.check(!o.nonscaling || !o.expansion, errNonscalingExpand)
	if o.nonscaling {
		o.filter.Expansion = 0
	}
	return o.err
}

func bfReserve(c *Ctx) error {
	o := bloomOptions{options: options{args: c.Args[2:]}, filter: bloom.DefaultOptions}
	o.errorRate()
	o.capacity()
	for o.more() {
		o.check(o.growth(), ErrSyntax)
	}
	if err := o.done(); err != nil {
		return err
	}
	return replyOK(c, bloom.Reserve(c.Tx, c.Args[1], o.filter))
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
	o := bloomOptions{options: options{args: c.Args[2:]}, filter: bloom.DefaultOptions}
	create := &o.filter
	for o.more() {
		switch {
		case o.growth():
		case o.is("CAPACITY"):
			o.capacity()
		case o.is("ERROR"):
			o.errorRate()
		case o.is("NOCREATE"):
			create = nil
		case o.is("ITEMS"):
			if err := o.done(); err != nil {
				return err
			}
			if len(o.args) == 0 {
				return errNoItems
			}
			return bfAddAll(c, o.args, create)
		default:
			return ErrSyntax
		}
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
