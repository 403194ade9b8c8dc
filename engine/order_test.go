package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// comparators are the two that the zset_score family may have.
var comparators = []struct {
	name     string
	bytewise bool
}{{"native", false}, {"bytewise", true}}

// TestScoreComparatorIsSwitchable writes scores with each comparator in turn, changing it with every start; the
// order stays that of the scores, and RocksDB's own tool reads the family.
func TestScoreComparatorIsSwitchable(t *testing.T) {
	ldb, ldbErr := exec.LookPath("ldb")
	for _, first := range comparators {
		t.Run(first.name+" first", func(t *testing.T) {
			dir := t.TempDir() + "/db"
			n := 0
			for round := range 3 {
				bytewise := first.bytewise != (round%2 == 1)
				db := enginetest.OpenPlain(t, engine.Options{Dir: dir, BytewiseScores: bytewise})
				update(t, db, "z", func(tx *engine.Tx, _ *engine.Record) {
					z := tx.Fresh([]byte("z"), cf.TypeZSet)
					z.Version = 1 // the same in every round
					for i := range 50 {
						tx.Put(cf.ZSetScore, tx.ScoreKey(&z, float64((i*7919)%1000-500)+float64(round)/4, fmt.Append(nil, "m", n)), nil)
						n++
					}
					z.Size = uint64(n)
					tx.Save(&z, nil)
				})
				require.NoError(t, db.FlushMemtable(cf.ZSetScore))
				if round == 2 {
					require.NoError(t, db.CompactRange(cf.ZSetScore, nil, nil))
				}
				require.NoError(t, db.View(ns, keys("z"), func(tx *engine.Tx) error {
					z, err := tx.Load([]byte("z"), cf.TypeZSet)
					if err != nil {
						return err
					}
					it := tx.Iter(cf.ZSetScore, engine.IterOptions{Prefix: tx.SubkeyPrefix(&z)})
					defer it.Close()
					got := 0
					for last := -1e9; it.Next(); got++ {
						score, _, err := cf.SplitScoreSub(it.Key())
						if err != nil || score < last {
							t.Errorf("score %v after %v, %v", score, last, err)
						}
						last = score
					}
					if got != n {
						t.Errorf("round %d: %d scores, want %d", round, got, n)
					}
					return it.Err()
				}))
				require.NoError(t, db.Close())
				if ldbErr != nil {
					continue
				}
				// --disable_consistency_checks and the like are not given: the tool must open it as it is.
				out, err := exec.Command(ldb, "--db="+dir, "--column_family=zset_score", "scan", "--hex").CombinedOutput()
				lines := bytes.Count(out, []byte(" : ")) + bytes.Count(out, []byte(" ==> ")) // of RocksDB 7, and later
				if err != nil || lines != n {
					t.Errorf("round %d: ldb finds %d of %d records: %v\n%.500s", round, lines, n, err, out)
				}
			}
			if ldbErr != nil {
				t.Skipf("the family was not read with RocksDB's own tool: %v (package rocksdb-tools)", ldbErr)
			}
			out, err := exec.Command(ldb, "--db="+dir, "list_column_families").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "zset_score") {
				t.Errorf("ldb list_column_families: %v\n%s", err, out)
			}
		})
	}
}

// BenchmarkScoreSeek looks for places in a sorted set with 200,000 members, with the native comparator of
// zset_score and with RocksDB's own: in files, where a seek compares with the keys of index and data blocks, and
// in the memtable, where it walks down a skip list. The native one may be at most 10 % slower.
//
// The two take turns within one run, so that what else the machine does hits both alike; the metrics are
// nanoseconds a seek of each, and the ratio of native to bytewise.
func BenchmarkScoreSeek(b *testing.B) {
	const members, turn = 200_000, 2000
	for _, where := range []string{"files", "memtable"} {
		b.Run(where, func(b *testing.B) {
			var tx [2]*engine.Tx
			var prefix [2][]byte
			for i, c := range comparators {
				o := engine.DefaultRocksOptions()
				o.WriteBufferSize = 256 << 20
				db := enginetest.OpenWith(b, engine.Options{Dir: b.TempDir() + "/db", BytewiseScores: c.bytewise, Rocks: o})
				rng := rand.New(rand.NewPCG(1, 1))
				update(b, db, "z", func(tx *engine.Tx, _ *engine.Record) {
					z := tx.Fresh([]byte("z"), cf.TypeZSet)
					for m := range members {
						tx.Put(cf.ZSetScore, tx.ScoreKey(&z, rng.NormFloat64(), fmt.Appendf(nil, "member:%06d", m)), nil)
					}
					z.Size = members
					tx.Save(&z, nil)
				})
				if where == "files" {
					compact(b, db)
				}
				t := db.NewTx()
				t.Begin(ns)
				defer t.Release()
				z, err := t.Load([]byte("z"), cf.TypeZSet)
				if err != nil || !z.Exists {
					b.Fatal(err)
				}
				tx[i], prefix[i] = t, bytes.Clone(t.SubkeyPrefix(&z))
				seeks(b, t, prefix[i], rng, 20*turn) // warm up
			}
			var spent [2]float64
			n := 0
			b.ResetTimer()
			for b.Loop() {
				for i := range 2 {
					i = (i + n) % 2
					rng := rand.New(rand.NewPCG(2, uint64(n)))
					spent[i] += seeks(b, tx[i], prefix[i], rng, turn)
				}
				n++
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(spent[0]/float64(n), "native-ns/seek")
			b.ReportMetric(spent[1]/float64(n), "bytewise-ns/seek")
			b.ReportMetric(spent[0]/spent[1], "ratio")
		})
	}
}

// seeks looks for n random places and returns the nanoseconds that one took.
func seeks(b *testing.B, tx *engine.Tx, prefix []byte, rng *rand.Rand, n int) float64 {
	upper, _ := cf.AppendSuccessor(nil, prefix)
	lower := append(bytes.Clone(prefix), make([]byte, cf.ScoreLen)...)
	score := lower[len(prefix):]
	from := nowCPU()
	for range n {
		binary.BigEndian.PutUint64(score, cf.EncodeDouble(rng.NormFloat64()))
		it := tx.Iter(cf.ZSetScore, engine.IterOptions{Lower: lower, Upper: upper, KeysOnly: true, Limit: 1})
		it.Next()
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
		it.Close()
	}
	return float64(nowCPU()-from) / float64(n)
}
