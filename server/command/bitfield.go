package command

import (
	"slices"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
)

var (
	errFieldType = engine.NewError("ERR",
		"Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
)

// parseFieldType reads i1 to i64 or u1 to u63. The letter is in lower case.
func parseFieldType(b []byte) (t bitmap.FieldType, ok bool) {
	if len(b) == 0 || b[0] != 'i' && b[0] != 'u' {
		return t, false
	}
	t.Signed = b[0] == 'i'
	most := uint64(63)
	if t.Signed {
		most = 64
	}
	n, ok := ParseUint(b[1:])
	t.Bits = uint8(min(n, most))
	return t, ok && n >= 1 && n <= most
}

// parseFieldOffset reads the number of a bit, or behind # how many fields of this width lie before.
func parseFieldOffset(b []byte, width uint8) (uint64, bool) {
	if len(b) == 0 || b[0] != '#' {
		return parseBitOffset(b)
	}
	n, ok := parseBitOffset(b[1:])
	n *= uint64(width)
	return n, ok && n <= bitmap.MaxOffset
}

// parseFieldOps reads the operations of BITFIELD:
//
//	GET type offset
//	SET type offset value
//	INCRBY type offset increment
//	OVERFLOW WRAP | SAT | FAIL
//
// The last OVERFLOW applies to the operations that follow it, up to the next OVERFLOW.
func parseFieldOps(args [][]byte) (ops []bitmap.FieldOp, err error) {
	overflow := bitmap.Wrap
	o := options{args: args}
	for o.more() {
		op := bitmap.FieldOp{Overflow: overflow}
		switch {
		case o.has("OVERFLOW", 1):
			switch {
			case o.is("WRAP"):
				overflow = bitmap.Wrap
			case o.is("SAT"):
				overflow = bitmap.Saturate
			case o.is("FAIL"):
				overflow = bitmap.Fail
			default:
				o.err = errorf("Invalid OVERFLOW type specified")
			}
			continue
		case o.has("GET", 2):
		case o.has("SET", 3):
			op.Kind = bitmap.FieldSet
		case o.has("INCRBY", 3):
			op.Kind = bitmap.FieldIncr
		default:
			return nil, ErrSyntax
		}
		var ok bool
		op.Type, ok = parseFieldType(o.next())
		o.check(ok, errFieldType)
		op.Offset, ok = parseFieldOffset(o.next(), op.Type.Bits)
		o.check(ok, bitmap.ErrOffset)
		if op.Kind != bitmap.FieldGet {
			op.Value, ok = ParseInt(o.next())
			o.check(ok, ErrNotInteger)
		}
		ops = append(ops, op)
	}
	return ops, o.err
}

func bitfield(c *Ctx) error {
	ops, err := parseFieldOps(c.Args[2:])
	if err != nil {
		return err
	}
	writes := slices.ContainsFunc(ops, func(op bitmap.FieldOp) bool { return op.Kind != bitmap.FieldGet })
	if writes && c.Spec.Flags&ReadOnly != 0 {
		return errorf("BITFIELD_RO only supports the GET subcommand")
	}
	var few [8]bitmap.FieldResult
	o := bitmap.FieldOptions{MaxLen: c.Srv.Settings.MaxBulk()}
	switch order, _ := c.Srv.Settings.Get("redis-bitfield-compatible"); order {
	case "yes":
		o.RedisOrder = true
	case "auto":
		if o.RedisOrder, err = c.Tx.RedisBitOrder(); err != nil {
			return err
		}
	}
	results, err := bitmap.Fields(c.Tx, c.Args[1], ops, o, few[:0])
	if err != nil {
		return err
	}
	c.Out.Array(len(results))
	for _, r := range results {
		if r.None {
			c.Out.Null()
		} else {
			c.Out.Int(r.Value)
		}
	}
	return nil
}
