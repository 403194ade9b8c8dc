package timeseries

import (
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// BucketTime says which time of a bucket is the timestamp of its aggregate.
type BucketTime byte

// The times.
const (
	BucketBegin BucketTime = iota
	BucketEnd
	BucketMiddle
)

// Range selects samples, and says how they are aggregated.
type Range struct {
	From, To uint64 // timestamps, both included
	Reverse  bool   // from the newest to the oldest
	Count    uint64 // max number of samples or aggregates; 0 = all
	// Latest includes, in a time series that is aggregated from another one, the aggregate of the latest bucket so far.
	Latest bool

	Timestamps []uint64    // if not nil, only samples with these, which must be ordered
	Values     *[2]float64 // if not nil, only samples with a value from the first to the second

	Aggregation
	BucketTime BucketTime
	Empty      bool // buckets without samples too, if there are samples before and behind
}

// maxEmpty bounds the number of buckets without samples in a reply: a request of some bytes must not make a reply
// without end.
const maxEmpty = 1 << 20

// ErrEmpty is the error when there are more buckets without samples.
var ErrEmpty = engine.NewError("ERR", "too many empty buckets")

// Range calls f with samples or aggregates until f returns false. It releases the locks of a transaction that only
// reads as soon as it can.
func (s *Series) Range(r *Range, f func(cf.Sample) bool) error {
	if r.Function == cf.AggNone {
		left := r.Count
		return s.selected(r, r.Reverse, func(sample cf.Sample) bool {
			left--
			return f(sample) && left != 0
		})
	}
	if r.Reverse { // aggregates are made in the order of time, so that they do not depend on the order of the reply
		var all []cf.Sample
		err := s.aggregated(r, 0, func(sample cf.Sample) bool {
			all = append(all, sample)
			return true
		})
		if err != nil {
			return err
		}
		slices.Reverse(all)
		if r.Count > 0 {
			all = all[:min(uint64(len(all)), r.Count)]
		}
		for _, sample := range all {
			if !f(sample) {
				break
			}
		}
		return nil
	}
	return s.aggregated(r, r.Count, f)
}

// selected calls f with the samples that pass the filters.
func (s *Series) selected(r *Range, reverse bool, f func(cf.Sample) bool) error {
	from, to := r.From, r.To
	if r.Timestamps != nil {
		if len(r.Timestamps) == 0 {
			return nil
		}
		from, to = max(from, r.Timestamps[0]), min(to, r.Timestamps[len(r.Timestamps)-1])
	}
	filter := func(sample cf.Sample) bool {
		if r.Timestamps != nil {
			if _, ok := slices.BinarySearch(r.Timestamps, sample.Timestamp); !ok {
				return true
			}
		}
		if v := r.Values; v != nil && !(sample.Value >= v[0] && sample.Value <= v[1]) {
			return true
		}
		return f(sample)
	}
	var latest []cf.Sample
	if r.Latest {
		sample, ok, err := s.Latest()
		if err != nil {
			return err
		}
		if ok && sample.Timestamp >= from && sample.Timestamp <= to {
			latest = append(latest, sample)
		}
	}
	if s.Meta.Retention > 0 {
		newest, ok, err := s.Newest()
		if err != nil {
			return err
		}
		if ok && newest.Timestamp > s.Meta.Retention {
			from = max(from, newest.Timestamp-s.Meta.Retention)
		}
	}
	more := true
	last := func() {
		if more && len(latest) > 0 {
			more = filter(latest[0])
		}
	}
	if reverse {
		last()
	}
	if !more {
		return nil
	}
	err := s.scan(from, to, reverse, func(sample cf.Sample) bool {
		more = filter(sample)
		return more
	})
	if !reverse {
		last()
	}
	return err
}

// scan calls f with the samples whose timestamps are in a range, both ends included, until f returns false. It reads
// one chunk after the other.
func (s *Series) scan(from, to uint64, reverse bool, f func(cf.Sample) bool) error {
	if from > to {
		return nil
	}
	prefix := s.tx.SubkeyPrefix(&s.rec)
	o := engine.IterOptions{Prefix: prefix, Lower: s.begin(cf.SeriesChunk), Upper: s.after(to), Reverse: reverse}
	if from > 0 && !reverse { // the range begins inside of the last chunk that begins before it
		it := s.tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix, Lower: o.Lower, Upper: s.after(from), Reverse: true,
			KeysOnly: true, Limit: 1})
		var first uint64
		ok := it.Next()
		err := it.Err()
		if ok {
			first, err = cf.ParseSeriesChunkSub(it.Key())
		}
		it.Close()
		if err != nil {
			return s.corrupt(err)
		}
		if ok {
			o.Lower = s.bound(first)
		}
	}
	it := s.tx.Iter(cf.Default, o)
	defer it.Close()
	s.tx.ReadsDone()
	for it.Next() {
		_, samples, err := s.chunk(it)
		if err != nil {
			return err
		}
		at, end := search(samples, from), count(samples)
		if to < math.MaxUint64 {
			end = search(samples, to+1)
		}
		if reverse {
			for i := end - 1; i >= at; i-- {
				if !f(cf.SampleAt(samples, i)) {
					return nil
				}
			}
			if at > 0 {
				return nil
			}
			continue
		}
		for i := at; i < end; i++ {
			if !f(cf.SampleAt(samples, i)) {
				return nil
			}
		}
	}
	return it.Err()
}

// aggregated calls f with the aggregates of buckets, at most limit (0 = all), in the order of time.
func (s *Series) aggregated(r *Range, limit uint64, f func(cf.Sample) bool) error {
	var acc Accumulator
	var begin uint64 // of the bucket of acc
	var made, empty uint64
	full, tooMany := false, false
	emit := func(begin uint64, v float64) {
		ts, room := begin, math.MaxInt64-min(begin, math.MaxInt64) // the reply has signed numbers
		switch r.BucketTime {
		case BucketEnd:
			ts += min(r.Bucket, room)
		case BucketMiddle:
			ts += min(r.Bucket/2, room)
		}
		made++
		full = !f(cf.Sample{Timestamp: ts, Value: v}) || made == limit
	}
	err := s.selected(r, false, func(sample cf.Sample) bool {
		if acc.n > 0 && sample.Timestamp >= r.EndOf(begin) {
			emit(begin, acc.Value(r.Function))
			next := r.BeginOf(sample.Timestamp)
			for gap := r.EndOf(begin); r.Empty && gap < next && !full; gap = r.EndOf(gap) {
				if empty++; empty > maxEmpty {
					full, tooMany = true, true
					break
				}
				v := nan
				switch r.Function {
				case cf.AggSum, cf.AggCount:
					v = 0
				case cf.AggLast:
					v = acc.last.Value
				}
				emit(gap, v)
			}
			acc = Accumulator{}
		}
		if full {
			return false
		}
		if acc.n == 0 {
			begin = r.BeginOf(sample.Timestamp)
		}
		acc.Add(sample)
		return true
	})
	switch {
	case err != nil:
		return err
	case tooMany:
		return ErrEmpty
	case acc.n > 0 && !full:
		emit(begin, acc.Value(r.Function))
	}
	return nil
}
