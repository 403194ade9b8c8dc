package command

import (
	"errors"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	sets "github.com/basaltdb/basalt/engine/set"
)

var setCommands = []Spec{
	{Name: "sadd", Handler: countMembers(sets.Add), Arity: -3, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeSet, 2, 3)},
	{Name: "srem", Handler: countMembers(sets.Remove), Arity: -3, Flags: Write | Fast,
		Prefetch: prefetchMember(cf.TypeSet, 2, 3)},
	{Name: "scard", Handler: count(sets.Card), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "smembers", Handler: smembers, Arity: 2, Flags: ReadOnly | Repeatable},
	{Name: "sismember", Handler: sismember, Arity: 3, Flags: ReadOnly | Fast,
		Prefetch: prefetchMember(cf.TypeSet, 2, 3)},
	{Name: "smismember", Handler: smismember, Arity: -3, Flags: ReadOnly | Fast | Repeatable},
	{Name: "spop", Handler: spop, Arity: -2, Flags: Write | Fast},
	{Name: "srandmember", Handler: random("", drawSet, nil), Arity: -2, Flags: ReadOnly},
	{Name: "smove", Handler: smove, Arity: 4, Flags: Write | Fast},
	{Name: "sunion", Handler: setOp(sets.Union), Arity: -2, Flags: ReadOnly},
	{Name: "sinter", Handler: setOp(sets.Intersect), Arity: -2, Flags: ReadOnly},
	{Name: "sdiff", Handler: setOp(sets.Diff), Arity: -2, Flags: ReadOnly},
	{Name: "sunioncard", Handler: setCard(sets.Union, true), Arity: -3, Flags: ReadOnly | MovableKeys,
		Keys: numKeysAt(1, false)},
	{Name: "sintercard", Handler: setCard(sets.Intersect, false), Arity: -3, Flags: ReadOnly | MovableKeys,
		Keys: numKeysAt(1, false)},
	{Name: "sdiffcard", Handler: setCard(sets.Diff, false), Arity: -3, Flags: ReadOnly | MovableKeys,
		Keys: numKeysAt(1, false)},
	{Name: "sunionstore", Handler: setOpStore(sets.Union), Arity: -3, Flags: Write | DenyOOM, Keys: destinationAt(1)},
	{Name: "sinterstore", Handler: sinterstore, Arity: -3, Flags: Write | DenyOOM, Keys: destinationAt(1)},
	{Name: "sdiffstore", Handler: setOpStore(sets.Diff), Arity: -3, Flags: Write | DenyOOM, Keys: destinationAt(1)},
	{Name: "sscan", Handler: scanCollection(scanSet, scanMember), Arity: -3, Flags: ReadOnly},
}

func smembers(c *Ctx) error {
	return sets.Each(c.Tx, c.Args[1], func(n uint64) { c.Out.Set(int(n)) }, c.Out.Bulk)
}

func sismember(c *Ctx) error {
	is, err := sets.IsMember(c.Tx, c.Args[1], c.Args[2])
	return replyBool(c, is, err)
}

func smismember(c *Ctx) error {
	has, err := sets.Contains(c.Tx, c.Args[1], c.Args[2:])
	return replyBools(c, has, err)
}

func spop(c *Ctx) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	if len(c.Args) == 2 {
		found := false
		err := sets.Pop(c.Tx, c.Args[1], 1, func(m []byte) {
			found = true
			c.Out.Bulk(m)
		})
		if err == nil && !found {
			c.Out.Null()
		}
		return err
	}
	n, ok := ParseInt(c.Args[2])
	if !ok || n < 0 {
		return ErrNotPositive
	}
	mark, count := c.Out.Mark(), 0
	err := sets.Pop(c.Tx, c.Args[1], uint64(n), func(m []byte) {
		count++
		c.Out.Bulk(m)
	})
	c.Out.InsertSet(mark, count)
	return err
}

func drawSet(c *Ctx, n uint64, distinct, _ bool, f func(member, none []byte) bool) error {
	if distinct {
		return sets.RandomDistinct(c.Tx, c.Args[1], n, func(member []byte) { f(member, nil) })
	}
	return sets.Random(c.Tx, c.Args[1], n, func(member []byte) bool { return f(member, nil) })
}

func smove(c *Ctx) error {
	moved, added, err := sets.Move(c.Tx, c.Args[1], c.Args[2], c.Args[3])
	if err == nil {
		if added {
			c.Tell(EventSet, "sadd", c.Args[2])
		}
		c.Out.Int(boolInt(moved))
	}
	return err
}

// setOperation calls f with the members of a union, an intersection or a difference, until f returns false.
type setOperation = func(tx *engine.Tx, keys [][]byte, f func(member []byte) bool) error

// setOp makes the handler of a command that replies with the members that op yields.
func setOp(op setOperation) Handler {
	return func(c *Ctx) error {
		mark, n := c.Out.Mark(), 0
		err := op(c.Tx, c.Args[1:], func(m []byte) bool {
			c.Out.Bulk(m)
			n++
			return !c.Out.Overflowed()
		})
		c.Out.InsertSet(mark, n)
		return err
	}
}

// setOpStore makes the handler of a command that keeps what op yields in the first key.
func setOpStore(op setOperation) Handler {
	return func(c *Ctx) error {
		n, err := sets.Store(c.Tx, c.Args[1], func(add func(member []byte) bool) error {
			return op(c.Tx, c.Args[2:], add)
		})
		return replyInt(c, n, err)
	}
}

// sinterstore repeats what a master before Redis 6.2 has done: after a missing key it looked at no other key, even one
// of the wrong type, and stored an empty set.
func sinterstore(c *Ctx) error {
	err := setOpStore(sets.Intersect)(c)
	if errors.Is(err, engine.ErrWrongType) && c.Tx.IsFromMaster() {
		err = setOpStore(func(*engine.Tx, [][]byte, func([]byte) bool) error { return nil })(c)
	}
	return err
}

var errNegativeLimit = engine.NewError("ERR", "LIMIT can't be negative")

// setCard makes the handler of a command that counts the members that op yields, up to a limit. approx: the option
// APPROX is accepted. It permits an estimate, which would read every member too: the reply is exact with APPROX too.
func setCard(op setOperation, approx bool) Handler {
	return func(c *Ctx) error {
		n, ok := ParseInt(c.Args[1])
		if !ok || n <= 0 {
			return errNumKeys
		}
		if n > int64(len(c.Args)-2) {
			return errManyKeys
		}
		limit := int64(0)
		o := options{args: c.Args[2+n:]}
		for o.more() {
			switch {
			case o.intOr("LIMIT", &limit, errNegativeLimit):
				o.check(limit >= 0, errNegativeLimit)
			case approx && o.is("APPROX"):
			default:
				return ErrSyntax
			}
		}
		if o.err != nil {
			return o.err
		}
		count := int64(0)
		err := op(c.Tx, c.Args[2:2+n], func([]byte) bool {
			count++
			return count != limit
		})
		return replyInt(c, count, err)
	}
}

func scanMember(c *Ctx, _ *engine.Record, _ *scanOptions, member, _ []byte) (int, error) {
	c.Out.Bulk(member)
	return 1, nil
}
