package rdb

import "github.com/basaltdb/basalt/server/rdb/internal/raw"

// reader reads a value.
type reader struct {
	raw.Reader

	skip bool // values of modules that are not known are passed over
	// part, if not nil, takes what has been read of a value as soon as that needs more than partBytes. Its slices are
	// valid during the call.
	part      func(v *Value) error
	partBytes int64
	whole     int64 // the budget of a part
	parts     int   // that were taken
}

// cut hands over what has been read of a value, if that is enough for a part. It is called between two elements.
func (r *reader) cut(v *Value) {
	if r.part == nil || r.Err != nil || r.whole-r.Budget < r.partBytes {
		return
	}
	if r.check(v); r.Err != nil {
		return
	}
	if err := r.part(v); err != nil {
		r.Fail(err)
		return
	}
	r.parts++
	r.Budget, r.Chunk = r.whole, nil
	v.Elems, v.Scores, v.Expires = nil, nil, nil
	if v.Stream != nil {
		v.Stream.Entries = nil
	}
}
