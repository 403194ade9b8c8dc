package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/list"
)

var listCommands = []Spec{
	{Name: "lpush", Handler: push(true, false), Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "rpush", Handler: push(false, false), Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "lpushx", Handler: push(true, true), Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "rpushx", Handler: push(false, true), Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "lpop", Handler: pop(true), Arity: -2, Flags: Write | Fast},
	{Name: "rpop", Handler: pop(false), Arity: -2, Flags: Write | Fast},
	{Name: "llen", Handler: count(list.Len), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "lindex", Handler: lindex, Arity: 3, Flags: ReadOnly | Repeatable},
	{Name: "lrange", Handler: lrange, Arity: 4, Flags: ReadOnly | Repeatable},
	{Name: "lset", Handler: lset, Arity: 4, Flags: Write | DenyOOM},
	{Name: "linsert", Handler: linsert, Arity: 5, Flags: Write | DenyOOM},
	{Name: "lrem", Handler: lrem, Arity: 4, Flags: Write},
	{Name: "ltrim", Handler: ltrim, Arity: 4, Flags: Write},
	{Name: "lpos", Handler: lpos, Arity: -3, Flags: ReadOnly | Repeatable},
	{Name: "lmove", Handler: lmove, Arity: 5, Flags: Write | DenyOOM},
	{Name: "lmovem", Handler: lmovem, Arity: -5, Flags: Write | DenyOOM},
	{Name: "rpoplpush", Handler: rpoplpush, Arity: 3, Flags: Write | DenyOOM},
	{Name: "lmpop", Handler: mpop("LEFT", "RIGHT", popList), Arity: -4, Flags: Write | MovableKeys,
		Keys: numKeysAt(1, true)},
}

// push makes the handler of a command that adds elements; existing: only to an existing list.
func push(left, existing bool) Handler {
	return func(c *Ctx) error {
		n, err := list.Push(c.Tx, c.Args[1], c.Args[2:], left, existing)
		return replyInt(c, n, err)
	}
}

func pop(left bool) Handler {
	return func(c *Ctx) error {
		if len(c.Args) > 3 {
			return wrongArgs(c.Spec.FullName())
		}
		n := int64(1)
		if len(c.Args) == 3 {
			var ok bool
			if n, ok = ParseInt(c.Args[2]); !ok || n < 0 {
				return ErrNotPositive
			}
		}
		found := false
		err := list.Pop(c.Tx, c.Args[1], uint64(n), left, func(n uint64) {
			found = true
			if len(c.Args) == 3 {
				c.Out.Array(int(n))
			}
		}, c.Out.Bulk)
		switch {
		case err != nil:
			return err
		case !found && len(c.Args) == 3:
			c.Out.NullArray()
		case !found:
			c.Out.Null()
		}
		return nil
	}
}

func lindex(c *Ctx) error {
	i, ok := ParseInt(c.Args[2])
	if !ok {
		// Redis checks the key and its type first.
		n, err := list.Len(c.Tx, c.Args[1])
		switch {
		case err != nil:
			return err
		case n > 0:
			return ErrNotInteger
		}
		c.Out.Null()
		return nil
	}
	elem, found, err := list.Index(c.Tx, c.Args[1], i)
	return replyBulkOrNull(c, elem, found, err)
}

// bounds reads two arguments as the ends of a range.
func bounds(first, last []byte) (start, stop int64, err error) {
	start, ok1 := ParseInt(first)
	stop, ok2 := ParseInt(last)
	if !ok1 || !ok2 {
		return 0, 0, ErrNotInteger
	}
	return start, stop, nil
}

