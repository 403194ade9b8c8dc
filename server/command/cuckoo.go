package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/cuckoo"
)

var cuckooCommands = []Spec{
	{Name: "cf.reserve", Handler: cfReserve, Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "cf.add", Handler: cfAdd, Arity: 3, Flags: Write | DenyOOM},
	{Name: "cf.addnx", Handler: cfAddNX, Arity: 3, Flags: Write | DenyOOM},
	{Name: "cf.insert", Handler: cfInsert(false), Arity: -4, Flags: Write | DenyOOM},
	{Name: "cf.insertnx", Handler: cfInsert(true), Arity: -4, Flags: Write | DenyOOM},
	{Name: "cf.exists", Handler: cfExists, Arity: 3, Flags: ReadOnly | Fast},
	{Name: "cf.mexists", Handler: cfMExists, Arity: -3, Flags: ReadOnly},
	{Name: "cf.del", Handler: cfDel, Arity: 3, Flags: Write | Fast},
	{Name: "cf.count", Handler: cfCount, Arity: 3, Flags: ReadOnly | Fast},
	{Name: "cf.info", Handler: cfInfo, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "cf.scandump", Handler: cfScanDump, Arity: 3, Flags: ReadOnly},
	{Name: "cf.loadchunk", Handler: cfLoadChunk, Arity: 4, Flags: Write | DenyOOM},
}

// The error texts are those of Kvrocks.
var (
	errCuckooCapacity     = engine.NewError("ERR", "invalid capacity")
	errCuckooZeroCapacity = engine.NewError("ERR", "capacity must be larger than 0")
	errCuckooBucket       = engine.NewError("ERR", "invalid bucket size")
	errCuckooBucketRange  = engine.NewError("ERR", "bucket size must be between 1 and 255")
	errCuckooIterations   = engine.NewError("ERR", "invalid max iterations")
	errCuckooNoIterations = engine.NewError("ERR", "max iterations must be larger than 0")
	errCuckooExpansion    = engine.NewError("ERR", "invalid expansion factor")
	errCuckooExpandRange  = engine.NewError("ERR", "expansion must be between 0 and 32768")
	errCuckooFull         = engine.NewError("ERR", "Operation aborted: filter is full")
)

// cuckooOptions reads the options of CF.RESERVE and CF.INSERT.
type cuckooOptions struct {
	options
	filter cuckoo.Options
}

// number takes a number up to most.
func (o *cuckooOptions) number(most uint64, bad error) uint64 {
	n, ok := ParseUint(o.next())
	o.check(ok && n <= most, bad)
	return n
}

func (o *cuckooOptions) capacity() {
	o.filter.Capacity = o.number(math.MaxUint64, errCuckooCapacity)
	o.check(o.filter.Capacity != 0, errCuckooZeroCapacity)
}

func cfReserve(c *Ctx) error {
	o := cuckooOptions{options{args: c.Args[2:]}, cuckoo.DefaultOptions}
	o.capacity()
	for o.more() {
		switch {
		case o.is("BUCKETSIZE"):
			o.filter.BucketSize = uint8(o.number(math.MaxUint8, errCuckooBucket))
			o.check(o.filter.BucketSize != 0, errCuckooBucketRange)
		case o.is("MAXITERATIONS"):
			o.filter.MaxIterations = uint16(o.number(math.MaxUint16, errCuckooIterations))
			o.check(o.filter.MaxIterations != 0, errCuckooNoIterations)
		case o.is("EXPANSION"):
			o.filter.Expansion = uint16(o.number(math.MaxUint16, errCuckooExpansion))
			o.check(o.filter.Expansion <= cuckoo.MaxExpansion, errCuckooExpandRange)
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	return replyOK(c, cuckoo.Reserve(c.Tx, c.Args[1], o.filter))
}

// cfAdd replies with an integer in RESP3 too, as Kvrocks; the other commands reply as Redis's module.
func cfAdd(c *Ctx) error { return cfAddOne(c, false, func(bool) { c.Out.Int(1) }) }

func cfAddNX(c *Ctx) error { return cfAddOne(c, true, c.Out.Bool) }

func cfAddOne(c *Ctx, unique bool, reply func(added bool)) error {
	full := false
	err := cuckoo.Add(c.Tx, c.Args[1], c.Args[2:], unique, &cuckoo.DefaultOptions, func(r cuckoo.Result) {
		if full = r == cuckoo.Full; !full {
			reply(r == cuckoo.Added)
		}
	})
	if err == nil && full {
		err = errCuckooFull
	}
	return err
}

func cfInsert(unique bool) Handler {
	return func(c *Ctx) error {
		o := cuckooOptions{options{args: c.Args[2:]}, cuckoo.DefaultOptions}
		create := &o.filter
		items := false
		for o.more() && !items {
			switch {
			case o.flag("ITEMS", &items):
			case o.is("CAPACITY"):
				o.capacity()
			case o.is("NOCREATE"):
				create = nil
			default:
				o.err = ErrSyntax
			}
		}
		switch {
		case o.err != nil:
			return o.err
		case !items:
			return ErrSyntax
		case len(o.args) == 0:
			return errNoItems
		}
		c.Out.Array(len(o.args))
		return cuckoo.Add(c.Tx, c.Args[1], o.args, unique, create, func(r cuckoo.Result) {
			switch {
			case r == cuckoo.Full:
				c.Out.Int(-1) // no error, as in Redis's module
			case unique && r == cuckoo.Added:
				c.Out.Int(1) // clients want numbers in RESP3 too
			case unique:
				c.Out.Int(0)
			default:
				c.Out.Bool(true)
			}
		})
	}
}

func cfExists(c *Ctx) error { return cuckoo.Exists(c.Tx, c.Args[1], c.Args[2:], c.Out.Bool) }

func cfMExists(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	return cuckoo.Exists(c.Tx, c.Args[1], c.Args[2:], c.Out.Bool)
}

func cfDel(c *Ctx) error {
	deleted, err := cuckoo.Delete(c.Tx, c.Args[1], c.Args[2])
	if err == nil {
		c.Out.Bool(deleted)
	}
	return err
}

func cfCount(c *Ctx) error {
	n, err := cuckoo.Count(c.Tx, c.Args[1], c.Args[2])
	return replyInt(c, n, err)
}

func cfInfo(c *Ctx) error {
	info, err := cuckoo.Describe(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	return replyCounts(c, []labelled{
		{"Size", info.Bytes}, {"Number of buckets", info.Buckets}, {"Number of filters", uint64(info.Filters)},
		{"Number of items inserted", info.Items}, {"Number of items deleted", info.Deleted},
		{"Bucket size", uint64(info.BucketSize)}, {"Expansion rate", uint64(info.Expansion)},
		{"Max iterations", uint64(info.MaxIterations)},
	})
}

// cfScanDump is CF.SCANDUMP key iterator: the iterator is 0 for the first piece, and 0 in the reply at the end.
func cfScanDump(c *Ctx) error {
	position, ok := ParseUint(c.Args[2])
	if !ok {
		return cuckoo.ErrPosition
	}
	next, data, err := cuckoo.Dump(c.Tx, c.Args[1], position)
	return replyPiece(c, next, data, err)
}

func cfLoadChunk(c *Ctx) error {
	next, ok := ParseUint(c.Args[2])
	if !ok {
		return cuckoo.ErrPosition
	}
	return replyOK(c, cuckoo.Load(c.Tx, c.Args[1], next, c.Args[3]))
}
