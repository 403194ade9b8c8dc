package zset_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// TestSetOperations compares unions, intersections and differences of random sorted sets and sets with plain maps.
func TestSetOperations(t *testing.T) {
	db := enginetest.Open(t)
	g := maker{rand.New(rand.NewPCG(9, 9)), 90, false}
	var names [][]byte
	var content []model
	sizes := []int{0, 1, 5, 20, 40, 60, 900, 900}
	for i, size := range sizes {
		name := fmt.Appendf(nil, "k%d", i)
		m := model{}
		names, content = append(names, name), append(content, m)
		if i > 5 {
			g.members = 1500
		}
		require.NoError(t, db.Update(ns, [][]byte{name}, func(tx *engine.Tx) error {
			for len(m) < size {
				e := zset.Entry{Member: []byte(g.member()), Score: g.score()}
				if i%3 == 2 {
					e.Score = 1
				}
				m[string(e.Member)] = e.Score + 0
				if i%3 != 2 {
					if _, _, err := zset.Add(tx, name, 0, []zset.Entry{e}); err != nil {
						return err
					}
				}
			}
			if i%3 == 2 { // a plain set
				rec := tx.Fresh(name, cf.TypeSet)
				for member := range m {
					tx.Put(cf.Default, tx.Subkey(&rec, []byte(member)), nil)
				}
				rec.Size = uint64(len(m))
				tx.Save(&rec, nil)
			}
			return nil
		}))
	}
	for range 400 {
		n := 1 + g.IntN(4)
		var keys [][]byte
		var sets []model
		var weights []float64
		for range n {
			i := g.IntN(len(names))
			keys, sets = append(keys, names[i]), append(sets, content[i])
			weights = append(weights, []float64{1, 1, 2, -3, 0.5, 0, math.Inf(1)}[g.IntN(7)])
		}
		agg := zset.Aggregate(g.IntN(4))
		err := db.View(ns, keys, func(tx *engine.Tx) error {
			same(t, tx, keys, "union", wantUnion(sets, weights, agg), func(o *zset.Operands) ([]zset.Entry,
				error) {
				return o.Union(weights, agg)
			})
			inter := wantInter(sets, weights, agg)
			same(t, tx, keys, "inter", inter, func(o *zset.Operands) ([]zset.Entry, error) { return o.Inter(weights, agg) })
			same(t, tx, keys, "diff", wantDiff(sets), func(o *zset.Operands) ([]zset.Entry, error) { return o.Diff() })
			limit := uint64(g.IntN(30))
			o, err := zset.Open(tx, keys)
			if err != nil {
				return err
			}
			want := uint64(len(inter))
			if limit > 0 {
				want = min(want, limit)
			}
			if got, err := o.InterCard(limit); err != nil || got != want {
				t.Errorf("InterCard(%d) = %d, %v, want %d", limit, got, err, want)
			}
			return nil
		})
		require.NoError(t, err)
	}
}

func same(t *testing.T, tx *engine.Tx, keys [][]byte, what string, want model,
	f func(o *zset.Operands) ([]zset.Entry, error)) {
	t.Helper()
	o, err := zset.Open(tx, keys)
	require.NoError(t, err)
	got, err := f(o)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%s of %q: %d members, %v, want %d", what, keys, len(got), err, len(want))
	}
	for i, e := range got {
		if i > 0 && bytes.Compare(got[i-1].Member, e.Member) >= 0 {
			t.Fatalf("%s of %q: %q comes after %q", what, keys, e.Member, got[i-1].Member)
		}
		if w, ok := want[string(e.Member)]; !ok || w != e.Score {
			t.Fatalf("%s of %q: %q has %v, want %v, %v", what, keys, e.Member, e.Score, w, ok)
		}
	}
	zset.SortByScore(got)
	for i, member := range want.sorted() {
		if string(got[i].Member) != member {
			t.Fatalf("%s of %q: %q at %d, want %q", what, keys, got[i].Member, i, member)
		}
	}
}

