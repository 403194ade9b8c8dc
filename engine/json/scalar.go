package json

import "github.com/basaltdb/basalt/engine"

// each calls f for the results of a path for which fits is true, and saves the document if any exist. f may only change
// a value that is neither an array nor an object.
func each[T any](tx *engine.Tx, key []byte, p *Path, o *Options, args int, fits func(v *Value) bool,
	f func(d *Document, v *Value) (T, error)) ([]Result[T], error) {
	d, places, err := locateIn(tx, key, p, args)
	if err != nil {
		return nil, err
	}
	results := make([]Result[T], len(places))
	dirty := false
	for i, at := range places {
		v := at.value()
		if !fits(v) {
			continue
		}
		res, err := f(d, v)
		if err != nil {
			return nil, err
		}
		results[i] = Result[T]{res, true}
		dirty = true
	}
	if !dirty {
		return results, nil
	}
	return results, d.save(o)
}

// Toggle negates booleans and returns their new values.
func Toggle(tx *engine.Tx, key []byte, p *Path, o Options) ([]Result[bool], error) {
	return each(tx, key, p, &o, 0, func(v *Value) bool { return v.kind == Bool },
		func(_ *Document, v *Value) (bool, error) {
			*v = BoolOf(!v.Bool())
			return v.Bool(), nil
		})
}

// StrAppend appends a string, given as its JSON text, to strings and returns their new lengths in bytes.
func StrAppend(tx *engine.Tx, key []byte, p *Path, text []byte, o Options) ([]Result[int], error) {
	more, err := Parse(string(text), o.MaxDepth)
	if err != nil {
		return nil, err
	}
	if more.kind != String {
		return nil, WrongKind("string", &more)
	}
	return each(tx, key, p, &o, len(text), func(v *Value) bool { return v.kind == String },
		func(d *Document, v *Value) (int, error) {
			if err := d.left.take(int64(len(v.text)+len(more.text)) / 4); err != nil {
				return 0, err
			}
			*v = StringOf(v.text + more.text)
			return len(v.text), nil
		})
}

// Calculate adds a number, given as its JSON text, to numbers or multiplies them by it, and returns the results. A
// result beyond the range of doubles gives [ErrOverflow] and changes nothing.
func Calculate(tx *engine.Tx, key []byte, p *Path, op Operation, text []byte, o Options) ([]Result[Value], error) {
	number, err := Parse(string(text), o.MaxDepth)
	if err != nil {
		return nil, err
	}
	if !number.IsNumber() {
		return nil, ErrNumber
	}
	return each(tx, key, p, &o, 0, (*Value).IsNumber, func(d *Document, v *Value) (Value, error) {
		if v.kind == BigInt || number.kind == BigInt {
			if err := d.left.take(maxDigits); err != nil {
				return Value{}, err
			}
		}
		res, ok := op.apply(v, &number)
		if !ok {
			return Value{}, ErrOverflow
		}
		*v = res
		return res, nil
	})
}
