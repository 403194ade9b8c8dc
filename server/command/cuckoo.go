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

// parseCuckoo reads a number from the front of args, which must be up to most.
func parseCuckoo(args [][]byte, most uint64, invalid error) (uint64, error) {
	if len(args) > 0 {
		if n, ok := ParseUint(args[0]); ok && n <= most {
			return n, nil
		}
	}
	return 0, invalid
}

func parseCuckooCapacity(args [][]byte, o *cuckoo.Options) (err error) {
	if o.Capacity, err = parseCuckoo(args, math.MaxUint64, errCuckooCapacity); err == nil && o.Capacity == 0 {
		err = errCuckooZeroCapacity
	}
	return err
}

func cfReserve(c *Ctx) error {
	o := cuckoo.DefaultOptions
	if err := parseCuckooCapacity(c.Args[2:], &o); err != nil {
		return err
	}
	for rest := c.Args[3:]; len(rest) > 0; rest = rest[2:] {
		var n uint64
		var err error
		switch value := rest[1:]; {
		case EqualFold(rest[0], "BUCKETSIZE"):
			if n, err = parseCuckoo(value, math.MaxUint8, errCuckooBucket); err == nil && n == 0 {
				err = errCuckooBucketRange
			}
			o.BucketSize = uint8(n)
		case EqualFold(rest[0], "MAXITERATIONS"):
			if n, err = parseCuckoo(value, math.MaxUint16, errCuckooIterations); err == nil && n == 0 {
				err = errCuckooNoIterations
			}
			o.MaxIterations = uint16(n)
		case EqualFold(rest[0], "EXPANSION"):
			if n, err = parseCuckoo(value, math.MaxUint16, errCuckooExpansion); err == nil && n > cuckoo.MaxExpansion {
				err = errCuckooExpandRange
			}
			o.Expansion = uint16(n)
		default:
			err = ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	return replyOK(c, cuckoo.Reserve(c.Tx, c.Args[1], o))
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
		o := cuckoo.DefaultOptions
		create := &o
		for rest := c.Args[2:]; len(rest) > 0; rest = rest[1:] {
			switch {
			case EqualFold(rest[0], "CAPACITY"):
				if err := parseCuckooCapacity(rest[1:], &o); err != nil {
					return err
				}
				rest = rest[1:]
			case EqualFold(rest[0], "NOCREATE"):
				create = nil
			case EqualFold(rest[0], "ITEMS"):
				items := rest[1:]
				if len(items) == 0 {
					return errNoItems
				}
				c.Out.Array(len(items))
				return cuckoo.Add(c.Tx, c.Args[1], items, unique, create, func(r cuckoo.Result) {
					if r == cuckoo.Full {
						c.Out.Int(-1) // no error, as in Redis's module
					} else {
						c.Out.Bool(r == cuckoo.Added)
					}
				})
			default:
				return ErrSyntax
			}
		}
		return ErrSyntax
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
	fields := []struct {
		label string
		value uint64
	}{
		{"Size", info.Bytes}, {"Number of buckets", info.Buckets}, {"Number of filters", uint64(info.Filters)},
		{"Number of items inserted", info.Items}, {"Number of items deleted", info.Deleted},
		{"Bucket size", uint64(info.BucketSize)}, {"Expansion rate", uint64(info.Expansion)},
		{"Max iterations", uint64(info.MaxIterations)},
	}
	c.Out.Map(len(fields))
	for _, f := range fields {
		c.Out.SimpleString(f.label)
		c.Out.Int(int64(f.value))
	}
	return nil
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
