package set

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Every set is stored in the byte order of its members. So an operation on several sets merges their iterators: it
// needs constant memory however large the sets are, and its results are in order.

// cursor is an iterator that stands on a member if ok is true.
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

// seek moves forward to the first member that is at least m and reports whether it equals m.
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

// cursors are the open iterators of one operation.
type cursors []cursor

func (cs cursors) close() {
	for i := range cs {
		cs[i].it.Close()
	}
}

// start moves every cursor to its first member.
func (cs cursors) start() error {
	for i := range cs {
		if err := cs[i].next(); err != nil {
			return err
		}
	}
	return nil
}

// loadAll reads the records of several sets. It checks all types before the operation does anything else.
func loadAll(tx *engine.Tx, keys [][]byte) ([]engine.Record, error) {
	recs := make([]engine.Record, len(keys))
	for i, k := range keys {
		var err error
		if recs[i], err = load(tx, k); err != nil {
			return nil, err
		}
	}
	return recs, nil
}

// Union calls f once with every member of any of the sets, until f returns false.
func Union(tx *engine.Tx, keys [][]byte, f func(member []byte) bool) error {
	recs, err := loadAll(tx, keys)
	if err != nil {
		return err
	}
	var its []*engine.Iter
	defer func() {
		for _, it := range its {
			it.Close()
		}
	}()
	for i := range recs {
		if recs[i].Exists {
			its = append(its, iter(tx, &recs[i], len(recs)))
		}
	}
	tx.ReadsDone()
	return engine.Merge(its, func(member []byte, _ []int) bool { return f(member) })
}

// Diff calls f with the members of the first set that no other set contains, until f returns false.
func Diff(tx *engine.Tx, keys [][]byte, f func(member []byte) bool) error {
	recs, err := loadAll(tx, keys)
	if err != nil || !recs[0].Exists {
		return err
	}
	return compare(tx, recs, false, f)
}

// Intersect calls f with the members that all sets contain, until f returns false.
func Intersect(tx *engine.Tx, keys [][]byte, f func(member []byte) bool) error {
	recs, err := loadAll(tx, keys)
	if err != nil {
		return err
	}
	small := 0
	for i := range recs {
		if !recs[i].Exists {
			return nil
		}
		if recs[i].Size < recs[small].Size {
			small = i
		}
	}
	recs[0], recs[small] = recs[small], recs[0]
	return compare(tx, recs, true, f)
}

const (
	// lookupFactor: a set that is this many times larger than the first one is not read; the members are looked up in
	// it. One look-up costs about as much as reading eight members.
	lookupFactor = 8
	// lookupChunk is how many members one batch looks up.
	lookupChunk = 64
)

// compare calls f with the members of the first set that every other set contains (in), or that none contains (not in),
// until f returns false. It reads the first set and the other sets in parallel. In a much larger set it looks the
// members up.
func compare(tx *engine.Tx, recs []engine.Record, in bool, f func(member []byte) bool) error {
	first := cursor{it: iter(tx, &recs[0], len(recs))}
	defer first.it.Close()
	var along cursors
	defer func() { along.close() }()
	var big []*engine.Record
	for i := 1; i < len(recs); i++ {
		switch r := &recs[i]; {
		case !r.Exists: // can only happen when members must not be in it
		case r.Size/lookupFactor > recs[0].Size:
			big = append(big, r)
		default:
			along = append(along, cursor{it: iter(tx, r, len(recs))})
		}
	}
	if len(big) == 0 {
		tx.ReadsDone()
	}
	if err := along.start(); err != nil {
		return err
	}
	var found memberBuffer // members that are still to be looked up in the large sets
	for {
		if err := first.next(); err != nil {
			return err
		}
		if first.ok {
			m, keep := first.it.Key(), true
			for i := 0; i < len(along) && keep; i++ {
				has, err := along[i].seek(m)
				if err != nil {
					return err
				}
				keep = has == in
			}
			switch {
			case !keep:
			case len(big) > 0:
				found.add(m)
			case !f(m):
				return nil
			}
		}
		if len(found.ends) == lookupChunk || !first.ok {
			members, err := lookedUp(tx, found.members(), big, in)
			if err != nil {
				return err
			}
			for _, m := range members {
				if !f(m) {
					return nil
				}
			}
			found.reset()
		}
		if !first.ok {
			return nil
		}
	}
}

// lookedUp returns the members that every one of the sets contains (in), or that none contains. It reuses the slice.
func lookedUp(tx *engine.Tx, members [][]byte, sets []*engine.Record, in bool) ([][]byte, error) {
	for _, r := range sets {
		if len(members) == 0 {
			break
		}
		had, err := tx.GetSubkeys(r, members, 1)
		if err != nil {
			return nil, err
		}
		n := 0
		for i, m := range members {
			if (had[i] != nil) == in {
				members[n] = m
				n++
			}
		}
		members = members[:n]
	}
	return members, nil
}

// memberBuffer stores copies of members in one buffer.
type memberBuffer struct {
	buf  []byte
	ends []int
	list [][]byte
}

func (p *memberBuffer) add(m []byte) {
	p.buf = append(p.buf, m...)
	p.ends = append(p.ends, len(p.buf))
}

// members returns the members added so far. The slices are valid until the next call of add or reset.
func (p *memberBuffer) members() [][]byte {
	p.list = p.list[:0]
	from := 0
	for _, end := range p.ends {
		p.list = append(p.list, p.buf[from:end])
		from = end
	}
	return p.list
}

func (p *memberBuffer) reset() { p.buf, p.ends = p.buf[:0], p.ends[:0] }

// Store replaces whatever the key holds by a set of the members that produce passes to add, and returns their number.
// The members must be distinct. The key itself may be one of the sets that produce reads: all members are collected
// before anything is written. Once there are too many for a write batch, add returns false, and Store
// engine.ErrBatchSize. Without members the key does not exist afterwards, as a record of size 0.
func Store(tx *engine.Tx, key []byte, produce func(add func(member []byte) bool) error) (int, error) {
	rec := tx.Fresh(key, cf.TypeSet)
	prefix := len(tx.SubkeyPrefix(&rec))
	room := tx.BatchRoom()
	var p memberBuffer
	err := produce(func(member []byte) bool {
		if room -= int64(engine.MinRecord + prefix + len(member)); room < 0 {
			return false
		}
		p.add(member)
		return true
	})
	n := len(p.ends)
	switch {
	case err != nil:
		return 0, err
	case room < 0:
		return 0, engine.ErrBatchSize
	case n == 0:
		if old, err := tx.LoadHead(key); err != nil || !old.Exists {
			return 0, err
		}
	}
	if err := tx.Reserve(n, n*prefix+len(p.buf)); err != nil {
		return 0, err
	}
	tx.LogData(cf.LogSet)
	from := 0
	for _, end := range p.ends {
		tx.PutSubkey(&rec, cf.Default, tx.Subkey(&rec, p.buf[from:end]), nil)
		from = end
	}
	rec.Size = uint64(n)
	tx.Save(&rec, nil)
	return n, nil
}
