package sortedint_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/sortedint"
)

func pick(r *rand.Rand) uint64 {
	switch r.IntN(4) {
	case 0:
		return []uint64{0, 1, 255, 256, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}[r.IntN(9)]
	case 1:
		return r.Uint64()
	}
	return r.Uint64N(300)
}

func picks(r *rand.Rand) []uint64 {
	n := 1 + r.IntN(3)
	if r.IntN(6) == 0 {
		n = 50 // beyond what is compared each with each
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = pick(r)
	}
	return list
}

// step does one random operation to a sortedint and to its model, and compares.
func step(tx *engine.Tx, r *rand.Rand, have map[uint64]bool) error {
	before := len(have)
	switch r.IntN(6) {
	case 0, 1:
		ids := picks(r)
		for _, id := range ids {
			have[id] = true
		}
		n, err := sortedint.Add(tx, key, ids)
		if err == nil && n != len(have)-before {
			err = fmt.Errorf("add %d: %d added, want %d", ids, n, len(have)-before)
		}
		return err
	case 2:
		ids := picks(r)
		if r.IntN(20) == 0 {
			ids = slices.Collect(maps.Keys(have))
		}
		for _, id := range ids {
			delete(have, id)
		}
		n, err := sortedint.Remove(tx, key, ids)
		if err == nil && n != before-len(have) {
			err = fmt.Errorf("remove %d: %d removed, want %d", ids, n, before-len(have))
		}
		return err
	case 3:
		ids := picks(r)
		has, err := sortedint.Contains(tx, key, ids)
		for i, id := range ids {
			if err == nil && has[i] != have[id] {
				err = fmt.Errorf("contains %d: %v", id, has[i])
			}
		}
		n, err2 := sortedint.Card(tx, key)
		if err2 == nil && n != uint64(len(have)) {
			err2 = fmt.Errorf("%d ids, want %d", n, len(have))
		}
		return errors.Join(err, err2)
	}
	p := sortedint.Page{Min: pick(r), Max: pick(r), Reverse: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		p.Min, p.Max = 0, math.MaxUint64
	}
	if r.IntN(2) == 0 {
		p.Offset, p.Limit = r.Uint64N(8), r.Uint64N(8)
	}
	var want []uint64
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if id >= p.Min && id <= p.Max {
			want = append(want, id)
		}
	}
	if p.Reverse {
		slices.Reverse(want)
	}
	want = want[min(p.Offset, uint64(len(want))):]
	if p.Limit > 0 {
		want = want[:min(p.Limit, uint64(len(want)))]
	}
	got, err := page(tx, p)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%+v: %d, want %d", p, got, want)
	}
	return err
}

// TestModel does random operations to a sortedint and to a map, several in a transaction, some of which are rolled
// back.
func TestModel(t *testing.T) {
	abandoned := errors.New("abandoned")
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			r := rand.New(rand.NewPCG(seed, 3))
			have := map[uint64]bool{}
			for round := range 400 {
				before := maps.Clone(have)
				abandon := r.IntN(5) == 0
				err := db.Update(ns, keys, func(tx *engine.Tx) error {
					for range 1 + r.IntN(8) {
						if err := step(tx, r, have); err != nil {
							return err
						}
					}
					if abandon {
						return abandoned
					}
					return nil
				})
				if abandon && errors.Is(err, abandoned) {
					have, err = before, nil
				}
				if err != nil {
					t.Fatalf("transaction %d: %v", round, err)
				}
			}
		})
	}
}
