package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/longdouble"
	"github.com/basaltdb/basalt/server/resp"
)

var hashCommands = []Spec{
	{Name: "hset", Handler: hset, Arity: -4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 4)},
	{Name: "hmset", Handler: hmset, Arity: -4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 4)},
	{Name: "hsetnx", Handler: hsetnx, Arity: -4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 4)},
	{Name: "hsetexpire", Handler: hsetexpire, Arity: -5, Flags: Write | DenyOOM | Fast},
	{Name: "hget", Handler: hget, Arity: 3, Flags: ReadOnly | Fast, Prefetch: prefetchMember(cf.TypeHash, 2, 3)},
	{Name: "hmget", Handler: hmget, Arity: -3, Flags: ReadOnly | Fast | Repeatable},
	{Name: "hgetall", Handler: hgetall, Arity: 2, Flags: ReadOnly | Repeatable},
	{Name: "hkeys", Handler: hkeys, Arity: 2, Flags: ReadOnly | Repeatable},
	{Name: "hvals", Handler: hvals, Arity: 2, Flags: ReadOnly | Repeatable},
	{Name: "hlen", Handler: count(hash.Len), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "hstrlen", Handler: hstrlen, Arity: 3, Flags: ReadOnly | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 3)},
	{Name: "hexists", Handler: hexists, Arity: 3, Flags: ReadOnly | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 3)},
	{Name: "hdel", Handler: hdel, Arity: -3, Flags: Write | Fast, Prefetch: prefetchMember(cf.TypeHash, 2, 3)},
	{Name: "hincrby", Handler: hincrby, Arity: 4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 4)},
	{Name: "hincrbyfloat", Handler: hincrbyfloat, Arity: 4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeHash, 2, 4)},
	{Name: "hrandfield", Handler: random("WITHVALUES", drawHash, (*resp.Writer).Bulk), Arity: -2, Flags: ReadOnly},
	{Name: "hscan", Handler: scanCollection(scanHash, scanField), Arity: -3, Flags: ReadOnly},
	{Name: "hrangebylex", Handler: hrangebylex, Arity: -4, Flags: ReadOnly | Repeatable},
}

// pairArgs returns the field and value arguments, or an error when their number is odd.
func pairArgs(c *Ctx) ([][]byte, error) {
	if len(c.Args)%2 != 0 {
		return nil, wrongArgs(c.Spec.FullName())
	}
	return c.Args[2:], nil
}

func hset(c *Ctx) error {
	pairs, err := pairArgs(c)
	if err != nil {
		return err
	}
	n, err := hash.Set(c.Tx, c.Args[1], pairs)
	if err == nil {
		c.MarkRewrote()
		c.Out.Int(int64(n))
	}
	return err
}

func hmset(c *Ctx) error {
	pairs, err := pairArgs(c)
	if err != nil {
		return err
	}
	if _, err = hash.Set(c.Tx, c.Args[1], pairs); err == nil {
		c.MarkRewrote()
		c.Out.OK()
	}
	return err
}

// hsetexpire is Kvrocks's HSETEXPIRE key seconds field value ...
func hsetexpire(c *Ctx) error {
	if len(c.Args)%2 == 0 {
		return errorf("Invalid number of arguments: field-value pairs must be complete")
	}
	e := expiryOption{c.Args[2], seconds, true}
	at, err := e.millis(c)
	if err != nil {
		return err
	}
	if _, err := hash.Set(c.Tx, c.Args[1], c.Args[3:]); err != nil {
		return err
	}
	_, err = keys.Expire(c.Tx, c.Args[1], at, 0)
	return replyOK(c, err)
}

// hsetnx accepts several fields, as Kvrocks does, and returns how many fields it has set.
func hsetnx(c *Ctx) error {
	pairs, err := pairArgs(c)
	if err != nil {
		return err
	}
	n, err := hash.SetMissing(c.Tx, c.Args[1], pairs)
	return replyInt(c, n, err)
}

func hget(c *Ctx) error {
	v, found, err := hash.Get(c.Tx, c.Args[1], c.Args[2])
	return replyBulkOrNull(c, v, found, err)
}

func hmget(c *Ctx) error {
	values, err := hash.GetMany(c.Tx, c.Args[1], c.Args[2:])
	if err != nil {
		return err
	}
	return replyValues(c, values)
}

func hgetall(c *Ctx) error {
	return hash.Each(c.Tx, c.Args[1], false, func(n uint64) { c.Out.Map(int(n)) }, func(field, value []byte) {
		c.Out.Bulk(field)
		c.Out.Bulk(value)
	})
}

