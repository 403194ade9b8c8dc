package cf

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"
)

// The decoders take part in FuzzDecoders.
func init() {
	decoders["DecodeSeriesMeta"] = func(b []byte) ([]byte, []byte, error) {
		m, err := DecodeSeriesMeta(b)
		if err != nil {
			return nil, nil, err
		}
		return m.Append(nil), b[:seriesTail+len(m.Source)+8], nil
	}
	decoders["ParseSeriesChunkSub"] = func(b []byte) ([]byte, []byte, error) {
		first, err := ParseSeriesChunkSub(b)
		return AppendSeriesChunkSub(nil, first), b, err
	}
	decoders["ParseSeriesChunk"] = func(b []byte) ([]byte, []byte, error) {
		samples, err := ParseSeriesChunk(b)
		if err != nil {
			return nil, nil, err
		}
		again := make([]byte, len(samples))
		for i := range len(samples) / SampleLen {
			PutSample(again[i*SampleLen:], SampleAt(samples, i))
		}
		return again, samples, nil
	}
	decoders["DecodeSeriesRule"] = func(b []byte) ([]byte, []byte, error) {
		r, err := DecodeSeriesRule(b)
		if err != nil || math.IsNaN(r.Doubles[0]) || math.IsNaN(r.Doubles[1]) {
			return nil, nil, err
		}
		return r.Append(nil), b, nil
	}
	decoders["ParseIndexKey"] = func(b []byte) ([]byte, []byte, error) {
		k, err := ParseIndexKey(b)
		if err != nil {
			return nil, nil, err
		}
		return append(AppendIndexPrefix(nil, string(k.Namespace), k.Label, k.Value), k.UserKey...), b, nil
	}
}

// FuzzSeries begins with records of time series, which FuzzDecoders would have to find.
func FuzzSeries(f *testing.F) {
	m := SeriesMeta{ChunkSize: 1024, Source: []byte("source"), LastTimestamp: 7}
	f.Add(m.Append(nil))
	f.Add(AppendSeriesChunkSub(nil, 1000))
	f.Add(chunkOf(Sample{1, 2}, Sample{3, -4}))
	for a := AggSum; a < numAggregators; a++ {
		r := SeriesRuleValue{Aggregator: a, Bucket: 10, Latest: 20, Integer: 3, Doubles: [2]float64{1, -1}}
		f.Add(r.Append(nil))
	}
	f.Add(append(AppendIndexPrefix(nil, "ns", []byte("room"), []byte("kitchen")), "key"...))
	f.Fuzz(checkDecoders)
}

func chunkOf(samples ...Sample) []byte {
	b := make([]byte, SeriesChunkHead+len(samples)*SampleLen)
	PutSeriesChunkHead(b, len(samples))
	for i, s := range samples {
		PutSample(b[SeriesChunkHead+i*SampleLen:], s)
	}
	return b
}

// The bytes follow from Kvrocks's TimeSeriesMetadata::Encode, TSChunk, TSDownStreamMeta::Encode and
// TSRevLabelKey::Encode.
func TestSeriesBytes(t *testing.T) {
	m := SeriesMeta{Retention: 3600, ChunkSize: 1024, ChunkType: SeriesCompressed, Policy: 5, Source: []byte("src"),
		LastTimestamp: 258}
	avg := SeriesRuleValue{Aggregator: AggAvg, Bucket: 1000, Alignment: 100, Latest: 2100, Integer: 2,
		Doubles: [2]float64{1}}
	none := SeriesRuleValue{Aggregator: AggRange, Bucket: 10, Doubles: [2]float64{
		math.Float64frombits(0x7ff8 << 48), math.Float64frombits(0x7ff8 << 48)}}
	for _, tt := range []struct {
		what string
		got  []byte
		want string
	}{
		{"metadata", m.Append(nil), "0000000000000e10" + "0000000000000400" + "01" + "05" + "00000003" + "737263" +
			"0000000000000102"},
		{"chunk subkey", AppendSeriesChunkSub(nil, 1000), "00" + "00000000000003e8"},
		{"chunk", chunkOf(Sample{1000, 1}, Sample{1001, -2}), "00000000" + "00000002" +
			"e803000000000000" + "000000000000f03f" + "e903000000000000" + "00000000000000c0"},
		{"rule", avg.Append(nil), "07" + "00000000000003e8" + "0000000000000064" + "0000000000000834" + "01" + "01" +
			"0000000000000002" + "bff0000000000000"},
		{"rule without samples", none.Append(nil), "08" + "000000000000000a" + "0000000000000000" +
			"0000000000000000" + "00" + "02" + "fff8000000000000" + "fff8000000000000"},
		{"index key", append(AppendIndexPrefix(nil, "ns", []byte("room"), []byte("a")), "key"...),
			"02" + "6e73" + "00" + "00000004" + "726f6f6d" + "00000001" + "61" + "6b6579"},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
}

// TestSeriesErrors: what is cut off or not understood is refused.
func TestSeriesErrors(t *testing.T) {
	compressed := chunkOf(Sample{1, 1})
	compressed[3] = 1
	rule := SeriesRuleValue{Aggregator: AggSum, Bucket: 10}
	unknown := rule.Append(nil)
	unknown[0] = byte(numAggregators)
	noBucket := SeriesRuleValue{Aggregator: AggSum}
	for what, err := range map[string]error{
		"compressed chunk":   errOf(ParseSeriesChunk(compressed)),
		"chunk cut off":      errOf(ParseSeriesChunk(chunkOf(Sample{1, 1})[:23])),
		"rule cut off":       errOf(DecodeSeriesRule(rule.Append(nil)[:34])),
		"rule too long":      errOf(DecodeSeriesRule(append(rule.Append(nil), 0))),
		"unknown aggregator": errOf(DecodeSeriesRule(unknown)),
		"bucket of length 0": errOf(DecodeSeriesRule(noBucket.Append(nil))),
		"label as chunk":     errOf(ParseSeriesChunkSub([]byte{byte(SeriesLabel), 0, 0, 0, 0, 0, 0, 0, 0})),
		"other index":        errOf(ParseIndexKey([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0})),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }
