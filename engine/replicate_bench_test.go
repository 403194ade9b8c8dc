package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// BenchmarkApplyUpdates measures what a replica's engine does for the stream of a master under load: batches of group
// commits, groups of batches as one read of the socket delivers them. master/op is the processor time of the same
// writes in a transaction each on the master, checked/op and applied/op that of CheckUpdate and ApplyUpdates.
func BenchmarkApplyUpdates(b *testing.B) {
	const (
		group    = 64 << 10 // bytes
		records  = 16       // of a batch
		keyspace = 1_000_000
	)
	value := make([]byte, 128)
	for _, what := range []string{"strings", "hashes"} {
		b.Run(what, func(b *testing.B) {
			build := func(r *rand.Rand, w *batch.Builder) {
				for range records {
					k := nsKey(ns, fmt.Sprintf("key:%012d", r.IntN(keyspace)))
					if what == "strings" {
						w.Put(cf.Metadata, k, stringRecord(string(value), 0))
						continue
					}
					m := cf.Meta{Type: cf.TypeHash, Version: 7, Size: 1}
					w.Put(cf.Metadata, k, m.Append(nil))
					w.Put(cf.Default, append(cf.AppendSubkeyPrefix(nil, k, false, 7), "field"...), value)
				}
				w.LogData([]byte("1"))
			}
			var reps [][]byte
			r := rand.New(rand.NewPCG(1, 2))
			for range 20_000 {
				var w batch.Builder
				build(r, &w)
				reps = append(reps, append([]byte(nil), w.Bytes()...))
			}
			db := openReplica(b)
			apply := func(reps [][]byte) (checked, applied time.Duration, n int) {
				for len(reps) > 0 {
					var list []*engine.ExternalBatch
					begin := enginetest.ProcessCPU()
					for size := 0; size < group && len(reps) > 0; reps = reps[1:] {
						u, err := db.CheckUpdate(reps[0])
						if err != nil {
							b.Fatal(err)
						}
						size += len(reps[0])
						n += records
						list = append(list, u)
					}
					middle := enginetest.ProcessCPU()
					if _, err := db.ApplyUpdates(list, false, nil, nil); err != nil {
						b.Fatal(err)
					}
					checked += middle - begin
					applied += enginetest.ProcessCPU() - middle
				}
				return checked, applied, n
			}
			var checked, applied time.Duration
			n := 0
			for b.Loop() {
				c, a, k := apply(reps)
				checked, applied, n = checked+c, applied+a, n+k
			}
			b.ReportMetric(float64(checked.Nanoseconds())/float64(n), "checked-ns/key")
			b.ReportMetric(float64(applied.Nanoseconds())/float64(n), "applied-ns/key")
		})
	}
}
