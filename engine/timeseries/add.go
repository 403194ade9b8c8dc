package timeseries

import (
	"cmp"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Result says what has become of a sample.
type Result byte

// The results.
const (
	pending  Result = iota
	Inserted        // a new sample
	Updated         // the sample with this timestamp has changed
	Skipped         // the sample with this timestamp stays as it is, or was merged into another one of the same call
	Blocked         // by [Block]
	TooOld          // older than the retention allows
)

// Locker takes the lock of a key for writing.
type Locker func(key []byte) error

// incoming is a sample that is being added.
type incoming struct {
	cf.Sample
	at     int // index in the call
	result Result
}

// Add adds samples in any order, and what follows from them to the time series that are aggregated from this one, whose
// locks it takes. It returns what has become of each sample. Each chunk is written once.
func (s *Series) Add(samples []cf.Sample, policy Policy, lock Locker) ([]Result, error) {
	n, err := s.newest()
	if err != nil {
		return nil, err
	}
	defer n.it.Close()
	return s.add(&n, samples, policy, lock)
}

// AddTo adds to the newest sample a value, and writes the sum at a timestamp. If that is older, ok is false.
func (s *Series) AddTo(sample cf.Sample, lock Locker) (ok bool, err error) {
	n, err := s.newest()
	if err != nil {
		return false, err
	}
	defer n.it.Close()
	if n.exists {
		last := lastOf(n.samples)
		if sample.Timestamp < last.Timestamp {
			return false, nil
		}
		sample.Value += last.Value
	}
	_, err = s.add(&n, []cf.Sample{sample}, Last, lock)
	return err == nil, err
}

func (s *Series) add(n *newest, samples []cf.Sample, policy Policy, lock Locker) ([]Result, error) {
	rules, err := s.follow(n.rules, lock)
	if err != nil {
		return nil, err
	}
	in := prepare(samples, policy)
	began := !n.exists
	pieces, err := s.upsert(n, in, policy)
	if err == nil && len(pieces) > 0 && len(rules) > 0 {
		err = s.feed(rules, pieces, in, began)
	}
	results := make([]Result, len(in))
	for i := range in {
		results[in[i].at] = in[i].result
	}
	return results, err
}

// prepare orders samples by timestamp, and merges samples with the same timestamp into the first one.
func prepare(samples []cf.Sample, policy Policy) []incoming {
	in := make([]incoming, len(samples))
	for i, sample := range samples {
		in[i] = incoming{Sample: sample, at: i}
	}
	slices.SortStableFunc(in, func(a, b incoming) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	first := 0
	for i := 1; i < len(in); i++ {
		if in[i].Timestamp != in[first].Timestamp {
			first = i
			continue
		}
		if in[i].result = merge(&in[first].Value, in[i].Value, policy); in[i].result != Blocked {
			in[i].result = Skipped
		}
	}
	return in
}

// merge merges the value of a second sample with the same timestamp into that of the first.
func merge(to *float64, v float64, policy Policy) Result {
	old := *to
	switch policy {
	case First:
	case Last:
		*to = v
	case Min:
		*to = min(old, v)
	case Max:
		*to = max(old, v)
	case Sum:
		*to = old + v
	default:
		return Blocked
	}
	if *to == old {
		return Skipped
	}
	return Updated
}

// expire refuses the samples that are older than the retention allows, in the order in which they came.
func (s *Series) expire(in []incoming, last uint64) {
	if s.Meta.Retention == 0 {
		return
	}
	order := make([]int, len(in))
	for i := range in {
		order[in[i].at] = i
	}
	for _, i := range order {
		if ts := in[i].Timestamp; ts < last && last-ts > s.Meta.Retention {
			in[i].result = TooOld
		} else {
			last = max(last, ts)
		}
	}
}

// upsert writes prepared samples to their chunks. It returns the samples of the chunk that was the newest one, and of
// all chunks behind it, as they are now: nil when nothing was written.
func (s *Series) upsert(n *newest, in []incoming, policy Policy) (pieces [][]byte, err error) {
	last := uint64(0)
	if n.exists {
		last = lastOf(n.samples).Timestamp
	}
	s.expire(in, last)
	some := make([]*incoming, 0, len(in))
	for i := range in {
		if in[i].result == pending {
			some = append(some, &in[i])
		}
	}
	if len(some) == 0 {
		return nil, nil
	}
	s.tx.LogData(cf.LogSeries)
	size, lastTS := s.rec.Size, s.Meta.LastTimestamp
	if !n.exists {
		s.rec.Size = 0 // a compaction may have dropped chunks that were too old
	}
	for n.exists && len(some) > 0 && some[0].Timestamp < n.first {
		older, err := s.upsertOlder(n.first, some, policy)
		if err != nil {
			return nil, err
		}
		if older == len(some) {
			break // the newest chunk is the only one
		}
		some = slices.Delete(some, older, firstFrom(some, n.first))
	}
	if !n.exists || len(some) > 0 && some[0].Timestamp > last {
		pieces = s.append(n, some)
	} else {
		pieces = s.rewrite(n.first, n.samples, some, policy, int(s.chunkSize()))
	}
	if len(pieces) > 1 {
		s.Meta.LastTimestamp = lastOf(pieces[len(pieces)-1]).Timestamp
	}
	if s.rec.Size != size || s.Meta.LastTimestamp != lastTS {
		s.save()
	}
	return pieces, nil
}

func (s *Series) chunkSize() uint64 { return min(max(s.Meta.ChunkSize, 1), MaxChunkSize) }

// firstFrom returns the index of the first sample whose timestamp is at least ts.
func firstFrom(some []*incoming, ts uint64) int {
	i, _ := slices.BinarySearchFunc(some, ts, func(p *incoming, ts uint64) int { return cmp.Compare(p.Timestamp, ts) })
	return i
}

// upsertOlder adds the newest of the samples that are older than the newest chunk, which begins at end, to their chunk.
// It returns the index of the first of these samples; len(some) when there is no older chunk.
func (s *Series) upsertOlder(end uint64, some []*incoming, policy Policy) (int, error) {
	to := firstFrom(some, end)
	first, samples, ok, err := s.chunkOf(some[to-1].Timestamp)
	if err != nil || !ok || first == end {
		return len(some), err
	}
	from := firstFrom(some[:to], first)
	if from == to { // older than all chunks: they go to the oldest one
		from = 0
	}
	s.rewrite(first, samples, some[from:to], policy, 0)
	return from, nil
}

// chunkOf returns the samples of the chunk that has or would get a sample: the last chunk that does not begin after it,
// or the first chunk.
func (s *Series) chunkOf(ts uint64) (first uint64, samples []byte, ok bool, err error) {
	prefix := s.tx.SubkeyPrefix(&s.rec)
	for _, o := range []engine.IterOptions{
		{Prefix: prefix, Lower: s.begin(cf.SeriesChunk), Upper: s.after(ts), Reverse: true, Limit: 1},
		{Prefix: prefix, Lower: s.begin(cf.SeriesChunk), Upper: s.end(cf.SeriesChunk), Limit: 1},
	} {
		it := s.tx.Iter(cf.Default, o)
		if it.Next() {
			first, samples, err = s.chunk(it)
			samples = slices.Clone(samples)
			it.Close()
			return first, samples, err == nil, err
		}
		err := it.Err()
		it.Close()
		if err != nil {
			return 0, nil, false, err
		}
	}
	return 0, nil, false, nil
}

// after returns the key behind that of a chunk that begins at a timestamp.
func (s *Series) after(ts uint64) []byte {
	if ts+1 == 0 {
		return s.end(cf.SeriesChunk)
	}
	return s.bound(ts + 1)
}

// append writes samples that are newer than all others: to the newest chunk as long as there is room, then to new ones.
func (s *Series) append(n *newest, some []*incoming) (pieces [][]byte) {
	size := int(s.chunkSize())
	old, first := n.samples, n.first
	if n.exists && count(old) >= size {
		pieces, old = append(pieces, old), nil
	}
	for len(some) > 0 {
		add := some[:min(len(some), size-count(old))]
		some = some[len(add):]
		if old == nil {
			first = add[0].Timestamp
			s.rec.Size++
		}
		room := s.room(first, count(old)+len(add))
		rest := room[copy(room, old):]
		for i, p := range add {
			cf.PutSample(rest[i*cf.SampleLen:], p.Sample)
			p.result = Inserted
		}
		pieces, old = append(pieces, room), nil
	}
	return pieces
}

// room writes a chunk of n samples, which the caller writes into the result.
func (s *Series) room(first uint64, n int) []byte {
	var sub [9]byte
	value := s.tx.PutRoom(cf.Default, s.tx.Subkey(&s.rec, cf.AppendSeriesChunkSub(sub[:0], first)),
		cf.SeriesChunkHead+n*cf.SampleLen)
	cf.PutSeriesChunkHead(value, n)
	return value[cf.SeriesChunkHead:]
}

// rewrite merges samples into a chunk. A chunk that becomes too large is split: into chunks of size samples, or if size
// is 0, as is right for all chunks but the newest, into equal parts when it has more than twice the chunk size.
func (s *Series) rewrite(first uint64, old []byte, some []*incoming, policy Policy, size int) (pieces [][]byte) {
	merged, changed := mergeChunk(old, some, policy)
	if !changed {
		return [][]byte{old}
	}
	if at := cf.SampleAt(merged, 0).Timestamp; at != first {
		s.deleteChunk(first)
	}
	n := count(merged)
	parts, longer := 1, 0 // number of parts, and how many of them have one sample more
	if size == 0 {
		size = n
		if limit := int(s.chunkSize()); n > 2*limit {
			parts = n / limit
			size, longer = n/parts, n%parts
		}
	}
	for i := 0; len(merged) > 0; i++ {
		n := size
		if i < longer {
			n++
		}
		part := merged[:min(n*cf.SampleLen, len(merged))]
		merged = merged[len(part):]
		copy(s.room(cf.SampleAt(part, 0).Timestamp, count(part)), part)
		pieces = append(pieces, part)
	}
	s.rec.Size += uint64(len(pieces) - 1)
	return pieces
}

func (s *Series) deleteChunk(first uint64) {
	var sub [9]byte
	s.tx.Delete(cf.Default, s.tx.Subkey(&s.rec, cf.AppendSeriesChunkSub(sub[:0], first)))
}

// mergeChunk merges samples into the encoded samples of a chunk.
func mergeChunk(old []byte, some []*incoming, policy Policy) (merged []byte, changed bool) {
	merged = make([]byte, 0, len(old)+len(some)*cf.SampleLen)
	for _, p := range some {
		n := search(old, p.Timestamp) * cf.SampleLen
		merged, old = append(merged, old[:n]...), old[n:]
		p.result = Inserted
		if len(old) > 0 {
			if same := cf.SampleAt(old, 0); same.Timestamp == p.Timestamp {
				p.result = merge(&same.Value, p.Value, policy)
				p.Value = same.Value
				old = old[cf.SampleLen:]
			}
		}
		changed = changed || p.result == Inserted || p.result == Updated
		merged = merged[:len(merged)+cf.SampleLen]
		cf.PutSample(merged[len(merged)-cf.SampleLen:], p.Sample)
	}
	return append(merged, old...), changed
}
