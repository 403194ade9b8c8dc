package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/server/resp"
)

var zsetCommands = []Spec{
	{Name: "zadd", Handler: zadd, Arity: -4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeZSet, 3, 4)},
	{Name: "zincrby", Handler: zadd, Arity: 4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeZSet, 3, 4)},
	{Name: "zrem", Handler: countMembers(zset.Remove), Arity: -3, Flags: Write | Fast,
		Prefetch: prefetchMember(cf.TypeZSet, 2, 3)},
	{Name: "zcard", Handler: count(zset.Card), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "zscore", Handler: zscore, Arity: 3, Flags: ReadOnly | Fast, Prefetch: prefetchMember(cf.TypeZSet, 2, 3)},
	{Name: "zmscore", Handler: zmscore, Arity: -3, Flags: ReadOnly | Fast},
	{Name: "zrank", Handler: zrank(false), Arity: -3, Flags: ReadOnly | Fast},
	{Name: "zrevrank", Handler: zrank(true), Arity: -3, Flags: ReadOnly | Fast},
	{Name: "zrandmember", Handler: random("WITHSCORES", drawZSet, (*resp.Writer).Double), Arity: -2, Flags: ReadOnly},
	{Name: "zscan", Handler: scanCollection(scanZSet, scanScored), Arity: -3, Flags: ReadOnly},
}

// zadd is ZADD, and ZINCRBY, which is ZADD with INCR. As in Redis ZINCRBY takes the options of ZADD too; but then the
// number of arguments never fits.
func zadd(c *Ctx) error {
	incr := c.Spec.Name == "zincrby"
	var f zset.Flags
	ch := false
	i := 2
options:
	for ; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case EqualFold(a, "NX"):
			f |= zset.NX
		case EqualFold(a, "XX"):
			f |= zset.XX
		case EqualFold(a, "GT"):
			f |= zset.GT
		case EqualFold(a, "LT"):
			f |= zset.LT
		case EqualFold(a, "CH"):
			ch = true
		case EqualFold(a, "INCR"):
			incr = true
		default:
			break options
		}
	}
	pairs := c.Args[i:]
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		return ErrSyntax
	case f&zset.NX != 0 && f&zset.XX != 0:
		return errorf("XX and NX options at the same time are not compatible")
	case f&zset.GT != 0 && f&(zset.NX|zset.LT) != 0 || f&zset.LT != 0 && f&zset.NX != 0:
		return errorf("GT, LT, and/or NX options at the same time are not compatible")
	case incr && len(pairs) > 2:
		return errorf("INCR option supports a single increment-element pair")
	}
	if incr {
		by, ok := ParseFloat(pairs[0])
		if !ok {
			return ErrNotFloat
		}
		score, ok, err := zset.Incr(c.Tx, c.Args[1], f, pairs[1], by)
		return replyScore(c, score, ok, err)
	}
	entries := make([]zset.Entry, 0, len(pairs)/2)
	for ; len(pairs) > 0; pairs = pairs[2:] {
		score, ok := ParseFloat(pairs[0])
		if !ok {
			return ErrNotFloat
		}
		entries = append(entries, zset.Entry{Member: pairs[1], Score: score})
	}
	added, changed, err := zset.Add(c.Tx, c.Args[1], f, entries)
	if ch {
		added += changed
	}
	return replyInt(c, added, err)
}

func zscore(c *Ctx) error {
	score, found, err := zset.Score(c.Tx, c.Args[1], c.Args[2])
	return replyScore(c, score, found, err)
}

func replyScore(c *Ctx, score float64, found bool, err error) error {
	if err == nil {
		writeScore(c.Out, score, found)
	}
	return err
}

func writeScore(w *resp.Writer, score float64, found bool) {
	if found {
		w.Double(score)
	} else {
		w.Null()
	}
}

func zmscore(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	return zset.Scores(c.Tx, c.Args[1], c.Args[2:], func(score float64, found bool) { writeScore(c.Out, score, found) })
}

func zrank(reverse bool) Handler {
	return func(c *Ctx) error {
		if len(c.Args) > 4 {
			return wrongArgs(c.Spec.FullName())
		}
		withScore := len(c.Args) == 4
		if withScore && !EqualFold(c.Args[3], "WITHSCORE") {
			return ErrSyntax
		}
		rank, score, found, err := zset.Rank(c.Tx, c.Args[1], c.Args[2], reverse)
		switch {
		case err != nil:
			return err
		case !found && withScore:
			c.Out.NullArray()
		case !found:
			c.Out.Null()
		case withScore:
			c.Out.Array(2)
			c.Out.Int(int64(rank))
			c.Out.Double(score)
		default:
			c.Out.Int(int64(rank))
		}
		return nil
	}
}

func drawZSet(c *Ctx, n uint64, distinct, scores bool, f func(member []byte, score float64) bool) error {
	if distinct {
		return zset.RandomDistinct(c.Tx, c.Args[1], n, scores, func(member []byte, score float64) { f(member, score) })
	}
	return zset.Random(c.Tx, c.Args[1], n, scores, f)
}

func scanScored(c *Ctx, _ *engine.Record, _ *scanOptions, member, value []byte) (int, error) {
	score, err := cf.ParseDouble(value)
	if err != nil {
		return 0, corruptKey(c.Args[1], err)
	}
	c.Out.Bulk(member)
	var text [32]byte
	c.Out.Bulk(resp.AppendDouble(text[:0], score))
	return 2, nil
}
