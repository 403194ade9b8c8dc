package timeseries

import (
	"bytes"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Rule is a rule by which the time series Target is aggregated from another one, its source. Target has the aggregates
// of all buckets before the latest one. The rule counts only while both know each other: Target exists and its metadata
// names the source.
//
// The samples of the latest bucket are those that the rule remembers, which are in older chunks of the source, and
// those in the newest chunk. So an appended sample changes nothing here until it begins a bucket or a chunk.
type Rule struct {
	Target []byte // user key
	cf.SeriesRuleValue
	to *Series
}

// Errors of CreateRule and DeleteRule.
var (
	ErrNoRule       = engine.NewError("ERR", "compaction rule does not exist")
	ErrSame         = engine.NewError("ERR", "the source key and destination key should be different")
	ErrSourceRuled  = engine.NewError("ERR", "the source key already has a source rule")
	ErrTargetRuled  = engine.NewError("ERR", "the destination key already has a src rule")
	ErrTargetSource = engine.NewError("ERR", "the destination key already has a dst rule")
	// ErrCompacted is the error of Delete when aggregates could not be computed again.
	ErrCompacted = engine.NewError("ERR", "When a series has compactions, deleting samples or compaction buckets beyond "+
		"the series retention period is not possible")
)

// follow returns the rules that count, with their targets opened and locked.
func (s *Series) follow(rules []Rule, lock Locker) (live []Rule, err error) {
	for _, r := range rules {
		if err := lock(r.Target); err != nil {
			return nil, err
		}
		switch r.to, err = Open(s.tx, r.Target); {
		case err == ErrNotFound || err == engine.ErrWrongType:
		case err != nil:
			return nil, err
		case bytes.Equal(r.to.Meta.Source, s.Key()):
			live = append(live, r)
		}
	}
	return live, nil
}

// Rules returns the rules that count. Their targets need no locks.
func (s *Series) Rules() (live []Rule, err error) {
	n, err := s.newest()
	n.it.Close()
	if err != nil {
		return nil, err
	}
	for _, r := range n.rules {
		switch to, err := Peek(s.tx, r.Target); {
		case err == ErrNotFound || err == engine.ErrWrongType:
		case err != nil:
			return nil, err
		case bytes.Equal(to.Meta.Source, s.Key()):
			live = append(live, r)
		}
	}
	return live, nil
}

// Source returns the time series from which this one is aggregated, read without its lock, and the rule; nil if there
// is none.
func (s *Series) Source() (*Series, *Rule, error) {
	if len(s.Meta.Source) == 0 {
		return nil, nil, nil
	}
	source, err := Peek(s.tx, s.Meta.Source)
	if err == ErrNotFound || err == engine.ErrWrongType {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	value, found, err := s.tx.Get(cf.Default, source.sub(cf.SeriesRule, s.Key()))
	if err != nil || !found {
		return nil, nil, err
	}
	r := &Rule{Target: s.Key(), to: s}
	if r.SeriesRuleValue, err = cf.DecodeSeriesRule(value); err != nil {
		return nil, nil, source.corrupt(err)
	}
	return source, r, nil
}

// CreateRule makes target a time series that is aggregated from source, from the present bucket on. Both must be locked
// for writing.
func CreateRule(tx *engine.Tx, source, target []byte, a Aggregation) error {
	if bytes.Equal(source, target) {
		return ErrSame
	}
	s, err := Open(tx, source)
	if err != nil {
		return err
	}
	to, err := Open(tx, target)
	if err != nil {
		return err
	}
	if other, _, err := s.Source(); err != nil || other != nil {
		return orElse(err, ErrSourceRuled)
	}
	if other, _, err := to.Source(); err != nil || other != nil && !bytes.Equal(to.Meta.Source, source) {
		return orElse(err, ErrTargetRuled)
	}
	if rules, err := to.Rules(); err != nil || len(rules) > 0 {
		return orElse(err, ErrTargetSource)
	}
	r := Rule{Target: target, SeriesRuleValue: cf.SeriesRuleValue{Aggregator: a.Function, Bucket: a.Bucket,
		Alignment: a.Alignment}}
	if _, err := s.restart(&r); err != nil {
		return err
	}
	tx.LogData(cf.LogSeriesRule)
	s.putRule(&r)
	if !bytes.Equal(to.Meta.Source, source) {
		to.Meta.Source = source
		to.save()
	}
	return nil
}

// DeleteRule makes target a time series that is aggregated from no other one. Its samples stay. Both must be locked for
// writing.
func DeleteRule(tx *engine.Tx, source, target []byte) error {
	s, err := Open(tx, source)
	if err != nil {
		return err
	}
	to, err := Open(tx, target)
	if err != nil {
		return err
	}
	if other, _, err := to.Source(); err != nil || other == nil || !bytes.Equal(to.Meta.Source, source) {
		return orElse(err, ErrNoRule)
	}
	tx.LogData(cf.LogSeriesRule)
	tx.Delete(cf.Default, s.sub(cf.SeriesRule, target))
	to.Meta.Source = nil
	to.save()
	return nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (s *Series) putRule(r *Rule) {
	s.tx.Put(cf.Default, s.sub(cf.SeriesRule, r.Target), r.Append(nil))
}

// restart makes the bucket of the newest sample the latest one of a rule. any is false when there is no sample.
func (s *Series) restart(r *Rule) (any bool, err error) {
	n, err := s.newest()
	if err != nil {
		return false, err
	}
	defer n.it.Close()
	var a Accumulator
	r.Latest = 0
	if n.exists {
		g := r.aggregation()
		r.Latest = g.BeginOf(lastOf(n.samples).Timestamp)
		if a, err = s.sealed(r.Latest, n.first); err != nil {
			return false, err
		}
	}
	r.remember(&a)
	return n.exists, nil
}

// sealed accumulates the samples from a time to the newest chunk, which begins at end.
func (s *Series) sealed(from, end uint64) (a Accumulator, err error) {
	if from >= end {
		return a, nil
	}
	err = s.scan(from, end-1, false, func(sample cf.Sample) bool {
		a.Add(sample)
		return true
	})
	return a, err
}

// aggregate returns the aggregate of the bucket that begins at a time; ok is false if the bucket is empty.
func (s *Series) aggregate(g *Aggregation, begin uint64) (sample cf.Sample, ok bool, err error) {
	a, err := s.sealed(begin, g.EndOf(begin))
	if err != nil || a.n == 0 {
		return sample, false, err
	}
	return cf.Sample{Timestamp: begin, Value: a.Value(g.Function)}, true, nil
}

// feed carries added samples to the targets of the rules. pieces are the samples of the chunk that was the newest one,
// and of the chunks behind it.
func (s *Series) feed(rules []Rule, pieces [][]byte, in []incoming, began bool) error {
	for i := range rules {
		out, err := s.apply(&rules[i], pieces, in, began)
		if err != nil {
			return err
		}
		if err := rules[i].to.replace(out); err != nil {
			return err
		}
		if len(out) > 0 && s.Fed != nil {
			s.Fed(rules[i].Target)
		}
	}
	return nil
}

// replace writes samples, whatever there was at their timestamps.
func (s *Series) replace(samples []cf.Sample) error {
	if len(samples) == 0 {
		return nil
	}
	n, err := s.newest()
	if err != nil {
		return err
	}
	defer n.it.Close()
	_, err = s.upsert(&n, prepare(samples, Last), Last)
	return err
}

// apply brings a rule up to date with added samples, and returns the aggregates of the buckets that have changed or
// ended.
func (s *Series) apply(r *Rule, pieces [][]byte, in []incoming, began bool) (out []cf.Sample, err error) {
	g := r.aggregation()
	old := r.SeriesRuleValue
	first := cf.SampleAt(pieces[0], 0).Timestamp
	a := r.accumulator()
	if r.Latest == 0 && (began || a.n == 0 || r.Aggregator == cf.AggSum && a.sum == 0) {
		// The source was empty, or a Kvrocks has made the rule when the source was not.
		if r.Latest = g.BeginOf(first); r.Latest > 0 {
			if a, err = s.sealed(r.Latest, first); err != nil {
				return nil, err
			}
		}
	}
	// Samples in older chunks and buckets.
	latest, again := r.Latest, false
	bucket, some := uint64(0), false
	for i := range in {
		ts := in[i].Timestamp
		if in[i].result != Inserted && in[i].result != Updated || ts >= first && ts >= latest {
			continue
		}
		b := g.BeginOf(ts)
		switch {
		case b == latest:
			again = true
		case b < latest && !(some && b == bucket):
			sample, ok, err := s.aggregate(&g, b)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, sample)
			}
			bucket, some = b, true
		}
	}
	if again {
		if a, err = s.sealed(latest, first); err != nil {
			return nil, err
		}
	}
	// Buckets that have ended. The rule remembers samples only when their chunk is no longer the newest one.
	for i, samples := range pieces {
		present := uint64(math.MaxUint64) // the bucket that remains open
		if i == len(pieces)-1 {
			if present = g.BeginOf(lastOf(samples).Timestamp); present <= r.Latest {
				break
			}
		}
		end := g.EndOf(r.Latest)
		for j := search(samples, r.Latest); j < count(samples); j++ {
			sample := cf.SampleAt(samples, j)
			if sample.Timestamp >= end {
				if a.n > 0 {
					out = append(out, cf.Sample{Timestamp: r.Latest, Value: a.Value(r.Aggregator)})
				}
				a = Accumulator{}
				r.Latest = g.BeginOf(sample.Timestamp)
				end = g.EndOf(r.Latest)
			}
			if r.Latest >= present {
				break
			}
			a.Add(sample)
		}
	}
	r.remember(&a)
	if !bytes.Equal(old.Append(nil), r.Append(nil)) {
		s.tx.LogData(cf.LogSeriesRuled)
		s.putRule(r)
	}
	return out, nil
}

// Latest returns the aggregate so far of the latest bucket of a time series that is aggregated from another one. ok is
// false for any other time series.
func (s *Series) Latest() (sample cf.Sample, ok bool, err error) {
	source, r, err := s.Source()
	if err != nil || source == nil {
		return sample, false, err
	}
	n, err := source.newest()
	if err != nil {
		return sample, false, err
	}
	defer n.it.Close()
	if !n.exists {
		return sample, false, nil
	}
	a := r.accumulator()
	g := r.aggregation()
	end := g.EndOf(r.Latest)
	for i := search(n.samples, r.Latest); i < count(n.samples); i++ {
		added := cf.SampleAt(n.samples, i)
		if added.Timestamp >= end {
			break
		}
		a.Add(added)
	}
	if a.n == 0 {
		return sample, false, nil
	}
	return cf.Sample{Timestamp: r.Latest, Value: a.Value(r.Aggregator)}, true, nil
}
