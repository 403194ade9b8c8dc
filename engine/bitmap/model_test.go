package bitmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
)

const (
	ns      = cf.DefaultNamespace
	maxLen  = 512 << 20
	noLimit = 1 << 32
)

var (
	update = enginetest.Update
	view   = enginetest.View
	raw    = enginetest.Bytes
)

// wipe deletes keys.
func wipe(t testing.TB, db *engine.DB, keys [][]byte) {
	t.Helper()
	update(t, db, keys, func(tx *engine.Tx) error {
		for _, k := range keys {
			rec, err := tx.LoadAny(k)
			if err != nil {
				return err
			}
			if rec.Exists {
				tx.Drop(&rec)
			}
		}
		return nil
	})
}

// A model is a bitmap as Redis has it: nil when there is none, else its bytes, the most significant bit first. It
// does everything bit by bit.
type model []byte

func (m model) bit(i uint64) int {
	if i/8 >= uint64(len(m)) {
		return 0
	}
	return int(m[i/8] >> (7 - i%8) & 1)
}

func (m *model) grow(n uint64) {
	if n > uint64(len(*m)) {
		*m = append(*m, make([]byte, n-uint64(len(*m)))...)
	}
}

func (m *model) set(i uint64, bit int) {
	m.grow(i/8 + 1)
	(*m)[i/8] &^= 0x80 >> (i % 8)
	(*m)[i/8] |= byte(bit) << (7 - i%8)
}

// bounds are the first and the last position of a range in bits; none when last < first.
func (m model) bounds(r bitmap.Range) (first, last int64) {
	unit, n := int64(8), int64(len(m))
	if r.Bits {
		unit, n = 1, n*8
	}
	start, end := r.Start, r.End
	if r.NoEnd {
		end = n - 1
	}
	if start < 0 {
		start = max(n+start, 0)
	}
	if end < 0 && !r.NoEnd {
		end = max(n+end, 0)
	}
	end = min(end, n-1)
	if start > end {
		return 0, -1
	}
	return start * unit, end*unit + unit - 1
}

func (m model) count(r bitmap.Range) (n uint64) {
	if !r.NoEnd && r.Start < 0 && r.End < 0 && r.Start > r.End {
		return 0
	}
	first, last := m.bounds(r)
	for i := first; i <= last; i++ {
		n += uint64(m.bit(uint64(i)))
	}
	return n
}

func (m model) pos(bit int, r bitmap.Range) int64 {
	if m == nil {
		return int64(-bit)
	}
	first, last := m.bounds(r)
	for i := first; i <= last; i++ {
		if m.bit(uint64(i)) == bit {
			return i
		}
	}
	if bit == 0 && r.NoEnd && first <= last {
		return int64(len(m)) * 8
	}
	return -1
}

func (m model) field(op *bitmap.FieldOp) *big.Int {
	v := new(big.Int)
	for i := range uint64(op.Type.Bits) {
		v.Lsh(v, 1)
		v.Or(v, big.NewInt(int64(m.bit(op.Offset+i))))
	}
	if op.Type.Signed && v.Bit(int(op.Type.Bits)-1) == 1 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(op.Type.Bits)))
	}
	return v
}

func (m *model) do(op *bitmap.FieldOp) bitmap.FieldResult {
	old := m.field(op)
	value := big.NewInt(op.Value)
	one, width := big.NewInt(1), uint(op.Type.Bits)
	low, high := big.NewInt(0), new(big.Int).Lsh(one, width)
	if op.Type.Signed {
		low, high = new(big.Int).Neg(new(big.Int).Lsh(one, width-1)), new(big.Int).Lsh(one, width-1)
	}
	high.Sub(high, one)
	switch op.Kind {
	case bitmap.FieldGet:
		return bitmap.FieldResult{Value: old.Int64()}
	case bitmap.FieldIncr:
		value.Add(value, old)
	case bitmap.FieldSet:
		if !op.Type.Signed && op.Value < 0 { // it counts as the unsigned number with these bits
			value.SetUint64(uint64(op.Value))
		}
	}
	if value.Cmp(low) < 0 || value.Cmp(high) > 0 {
		switch op.Overflow {
		case bitmap.Fail:
			return bitmap.FieldResult{None: true}
		case bitmap.Saturate:
			if value.Cmp(low) < 0 {
				value = low
			} else {
				value = high
			}
		case bitmap.Wrap:
			mod := new(big.Int).Lsh(one, width)
			if value.Mod(value, mod); value.Cmp(high) > 0 {
				value.Sub(value, mod)
			}
		}
	}
	for i := range width {
		m.set(op.Offset+uint64(i), int(new(big.Int).And(value, new(big.Int).Sub(new(big.Int).Lsh(one, width),
			one)).Bit(int(width-1-i))))
	}
	if op.Kind == bitmap.FieldSet {
		value = old
	}
	return bitmap.FieldResult{Value: value.Int64()}
}

// world is some keys and their models.
type world struct {
	*rand.Rand
	keys [][]byte
	have []model
	far  uint64 // bits are mostly below this number
}

