package geo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// BenchmarkSearch searches for about ten places among many: the time must not grow with their number.
func BenchmarkSearch(b *testing.B) {
	for _, size := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("places=%d", size), func(b *testing.B) {
			db := enginetest.Open(b)
			key := []byte("g")
			r := rand.New(rand.NewPCG(1, 1))
			for from := 0; from < size; from += 1000 {
				places := make([]Place, 1000)
				for i := range places {
					places[i] = Place{fmt.Appendf(nil, "m%08d", from+i), r.Float64()*2 - 1, r.Float64()*2 - 1}
				}
				add(b, db, key, places...)
			}
			const side = 222.4e3 // of the square that holds all places, in metres
			radius := side * math.Sqrt(10/(math.Pi*float64(size)))
			tx := db.NewTx()
			defer tx.Release()
			b.ReportAllocs()
			b.ResetTimer()
			found := 0
			for range b.N {
				tx.Begin(ns)
				tx.AddLock(key, false)
				tx.Acquire()
				q := Query{Shape: Shape{Lon: r.Float64()*1.8 - 0.9, Lat: r.Float64()*1.8 - 0.9, Radius: radius,
					Unit: Metre}, Order: Nearest}
				require.NoError(b, Search(tx, key, &q, func(*Found) { found++ }))
				tx.Release()
			}
			b.ReportMetric(float64(found)/float64(b.N), "found/op")
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	db := enginetest.Open(b)
	key := []byte("g")
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for range b.N {
		update(b, db, [][]byte{key}, func(tx *engine.Tx) error {
			_, _, err := Add(tx, key, 0, []Place{{fmt.Appendf(nil, "m%08d", r.IntN(100_000)), r.Float64()*360 - 180,
				r.Float64()*170 - 85}})
			return err
		})
	}
}
