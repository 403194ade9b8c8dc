package search_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/search"
)

// benchDim is the number of dimensions of the vectors of the benchmarks.
const benchDim = 128

// filled returns a database with n vectors of random numbers, and the generator of further ones.
func filled(b *testing.B, n int) (fixture, *rand.Rand) {
	search.DrawLevels(1)
	db := enginetest.OpenWith(b, engine.Options{Dir: b.TempDir() + "/db", DerivedState: 64 << 20})
	f := fixture{b, db, search.Open(db, func(text string) { b.Log(text) })}
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: benchDim})
	g := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		f.hset(fmt.Sprint("k", i), "v", blob(randomVector(g, benchDim)...))
	}
	return f, g
}

// measure runs f in the loop of a benchmark and reports its CPU time, which other load on the host changes little.
func measure(b *testing.B, f func(i int)) {
	began := enginetest.ProcessCPU()
	n := 0
	for ; b.Loop(); n++ {
		f(n)
	}
	b.ReportMetric(float64((enginetest.ProcessCPU()-began)/time.Microsecond)/float64(n), "cpu-µs/op")
}

// sizes are the numbers of vectors with which the benchmarks begin.
func sizes() []int {
	if testing.Short() {
		return []int{0, 1000}
	}
	return []int{0, 1000, 8000}
}

// BenchmarkInsertVector writes hashes with a vector one after the other.
func BenchmarkInsertVector(b *testing.B) {
	for _, n := range sizes() {
		b.Run(fmt.Sprint("vectors=", n), func(b *testing.B) {
			f, g := filled(b, n)
			measure(b, func(i int) { f.hset(fmt.Sprint("k", n+i), "v", blob(randomVector(g, benchDim)...)) })
		})
	}
}

// BenchmarkNearest finds the ten nearest vectors.
func BenchmarkNearest(b *testing.B) {
	for _, n := range sizes()[1:] {
		b.Run(fmt.Sprint("vectors=", n), func(b *testing.B) {
			f, g := filled(b, n)
			measure(b, func(int) { f.knn(10, randomVector(g, benchDim)) })
		})
	}
}

// BenchmarkInsertBatch writes 100 hashes with a vector in each transaction.
func BenchmarkInsertBatch(b *testing.B) {
	const batch = 100
	for _, n := range sizes()[:2] {
		b.Run(fmt.Sprint("vectors=", n), func(b *testing.B) {
			f, g := filled(b, n)
			measure(b, func(i int) {
				var names []string
				for j := range batch {
					names = append(names, fmt.Sprint("k", n+batch*i+j))
				}
				f.each(names, func(tx *engine.Tx, key []byte) error {
					_, err := hash.Set(tx, key, enginetest.Bytes("v", blob(randomVector(g, benchDim)...)))
					return err
				})
			})
		})
	}
}
