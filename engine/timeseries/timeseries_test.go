package timeseries_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/timeseries"
	"github.com/basaltdb/basalt/internal/require"
)

// at makes samples whose values are their timestamps.
func at(timestamps ...uint64) (list []cf.Sample) {
	for _, ts := range timestamps {
		list = append(list, cf.Sample{Timestamp: ts, Value: float64(ts)})
	}
	return list
}

func add(t testing.TB, db *engine.DB, key []byte, samples ...cf.Sample) {
	t.Helper()
	with(t, db, key, func(s *timeseries.Series) error {
		_, err := s.Add(samples, timeseries.Last, held)
		return err
	})
}

func rule(t testing.TB, db *engine.DB, a cf.Aggregator, bucket uint64) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		return timeseries.CreateRule(tx, source, target(a), timeseries.Aggregation{Function: a, Bucket: bucket})
	})
}

// TestAppendWritesOneChunk: a batch that appends to a full chunk leaves it alone, and the metadata is written only when
// a chunk begins.
func TestAppendWritesOneChunk(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 3})
	add(t, db, source, at(1, 2)...)
	for _, tt := range []struct {
		samples []cf.Sample
		records int
	}{
		{at(3), 1},
		{at(4), 2},
		{at(5), 1},
		{at(6, 7, 8, 9, 10), 4},
	} {
		before := db.LatestSequence()
		add(t, db, source, tt.samples...)
		if n := int(db.LatestSequence() - before); n != tt.records {
			t.Errorf("adding %v wrote %d records, want %d", tt.samples, n, tt.records)
		}
	}
}

// TestAddMany: samples of one call are written to each chunk once, in whatever order they come.
func TestAddMany(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 100})
	for ts := uint64(0); ts < 1000; ts += 2 {
		add(t, db, source, at(ts)...)
	}
	var odd []uint64
	for ts := uint64(401); ts < 1000; ts += 2 {
		odd = append(odd, ts)
	}
	slices.Reverse(odd)
	before := db.LatestSequence()
	add(t, db, source, at(odd...)...)
	// Three chunks of 100 samples get 100 more each, and are at most twice as large as the chunk size.
	if n := int(db.LatestSequence() - before); n > 5 {
		t.Errorf("%d samples of three chunks wrote %d records", len(odd), n)
	}
	if got := len(samplesOf(t, db, source, all)); got != 500+len(odd) {
		t.Errorf("%d samples", got)
	}
}

func TestEmptyBuckets(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 2})
	add(t, db, source, at(11, 14, 41)...)
	nan := math.NaN()
	for _, tt := range []struct {
		f    cf.Aggregator
		want [4]float64
	}{
		{cf.AggSum, [4]float64{25, 0, 0, 41}},
		{cf.AggCount, [4]float64{2, 0, 0, 1}},
		{cf.AggLast, [4]float64{14, 14, 14, 41}},
		{cf.AggMin, [4]float64{11, nan, nan, 41}},
		{cf.AggAvg, [4]float64{12.5, nan, nan, 41}},
	} {
		for i, bt := range []struct {
			time  timeseries.BucketTime
			begin uint64
		}{{timeseries.BucketBegin, 10}, {timeseries.BucketMiddle, 15}, {timeseries.BucketEnd, 20}} {
			o := all
			o.Aggregation = timeseries.Aggregation{Function: tt.f, Bucket: 10}
			o.Empty, o.BucketTime, o.Reverse = true, bt.time, i == 1
			got := samplesOf(t, db, source, o)
			if o.Reverse {
				slices.Reverse(got)
			}
			for j, v := range tt.want {
				if j >= len(got) || got[j].Timestamp != bt.begin+10*uint64(j) ||
					got[j].Value != v && !(math.IsNaN(v) && math.IsNaN(got[j].Value)) {
					t.Errorf("aggregator %d: %v, want %v from %d on", tt.f, got, tt.want, bt.begin)
					break
				}
			}
		}
	}
	add(t, db, source, at(1<<40)...)
	with(t, db, source, func(s *timeseries.Series) error {
		o := all
		o.Aggregation, o.Empty = timeseries.Aggregation{Function: cf.AggSum, Bucket: 1}, true
		if err := s.Range(&o, func(cf.Sample) bool { return true }); err != timeseries.ErrEmpty {
			t.Errorf("2^40 empty buckets: %v", err)
		}
		o.Count = 5
		return s.Range(&o, func(cf.Sample) bool { return true })
	})
}

