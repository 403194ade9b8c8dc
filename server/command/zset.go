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
	{Name: "zincrby", Handler: zincrby, Arity: 4, Flags: Write | DenyOOM | Fast,
		Prefetch: prefetchMember(cf.TypeZSet, 3, 4)},
	{Name: "zrem", Handler: zrem, Arity: -3, Flags: Write | Fast, Prefetch: prefetchMember(cf.TypeZSet, 2, 3)},
	{Name: "zcard", Handler: zcard, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "zscore", Handler: zscore, Arity: 3, Flags: ReadOnly | Fast, Prefetch: prefetchMember(cf.TypeZSet, 2, 3)},
	{Name: "zmscore", Handler: zmscore, Arity: -3, Flags: ReadOnly | Fast},
	{Name: "zrank", Handler: zrank, Arity: -3, Flags: ReadOnly | Fast},
	{Name: "zrevrank", Handler: zrevrank, Arity: -3, Flags: ReadOnly | Fast},
	{Name: "zrandmember", Handler: zrandmember, Arity: -2, Flags: ReadOnly},
	{Name: "zscan", Handler: zscan, Arity: -3, Flags: ReadOnly},
}

var (
	errZaddNXXX = engine.NewError("ERR", "XX and NX options at the same time are not compatible")
	errZaddGTLT = engine.NewError("ERR", "GT, LT, and/or NX options at the same time are not compatible")
	errZaddIncr = engine.NewError("ERR", "INCR option supports a single increment-element pair")
)

func zadd(c *Ctx) error { return zaddGeneric(c, false) }

// zincrby takes, as in Redis, the options of ZADD too; but then the number of arguments never fits.
func zincrby(c *Ctx) error { return zaddGeneric(c, true) }

func zaddGeneric(c *Ctx, incr bool) error {
	var f zset.Flags
	ch := false
	i := 2
options:
	for ; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case len(a) != 2 && len(a) != 4: // no option: the usual case
			break options
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
		return errZaddNXXX
	case f&zset.GT != 0 && f&(zset.NX|zset.LT) != 0 || f&zset.LT != 0 && f&zset.NX != 0:
		return errZaddGTLT
	case incr && len(pairs) > 2:
		return errZaddIncr
	}
	if incr {
		by, ok := ParseFloat(pairs[0])
		if !ok {
			return ErrNotFloat
		}
		score, ok, err := zset.Incr(c.Tx, c.Args[1], f, pairs[1], by)
		if err != nil {
			return err
		}
		if ok {
			c.Out.Double(score)
		} else {
			c.Out.Null()
		}
		return nil
	}
	var few [4]zset.Entry
	entries := few[:0]
	if n := len(pairs) / 2; n > len(few) {
		entries = make([]zset.Entry, 0, n)
	}
	for ; len(pairs) > 0; pairs = pairs[2:] {
		score, ok := ParseFloat(pairs[0])
		if !ok {
			return ErrNotFloat
		}
		entries = append(entries, zset.Entry{Member: pairs[1], Score: score})
	}
	added, changed, err := zset.Add(c.Tx, c.Args[1], f, entries)
	if err != nil {
		return err
	}
	if ch {
		added += changed
	}
	c.Out.Int(int64(added))
	return nil
}

func zrem(c *Ctx) error {
	n, err := zset.Remove(c.Tx, c.Args[1], c.Args[2:])
	return replyInt(c, n, err)
}

func zcard(c *Ctx) error {
	n, err := zset.Card(c.Tx, c.Args[1])
	return replyInt(c, n, err)
}

func zscore(c *Ctx) error {
	score, found, err := zset.Score(c.Tx, c.Args[1], c.Args[2])
	if err != nil {
		return err
	}
	writeScore(c.Out, score, found)
	return nil
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

func zrank(c *Ctx) error { return zrankGeneric(c, false) }

func zrevrank(c *Ctx) error { return zrankGeneric(c, true) }

func zrankGeneric(c *Ctx, reverse bool) error {
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

var (
	errRandomCount = engine.NewError("ERR",
		"value is out of range, value must between -9223372036854775807 and 9223372036854775807")
	errReplySize = engine.NewError("ERR", "the reply would be too large")
)

// maxRandomReply bounds the reply of ZRANDMEMBER with a negative count, in bytes: it is as long as the client likes,
// however small the sorted set is.
const maxRandomReply = 1 << 30

// fitsRandom reports whether a reply that began at mark has room for more of n random elements. A negative n may exceed
// the bound from the first element on, because even an empty element takes six bytes.
func fitsRandom(c *Ctx, n int64, mark int) bool {
	const least = int64(len("$0\r\n\r\n"))
	return n >= -(maxRandomReply/least) && c.Out.Len()-mark < maxRandomReply
}

func zrandmember(c *Ctx) error {
	if len(c.Args) == 2 {
		found := false
		err := zset.Random(c.Tx, c.Args[1], 1, false, func(member []byte, _ float64) bool {
			found = true
			c.Out.Bulk(member)
			return true
		})
		if err == nil && !found {
			c.Out.Null()
		}
		return err
	}
	n, ok := ParseInt(c.Args[2])
	const most = 1<<63 - 1
	switch {
	case !ok:
		return ErrNotInteger
	case n < -most:
		return errRandomCount
	case len(c.Args) > 4 || len(c.Args) == 4 && !EqualFold(c.Args[3], "WITHSCORES"):
		return ErrSyntax
	}
	scores := len(c.Args) == 4
	if scores && (n > most/2 || n < -(most/2)) {
		return ErrOutOfRange
	}
	mark, e := c.Out.Mark(), newPairs(c.Out, scores)
	var err error
	fits := true
	if n >= 0 {
		err = zset.RandomDistinct(c.Tx, c.Args[1], uint64(n), scores, e.add)
	} else {
		err = zset.Random(c.Tx, c.Args[1], uint64(-n), scores, func(member []byte, score float64) bool {
			e.add(member, score)
			fits = fitsRandom(c, n, mark)
			return fits
		})
		if err == nil && !fits {
			err = errReplySize
		}
	}
	e.end()
	return err
}

func zscan(c *Ctx) error {
	rec, cur, o, found, err := beginScan(c, cf.TypeZSet)
	if err != nil || !found {
		return err
	}
	return scanSubkeys(c, scanZSet, &rec, cur, o, func(w *resp.Writer, member, value []byte) (int, error) {
		score, err := cf.ParseDouble(value)
		if err != nil {
			return 0, corruptKey(c.Args[1], err)
		}
		w.Bulk(member)
		var text [32]byte
		w.Bulk(resp.AppendDouble(text[:0], score))
		return 2, nil
	})
}

// pairs writes members, or members and scores, whose number is not known beforehand: a flat array in RESP2, in
// RESP3 an array of [member, score] arrays.
type pairs struct {
	w      *resp.Writer
	mark   int
	n      int // elements of the outer array
	scores bool
	nested bool
}

func newPairs(w *resp.Writer, scores bool) *pairs {
	return &pairs{w: w, mark: w.Mark(), scores: scores, nested: scores && w.Proto == 3}
}

func (p *pairs) add(member []byte, score float64) {
	p.n++
	if p.nested {
		p.w.Array(2)
	}
	p.w.Bulk(member)
	if p.scores {
		p.w.Double(score)
		if !p.nested {
			p.n++
		}
	}
}

// end puts the header in front.
func (p *pairs) end() { p.w.InsertArray(p.mark, p.n) }
