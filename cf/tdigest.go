package cf

import (
	"encoding/binary"
	"math"
)

// TDigestMeta is the tail of a t-digest's metadata, 72 bytes, as Apache Kvrocks has written it since 2.11:
//
//	u32 compression · u32 capacity · u64 unmerged · u64 merged · u64 total weight · u64 merged weight ·
//	f64 minimum · f64 maximum · u64 observations · u64 merges
//
// The size of the record is 0. Each merged centroid has a subkey of its own. The observations that are not merged yet
// are together in the buffer.
type TDigestMeta struct {
	Compression  uint32  // the δ of the scale function: the approximate number of centroids
	Capacity     uint32  // max observations in the buffer
	Unmerged     uint64  // observations in the buffer
	Merged       uint64  // centroids
	TotalWeight  uint64  // observations, merged or not
	MergedWeight uint64  // observations in the centroids
	Min          float64 // the smallest observation; the largest double when none exists
	Max          float64 // the largest observation; the most negative double when none exists
	Observations uint64  // observations that were added
	Merges       uint64  // how often the buffer was merged
}

const tdigestTail = 72

// LogTDigest is the blob that begins every batch of a t-digest. It must not be changed.
var LogTDigest = []byte("12")

// NewTDigestMeta returns the tail of an empty t-digest.
func NewTDigestMeta(compression, capacity uint32) TDigestMeta {
	return TDigestMeta{Compression: compression, Capacity: capacity, Min: math.MaxFloat64, Max: -math.MaxFloat64}
}

// Append appends the encoded tail.
func (m *TDigestMeta) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, m.Compression)
	dst = binary.BigEndian.AppendUint32(dst, m.Capacity)
	dst = binary.BigEndian.AppendUint64(dst, m.Unmerged)
	dst = binary.BigEndian.AppendUint64(dst, m.Merged)
	dst = binary.BigEndian.AppendUint64(dst, m.TotalWeight)
	dst = binary.BigEndian.AppendUint64(dst, m.MergedWeight)
	dst = AppendDouble(dst, m.Min)
	dst = AppendDouble(dst, m.Max)
	dst = binary.BigEndian.AppendUint64(dst, m.Observations)
	return binary.BigEndian.AppendUint64(dst, m.Merges)
}

// DecodeTDigestMeta decodes the type-specific fields of a t-digest.
func DecodeTDigestMeta(tail []byte) (m TDigestMeta, err error) {
	if len(tail) < tdigestTail {
		return m, corrupt("t-digest metadata tail of %d bytes", len(tail))
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(tail[at:]) }
	m.Compression = binary.BigEndian.Uint32(tail)
	m.Capacity = binary.BigEndian.Uint32(tail[4:])
	m.Unmerged = u64(8)
	m.Merged = u64(16)
	m.TotalWeight = u64(24)
	m.MergedWeight = u64(32)
	m.Min = DecodeDouble(u64(40))
	m.Max = DecodeDouble(u64(48))
	m.Observations = u64(56)
	m.Merges = u64(64)
	return m, nil
}

// The first byte of a t-digest's subkey is its kind:
//
//	0                          -> the buffer: an f64 for each observation, in the order in which they came
//	1 · f64 mean · u32 number  -> f64 weight of the centroid
//
// All doubles, weights included, are encoded as by [AppendDouble]. The number is the index of the centroid among those
// of one merge, from 0; it keeps centroids of equal means apart. Kvrocks at first wrote centroids without the number,
// and reads both forms.
const (
	tdigestBuffer   = 0
	tdigestCentroid = 1
)

const (
	tdigestCentroidSub    = 1 + ScoreLen + 4
	tdigestCentroidSubOld = 1 + ScoreLen
)

// AppendTDigestBufferSub appends the subkey of the buffer.
func AppendTDigestBufferSub(dst []byte) []byte { return append(dst, tdigestBuffer) }

// AppendTDigestCentroids appends the common prefix of the subkeys of all centroids.
func AppendTDigestCentroids(dst []byte) []byte { return append(dst, tdigestCentroid) }

// AppendTDigestCentroidSub appends the subkey of a centroid.
func AppendTDigestCentroidSub(dst []byte, mean float64, number uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendDouble(append(dst, tdigestCentroid), mean), number)
}

// ParseTDigestCentroidSub returns the mean of the centroid that a subkey belongs to. NaN is an error.
func ParseTDigestCentroidSub(sub []byte) (mean float64, err error) {
	if len(sub) != tdigestCentroidSub && len(sub) != tdigestCentroidSubOld || sub[0] != tdigestCentroid {
		return 0, corrupt("t-digest centroid %x", sub)
	}
	mean = DecodeDouble(binary.BigEndian.Uint64(sub[1:]))
	if math.IsNaN(mean) || math.IsInf(mean, 0) {
		return 0, corrupt("t-digest centroid of mean %v", mean)
	}
	return mean, nil
}

// ParseTDigestWeight returns the weight of a centroid, at least 1.
func ParseTDigestWeight(value []byte) (float64, error) {
	if len(value) != ScoreLen {
		return 0, corrupt("t-digest weight of %d bytes", len(value))
	}
	w := DecodeDouble(binary.BigEndian.Uint64(value))
	if !(w >= 1 && w <= math.MaxUint64) {
		return 0, corrupt("t-digest centroid of weight %v", w)
	}
	return w, nil
}

// AppendTDigestBuffer appends the first n observations of a buffer's value to dst. A buffer with fewer observations, or
// with one that is not a finite number, is an error.
func AppendTDigestBuffer(dst []float64, value []byte, n uint64) ([]float64, error) {
	if n > uint64(len(value)/ScoreLen) {
		return dst, corrupt("t-digest buffer of %d bytes, the metadata says %d observations", len(value), n)
	}
	for i := range int(n) {
		f := DecodeDouble(binary.BigEndian.Uint64(value[i*ScoreLen:]))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return dst, corrupt("t-digest buffer with an observation of %v", f)
		}
		dst = append(dst, f)
	}
	return dst, nil
}