// TestRuleOfFullSeries: a rule of a time series that has samples begins with the present bucket, which is complete.
func TestRuleOfFullSeries(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 2})
	create(t, db, target(cf.AggSum), timeseries.Options{ChunkSize: 2})
	add(t, db, source, at(5, 11, 12, 13, 14)...)
	rule(t, db, cf.AggSum, 10)
	add(t, db, source, at(15, 21)...)
	want := []cf.Sample{{Timestamp: 10, Value: 65}}
	if got := samplesOf(t, db, target(cf.AggSum), all); !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	latest := all
	latest.Latest = true
	if got, want := samplesOf(t, db, target(cf.AggSum), latest), append(want, at(20)[0]); len(got) != 2 ||
		got[1].Value != 21 {
		t.Errorf("with the latest bucket %v, want %v", got, want)
	}
}

// TestKvrocksRuleOfFullSeries: a Kvrocks makes such a rule with the latest bucket 0, which is no bucket of the source.
func TestKvrocksRuleOfFullSeries(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 2})
	create(t, db, target(cf.AggAvg), timeseries.Options{ChunkSize: 2})
	rule(t, db, cf.AggAvg, 10) // as of an empty series
	update(t, db, func(tx *engine.Tx) error {
		rec, err := tx.Load(source, cf.TypeTimeSeries)
		if err != nil {
			return err
		}
		chunk := make([]byte, cf.SeriesChunkHead+cf.SampleLen)
		cf.PutSeriesChunkHead(chunk, 1)
		cf.PutSample(chunk[cf.SeriesChunkHead:], cf.Sample{Timestamp: 13, Value: 1})
		tx.Put(cf.Default, tx.Subkey(&rec, cf.AppendSeriesChunkSub(nil, 13)), chunk)
		rec.Size = 1
		tx.Save(&rec, slices.Clone(rec.Tail))
		return nil
	})
	add(t, db, source, cf.Sample{Timestamp: 14, Value: 3}, cf.Sample{Timestamp: 25, Value: 9})
	if got, want := samplesOf(t, db, target(cf.AggAvg), all), []cf.Sample{{Timestamp: 10, Value: 2}}; !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRuleEnds: a rule counts only while source and target know each other: neither may be made anew.
func TestRuleEnds(t *testing.T) {
	db := enginetest.Open(t)
	drop := func(key []byte) {
		update(t, db, func(tx *engine.Tx) error {
			rec, err := tx.Load(key, cf.TypeTimeSeries)
			tx.Drop(&rec)
			return err
		})
	}
	key := target(cf.AggSum)
	for _, dropped := range [][]byte{key, source} {
		create(t, db, source, timeseries.Options{ChunkSize: 2})
		create(t, db, key, timeseries.Options{ChunkSize: 2})
		rule(t, db, cf.AggSum, 10)
		drop(dropped)
		create(t, db, dropped, timeseries.Options{ChunkSize: 2})
		add(t, db, source, at(1, 11, 21)...)
		if got := samplesOf(t, db, key, all); len(got) > 0 {
			t.Errorf("%s was made anew: the target has %v", dropped, got)
		}
		with(t, db, source, func(s *timeseries.Series) error {
			rules, err := s.Rules()
			if len(rules) > 0 {
				t.Errorf("%s was made anew: %d rules", dropped, len(rules))
			}
			return err
		})
		with(t, db, key, func(s *timeseries.Series) error {
			other, _, err := s.Source()
			if other != nil {
				t.Errorf("%s was made anew: the target has a source", dropped)
			}
			return err
		})
		rule(t, db, cf.AggSum, 10)
		add(t, db, source, at(31)...)
		if got := samplesOf(t, db, key, all); !same(got, []cf.Sample{{Timestamp: 20, Value: 21}}) {
			t.Errorf("with a new rule %v", got)
		}
		drop(source)
		drop(key)
	}
}

