package str_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// lengths are those around which a value is read, or put together, in another way.
var lengths = []int{0, 1, 20, 21, 40, 511, 512, 513, 2000, 2047, 2048, 2100, 5000, 70_000}

// TestChangesOfLongValue: APPEND and SETRANGE do to values of all lengths what they do to bytes, whether the value
// was committed before or is the transaction's own.
func TestChangesOfLongValue(t *testing.T) {
	db := enginetest.Open(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for round := range 300 {
		want := random(lengths[rnd.IntN(len(lengths))])
		expire := int64(round%2) * 9e12
		set := func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), want, str.SetOptions{Expire: expire})
			return err
		}
		change := func(tx *engine.Tx) error {
			for range 1 + rnd.IntN(3) {
				part := random(rnd.IntN(3) * rnd.IntN(1500))
				var got int
				var err error
				if rnd.IntN(2) == 0 {
					want = append(want[:len(want):len(want)], part...)
					got, err = str.Append(tx, []byte("k"), part, limit)
				} else {
					at := rnd.IntN(len(want) + 100)
					if len(part) > 0 {
						grown := make([]byte, max(len(want), at+len(part)))
						copy(grown, want)
						copy(grown[at:], part)
						want = grown
					}
					got, err = str.SetRange(tx, []byte("k"), int64(at), part, limit)
				}
				if err != nil || got != len(want) {
					t.Errorf("length %d, want %d, %v", got, len(want), err)
				}
			}
			return nil
		}
		if rnd.IntN(2) == 0 {
			update(t, db, set)
			update(t, db, change)
		} else {
			update(t, db, func(tx *engine.Tx) error { return errors.Join(set(tx), change(tx)) })
		}
		suffix := ""
		if expire != 0 {
			suffix = "@"
		}
		if got := value(t, db); got != string(want)+suffix {
			t.Fatalf("round %d: %d bytes, want %d", round, len(got), len(want))
		}
	}
}

// TestLongValueIsNoNumber: a value that is longer than a number can be is none, however it begins.
func TestLongValueIsNoNumber(t *testing.T) {
	db := enginetest.Open(t)
	for _, n := range lengths[3:] {
		v := []byte(strings.Repeat("1", n))
		update(t, db, func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), v, str.SetOptions{})
			return err
		})
		update(t, db, func(tx *engine.Tx) error {
			if _, err := str.IncrBy(tx, []byte("k"), 1); err != str.ErrNotInteger {
				t.Errorf("%d digits: %v", n, err)
			}
			if n > 4999 {
				if _, err := str.IncrByFloat(tx, []byte("k"), []byte("1")); err != str.ErrNotFloat {
					t.Errorf("%d digits: %v", n, err)
				}
			}
			for _, other := range [][]byte{v[1:], append(v[:n:n], 'x'), nil, bytes.Repeat([]byte("2"), n)} {
				if m, err := str.CompareAndSet(tx, []byte("k"), other, nil, 0); m != str.Differs || err != nil {
					t.Errorf("%d and %d bytes: %v, %v", n, len(other), m, err)
				}
			}
			if m, err := str.CompareAndSet(tx, []byte("k"), v, []byte("new"), 0); m != str.Equal || err != nil {
				t.Errorf("the same %d bytes: %v, %v", n, m, err)
			}
			return nil
		})
		if got := value(t, db); got != "new" {
			t.Errorf("%q", got)
		}
	}
}

// TestLongValueIsNotCopied: what needs only the beginning of a long value, or its length, does not copy it, and what
// changes it copies it once.
func TestLongValueIsNotCopied(t *testing.T) {
	db := enginetest.Open(t)
	const size = 8 << 20
	v := make([]byte, size)
	set := func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte("k"), v, str.SetOptions{})
		return err
	}
	for _, c := range []struct {
		name   string
		copies int
		f      func(tx *engine.Tx) error
	}{
		{"IncrBy", 0, func(tx *engine.Tx) error { _, err := str.IncrBy(tx, []byte("k"), 1); return err }},
		{"IncrByFloat", 0, func(tx *engine.Tx) error { _, err := str.IncrByFloat(tx, []byte("k"), []byte("1")); return err }},
		{"CompareAndSet", 0, func(tx *engine.Tx) error {
			_, err := str.CompareAndSet(tx, []byte("k"), []byte("old"), []byte("new"), 0)
			return err
		}},
		{"Append too much", 0, func(tx *engine.Tx) error {
			_, err := str.Append(tx, []byte("k"), []byte("x"),
				size)
			return err
		}},
		{"SetRange of nothing", 0, func(tx *engine.Tx) error {
			_, err := str.SetRange(tx, []byte("k"), 5, nil, 2*size)
			return err
		}},
		{"Append", 1, func(tx *engine.Tx) error { _, err := str.Append(tx, []byte("k"), []byte("x"), 2*size); return err }},
		{"SetRange", 1, func(tx *engine.Tx) error {
			_, err := str.SetRange(tx, []byte("k"), 5, []byte("x"), 2*size)
			return err
		}},
	} {
		update(t, db, set)
		tx := db.NewTx() // with an empty batch
		var before, after runtime.MemStats
		tx.Begin(ns)
		tx.AddLock([]byte("k"), true)
		require.NoError(t, tx.Acquire())
		runtime.ReadMemStats(&before)
		err := c.f(tx)
		runtime.ReadMemStats(&after)
		tx.Release()
		if _, ok := errors.AsType[*engine.Error](err); err != nil && !ok {
			t.Errorf("%s: %v", c.name, err)
		}
		// With the race detector the buffer of the batch is allocated twice when it grows.
		if got := after.TotalAlloc - before.TotalAlloc; got < uint64(c.copies)*size || got > uint64(c.copies)*2*size+size/4 {
			t.Errorf("%s allocates %d bytes for a value of %d", c.name, got, size)
		}
	}
}
