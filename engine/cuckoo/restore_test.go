package cuckoo_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/cuckoo"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestRestore takes over chains of the reference, which finds the place of an item as Redis's module does, and goes on
// to add items to them.
func TestRestore(t *testing.T) {
	for _, o := range options {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			ref := reference{o: o}
			items := uint64(0)
			n := 2*int(o.Capacity) + 8
			for i := range n {
				if ref.add(item(i)) == cuckoo.Added {
					items++
				}
			}
			if o.Expansion > 0 && len(ref.filters) < 2 {
				t.Fatalf("%d filters", len(ref.filters))
			}
			chain := cuckoo.Chain{Items: items, Deleted: 3, BucketSize: o.BucketSize, MaxIterations: o.MaxIterations,
				Expansion: o.Expansion}
			for _, f := range ref.filters {
				chain.Filters = append(chain.Filters, bytes.Clone(f))
			}
			db := enginetest.Open(t)
			update(t, db, func(tx *engine.Tx) error { return cuckoo.Restore(tx, key, &chain) })
			update(t, db, func(tx *engine.Tx) error {
				ref.same(t, tx)
				info, err := cuckoo.Describe(tx, key)
				if info.Items != items || info.Deleted != 3 || int(info.Filters) != len(ref.filters) ||
					info.Buckets != uint64(len(ref.filters[0]))/uint64(o.BucketSize) {
					t.Errorf("%+v", info)
				}
				for i := n; i < n+n/2 && err == nil; i++ {
					var got []cuckoo.Result
					if got, err = add(tx, false, nil, item(i)); err == nil && got[0] != ref.add(item(i)) {
						t.Errorf("item %d: result %d", i, got[0])
					}
				}
				ref.same(t, tx)
				return err
			})
		})
	}
}

// TestRestoreRefused: a chain that this layout cannot describe is not taken.
func TestRestoreRefused(t *testing.T) {
	db := enginetest.Open(t)
	filters := func(sizes ...int) (list [][]byte) {
		for _, n := range sizes {
			list = append(list, make([]byte, n))
		}
		return list
	}
	for name, v := range map[string]cuckoo.Chain{
		"no filter":         {BucketSize: 2, MaxIterations: 20, Expansion: 1},
		"no bucket":         {BucketSize: 2, MaxIterations: 20, Expansion: 1, Filters: filters(0)},
		"one place":         {BucketSize: 1, MaxIterations: 20, Expansion: 1, Filters: filters(1)},
		"three buckets":     {BucketSize: 2, MaxIterations: 20, Expansion: 1, Filters: filters(6)},
		"half a bucket":     {BucketSize: 2, MaxIterations: 20, Expansion: 1, Filters: filters(7)},
		"bucket size 0":     {MaxIterations: 20, Expansion: 1, Filters: filters(8)},
		"no iteration":      {BucketSize: 2, Expansion: 1, Filters: filters(8)},
		"another growth":    {BucketSize: 2, MaxIterations: 20, Expansion: 2, Filters: filters(8, 8)},
		"an odd expansion":  {BucketSize: 2, MaxIterations: 20, Expansion: 3, Filters: filters(8)},
		"it does not grow":  {BucketSize: 2, MaxIterations: 20, Expansion: 0, Filters: filters(8, 16)},
		"the second is cut": {BucketSize: 2, MaxIterations: 20, Expansion: 2, Filters: filters(8, 15)},
	} {
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error { return cuckoo.Restore(tx, key, &v) })
		if !errors.Is(err, cuckoo.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := cuckoo.Chain{BucketSize: 2, MaxIterations: 20, Expansion: 1, Filters: filters(8)}
	update(t, db, func(tx *engine.Tx) error { return cuckoo.Restore(tx, key, &v) })
	err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error { return cuckoo.Restore(tx, key, &v) })
	if !errors.Is(err, cuckoo.ErrExists) {
		t.Errorf("twice: %v", err)
	}
}
