package enginetest_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/geo"
	"github.com/basaltdb/basalt/engine/hll"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// curves are commands whose cost must not depend on how many collections they are spread over, as far as memory holds
// what is derived from these. n counts the calls for a collection from 0.
var curves = []struct {
	name  string
	write bool
	fill  func(tx *engine.Tx, key []byte) error // makes a collection
	run   func(tx *engine.Tx, key []byte, n int) error
}{
	{"ZRANK", false, fillScores, func(tx *engine.Tx, key []byte, n int) error {
		_, _, _, err := zset.Rank(tx, key, curveMember(n%curveSize), false)
		return err
	}},
	{"ZPOPMIN", true, fillScores, func(tx *engine.Tx, key []byte, n int) error {
		err := zset.Pop(tx, key, 1, false, func([]byte, float64) {})
		if err == nil {
			_, _, err = zset.Add(tx, key, 0, []zset.Entry{{Member: curveMember(n), Score: float64(1000 + n)}})
		}
		return err
	}},
	{"SPOP", true, fillMembers, func(tx *engine.Tx, key []byte, n int) error {
		err := set.Pop(tx, key, 1, func([]byte) {})
		if err == nil {
			_, err = set.Add(tx, key, [][]byte{curveMember(1000 + n)})
		}
		return err
	}},
	{"SRANDMEMBER", false, fillMembers, func(tx *engine.Tx, key []byte, n int) error {
		return set.Random(tx, key, 1, func([]byte) bool { return true })
	}},
	{"PFADD", true, fillElements, func(tx *engine.Tx, key []byte, n int) error {
		_, err := hll.Add(tx, key, [][]byte{curveMember(n)})
		return err
	}},
	{"XADD MAXLEN", true, fillEntries, func(tx *engine.Tx, key []byte, n int) error {
		return addEntry(tx, key, 1000+n)
	}},
	{"XRANGE", false, fillEntries, func(tx *engine.Tx, key []byte, n int) error {
		return stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID, Count: 1}, func(*stream.Entry) {})
	}},
	{"GEOSEARCH", false, fillPlaces, func(tx *engine.Tx, key []byte, n int) error {
		q := geo.Query{Shape: geo.Shape{Lon: 13.4, Lat: 52.5, Radius: 1, Unit: geo.Kilometre}}
		return geo.Search(tx, key, &q, func(*geo.Found) {})
	}},
}

const curveSize = 20 // members of a collection

func curveMember(n int) []byte { return fmt.Appendf(nil, "m%d", n) }

func fillScores(tx *engine.Tx, key []byte) error {
	entries := make([]zset.Entry, curveSize)
	for i := range entries {
		entries[i] = zset.Entry{Member: curveMember(i), Score: float64(i)}
	}
	_, _, err := zset.Add(tx, key, 0, entries)
	return err
}

func fillMembers(tx *engine.Tx, key []byte) error {
	members := make([][]byte, curveSize)
	for i := range members {
		members[i] = curveMember(i)
	}
	_, err := set.Add(tx, key, members)
	return err
}

func fillElements(tx *engine.Tx, key []byte) error {
	_, err := hll.Add(tx, key, [][]byte{[]byte("a"), []byte("b")})
	return err
}

func addEntry(tx *engine.Tx, key []byte, n int) error {
	trim := stream.Trim{By: stream.TrimMaxLen, MaxLen: curveSize}
	_, _, err := stream.Add(tx, key, [][]byte{[]byte("f"), []byte("v")}, &stream.AddOptions{
		NewID: stream.NewID{ID: stream.ID{Ms: uint64(1 + n)}}, Trim: trim,
	})
	return err
}

func fillEntries(tx *engine.Tx, key []byte) error {
	for i := range curveSize {
		if err := addEntry(tx, key, i); err != nil {
			return err
		}
	}
	return nil
}

func fillPlaces(tx *engine.Tx, key []byte) error {
	places := make([]geo.Place, curveSize)
	for i := range places {
		places[i] = geo.Place{Member: curveMember(i), Lon: 13.4 + float64(i)/1000, Lat: 52.5}
	}
	_, _, err := geo.Add(tx, key, 0, places)
	return err
}

// round runs something once for each of n collections.
func round(t testing.TB, db *engine.DB, n int, write bool, f func(tx *engine.Tx, key []byte) error) {
	t.Helper()
	for i := range n {
		curveCall(t, db, i, write, f)
	}
}

func curveCall(t testing.TB, db *engine.DB, i int, write bool, f func(tx *engine.Tx, key []byte) error) {
	t.Helper()
	key := fmt.Appendf(nil, "k:%08d", i)
	call := db.View
	if write {
		call = db.Update
	}
	require.NoError(t, call(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error { return f(tx, key) }))
}

// countSeeks returns how many seeks of iterators RocksDB has counted.
func countSeeks(t *testing.T, db *engine.DB) int {
	t.Helper()
	m := regexp.MustCompile(`rocksdb\.number\.db\.seek COUNT : (\d+)`).FindStringSubmatch(db.Statistics())
	if m == nil {
		t.Fatal("RocksDB counts no seeks")
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// TestCurves counts seeks: calls over many collections must take as many each as over few.
func TestCurves(t *testing.T) {
	const warm, rounds = 12, 8
	for _, c := range curves {
		t.Run(c.name, func(t *testing.T) {
			var few float64
			sizes := []int{10, 300, 1500}
			if testing.Short() {
				sizes = sizes[:2]
			}
			for _, collections := range sizes {
				db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DerivedState: 64 << 20})
				round(t, db, collections, true, c.fill)
				before := 0
				for n := range warm + rounds {
					if n == warm {
						before = countSeeks(t, db)
					}
					round(t, db, collections, c.write, func(tx *engine.Tx, key []byte) error { return c.run(tx, key, n) })
				}
				seeks := float64(countSeeks(t, db)-before) / float64(rounds*collections)
				t.Logf("%d collections: %.2f seeks a call, %d bytes", collections, seeks, db.Derived().Used())
				if few == 0 {
					few = seeks + 0.1
				}
				if seeks > few {
					t.Errorf("%d collections: %.2f seeks a call, %.2f over 10", collections, seeks, few-0.1)
				}
			}
		})
	}
}

// BenchmarkCurves spreads calls over 10 to 100,000 collections, with the state that the default of a machine with 24
// GiB allows.
func BenchmarkCurves(b *testing.B) {
	for _, c := range curves {
		for _, collections := range []int{10, 100, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/collections=%d", c.name, collections), func(b *testing.B) {
				db := enginetest.OpenWith(b, engine.Options{Dir: b.TempDir() + "/db", DerivedState: 192 << 20})
				round(b, db, collections, true, c.fill)
				n := 0
				for range max(4, 100/collections) {
					round(b, db, collections, c.write, func(tx *engine.Tx, key []byte) error { return c.run(tx, key, n) })
					n++
				}
				i := 0
				b.ResetTimer()
				for b.Loop() {
					if i += 7919; i >= collections { // a prime: all of them, in no order
						i %= collections
						n++
					}
					curveCall(b, db, i, c.write, func(tx *engine.Tx, key []byte) error { return c.run(tx, key, n) })
				}
				b.ReportMetric(float64(db.Derived().Used())/float64(collections), "state-bytes/collection")
			})
		}
	}
}
