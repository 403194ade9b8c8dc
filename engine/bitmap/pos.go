package bitmap

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Pos returns the number of the first bit of a range whose value is set, -1 when no such bit exists. If set is false
// and the range has no end, the result may be the bit just after the end of the bitmap. A missing key is an infinite
// sequence of zeros.
func Pos(tx *engine.Tx, key []byte, set bool, r Range) (int64, error) {
	rec, size, from, err := loadPart(tx, key, r.bytes)
	if err != nil {
		return 0, err
	}
	if !rec.Exists {
		if set {
			return -1, nil
		}
		return 0, nil
	}
	lo, hi, empty := r.in(size)
	if empty {
		return -1, nil
	}
	var at uint64
	var found bool
	if rec.Type == cf.TypeString {
		at, found = firstBit(rec.Tail, lo-from*8, hi-from*8, set, false)
		at += from * 8
	} else {
		at, found, err = firstIn(tx, key, &rec, lo, hi, set)
	}
	switch {
	case err != nil:
		return 0, err
	case found:
		return int64(at), nil
	case !set && r.NoEnd:
		return int64(size * 8), nil
	}
	return -1, nil
}

// posTries is how many fragments, existing or missing, are read one by one before the existing ones are listed.
const posTries = 2 * fragmentsPerRead

// firstIn is firstBit for a bitmap.
func firstIn(tx *engine.Tx, key []byte, rec *engine.Record, lo, hi uint64, set bool) (at uint64, found bool,
	err error) {
	first, last := lo/fragmentBits, hi/fragmentBits
	look := func(n uint64, value []byte) bool {
		from, to := inFragment(n, lo, hi)
		at, found = firstInFragment(value, from, to, set)
		at += n * fragmentBits
		return !found
	}
	if !set || last-first < posTries {
		err = eachOf(tx, rec, run{first, last}, look)
		return at, found, err
	}
	if err = eachOf(tx, rec, run{first, first + posTries - 1}, look); err != nil || found {
		return at, found, err
	}
	have := newNumberSet(last + 1)
	if err = present(tx, key, rec, have); err != nil {
		return 0, false, err
	}
	err = eachOf(tx, rec, &after{have, first + posTries, last}, look)
	return at, found, err
}

// firstInFragment is firstBit for a fragment, which continues with zeros.
func firstInFragment(value []byte, lo, hi uint64, set bool) (at uint64, found bool) {
	end := uint64(len(value)) * 8
	if lo < end {
		if at, found = firstBit(value, lo, min(hi, end-1), set, true); found {
			return at, true
		}
	}
	return max(lo, end), !set && hi >= end
}

// after is the subsequence of a set from first to last.
type after struct {
	numberSet
	first, last uint64
}

func (a *after) next(n uint64) (uint64, bool) {
	n, ok := a.numberSet.next(max(n, a.first))
	return n, ok && n <= a.last
}
