package bitmap

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Range is a part of a bitmap, from Start to End, both included. Negative positions count from the end (-1 = the last);
// positions outside are clamped.
type Range struct {
	Start, End int64
	Bits       bool // positions count bits, not bytes
	NoEnd      bool // up to the end; End is ignored
}

// in returns the range as bit numbers; empty when a bitmap of size bytes has no bit in it.
func (r Range) in(size uint64) (lo, hi uint64, empty bool) {
	n := int64(size)
	if r.Bits {
		n *= 8
	}
	start, end := r.Start, r.End
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	if r.NoEnd || end >= n {
		end = n - 1
	}
	if start > end {
		return 0, 0, true
	}
	if r.Bits {
		return uint64(start), uint64(end), false
	}
	return uint64(start) * 8, uint64(end)*8 + 7, false
}

// backwards reports whether both positions are negative and Start is after End. Such a range is empty even if clamping
// would make the positions equal.
func (r Range) backwards() bool { return !r.NoEnd && r.Start < 0 && r.End < 0 && r.Start > r.End }

// bytes returns the bytes [from, to) that the range touches in a string of size bytes.
func (r Range) bytes(size uint64) (from, to uint64) {
	lo, hi, empty := r.in(size)
	if empty {
		return 0, 0
	}
	return lo / 8, hi/8 + 1
}

// All is the range of all bits.
var All = Range{NoEnd: true}

// Count returns how many bits of a range are set.
func Count(tx *engine.Tx, key []byte, r Range) (uint64, error) {
	rec, size, from, err := loadPart(tx, key, r.bytes)
	if err != nil || !rec.Exists || r.backwards() {
		return 0, err
	}
	lo, hi, empty := r.in(size)
	switch {
	case empty:
		return 0, nil
	case rec.Type == cf.TypeString:
		return countBits(rec.Tail, lo-from*8, hi-from*8, false), nil
	}
	sum := uint64(0)
	count := func(n uint64, value []byte) bool {
		from, to := inFragment(n, lo, hi)
		sum += countBits(value, from, to, true)
		return true
	}
	first, last := lo/fragmentBits, hi/fragmentBits
	if pointwise(&rec, last-first+1) {
		err = eachOf(tx, &rec, run{first, last}, count)
	} else {
		err = scan(tx, key, &rec, first, last, count)
	}
	return sum, err
}

// inFragment returns which bits of the n-th fragment are among those from lo to hi, both included.
func inFragment(n, lo, hi uint64) (from, to uint64) {
	to = fragmentBits - 1
	if n == lo/fragmentBits {
		from = lo % fragmentBits
	}
	if n == hi/fragmentBits {
		to = hi % fragmentBits
	}
	return from, to
}

// pointwise reports whether n fragments should be read by point reads instead of a scan of all fragments. The fragments
// do not lie in the order of their numbers, so a scan cannot be limited to them.
func pointwise(rec *engine.Record, n uint64) bool {
	total := (rec.Size + fragment - 1) / fragment
	return n <= 16 || n < total/16
}

// fragmentsPerRead is how many fragments one batched read returns.
const fragmentsPerRead = 32

// numbers is an ascending sequence of fragment numbers.
type numbers interface {
	// next returns the first number that is at least n.
	next(n uint64) (uint64, bool)
}

// run is the sequence from first to last.
type run struct{ first, last uint64 }

func (r run) next(n uint64) (uint64, bool) { return max(n, r.first), n <= r.last }

// eachOf calls f with the fragments of the given numbers, nil for missing ones, until f returns false.
func eachOf(tx *engine.Tx, rec *engine.Record, of numbers, f func(n uint64, value []byte) bool) error {
	n, more := of.next(0)
	for more {
		var list [fragmentsPerRead]uint64
		some := 0
		keys := tx.Keys()
		for more && some < len(list) {
			list[some] = n
			some++
			keys.Add(fragmentKey(tx, rec, n))
			n, more = of.next(n + 1)
		}
		values, err := tx.MultiGet(cf.Default, keys)
		if err != nil {
			return err
		}
		for i, n := range list[:some] {
			if !f(n, clip(values[i])) {
				return nil
			}
		}
	}
	return nil
}

// scan calls f with the existing fragments from first to last, in no particular order, until f returns false. It
// releases the locks of a read-only transaction.
func scan(tx *engine.Tx, key []byte, rec *engine.Record, first, last uint64,
	f func(n uint64, value []byte) bool) error {
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec)})
	defer it.Close()
	tx.ReadsDone()
	return walk(it, key, first, last, f)
}

func walk(it *engine.Iter, key []byte, first, last uint64, f func(n uint64, value []byte) bool) error {
	for it.Next() {
		off, err := cf.ParseBitmapSub(it.Key())
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if n := off / fragment; n >= first && n <= last && !f(n, clip(it.Value())) {
			return nil
		}
	}
	return it.Err()
}

// present adds the numbers of the existing fragments to a set.
func present(tx *engine.Tx, key []byte, rec *engine.Record, to numberSet) error {
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), KeysOnly: true})
	defer it.Close()
	return walk(it, key, 0, 1<<64-1, func(n uint64, _ []byte) bool {
		to.add(n)
		return true
	})
}
