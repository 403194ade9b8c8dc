package bitmap_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/fixture"
)

// show returns records without the namespace and the versions.
func show(t testing.TB, batches [][]byte) []string {
	t.Helper()
	return fixture.Lines(t, batches, ns+"/", "", "expire 0 version #1 ", "", "expire 0 version #2 ", "",
		" #1", "", " #2", "", " = bitmap", "", ` ""`, "")
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order. Where Kvrocks
// has no such operation (strings in a Combine), they are those of a SET or of a bitmap.
func TestBatches(t *testing.T) {
	key, src, dst := []byte("b"), []byte("s"), []byte("d")
	keys := [][]byte{key, src, dst}
	type write = func(tx *engine.Tx) error
	setbit := func(key []byte, offset uint64, bit bool) write {
		return func(tx *engine.Tx) error { _, err := bitmap.SetBit(tx, key, offset, bit, maxLen); return err }
	}
	set := func(key []byte, value string) write {
		return func(tx *engine.Tx) error {
			_, err := str.Set(tx, key, []byte(value), str.SetOptions{})
			return err
		}
	}
	fields := func(o bitmap.FieldOptions, ops ...bitmap.FieldOp) write {
		o.MaxLen = maxLen
		return func(tx *engine.Tx) error { _, err := bitmap.Fields(tx, key, ops, o, nil); return err }
	}
	combine := func(op bitmap.Op, sources ...string) write {
		return func(tx *engine.Tx) error { _, err := bitmap.Combine(tx, op, dst, raw(sources...)); return err }
	}
	all := func(list ...write) write {
		return func(tx *engine.Tx) error {
			for _, f := range list {
				if err := f(tx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	u8, i5 := bitmap.FieldType{Bits: 8}, bitmap.FieldType{Signed: true, Bits: 5}
	zeros := func(n int) string { return strings.Repeat(`\x00`, n) }
	kvrocks, redis := bitmap.FieldOptions{}, bitmap.FieldOptions{RedisOrder: true}
	db := enginetest.Open(t)
	for _, c := range []struct {
		name   string
		before write
		f      write
		want   []string
	}{
		{"a new bitmap", nil, setbit(key, 10, true), []string{`log data "6 9 10"`, `put default "b" "0" = "\x00\x04"`,
			`put metadata "b" size 2`}},
		{"a bit within", setbit(key, 10, true), setbit(key, 1, true), []string{`log data "6 9 1"`,
			`put default "b" "0" = "\x02\x04"`}},
		{"no change", setbit(key, 10, true), setbit(key, 10, true), nil},
		{"no change, of a fragment that is missing", setbit(key, 9000, true), setbit(key, 10, false), nil},
		{"no change, beyond the end", setbit(key, 0, true), setbit(key, 8, false),
			[]string{`log data "6 9 8"`, `put default "b" "0" = "\x01\x00"`, `put metadata "b" size 2`}},
		{"no change, of a new bitmap", nil, setbit(key, 8, false), []string{`log data "6 9 8"`,
			`put default "b" "0" = "\x00\x00"`, `put metadata "b" size 2`}},
		{"no change, of a string", set(key, "a"), setbit(key, 1, true), nil},
		{"no change, beyond the end of a string", set(key, "a"), setbit(key, 8, false),
			[]string{`log data "1"`, `put metadata "b" = string expire 0 "a\x00"`}},
		{"fields that keep their values", setbit(key, 9000, true), fields(kvrocks,
			bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8},
			bitmap.FieldOp{Kind: bitmap.FieldIncr, Type: i5, Offset: 9000}), nil},
		{"a field that keeps its value, beyond the end", setbit(key, 0, true),
			fields(kvrocks, bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8, Offset: 8}),
			[]string{`log data "6 11 SET u8 8 0"`, `put metadata "b" size 2`}},
		{"a fragment grows twofold", setbit(key, 39, true), setbit(key, 40, true),
			[]string{`log data "6 9 40"`, `put default "b" "0" = "` + zeros(4) + `\x80\x01` + zeros(4) + `"`,
				`put metadata "b" size 6`}},
		{"a fragment grows further", setbit(key, 0, true), setbit(key, 16, true),
			[]string{`log data "6 9 16"`, `put default "b" "0" = "\x01\x00\x01"`, `put metadata "b" size 3`}},
		{"another fragment", setbit(key, 0, true), setbit(key, 16384, false),
			[]string{`log data "6 9 16384"`, `put default "b" "2048" = "\x00"`, `put metadata "b" size 2049`}},
		{"the last bit", nil, setbit(key, bitmap.MaxOffset-7, true), []string{`log data "6 9 4294967288"`,
			`put default "b" "536869888" = "` + zeros(1023) + `\x01"`, `put metadata "b" size 536870912`}},
		{"a bit of a string", set(key, "a"), setbit(key, 8, true), []string{`log data "1"`,
			`put metadata "b" = string expire 0 "a\x80"`}},
		{"a field", setbit(key, 0, true), fields(kvrocks, bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8, Offset: 0,
			Value: 7}),
			[]string{`log data "6 11 SET u8 0 7"`, `put default "b" "0" = "\a"`}},
		{"a field in the order of Redis", setbit(key, 0, true), fields(redis,
			bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8, Offset: 0, Value: 7}),
			[]string{`log data "6 11 SET u8 0 7"`, `put default "b" "0" = "\xe0"`}},
		{"fields of two fragments", nil, fields(kvrocks,
			bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8, Offset: 16388, Value: -1},
			bitmap.FieldOp{Kind: bitmap.FieldGet, Type: u8, Offset: 40000, Overflow: bitmap.Fail},
			bitmap.FieldOp{Kind: bitmap.FieldIncr, Type: i5, Offset: 5, Value: -3, Overflow: bitmap.Saturate},
			bitmap.FieldOp{Kind: bitmap.FieldSet, Type: i5, Offset: 0, Value: -1}),
			[]string{`log data "6 11 SET u8 16388 18446744073709551615 OVERFLOW SAT INCRBY i5 5 -3 OVERFLOW WRAP SET i5 0 -1"`,
				`put default "b" "0" = "\xff@"`, `put default "b" "2048" = "\x0f\xf0"`, `put metadata "b" size 2050`}},
		{"a field across two fragments", nil, fields(kvrocks, bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8,
			Offset: 8188, Value: -1}),
			[]string{`log data "6 11 SET u8 8188 18446744073709551615"`, `put default "b" "0" = "` + zeros(1023) +
				`\x0f"`, `put default "b" "1024" = "\xf0"`, `put metadata "b" size 1025`}},
		{"fields of a string", set(key, "a"), fields(kvrocks, bitmap.FieldOp{Kind: bitmap.FieldIncr, Type: u8,
			Offset: 8, Value: 65}),
			[]string{`log data "1"`, `put metadata "b" = string expire 0 "aA"`}},
		{"fields that are only read", setbit(key, 0, true), fields(kvrocks, bitmap.FieldOp{Type: u8}), nil},
		{"a field that overflows, of an old bitmap", setbit(key, 64, true),
			fields(kvrocks, bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8, Value: 300, Overflow: bitmap.Fail}), nil},
		{"a field that overflows, of a new bitmap", nil, fields(kvrocks,
			bitmap.FieldOp{Kind: bitmap.FieldSet, Type: u8, Value: 300, Overflow: bitmap.Fail}),
			[]string{`log data "6 11 OVERFLOW FAIL SET u8 0 300"`, `put metadata "b" size 1`}},
		{"or", all(setbit(key, 0, true), setbit(src, 8192, true), setbit(src, 7, true)), combine(bitmap.Or, "b", "s"),
			[]string{`log data "6 10 OR b s"`, `put default "d" "0" = "\x81"`, `put default "d" "1024" = "\x01"`,
				`put metadata "d" size 1025`}},
		{"and with a missing one", setbit(key, 20, true), combine(bitmap.And, "b", "none"),
			[]string{`log data "6 10 AND b none"`, `put metadata "d" size 3`}},
		{"and without a common fragment", all(setbit(key, 0, true), setbit(src, 8192, true)), combine(bitmap.And, "b", "s"),
			[]string{`log data "6 10 AND b s"`, `put metadata "d" size 1025`}},
		{"xor with itself", setbit(key, 0, true), combine(bitmap.Xor, "b", "b"),
			[]string{`log data "6 10 XOR b b"`, `put default "d" "0" = "\x00"`, `put metadata "d" size 1`}},
		{"not", setbit(key, 8195, true), combine(bitmap.Not, "b"), []string{`log data "6 10 NOT b"`,
			`put default "d" "0" = "` + strings.Repeat(`\xff`, 1024) +
				`"`, `put default "d" "1024" = "\xf7"`, `put metadata "d" size 1025`}},
		{"a string and a bitmap", all(setbit(key, 0, true), set(src, "a")), combine(bitmap.Or, "s", "b"),
			[]string{`log data "6 10 OR s b"`, `put default "d" "0" = "\x87"`, `put metadata "d" size 1`}},
		{"strings", all(set(key, "a"), set(src, "\x80bc")), combine(bitmap.Or, "s", "b"),
			[]string{`log data "1"`, `put metadata "d" = string expire 0 "\xe1bc"`}},
		{"nothing, into nothing", nil, combine(bitmap.Or, "s", "b"), nil},
		{"nothing, into a string", set(dst, "x"), combine(bitmap.Or, "s", "b"), []string{`delete metadata "d"`}},
		{"a string of a bitmap", setbit(key, 9, true), func(tx *engine.Tx) error { return bitmap.ToString(tx, key, noLimit) },
			[]string{`log data "1"`, `put metadata "b" = string expire 0 "\x00@"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, db, keys)
			enginetest.WantBatches(t, db, keys, c.before, c.f, show, c.want)
		})
	}
}