func TestCreateRuleErrors(t *testing.T) {
	db := enginetest.Open(t)
	for _, a := range []cf.Aggregator{cf.AggSum, cf.AggMin} {
		create(t, db, target(a), timeseries.Options{ChunkSize: 2})
	}
	other := []byte("other")
	create(t, db, other, timeseries.Options{ChunkSize: 2})
	sum := timeseries.Aggregation{Function: cf.AggSum, Bucket: 10}
	for _, tt := range []struct {
		from, to []byte
		want     error
	}{
		{source, source, timeseries.ErrSame},
		{source, other, timeseries.ErrNotFound},
		{other, source, timeseries.ErrNotFound},
		{other, target(cf.AggSum), nil},
		{other, target(cf.AggSum), nil}, // again
		{target(cf.AggSum), target(cf.AggMin), timeseries.ErrSourceRuled},
		{target(cf.AggMin), target(cf.AggSum), timeseries.ErrTargetRuled},
		{target(cf.AggMin), other, timeseries.ErrTargetSource},
	} {
		err := db.Update(ns, [][]byte{tt.from, tt.to}, func(tx *engine.Tx) error {
			return timeseries.CreateRule(tx, tt.from, tt.to, sum)
		})
		if err != tt.want {
			t.Errorf("from %s to %s: %v, want %v", tt.from, tt.to, err, tt.want)
		}
	}
}

// TestDeleteBeyondRetention: samples from which aggregates would have to be computed may be gone.
func TestDeleteBeyondRetention(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 2, Retention: 10})
	create(t, db, target(cf.AggSum), timeseries.Options{ChunkSize: 2})
	rule(t, db, cf.AggSum, 10)
	add(t, db, source, at(5, 8, 12, 13, 15)...)
	with(t, db, source, func(s *timeseries.Series) error {
		if n, err := s.Delete(11, 14, held); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := s.Delete(5, 8, held); err != timeseries.ErrCompacted {
			t.Errorf("%v", err)
		}
		return nil
	})
}

// TestTargetLocks: the locks of targets are taken before anything is written.
func TestTargetLocks(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 2})
	create(t, db, target(cf.AggSum), timeseries.Options{ChunkSize: 2})
	rule(t, db, cf.AggSum, 10)
	busy := errors.New("busy")
	var asked []string
	refuse := func(key []byte) error {
		asked = append(asked, string(key))
		return busy
	}
	err := db.Update(ns, [][]byte{source}, func(tx *engine.Tx) error {
		s, err := timeseries.Open(tx, source)
		if err != nil {
			return err
		}
		for _, f := range []func() error{
			func() error { _, err := s.Add(at(1), timeseries.Last, refuse); return err },
			func() error { _, err := s.AddTo(at(1)[0], refuse); return err },
		} {
			if err := f(); err != busy {
				t.Errorf("%v", err)
			}
		}
		if !tx.Empty() {
			t.Error("something was written")
		}
		return nil
	})
	if err != nil || strings.Join(asked, ",") != strings.Repeat(","+string(target(cf.AggSum)), 2)[1:] {
		t.Errorf("%v, asked for %q", err, asked)
	}
}

// found returns the keys that a filter finds, joined.
func found(t *testing.T, db *engine.DB, matchers ...string) string {
	t.Helper()
	var filter timeseries.Filter
	for _, m := range matchers {
		if err := filter.Add([]byte(m)); err != nil {
			return err.Error()
		}
	}
	if err := filter.Check(); err != nil {
		return err.Error()
	}
	var keys []string
	enginetest.View(t, db, nil, func(tx *engine.Tx) error {
		return timeseries.Find(tx, &filter, func(s *timeseries.Series, labels []timeseries.Label) error {
			keys = append(keys, string(s.Key()))
			return nil
		})
	})
	return strings.Join(keys, " ")
}

