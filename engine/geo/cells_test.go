package geo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/zset"
)

var errDropped = errors.New("not to be committed")

// TestCellsAreNeverStale searches with and without the cache while the set changes in every way; both must find the
// same. It counts that the cache was used.
func TestCellsAreNeverStale(t *testing.T) {
	db := enginetest.Open(t)
	key, other := []byte("geo"), []byte("other")
	both := [][]byte{key, other}
	r := rand.New(rand.NewPCG(7, 8))
	at := func() (lon, lat float64) { return r.Float64() / 10, r.Float64() / 10 }
	place := func() Place {
		lon, lat := at()
		return Place{fmt.Appendf(nil, "m%d", r.IntN(2000)), lon, lat}
	}
	changes := []func(tx *engine.Tx) error{
		func(tx *engine.Tx) error { _, _, err := Add(tx, key, 0, []Place{place()}); return err },
		func(tx *engine.Tx) error { _, err := zset.Remove(tx, key, [][]byte{place().Member}); return err },
		func(tx *engine.Tx) error { _, err := keys.Del(tx, key); return err },
		func(tx *engine.Tx) error {
			places := make([]Place, 1000)
			for i := range places {
				places[i] = place()
			}
			_, _, err := Add(tx, key, 0, places)
			return err
		},
		// a transaction sees what it writes between its searches, and nobody else does when it fails
		func(tx *engine.Tx) error {
			for range 4 {
				q := Query{Shape: Shape{Lon: 0.05, Lat: 0.05, Radius: 2000, Unit: Metre}, fresh: true}
				want, err := names(tx, key, &q)
				if err != nil {
					return err
				}
				q.fresh = false
				if got, err := names(tx, key, &q); err != nil || !slices.Equal(got, want) {
					t.Fatalf("in a transaction: %v, %v, want %v", got, err, want)
				}
				if _, _, err := Add(tx, key, 0, []Place{{place().Member, 0.05, 0.05}}); err != nil {
					return err
				}
			}
			return errDropped
		},
	}
	for round := range 300 {
		change := changes[r.IntN(len(changes))]
		if round%3 == 0 { // so that there is something to find
			change = changes[3]
		}
		if err := db.Update(ns, both, change); err != nil && err != errDropped {
			t.Fatal(err)
		}
		view(t, db, key, func(tx *engine.Tx) error {
			tx.KeepLocks()
			for range 30 {
				q := Query{Order: Order(r.IntN(3)), Shape: Shape{Lon: 0.05, Lat: 0.05, Unit: Metre,
					Radius: []float64{300, 2000, 8000}[r.IntN(3)]}}
				if r.IntN(2) == 0 {
					q.Shape.Lon, q.Shape.Lat = at()
				}
				if r.IntN(4) == 0 {
					q.Count = 1 + r.IntN(20)
				}
				q.fresh = true
				want, err := names(tx, key, &q)
				if err != nil {
					return err
				}
				q.fresh = false
				got, err := names(tx, key, &q)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("round %d: %+v: %v, %v, want %v", round, q, got, err, want)
				}
			}
			return nil
		})
	}
	if st := db.Derived().Stats()[derived.Cells]; st.Hits < 10_000 || st.Misses == 0 || st.Bytes <= 0 {
		t.Errorf("%+v: cells that are kept were not used", st)
	}
}

// TestCellsConcurrently searches while others move the points.
func TestCellsConcurrently(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("geo")
	var places []Place
	for i := range 200 {
		places = append(places, Place{fmt.Appendf(nil, "m%d", i), 0.001 * float64(i%20), 0.001 * float64(i/20)})
	}
	add(t, db, key, places...)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				if g == 0 { // all places in one commit, here or there
					moved := slices.Clone(places)
					for j := range moved {
						moved[j].Lon += float64(i%2) * 0.1
					}
					if err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
						_, _,
							err := Add(tx, key, 0, moved)
						return err
					}); err != nil {
						t.Error(err)
					}
					continue
				}
				err := db.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
					q := Query{Shape: Shape{Lon: 0.01, Lat: 0.005, Radius: 4, Unit: Kilometre}}
					got, err := names(tx, key, &q)
					if len(got) != 0 && len(got) != len(places) {
						t.Errorf("%d of %d points", len(got), len(places))
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
