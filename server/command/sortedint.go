package command

import (
	"strconv"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/sortedint"
)

// The commands of Kvrocks's sortedint. Redis does not have them.
var sortedintCommands = []Spec{
	{Name: "siadd", Handler: sortedintChange(sortedint.Add), Arity: -3, Flags: Write | DenyOOM | Fast},
	{Name: "sirem", Handler: sortedintChange(sortedint.Remove), Arity: -3, Flags: Write | Fast},
	{Name: "sicard", Handler: count(sortedint.Card), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "siexists", Handler: siexists, Arity: -3, Flags: ReadOnly | Fast | Repeatable},
	{Name: "sirange", Handler: sortedintPage, Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "sirevrange", Handler: sortedintPage, Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "sirangebyvalue", Handler: sortedintByValue, Arity: -4, Flags: ReadOnly | Repeatable},
	{Name: "sirevrangebyvalue", Handler: sortedintByValue, Arity: -4, Flags: ReadOnly | Repeatable},
}

// parseSortedInts reads ids, which are unsigned.
func parseSortedInts(args [][]byte) ([]uint64, error) {
	ids := make([]uint64, len(args))
	for i, a := range args {
		var ok bool
		if ids[i], ok = ParseUint(a); !ok {
			return nil, ErrNotInteger
		}
	}
	return ids, nil
}

func sortedintChange(f func(tx *engine.Tx, key []byte, ids []uint64) (int, error)) Handler {
	return func(c *Ctx) error {
		ids, err := parseSortedInts(c.Args[2:])
		if err != nil {
			return err
		}
		n, err := f(c.Tx, c.Args[1], ids)
		return replyInt(c, n, err)
	}
}

func siexists(c *Ctx) error {
	ids, err := parseSortedInts(c.Args[2:])
	if err != nil {
		return err
	}
	has, err := sortedint.Contains(c.Tx, c.Args[1], ids)
	return replyBools(c, has, err)
}

// sortedintPage is SIRANGE and SIREVRANGE key offset limit [CURSOR id]. The page begins behind the cursor; the
// cursor 0 of SIREVRANGE is that of the first page. Kvrocks takes an absent cursor for 0 and so never returns the
// id 0, even to those who do not page.
func sortedintPage(c *Ctx) error {
	p := sortedint.All
	p.Reverse = c.Spec.Name == "sirevrange"
	var ok1, ok2 bool
	p.Offset, ok1 = ParseUint(c.Args[2])
	p.Limit, ok2 = ParseUint(c.Args[3])
	if !ok1 || !ok2 {
		return ErrNotInteger
	}
	switch {
	case len(c.Args) == 4:
	case len(c.Args) != 6 || !EqualFold(c.Args[4], "CURSOR"):
		return ErrSyntax
	default:
		cursor, ok := ParseUint(c.Args[5])
		switch {
		case !ok:
			return ErrNotInteger
		case !p.Reverse:
			p = p.Above(cursor)
		case cursor > 0:
			p = p.Below(cursor)
		}
	}
	return replyIDs(c, p)
}

// replyIDs writes the IDs of a page as strings.
func replyIDs(c *Ctx, p sortedint.Page) error {
	mark, n := c.Out.Mark(), 0
	var text [20]byte
	err := sortedint.Each(c.Tx, c.Args[1], p, func(id uint64) {
		c.Out.Bulk(strconv.AppendUint(text[:0], id, 10))
		n++
	})
	c.Out.InsertArray(mark, n)
	return err
}

// sortedintByValue is SIRANGEBYVALUE and SIREVRANGEBYVALUE with [LIMIT offset count]. A negative offset is 0, a
// count below 1 no limit.
func sortedintByValue(c *Ctx) error {
	low, high := c.Args[2], c.Args[3]
	reverse := c.Spec.Name == "sirevrangebyvalue"
	if reverse {
		low, high = high, low
	}
	if string(low) == "+inf" || string(high) == "-inf" {
		return errLexOrder
	}
	p := sortedint.All
	p.Reverse = reverse
	if string(low) != "-inf" {
		id, open, ok := sortedIntBound(low)
		if !ok {
			return errorf("the min isn't integer")
		}
		if p.Min = id; open {
			p = p.Above(id)
		}
	}
	if string(high) != "+inf" {
		id, open, ok := sortedIntBound(high)
		if !ok {
			return errorf("the max isn't integer")
		}
		if p.Max = min(p.Max, id); open {
			p = p.Below(id)
		}
	}
	switch {
	case len(c.Args) == 4:
	case len(c.Args) != 7 || !EqualFold(c.Args[4], "LIMIT"):
		return ErrSyntax
	default:
		offset, ok1 := ParseInt(c.Args[5])
		count, ok2 := ParseInt(c.Args[6])
		if !ok1 || !ok2 || offset != int64(int32(offset)) || count != int64(int32(count)) {
			return ErrNotInteger
		}
		p.Offset, p.Limit = uint64(max(offset, 0)), uint64(max(count, 0))
	}
	return replyIDs(c, p)
}

// sortedIntBound reads an id, or one behind a parenthesis, which is excluded.
func sortedIntBound(b []byte) (id uint64, open, ok bool) {
	if open = len(b) > 0 && b[0] == '('; open {
		b = b[1:]
	}
	id, ok = ParseUint(b)
	return id, open, ok
}
