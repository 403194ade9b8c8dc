package bitmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// calls are all functions of the package, each on one key.
func calls(key []byte) map[string]func(tx *engine.Tx) error {
	fields := func(kind bitmap.FieldKind) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			ops := []bitmap.FieldOp{{Kind: kind, Type: bitmap.FieldType{Bits: 8}}}
			_, err := bitmap.Fields(tx, key, ops, bitmap.FieldOptions{MaxLen: maxLen}, nil)
			return err
		}
	}
	combine := func(op bitmap.Op) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := bitmap.Combine(tx, op, []byte("d"), [][]byte{key}); return err }
	}
	return map[string]func(tx *engine.Tx) error{
		"GetBit":     func(tx *engine.Tx) error { _, err := bitmap.GetBit(tx, key, 0); return err },
		"SetBit":     func(tx *engine.Tx) error { _, err := bitmap.SetBit(tx, key, 0, true, maxLen); return err },
		"Count":      func(tx *engine.Tx) error { _, err := bitmap.Count(tx, key, bitmap.All); return err },
		"Pos":        func(tx *engine.Tx) error { _, err := bitmap.Pos(tx, key, true, bitmap.All); return err },
		"Fields get": fields(bitmap.FieldGet), "Fields set": fields(bitmap.FieldSet),
		"Combine and": combine(bitmap.And), "Combine not": combine(bitmap.Not),
		"Len":        func(tx *engine.Tx) error { _, _, err := bitmap.Len(tx, key); return err },
		"Value":      func(tx *engine.Tx) error { _, _, err := bitmap.Value(tx, key, noLimit); return err },
		"ValueRange": func(tx *engine.Tx) error { _, err := bitmap.ValueRange(tx, key, noLimit, 0, 5); return err },
		"ToString":   func(tx *engine.Tx) error { return bitmap.ToString(tx, key, noLimit) },
	}
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	h, s := []byte("h"), []byte("s")
	update(t, db, [][]byte{h, s}, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, h, raw("f", "v"))
		_, err2 := str.Set(tx, s, []byte("v"), str.SetOptions{})
		return errors.Join(err, err2)
	})
	for name, f := range calls(h) {
		if err := db.Update(ns, [][]byte{h}, f); err != engine.ErrWrongType {
			t.Errorf("%s of a hash: %v", name, err)
		}
	}
	strict := map[string]bool{"Len": true, "ToString": true}
	for name, f := range calls(s) {
		err := db.Update(ns, [][]byte{s}, f)
		if strict[name] != (err == engine.ErrWrongType) || !strict[name] && err != nil {
			t.Errorf("%s of a string: %v", name, err)
		}
	}
}

