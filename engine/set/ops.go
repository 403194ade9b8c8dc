package set

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Every set is kept in the order of its members' bytes, so the operations on several sets merge their iterators:
// they need no memory however big the sets are, and the results come in order.

// cursor is an iterator that stands on a member.
type cursor struct {
	it *engine.Iter
	ok bool
}

func (c *cursor) next() error {
	c.ok = c.it.Next()
	if !c.ok {
		return c.it.Err()
	}
	return nil
}

// open opens a cursor on each key, ok false for those that do not exist.
func open(tx *engine.Tx, keys [][]byte) (cs []cursor, sizes []uint64, err error) {
	recs := make([]engine.Record, len(keys))
	for i, k := range keys { // all types are checked before anything else happens
		if recs[i], err = load(tx, k); err != nil {
			return nil, nil, err
		}
	}
	cs, sizes = make([]cursor, len(keys)), make([]uint64, len(keys))
	for i := range recs {
		if !recs[i].Exists {
			continue
		}
		sizes[i] = recs[i].Size
		cs[i].it = tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&recs[i]), KeysOnly: true})
	}
	tx.ReadsDone()
	for i := range cs {
		if cs[i].it != nil {
			if err := cs[i].next(); err != nil {
				closeAll(cs)
				return nil, nil, err
			}
		}
	}
	return cs, sizes, nil
}

func closeAll(cs []cursor) {
	for i := range cs {
		if cs[i].it != nil {
			cs[i].it.Close()
		}
	}
}

// Union calls f with every member of any of the sets, once.
func Union(tx *engine.Tx, keys [][]byte, f func(member []byte)) error {
	cs, _, err := open(tx, keys)
	if err != nil {
		return err
	}
	defer closeAll(cs)
	for {
		var least []byte
		for i := range cs {
			if cs[i].ok && (least == nil || bytes.Compare(cs[i].it.Key(), least) < 0) {
				least = cs[i].it.Key()
			}
		}
		if least == nil {
			return nil
		}
		f(least)
		least = bytes.Clone(least) // moving on overwrites it
		for i := range cs {
			if cs[i].ok && bytes.Equal(cs[i].it.Key(), least) {
				if err := cs[i].next(); err != nil {
					return err
				}
			}
		}
	}
}

// Diff calls f with the members of the first set that are in none of the others.
func Diff(tx *engine.Tx, keys [][]byte, f func(member []byte)) error {
	cs, _, err := open(tx, keys)
	if err != nil {
		return err
	}
	defer closeAll(cs)
	for first := &cs[0]; first.ok; {
		m := first.it.Key()
		keep := true
		for i := 1; i < len(cs) && keep; i++ {
			found, err := cs[i].seek(m)
			if err != nil {
				return err
			}
			keep = !found
		}
		if keep {
			f(m)
		}
		if err := first.next(); err != nil {
			return err
		}
	}
	return nil
}

// seek moves on to the first member that is not below m and reports whether it is m.
func (c *cursor) seek(m []byte) (bool, error) {
	for c.ok {
		switch bytes.Compare(c.it.Key(), m) {
		case 0:
			return true, nil
		case 1:
			return false, nil
		}
		if err := c.next(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// lookupFactor is how much bigger than the smallest set another one must be for looking its members up to be
// cheaper than reading along.
const lookupFactor = 8

// Intersect calls f with the members that are in all of the sets, until it returns false. The smallest set is
// read; of a much bigger one only its members are looked up.
func Intersect(tx *engine.Tx, keys [][]byte, f func(member []byte) bool) error {
	recs := make([]engine.Record, len(keys))
	small, empty := 0, false
	var err error
	for i, k := range keys {
		if recs[i], err = load(tx, k); err != nil {
			return err
		}
		empty = empty || !recs[i].Exists
		if recs[i].Size < recs[small].Size {
			small = i
		}
	}
	if empty {
		return nil
	}
	recs[0], recs[small] = recs[small], recs[0]
	iter := func(r *engine.Record) cursor {
		return cursor{it: tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(r), KeysOnly: true})}
	}
	first := iter(&recs[0])
	defer first.it.Close()
	var along []cursor // read along
	defer func() { closeAll(along) }()
	var look []*engine.Record // looked up
	for i := 1; i < len(recs); i++ {
		if recs[i].Size > lookupFactor*recs[0].Size {
			look = append(look, &recs[i])
			continue
		}
		c := iter(&recs[i])
		along = append(along, c)
	}
	for i := range along {
		if err := along[i].next(); err != nil {
			return err
		}
	}
	if len(look) == 0 {
		tx.ReadsDone()
	}
	var chunk [][]byte
	for {
		chunk = chunk[:0]
		for len(chunk) < lookupChunk && first.it.Next() {
			m, all := first.it.Key(), true
			for i := range along {
				found, err := along[i].seek(m)
				if err != nil {
					return err
				}
				if all = found; !all {
					break
				}
			}
			if !all {
				continue
			}
			if len(look) > 0 {
				chunk = append(chunk, bytes.Clone(m))
			} else if !f(m) {
				return nil
			}
		}
		if err := first.it.Err(); err != nil || len(chunk) == 0 {
			return err
		}
		for _, r := range look {
			has, err := contains(tx, r, chunk)
			if err != nil {
				return err
			}
			n := 0
			for i, m := range chunk {
				if has[i] {
					chunk[n] = m
					n++
				}
			}
			chunk = chunk[:n]
		}
		for _, m := range chunk {
			if !f(m) {
				return nil
			}
		}
	}
}

// lookupChunk is how many members are looked up in one batch.
const lookupChunk = 64

// Store makes a set out of what produce calls its argument with, in the place of whatever the key holds, and
// returns the number of members. What is produced must be free of repetitions, and may come from sets that the
// key itself is one of: it is all produced before anything is written. Nothing produced leaves no key, as a record
// of size 0.
func Store(tx *engine.Tx, key []byte, produce func(add func(member []byte)) error) (int, error) {
	var members [][]byte
	if err := produce(func(m []byte) { members = append(members, bytes.Clone(m)) }); err != nil {
		return 0, err
	}
	old, err := tx.LoadAny(key)
	if err != nil {
		return 0, err
	}
	if len(members) == 0 && !old.Exists {
		return 0, nil
	}
	rec := tx.Fresh(key, cf.TypeSet)
	tx.LogData(cf.LogSet)
	for _, m := range members {
		tx.Put(cf.Default, tx.Subkey(&rec, m), nil)
	}
	rec.Size = uint64(len(members))
	tx.Save(&rec, nil)
	return len(members), nil
}