func labels(words ...string) (list []timeseries.Label) {
	for i := 0; i < len(words); i += 2 {
		list = append(list, timeseries.Label{Name: []byte(words[i]), Value: []byte(words[i+1])})
	}
	return list
}

func TestFilter(t *testing.T) {
	db := enginetest.Open(t)
	if got := found(t, db, "room=study"); got != "" {
		t.Errorf("a database without labels finds %q", got)
	}
	for key, l := range map[string][]timeseries.Label{
		"a": labels("room", "study", "type", "temperature"),
		"b": labels("room", "study", "type", "humidity", "floor", "1"),
		"c": labels("room", "kitchen", "type", "temperature", "floor", "2"),
		"d": labels("room", "a, b", "type", "x=y"),
		"e": labels("room", "twice", "room", "once"),
	} {
		enginetest.Update(t, db, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
			_, err := timeseries.Create(tx, []byte(key), &timeseries.Options{ChunkSize: 1, Labels: l})
			return err
		})
	}
	none, syntax := timeseries.ErrNoMatcher.Error(), timeseries.ErrFilter.Error()
	for _, tt := range []struct{ matchers, want string }{
		{"room=study", "a b"},
		{"room=study;type=humidity", "b"},
		{"room=(study,kitchen)", "a b c"},
		{"room=(study,)", "a b"},
		{"room=(study,kitchen);type!=humidity", "a c"},
		{"room=(study,kitchen);type!=(humidity,temperature)", ""},
		{"room=(study,kitchen);floor=", "a"},
		{"room=(study,kitchen);floor!=", "b c"},
		{"room=study;floor!=1", "a"},
		{`room="study"`, "a b"},
		{"room=('a, b')", "d"},
		{"type='x=y'", "d"},
		{"room=once", "e"},
		{"room=twice", ""},
		{"room=stud", ""},
		{"roo=study", ""},
		{"room=study;room=kitchen", ""},
		{"floor=;room!=study", none},
		{"room", syntax},
		{"'room=study'", syntax},
	} {
		if got := found(t, db, strings.Split(tt.matchers, ";")...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.matchers, got, tt.want)
		}
	}
}

// TestAlterLabels: the index follows.
func TestAlterLabels(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 1, Labels: labels("a", "1", "b", "2")})
	with(t, db, source, func(s *timeseries.Series) error {
		l := labels("b", "3")
		return s.Alter(&timeseries.Change{Labels: &l})
	})
	for matcher, want := range map[string]string{"a=1": "", "b=2": "", "b=3": "source"} {
		if got := found(t, db, matcher); got != want {
			t.Errorf("%s finds %q, want %q", matcher, got, want)
		}
	}
}

// TestOwnWrites: a transaction finds the labels, rules and samples that it has written.
func TestOwnWrites(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		s, err := timeseries.Create(tx, source, &timeseries.Options{ChunkSize: 1, Labels: labels("a", "1")})
		if err != nil {
			return err
		}
		if _, err := timeseries.Create(tx, target(cf.AggSum), &timeseries.Options{ChunkSize: 1}); err != nil {
			return err
		}
		sum := timeseries.Aggregation{Function: cf.AggSum, Bucket: 10}
		if err := timeseries.CreateRule(tx, source, target(cf.AggSum), sum); err != nil {
			return err
		}
		if _, err := s.Add(at(1, 11), timeseries.Last, held); err != nil {
			return err
		}
		var filter timeseries.Filter
		filter.Add([]byte("a=1"))
		n := 0
		err = timeseries.Find(tx, &filter, func(*timeseries.Series, []timeseries.Label) error { n++; return nil })
		if n != 1 {
			t.Errorf("%d found", n)
		}
		return err
	})
	if got := samplesOf(t, db, target(cf.AggSum), all); !same(got, []cf.Sample{{Timestamp: 0, Value: 1}}) {
		t.Errorf("the target has %v", got)
	}
}

