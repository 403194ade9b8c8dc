package command

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/engine/zset"
)

var zsetRangeCommands = []Spec{
	{Name: "zrange", Handler: zrange(rangeForm{}), Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "zrangestore", Handler: zrangestore, Arity: -5, Flags: Write | DenyOOM, Keys: destinationAndSource},
	{Name: "zrevrange", Handler: zrange(rangeForm{reverse: true, fixed: true}), Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "zrangebyscore", Handler: zrange(rangeForm{by: zset.ByScore, fixed: true}), Arity: -4,
		Flags: ReadOnly | Repeatable},
	{Name: "zrevrangebyscore", Handler: zrange(rangeForm{by: zset.ByScore, reverse: true, fixed: true}), Arity: -4,
		Flags: ReadOnly | Repeatable},
	{Name: "zrangebylex", Handler: zrange(rangeForm{by: zset.ByLex, fixed: true}), Arity: -4,
		Flags: ReadOnly | Repeatable},
	{Name: "zrevrangebylex", Handler: zrange(rangeForm{by: zset.ByLex, reverse: true, fixed: true}), Arity: -4,
		Flags: ReadOnly | Repeatable},
	{Name: "zcount", Handler: zcount, Arity: 4, Flags: ReadOnly | Fast | Repeatable},
	{Name: "zlexcount", Handler: zlexcount, Arity: 4, Flags: ReadOnly | Fast | Repeatable},
	{Name: "zremrangebyrank", Handler: zremrange(zset.ByRank), Arity: 4, Flags: Write},
	{Name: "zremrangebyscore", Handler: zremrange(zset.ByScore), Arity: 4, Flags: Write},
	{Name: "zremrangebylex", Handler: zremrange(zset.ByLex), Arity: 4, Flags: Write},
}

// rangeForm is what the name of a range command says: kind and direction are fixed, or left to the options.
type rangeForm struct {
	by      zset.By
	reverse bool
	fixed   bool // no BYSCORE, BYLEX, REV
	store   bool // no WITHSCORES
}

// parseRange reads min, max and the options behind them.
func parseRange(args [][]byte, form rangeForm) (q zset.Query, withScores bool, err error) {
	q = zset.Query{By: form.by, Reverse: form.reverse, Count: -1}
	min, max := args[0], args[1]
	typed := form.fixed
	o := options{args: args[2:]}
	for o.more() {
		switch {
		case !form.store && o.flag("WITHSCORES", &withScores):
		case o.limit(&q.Offset, &q.Count):
		case !form.fixed && !q.Reverse && o.flag("REV", &q.Reverse):
		case !typed && o.is("BYSCORE"):
			q.By, typed = zset.ByScore, true
		case !typed && o.is("BYLEX"):
			q.By, typed = zset.ByLex, true
		default:
			o.err = ErrSyntax
		}
	}
	switch {
	case o.err != nil:
		return q, false, o.err
	case q.Count != -1 && q.By == zset.ByRank:
		return q, false, errorf("syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	case withScores && q.By == zset.ByLex:
		return q, false, errorf("syntax error, WITHSCORES not supported in combination with BYLEX")
	}
	if q.Reverse && q.By != zset.ByRank {
		min, max = max, min
	}
	return q, withScores, parseBounds(&q, min, max)
}

// parseBounds reads the two ends of a range, the lower end first.
func parseBounds(q *zset.Query, min, max []byte) (err error) {
	switch q.By {
	case zset.ByScore:
		q.Score, err = parseScoreRange(min, max)
	case zset.ByLex:
		q.Lex, err = parseLexRange(min, max)
	default:
		q.Start, q.Stop, err = bounds(min, max)
	}
	return err
}

func parseScoreRange(min, max []byte) (r zset.ScoreRange, err error) {
	var ok1, ok2 bool
	r.Min, r.MinOpen, ok1 = scoreBound(min)
	r.Max, r.MaxOpen, ok2 = scoreBound(max)
	if !ok1 || !ok2 {
		return r, errorf("min or max is not a float")
	}
	return r, nil
}

// scoreBound reads a score with an optional ( in front. The number is read as C's strtod reads it, which is what
// Redis does here: blanks in front, nothing at all (0) and numbers beyond the range of a double are allowed, and a
// zero byte ends it.
func scoreBound(b []byte) (f float64, open, ok bool) {
	if len(b) > 0 && b[0] == '(' {
		open, b = true, b[1:]
	}
	if f, ok = ParseFloat(b); ok {
		return f, open, true
	}
	b = cString(b)
	if len(b) == 0 {
		return 0, open, true
	}
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	if f, ok = ParseFloat(b); ok {
		return f, open, true
	}
	if bytes.IndexByte(b, '_') >= 0 {
		return 0, false, false
	}
	// What ParseFloat still refuses is too large or too small, or no number.
	f, err := strconv.ParseFloat(string(b), 64)
	if errors.Is(err, strconv.ErrSyntax) {
		f, err = strconv.ParseFloat(string(b)+"p0", 64) // hexadecimal without an exponent
	}
	return f, open, (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(f)
}

func parseLexRange(min, max []byte) (r zset.LexRange, err error) {
	var ok1, ok2 bool
	r.Min, ok1 = lexBound(min)
	r.Max, ok2 = lexBound(max)
	if !ok1 || !ok2 {
		return r, errorf("min or max not valid string range item")
	}
	return r, nil
}

// lexBound reads [member, (member, - or +.
func lexBound(b []byte) (l zset.LexBound, ok bool) {
	if len(b) == 0 {
		return l, false
	}
	switch b[0] {
	case '-', '+':
		l.Infinite = -1
		if b[0] == '+' {
			l.Infinite = 1
		}
		return l, len(b) == 1 || b[1] == 0
	case '(', '[':
		l.Member, l.Open = b[1:], b[0] == '('
		return l, true
	}
	return l, false
}

func zrange(form rangeForm) Handler {
	return func(c *Ctx) error {
		q, withScores, err := parseRange(c.Args[2:], form)
		if err != nil {
			return err
		}
		out := newPairs(c.Out, withScores)
		err = zset.Range(c.Tx, c.Args[1], &q, out.add)
		out.end()
		return err
	}
}

func zrangestore(c *Ctx) error {
	q, _, err := parseRange(c.Args[3:], rangeForm{store: true})
	if err != nil {
		return err
	}
	entries, err := zset.RangeEntries(c.Tx, c.Args[2], &q)
	if err != nil {
		return err
	}
	return replyInt(c, len(entries), zset.Store(c.Tx, c.Args[1], entries))
}

func zcount(c *Ctx) error {
	r, err := parseScoreRange(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	n, err := zset.Count(c.Tx, c.Args[1], r)
	return replyInt(c, n, err)
}

func zlexcount(c *Ctx) error {
	r, err := parseLexRange(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	n, err := zset.LexCount(c.Tx, c.Args[1], r)
	return replyInt(c, n, err)
}

func zremrange(by zset.By) Handler {
	return func(c *Ctx) error {
		q := zset.Query{By: by}
		if err := parseBounds(&q, c.Args[2], c.Args[3]); err != nil {
			return err
		}
		n, err := zset.RemoveRange(c.Tx, c.Args[1], &q)
		return replyInt(c, n, err)
	}
}
