package engine

import (
	"bytes"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/rocks"
)

// IterOptions say what an iterator reads.
type IterOptions struct {
	// Prefix: all keys that begin with it; Key returns the rest of the key.
	Prefix []byte
	// Lower and Upper: keys in [Lower, Upper), given as whole keys even with Prefix. Then they narrow the prefix: Lower
	// must begin with it, and Upper must not be beyond its keys. Empty = no bound.
	Lower, Upper []byte
	Reverse      bool   // from the last key to the first
	KeysOnly     bool   // Value is empty
	ValueMax     int    // max bytes of a value; 0 = all
	Limit        int    // how many entries the caller expects to read; 0 = all. A hint only
	Buffer       int    // max size in bytes of the memory for what was read ahead; 0 = 64 KiB
	Skip         uint64 // entries skipped at the start, without copying them
	NoFill       bool   // blocks that are read do not enter the block cache: for full scans
	// max number of tombstones that one step may skip before the iteration fails with an Incomplete status; 0 = no
	// limit
	MaxSkip  uint64
	Snapshot *Snapshot
	// Parts: only keys whose first SliceLen bytes behind Prefix (which must be set) are in one of several ranges. Parts
	// holds a lower (inclusive) and an upper bound (exclusive) for each range, all of SliceLen bytes, in ascending
	// order. Shorter keys, which do not occur in such a collection, are returned too. Not for Reverse.
	Parts    []byte
	SliceLen int
}

// inParts reports whether the iterator returns a key, given without the prefix.
func (o *IterOptions) inParts(sub []byte) bool {
	if o.SliceLen == 0 || len(sub) < o.SliceLen {
		return true
	}
	sub = sub[:o.SliceLen]
	for p := o.Parts; len(p) > 0; p = p[2*o.SliceLen:] {
		if bytes.Compare(sub, p[o.SliceLen:2*o.SliceLen]) < 0 {
			return bytes.Compare(sub, p[:o.SliceLen]) >= 0
		}
	}
	return false
}

// Iter iterates over a range of one family, the transaction's own writes included.
type Iter struct {
	tx    *Tx
	it    rocks.Iter
	err   error // the open failed
	strip int
	key   []byte
	value []byte

	merge   bool
	reverse bool
	own     []ownEntry // the transaction's writes in the range, sorted
	next    int
	dbOK    bool // the database iterator is on an entry that was not used yet
	owner   bool // the buffer belongs to the transaction
	skip    uint64
	used    bool          // the database iterator's entry was returned
	hide    []rangeDelete // DeleteRanges of the transaction
	prefix  []byte        // the stripped prefix, for comparisons with hide
	full    []byte
}

type ownEntry struct {
	key, value []byte
	del        bool
}

// Iter opens an iterator before the first entry. The caller closes it. Later writes do not change what it returns.
func (tx *Tx) Iter(id cf.ID, o IterOptions) *Iter {
	err := tx.usable()
	if err == nil && o.Snapshot != nil && o.Snapshot.s == nil {
		err = ErrClosed
	}
	if err != nil {
		return &Iter{tx: tx, err: err}
	}
	family := tx.db.family(id)
	if family == nil {
		return &Iter{tx: tx}
	}
	r := rocks.Range{Lower: o.Lower, Upper: o.Upper, Strip: len(o.Prefix), ValueMax: o.ValueMax, MaxSkip: o.MaxSkip,
		Limit: o.Limit, Buffer: o.Buffer, Skip: o.Skip,
		Parts: o.Parts, SliceLen: o.SliceLen, Lane: tx.lane, Stop: &tx.stopped}
	if len(o.Prefix) > 0 {
		if len(r.Lower) == 0 {
			r.Lower = o.Prefix
		}
		if len(r.Upper) == 0 {
			b := tx.arena.take(len(o.Prefix))
			if up, ok := cf.AppendSuccessor(b, o.Prefix); ok {
				r.Upper = tx.arena.keep(up)
			}
		}
		if _, err := cf.ParseSubkey(o.Prefix, tx.db.slots); err == nil && id != cf.Index {
			r.Flags |= rocks.Collection
		}
	}
	if o.Reverse {
		r.Flags |= rocks.Reverse
	}
	if o.KeysOnly {
		r.Flags |= rocks.KeysOnly
	}
	if o.NoFill {
		r.Flags |= rocks.NoFill
	}
	if tx.db.asyncIO.Load() {
		r.Flags |= rocks.AsyncIO
	}
	if o.Snapshot != nil {
		r.Snapshot = o.Snapshot.s
	}
	it := &Iter{tx: tx, strip: len(o.Prefix), reverse: o.Reverse}
	if tx.over.dirty(id) {
		it.merge = true
		it.collect(id, &o, &r)
		r.Skip, it.skip = 0, r.Skip
	}
	it.it = tx.db.rocks.NewIter(family, &r, tx.buffers.take())
	it.owner = true
	if it.merge {
		it.dbOK = it.it.Next()
		for it.skip > 0 && it.Next() {
			it.skip--
		}
	}
	return it
}

