package bloom_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bloom"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// The filters of the benchmarks: of 16 KiB, 256 KiB and 2 MiB.
var sizes = []uint32{10_000, 150_000, 1_000_000}

func reserved(b *testing.B, n uint32) (*engine.DB, []byte) {
	b.Helper()
	db := enginetest.Open(b)
	key := []byte("b")
	update(b, db, key, func(tx *engine.Tx) error {
		return bloom.Reserve(tx, key, bloom.Options{Capacity: n, ErrorRate: 0.01, Expansion: 2})
	})
	return db, key
}

// BenchmarkAdd adds items that are new, so many of them in a transaction.
func BenchmarkAdd(b *testing.B) {
	for _, n := range sizes {
		for _, run := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("items=%d/run=%d", n, run), func(b *testing.B) {
				db, key := reserved(b, n)
				b.ReportAllocs()
				buf := make([]byte, 0, 20)
				item := make([][]byte, 1)
				b.ResetTimer()
				for i := 0; i < b.N; i += run {
					update(b, db, key, func(tx *engine.Tx) error {
						for j := range run {
							item[0] = strconv.AppendInt(buf, int64(i+j), 10)
							if err := bloom.Add(tx, key, item, nil, func(bloom.Result) {}); err != nil {
								return err
							}
						}
						return nil
					})
				}
			})
		}
	}
}

// BenchmarkExists asks for items, every other one of which is there.
func BenchmarkExists(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			db, key := reserved(b, n)
			update(b, db, key, func(tx *engine.Tx) error { _, err := add(tx, key, numbers(0, 5000), nil); return err })
			b.ReportAllocs()
			buf := make([]byte, 0, 20)
			item := make([][]byte, 1)
			b.ResetTimer()
			for i := range b.N {
				item[0] = strconv.AppendInt(buf, int64(i%10000), 10)
				err := db.View(ns, [][]byte{key}, func(tx *engine.Tx) error { return bloom.Exists(tx, key, item, func(bool) {}) })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