func lrange(c *Ctx) error {
	start, stop, err := bounds(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	return list.Range(c.Tx, c.Args[1], start, stop, func(n uint64) { c.Out.Array(int(n)) }, c.Out.Bulk)
}

func lset(c *Ctx) error {
	i, ok := ParseInt(c.Args[2])
	if !ok {
		n, err := list.Len(c.Tx, c.Args[1])
		switch {
		case err != nil:
			return err
		case n == 0:
			return list.ErrNoKey
		}
		return ErrNotInteger
	}
	err := list.Set(c.Tx, c.Args[1], i, c.Args[3])
	if err == nil {
		c.MarkRewrote()
		c.Out.OK()
	}
	return err
}

func linsert(c *Ctx) error {
	before := EqualFold(c.Args[2], "BEFORE")
	if !before && !EqualFold(c.Args[2], "AFTER") {
		return ErrSyntax
	}
	n, err := list.Insert(c.Tx, c.Args[1], c.Args[3], c.Args[4], before)
	return replyInt(c, n, err)
}

func lrem(c *Ctx) error {
	count, ok := ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	n, err := list.Remove(c.Tx, c.Args[1], count, c.Args[3])
	return replyInt(c, n, err)
}

func ltrim(c *Ctx) error {
	start, stop, err := bounds(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	if err = list.Trim(c.Tx, c.Args[1], start, stop); err == nil {
		c.MarkRewrote()
		c.Out.OK()
	}
	return err
}

var (
	errRankZero = engine.NewError("ERR",
		"RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the "+
			"end of the list")
	errNegativeMax  = engine.NewError("ERR", "MAXLEN can't be negative")
	errNegativeHits = engine.NewError("ERR", "COUNT can't be negative")
)

func lpos(c *Ctx) error {
	rank, count, maxLen, many := int64(1), int64(1), int64(0), false
	o := options{args: c.Args[3:]}
	for o.more() {
		switch {
		case o.int("RANK", &rank):
			o.check(rank != 0, errRankZero)
			o.check(rank != math.MinInt64, errRandomCount)
		case o.intOr("COUNT", &count, errNegativeHits):
			o.check(count >= 0, errNegativeHits)
			many = true
		case o.intOr("MAXLEN", &maxLen, errNegativeMax):
			o.check(maxLen >= 0, errNegativeMax)
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	mark, n := c.Out.Mark(), 0
	pos := list.PosOptions{Rank: rank, Count: uint64(count), MaxLen: uint64(maxLen)}
	err := list.Pos(c.Tx, c.Args[1], c.Args[2], pos, func(i uint64) {
		c.Out.Int(int64(i))
		n++
	})
	switch {
	case err != nil:
		return err
	case many:
		c.Out.InsertArray(mark, n)
	case n == 0:
		c.Out.Null()
	}
	return nil
}

// end reads LEFT or RIGHT.
func end(arg []byte) (left bool, err error) {
	left = EqualFold(arg, "LEFT")
	if !left && !EqualFold(arg, "RIGHT") {
		return false, ErrSyntax
	}
	return left, nil
}

// ends reads the ends that LMOVE and BLMOVE take from and add to.
func ends(c *Ctx) (fromLeft, toLeft bool, err error) {
	if fromLeft, err = end(c.Args[3]); err == nil {
		toLeft, err = end(c.Args[4])
	}
	return fromLeft, toLeft, err
}

func lmove(c *Ctx) error {
	fromLeft, toLeft, err := ends(c)
	if err != nil {
		return err
	}
	return move(c, fromLeft, toLeft)
}

func rpoplpush(c *Ctx) error { return move(c, false, true) }

func move(c *Ctx, fromLeft, toLeft bool) error {
	elem, found, err := list.Move(c.Tx, c.Args[1], c.Args[2], fromLeft, toLeft)
	switch {
	case err != nil:
		return err
	case found:
		c.MarkRewrote()
		c.Out.Bulk(elem)
	default:
		c.Out.Null()
	}
	return nil
}

// popList replies with elements of one list, unless the list is empty.
func popList(c *Ctx, key []byte, p *multiPop) (found bool, err error) {
	err = list.Pop(c.Tx, key, p.count, p.first, func(n uint64) {
		found = true
		c.Out.Array(2)
		c.Out.Bulk(key)
		c.Out.Array(int(n))
	}, c.Out.Bulk)
	return found, err
}