func (w *world) offset() uint64 {
	switch w.IntN(10) {
	case 0:
		return w.Uint64N(16)
	case 1:
		return (w.Uint64N(w.far/8192+1))*8192 + w.Uint64N(3)
	case 2:
		return max((w.Uint64N(w.far/8192+1))*8192, 70) - 1 - w.Uint64N(64)
	}
	return w.Uint64N(w.far)
}

func (w *world) position() int64 { return w.Int64N(int64(w.far/4)+40) - int64(w.far/8) - 20 }

func (w *world) rangeOf() bitmap.Range {
	r := bitmap.Range{Start: w.position(), End: w.position(), Bits: w.IntN(2) == 0, NoEnd: w.IntN(4) == 0}
	if r.Bits {
		r.Start, r.End = r.Start*8+w.Int64N(8), r.End*8+w.Int64N(8)
	}
	if r.NoEnd {
		r.Bits = false
		if w.IntN(2) == 0 {
			r.Start = 0
		}
	}
	if w.IntN(3) == 0 {
		r.End = -1
	}
	return r
}

func (w *world) fieldOp() bitmap.FieldOp {
	op := bitmap.FieldOp{Kind: bitmap.FieldKind(w.IntN(3)), Overflow: bitmap.Overflow(w.IntN(3)), Offset: w.offset()}
	op.Type = bitmap.FieldType{Signed: w.IntN(2) == 0, Bits: uint8(1 + w.IntN(63))}
	if op.Type.Signed && w.IntN(8) == 0 {
		op.Type.Bits = 64
	}
	op.Value = int64(w.Uint64()) >> w.IntN(64)
	return op
}

func (w *world) step(tx *engine.Tx) error {
	i := w.IntN(len(w.keys))
	key, m := w.keys[i], &w.have[i]
	switch w.IntN(12) {
	case 0, 1, 2:
		off, bit := w.offset(), w.IntN(2)
		want := m.bit(off)
		old, err := bitmap.SetBit(tx, key, off, bit == 1, maxLen)
		if err == nil && old != (want == 1) {
			err = fmt.Errorf("set bit %d: it was %v, want %d", off, old, want)
		}
		m.set(off, bit)
		return err
	case 3:
		off := w.offset()
		bit, err := bitmap.GetBit(tx, key, off)
		if err == nil && bit != (m.bit(off) == 1) {
			err = fmt.Errorf("bit %d is %v", off, bit)
		}
		return err
	case 4:
		r := w.rangeOf()
		n, err := bitmap.Count(tx, key, r)
		if want := m.count(r); err == nil && n != want {
			err = fmt.Errorf("%d bits are set in %+v of %d bytes, want %d", n, r, len(*m), want)
		}
		return err
	case 5:
		r, bit := w.rangeOf(), w.IntN(2)
		at, err := bitmap.Pos(tx, key, bit == 1, r)
		if want := m.pos(bit, r); err == nil && at != want {
			err = fmt.Errorf("the first %d in %+v of %d bytes is at %d, want %d", bit, r, len(*m), at, want)
		}
		return err
	case 6, 7:
		return w.fields(tx, key, m)
	case 8:
		return w.combine(tx)
	case 9:
		return w.change(tx, key, m)
	case 10:
		start, end := w.position(), w.position()
		got, err := bitmap.ValueRange(tx, key, noLimit, start, end)
		var want []byte
		if first, last := m.bounds(bitmap.Range{Start: start, End: end}); first <= last &&
			!(start < 0 && end < 0 && start > end) {
			want = (*m)[first/8 : last/8+1]
		}
		if err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("bytes %d to %d of %d are %x, want %x", start, end, len(*m), got, want)
		}
		return err
	}
	return w.same(tx, i)
}

func (w *world) fields(tx *engine.Tx, key []byte, m *model) error {
	ops := make([]bitmap.FieldOp, 1+w.IntN(4))
	if w.IntN(10) == 0 {
		ops = make([]bitmap.FieldOp, 30)
	}
	end := uint64(0)
	for i := range ops {
		ops[i] = w.fieldOp()
		if ops[i].Kind != bitmap.FieldGet {
			end = max(end, (ops[i].Offset+uint64(ops[i].Type.Bits)+7)/8)
		}
	}
	got, err := bitmap.Fields(tx, key, ops, bitmap.FieldOptions{MaxLen: maxLen, RedisOrder: true}, nil)
	if err != nil {
		return err
	}
	m.grow(end)
	for i := range ops {
		if want := m.do(&ops[i]); got[i] != want {
			return fmt.Errorf("%+v: %+v, want %+v", ops[i], got[i], want)
		}
	}
	return nil
}

