package command

import "github.com/basaltdb/basalt/engine/zset"

var zsetPopCommands = []Spec{
	{Name: "zpopmin", Handler: zpop(false), Arity: -2, Flags: Write | Fast},
	{Name: "zpopmax", Handler: zpop(true), Arity: -2, Flags: Write | Fast},
	{Name: "zmpop", Handler: mpop("MIN", "MAX", popZSet), Arity: -4, Flags: Write | MovableKeys,
		Keys: numKeysAt(1, true)},
}

func zpop(highest bool) Handler {
	return func(c *Ctx) error {
		n := int64(1)
		counted := len(c.Args) == 3
		if len(c.Args) > 3 {
			return ErrSyntax
		}
		if counted {
			var ok bool
			if n, ok = ParseInt(c.Args[2]); !ok || n < 0 {
				return ErrNotPositive
			}
		}
		// Without a count, the popped member and its score are not nested in RESP3 either.
		out := newPairs(c.Out, true)
		out.nested = out.nested && counted
		err := zset.Pop(c.Tx, c.Args[1], uint64(n), highest, out.add)
		out.end()
		return err
	}
}

// popZSet replies with members of one sorted set, unless the set is empty.
func popZSet(c *Ctx, key []byte, p *multiPop) (found bool, err error) {
	size, err := zset.Card(c.Tx, key)
	if err != nil || size == 0 {
		return false, err
	}
	c.Out.Array(2)
	c.Out.Bulk(key)
	out := newPairs(c.Out, true)
	out.nested = true
	err = zset.Pop(c.Tx, key, p.count, !p.first, out.add)
	out.end()
	return true, err
}
