package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestMerge merges up to 60 collections, of which some are empty and many share keys, and compares with maps.
func TestMerge(t *testing.T) {
	db := enginetest.Open(t)
	r := rand.New(rand.NewPCG(3, 3))
	const collections = 60
	var of [collections][]string
	prefix := func(i int) []byte { return fmt.Appendf(nil, "c%02d:", i) }
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		for i := range of {
			for range []int{0, 1, 5, 40, 3000}[i%5] { // the largest do not fit into a buffer
				of[i] = append(of[i], fmt.Sprintf("%s%d", strings.Repeat("k", r.IntN(3)), r.IntN(4000)))
			}
			slices.Sort(of[i])
			of[i] = slices.Compact(of[i])
			for _, k := range of[i] {
				tx.Put(cf.Default, append(prefix(i), k...), fmt.Append(nil, i))
			}
		}
		return nil
	})
	for _, n := range []int{0, 1, 2, 3, collections} {
		want := map[string][]int{}
		keys := map[string]bool{}
		for i := range n {
			for _, k := range of[i] {
				want[k] = append(want[k], i)
				keys[k] = true
			}
		}
		enginetest.View(t, db, nil, func(tx *engine.Tx) error {
			for _, most := range []int{len(keys) + 1, (len(keys) + 1) / 2} { // all, and until f returns false
				its := make([]*engine.Iter, n)
				for i := range its {
					its[i] = tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix(i), Buffer: engine.MergeBuffer(n)})
					defer its[i].Close()
				}
				last, calls := "", 0
				err := engine.Merge(its, func(key []byte, at []int) bool {
					k := string(key)
					if calls > 0 && k <= last {
						t.Errorf("%d collections: %q comes after %q", n, k, last)
					}
					if last = k; !slices.Equal(at, want[k]) {
						t.Errorf("%d collections: %q is in %v, want %v", n, k, at, want[k])
					}
					for _, i := range at {
						if string(its[i].Key()) != k || string(its[i].Value()) != fmt.Sprint(i) {
							t.Errorf("%d collections: iterator %d stands on %q = %q, not on %q", n, i, its[i].Key(), its[i].Value(), k)
						}
					}
					calls++
					return calls != most
				})
				if err != nil {
					return err
				}
				if calls != min(most, len(keys)) {
					t.Errorf("%d collections: %d calls, want %d", n, calls, min(most, len(keys)))
				}
			}
			return nil
		})
	}
}