func (w *world) combine(tx *engine.Tx) error {
	op, d := bitmap.Op(w.IntN(int(bitmap.One)+1)), w.IntN(len(w.keys))
	sources := make([]int, 1+w.IntN(3))
	if op == bitmap.Not {
		sources = sources[:1]
	}
	if op.FirstDiffers() && len(sources) == 1 {
		sources = append(sources, 0)
	}
	var keys [][]byte
	size := 0
	for i := range sources {
		sources[i] = w.IntN(len(w.keys))
		keys = append(keys, w.keys[sources[i]])
		size = max(size, len(w.have[sources[i]]))
	}
	want := make(model, size)
	byBits := func(first int, others []int) int { // others: how many have the bit
		n := 0
		for _, b := range others {
			n += b
		}
		switch {
		case op == bitmap.One:
			return map[bool]int{true: 1}[first+n == 1]
		case op == bitmap.Diff && first == 1 && n == 0, op == bitmap.Diff1 && first == 0 && n > 0,
			op == bitmap.AndOr && first == 1 && n > 0:
			return 1
		}
		return 0
	}
	for i := range want {
		if op > bitmap.Not {
			for at := uint64(i) * 8; at < uint64(i)*8+8; at++ {
				var bits []int
				for _, s := range sources {
					bits = append(bits, w.have[s].bit(at))
				}
				want[i] = want[i]<<1 | byte(byBits(bits[0], bits[1:]))
			}
			continue
		}
		for j, s := range sources {
			b := byte(0)
			if i < len(w.have[s]) {
				b = w.have[s][i]
			}
			switch {
			case op == bitmap.Not:
				want[i] = ^b
			case j == 0:
				want[i] = b
			case op == bitmap.And:
				want[i] &= b
			case op == bitmap.Or:
				want[i] |= b
			case op == bitmap.Xor:
				want[i] ^= b
			}
		}
	}
	if size == 0 {
		want = nil
	}
	n, err := bitmap.Combine(tx, op, w.keys[d], keys)
	if err == nil && n != uint64(size) {
		err = fmt.Errorf("%v of %v has %d bytes, want %d", op, sources, n, size)
	}
	w.have[d] = want
	return errors.Join(err, w.same(tx, d))
}

// change makes a key a string, or deletes it.
func (w *world) change(tx *engine.Tx, key []byte, m *model) error {
	switch w.IntN(3) {
	case 0:
		if *m == nil {
			return nil
		}
		err := bitmap.ToString(tx, key, noLimit)
		if err == engine.ErrWrongType {
			err = nil
		}
		if _, _, err2 := str.Get(tx, key); err2 != nil {
			err = errors.Join(err, fmt.Errorf("no string: %w", err2))
		}
		return err
	case 1:
		rec, err := tx.LoadAny(key)
		if err == nil && rec.Exists {
			tx.Drop(&rec)
		}
		*m = nil
		return err
	}
	value := make([]byte, 1+w.IntN(3000))
	for i := range value {
		value[i] = byte(w.Uint32())
	}
	_, err := str.Set(tx, key, value, str.SetOptions{})
	*m = value
	return err
}

func (w *world) same(tx *engine.Tx, i int) error {
	got, found, err := bitmap.Value(tx, w.keys[i], noLimit)
	if err == nil && (found != (w.have[i] != nil) || !bytes.Equal(got, w.have[i])) {
		err = fmt.Errorf("%s: %v, %d bytes, want %v, %d bytes", w.keys[i], found, len(got), w.have[i] != nil, len(w.have[i]))
		for j := range got {
			if j >= len(w.have[i]) || got[j] != w.have[i][j] {
				return fmt.Errorf("%w; they differ at byte %d", err, j)
			}
		}
	}
	if err != nil {
		return err
	}
	n, _, err := bitmap.Len(tx, w.keys[i])
	if err == engine.ErrWrongType {
		return nil
	}
	if err == nil && n != uint64(len(w.have[i])) {
		err = fmt.Errorf("%s has %d bytes, want %d", w.keys[i], n, len(w.have[i]))
	}
	return err
}

// TestModel does random operations to bitmaps and strings and to models of them, several in a transaction, some of
// which are rolled back.
func TestModel(t *testing.T) {
	abandoned := errors.New("abandoned")
	for seed, far := range []uint64{300, 9000, 40000, 40000, 3_000_000} {
		t.Run(fmt.Sprintf("%d bits", far), func(t *testing.T) {
			db := enginetest.Open(t)
			w := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 9)), keys: raw("a", "b", "c", "d"),
				have: make([]model, 4), far: far}
			rounds := 400
			if far > 100000 {
				rounds = 40
			}
			for round := range rounds {
				before := make([]model, len(w.have))
				for i, m := range w.have {
					before[i] = bytes.Clone(m)
				}
				abandon := w.IntN(5) == 0
				err := db.Update(ns, w.keys, func(tx *engine.Tx) error {
					for range 1 + w.IntN(8) {
						if err := w.step(tx); err != nil {
							return err
						}
					}
					if abandon {
						return abandoned
					}
					return nil
				})
				if abandon && errors.Is(err, abandoned) {
					w.have, err = before, nil
				}
				if err == nil {
					err = db.View(ns, w.keys, func(tx *engine.Tx) error {
						for i := range w.keys {
							if err := w.same(tx, i); err != nil {
								return err
							}
						}
						return nil
					})
				}
				if err != nil {
					t.Fatalf("transaction %d: %v", round, err)
				}
			}
		})
	}
}
