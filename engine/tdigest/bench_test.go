package tdigest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/tdigest"
	"github.com/basaltdb/basalt/internal/require"
)

// BenchmarkAdd adds one observation a command, so many commands in a transaction.
func BenchmarkAdd(b *testing.B) {
	for _, run := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("run=%d", run), func(b *testing.B) {
			db := enginetest.Open(b)
			key := []byte("d")
			update(b, db, key, create(key, tdigest.DefaultCompression))
			r := rand.New(rand.NewPCG(1, 2))
			value := make([]float64, 1)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += run {
				update(b, db, key, func(tx *engine.Tx) error {
					for range run {
						value[0] = r.NormFloat64()
						d, err := tdigest.Open(tx, key)
						if err != nil {
							return err
						}
						if err := d.Add(value); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
	}
}

// BenchmarkQuantile estimates with a buffer that is half full.
func BenchmarkQuantile(b *testing.B) {
	db := enginetest.Open(b)
	key := []byte("d")
	r := rand.New(rand.NewPCG(1, 2))
	update(b, db, key, create(key, tdigest.DefaultCompression))
	for _, n := range []int{10_000, 305} {
		values := make([]float64, n)
		for i := range values {
			values[i] = r.NormFloat64()
		}
		update(b, db, key, adding(key, values...))
	}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
			d, err := tdigest.Open(tx, key)
			if err != nil {
				return err
			}
			s, err := d.Sketch()
			if err == nil {
				s.Quantile(0.99)
			}
			return err
		}))
	}
}
