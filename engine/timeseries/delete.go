package timeseries

import (
	"bytes"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Delete deletes the samples whose timestamps are in a range, both ends included, and returns the number of those that
// were seen: how many older ones the retention hides depends on compactions. The aggregates in other time series, whose
// locks it takes, follow.
func (s *Series) Delete(from, to uint64, lock Locker) (seen uint64, err error) {
	n, err := s.newest()
	n.it.Close()
	if err != nil || !n.exists || from > to {
		return 0, err
	}
	rules, err := s.follow(n.rules, lock)
	if err != nil {
		return 0, err
	}
	newest, _, err := s.Newest()
	if err != nil {
		return 0, err
	}
	hidden := uint64(0) // samples before that are
	if keep := s.Meta.Retention; keep > 0 && keep < newest.Timestamp {
		hidden = newest.Timestamp - keep
		for i := range rules {
			if g := rules[i].aggregation(); g.BeginOf(from) < hidden {
				return 0, ErrCompacted
			}
		}
	}
	deleted, seen, err := s.remove(from, to, hidden)
	if err != nil || deleted == 0 {
		return 0, err
	}
	for i := range rules {
		if err := s.retract(&rules[i], from, to); err != nil {
			return 0, err
		}
	}
	return seen, nil
}

// remove deletes samples of this time series only. seen is the number of those that are not older than hidden.
func (s *Series) remove(from, to, hidden uint64) (deleted, seen uint64, err error) {
	prefix := s.tx.SubkeyPrefix(&s.rec)
	// The last chunk that begins before the range is the last one that is read.
	it := s.tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix, Lower: s.begin(cf.SeriesChunk), Upper: s.after(to),
		Reverse: true})
	defer it.Close()
	chunks := s.rec.Size
	for more := true; more && it.Next(); {
		first, samples, err := s.chunk(it)
		if err != nil {
			return 0, 0, err
		}
		more = first > from
		at, end := search(samples, from), count(samples)
		if to < math.MaxUint64 {
			end = search(samples, to+1)
		}
		if at == end {
			continue
		}
		if deleted == 0 {
			s.tx.LogData(cf.LogSeries)
		}
		deleted += uint64(end - at)
		seen += uint64(end - min(max(search(samples, hidden), at), end))
		rest := slices.Concat(samples[:at*cf.SampleLen], samples[end*cf.SampleLen:])
		if len(rest) == 0 {
			chunks = max(chunks, 1) - 1
			s.deleteChunk(first)
			continue
		}
		begin := cf.SampleAt(rest, 0).Timestamp
		if begin != first {
			s.deleteChunk(first)
		}
		copy(s.room(begin, count(rest)), rest)
	}
	if err := it.Err(); err != nil {
		return 0, 0, err
	}
	newestGone := deleted > 0 && to >= s.Meta.LastTimestamp
	if chunks == s.rec.Size && !newestGone {
		return deleted, seen, nil
	}
	s.rec.Size = chunks
	if newestGone {
		if err := s.deleteGarbage(); err != nil {
			return 0, 0, err
		}
		newest, _, err := s.Newest()
		if err != nil {
			return 0, 0, err
		}
		s.Meta.LastTimestamp = min(s.Meta.LastTimestamp, newest.Timestamp)
	}
	s.save()
	return deleted, seen, nil
}

// deleteGarbage deletes the chunks that are garbage by the retention. A command that makes the limit an earlier one
// calls it first. Otherwise such chunks would be seen again where no compaction has dropped them: in a replica and not
// in its master, or the other way round. For the same reason the range is deleted even if no chunk is found in it here.
func (s *Series) deleteGarbage() error {
	oldest := s.Meta.Oldest()
	if oldest == 0 {
		return nil
	}
	begin, end := s.begin(cf.SeriesChunk), s.bound(oldest)
	it := s.tx.Iter(cf.Default, engine.IterOptions{Prefix: s.tx.SubkeyPrefix(&s.rec), Lower: begin, Upper: end,
		Reverse: true})
	defer it.Close()
	chunks := uint64(0)
	for it.Next() {
		first, samples, err := s.chunk(it)
		if err != nil {
			return err
		}
		if lastOf(samples).Timestamp >= oldest { // only the last chunk may have newer samples
			end = s.bound(first)
			continue
		}
		chunks++
	}
	if err := it.Err(); err != nil {
		return err
	}
	s.tx.DeleteRange(cf.Default, begin, end)
	s.rec.Size -= min(chunks, s.rec.Size)
	return nil
}

// retract brings a rule and its target up to date after samples were deleted.
func (s *Series) retract(r *Rule, from, to uint64) error {
	g := r.aggregation()
	old := r.SeriesRuleValue
	begin, end := g.BeginOf(from), g.BeginOf(to)
	first := begin // of the buckets that are deleted in the target
	if end >= r.Latest {
		any, err := s.restart(r)
		if err != nil {
			return err
		}
		if any { // the bucket that is the latest one now is open again
			first = min(first, r.Latest)
		}
	}
	if _, _, err := r.to.remove(first, end, 0); err != nil {
		return err
	}
	// Buckets inside of the range are empty, the first and the last one may not be.
	var out []cf.Sample
	for i, b := range []uint64{begin, end} {
		if b >= r.Latest || i > 0 && b == begin {
			continue
		}
		sample, ok, err := s.aggregate(&g, b)
		if err != nil {
			return err
		}
		if ok {
			out = append(out, sample)
		}
	}
	if err := r.to.replace(out); err != nil {
		return err
	}
	if !bytes.Equal(old.Append(nil), r.Append(nil)) {
		s.putRule(r)
	}
	return nil
}
