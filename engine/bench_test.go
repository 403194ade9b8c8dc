package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

func set(tx *engine.Tx, key, value []byte) error {
	rec := tx.Fresh(key, cf.TypeString)
	tx.SaveAppend(&rec, value)
	return nil
}

// BenchmarkSet commits transactions of one and of sixteen strings from many goroutines.
func BenchmarkSet(b *testing.B) {
	for _, run := range []int{1, 16} {
		b.Run(fmt.Sprint("run=", run), func(b *testing.B) {
			db := enginetest.Open(b)
			value := make([]byte, 128)
			var n atomic.Uint32
			b.SetParallelism(25)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				tx := db.NewTx()
				var key [16][]byte
				for {
					for i := range run {
						if !pb.Next() {
							return
						}
						key[i] = fmt.Appendf(key[i][:0], "key:%012d", n.Add(7919)%100000)
					}
					tx.Begin(ns)
					for _, k := range key[:run] {
						tx.AddLock(k, true)
					}
					tx.Acquire()
					tx.PrefetchBlind(key[:run])
					for _, k := range key[:run] {
						tx.Savepoint()
						if err := set(tx, k, value); err != nil {
							b.Error(err)
						}
					}
					if err := tx.Commit(); err != nil {
						b.Error(err)
					}
					tx.Release()
				}
			})
		})
	}
}

// BenchmarkGet reads strings one by one.
func BenchmarkGet(b *testing.B) {
	db := enginetest.Open(b)
	const n = 100000
	var k []byte
	for i := 0; i < n; i += 100 {
		db.Update(ns, nil, func(tx *engine.Tx) error {
			for j := i; j < i+100; j++ {
				k = fmt.Appendf(k[:0], "key:%012d", j)
				set(tx, k, make([]byte, 128))
			}
			return nil
		})
	}
	tx := db.NewTx()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k = fmt.Appendf(k[:0], "key:%012d", i*7919%n)
		i++
		tx.Begin(ns)
		rec, err := tx.Load(k, cf.TypeString)
		if err != nil || !rec.Exists {
			b.Fatal(err, rec.Exists)
		}
		tx.Release()
	}
}