// TestCorrupt: a record that no bitmap has is an error that names the key.
func TestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	for _, c := range []struct {
		name string
		put  func(tx *engine.Tx, rec *engine.Record)
		hit  []string // the functions that must meet it; the others may
	}{
		{"length", func(tx *engine.Tx, rec *engine.Record) {
			rec.Size = 1 << 40
			tx.Save(rec, nil)
		}, []string{"GetBit", "SetBit", "Count", "Pos", "Fields get", "Fields set", "Combine and", "Combine not", "Len",
			"Value", "ValueRange", "ToString"}},
		{"sub key", func(tx *engine.Tx, rec *engine.Record) {
			rec.Size = 100 * cf.BitmapFragment
			tx.Save(rec, nil)
			tx.Put(cf.Default, tx.Subkey(rec, []byte("1025")), []byte("x"))
		}, []string{"Count", "Pos", "Combine and", "Value", "ToString"}},
	} {
		for name, f := range calls([]byte("bm")) {
			keys := raw("bm", "d")
			wipe(t, db, keys)
			update(t, db, keys, func(tx *engine.Tx) error {
				rec := tx.Fresh(keys[0], cf.TypeBitmap)
				c.put(tx, &rec)
				return nil
			})
			err := db.Update(ns, keys, f)
			if err == nil {
				for _, must := range c.hit {
					if must == name {
						t.Errorf("%s, %s: no error", c.name, name)
					}
				}
			} else if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "bm"`) {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
		}
	}
	// A metadata record that is cut off is found by the engine.
	key := []byte("bm")
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		tx.Put(cf.Metadata, tx.NSKey(key), []byte{0x86, 0, 0})
		return nil
	})
	for name, f := range calls(key) {
		if err := db.Update(ns, [][]byte{key}, f); !errors.Is(err, cf.ErrCorrupt) ||
			!strings.Contains(err.Error(), `key "bm"`) {
			t.Errorf("cut off, %s: %v", name, err)
		}
	}
}

// TestOversizedFragment: early versions of Kvrocks wrote fragments of more than 1 KiB; what is beyond does not count.
func TestOversizedFragment(t *testing.T) {
	db := enginetest.Open(t)
	keys := raw("bm", "d")
	update(t, db, keys, func(tx *engine.Tx) error {
		rec := tx.Fresh(keys[0], cf.TypeBitmap)
		rec.Size = 1500
		tx.Save(&rec, nil)
		value := make([]byte, 1500)
		value[0], value[1400] = 1, 1
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("0")), value)
		return nil
	})
	update(t, db, keys, func(tx *engine.Tx) error {
		for range 2 {
			n, err := bitmap.Count(tx, keys[0], bitmap.All)
			if err != nil || n != 1 {
				t.Errorf("%d bits, %v", n, err)
			}
			at, err := bitmap.Pos(tx, keys[0], true, bitmap.Range{Start: 1, NoEnd: true})
			if err != nil || at != -1 {
				t.Errorf("a bit at %d, %v", at, err)
			}
			value, _, err := bitmap.Value(tx, keys[0], noLimit)
			if want := append([]byte{0x80}, make([]byte, 1499)...); err != nil || !bytes.Equal(value, want) {
				t.Errorf("value %x, %v", value, err)
			}
			if _, err = bitmap.SetBit(tx, keys[0], 9, false, maxLen); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
}

// TestSparse: one bit at the far end costs one fragment, and what goes over the whole bitmap costs no more than the
// fragments that there are.
func TestSparse(t *testing.T) {
	db := enginetest.Open(t)
	far, near, dest := []byte("far"), []byte("near"), []byte("dest")
	keys := [][]byte{far, near, dest}
	update(t, db, keys, func(tx *engine.Tx) error {
		_, err := bitmap.SetBit(tx, far, bitmap.MaxOffset, true, maxLen)
		_, err2 := bitmap.SetBit(tx, near, 3, true, maxLen)
		if size := tx.Size(); size > 1200+200 {
			t.Errorf("a write batch of %d bytes", size)
		}
		return errors.Join(err, err2)
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	update(t, db, keys, func(tx *engine.Tx) error {
		for _, c := range []struct {
			op   bitmap.Op
			bits uint64
		}{{bitmap.Or, 2}, {bitmap.And, 0}, {bitmap.Xor, 2}} {
			n, err := bitmap.Combine(tx, c.op, dest, [][]byte{far, near})
			if err != nil || n != 1<<29 {
				return fmt.Errorf("%v has %d bytes: %w", c.op, n, err)
			}
			if n, err := bitmap.Count(tx, dest, bitmap.All); err != nil || n != c.bits {
				return fmt.Errorf("%v has %d bits: %w", c.op, n, err)
			}
		}
		if size := tx.Size(); size > 8<<10 {
			t.Errorf("a write batch of %d bytes", size)
		}
		for _, c := range []struct {
			set  bool
			r    bitmap.Range
			want int64
		}{
			{true, bitmap.All, 3},
			{true, bitmap.Range{Start: 1, NoEnd: true}, bitmap.MaxOffset},
			{true, bitmap.Range{Start: 4, End: -2, Bits: true}, -1},
			{false, bitmap.Range{Start: 3, NoEnd: true}, 24},
			{false, bitmap.Range{Start: -1, End: -1}, bitmap.MaxOffset - 7},
			{false, bitmap.Range{Start: -1, End: -1, Bits: true}, -1},
		} {
			if _, err := bitmap.Combine(tx, bitmap.Or, dest, [][]byte{far, near}); err != nil {
				return err
			}
			if at, err := bitmap.Pos(tx, dest, c.set, c.r); err != nil || at != c.want {
				t.Errorf("%v in %+v: %d, want %d, %v", c.set, c.r, at, c.want, err)
			}
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

func TestLimits(t *testing.T) {
	db := enginetest.Open(t)
	bm, s := []byte("bm"), []byte("s")
	update(t, db, [][]byte{bm, s}, func(tx *engine.Tx) error {
		_, err := bitmap.SetBit(tx, bm, 8*1_000_000-1, true, maxLen)
		_, err2 := str.Set(tx, s, nil, str.SetOptions{})
		return errors.Join(err, err2)
	})
	u8 := bitmap.FieldType{Bits: 8}
	for _, c := range []struct {
		name string
		f    func(tx *engine.Tx) error
		want error
	}{
		{"the whole, allowed", func(tx *engine.Tx) error { _, _, err := bitmap.Value(tx, bm, 1_000_000); return err }, nil},
		{"the whole, too long", func(tx *engine.Tx) error { _, _, err := bitmap.Value(tx, bm, 999_999); return err },
			bitmap.ErrTooLong},
		{"a string, too long", func(tx *engine.Tx) error { return bitmap.ToString(tx, bm, 999_999) }, bitmap.ErrTooLong},
		{"a part, allowed", func(tx *engine.Tx) error { _, err := bitmap.ValueRange(tx, bm, 3, -3, -1); return err }, nil},
		{"a part, too long", func(tx *engine.Tx) error { _, err := bitmap.ValueRange(tx, bm, 2, -3, -1); return err },
			bitmap.ErrTooLong},
		{"an empty part", func(tx *engine.Tx) error { _, err := bitmap.ValueRange(tx, bm, 0, -1, -3); return err }, nil},
		{"a bit beyond the last", func(tx *engine.Tx) error {
			_, err := bitmap.SetBit(tx, bm, bitmap.MaxOffset+1, true, maxLen)
			return err
		}, bitmap.ErrOffset},
		{"a bit of the longest string", func(tx *engine.Tx) error {
			_, err := bitmap.SetBit(tx, s, 79, true, 10)
			return err
		}, nil},
		{"a bit beyond the longest string", func(tx *engine.Tx) error {
			_, err := bitmap.SetBit(tx, s, 80, true, 10)
			return err
		}, bitmap.ErrOffset},
		{"a field beyond the last bit", func(tx *engine.Tx) error {
			_, err := bitmap.Fields(tx, bm, []bitmap.FieldOp{{Type: u8, Offset: bitmap.MaxOffset + 1}},
				bitmap.FieldOptions{}, nil)
			return err
		}, bitmap.ErrOffset},
		{"a field far beyond the longest string", func(tx *engine.Tx) error {
			_, err := bitmap.Fields(tx, s, []bitmap.FieldOp{{Kind: bitmap.FieldSet, Type: u8, Offset: 200}},
				bitmap.FieldOptions{MaxLen: 10}, nil)
			return err
		}, bitmap.ErrOffset},
		{"a field beyond the end of a string that is only read", func(tx *engine.Tx) error {
			_, err := bitmap.Fields(tx, s, []bitmap.FieldOp{{Type: u8, Offset: 200}}, bitmap.FieldOptions{MaxLen: 10}, nil)
			return err
		}, nil},
	} {
		if err := db.Update(ns, [][]byte{bm, s}, c.f); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestFieldAtTheEnd: a field that begins with the last bit reaches beyond it.
func TestFieldAtTheEnd(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("bm")
	i64 := bitmap.FieldType{Signed: true, Bits: 64}
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		ops := []bitmap.FieldOp{{Kind: bitmap.FieldSet, Type: i64, Offset: bitmap.MaxOffset, Value: -2},
			{Type: i64, Offset: bitmap.MaxOffset}}
		got, err := bitmap.Fields(tx, key, ops, bitmap.FieldOptions{}, nil)
		if err == nil && got[1].Value != -2 {
			err = fmt.Errorf("%d was read", got[1].Value)
		}
		return err
	})
	view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		if n, _, err := bitmap.Len(tx, key); err != nil || n != 1<<29+8 {
			t.Errorf("%d bytes, %v", n, err)
		}
		return nil
	})
}

// TestExpiry: what becomes a string keeps the expiry; the result of an operation has none.
func TestExpiry(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("bm")
	const at = 4102444800000
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeBitmap)
		rec.Size, rec.Expire = 3, at
		tx.Save(&rec, nil)
		if err := bitmap.ToString(tx, key, noLimit); err != nil {
			return err
		}
		if rec, err := tx.Load(key, cf.TypeString); err != nil || rec.Expire != at || string(rec.Tail) != "\x00\x00\x00" {
			t.Errorf("%+v %q, %v", rec.Meta, rec.Tail, err)
		}
		if _, err := bitmap.Combine(tx, bitmap.Not, key, [][]byte{key}); err != nil {
			return err
		}
		rec, err := tx.Load(key, cf.TypeString)
		if rec.Expire != 0 || string(rec.Tail) != "\xff\xff\xff" {
			t.Errorf("%+v %q", rec.Meta, rec.Tail)
		}
		return err
	})
}

// TestBitsOfLongString: bits of a string of which only a part is read are those of the whole.
func TestBitsOfLongString(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("k")
	value := make([]byte, 200_000)
	for i := 1000; i < len(value); i++ {
		value[i] = byte(i * i >> 3)
	}
	require.NoError(t, db.Update("", [][]byte{key}, func(tx *engine.Tx) error {
		_, err := str.Set(tx, key, value, str.SetOptions{})
		return err
	}))
	bit := func(i int64) bool { return i/8 < int64(len(value)) && value[i/8]>>(7-i%8)&1 != 0 }
	n := int64(len(value)) * 8
	require.NoError(t, db.View("", [][]byte{key}, func(tx *engine.Tx) error {
		for _, i := range []int64{0, 7, 8, 8 * 1000, 8*100_000 + 3, n - 1, n, n + 100, bitmap.MaxOffset} {
			if got, err := bitmap.GetBit(tx, key, uint64(i)); err != nil || got != bit(i) {
				t.Errorf("bit %d: %v, %v", i, got, err)
			}
		}
		for _, r := range [][2]int64{{0, 100}, {8*1000 - 5, 8*1000 + 50}, {n - 77, n - 1}, {n / 2, n/2 + 13},
			{0, n - 1}, {17, 17}, {n, n + 5}} {
			count, first := uint64(0), [2]int64{-1, -1}
			for i := r[0]; i <= min(r[1], n-1); i++ {
				which := 0
				if bit(i) {
					which = 1
					count++
				}
				if first[which] < 0 {
					first[which] = i
				}
			}
			bits := bitmap.Range{Start: r[0], End: r[1], Bits: true}
			if got, err := bitmap.Count(tx, key, bits); err != nil || got != count {
				t.Errorf("bits %d to %d: %d, want %d, %v", r[0], r[1], got, count, err)
			}
			for which, want := range first {
				if got, err := bitmap.Pos(tx, key, which == 1, bits); err != nil || got != want {
					t.Errorf("first %d in %d to %d: %d, want %d, %v", which, r[0], r[1], got, want, err)
				}
			}
		}
		return nil
	}))
}
