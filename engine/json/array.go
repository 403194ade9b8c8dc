package json

import (
	"slices"

	"github.com/basaltdb/basalt/engine"
)

// Result is the outcome for one result of a path.
type Result[T any] struct {
	Value T
	Fits  bool // the value has the kind that the function works on; otherwise nothing was done
}

// eachArray calls f for the arrays among the results of a path and saves the document if f reports a change. An inner
// array comes before the arrays that contain it, so an element that f removes from an outer array is in its final
// state.
func eachArray[T any](tx *engine.Tx, key []byte, p *Path, o *Options, args int,
	f func(d *Document, at place, b *box) (res T, changed bool, err error)) ([]Result[T], error) {
	d, places, err := locateIn(tx, key, p, args)
	if err != nil {
		return nil, err
	}
	// Places change when an array that contains them changes; boxes do not.
	boxes := make([]*box, len(places))
	for i, at := range places {
		if v := at.value(); v.kind == Array {
			boxes[i] = v.box
		}
	}
	results := make([]Result[T], len(places))
	dirty := false
	for i := len(places) - 1; i >= 0; i-- {
		if boxes[i] == nil {
			continue
		}
		// Moving elements is cheap but not free.
		if err := d.left.take(int64(len(boxes[i].vals)) / 16); err != nil {
			return nil, err
		}
		res, changed, err := f(d, places[i], boxes[i])
		if err != nil {
			return nil, err
		}
		results[i] = Result[T]{res, true}
		dirty = dirty || changed
	}
	if !dirty {
		return results, nil
	}
	return results, d.save(o)
}

// elements are values to be added to arrays.
type elements struct {
	vals   []Value
	levels int // the max nesting depth of an element
	bytes  int // total length of their texts
}

func parseElements(texts [][]byte, o *Options) (e elements, err error) {
	e.vals = make([]Value, len(texts))
	for i, t := range texts {
		if e.vals[i], err = Parse(string(t), o.MaxDepth); err != nil {
			return e, err
		}
		e.levels = max(e.levels, depth(&e.vals[i], MaxDepth))
		e.bytes += len(t)
	}
	return e, nil
}

// into checks the limits for adding the elements to an array.
func (e *elements) into(d *Document, at place, o *Options) error {
	if int(at.depth)+1+e.levels > o.MaxDepth {
		return ErrTooDeep
	}
	return d.left.take(4 * int64(len(e.vals)))
}

// ArrAppend appends elements to arrays and returns their new lengths.
func ArrAppend(tx *engine.Tx, key []byte, p *Path, texts [][]byte, o Options) ([]Result[int], error) {
	e, err := parseElements(texts, &o)
	if err != nil {
		return nil, err
	}
	return eachArray(tx, key, p, &o, e.bytes, func(d *Document, at place, b *box) (int, bool, error) {
		if err := e.into(d, at, &o); err != nil {
			return 0, false, err
		}
		b.vals = append(b.vals, e.vals...)
		return len(b.vals), true, nil
	})
}

// ArrInsert inserts elements before index i (negative = from the end) and returns the new lengths of the arrays. An
// index outside an array gives [ErrInsertAt] and changes nothing.
func ArrInsert(tx *engine.Tx, key []byte, p *Path, i int64, texts [][]byte, o Options) ([]Result[int], error) {
	e, err := parseElements(texts, &o)
	if err != nil {
		return nil, err
	}
	return eachArray(tx, key, p, &o, e.bytes, func(d *Document, at place, b *box) (int, bool, error) {
		i, n := i, int64(len(b.vals))
		if i < 0 {
			i += n
		}
		if i < 0 || i > n {
			return 0, false, ErrInsertAt
		}
		if err := e.into(d, at, &o); err != nil {
			return 0, false, err
		}
		b.vals = slices.Insert(b.vals, int(i), e.vals...)
		return len(b.vals), true, nil
	})
}

// clampIndex resolves an index that counts from the end if negative, and limits it to [0, n - 1].
func clampIndex(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return max(min(i, n-1), 0)
}

// ArrPop removes element i, or the nearest existing one, from arrays and returns it; nil for an empty array.
func ArrPop(tx *engine.Tx, key []byte, p *Path, i int64, o Options) ([]Result[*Value], error) {
	return eachArray(tx, key, p, &o, 0, func(d *Document, _ place, b *box) (*Value, bool, error) {
		if len(b.vals) == 0 {
			return nil, false, nil
		}
		i := clampIndex(i, int64(len(b.vals)))
		popped := b.vals[i]
		b.remove(func(j int) bool { return j == int(i) })
		return &popped, true, nil
	})
}

// ArrTrim keeps only the elements start to stop, both included, of arrays and returns their new lengths. Negative
// indexes count from the end; indexes outside are clamped.
func ArrTrim(tx *engine.Tx, key []byte, p *Path, start, stop int64, o Options) ([]Result[int], error) {
	return eachArray(tx, key, p, &o, 0, func(d *Document, _ place, b *box) (int, bool, error) {
		n := int64(len(b.vals))
		from, to := clampIndex(start, n), clampIndex(stop, n)
		if n == 0 || start >= n || from > to {
			b.clear()
		} else {
			b.vals = b.vals[from : to+1]
		}
		return len(b.vals), true, nil
	})
}

// NotFound is IndexOf's result when the array does not contain the value.
const NotFound = -1

// IndexOf returns the index of the first element of an array of the document that equals a value, from start on and
// before stop. Negative indexes count from the end; stop 0 is the end. 1 does not equal 1.0.
func (d *Document) IndexOf(array, want *Value, start, stop int64) (int, error) {
	n := int64(array.Len())
	to := min(stop, n)
	switch {
	case stop == 0:
		to = n
	case stop < 0:
		to = n + stop
	}
	for i := clampIndex(start, n); i < to; i++ {
		elem := array.At(int(i))
		if err := d.left.take(1 + price(elem, want)); err != nil {
			return 0, err
		}
		if elem.Equal(want) {
			return int(i), nil
		}
	}
	return NotFound, nil
}
