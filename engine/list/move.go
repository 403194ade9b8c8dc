package list

import (
	"bytes"
	"slices"

	"github.com/basaltdb/basalt/engine"
)

// MoveOptions selects the elements that MoveMany moves, and their order.
type MoveOptions struct {
	// Max is the max number of elements. A list of fewer than Min, which is at least 1, stays as it is.
	Min, Max         uint64
	FromLeft, ToLeft bool
	// Bulk: the elements keep their order. Otherwise they are added in the order in which they are removed: between two
	// left ends, or two right ends, that reverses them.
	Bulk bool
}

// MoveMany removes elements from one end of a list and adds them at an end of another list or of the same one. All are
// removed before the first one is added. It returns them from left to right as they stand in the destination.
func MoveMany(tx *engine.Tx, from, to []byte, o MoveOptions) (elems [][]byte, err error) {
	src, err := load(tx, from)
	n := min(o.Max, src.Size)
	switch {
	case err != nil || n < o.Min:
		return nil, err
	case n == 1:
		elem, _, err := Move(tx, from, to, o.FromLeft, o.ToLeft)
		return [][]byte{elem}, err
	}
	same := string(from) == string(to)
	dst := src
	if !same {
		if dst, err = load(tx, to); err != nil {
			return nil, err
		}
	}
	first, end := src.end(n, o.FromLeft)
	backwards := !o.FromLeft
	if o.Bulk {
		backwards = o.ToLeft
	}
	elems = make([][]byte, 0, n)
	err = src.each(tx, first, end, backwards, func(elem []byte) { elems = append(elems, bytes.Clone(elem)) })
	if err != nil {
		return nil, err
	}
	sameEnd := o.FromLeft == o.ToLeft
	if !same || sameEnd && !o.Bulk || !sameEnd && n < src.Size { // otherwise the list stays as it is
		src.cut(tx, first, end, o.FromLeft)
		if same {
			dst.head, dst.tail = src.head, src.tail
		} else {
			src.save(tx)
		}
		dst.push(tx, elems, o.ToLeft)
		dst.save(tx)
	}
	if o.ToLeft {
		slices.Reverse(elems)
	}
	return elems, nil
}
