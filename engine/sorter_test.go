package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/require"
)

// TestSorter puts collections in a random order, with elements in a random order and names that begin alike. Batches
// returns all records of a family in the order of their keys. A Sorter is used twice.
func TestSorter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := NewSorter(1 << 20)
	for range 2 {
		want := map[cf.ID][]string{}
		put := func(id cf.ID, key, value []byte) {
			require.NoError(t, s.Put(id, key, value))
			want[id] = append(want[id], string(key)+"\x00"+string(value))
		}
		for _, i := range r.Perm(2_000) {
			name := fmt.Appendf(nil, "%0*d", 1+i%12, i)
			key := cf.AppendNSKey(nil, cf.DatabaseNamespace(i%3), name, false)
			put(cf.Metadata, key, name)
			prefix := cf.AppendSubkeyPrefix(nil, key, false, s.Version())
			for _, n := range r.Perm(i % 20) {
				sub := fmt.Appendf(slices.Clone(prefix), "%d", n)
				if put(cf.Default, sub, name); i%2 == 0 {
					put(cf.ZSetScore, sub, nil)
				}
			}
		}
		got := map[cf.ID][]string{}
		var turns []cf.ID
		require.NoError(t, s.Batches(8<<10, func(rep []byte) error {
			b, err := batch.NewReader(rep)
			if err != nil {
				return err
			}
			first := true
			for {
				rec, ok := b.Next()
				if !ok {
					return b.Err()
				}
				if first {
					turns, first = append(turns, rec.Family), false
				}
				if rec.Family != turns[len(turns)-1] {
					t.Error("a batch has records of two families")
				}
				got[rec.Family] = append(got[rec.Family], string(rec.Key)+"\x00"+string(rec.Value))
			}
		}))
		for id, records := range want {
			slices.SortFunc(records, func(x, y string) int { return bytes.Compare([]byte(x), []byte(y)) })
			if !slices.Equal(got[id], records) {
				t.Errorf("%s: %d records, want %d, or their order is wrong", id, len(got[id]), len(records))
			}
		}
		if first := slices.Compact(slices.Sorted(slices.Values(turns[:3]))); len(first) != 3 {
			t.Error("the families do not alternate:", turns)
		}
		s.Reset()
	}
}
