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

var (
	errWeight   = engine.NewError("ERR", "weight value is not a float")
	errNegLimit = engine.NewError("ERR", "LIMIT can't be negative")
)

// zopArgs are the arguments of ZUNION, ZINTER, ZDIFF, their STORE forms or ZINTERCARD.
type zopArgs struct {
	kind       zopKind
	sets       *zset.Operands
	weights    []float64
	agg        zset.Aggregate
	withScores bool
	limit      uint64
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
	rest := args[1+n:]
	for len(rest) > 0 {
		scored := kind == opUnion || kind == opInter
		switch {
		case scored && int64(len(rest)) >= n+1 && EqualFold(rest[0], "WEIGHTS"):
			op.weights = make([]float64, n)
			for i := range op.weights {
				if op.weights[i], ok = ParseFloat(rest[1+i]); !ok {
					return nil, errWeight
				}
			}
			rest = rest[1+n:]
		case scored && len(rest) >= 2 && EqualFold(rest[0], "AGGREGATE"):
			switch {
			case EqualFold(rest[1], "SUM"):
				op.agg = zset.Sum
			case EqualFold(rest[1], "MIN"):
				op.agg = zset.Min
			case EqualFold(rest[1], "MAX"):
				op.agg = zset.Max
			default:
				return nil, ErrSyntax
			}
			rest = rest[2:]
		case kind != opCard && !store && EqualFold(rest[0], "WITHSCORES"):
			op.withScores = true
			rest = rest[1:]
		case kind == opCard && len(rest) >= 2 && EqualFold(rest[0], "LIMIT"):
			limit, ok := ParseInt(rest[1])
			if !ok || limit < 0 {
				return nil, errNegLimit
			}
			op.limit = uint64(limit)
			rest = rest[2:]
		default:
			return nil, ErrSyntax
		}
	}
	return op, nil
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
		entries, err := op.run()
		if err != nil {
			return err
		}
		c.Tx.ReadsDone()
		zset.SortByScore(entries)
		out := newPairs(c.Out, op.withScores)
		for i := range entries {
			out.add(entries[i].Member, entries[i].Score)
		}
		out.end()
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
	n, err := op.sets.InterCard(op.limit)
	return replyInt(c, n, err)
}
