package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/list"
)

// LMOVEM and BLMOVEM of Redis 8.10: LMOVE and BLMOVE of several elements.

// parseMoveMany reads the ends, and what follows them or the timeout: [COUNT n | EXACTLY n  OBO | BULK].
func parseMoveMany(c *Ctx, rest [][]byte) (m list.MoveOptions, err error) {
	if m.FromLeft, m.ToLeft, err = ends(c); err != nil {
		return m, err
	}
	m.Min, m.Max = 1, 1
	if len(rest) == 0 {
		return m, nil
	}
	o, n := options{args: rest}, int64(0)
	exactly := o.intOr("EXACTLY", &n, errPopCount)
	o.check(exactly || o.intOr("COUNT", &n, errPopCount), ErrSyntax)
	o.check(n > 0, errPopCount)
	o.check(o.flag("BULK", &m.Bulk) || o.is("OBO"), ErrSyntax)
	o.check(len(o.args) == 0, ErrSyntax)
	m.Max = uint64(n)
	if exactly {
		m.Min = m.Max
	}
	return m, o.err
}

func lmovem(c *Ctx) error {
	m, err := parseMoveMany(c, c.Args[5:])
	if err != nil {
		return err
	}
	moved, err := moveMany(c, m)
	if err == nil && !moved {
		c.Out.NullArray()
	}
	return err
}

// moveMany replies with the elements that it has moved, if any.
func moveMany(c *Ctx, m list.MoveOptions) (moved bool, err error) {
	elems, err := list.MoveMany(c.Tx, c.Args[1], c.Args[2], m)
	if err != nil || len(elems) == 0 {
		return false, err
	}
	c.MarkRewrote()
	c.Out.Array(len(elems))
	for _, e := range elems {
		c.Out.Bulk(e)
	}
	return true, nil
}

func blmovem(c *Ctx) error {
	m, err := parseMoveMany(c, c.Args[6:])
	if err != nil {
		return err
	}
	return firstReady(c, c.Args[1:2], cf.TypeList, c.Args[5], nullArray, func(key []byte) (bool, error) {
		if c.Retry {
			// With too few elements, later waiters must not wait for the lock: they may need fewer.
			if n, err := list.Len(c.Tx, key); err != nil || n < m.Min {
				return false, err
			}
			if !c.Tx.TryLock(c.Args[2]) {
				return false, ErrNeedLocks
			}
		}
		return moveMany(c, m)
	})
}
