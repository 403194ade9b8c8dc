package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/keys"
)

var bitmapCommands = []Spec{
	{Name: "setbit", Handler: setbit, Arity: 4, Flags: Write | DenyOOM, Prefetch: prefetchBit},
	{Name: "getbit", Handler: getbit, Arity: 3, Flags: ReadOnly | Fast, Prefetch: prefetchBit},
	{Name: "bitcount", Handler: bitcount, Arity: -2, Flags: ReadOnly | Repeatable},
	{Name: "bitpos", Handler: bitpos, Arity: -3, Flags: ReadOnly | Repeatable},
	{Name: "bitop", Handler: bitop, Arity: -4, Flags: Write | DenyOOM, Keys: destinationAt(2)},
	{Name: "bitfield", Handler: bitfield, Arity: -2, Flags: Write | DenyOOM},
	{Name: "bitfield_ro", Handler: bitfield, Arity: -2, Flags: ReadOnly | Fast},
}

// parseBitOffset reads the number of a bit.
func parseBitOffset(b []byte) (uint64, bool) {
	n, ok := ParseUint(b)
	return n, ok && n <= bitmap.MaxOffset
}

func setbit(c *Ctx) error {
	offset, ok := parseBitOffset(c.Args[2])
	if !ok {
		return bitmap.ErrOffset
	}
	bit, ok := ParseInt(c.Args[3])
	if !ok || bit != 0 && bit != 1 {
		return errorf("bit is not an integer or out of range")
	}
	old, err := bitmap.SetBit(c.Tx, c.Args[1], offset, bit == 1, c.Srv.Settings.MaxBulk())
	return replyBool(c, old, err)
}

// prefetchBit declares what SETBIT and GETBIT read.
func prefetchBit(tx *engine.Tx, args [][]byte, keys *engine.KeyList) {
	if offset, ok := parseBitOffset(args[2]); ok {
		bitmap.PrefetchBit(tx, args[1], offset, keys)
	}
}

func getbit(c *Ctx) error {
	offset, ok := parseBitOffset(c.Args[2])
	if !ok {
		return bitmap.ErrOffset
	}
	bit, err := bitmap.GetBit(c.Tx, c.Args[1], offset)
	return replyBool(c, bit, err)
}

// bitUnit reads BYTE or BIT.
func bitUnit(b []byte) (isBits, ok bool) {
	isBits = EqualFold(b, "BIT")
	return isBits, isBits || EqualFold(b, "BYTE")
}

// bitcount is BITCOUNT key [start end [BYTE | BIT]].
func bitcount(c *Ctx) error {
	r, err := countRange(c.Args)
	if err != nil {
		return badRange(c, err, 0)
	}
	n, err := bitmap.Count(c.Tx, c.Args[1], r)
	return replyInt(c, n, err)
}

func countRange(args [][]byte) (bitmap.Range, error) {
	r := bitmap.All
	if len(args) == 2 {
		return r, nil
	}
	if len(args) == 3 || len(args) > 5 {
		return r, ErrSyntax
	}
	var err error
	r.NoEnd = false
	if r.Start, r.End, err = bounds(args[2], args[3]); err != nil {
		return r, err
	}
	if len(args) == 5 {
		reversed := r.Start < 0 && r.End < 0 && r.Start > r.End // Redis counts 0 without checking the unit
		var ok bool
		if r.Bits, ok = bitUnit(args[4]); !ok && !reversed {
			return r, ErrSyntax
		}
	}
	return r, nil
}

// badRange replies to a malformed range. Redis checks the key before it reads the range: for a missing key the reply
// is none, and for a key of another type its error.
func badRange(c *Ctx, malformed error, none int64) error {
	switch t, err := keys.TypeOf(c.Tx, c.Args[1]); {
	case err != nil:
		return err
	case t == cf.TypeNone:
		c.Out.Int(none)
		return nil
	case t != cf.TypeString && t != cf.TypeBitmap:
		return engine.ErrWrongType
	}
	return malformed
}

// bitpos is BITPOS key bit [start [end [BYTE | BIT]]].
func bitpos(c *Ctx) error {
	bit, ok := ParseInt(c.Args[2])
	switch {
	case !ok:
		return ErrNotInteger
	case bit != 0 && bit != 1:
		return errorf("The bit argument must be 1 or 0.")
	}
	r, err := posRange(c.Args)
	if err != nil {
		return badRange(c, err, -bit)
	}
	at, err := bitmap.Pos(c.Tx, c.Args[1], bit == 1, r)
	return replyInt(c, at, err)
}

func posRange(args [][]byte) (bitmap.Range, error) {
	r, ok := bitmap.All, true
	if len(args) > 6 {
		return r, ErrSyntax
	}
	if len(args) > 3 {
		if r.Start, ok = ParseInt(args[3]); !ok {
			return r, ErrNotInteger
		}
	}
	if len(args) > 5 {
		if r.Bits, ok = bitUnit(args[5]); !ok {
			return r, ErrSyntax
		}
	}
	if len(args) > 4 {
		r.NoEnd = false
		if r.End, ok = ParseInt(args[4]); !ok {
			return r, ErrNotInteger
		}
	}
	return r, nil
}

func bitop(c *Ctx) error {
	op := bitmap.And
	for !EqualFold(c.Args[1], op.String()) {
		if op++; op > bitmap.One {
			return ErrSyntax
		}
	}
	switch {
	case op == bitmap.Not && len(c.Args) != 4:
		return errorf("BITOP NOT must be called with a single source key.")
	case op.FirstDiffers() && len(c.Args) < 5:
		return errorf("BITOP %v must be called with at least two source keys.", op)
	}
	n, err := bitmap.Combine(c.Tx, op, c.Args[2], c.Args[3:])
	return replyInt(c, n, err)
}