// collect sorts the transaction's own writes in the range. A DeleteRange hides the entries that it covers when the
// iteration reaches them.
func (it *Iter) collect(id cf.ID, opts *IterOptions, r *rocks.Range) {
	o := &it.tx.over
	for i := range o.ents {
		e := &o.ents[i]
		if e.id != id || e.kind < written {
			continue
		}
		key := o.keyOf(e)
		if len(r.Lower) > 0 && bytes.Compare(key, r.Lower) < 0 || len(r.Upper) > 0 && bytes.Compare(key, r.Upper) >= 0 {
			continue
		}
		own := ownEntry{key: key, del: e.kind == deleted}
		if !own.del && r.Flags&rocks.KeysOnly == 0 {
			own.value = o.valueOf(e)
			if r.ValueMax > 0 && len(own.value) > r.ValueMax {
				own.value = own.value[:r.ValueMax]
			}
		}
		own.key = own.key[min(it.strip, len(own.key)):]
		if !opts.inParts(own.key) {
			continue
		}
		it.own = append(it.own, own)
	}
	slices.SortFunc(it.own, func(a, b ownEntry) int {
		if it.reverse {
			return bytes.Compare(b.key, a.key)
		}
		return bytes.Compare(a.key, b.key)
	})
	if len(o.ranges) > 0 {
		for _, d := range o.ranges {
			if d.id == id {
				it.hide = append(it.hide, d)
			}
		}
		it.prefix = bytes.Clone(r.Lower[:min(it.strip, len(r.Lower))])
	}
}

// Next moves to the next entry and reports whether one exists.
func (it *Iter) Next() bool {
	if !it.merge {
		if !it.it.Next() {
			return false
		}
		it.key, it.value = it.it.Key(), it.it.Value()
		return true
	}
	return it.nextMerged()
}

func (it *Iter) nextMerged() bool {
	for {
		if it.used {
			it.dbOK, it.used = it.it.Next(), false
		}
		for it.dbOK && it.hidden(it.it.Key()) {
			it.dbOK = it.it.Next()
		}
		c := -1 // the database's entry comes first
		switch {
		case !it.dbOK && it.it.Err() != nil: // entries that cannot be read may come before the next own one
			return false
		case it.next >= len(it.own) && !it.dbOK:
			return false
		case it.next >= len(it.own):
		case !it.dbOK:
			c = 1
		default:
			c = bytes.Compare(it.it.Key(), it.own[it.next].key)
			if it.reverse {
				c = -c
			}
		}
		if c < 0 {
			it.key, it.value, it.used = it.it.Key(), it.it.Value(), true
			return true
		}
		e := &it.own[it.next]
		it.next++
		if c == 0 { // the own write replaces the database's entry
			it.used = true
		}
		if !e.del {
			it.key, it.value = e.key, e.value
			return true
		}
	}
}

func (it *Iter) hidden(key []byte) bool {
	for _, d := range it.hide {
		full := append(append(it.full[:0], it.prefix...), key...)
		it.full = full
		if bytes.Compare(full, d.begin) >= 0 && bytes.Compare(full, d.end) < 0 {
			return true
		}
	}
	return false
}

// Key returns the key of the current entry, without the prefix when one was given; valid until the next call of
// Next.
func (it *Iter) Key() []byte { return it.key }

// Value returns the value of the current entry, valid until the next call of Next.
func (it *Iter) Value() []byte { return it.value }

// Skip skips up to n entries and returns how many it has skipped.
func (it *Iter) Skip(n uint64) uint64 {
	if !it.merge {
		return it.it.Skip(n)
	}
	var done uint64
	for done < n && it.Next() {
		done++
	}
	return done
}

// Err returns the error that ended the iteration, nil at the end of the range.
func (it *Iter) Err() error {
	if it.err != nil {
		return it.err
	}
	return it.it.Err()
}

// Close frees the iterator. It may be called twice.
func (it *Iter) Close() {
	it.it.Close()
	if it.owner {
		it.tx.buffers.put(it.it.Buffer())
		it.owner = false
	}
}

// Count returns how many keys are in [lower, upper).
func (tx *Tx) Count(id cf.ID, lower, upper []byte) (uint64, error) {
	if tx.over.dirty(id) {
		it := tx.Iter(id, IterOptions{Lower: lower, Upper: upper, KeysOnly: true})
		defer it.Close()
		n := it.Skip(1<<64 - 1)
		return n, it.Err()
	}
	if err := tx.usable(); err != nil {
		return 0, err
	}
	return tx.db.rocks.Count(tx.db.family(id), nil, lower, upper, 0, false)
}
