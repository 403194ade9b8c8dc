package offline

import (
	"bytes"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// memberMax is how many bytes of a member's value are read: more than any value that is decoded.
const memberMax = 1040

// collection checks the members of one key.
type collection interface {
	// add is called with the members in the order of their subkeys, with the first memberMax bytes of a longer value.
	add(sub, value []byte)
	// end is called after the last member.
	end()
}

// source is a family to read, with at most valueMax bytes of a value; 0 = all.
type source struct {
	id       cf.ID
	valueMax int
}

// groups reads families in parallel and calls f with each prefix of subkeys that one of them has, in order. f must read
// all records with the prefix ([grouped.each]). groups ends early when the context ends or a repair fails.
func (c *checker) groups(phase string, f func(prefix []byte, families []*grouped), from ...source) error {
	total := int64(0)
	for _, s := range from {
		total += c.r.Records(s.id)
	}
	advance := c.o.Phase(phase, total, false)
	families := make([]*grouped, len(from))
	for i, s := range from {
		families[i] = &grouped{c: c, id: s.id, cur: c.cursor(s.id, s.valueMax), advance: advance}
		defer families[i].cur.Close()
		families[i].next()
	}
	for {
		var prefix []byte
		for _, g := range families {
			if g.prefix != nil && (prefix == nil || bytes.Compare(g.prefix, prefix) < 0) {
				prefix = g.prefix
			}
		}
		if err := c.ctx.Err(); err != nil || prefix == nil {
			return err
		}
		f(bytes.Clone(prefix), families)
		if c.err != nil {
			return c.err
		}
	}
}

// members checks the families default and zset_score: their subkeys have the same prefixes, so the two orders of a
// sorted set come together.
func (c *checker) members() error {
	return c.groups("members", c.group, source{cf.Default, memberMax}, source{cf.ZSetScore, 1})
}

// group checks all records with a prefix in the families default and zset_score.
func (c *checker) group(prefix []byte, families []*grouped) {
	members, scores := families[0], families[1]
	o, st := c.find(prefix)
	if st != live {
		pass := func([]byte, []byte) { c.garbage(st) }
		members.each(prefix, pass)
		scores.each(prefix, pass)
		return
	}
	var coll collection
	if o.meta.Type.Family() == cf.Default {
		coll = c.collection(o)
	}
	count := c.report.count(o.meta.Type)
	any := false
	members.each(prefix, func(sub, value []byte) {
		if coll == nil {
			c.stray(o, cf.Default, sub)
			return
		}
		any = true
		count.Subkeys++
		coll.add(sub, value)
	})
	if any && o.wants() {
		c.found[cf.Default] += c.hash(prefix)
	}
	z, sorted := coll.(*zsetCheck)
	scores.each(prefix, func(sub, _ []byte) {
		if !sorted {
			c.stray(o, cf.ZSetScore, sub)
			return
		}
		z.addScore(sub)
	})
	if coll != nil && (any || sorted) {
		coll.end()
	}
}

// stray reports a subkey in a family where the type of its key has none.
func (c *checker) stray(o *owner, id cf.ID, sub []byte) {
	key := append(bytes.Clone(o.prefix), sub...)
	p := o.problem(Unreachable, "a subkey in family %s, where a %s has none", id, o.meta.Type)
	p.Family = id.String()
	c.problem(p, func(m *mender) string { return m.drop(id, key, "unreachable") })
}

// grouped reads a family in groups of records with the same prefix (up to and including the version).
type grouped struct {
	c       *checker
	id      cf.ID
	cur     *engine.Cursor
	prefix  []byte // of the current record; nil = at the end
	n       int64
	advance func(int64)
}

// next moves to the next record whose key can be decoded.
func (g *grouped) next() {
	for {
		if g.n++; g.n%advanceEvery == 0 {
			g.advance(advanceEvery)
		}
		if !g.cur.Next() {
			g.prefix = nil
			return
		}
		key := g.cur.Key()
		sub, err := cf.ParseSubkey(key, g.c.slots)
		if err == nil && g.id == cf.ZSetScore {
			if _, _, err = cf.SplitScoreSub(sub.Sub); err != nil {
				err = fmt.Errorf("%w: a key without a score", cf.ErrCorrupt)
			}
		}
		if err == nil {
			g.prefix = key[:len(key)-len(sub.Sub)]
			return
		}
		g.c.problem(Problem{Kind: BadKey, Family: g.id.String(), Key: Show(key), Detail: err.Error()},
			func(m *mender) string { return m.drop(g.id, key, "bad key") })
		if g.c.err != nil {
			g.prefix = nil
			return
		}
	}
}

// each calls f with the records that have the prefix.
func (g *grouped) each(prefix []byte, f func(sub, value []byte)) {
	for n := 0; g.prefix != nil && bytes.Equal(g.prefix, prefix); n++ {
		f(g.cur.Key()[len(prefix):], g.cur.Value())
		if g.c.err != nil || n%advanceEvery == 0 && g.c.ctx.Err() != nil {
			g.prefix = nil
			return
		}
		g.next()
	}
}

// missing looks for the collections without any members, if the sums say that some exist.
func (c *checker) missing() error {
	if c.wanted == c.found {
		return nil
	}
	return c.walk(cf.Metadata, "missing members", jsonMax, func(key, value []byte) {
		o := owner{nsKey: key, raw: value}
		ns, userKey, err := cf.SplitNSKey(key, c.slots)
		if err == nil {
			o.meta, o.tail, err = cf.DecodeMeta(value)
		}
		if err != nil || !o.meta.Type.Known() || !o.meta.Live(c.now) || !o.wants() || c.tail(&o) != nil {
			return
		}
		o.ns, o.key = string(ns), userKey
		o.prefix = cf.AppendSubkeyPrefix(nil, key, c.slots, o.meta.Version)
		cur := under(c.r, o.meta.Type.Family(), o.prefix, 1)
		defer cur.Close()
		if cur.Next() {
			return
		}
		if o.meta.Type == cf.TypeZSet {
			scores := under(c.r, cf.ZSetScore, o.prefix, 1)
			defer scores.Close()
			if scores.Next() {
				return // its score index has not been compared yet
			}
		}
		c.problem(o.problem(NoMembers, "no member is there, the size is %d", o.meta.Size),
			func(m *mender) string { return m.drop(cf.Metadata, key, "without members") })
	})
}
