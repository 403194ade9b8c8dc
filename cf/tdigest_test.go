package cf

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
)

// The decoders take part in FuzzDecoders.
func init() {
	decoders["DecodeTDigestMeta"] = func(b []byte) ([]byte, []byte, error) {
		m, err := DecodeTDigestMeta(b)
		if err != nil || math.IsNaN(m.Min) || math.IsNaN(m.Max) {
			return nil, nil, err
		}
		return m.Append(nil), b[:tdigestTail], nil
	}
	decoders["ParseTDigestCentroidSub"] = func(b []byte) ([]byte, []byte, error) {
		mean, err := ParseTDigestCentroidSub(b)
		if err != nil {
			return nil, nil, err
		}
		return AppendTDigestCentroidSub(nil, mean, 0)[:tdigestCentroidSubOld], b[:tdigestCentroidSubOld], nil
	}
	decoders["ParseTDigestWeight"] = func(b []byte) ([]byte, []byte, error) {
		w, err := ParseTDigestWeight(b)
		if err != nil {
			return nil, nil, err
		}
		return AppendDouble(nil, w), b, nil
	}
	decoders["AppendTDigestBuffer"] = func(b []byte) (again, part []byte, err error) {
		n := len(b) / ScoreLen
		list, err := AppendTDigestBuffer(nil, b, uint64(n))
		for _, f := range list {
			again = AppendDouble(again, f)
		}
		return again, b[:n*ScoreLen], err
	}
}

// FuzzTDigest begins with records of t-digests, which FuzzDecoders would have to find.
func FuzzTDigest(f *testing.F) {
	m := NewTDigestMeta(100, 610)
	f.Add(m.Append(nil))
	f.Add(AppendTDigestBufferSub(nil))
	f.Add(AppendTDigestCentroidSub(nil, -1.5, 7))
	f.Add(AppendDouble(AppendDouble(nil, 1), -2))
	f.Fuzz(checkDecoders)
}

// The bytes follow from Kvrocks's TDigestMetadata::Encode and TDigest::internalKeyFromCentroid.
func TestTDigestBytes(t *testing.T) {
	m := TDigestMeta{Compression: 100, Capacity: 610, Unmerged: 2, Merged: 3, TotalWeight: 12, MergedWeight: 10,
		Min: -1, Max: 1.5, Observations: 12, Merges: 1}
	empty := NewTDigestMeta(1000, 1024)
	for _, tt := range []struct {
		what string
		got  []byte
		want string
	}{
		{"metadata", m.Append(nil), "00000064" + "00000262" + "0000000000000002" + "0000000000000003" +
			"000000000000000c" + "000000000000000a" +
			"400fffffffffffff" + "bff8000000000000" + "000000000000000c" + "0000000000000001"},
		{"metadata of an empty one", empty.Append(nil), "000003e8" + "00000400" + "0000000000000000" +
			"0000000000000000" + "0000000000000000" + "0000000000000000" +
			"ffefffffffffffff" + "0010000000000000" + "0000000000000000" + "0000000000000000"},
		{"buffer", AppendTDigestBufferSub(nil), "00"},
		{"centroid", AppendTDigestCentroidSub(nil, 1, 258), "01" + "bff0000000000000" + "00000102"},
		{"negative centroid", AppendTDigestCentroidSub(nil, -1, 0), "01" + "400fffffffffffff" + "00000000"},
		{"log data", LogTDigest, hex.EncodeToString([]byte("12"))},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
	if !bytes.HasPrefix(AppendTDigestCentroidSub(nil, 5, 1), AppendTDigestCentroids(nil)) {
		t.Error("a centroid does not begin as centroids do")
	}
	mean, err := ParseTDigestCentroidSub(AppendTDigestCentroidSub(nil, 2.5, 9)[:9]) // as Kvrocks wrote at first
	same(t, mean, 2.5, err)
}

func TestTDigestRoundTrip(t *testing.T) {
	g := newGen()
	finite := func() float64 {
		for {
			if f := g.float(); !math.IsInf(f, 0) {
				return f
			}
		}
	}
	for range rounds {
		m := TDigestMeta{uint32(g.u64()), uint32(g.u64()), g.u64(), g.u64(), g.u64(), g.u64(), g.float(), g.float(),
			g.u64(), g.u64()}
		got, err := DecodeTDigestMeta(append(m.Append(nil), g.bytes(3)...))
		same(t, got, m, err)

		x, y, i, j := finite(), finite(), uint32(g.u64()), uint32(g.u64())
		a, b := AppendTDigestCentroidSub(nil, x, i), AppendTDigestCentroidSub(nil, y, j)
		mean, err := ParseTDigestCentroidSub(a)
		same(t, math.Float64bits(mean), math.Float64bits(x), err)
		if x < y && bytes.Compare(a, b) >= 0 || x == y && math.Signbit(x) == math.Signbit(y) &&
			bytes.Compare(a, b) != cmpU32(i, j) {
			t.Fatalf("centroids (%v, %d) and (%v, %d) are in the wrong order", x, i, y, j)
		}
		if bytes.Compare(AppendTDigestBufferSub(nil), a) >= 0 {
			t.Fatalf("the buffer does not come before %x", a)
		}

		w := max(1, float64(g.u64()))
		weight, err := ParseTDigestWeight(AppendDouble(nil, w))
		same(t, weight, w, err)

		list := []float64{x, y, x}[:g.IntN(4)]
		var value []byte
		for _, f := range list {
			value = AppendDouble(value, f)
		}
		again, err := AppendTDigestBuffer(nil, append(value, g.bytes(20)...), uint64(len(list)))
		if err != nil || !slices.Equal(again, list) {
			t.Fatalf("buffer %v comes back as %v, %v", list, again, err)
		}
	}
}

func cmpU32(a, b uint32) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestTDigestCorrupt(t *testing.T) {
	nan, inf := AppendDouble(nil, math.NaN()), AppendDouble(nil, math.Inf(1))
	sub := AppendTDigestCentroidSub(nil, 1, 1)
	for what, err := range map[string]error{
		"short metadata":     second(DecodeTDigestMeta(make([]byte, tdigestTail-1))),
		"no subkey":          second(ParseTDigestCentroidSub(nil)),
		"the buffer":         second(ParseTDigestCentroidSub([]byte{0})),
		"another kind":       second(ParseTDigestCentroidSub(append([]byte{2}, sub[1:]...))),
		"cut off":            second(ParseTDigestCentroidSub(sub[:11])),
		"too long":           second(ParseTDigestCentroidSub(append(slices.Clone(sub), 0))),
		"a mean of NaN":      second(ParseTDigestCentroidSub(append([]byte{1}, nan...))),
		"an infinite mean":   second(ParseTDigestCentroidSub(append([]byte{1}, inf...))),
		"no weight":          second(ParseTDigestWeight(nil)),
		"a weight of NaN":    second(ParseTDigestWeight(nan)),
		"an infinite weight": second(ParseTDigestWeight(inf)),
		"half a weight":      second(ParseTDigestWeight(AppendDouble(nil, 0.5))),
		"a short buffer":     second(AppendTDigestBuffer(nil, make([]byte, 15), 2)),
		"an endless buffer":  second(AppendTDigestBuffer(nil, make([]byte, 16), math.MaxUint64)),
		"NaN in the buffer":  second(AppendTDigestBuffer(nil, nan, 1)),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
