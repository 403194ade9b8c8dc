package timeseries_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/timeseries"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var source = []byte("source")

// everyAggregator are all aggregators; each has a time series that is aggregated from source.
var everyAggregator = []cf.Aggregator{cf.AggSum, cf.AggMin, cf.AggMax, cf.AggCount, cf.AggFirst, cf.AggLast, cf.AggAvg,
	cf.AggRange, cf.AggStdP, cf.AggStdS, cf.AggVarP, cf.AggVarS}

func target(a cf.Aggregator) []byte { return fmt.Appendf(nil, "target %d", a) }

// update runs f with the locks of all keys of the test held.
func update(t testing.TB, db *engine.DB, f func(tx *engine.Tx) error) {
	t.Helper()
	keys := [][]byte{source, []byte("other")}
	for _, a := range everyAggregator {
		keys = append(keys, target(a))
	}
	require.NoError(t, db.Update(ns, keys, f))
}

// held is the Locker of transactions that have all locks.
func held([]byte) error { return nil }

func create(t testing.TB, db *engine.DB, key []byte, o timeseries.Options) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		_, err := timeseries.Create(tx, key, &o)
		return err
	})
}

// with runs f on a time series.
func with(t testing.TB, db *engine.DB, key []byte, f func(s *timeseries.Series) error) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		s, err := timeseries.Open(tx, key)
		if err != nil {
			return err
		}
		return f(s)
	})
}

func samplesOf(t testing.TB, db *engine.DB, key []byte, r timeseries.Range) (list []cf.Sample) {
	t.Helper()
	with(t, db, key, func(s *timeseries.Series) error {
		return s.Range(&r, func(sample cf.Sample) bool {
			list = append(list, sample)
			return true
		})
	})
	return list
}

var all = timeseries.Range{To: math.MaxUint64}

// model is a time series in memory.
type model struct {
	values    map[uint64]float64
	retention uint64
}

func (m *model) timestamps() []uint64 { return slices.Sorted(maps.Keys(m.values)) }

// oldest returns the timestamp before which the retention hides samples.
func (m *model) oldest() uint64 {
	list := m.timestamps()
	if n := len(list); n > 0 && m.retention > 0 && list[n-1] > m.retention {
		return list[n-1] - m.retention
	}
	return 0
}

// add adds samples as Series.Add does, one after the other.
func (m *model) add(samples []cf.Sample, policy timeseries.Policy) (results []bool) {
	last := uint64(0)
	if ts := m.timestamps(); len(ts) > 0 {
		last = ts[len(ts)-1]
	}
	for _, s := range samples {
		old, found := m.values[s.Timestamp]
		ok := m.retention == 0 || s.Timestamp+m.retention >= last
		switch {
		case !ok:
		case !found:
			m.values[s.Timestamp] = s.Value
		case policy == timeseries.Block:
			ok = false
		case policy == timeseries.Last:
			m.values[s.Timestamp] = s.Value
		case policy == timeseries.Min:
			m.values[s.Timestamp] = min(old, s.Value)
		case policy == timeseries.Max:
			m.values[s.Timestamp] = max(old, s.Value)
		case policy == timeseries.Sum:
			m.values[s.Timestamp] = old + s.Value
		}
		last = max(last, s.Timestamp)
		results = append(results, ok)
	}
	return results
}

// aggregate returns what the aggregates are of all buckets with samples that are selected.
func (m *model) aggregate(a timeseries.Aggregation, selected func(ts uint64) bool) (list []cf.Sample) {
	var buckets [][]float64
	for _, ts := range m.timestamps() {
		if !selected(ts) {
			continue
		}
		begin := uint64(0)
		if first := a.Alignment % a.Bucket; ts >= first { // a bucket before may be shorter
			begin = first + (ts-first)/a.Bucket*a.Bucket
		}
		if n := len(list); n == 0 || list[n-1].Timestamp != begin {
			list, buckets = append(list, cf.Sample{Timestamp: begin}), append(buckets, nil)
		}
		buckets[len(list)-1] = append(buckets[len(list)-1], m.values[ts])
	}
	for i, values := range buckets {
		list[i].Value = reduce(a.Function, values)
	}
	return list
}