func hkeys(c *Ctx) error {
	return hash.Each(c.Tx, c.Args[1], true, func(n uint64) { c.Out.Array(int(n)) },
		func(field, _ []byte) { c.Out.Bulk(field) })
}

func hvals(c *Ctx) error {
	return hash.Each(c.Tx, c.Args[1], false, func(n uint64) { c.Out.Array(int(n)) },
		func(_, value []byte) { c.Out.Bulk(value) })
}

func hstrlen(c *Ctx) error {
	v, _, err := hash.Get(c.Tx, c.Args[1], c.Args[2])
	return replyInt(c, len(v), err)
}

func hexists(c *Ctx) error {
	_, found, err := hash.Get(c.Tx, c.Args[1], c.Args[2])
	return replyBool(c, found, err)
}

func hdel(c *Ctx) error {
	n, err := hash.Delete(c.Tx, c.Args[1], c.Args[2:])
	if err == nil {
		tellHdel(c, n > 0)
		c.Out.Int(int64(n))
	}
	return err
}

// tellHdel emits the event of deleted fields.
func tellHdel(c *Ctx, any bool) {
	if any {
		c.Tell(EventHash, "hdel", c.Args[1])
	}
}

func hincrby(c *Ctx) error {
	by, ok := ParseInt(c.Args[3])
	if !ok {
		return ErrNotInteger
	}
	n, err := hash.IncrBy(c.Tx, c.Args[1], c.Args[2], by)
	return replyInt(c, n, err)
}

func hincrbyfloat(c *Ctx) error {
	by, ok := longdouble.Parse(c.Args[3])
	if !ok {
		return ErrNotFloat
	}
	if by.IsInf() {
		return errorf("value is NaN or Infinity")
	}
	sum, err := hash.IncrByFloat(c.Tx, c.Args[1], c.Args[2], c.Args[3])
	return replyBulk(c, sum, err)
}

func drawHash(c *Ctx, n uint64, distinct, values bool, f func(field, value []byte) bool) error {
	if distinct {
		return hash.RandomDistinct(c.Tx, c.Args[1], n, values, f)
	}
	return hash.Random(c.Tx, c.Args[1], n, values, f)
}

func scanField(c *Ctx, rec *engine.Record, o *scanOptions, field, value []byte) (int, error) {
	if len(rec.Tail) > 0 {
		var live bool
		var err error
		if value, live, err = hash.Value(c.Tx, rec, value); err != nil || !live {
			return 0, err
		}
	}
	c.Out.Bulk(field)
	if o.NoValues {
		return 1, nil
	}
	c.Out.Bulk(value)
	return 2, nil
}

// hrangebylex is Kvrocks's HRANGEBYLEX key min max [LIMIT offset count] [REV]. With REV the bounds are swapped.
func hrangebylex(c *Ctx) error {
	r := hash.LexRange{Limit: -1}
	o := options{args: c.Args[4:]}
	for o.more() {
		if !o.flag("REV", &r.Reverse) && !o.limit(&r.Offset, &r.Limit) {
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	low, high := c.Args[2], c.Args[3]
	if r.Reverse {
		low, high = high, low
	}
	if string(low) == "+" || string(high) == "-" {
		return errLexOrder
	}
	var ok bool
	if r.Min, ok = fieldBound(low, "-"); !ok {
		return errorf("the min is illegal")
	}
	if r.Max, ok = fieldBound(high, "+"); !ok {
		return errorf("the max is illegal")
	}
	mark, n := c.Out.Mark(), 0
	err := hash.RangeByLex(c.Tx, c.Args[1], r, func(field, value []byte) {
		c.Out.Bulk(field)
		c.Out.Bulk(value)
		n += 2
	})
	c.Out.InsertArray(mark, n)
	return err
}

// The errors of HRANGEBYLEX are those of Kvrocks.
var errLexOrder = engine.NewError("ERR", "min > max")

// fieldBound reads [field, (field or the infinity allowed at this end.
func fieldBound(b []byte, infinity string) (hash.LexBound, bool) {
	switch {
	case string(b) == infinity:
		return hash.LexBound{Inf: true}, true
	case len(b) > 0 && (b[0] == '[' || b[0] == '('):
		return hash.LexBound{Field: b[1:], Open: b[0] == '('}, true
	}
	return hash.LexBound{}, false
}
