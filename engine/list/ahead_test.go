package list_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/internal/require"
)

// TestManyPopsInOneTransaction pops from both ends of a list that only RocksDB holds, with pushes and changes in
// between: what was read ahead must not hide them, and nothing must come twice.
func TestManyPopsInOneTransaction(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("list")
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var want []string
		for i := range 200 {
			want = append(want, fmt.Sprintf("%d-%d", seed, i))
		}
		push(t, db, key, want...)
		db.DropCaches()
		pop := func(tx *engine.Tx, left bool) (elem string, err error) {
			err = list.Pop(tx, key, 1, left, func(uint64) {}, func(e []byte) { elem = string(e) })
			return elem, err
		}
		for len(want) > 0 {
			update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
				for range 80 {
					if len(want) == 0 {
						return nil
					}
					switch n := r.IntN(20); {
					case n == 0:
						want = append(want, "pushed")
						if _, err := list.Push(tx, key, raw("pushed"), false, false); err != nil {
							return err
						}
					case n == 1:
						i := r.IntN(min(len(want), 40))
						want[i] = "changed"
						if err := list.Set(tx, key, int64(i), []byte("changed")); err != nil {
							return err
						}
					case n == 2:
						i := len(want) - 1
						elem, found, err := list.Move(tx, key, key, false, true)
						if err != nil || !found || string(elem) != want[i] {
							return fmt.Errorf("moved %q, %v, %v; want %q", elem, found, err, want[i])
						}
						want = slices.Insert(want[:i], 0, string(elem))
					case n < 14:
						got, err := pop(tx, true)
						if err != nil || got != want[0] {
							return fmt.Errorf("popped %q, %v from the left; want %q", got, err, want[0])
						}
						want = want[1:]
					default:
						i := len(want) - 1
						got, err := pop(tx, false)
						if err != nil || got != want[i] {
							return fmt.Errorf("popped %q, %v from the right; want %q", got, err, want[i])
						}
						want = want[:i]
					}
				}
				return nil
			})
			db.DropCaches()
		}
	}
}

// BenchmarkPopsInOneTransaction pops what is in a table file, 100 elements a transaction.
func BenchmarkPopsInOneTransaction(b *testing.B) {
	db := enginetest.Open(b)
	key := []byte("list")
	elems := make([]string, 1000)
	for i := range elems {
		elems[i] = fmt.Sprintf("element %d of a list that is in a file", i)
	}
	for range b.N/len(elems) + 1 {
		push(b, db, key, elems...)
	}
	require.NoError(b, db.FlushMemtable(cf.Default))
	db.DropCaches()
	b.ResetTimer()
	for i := 0; i < b.N; i += 100 {
		update(b, db, [][]byte{key}, func(tx *engine.Tx) error {
			for range min(100, b.N-i) {
				if err := list.Pop(tx, key, 1, true, func(uint64) {}, func([]byte) {}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
