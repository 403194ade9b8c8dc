package cuckoo

import "math"

// add adds an item to the pages in memory.
func (c *chain) add(p placed, unique bool) (Result, error) {
	if unique {
		found := false
		if err := c.scan(p, func(b bucket) bool { found = b.index(p.fp) >= 0; return found }); err != nil || found {
			return Present, err
		}
	}
	added := false
	err := c.scan(p, func(b bucket) bool {
		if i := b.free(); i >= 0 {
			b.set(i, p.fp)
			added = true
		}
		return added
	})
	if err == nil && !added {
		added, err = c.kick(p)
	}
	if err == nil && !added {
		added, err = c.grow(p)
	}
	if err != nil || !added {
		return Full, err
	}
	c.rec.Size++
	return Added, nil
}

// move is a change that kick may have to undo.
type move struct {
	bucket
	i       int
	fp      byte
	changed bool
}

// kick puts an item, whose buckets are full, into its first bucket of the newest filter, and moves what was there, in
// the order of Kvrocks and of Redis's module. It changes nothing if that takes too many moves.
func (c *chain) kick(p placed) (bool, error) {
	newest := len(c.buckets) - 1
	number, fp := p.hash%c.buckets[newest], p.fp
	var moves []move
	for i := range int(c.meta.MaxIterations) {
		b, err := c.bucket(newest, number)
		if err != nil {
			return false, err
		}
		slot := i % b.n
		victim := b.slots()[slot] // the bucket is full
		moves = append(moves, move{b, slot, victim, b.changed})
		b.set(slot, fp)
		fp = victim
		number = other(number, fp) % c.buckets[newest]
		if b, err = c.bucket(newest, number); err != nil {
			return false, err
		}
		if free := b.free(); free >= 0 {
			b.set(free, fp)
			return true, nil
		}
	}
	for i := len(moves) - 1; i >= 0; i-- {
		m := &moves[i]
		m.set(m.i, m.fp)
		m.page.changed = m.changed
	}
	return false, nil
}

// grow puts an item into a new filter. It returns false if the chain does not grow.
func (c *chain) grow(p placed) (bool, error) {
	k := len(c.buckets)
	if c.meta.Expansion == 0 || k == math.MaxUint16 || c.meta.FilterBuckets(k) == 0 {
		return false, nil
	}
	c.meta.Filters++
	c.measure()
	b, err := c.bucket(k, p.hash%c.buckets[k])
	if err == nil {
		b.set(0, p.fp)
	}
	return err == nil, err
}
