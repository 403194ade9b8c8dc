package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
)

var zsetOpCommands = []Spec{
	{Name: "zunion", Handler: zop(opUnion), Arity: -3, Flags: ReadOnly | MovableKeys, Keys: numKeysAt(1, false)},
	{Name: "zinter", Handler: zop(opInter), Arity: -3, Flags: ReadOnly | MovableKeys, Keys: numKeysAt(1, false)},
	{Name: "zdiff", Handler: zop(opDiff), Arity: -3, Flags: ReadOnly | MovableKeys, Keys: numKeysAt(1, false)},
	{Name: "zunionstore", Handler: zopStore(opUnion), Arity: -4, Flags: Write | DenyOOM | MovableKeys,
		Keys: destinationNumKeys},
	{Name: "zinterstore", Handler: zopStore(opInter), Arity: -4, Flags: Write | DenyOOM | MovableKeys,
		Keys: destinationNumKeys},
	{Name: "zdiffstore", Handler: zopStore(opDiff), Arity: -4, Flags: Write | DenyOOM | MovableKeys,
		Keys: destinationNumKeys},
	{Name: "zintercard", Handler: zintercard, Arity: -3, Flags: ReadOnly | MovableKeys, Keys: numKeysAt(1, false)},
}

var errWeight = engine.NewError("ERR", "weight value is not a float")

// zopArgs are the arguments of ZUNION, ZINTER, ZDIFF, their STORE forms or ZINTERCARD.
type zopArgs struct {
	kind       zopKind
	sets       *zset.Operands
	weights    []float64
	agg        zset.Aggregate
	withScores bool
	limit      int64
}

type zopKind uint8

const (
	opUnion zopKind = iota
	opInter
	opDiff
	opCard
)

// parseZop reads the arguments from the number of keys on. The operands are loaded before the options are looked
// at: Redis, too, reports a wrong type first.
func parseZop(c *Ctx, kind zopKind, args [][]byte, store bool) (*zopArgs, error) {
	n, ok := ParseInt(args[0])
	switch {
	case !ok:
		return nil, ErrNotInteger
	case n < 1:
		return nil, errorf("at least 1 input key is needed for '%s' command", c.Spec.FullName())
	case n > int64(len(args)-1):
		return nil, ErrSyntax
	}
	op := &zopArgs{kind: kind}
	var err error
	if op.sets, err = zset.Open(c.Tx, args[1:1+n]); err != nil {
		return nil, err
	}
	scored := kind == opUnion || kind == opInter
	o := options{args: args[1+n:]}
	for o.more() {
		switch {
		case scored && o.has("WEIGHTS", int(n)):
			op.weights = make([]float64, n)
			for i := range op.weights {
				op.weights[i], ok = ParseFloat(o.next())
				o.check(ok, errWeight)
			}
		case scored && o.is("AGGREGATE"):
			switch {
			case o.is("SUM"):
				op.agg = zset.Sum
			case o.is("MIN"):
				op.agg = zset.Min
			case o.is("MAX"):
				op.agg = zset.Max
			case o.is("COUNT"):
				op.agg = zset.CountSets
			default:
				o.err = ErrSyntax
			}
		case kind != opCard && !store && o.flag("WITHSCORES", &op.withScores):
		case kind == opCard && o.intOr("LIMIT", &op.limit, errNegativeLimit):
			o.check(op.limit >= 0, errNegativeLimit)
		default:
			o.err = ErrSyntax
		}
	}
	return op, o.err
}

func (op *zopArgs) run() ([]zset.Entry, error) {
	switch op.kind {
	case opUnion:
		return op.sets.Union(op.weights, op.agg)
	case opInter:
		return op.sets.Inter(op.weights, op.agg)
	}
	return op.sets.Diff()
}

// zop makes the handler of a command that replies with a union, an intersection or a difference.
func zop(kind zopKind) Handler {
	return func(c *Ctx) error {
		op, err := parseZop(c, kind, c.Args[1:], false)
		if err != nil {
			return err
		}
		op.sets.Bound(c.Tx.DB().MaxResultBytes())
		entries, err := op.run()
		if err != nil {
			return err
		}
		c.Tx.ReadsDone()
		zset.SortByScore(entries)
		out := beginPairs(c.Out, len(entries), op.withScores)
		for i := range entries {
			out.add(entries[i].Member, entries[i].Score)
		}
		return nil
	}
}

// zopStore makes the handler of a command that stores it. The members are written in the order in which Kvrocks writes
// them: those of a difference by score, the others by member.
func zopStore(kind zopKind) Handler {
	return func(c *Ctx) error {
		op, err := parseZop(c, kind, c.Args[2:], true)
		if err != nil {
			return err
		}
		op.sets.BoundStored(c.Args[1])
		entries, err := op.run()
		if err != nil {
			return err
		}
		if kind == opDiff {
			zset.SortByScore(entries)
		}
		return replyInt(c, len(entries), zset.Store(c.Tx, c.Args[1], entries))
	}
}

func zintercard(c *Ctx) error {
	op, err := parseZop(c, opCard, c.Args[1:], false)
	if err != nil {
		return err
	}
	n, err := op.sets.InterCard(uint64(op.limit))
	return replyInt(c, n, err)
}