// reduce is the definition of the aggregators.
func reduce(f cf.Aggregator, v []float64) float64 {
	sum, n := 0.0, float64(len(v))
	for _, x := range v {
		sum += x
	}
	squares := 0.0
	for _, x := range v {
		squares += (x - sum/n) * (x - sum/n)
	}
	switch f {
	case cf.AggSum:
		return sum
	case cf.AggMin:
		return slices.Min(v)
	case cf.AggMax:
		return slices.Max(v)
	case cf.AggCount:
		return n
	case cf.AggFirst:
		return v[0]
	case cf.AggLast:
		return v[len(v)-1]
	case cf.AggAvg:
		return sum / n
	case cf.AggRange:
		return slices.Max(v) - slices.Min(v)
	case cf.AggStdP:
		return math.Sqrt(squares / n)
	case cf.AggVarP:
		return squares / n
	case cf.AggStdS:
		return math.Sqrt(squares / max(n-1, 1))
	}
	return squares / max(n-1, 1)
}

func same(got, want []cf.Sample) bool {
	return slices.EqualFunc(got, want, func(a, b cf.Sample) bool {
		return a.Timestamp == b.Timestamp && math.Abs(a.Value-b.Value) < 1e-9
	})
}

// TestModel compares a time series, and those that are aggregated from it, with the model after random changes.
func TestModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testModel(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func testModel(t *testing.T, r *rand.Rand) {
	db := enginetest.Open(t)
	m := &model{values: map[uint64]float64{}}
	ruled := r.IntN(2) == 0 // else with a retention: aggregates outlive the samples, which the model does not do
	if !ruled && r.IntN(2) == 0 {
		m.retention = 60
	}
	create(t, db, source, timeseries.Options{ChunkSize: 1 + r.Uint64N(5), Retention: m.retention})
	bucket := timeseries.Aggregation{Bucket: 1 + r.Uint64N(20), Alignment: r.Uint64N(30)}
	if ruled {
		for _, a := range everyAggregator {
			create(t, db, target(a), timeseries.Options{ChunkSize: 1 + r.Uint64N(5)})
			bucket.Function = a
			update(t, db, func(tx *engine.Tx) error { return timeseries.CreateRule(tx, source, target(a), bucket) })
		}
	}
	for range 60 {
		switch op := r.IntN(10); {
		case op < 7:
			samples := make([]cf.Sample, 1+r.IntN(6))
			for i := range samples {
				samples[i] = cf.Sample{Timestamp: r.Uint64N(150), Value: float64(r.IntN(7) - 3)}
			}
			policy := timeseries.Policy(r.IntN(6))
			var got []bool
			with(t, db, source, func(s *timeseries.Series) error {
				results, err := s.Add(samples, policy, held)
				for _, result := range results {
					got = append(got, result != timeseries.Blocked && result != timeseries.TooOld)
				}
				return err
			})
			if want := m.add(samples, policy); !slices.Equal(got, want) {
				t.Fatalf("adding %v with policy %d: %v, want %v", samples, policy, got, want)
			}
		case op < 8:
			ts, v := r.Uint64N(150), float64(r.IntN(5))
			var ok bool
			with(t, db, source, func(s *timeseries.Series) (err error) {
				ok, err = s.AddTo(cf.Sample{Timestamp: ts, Value: v}, held)
				return err
			})
			list := m.timestamps()
			if want := len(list) == 0 || ts >= list[len(list)-1]; ok != want {
				t.Fatalf("adding to the newest sample at %d: %v, want %v", ts, ok, want)
			}
			if ok && len(list) > 0 {
				v += m.values[list[len(list)-1]]
			}
			if ok {
				m.values[ts] = v
			}
		default:
			from := r.Uint64N(150)
			to := from + r.Uint64N(40)
			var deleted uint64
			with(t, db, source, func(s *timeseries.Series) (err error) {
				deleted, err = s.Delete(from, to, held)
				return err
			})
			oldest, want := m.oldest(), uint64(0)
			maps.DeleteFunc(m.values, func(ts uint64, _ float64) bool {
				gone := ts >= from && ts <= to
				if gone && ts >= oldest {
					want++
				}
				return gone
			})
			if deleted != want {
				t.Fatalf("%d samples deleted, want %d", deleted, want)
			}
		}
		checkModel(t, db, m, r)
		if ruled {
			checkTargets(t, db, m, bucket)
		}
	}
}

// checkModel compares what ranges return, and checks the chunks.
func checkModel(t *testing.T, db *engine.DB, m *model, r *rand.Rand) {
	t.Helper()
	list, oldest := m.timestamps(), m.oldest()
	from, to := r.Uint64N(160), r.Uint64N(160)
	if r.IntN(4) == 0 {
		from, to = 0, math.MaxUint64
	}
	selected := func(ts uint64) bool { return ts >= max(from, oldest) && ts <= to }
	var want []cf.Sample
	for _, ts := range list {
		if selected(ts) {
			want = append(want, cf.Sample{Timestamp: ts, Value: m.values[ts]})
		}
	}
	o := timeseries.Range{From: from, To: to, Reverse: r.IntN(2) == 0, Count: r.Uint64N(4)}
	if r.IntN(2) == 0 {
		o.Aggregation = timeseries.Aggregation{Function: everyAggregator[r.IntN(len(everyAggregator))],
			Bucket: 1 + r.Uint64N(30), Alignment: r.Uint64N(40)}
		want = m.aggregate(o.Aggregation, selected)
	}
	if o.Reverse {
		slices.Reverse(want)
	}
	if o.Count > 0 {
		want = want[:min(len(want), int(o.Count))]
	}
	if got := samplesOf(t, db, source, o); !same(got, want) {
		t.Fatalf("%+v: %v, want %v", o, got, want)
	}
	with(t, db, source, func(s *timeseries.Series) error { return checkChunks(db, s) })
}

// checkChunks checks that the chunks are those that the metadata and their keys say.
func checkChunks(db *engine.DB, s *timeseries.Series) error {
	return db.View(ns, nil, func(tx *engine.Tx) error {
		rec, err := tx.Load(s.Key(), cf.TypeTimeSeries)
		if err != nil {
			return err
		}
		prefix := append(slices.Clone(tx.SubkeyPrefix(&rec)), byte(cf.SeriesChunk))
		it := tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix})
		defer it.Close()
		chunks, last := uint64(0), uint64(0)
		for it.Next() {
			first, err := cf.ParseSeriesChunkSub(append([]byte{byte(cf.SeriesChunk)}, it.Key()...))
			if err != nil {
				return err
			}
			samples, err := cf.ParseSeriesChunk(it.Value())
			if err != nil {
				return err
			}
			n := len(samples) / cf.SampleLen
			if n == 0 || uint64(n) > 2*s.Meta.ChunkSize || len(samples)+cf.SeriesChunkHead != len(it.Value()) {
				return fmt.Errorf("chunk %d has %d samples in %d bytes", first, n, len(it.Value()))
			}
			if at := cf.SampleAt(samples, 0).Timestamp; at != first || chunks > 0 && first <= last {
				return fmt.Errorf("chunk %d begins with %d, after %d", first, at, last)
			}
			for i := 1; i < n; i++ {
				if cf.SampleAt(samples, i-1).Timestamp >= cf.SampleAt(samples, i).Timestamp {
					return fmt.Errorf("chunk %d is not in order", first)
				}
			}
			last = cf.SampleAt(samples, n-1).Timestamp
			chunks++
		}
		if chunks != rec.Size || s.Meta.LastTimestamp > last {
			return fmt.Errorf("%d chunks up to %d, the metadata has %d up to %d", chunks, last, rec.Size,
				s.Meta.LastTimestamp)
		}
		return it.Err()
	})
}

// checkTargets compares the time series that are aggregated from source: all buckets before the newest one, and the
// newest one on request.
func checkTargets(t *testing.T, db *engine.DB, m *model, bucket timeseries.Aggregation) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		for _, a := range everyAggregator {
			bucket.Function = a
			want := m.aggregate(bucket, func(uint64) bool { return true })
			s, err := timeseries.Open(tx, target(a))
			if err != nil {
				return err
			}
			for _, latest := range []bool{true, false} {
				if !latest && len(want) > 0 {
					want = want[:len(want)-1]
				}
				var got []cf.Sample
				err := s.Range(&timeseries.Range{To: math.MaxUint64, Latest: latest}, func(sample cf.Sample) bool {
					got = append(got, sample)
					return true
				})
				if err != nil || !same(got, want) {
					return fmt.Errorf("aggregator %d, bucket %d, alignment %d, latest %v: %v, want %v, error %v", a, bucket.Bucket,
						bucket.Alignment, latest, got, want, err)
				}
			}
		}
		return nil
	})
}