// The order of the operands does not matter with these scores, which are multiples of 1/4 or infinite, except for
// sums of infinities with different signs; those are left out by taking each sum to the same end.
func fold(agg zset.Aggregate, scores []float64) float64 {
	out := scores[0]
	for _, s := range scores[1:] {
		switch agg {
		case zset.Min:
			out = math.Min(out, s)
		case zset.Max:
			out = math.Max(out, s)
		default:
			if out += s; math.IsNaN(out) {
				out = 0
			}
		}
	}
	return out
}

func weigh(score, weight float64) float64 {
	if s := score * weight; !math.IsNaN(s) {
		return s
	}
	return 0
}

// counted returns what a score counts for.
func counted(score float64, agg zset.Aggregate) float64 {
	if agg == zset.CountSets {
		return 1
	}
	return score
}

func bySize(sets []model, weights []float64) ([]model, []float64) {
	at := make([]int, len(sets))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(len(sets[a]), len(sets[b])) })
	var s []model
	var w []float64
	for _, i := range at {
		s, w = append(s, sets[i]), append(w, weights[i])
	}
	return s, w
}

func wantUnion(sets []model, weights []float64, agg zset.Aggregate) model {
	sets, weights = bySize(sets, weights)
	scores := map[string][]float64{}
	for i, s := range sets {
		for k, v := range s {
			scores[k] = append(scores[k], weigh(counted(v, agg), weights[i]))
		}
	}
	out := model{}
	for k, all := range scores {
		out[k] = fold(agg, all)
	}
	return out
}

func wantInter(sets []model, weights []float64, agg zset.Aggregate) model {
	sets, weights = bySize(sets, weights)
	out := model{}
	for k, v := range sets[0] {
		all := []float64{weigh(counted(v, agg), weights[0])}
		for i, s := range sets[1:] {
			if v, ok := s[k]; ok {
				all = append(all, counted(v, agg)*weights[i+1])
			}
		}
		if len(all) != len(sets) {
			continue
		}
		// Redis leaves a product that is no number as it is after the first operand: a sum with it becomes 0,
		// and it is neither a minimum nor a maximum.
		score := all[0]
		for _, s := range all[1:] {
			switch {
			case !math.IsNaN(s):
				score = fold(agg, []float64{score, s})
			case agg == zset.Sum || agg == zset.CountSets:
				score = 0
			}
		}
		out[k] = score
	}
	return out
}

func wantDiff(sets []model) model {
	out := model{}
	for k, v := range sets[0] {
		found := false
		for _, s := range sets[1:] {
			_, ok := s[k]
			found = found || ok
		}
		if !found {
			out[k] = v
		}
	}
	return out
}

// A weighted score is rounded before it is added, as in Redis. A fused operation would keep the error of 0.1.
func TestWeightedScoreIsRounded(t *testing.T) {
	db := enginetest.Open(t)
	keys := [][]byte{[]byte("a"), []byte("b")}
	require.NoError(t, db.Update(ns, keys, func(tx *engine.Tx) error {
		for i, score := range []float64{-1, 0.1} {
			if _, _, err := zset.Add(tx, keys[i], 0, []zset.Entry{{Member: []byte("m"), Score: score}}); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.View(ns, keys, func(tx *engine.Tx) error {
		for name, f := range map[string]func(*zset.Operands, []float64, zset.Aggregate) ([]zset.Entry, error){
			"union": (*zset.Operands).Union, "inter": (*zset.Operands).Inter} {
			o, err := zset.Open(tx, keys)
			if err != nil {
				return err
			}
			if got, err := f(o, []float64{1, 10}, zset.Sum); err != nil || len(got) != 1 || got[0].Score != 0 {
				t.Errorf("%s: %v, %v, want the score 0", name, got, err)
			}
		}
		return nil
	}))
}
