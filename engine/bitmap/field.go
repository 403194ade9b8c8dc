package bitmap

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// FieldKind is the kind of a [FieldOp].
type FieldKind uint8

// The operations on a field.
const (
	FieldGet  FieldKind = iota // read the field
	FieldSet                   // set the field; the result is the old value
	FieldIncr                  // add to the field; the result is the sum
)

// Overflow says how a value that does not fit into a field is treated.
type Overflow uint8

// The overflow modes.
const (
	Wrap     Overflow = iota // drop the bits that do not fit
	Saturate                 // use the largest or the smallest value of the type
	Fail                     // keep the field; the operation has no result
)

var overflowNames = [...]string{Wrap: "WRAP", Saturate: "SAT", Fail: "FAIL"}

// String returns the name in BITFIELD.
func (o Overflow) String() string { return overflowNames[o] }

// FieldType is the type of an integer in a bitmap: signed with 1 to 64 bits, or unsigned with 1 to 63 bits.
type FieldType struct {
	Signed bool
	Bits   uint8
}

// String returns the name of the type in BITFIELD, such as i16 or u8.
func (t FieldType) String() string {
	if t.Signed {
		return "i" + strconv.Itoa(int(t.Bits))
	}
	return "u" + strconv.Itoa(int(t.Bits))
}

// FieldOp is one operation on an integer in a bitmap. The most significant bit of the integer is bit Offset.
type FieldOp struct {
	Kind     FieldKind
	Overflow Overflow
	Type     FieldType
	Offset   uint64 // at most MaxOffset
	Value    int64  // the new value or the increment
}

// bytes returns the byte range [first, end) of the field.
func (o *FieldOp) bytes() (first, end uint64) {
	return o.Offset / 8, (o.Offset+uint64(o.Type.Bits)-1)/8 + 1
}

// FieldResult is the result of a FieldOp.
type FieldResult struct {
	Value int64
	None  bool // the operation failed by overflow
}

// FieldOptions are the options of [Fields].
type FieldOptions struct {
	// MaxLen is the max length of a string in bytes.
	MaxLen int64
	// RedisOrder reads the bits of a bitmap in the order of [GetBit], as Redis does. Without it, the most significant
	// bit of each stored byte comes first, as in Kvrocks 2.10 (its issue 2500): then fields that Kvrocks wrote are read
	// correctly, but SetBit and Fields see each other's bits reversed within each byte. The stored bitmap does not say
	// which order wrote it. In a string both orders are the same.
	RedisOrder bool
}

