package cf

import (
	"encoding/binary"
	"math"
)

// SeriesMeta is the tail of a time series' metadata, as Apache Kvrocks has written it since 2.14:
//
//	u64 retention ms · u64 chunk size · u8 chunk type · u8 duplicate policy · u32 len(source) · source ·
//	u64 last timestamp
//
// The size of the record is the number of chunks. A time series without chunks is a live key.
type SeriesMeta struct {
	Retention uint64 // max age in ms of a sample, from the newest one on; 0 = no limit
	ChunkSize uint64 // max samples of the newest chunk; other chunks have at most twice as many
	ChunkType byte   // SeriesUncompressed or SeriesCompressed: what was asked for. Chunks are never compressed
	Policy    byte   // what becomes of a second sample with the same timestamp
	Source    []byte // the user key of the time series from which this one is aggregated; empty = none
	// LastTimestamp is that of the newest sample when the newest chunk was begun. A chunk is garbage when its last
	// sample is older than LastTimestamp by more than Retention.
	LastTimestamp uint64
}

// Oldest returns the timestamp before which the retention makes samples garbage; 0 = none are.
func (m *SeriesMeta) Oldest() uint64 {
	if m.Retention == 0 || m.Retention >= m.LastTimestamp {
		return 0
	}
	return m.LastTimestamp - m.Retention
}

// Chunk types.
const (
	SeriesUncompressed = 0
	SeriesCompressed   = 1
)

const seriesTail = 8 + 8 + 1 + 1 + 4 // without the source key and the last timestamp

// Log data of time series. They must not be changed.
var (
	LogSeries       = []byte("13")
	LogSeriesCreate = []byte("13 createTimeSeries")
	LogSeriesRule   = []byte("13 createDownStreamMetadata")
	LogSeriesRuled  = []byte("13 upsertDownStream")
)

// Append appends the encoded tail.
func (m *SeriesMeta) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, m.Retention)
	dst = binary.BigEndian.AppendUint64(dst, m.ChunkSize)
	dst = append(dst, m.ChunkType, m.Policy)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Source)))
	dst = append(dst, m.Source...)
	return binary.BigEndian.AppendUint64(dst, m.LastTimestamp)
}

// DecodeSeriesMeta decodes the type-specific fields of a time series. Source aliases tail.
func DecodeSeriesMeta(tail []byte) (m SeriesMeta, err error) {
	if len(tail) < seriesTail {
		return m, corrupt("time series metadata tail of %d bytes", len(tail))
	}
	m.Retention = binary.BigEndian.Uint64(tail)
	m.ChunkSize = binary.BigEndian.Uint64(tail[8:])
	m.ChunkType, m.Policy = tail[16], tail[17]
	n := uint64(binary.BigEndian.Uint32(tail[18:]))
	rest := tail[seriesTail:]
	if uint64(len(rest)) < n+8 {
		return m, corrupt("time series metadata tail of %d bytes, its source key has %d", len(tail), n)
	}
	m.Source = rest[:n:n]
	m.LastTimestamp = binary.BigEndian.Uint64(rest[n:])
	return m, nil
}

// SeriesPart is the first byte of a time series' subkey:
//
//	0 · u64 timestamp of the first sample -> a chunk
//	1 · label                             -> value of the label
//	2 · user key                          -> the rule by which that time series is aggregated from this one
type SeriesPart byte

// The parts of a time series.
const (
	SeriesChunk SeriesPart = iota
	SeriesLabel
	SeriesRule
)

// AppendSeriesChunkSub appends the subkey of the chunk whose first sample has a timestamp.
func AppendSeriesChunkSub(dst []byte, first uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(SeriesChunk)), first)
}

// SplitSeriesSub splits a subkey: into its part, and the label or the user key.
func SplitSeriesSub(sub []byte) (part SeriesPart, rest []byte, err error) {
	if len(sub) == 0 || sub[0] > byte(SeriesRule) || sub[0] == byte(SeriesChunk) && len(sub) != 9 {
		return 0, nil, corrupt("time series subkey %x", sub)
	}
	return SeriesPart(sub[0]), sub[1:], nil
}

