// Package timeseries is the time series type on an [engine.Tx]: samples ordered by timestamp, labels by which several
// time series are found, and rules by which others are aggregated from one. These are records of the default family:
//
//	prefix · 0 · u64 first timestamp -> a chunk of samples
//	prefix · 1 · label               -> value of the label
//	prefix · 2 · user key            -> a rule, see [cf.SeriesRuleValue]
//
// Each label has a key in the family [cf.Index] besides. The metadata record is described at [cf.SeriesMeta]. The
// layout is that of Apache Kvrocks since 2.14.
//
// The newest chunk is rewritten with each sample that is appended, until it has as many samples as the chunk size; then
// a new chunk begins. Older chunks, which samples with older timestamps change, are split when they have more than
// twice as many.
//
// Functions that write need the key's lock for writing, the others for reading. A key of another type gives
// [engine.ErrWrongType].
package timeseries

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

const (
	// DefaultChunkSize is the chunk size when none is given.
	DefaultChunkSize = 1024
	// MaxChunkSize limits the chunk size: each sample that is appended writes a chunk.
	MaxChunkSize = 1 << 20
)

// Policy says what becomes of a sample when one with its timestamp exists.
type Policy byte

// The policies.
const (
	Block Policy = iota // the sample is an error
	First               // the older sample stays
	Last                // the newer sample replaces the older one
	Min
	Max
	Sum
)

// Errors that become replies.
var (
	ErrExists   = engine.NewError("ERR", "key already exists")
	ErrNotFound = engine.NewError("ERR", "key does not exist")
)

// Label is a label with its value.
type Label struct{ Name, Value []byte }

// Options are those of a new time series.
type Options struct {
	Retention uint64 // see [cf.SeriesMeta]
	ChunkSize uint64
	ChunkType byte
	Policy    Policy
	Labels    []Label // of labels with the same name the last one counts
}

// Series is a time series in a transaction.
type Series struct {
	tx   *engine.Tx
	rec  engine.Record
	Meta cf.SeriesMeta // read-only
	// Fed, unless nil, is called with the user key of each time series to which Add has written aggregates of this one.
	Fed func(target []byte)
}

// Chunks returns the number of chunks.
func (s *Series) Chunks() uint64 { return s.rec.Size }

// Create creates an empty time series. An existing one gives [ErrExists].
func Create(tx *engine.Tx, key []byte, o *Options) (*Series, error) {
	rec, err := tx.Load(key, cf.TypeTimeSeries)
	if err == nil && rec.Exists {
		err = ErrExists
	}
	if err == nil && len(o.Labels) > 0 {
		err = tx.DB().NeedIndex()
	}
	if err != nil {
		return nil, err
	}
	s := &Series{tx: tx, rec: rec, Meta: cf.SeriesMeta{Retention: o.Retention, ChunkSize: o.ChunkSize,
		ChunkType: o.ChunkType, Policy: byte(o.Policy)}}
	tx.LogData(cf.LogSeriesCreate)
	s.save()
	s.putLabels(o.Labels)
	return s, nil
}

// Open returns a time series. A missing one gives [ErrNotFound].
func Open(tx *engine.Tx, key []byte) (*Series, error) {
	rec, err := tx.Load(key, cf.TypeTimeSeries)
	if err != nil {
		return nil, err
	}
	return open(tx, rec)
}

// OpenOrCreate returns a time series, which is created if it is missing.
func OpenOrCreate(tx *engine.Tx, key []byte, o *Options) (*Series, error) {
	s, err := Open(tx, key)
	if err == ErrNotFound {
		return Create(tx, key, o)
	}
	return s, err
}

// Peek is Open for reading without the key's lock: what it and later reads find may be of different times.
func Peek(tx *engine.Tx, key []byte) (*Series, error) {
	rec, err := tx.Peek(key, cf.TypeTimeSeries)
	if err != nil {
		return nil, err
	}
	return open(tx, rec)
}

func open(tx *engine.Tx, rec engine.Record) (*Series, error) {
	if !rec.Exists {
		return nil, ErrNotFound
	}
	s := &Series{tx: tx, rec: rec}
	var err error
	if s.Meta, err = cf.DecodeSeriesMeta(rec.Tail); err != nil {
		return nil, s.corrupt(err)
	}
	// A Save of the record invalidates its tail.
	s.Meta.Source = bytes.Clone(s.Meta.Source)
	return s, nil
}

// Key returns the user key.
func (s *Series) Key() []byte { return s.tx.UserKey(&s.rec) }

// corrupt adds the key to an error.
func (s *Series) corrupt(err error) error { return fmt.Errorf("key %q: %w", s.Key(), err) }

func (s *Series) save() { s.tx.Save(&s.rec, s.Meta.Append(nil)) }

// sub returns the key of a label or a rule.
func (s *Series) sub(part cf.SeriesPart, name []byte) []byte {
	return s.tx.Subkey(&s.rec, append([]byte{byte(part)}, name...))
}

// bound returns the key of the first chunk whose first timestamp is at least ts.
func (s *Series) bound(ts uint64) []byte {
	return cf.AppendSeriesChunkSub(bytes.Clone(s.tx.SubkeyPrefix(&s.rec)), ts)
}

// end returns the end of a part of the time series.
func (s *Series) end(part cf.SeriesPart) []byte {
	return append(bytes.Clone(s.tx.SubkeyPrefix(&s.rec)), byte(part)+1)
}

