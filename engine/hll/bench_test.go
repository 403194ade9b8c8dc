package hll

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// BenchmarkAdd adds one element at a time to one of so many HyperLogLogs that hold many already, 16 in a transaction.
func BenchmarkAdd(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			db := enginetest.Open(b)
			tx := db.NewTx()
			defer tx.Release()
			var names [][]byte
			for i := range keys {
				names = append(names, fmt.Appendf(nil, "h%d", i))
			}
			n := uint64(0)
			var element [8]byte
			b.ReportAllocs()
			for i := 0; i < b.N; i += 16 {
				tx.Begin(ns)
				run := make([][]byte, 16)
				for j := range run {
					run[j] = names[(i+j)%keys]
					tx.AddLock(run[j], true)
				}
				tx.Acquire()
				for _, key := range run {
					n++
					binary.LittleEndian.PutUint64(element[:], n)
					if _, err := Add(tx, key, [][]byte{element[:]}); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, tx.Commit())
				tx.Release()
			}
		})
	}
}

func BenchmarkCount(b *testing.B) {
	db := enginetest.Open(b)
	key, other := []byte("h"), []byte("o")
	for _, k := range [][]byte{key, other} {
		update(b, db, [][]byte{k}, func(tx *engine.Tx) error {
			_, err := Add(tx, k, numbered(100_000))
			return err
		})
	}
	for _, keys := range [][][]byte{{key}, {key, other}} {
		b.Run(fmt.Sprintf("keys=%d", len(keys)), func(b *testing.B) {
			for range b.N {
				view(b, db, keys, func(tx *engine.Tx) error {
					_, err := Count(tx, keys...)
					return err
				})
			}
		})
	}
}

func BenchmarkHistogram(b *testing.B) {
	s := make(segment, cf.HLLSegmentLen)
	for i := range cf.HLLSegmentRegisters {
		s.set(i, uint8(i*7%11))
	}
	for range b.N {
		var h histogram
		for range cf.HLLSegments {
			h.add(s)
		}
	}
}
