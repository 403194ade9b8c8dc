package json

import "math"

// Kind is the kind of a [Value].
type Kind uint8

// The kinds. Numbers have four kinds: an integer keeps all its digits, whatever its size.
const (
	Null   Kind = iota
	Bool        // true or false
	Int         // an integer in the range of int64
	Uint        // a greater integer in the range of uint64
	BigInt      // any other integer
	Float       // a number with a fraction or an exponent; never NaN or infinite
	String
	Array
	Object
)

// Value is a JSON value. The zero Value is null.
//
// A copy of an array or object shares the elements with its original; [Value.Clone] makes an independent copy. Strings
// may alias the text or record that the value was decoded from.
type Value struct {
	kind Kind
	num  uint64 // Bool: 0 or 1; Int: two's complement; Uint; Float: IEEE 754 bits
	text string // String: the string; BigInt: decimal digits with an optional minus
	box  *box   // Array, Object
}

// box holds the children of an array or object. Its address stays the same when the children change, so a pointer to it
// remains valid when the slice with the value is reallocated.
type box struct {
	vals  []Value
	keys  []string         // Object: the names of vals, in insertion order
	index map[string]int32 // Object: indexes of the names, built when there are many; nil = not built
}

// manyMembers is the number of members from which an object has an index of names.
const manyMembers = 24

// BoolOf returns true or false.
func BoolOf(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.num = 1
	}
	return v
}

// IntOf returns an integer.
func IntOf(n int64) Value { return Value{kind: Int, num: uint64(n)} }

// StringOf returns a string, which must be valid UTF-8.
func StringOf(s string) Value { return Value{kind: String, text: s} }

// floatOf returns a number of kind Float; f must be finite.
func floatOf(f float64) Value { return Value{kind: Float, num: math.Float64bits(f)} }

// ArrayOf returns an array that takes ownership of the elements.
func ArrayOf(elems ...Value) Value { return Value{kind: Array, box: &box{vals: elems}} }

func newObject() Value { return Value{kind: Object, box: &box{}} }

// Kind returns the kind of the value.
func (v *Value) Kind() Kind { return v.kind }

// TypeName returns the name of the kind in JSON.TYPE: null, boolean, integer, number, string, array or object.
func (v *Value) TypeName() string {
	switch v.kind {
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case Int, Uint, BigInt:
		return "integer"
	case Float:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	}
	return "object"
}

// IsNumber reports whether the value is a number of any kind.
func (v *Value) IsNumber() bool { return v.kind >= Int && v.kind <= Float }

// Bool returns a boolean.
func (v *Value) Bool() bool { return v.num != 0 }

// Int returns an integer of kind Int.
func (v *Value) Int() int64 { return int64(v.num) }

// Text returns a string.
func (v *Value) Text() string { return v.text }

// Len returns the number of children of an array or object, 0 for other kinds.
func (v *Value) Len() int {
	if v.box == nil {
		return 0
	}
	return len(v.box.vals)
}

// At returns child i of an array or object, 0 <= i < Len.
func (v *Value) At(i int) *Value { return &v.box.vals[i] }

// Key returns the name of member i of an object.
func (v *Value) Key(i int) string { return v.box.keys[i] }

// find returns the index of a member, -1 if it is missing.
func (b *box) find(name string) int {
	if len(b.keys) < manyMembers {
		for i, k := range b.keys {
			if k == name {
				return i
			}
		}
		return -1
	}
	if b.index == nil {
		b.index = make(map[string]int32, len(b.keys))
		for i, k := range b.keys {
			b.index[k] = int32(i)
		}
	}
	if i, ok := b.index[name]; ok {
		return int(i)
	}
	return -1
}

// set replaces a member or appends it.
func (b *box) set(name string, v Value) {
	if i := b.find(name); i >= 0 {
		b.vals[i] = v
		return
	}
	if b.index != nil {
		b.index[name] = int32(len(b.keys))
	}
	b.keys = append(b.keys, name)
	b.vals = append(b.vals, v)
}

// remove removes the children for which drop is true; the others keep their order.
func (b *box) remove(drop func(i int) bool) {
	n := 0
	for i := range b.vals {
		if drop(i) {
			continue
		}
		b.vals[n] = b.vals[i]
		if b.keys != nil {
			b.keys[n] = b.keys[i]
		}
		n++
	}
	clear(b.vals[n:])
	b.vals = b.vals[:n]
	if b.keys != nil {
		b.keys = b.keys[:n]
	}
	b.index = nil
}

// clear removes all children.
func (b *box) clear() { *b = box{} }

// Clone returns a copy that shares no array or object with the value.
func (v *Value) Clone() Value {
	c := *v
	if v.box != nil {
		c.box = &box{vals: make([]Value, len(v.box.vals))}
		if v.kind == Object {
			c.box.keys = append([]string(nil), v.box.keys...)
		}
		for i := range v.box.vals {
			c.box.vals[i] = v.box.vals[i].Clone()
		}
	}
	return c
}

// Equal reports whether two values have the same kind and are equal. The order of an object's members is ignored. An
// integer never equals a number with a fraction: 1 is not 1.0.
func (v *Value) Equal(w *Value) bool { return equal(v, w, false) }

// equal compares values; loose makes 1 equal to 1.0.
func equal(v, w *Value, loose bool) bool {
	if v.kind != w.kind {
		return loose && v.IsNumber() && w.IsNumber() && compareNumbers(v, w) == 0
	}
	switch v.kind {
	case Null:
		return true
	case Float:
		return math.Float64frombits(v.num) == math.Float64frombits(w.num) // 0.0 equals -0.0
	case Bool, Int, Uint:
		return v.num == w.num
	case String, BigInt:
		return v.text == w.text
	}
	if len(v.box.vals) != len(w.box.vals) {
		return false
	}
	for i := range v.box.vals {
		other := i
		if v.kind == Object {
			if other = w.box.find(v.box.keys[i]); other < 0 {
				return false
			}
		}
		if !equal(&v.box.vals[i], &w.box.vals[other], loose) {
			return false
		}
	}
	return true
}