// Fields executes the operations in order and appends their results. If one of them can write, the bitmap or string
// grows to the end of the last written field, whether or not the value fits. As in Redis, setting a field to its old
// value is no change.
func Fields(tx *engine.Tx, key []byte, ops []FieldOp, o FieldOptions, results []FieldResult) ([]FieldResult, error) {
	rec, err := loadHead(tx, key)
	if err != nil {
		return results, err
	}
	writes, end := false, uint64(0)
	low, high := uint64(math.MaxUint64), uint64(0) // the byte range of all fields
	for i := range ops {
		if ops[i].Offset > MaxOffset {
			return results, ErrOffset
		}
		first, e := ops[i].bytes()
		low, high = min(low, first), max(high, e)
		if ops[i].Kind != FieldGet {
			writes = true
			end = max(end, e)
		}
	}
	f := fields{tx: tx, rec: rec, isString: rec.Type == cf.TypeString, flip: o.RedisOrder}
	if f.isString {
		if writes && end > uint64(max(o.MaxLen, 0))+8 { // the last field may extend beyond it
			return results, ErrOffset
		}
		f.base = min(low, high)
		if f.text, err = stringPart(tx, key, &rec, f.base, high); err != nil {
			return results, err
		}
		if writes {
			f.text = resized(f.text, max(uint64(len(f.text)), end-f.base))
		}
	}
	for i := range ops {
		r, err := f.do(&ops[i])
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	if writes {
		err = f.save(ops, end)
	}
	return results, err
}

// fields is the bitmap or string that Fields works on. Changed fragments are written at the end.
type fields struct {
	tx       *engine.Tx
	rec      engine.Record
	isString bool
	flip     bool
	text     []byte // the bytes of a string from byte base on
	base     uint64
	changed  bool // a field has a new value

	frags []fieldFragment
	index map[uint64]int // number -> index in frags, when frags is long
}

type fieldFragment struct {
	n     uint64
	value []byte
	dirty bool // value is a changed copy
}

// fewFragments is the max number of fragments for a linear search.
const fewFragments = 8

// fragment returns the n-th fragment of a bitmap.
func (f *fields) fragment(n uint64) (*fieldFragment, error) {
	if f.index != nil {
		if i, ok := f.index[n]; ok {
			return &f.frags[i], nil
		}
	} else if i := slices.IndexFunc(f.frags, func(x fieldFragment) bool { return x.n == n }); i >= 0 {
		return &f.frags[i], nil
	}
	frag := fieldFragment{n: n}
	if f.rec.Exists {
		value, _, err := f.tx.Get(cf.Default, fragmentKey(f.tx, &f.rec, n))
		if err != nil {
			return nil, err
		}
		frag.value = clip(value)
	}
	f.frags = append(f.frags, frag)
	if f.index != nil {
		f.index[n] = len(f.frags) - 1
	} else if len(f.frags) > fewFragments {
		f.index = make(map[uint64]int)
		for i := range f.frags {
			f.index[f.frags[i].n] = i
		}
	}
	return &f.frags[len(f.frags)-1], nil
}

// window holds the bytes of a field, most significant bit first, followed by zeros.
type window [16]byte

// get and put read and write a field of width bits that begins at bit at, which is below 8.
func (w *window) get(at, width uint64) uint64 {
	hi, lo := binary.BigEndian.Uint64(w[:]), binary.BigEndian.Uint64(w[8:])
	return (hi<<at | lo>>(64-at)) >> (64 - width)
}

func (w *window) put(at, width, value uint64) {
	hi, lo := binary.BigEndian.Uint64(w[:]), binary.BigEndian.Uint64(w[8:])
	mask, value := ^uint64(0)<<(64-width), value<<(64-width)
	hi = hi&^(mask>>at) | value>>at
	lo = lo&^(mask<<(64-at)) | value<<(64-at)
	binary.BigEndian.PutUint64(w[:], hi)
	binary.BigEndian.PutUint64(w[8:], lo)
}

// read returns the bytes [first, end), 1 to 9 of them.
func (f *fields) read(first, end uint64) (w window, err error) {
	if f.isString {
		copy(w[:end-first], f.text[min(first-f.base, uint64(len(f.text))):])
		return w, nil
	}
	for at := first; at < end; {
		frag, err := f.fragment(at / fragment)
		if err != nil {
			return w, err
		}
		upTo := min(end, (frag.n+1)*fragment)
		copy(w[at-first:upTo-first], frag.value[min(at%fragment, uint64(len(frag.value))):])
		at = upTo
	}
	if f.flip {
		flip(w[:], w[:])
	}
	return w, nil
}

// write writes the bytes of a window that read has returned.
func (f *fields) write(first, end uint64, w window) error {
	f.changed = true
	if f.isString {
		copy(f.text[first-f.base:end-f.base], w[:])
		return nil
	}
	if f.flip {
		flip(w[:], w[:])
	}
	for at := first; at < end; {
		frag, err := f.fragment(at / fragment)
		if err != nil {
			return err
		}
		upTo := min(end, (frag.n+1)*fragment)
		need := max(uint64(len(frag.value)), upTo-frag.n*fragment)
		if !frag.dirty || need > uint64(len(frag.value)) {
			frag.value, frag.dirty = resized(frag.value, need), true
		}
		copy(frag.value[at%fragment:], w[at-first:upTo-first])
		at = upTo
	}
	return nil
}

func (f *fields) do(op *FieldOp) (FieldResult, error) {
	first, end := op.bytes()
	w, err := f.read(first, end)
	if err != nil {
		return FieldResult{}, err
	}
	at, width := op.Offset%8, uint64(op.Type.Bits)
	old := op.Type.extend(w.get(at, width))
	var value int64
	var fits bool
	switch op.Kind {
	case FieldGet:
		return FieldResult{Value: old}, nil
	case FieldSet:
		value, fits = op.Type.fit(op.Value, op.Overflow)
	case FieldIncr:
		value, fits = op.Type.add(old, op.Value, op.Overflow)
	}
	if !fits && op.Overflow == Fail {
		return FieldResult{None: true}, nil
	}
	if value != old {
		w.put(at, width, uint64(value))
		if err := f.write(first, end, w); err != nil {
			return FieldResult{}, err
		}
	}
	if op.Kind == FieldSet {
		value = old
	}
	return FieldResult{Value: value}, nil
}

// save writes the changes and extends the bitmap or string to at least end bytes.
func (f *fields) save(ops []FieldOp, end uint64) error {
	grown := end > length(&f.rec)
	if !f.changed && !grown {
		return nil
	}
	if f.isString {
		value, err := resave(f.tx, &f.rec, max(end, length(&f.rec)))
		if err == nil {
			copy(value[min(f.base, uint64(len(value))):], f.text)
		}
		return err
	}
	f.tx.LogData(appendLogFields(ops))
	slices.SortFunc(f.frags, func(a, b fieldFragment) int { return cmp.Compare(a.n, b.n) })
	for i := range f.frags {
		if frag := &f.frags[i]; frag.dirty {
			f.tx.Put(cf.Default, fragmentKey(f.tx, &f.rec, frag.n), frag.value)
		}
	}
	if grown {
		f.rec.Size = end
		f.tx.Save(&f.rec, nil)
	}
	return nil
}

// appendLogFields returns the log data of the operations that write.
func appendLogFields(ops []FieldOp) []byte {
	var args [][]byte
	add := func(s string) { args = append(args, []byte(s)) }
	overflow := Wrap
	for i := range ops {
		op := &ops[i]
		if op.Kind == FieldGet {
			continue
		}
		if op.Overflow != overflow {
			overflow = op.Overflow
			add("OVERFLOW")
			add(overflow.String())
		}
		value := strconv.FormatInt(op.Value, 10)
		if op.Kind == FieldIncr {
			add("INCRBY")
		} else {
			add("SET")
			if !op.Type.Signed {
				value = strconv.FormatUint(uint64(op.Value), 10)
			}
		}
		add(op.Type.String())
		add(strconv.FormatUint(op.Offset, 10))
		add(value)
	}
	return cf.AppendLogBitField(nil, args)
}

// extend interprets the bits of a field as an integer.
func (t FieldType) extend(v uint64) int64 {
	if t.Signed {
		unused := 64 - t.Bits
		return int64(v<<unused) >> unused
	}
	return int64(v)
}

// limits returns the smallest and the largest value of the type.
func (t FieldType) limits() (low, high int64) {
	if t.Signed {
		return -1 << (t.Bits - 1), 1<<(t.Bits-1) - 1
	}
	return 0, int64(1<<t.Bits - 1)
}

// wrap drops the bits that do not fit into the type.
func (t FieldType) wrap(v uint64) int64 {
	if !t.Signed {
		return int64(v & (1<<t.Bits - 1))
	}
	return t.extend(v)
}

// fit returns the value to store for v, and whether v fits as it is. For an unsigned type a negative v counts as too
// large.
func (t FieldType) fit(v int64, o Overflow) (int64, bool) {
	low, high := t.limits()
	switch {
	case v >= low && v <= high:
		return v, true
	case o != Saturate:
		return t.wrap(uint64(v)), false
	case v < low && t.Signed:
		return low, false
	}
	return high, false
}

// add returns the sum of a value of the type and by, and whether it fits as it is.
func (t FieldType) add(v, by int64, o Overflow) (int64, bool) {
	low, high := t.limits()
	sum := v + by
	overflow := by > 0 && (sum < v || sum > high)
	underflow := by < 0 && (sum > v || sum < low)
	switch {
	case !overflow && !underflow:
		return sum, true
	case o != Saturate:
		return t.wrap(uint64(sum)), false
	case underflow:
		return low, false
	}
	return high, false
}
