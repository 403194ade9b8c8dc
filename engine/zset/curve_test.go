package zset_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
)

func BenchmarkCurveRank(b *testing.B) {
	for _, members := range []int{16, 100, 1000} {
		for _, sets := range []int{10, 1000, 10000} {
			if members*sets > 2000000 {
				continue
			}
			b.Run(fmt.Sprintf("members=%d/sets=%d", members, sets), func(b *testing.B) {
				db := enginetest.Open(b)
				tx := db.NewTx()
				r := rand.New(rand.NewPCG(1, 2))
				entries := make([]zset.Entry, members)
				key := func(i int) []byte { return fmt.Appendf(nil, "z:%012d", i) }
				for i := range sets {
					for j := range entries {
						entries[j] = zset.Entry{Member: fmt.Appendf(nil, "m%d", j), Score: float64(r.IntN(1000000))}
					}
					update(b, db, string(key(i)), func(tx *engine.Tx) error {
						_, _, err := zset.Add(tx, key(i), 0, entries)
						return err
					})
				}
				rank := func(i int) {
					k := key(i)
					tx.Begin(ns)
					tx.AddLock(k, false)
					tx.Acquire()
					if _, _, ok, err := zset.Rank(tx, k, []byte("m10"), false); err != nil || !ok {
						b.Fatal(err)
					}
					tx.Release()
				}
				for i := range 3 * sets {
					rank(i % sets)
				}
				b.ResetTimer()
				for b.Loop() {
					rank(r.IntN(sets))
				}
			})
		}
	}
}
