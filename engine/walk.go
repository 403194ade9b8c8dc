package engine

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// walk returns a random key of the collection to start reading at. It looks at the first and the last subkey of a
// range, picks a value for the first byte in which they differ, narrows the range to it, and so on, until one subkey
// is left. How often it picks a value depends on how much RocksDB says that the keys with it take. It knows that by the block
// only, so a range of a few blocks is read and any of its keys picked, if those are not too many.
func (tx *Tx) walk(id cf.ID, prefix []byte) ([]byte, error) {
	lower := bytes.Clone(prefix)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	edge := func(reverse bool) ([]byte, error) {
		it := tx.Iter(id, IterOptions{Lower: lower, Upper: upper, Reverse: reverse, KeysOnly: true, Limit: 1, MaxSkip: walkSkip})
		defer it.Close()
		if it.Next() {
			return bytes.Clone(it.Key()), nil
		}
		if err := it.Err(); err != nil && !incomplete(err) {
			return nil, err
		}
		return nil, nil
	}
	best := lower
	for range walkDepth {
		first, err := edge(false)
		if err != nil {
			return nil, err
		}
		if first == nil {
			return best, nil // nothing here, or tombstones: reading on from the last place finds something
		}
		best = first
		last, err := edge(true)
		if err != nil || last == nil || bytes.Equal(first, last) {
			return best, err
		}
		n := len(prefix)
		for n < len(first) && n < len(last) && first[n] == last[n] {
			n++
		}
		a, b := -1, int(last[n])
		if n < len(first) {
			a = int(first[n])
		}
		head := first[:n:n]
		pick, ok := tx.pickByte(id, head, upper, a, b, walkMeasured)
		if !ok {
			key, all, err := tx.pickKey(id, first, upper)
			if all || err != nil {
				return key, err
			}
			pick, ok = tx.pickByte(id, head, upper, a, b, 1)
		}
		if !ok {
			if pick = a + rand.IntN(b-a+1); pick < 0 {
				return first, nil // the one subkey that ends here
			}
		}
		lower = append(head, byte(pick))
		if up, ok := cf.AppendSuccessor(nil, lower); ok {
			upper = up
		}
		best = lower
	}
	return best, nil
}

// pickByte picks one of the bytes from a to b that may follow head, by the size of what begins so; upper comes after all of it.
// -1 for a is the key that ends with head. It fails when all of it takes less than so many bytes.
func (tx *Tx) pickByte(id cf.ID, head, upper []byte, a, b int, least uint64) (pick int, ok bool) {
	const parts = 4
	lo, hi := a, b
	for lo < hi {
		at := append(make([]uint16, 0, parts+2), uint16(max(lo, 0)))
		for i := 1; i <= parts; i++ {
			if v := uint16(lo + (hi-lo+1)*i/parts); v > at[len(at)-1] {
				at = append(at, v)
			}
		}
		sizes := make([]uint64, len(at)-1)
		var total uint64
		if tx.db.rocks.ApproximateParts(tx.db.fam[id], head, upper, at, sizes) {
			for _, n := range sizes {
				total += n
			}
		}
		if total < least {
			if lo == a && hi == b || total == 0 {
				return 0, false
			}
		}
		r := rand.Uint64N(total)
		i := slices.IndexFunc(sizes, func(n uint64) bool {
			if r < n {
				return true
			}
			r -= n
			return false
		})
		lo, hi = int(at[i]), int(at[i+1])-1
	}
	return lo, true
}

// pickKey picks one of the keys in [lower, upper), of which there is one. It reports whether it has seen all of them.
func (tx *Tx) pickKey(id cf.ID, lower, upper []byte) (pick []byte, all bool, err error) {
	it := tx.Iter(id, IterOptions{Lower: lower, Upper: upper, KeysOnly: true, Limit: walkScan, MaxSkip: walkSkip})
	defer it.Close()
	pick = lower // should it be deleted meanwhile
	for n := 1; it.Next(); n++ {
		if n > walkScan {
			return nil, false, nil
		}
		if rand.IntN(n) == 0 {
			pick = bytes.Clone(it.Key())
		}
	}
	if err := it.Err(); err != nil && !incomplete(err) {
		return nil, false, err
	}
	return pick, true, nil
}