// TestCompaction: old chunks, rules without a target and index keys without the label go with compactions.
func TestCompaction(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	create(t, db, source, timeseries.Options{ChunkSize: 2, Retention: 10, Labels: labels("a", "1")})
	create(t, db, []byte("other"), timeseries.Options{ChunkSize: 2, Labels: labels("a", "2")})
	for _, a := range []cf.Aggregator{cf.AggSum, cf.AggMin} {
		create(t, db, target(a), timeseries.Options{ChunkSize: 2})
		rule(t, db, a, 10)
	}
	add(t, db, source, at(1, 2, 3, 4, 21, 22, 23)...)
	update(t, db, func(tx *engine.Tx) error {
		for _, key := range [][]byte{target(cf.AggMin), []byte("other")} {
			rec, err := tx.Load(key, cf.TypeTimeSeries)
			if err != nil {
				return err
			}
			tx.Drop(&rec)
		}
		return nil
	})
	count := func() (chunks, rules, index int) {
		enginetest.View(t, db, nil, func(tx *engine.Tx) error {
			it := tx.Iter(cf.Default, engine.IterOptions{})
			for it.Next() {
				s, err := cf.ParseSubkey(it.Key(), false)
				if err != nil {
					return err
				}
				switch part, _, _ := cf.SplitSeriesSub(s.Sub); {
				case part == cf.SeriesChunk && string(s.UserKey) == string(source):
					chunks++
				case part == cf.SeriesRule:
					rules++
				}
			}
			it.Close()
			it = tx.Iter(cf.Index, engine.IterOptions{KeysOnly: true})
			index = int(it.Skip(100))
			it.Close()
			return nil
		})
		return chunks, rules, index
	}
	if chunks, rules, index := count(); chunks != 4 || rules != 2 || index != 2 {
		t.Fatalf("%d chunks, %d rules, %d index keys", chunks, rules, index)
	}
	create(t, db, []byte("other"), timeseries.Options{ChunkSize: 2, Labels: labels("a", "3")})
	for _, id := range []cf.ID{cf.Default, cf.Metadata, cf.Index} {
		require.NoError(t, db.FlushMemtable(id))
	}
	require.NoError(t, db.CompactNamespace(""))
	// 23 began a chunk, so samples before 13 are garbage; the chunk of 21 and 22 is not.
	if chunks, rules, index := count(); chunks != 2 || rules != 1 || index != 2 {
		t.Errorf("after a compaction %d chunks, %d rules, %d index keys", chunks, rules, index)
	}
	add(t, db, source, at(24, 25)...)
	if got := samplesOf(t, db, source, all); !same(got, at(21, 22, 23, 24, 25)) {
		t.Errorf("%v", got)
	}
}

// TestGarbageIsNotSeenAgain: samples that are older than the retention stay away when the limit becomes an earlier one,
// whether a compaction has dropped their chunks before or not.
func TestGarbageIsNotSeenAgain(t *testing.T) {
	alter := func(retention uint64) func(s *timeseries.Series) error {
		return func(s *timeseries.Series) error { return s.Alter(&timeseries.Change{Retention: &retention}) }
	}
	// Samples before 13 are garbage, because the newest chunk begins at 23. The chunk of 5 and 21 is not garbage.
	samples := at(1, 2, 3, 4, 5, 21, 23, 24)
	for _, tt := range []struct {
		name   string
		do     func(s *timeseries.Series) error
		want   []uint64
		chunks uint64
	}{
		{"a longer retention", alter(100), []uint64{5, 21, 23, 24}, 2},
		{"no retention", alter(0), []uint64{5, 21, 23, 24}, 2},
		{"a shorter retention", alter(1), []uint64{23, 24}, 4},
		{"the newest samples are deleted", func(s *timeseries.Series) error {
			_, err := s.Delete(23, 30, held)
			return err
		}, []uint64{21}, 1},
	} {
		for _, compacted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,compacted=%t", tt.name, compacted), func(t *testing.T) {
				db := enginetest.Open(t)
				create(t, db, source, timeseries.Options{ChunkSize: 2, Retention: 10})
				add(t, db, source, samples...)
				if compacted {
					require.NoError(t, db.CompactNamespace(""))
				}
				update(t, db, func(tx *engine.Tx) error {
					s, err := timeseries.Open(tx, source)
					if err != nil {
						return err
					}
					return tt.do(s)
				})
				if got := samplesOf(t, db, source, all); !same(got, at(tt.want...)) {
					t.Errorf("%v", got)
				}
				require.NoError(t, db.CompactNamespace(""))
				if got := samplesOf(t, db, source, all); !same(got, at(tt.want...)) {
					t.Errorf("%v after a compaction", got)
				}
				if !compacted { // compactions do not change the number of chunks
					enginetest.View(t, db, nil, func(tx *engine.Tx) error {
						s, err := timeseries.Peek(tx, source)
						if err == nil && s.Chunks() != tt.chunks {
							t.Errorf("%d chunks, want %d", s.Chunks(), tt.chunks)
						}
						return err
					})
				}
			})
		}
	}
}