// begin returns the begin of a part of the time series.
func (s *Series) begin(part cf.SeriesPart) []byte {
	return append(bytes.Clone(s.tx.SubkeyPrefix(&s.rec)), byte(part))
}

// Change says what Alter changes; nil = nothing.
type Change struct {
	Retention, ChunkSize *uint64
	Policy               *Policy
	Labels               *[]Label // all labels
}

// Alter changes the options of a time series. Chunks stay as they are, except those that are garbage.
func (s *Series) Alter(c *Change) error {
	s.tx.LogData(cf.LogSeries)
	if c.Retention != nil {
		if *c.Retention == 0 || *c.Retention > s.Meta.Retention {
			if err := s.deleteGarbage(); err != nil {
				return err
			}
		}
		s.Meta.Retention = *c.Retention
	}
	if c.ChunkSize != nil {
		s.Meta.ChunkSize = *c.ChunkSize
	}
	if c.Policy != nil {
		s.Meta.Policy = byte(*c.Policy)
	}
	if c.Labels != nil {
		old, err := s.Labels()
		if err == nil && len(*c.Labels) > 0 {
			err = s.tx.DB().NeedIndex()
		}
		if err != nil {
			return err
		}
		for _, l := range old {
			s.tx.Delete(cf.Default, s.sub(cf.SeriesLabel, l.Name))
			s.tx.Delete(cf.Index, s.indexKey(&l))
		}
		s.putLabels(*c.Labels)
	}
	s.save()
	return nil
}

func (s *Series) putLabels(labels []Label) {
	for i := range labels {
		l := &labels[i]
		if slices.ContainsFunc(labels[i+1:], func(o Label) bool { return bytes.Equal(o.Name, l.Name) }) {
			continue
		}
		s.tx.Put(cf.Default, s.sub(cf.SeriesLabel, l.Name), l.Value)
		s.tx.Put(cf.Index, s.indexKey(l), nil)
	}
}

func (s *Series) indexKey(l *Label) []byte {
	return append(cf.AppendIndexPrefix(nil, s.tx.Namespace(), l.Name, l.Value), s.Key()...)
}

// Labels returns the labels, ordered by name.
func (s *Series) Labels() (labels []Label, err error) {
	it := s.tx.Iter(cf.Default, engine.IterOptions{Prefix: s.tx.SubkeyPrefix(&s.rec), Lower: s.begin(cf.SeriesLabel),
		Upper: s.end(cf.SeriesLabel), Limit: 16})
	defer it.Close()
	for it.Next() {
		labels = append(labels, Label{bytes.Clone(it.Key()[1:]), bytes.Clone(it.Value())})
	}
	return labels, it.Err()
}

// newest is the newest chunk and what lies behind it.
type newest struct {
	it      *engine.Iter
	exists  bool
	first   uint64 // the timestamp in the key of the chunk
	samples []byte
	rules   []Rule
}

// newest reads the newest chunk, and the rules in passing, by one iterator from the end. Unless it fails, the caller
// closes the iterator; the samples are valid until then.
func (s *Series) newest() (n newest, err error) {
	it := s.tx.Iter(cf.Default, engine.IterOptions{Prefix: s.tx.SubkeyPrefix(&s.rec), Reverse: true, Limit: 1})
	n.it = it
	defer func() {
		if err != nil {
			it.Close()
		}
	}()
	for it.Next() {
		part, rest, err := cf.SplitSeriesSub(it.Key())
		if err != nil {
			return n, s.corrupt(err)
		}
		switch part {
		case cf.SeriesRule:
			r := Rule{Target: bytes.Clone(rest)}
			if r.SeriesRuleValue, err = cf.DecodeSeriesRule(it.Value()); err != nil {
				return n, s.corrupt(err)
			}
			n.rules = append(n.rules, r)
		case cf.SeriesChunk:
			n.exists = true
			n.first, n.samples, err = s.chunk(it)
			slices.Reverse(n.rules)
			return n, err
		}
	}
	slices.Reverse(n.rules)
	return n, it.Err()
}

// chunk decodes the chunk at an iterator.
func (s *Series) chunk(it *engine.Iter) (first uint64, samples []byte, err error) {
	if first, err = cf.ParseSeriesChunkSub(it.Key()); err == nil {
		samples, err = cf.ParseSeriesChunk(it.Value())
	}
	if err == nil && len(samples) == 0 {
		err = fmt.Errorf("%w: time series chunk without samples", cf.ErrCorrupt)
	}
	if err != nil {
		err = s.corrupt(err)
	}
	return first, samples, err
}

// count returns the number of encoded samples.
func count(samples []byte) int { return len(samples) / cf.SampleLen }

// lastOf returns the last of encoded samples.
func lastOf(samples []byte) cf.Sample { return cf.SampleAt(samples, count(samples)-1) }

// search returns the index of the first sample whose timestamp is at least ts.
func search(samples []byte, ts uint64) int {
	from, to := 0, count(samples)
	for from < to {
		if mid := (from + to) / 2; cf.SampleAt(samples, mid).Timestamp < ts {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// Newest returns the newest sample; ok is false when there is none.
func (s *Series) Newest() (sample cf.Sample, ok bool, err error) {
	n, err := s.newest()
	if err != nil {
		return sample, false, err
	}
	defer n.it.Close()
	if !n.exists {
		return sample, false, nil
	}
	return lastOf(n.samples), true, nil
}
