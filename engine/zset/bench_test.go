package zset_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// fill makes a sorted set of n members m00000000, m00000001, ... with their numbers as scores, added in random order.
func fill(tb testing.TB, db *engine.DB, key []byte, n int) {
	tb.Helper()
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for len(order) > 0 {
		part := order[:min(len(order), 1000)]
		order = order[len(part):]
		require.NoError(tb, db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			for _, i := range part {
				if _, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: fmt.Appendf(nil, "m%08d", i),
					Score: float64(i)}}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// in runs f b.N times, several times in a transaction.
func in(b *testing.B, db *engine.DB, key []byte, run int, f func(tx *engine.Tx) error) {
	b.Helper()
	b.ReportAllocs()
	tx := db.NewTx()
	defer tx.Release()
	for i := 0; i < b.N; i += run {
		tx.Begin(ns)
		tx.AddLock(key, true)
		tx.Acquire()
		for range run {
			require.NoError(b, f(tx))
		}
		require.NoError(b, tx.Commit())
		tx.Release()
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, run := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("run=%d", run), func(b *testing.B) {
			db := enginetest.Open(b)
			key := []byte("z")
			member := make([]byte, 0, 32)
			entries := make([]zset.Entry, 1)
			in(b, db, key, run, func(tx *engine.Tx) error {
				member = fmt.Appendf(member[:0], "member:%d", rand.IntN(100000))
				entries[0] = zset.Entry{Member: member, Score: float64(rand.IntN(100000))}
				_, _, err := zset.Add(tx, key, 0, entries)
				return err
			})
		})
	}
}

// BenchmarkPop pops from one end of a set of 200,000 members and adds as many anew behind the other.
func BenchmarkPop(b *testing.B) {
	for _, highest := range []bool{false, true} {
		for _, run := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("highest=%v/run=%d", highest, run), func(b *testing.B) {
				db := enginetest.Open(b)
				key := []byte("z")
				fill(b, db, key, max(b.N, 1000))
				b.ResetTimer()
				in(b, db, key, run, func(tx *engine.Tx) error {
					return zset.Pop(tx, key, 1, highest, func([]byte, float64) {})
				})
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const n = 100000
	db := enginetest.Open(b)
	key := []byte("z")
	fill(b, db, key, n)
	count := 0
	emit := func([]byte, float64) { count++ }
	for _, c := range []struct {
		name string
		f    func(tx *engine.Tx) error
	}{
		{"rank/random", func(tx *engine.Tx) error {
			_, _, _, err := zset.Rank(tx, key, fmt.Appendf(nil, "m%08d", rand.IntN(n)), false)
			return err
		}},
		{"rank/near", func(tx *engine.Tx) error {
			_, _, _, err := zset.Rank(tx, key, fmt.Appendf(nil, "m%08d", n-1-rand.IntN(100)), true)
			return err
		}},
		{"range/first10", func(tx *engine.Tx) error {
			return zset.Range(tx, key, &zset.Query{Start: 0, Stop: 9}, emit)
		}},
		{"range/last10", func(tx *engine.Tx) error {
			return zset.Range(tx, key, &zset.Query{Start: 0, Stop: 9, Reverse: true}, emit)
		}},
		{"range/last100", func(tx *engine.Tx) error {
			return zset.Range(tx, key, &zset.Query{Start: 0, Stop: 99, Reverse: true}, emit)
		}},
		{"range/deep10", func(tx *engine.Tx) error {
			at := int64(rand.IntN(n - 10))
			return zset.Range(tx, key, &zset.Query{Start: at, Stop: at + 9}, emit)
		}},
		{"score/10", func(tx *engine.Tx) error {
			at := float64(rand.IntN(n - 10))
			return zset.Range(tx, key, &zset.Query{By: zset.ByScore, Score: zset.ScoreRange{Min: at, Max: at + 9},
				Count: -1}, emit)
		}},
		{"count/half", func(tx *engine.Tx) error {
			_, err := zset.Count(tx, key, zset.ScoreRange{Min: n / 4, Max: 3 * n / 4})
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				require.NoError(b, db.View(ns, [][]byte{key}, c.f))
			}
		})
	}
}
