package search_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/search"
)

// BenchmarkInsertVector writes hashes with a vector of 128 numbers one after the other.
func BenchmarkInsertVector(b *testing.B) {
	search.DrawLevels(1)
	f := open(b)
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 128})
	g := rand.New(rand.NewPCG(1, 1))
	for i := 0; b.Loop(); i++ {
		f.hset(fmt.Sprint("k", i), "v", blob(randomVector(g, 128)...))
	}
}

// BenchmarkNearest finds the ten nearest of 1,000 vectors of 128 numbers.
func BenchmarkNearest(b *testing.B) {
	search.DrawLevels(1)
	f := open(b)
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 128})
	g := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		f.hset(fmt.Sprint("k", i), "v", blob(randomVector(g, 128)...))
	}
	for b.Loop() {
		f.knn(10, randomVector(g, 128))
	}
}
