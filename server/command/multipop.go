package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// The common part of LMPOP, ZMPOP, BLMPOP and BZMPOP: they pop elements of the first non-empty key.

var (
	errNumKeys  = engine.NewError("ERR", "numkeys should be greater than 0")
	errPopCount = engine.NewError("ERR", "count should be greater than 0")
)

// multiPop says which elements to pop.
type multiPop struct {
	keys  [][]byte
	first bool // from the end that the first of two words names: LEFT, MIN
	count uint64
}

// popKey replies with elements of one key, unless the key is empty.
type popKey func(c *Ctx, key []byte, p *multiPop) (found bool, err error)

// parseMultiPop parses numkeys key ... WORD [COUNT n], where WORD is one of two words.
func parseMultiPop(args [][]byte, first, second string) (p multiPop, err error) {
	n, ok := ParseInt(args[0])
	if !ok || n < 1 {
		return p, errNumKeys
	}
	if n > int64(len(args)-2) {
		return p, ErrSyntax
	}
	p.keys = args[1 : 1+n]
	o, count := options{args: args[1+n:]}, int64(1)
	if !o.flag(first, &p.first) && !o.is(second) {
		return p, ErrSyntax
	}
	if o.intOr("COUNT", &count, errPopCount) {
		o.check(count >= 1, errPopCount)
	}
	o.check(len(o.args) == 0, ErrSyntax)
	p.count = uint64(count)
	return p, o.err
}

// mpop makes the handler of LMPOP or ZMPOP.
func mpop(first, second string, pop popKey) Handler {
	return func(c *Ctx) error {
		p, err := parseMultiPop(c.Args[1:], first, second)
		if err != nil {
			return err
		}
		for _, key := range p.keys {
			if found, err := pop(c, key, &p); err != nil || found {
				return err
			}
		}
		c.Out.NullArray()
		return nil
	}
}

// bmpop makes the handler of BLMPOP or BZMPOP, which have a timeout as first argument. As in Redis the timeout is
// parsed last.
func bmpop(first, second string, t cf.Type, pop popKey) Handler {
	return func(c *Ctx) error {
		p, err := parseMultiPop(c.Args[2:], first, second)
		if err != nil {
			return err
		}
		return firstReady(c, p.keys, t, c.Args[1], nullArray, func(key []byte) (bool, error) { return pop(c, key, &p) })
	}
}
