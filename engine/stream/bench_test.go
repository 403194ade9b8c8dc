package stream_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/internal/require"
)

// large is the size of the bigger of the two streams that are compared; adding and reading must cost the same in both.
var large = flag.Int("entries", 1_000_000, "entries of the large stream")

// blockCache is that of the database. With the library's default a stream of ten million entries, about 700 MB, is not
// in it; a server takes half of the memory there is.
var blockCache = flag.Int("cache", 64, "MiB of block cache")

const small = 1000

// fill adds entries with the ids 1-0, 2-0 and so on to a stream.
func fill(b *testing.B, db *engine.DB, key []byte, size int) {
	fields := raw("field", "0123456789")
	for id := 1; id <= size; {
		require.NoError(b, db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			for n := 0; n < 1000 && id <= size; n++ {
				if _, _, err := stream.Add(tx, key, fields,
					&stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: uint64(id)}}}); err != nil {
					return err
				}
				id++
			}
			return nil
		}))
	}
}

// filled returns a database with the large stream and a small one.
func filled(b *testing.B) *engine.DB {
	o := engine.DefaultRocksOptions()
	o.BlockCacheSize = *blockCache << 20
	db := enginetest.OpenWith(b, engine.Options{Dir: b.TempDir(), Rocks: o})
	fill(b, db, []byte("small"), small)
	fill(b, db, []byte("large"), *large)
	return db
}

// inBatches runs f in transactions of 16 calls, as a pipeline does.
func inBatches(b *testing.B, db *engine.DB, key []byte, f func(tx *engine.Tx) error) {
	tx := db.NewTx()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%16 == 0 {
			tx.Begin(ns)
			tx.AddLock(key, true)
			tx.Acquire()
		}
		require.NoError(b, f(tx))
		if n%16 == 15 {
			require.NoError(b, tx.Commit())
			tx.Release()
		}
	}
	tx.Release()
}

// each runs f for the small and for the large stream, which are in one database.
func each(b *testing.B, db *engine.DB, f func(b *testing.B, key []byte, size int)) {
	b.Run("small", func(b *testing.B) { f(b, []byte("small"), small) })
	b.Run("large", func(b *testing.B) { f(b, []byte("large"), *large) })
}

func BenchmarkAdd(b *testing.B) {
	fields := raw("field", "0123456789")
	db := filled(b)
	for _, c := range []struct {
		name   string
		by     stream.TrimBy
		approx bool
	}{
		{"plain", stream.TrimNone, false},
		{"maxlen", stream.TrimMaxLen, false},
		{"maxlen~", stream.TrimMaxLen, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			each(b, db, func(b *testing.B, key []byte, size int) {
				trim := stream.Trim{By: c.by, MaxLen: uint64(size), Approx: c.approx, Limit: 10000}
				update(b, db, func(tx *engine.Tx) error {
					_, err := stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMaxLen, MaxLen: uint64(size)})
					return err
				})
				inBatches(b, db, key, func(tx *engine.Tx) error {
					_, _, err := stream.Add(tx, key, fields, &stream.AddOptions{NewID: stream.NewID{Auto: stream.AutoID}, Trim: trim})
					return err
				})
			})
		})
	}
}

// crowd is the key of one of the small streams that together are as long as the large one.
func crowd(i int) []byte { return fmt.Appendf(nil, "crowd%08d", i) }

// BenchmarkRange10 reads ten entries of the small stream and of the large one. The two take turns, and what is compared
// is processor time of this thread, so that neither other work on the machine nor compactions count; ratio is the
// time in the large stream to that in the small one. The processor's caches hold the small stream and not the large
// one, which is most of the ratio of "any"; two others compare under equal conditions. "near" reads at random places
// of a part of the large stream that is as long as the small one. "crowd" reads anywhere in the large stream, and in
// small streams that are as many as it takes to hold as many entries.
func BenchmarkRange10(b *testing.B) {
	db := filled(b)
	for i := range *large / small {
		fill(b, db, crowd(i), small)
	}
	require.NoError(b, db.CompactRange(cf.Stream, nil, nil))
	for _, from := range []string{"first", "near", "any", "crowd", "last"} {
		b.Run(from, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			const turn = 1000 // reads
			r := rand.New(rand.NewPCG(1, 1))
			tx := db.NewTx()
			read := func(key []byte, size int) {
				tx.Begin(ns)
				tx.AddLock(key, false)
				tx.Acquire()
				n := 0
				o := stream.RangeOptions{To: stream.MaxID, Count: 10, LastRead: true}
				switch from {
				case "near":
					o.From.Ms = uint64(size/2 - small/2 + 1 + r.IntN(small-20))
				case "any", "crowd":
					o.From.Ms = uint64(1 + r.IntN(size-20))
				case "last":
					o.Reverse = true
				}
				if err := stream.Range(tx, key, o, func(e *stream.Entry) { n += e.Len() }); err != nil || n != 20 {
					b.Fatal(n, err)
				}
				tx.Release()
			}
			var took [2]time.Duration
			turns := b.N/turn + 1
			for i := range 2 * turns {
				key, size := []byte("small"), small
				if i%2 == 1 {
					key, size = []byte("large"), *large
				}
				begin := enginetest.ThreadCPU()
				for range turn {
					if from == "crowd" && i%2 == 0 {
						key = crowd(r.IntN(*large / small))
					}
					read(key, size)
				}
				took[i%2] += enginetest.ThreadCPU() - begin
			}
			n := float64(turns * turn)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[0].Nanoseconds())/n, "ns/small")
			b.ReportMetric(float64(took[1].Nanoseconds())/n, "ns/large")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}