// ParseSeriesChunkSub decodes the subkey of a chunk.
func ParseSeriesChunkSub(sub []byte) (first uint64, err error) {
	part, rest, err := SplitSeriesSub(sub)
	if err != nil || part != SeriesChunk {
		return 0, corrupt("time series chunk subkey %x", sub)
	}
	return binary.BigEndian.Uint64(rest), nil
}

// Sample is a value at a time. Timestamps are milliseconds since the epoch by convention.
type Sample struct {
	Timestamp uint64
	Value     float64
}

// A chunk is
//
//	u32 flags (bit 0: compressed) · u32 number of samples · samples
//
// and each sample is u64 timestamp · f64 value, both little-endian, as no other number in the database: Kvrocks writes
// its structures as they are in memory. Samples are ordered by timestamp, each timestamp occurs once.
const (
	SeriesChunkHead = 8
	SampleLen       = 16
)

// PutSeriesChunkHead writes the head of a chunk of n samples.
func PutSeriesChunkHead(dst []byte, n int) {
	binary.BigEndian.PutUint32(dst, 0)
	binary.BigEndian.PutUint32(dst[4:], uint32(n))
}

// ParseSeriesChunk returns the samples of a chunk, see [SampleAt]. It checks neither their order nor that there are
// any.
func ParseSeriesChunk(value []byte) (samples []byte, err error) {
	if len(value) < SeriesChunkHead {
		return nil, corrupt("time series chunk of %d bytes", len(value))
	}
	if binary.BigEndian.Uint32(value)&1 != 0 {
		return nil, corrupt("time series chunk that is compressed")
	}
	n := uint64(binary.BigEndian.Uint32(value[4:])) * SampleLen
	if samples = value[SeriesChunkHead:]; uint64(len(samples)) < n {
		return nil, corrupt("time series chunk of %d bytes has %d samples", len(value), n/SampleLen)
	}
	return samples[:n:n], nil
}

// SampleAt returns the i-th of encoded samples.
func SampleAt(samples []byte, i int) Sample {
	b := samples[i*SampleLen : (i+1)*SampleLen]
	return Sample{binary.LittleEndian.Uint64(b), math.Float64frombits(binary.LittleEndian.Uint64(b[8:]))}
}

// PutSample writes an encoded sample.
func PutSample(dst []byte, s Sample) {
	binary.LittleEndian.PutUint64(dst, s.Timestamp)
	binary.LittleEndian.PutUint64(dst[8:], math.Float64bits(s.Value))
}

// Aggregator is a function of the samples of a bucket of time.
type Aggregator byte

// The aggregators.
const (
	AggNone Aggregator = iota
	AggSum
	AggMin
	AggMax
	AggCount
	AggFirst
	AggLast
	AggAvg
	AggRange
	AggStdP
	AggStdS
	AggVarP
	AggVarS
	numAggregators
)

// SeriesRuleValue is the rule by which another time series is aggregated:
//
//	u8 aggregator · u64 bucket ms · u64 alignment · u64 latest bucket · u8 n · u8 m · n × u64 · m × f64
//
// The numbers at the end are what the aggregator knows of the samples of the latest bucket which are not in the newest
// chunk: see [Aggregator.Numbers]. The latest bucket is the one that is not yet in the other time series.
type SeriesRuleValue struct {
	Aggregator Aggregator
	Bucket     uint64 // length of a bucket in ms
	Alignment  uint64 // a time at which a bucket begins
	Latest     uint64 // begin of the latest bucket
	Integer    uint64
	Doubles    [2]float64
}

const seriesRuleHead = 1 + 8 + 8 + 8 + 1 + 1

