package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
)

var zsetPopCommands = []Spec{
	{Name: "zpopmin", Handler: zpopmin, Arity: -2, Flags: Write | Fast, First: 1, Last: 1, Step: 1, Group: "sorted-set", Since: "5.0.0",
		Complexity: "O(M*log(N)) with M members to remove from N.", Categories: "@sortedset",
		Summary: "Removes the members with the lowest scores and returns them."},
	{Name: "zpopmax", Handler: zpopmax, Arity: -2, Flags: Write | Fast, First: 1, Last: 1, Step: 1, Group: "sorted-set", Since: "5.0.0",
		Complexity: "O(M*log(N)) with M members to remove from N.", Categories: "@sortedset",
		Summary: "Removes the members with the highest scores and returns them."},
	{Name: "zmpop", Handler: zmpop, Arity: -4, Flags: Write | MovableKeys, Keys: zmpopKeys, Group: "sorted-set", Since: "7.0.0",
		Complexity: "O(K) + O(M*log(N)) with K keys and M members to remove from N.", Categories: "@sortedset",
		Summary: "Removes the members with the lowest or highest scores from the first sorted set that is not empty."},
}

func init() { register(zsetPopCommands...) }

var (
	errNumKeys  = engine.NewError("ERR", "numkeys should be greater than 0")
	errPopCount = engine.NewError("ERR", "count should be greater than 0")
)

func zpopmin(c *Ctx) error { return zpop(c, false) }

func zpopmax(c *Ctx) error { return zpop(c, true) }

func zpop(c *Ctx, highest bool) error {
	n := int64(1)
	counted := len(c.Args) == 3
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	if counted {
		var err error
		if n, err = ParseCount(c.Args[2]); err != nil {
			return err
		}
	}
	// One popped member is no pair of its own in either protocol, unless a count was given.
	out := newPairs(c.Out, true)
	out.nested = out.nested && counted
	err := zset.Pop(c.Tx, c.Args[1], uint64(n), highest, out.add)
	out.end()
	return err
}

func zmpopKeys(args [][]byte, add func(argIndex int, write bool)) error {
	return numKeys(args, 1, true, add)
}

// numKeys adds the keys that follow their number, which is the argument at. A number that does not fit adds none
// and is an error, for COMMAND GETKEYS; a handler says itself what is wrong.
func numKeys(args [][]byte, at int, write bool, add func(argIndex int, write bool)) error {
	if at >= len(args) {
		return errNumKeys
	}
	n, ok := ParseInt(args[at])
	if !ok || n < 1 || n > int64(len(args)-at-1) {
		return errNumKeys
	}
	for i := range int(n) {
		add(at+1+i, write)
	}
	return nil
}

func zmpop(c *Ctx) error {
	p, err := zmpopOf(c.Args[1:])
	if err != nil {
		return err
	}
	for _, key := range p.keys {
		if found, err := p.pop(c, key); err != nil || found {
			return err
		}
	}
	c.Out.NullArray()
	return nil
}

// zsetPop is what ZMPOP and BZMPOP are to pop.
type zsetPop struct {
	keys    [][]byte
	highest bool
	count   uint64
}

// zmpopOf parses numkeys key ... MIN|MAX [COUNT n].
func zmpopOf(args [][]byte) (p zsetPop, err error) {
	n, ok := ParseInt(args[0])
	if !ok || n < 1 {
		return p, errNumKeys
	}
	if n > int64(len(args)-2) {
		return p, ErrSyntax
	}
	rest := args[1+n:]
	p.keys, p.count = args[1:1+n], 1
	p.highest = EqualFold(rest[0], "MAX")
	if !p.highest && !EqualFold(rest[0], "MIN") {
		return p, ErrSyntax
	}
	counted := false
	for i := 1; i < len(rest); i += 2 {
		if counted || i+1 >= len(rest) || !EqualFold(rest[i], "COUNT") {
			return p, ErrSyntax
		}
		count, ok := ParseInt(rest[i+1])
		if !ok || count < 1 {
			return p, errPopCount
		}
		p.count, counted = uint64(count), true
	}
	return p, nil
}

// pop replies with members of one sorted set, if it has some.
func (p *zsetPop) pop(c *Ctx, key []byte) (found bool, err error) {
	size, err := zset.Card(c.Tx, key)
	if err != nil || size == 0 {
		return false, err
	}
	c.Out.Array(2)
	c.Out.Bulk(key)
	out := newPairs(c.Out, true)
	out.nested = true
	err = zset.Pop(c.Tx, key, p.count, p.highest, out.add)
	out.end()
	return true, err
}
