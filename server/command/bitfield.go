package command

import (
	"slices"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
)

var (
	errFieldType = engine.NewError("ERR",
		"Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
	errFieldOverflow = engine.NewError("ERR", "Invalid OVERFLOW type specified")
	errFieldReadOnly = engine.NewError("ERR", "BITFIELD_RO only supports the GET subcommand")
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
	for len(args) > 0 {
		if EqualFold(args[0], "OVERFLOW") && len(args) > 1 {
			switch {
			case EqualFold(args[1], "WRAP"):
				overflow = bitmap.Wrap
			case EqualFold(args[1], "SAT"):
				overflow = bitmap.Saturate
			case EqualFold(args[1], "FAIL"):
				overflow = bitmap.Fail
			default:
				return nil, errFieldOverflow
			}
			args = args[2:]
			continue
		}
		op := bitmap.FieldOp{Overflow: overflow}
		used := 4
		switch {
		case EqualFold(args[0], "GET"):
			used = 3
		case EqualFold(args[0], "SET"):
			op.Kind = bitmap.FieldSet
		case EqualFold(args[0], "INCRBY"):
			op.Kind = bitmap.FieldIncr
		default:
			return nil, ErrSyntax
		}
		if len(args) < used {
			return nil, ErrSyntax
		}
		var ok bool
		if op.Type, ok = parseFieldType(args[1]); !ok {
			return nil, errFieldType
		}
		if op.Offset, ok = parseFieldOffset(args[2], op.Type.Bits); !ok {
			return nil, bitmap.ErrOffset
		}
		if op.Kind != bitmap.FieldGet {
			if op.Value, ok = ParseInt(args[3]); !ok {
				return nil, ErrNotInteger
			}
		}
		ops = append(ops, op)
		args = args[used:]
	}
	return ops, nil
}

// bitfield is BITFIELD and BITFIELD_RO.
func bitfield(c *Ctx) error {
	ops, err := parseFieldOps(c.Args[2:])
	if err != nil {
		return err
	}
	writes := slices.ContainsFunc(ops, func(op bitmap.FieldOp) bool { return op.Kind != bitmap.FieldGet })
	if writes && c.Spec.Flags&ReadOnly != 0 {
		return errFieldReadOnly
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