// Numbers returns how many integers and doubles a rule with the aggregator has:
//
//	sum, count      -      sum; count
//	min, max        -      the value, NaN when there is none
//	first, last     time   the value, NaN when there is none
//	avg             count  sum
//	std, var        count  sum, sum of squares
//	range           -      min, max; NaN when there are none
//
// ok is false for an unknown aggregator.
func (a Aggregator) Numbers() (integers, doubles int, ok bool) {
	switch a {
	case AggSum, AggMin, AggMax, AggCount:
		return 0, 1, true
	case AggFirst, AggLast, AggAvg:
		return 1, 1, true
	case AggRange:
		return 0, 2, true
	case AggStdP, AggStdS, AggVarP, AggVarS:
		return 1, 2, true
	}
	return 0, 0, false
}

// Append appends the encoded rule.
func (r *SeriesRuleValue) Append(dst []byte) []byte {
	integers, doubles, _ := r.Aggregator.Numbers()
	dst = append(dst, byte(r.Aggregator))
	dst = binary.BigEndian.AppendUint64(dst, r.Bucket)
	dst = binary.BigEndian.AppendUint64(dst, r.Alignment)
	dst = binary.BigEndian.AppendUint64(dst, r.Latest)
	dst = append(dst, byte(integers), byte(doubles))
	if integers > 0 {
		dst = binary.BigEndian.AppendUint64(dst, r.Integer)
	}
	for _, d := range r.Doubles[:doubles] {
		dst = AppendDouble(dst, d)
	}
	return dst
}

// DecodeSeriesRule decodes a rule.
func DecodeSeriesRule(value []byte) (r SeriesRuleValue, err error) {
	if len(value) < seriesRuleHead {
		return r, corrupt("time series rule of %d bytes", len(value))
	}
	r.Aggregator = Aggregator(value[0])
	r.Bucket = binary.BigEndian.Uint64(value[1:])
	r.Alignment = binary.BigEndian.Uint64(value[9:])
	r.Latest = binary.BigEndian.Uint64(value[17:])
	integers, doubles, ok := r.Aggregator.Numbers()
	rest := value[seriesRuleHead:]
	if !ok || r.Bucket == 0 || int(value[25]) != integers || int(value[26]) != doubles ||
		len(rest) != 8*(integers+doubles) {
		return r, corrupt("time series rule %x", value)
	}
	if integers > 0 {
		r.Integer = binary.BigEndian.Uint64(rest)
		rest = rest[8:]
	}
	for i := range doubles {
		r.Doubles[i] = DecodeDouble(binary.BigEndian.Uint64(rest[8*i:]))
	}
	return r, nil
}

// The index family holds, for each label of a time series, a key with an empty value:
//
//	u8 len(ns) · ns · u8 0 · u32 len(label) · label · u32 len(value) · value · user key
//
// It never has the cluster slot. A key of the index may be older than the time series, so the label itself decides.
const indexLabel = 0

// AppendIndexPrefix appends the common prefix of the index keys of a label with a value.
func AppendIndexPrefix(dst []byte, ns string, label, value []byte) []byte {
	dst = append(AppendNSPrefix(dst, ns), indexLabel)
	dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(label))), label...)
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(value))), value...)
}

// IndexKey is a decoded key of the index family. The slices alias the key.
type IndexKey struct {
	Namespace, Label, Value, UserKey []byte
}

// ParseIndexKey decodes a key of the index family.
func ParseIndexKey(key []byte) (k IndexKey, err error) {
	ns, rest, err := SplitNSKey(key, false)
	if err != nil || len(rest) == 0 || rest[0] != indexLabel {
		return k, corrupt("index key %x", key)
	}
	k.Namespace, rest = ns, rest[1:]
	for _, field := range []*[]byte{&k.Label, &k.Value} {
		if len(rest) < 4 || uint64(len(rest)-4) < uint64(binary.BigEndian.Uint32(rest)) {
			return k, corrupt("index key %x", key)
		}
		n := 4 + int(binary.BigEndian.Uint32(rest))
		*field, rest = rest[4:n], rest[n:]
	}
	k.UserKey = rest
	return k, nil
}
