package engine

import "bytes"

// mergeBuffers is how many bytes the buffers of the iterators of one Merge may have together.
const mergeBuffers = 1 << 20

// MergeBuffer is the [IterOptions].Buffer for n iterators that are read at the same time.
func MergeBuffer(n int) int { return mergeBuffers / max(n, 1) }

// Merge calls f with each key that any of the iterators has, in byte order, until f returns false. at holds the
// indexes, in ascending order, of the iterators that stand on the key. The iterators must stand before their first
// entries.
func Merge(its []*Iter, f func(key []byte, at []int) (goOn bool)) error {
	type head struct {
		key []byte
		i   int
	}
	// The entries on which the iterators stand, the one with the lowest key last, the first one of those with the same
	// key last.
	order := make([]head, 0, len(its))
	step := func(i int) error {
		it := its[i]
		if !it.Next() {
			return it.Err()
		}
		key, lo, hi := it.Key(), 0, len(order)
		for lo < hi {
			mid := int(uint(lo+hi) / 2)
			c := bytes.Compare(order[mid].key, key)
			if c > 0 || c == 0 && order[mid].i > i {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		order = append(order, head{})
		copy(order[lo+1:], order[lo:])
		order[lo] = head{key, i}
		return nil
	}
	for i := range its {
		if err := step(i); err != nil {
			return err
		}
	}
	at := make([]int, 0, len(its))
	for n := len(order) - 1; n >= 0; n = len(order) - 1 {
		key := order[n].key
		for at = append(at[:0], order[n].i); n > 0 && bytes.Equal(order[n-1].key, key); n-- {
			at = append(at, order[n-1].i)
		}
		order = order[:n]
		if !f(key, at) {
			return nil
		}
		for _, i := range at {
			if err := step(i); err != nil {
				return err
			}
		}
	}
	return nil
}