// BenchmarkTrimmed reads and adds at the low end of a stream from which nearly all entries were trimmed, without a
// compaction since: the tombstones must not be stepped over.
func BenchmarkTrimmed(b *testing.B) {
	db := enginetest.Open(b)
	fill(b, db, key, *large)
	trim := stream.Trim{By: stream.TrimMaxLen, MaxLen: small}
	for n := uint64(*large); n > small; {
		n -= min(n-small, 5000)
		update(b, db, func(tx *engine.Tx) error {
			_, err := stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMaxLen, MaxLen: n})
			return err
		})
	}
	fields := raw("field", "0123456789")
	b.Run("range", func(b *testing.B) {
		inBatches(b, db, key, func(tx *engine.Tx) error {
			return stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID, Count: 10}, func(*stream.Entry) {})
		})
	})
	b.Run("add", func(b *testing.B) {
		inBatches(b, db, key, func(tx *engine.Tx) error {
			_, _, err := stream.Add(tx, key, fields, &stream.AddOptions{NewID: stream.NewID{Auto: stream.AutoID}, Trim: trim})
			return err
		})
	})
}

// BenchmarkGroup adds entries, reads them in a group and acknowledges them, one by one and ten at a time.
func BenchmarkGroup(b *testing.B) {
	fields := raw("field", "0123456789")
	group, consumer := []byte("group"), []byte("consumer")
	for _, count := range []int{1, 10} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			db := enginetest.Open(b)
			update(b, db, func(tx *engine.Tx) error {
				return stream.CreateGroup(tx, key, group, stream.GroupStart{EntriesRead: stream.UnknownReads}, true)
			})
			ids := make([]stream.ID, 0, count)
			inBatches(b, db, key, func(tx *engine.Tx) error {
				for range count {
					if _, _, err := stream.Add(tx, key, fields,
						&stream.AddOptions{NewID: stream.NewID{Auto: stream.AutoID}}); err != nil {
						return err
					}
				}
				g, err := stream.OpenGroup(tx, key, group)
				if err != nil {
					return err
				}
				ids = ids[:0]
				if err := readNew(g, string(consumer), uint64(count), false,
					func(e *stream.Entry) { ids = append(ids, e.ID) }); err != nil {
					return err
				}
				_, err = stream.Ack(tx, key, group, ids)
				return err
			})
		})
	}
}

// BenchmarkIdle claims entries that are idle, one by one, of 20,000 that are pending, and asks for some when none is;
// with what is remembered of them and without.
func BenchmarkIdle(b *testing.B) {
	const entries = 20000
	for _, state := range []int64{0, -1} {
		for _, minIdle := range []int64{0, 1e9} {
			b.Run(fmt.Sprintf("remembered=%v/idle=%v", state == 0, minIdle == 0), func(b *testing.B) {
				db := enginetest.OpenWith(b, engine.Options{Dir: b.TempDir() + "/db", DerivedState: state})
				o := stream.ReadOptions{Count: 1, Claim: true, MinIdle: minIdle}
				update(b, db, func(tx *engine.Tx) error {
					if err := stream.CreateGroup(tx, key, []byte("g"), stream.GroupStart{}, true); err != nil {
						return err
					}
					for i := range entries {
						a := stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: uint64(i + 1)}}}
						if _, _, err := stream.Add(tx, key, raw("f", "v"), &a); err != nil {
							return err
						}
					}
					g, err := stream.OpenGroup(tx, key, []byte("g"))
					if err != nil {
						return err
					}
					return readNew(g, "a", 0, false, func(e *stream.Entry) {})
				})
				for b.Loop() {
					update(b, db, func(tx *engine.Tx) error {
						g, err := stream.OpenGroup(tx, key, []byte("g"))
						if err == nil {
							_, err = g.Read([]byte("b"), &o, func() {}, func(*stream.Entry, stream.Delivered) bool { return true })
						}
						return err
					})
				}
			})
		}
	}
}
