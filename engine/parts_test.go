package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

const partsNS = cf.DefaultNamespace

// big returns a value in which every byte can be told from its neighbours.
func big(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

func TestGetParts(t *testing.T) {
	db := enginetest.Open(t)
	lock := [][]byte{[]byte("k")}
	key, near, gone := []byte("part"), []byte("part\x00"), []byte("paru")
	value := big(100_000)
	// check reads parts in a transaction after f.
	check := func(name string, f func(tx *engine.Tx), key, value []byte) {
		t.Helper()
		err := db.Update(partsNS, lock, func(tx *engine.Tx) error {
			if f != nil {
				f(tx)
			}
			offsets := []uint32{0, 31, 50_000, 99_990, 99_991, 1 << 31}
			out := bytes.Repeat([]byte{0xee}, 10*len(offsets))
			size, found, err := tx.GetSlices(cf.Default, key, offsets, out)
			if err != nil || found != (value != nil) || size != len(value) {
				t.Errorf("%s: size %d, found %v, %v", name, size, found, err)
			}
			for i, off := range offsets {
				want := bytes.Repeat([]byte{0xee}, 10)
				if int(off)+10 <= len(value) {
					want = value[off : off+10]
				}
				if got := out[i*10 : i*10+10]; !bytes.Equal(got, want) {
					t.Errorf("%s: %x at %d, want %x", name, got, off, want)
				}
			}
			return errors.New("dropped")
		})
		if err == nil || err.Error() != "dropped" {
			t.Fatal(err)
		}
	}
	put := func(key, value []byte) {
		t.Helper()
		require.NoError(t, db.Update(partsNS, lock, func(tx *engine.Tx) error {
			tx.Put(cf.Default, key,
				value)
			return nil
		}))
	}
	put(near, []byte("a neighbour"))
	put([]byte("par"), value)
	check("missing", nil, key, nil)
	put(key, value)
	check("in the memtable", nil, key, value)
	check("one that begins with it", nil, near, []byte("a neighbour"))
	check("after it", nil, gone, nil)
	require.NoError(t, db.FlushMemtable(cf.Default))
	check("in a file", nil, key, value)
	check("own write", func(tx *engine.Tx) { tx.Put(cf.Default, key, value[:60_000]) }, key, value[:60_000])
	check("own delete", func(tx *engine.Tx) { tx.Delete(cf.Default, key) }, key, nil)
	check("own range", func(tx *engine.Tx) { tx.DeleteRange(cf.Default, []byte("pa"), []byte("pb")) }, key, nil)
}

func TestPatch(t *testing.T) {
	db := enginetest.Open(t)
	lock := [][]byte{[]byte("k")}
	key := []byte("patched")
	err := db.Update(partsNS, lock, func(tx *engine.Tx) error {
		if tx.Patch(cf.Default, key, 0, []byte("x")) {
			t.Error("a key that is not there was patched")
		}
		tx.Put(cf.Default, key, []byte("0123456789"))
		if n := tx.Size(); !tx.Patch(cf.Default, key, 3, []byte("abc")) || tx.Size() != n {
			t.Error("not patched in place")
		}
		for at, ok := range map[int]bool{-1: false, 8: false, 7: true, 1 << 40: false} {
			if tx.Patch(cf.Default, key, at, []byte("789")) != ok {
				t.Errorf("patch at %d: want %v", at, ok)
			}
		}
		mark := tx.Savepoint()
		tx.Patch(cf.Default, key, 0, []byte("zz"))
		tx.Patch(cf.Default, key, 1, []byte("yy"))
		tx.Put(cf.Default, []byte("other"), []byte("o"))
		tx.Patch(cf.Default, []byte("other"), 0, []byte("p"))
		if v, _, _ := tx.Get(cf.Default, key); string(v) != "zyyabc6789" {
			t.Errorf("before the rollback: %q", v)
		}
		if tx.LargeValues(10) != 10 || tx.LargeValues(11) != 0 || tx.LargeValues(1) != 11 {
			t.Errorf("values of 10, 11 and 1 bytes: %d %d %d", tx.LargeValues(10), tx.LargeValues(11), tx.LargeValues(1))
		}
		if err := tx.Rollback(mark); err != nil {
			return err
		}
		if v, _, _ := tx.Get(cf.Default, key); string(v) != "012abc6789" {
			t.Errorf("after the rollback: %q", v)
		}
		tx.Patch(cf.Default, key, 0, []byte("A"))
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, db.Update(partsNS, lock, func(tx *engine.Tx) error {
		if v, _, err := tx.Get(cf.Default, key); string(v) != "A12abc6789" {
			t.Errorf("committed: %q, %v", v, err)
		}
		if tx.Patch(cf.Default, key, 0, []byte("x")) {
			t.Error("a record of an earlier transaction was patched")
		}
		return nil
	}))
}