// TestDeleteCountsWhatIsSeen: samples that the retention hides are deleted too, but not counted, whether a compaction
// has dropped them before or not.
func TestDeleteCountsWhatIsSeen(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		db := enginetest.Open(t)
		create(t, db, source, timeseries.Options{ChunkSize: 2, Retention: 10})
		add(t, db, source, at(1, 2, 3, 4, 5, 21, 23, 24)...)
		if compacted {
			require.NoError(t, db.CompactNamespace(""))
		}
		with(t, db, source, func(s *timeseries.Series) error {
			for _, want := range []uint64{1, 0} { // the sample at 21
				if n, err := s.Delete(0, 22, held); n != want || err != nil {
					t.Errorf("compacted %t: %d were deleted, want %d, %v", compacted, n, want, err)
				}
			}
			return s.Alter(&timeseries.Change{Retention: new(uint64)})
		})
		if got := samplesOf(t, db, source, all); !same(got, at(23, 24)) {
			t.Errorf("compacted %t: %v", compacted, got)
		}
	}
}

func TestErrors(t *testing.T) {
	db := enginetest.Open(t)
	create(t, db, source, timeseries.Options{ChunkSize: 2})
	update(t, db, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("other"), cf.TypeString)
		tx.SaveString(&rec, []byte("v"))
		return nil
	})
	update(t, db, func(tx *engine.Tx) error {
		if _, err := timeseries.Create(tx, source, &timeseries.Options{}); err != timeseries.ErrExists {
			t.Errorf("creating an existing one: %v", err)
		}
		if _, err := timeseries.Create(tx, []byte("other"), &timeseries.Options{}); err != engine.ErrWrongType {
			t.Errorf("creating over a string: %v", err)
		}
		if _, err := timeseries.Open(tx, []byte("other")); err != engine.ErrWrongType {
			t.Errorf("a string: %v", err)
		}
		if _, err := timeseries.Peek(tx, target(1)); err != timeseries.ErrNotFound {
			t.Errorf("a missing key: %v", err)
		}
		rec, err := tx.Load(source, cf.TypeTimeSeries)
		if err != nil {
			return err
		}
		tx.Put(cf.Default, tx.Subkey(&rec, cf.AppendSeriesChunkSub(nil, 1)), []byte{0, 0, 0, 1, 0, 0, 0, 0})
		s, err := timeseries.Open(tx, source)
		if err != nil {
			return err
		}
		if _, err := s.Add(at(2), timeseries.Last, held); !errors.Is(err, cf.ErrCorrupt) {
			t.Errorf("adding to a compressed chunk: %v", err)
		}
		if err := s.Range(&timeseries.Range{To: 5}, func(cf.Sample) bool { return true }); !errors.Is(err, cf.ErrCorrupt) {
			t.Errorf("reading a compressed chunk: %v", err)
		}
		return nil
	})
}
