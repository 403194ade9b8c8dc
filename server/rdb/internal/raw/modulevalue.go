package raw

import (
	"math"
	"sort"
)

// TDigest is a t-digest.
type TDigest struct {
	Compression float64
	Min, Max    float64
	Means       []float64 // of the centroids, ascending
	Weights     []float64
}

// Cuckoo is a chain of cuckoo filters.
type Cuckoo struct {
	Items, Deleted uint64
	BucketSize     uint8
	MaxIterations  uint16
	Expansion      uint16
	Filters        [][]byte // the buckets of each filter, of as many fingerprints of one byte as the bucket size says
}

// TDigest reads the value of a t-digest:
//
//	compression · minimum · maximum · capacity · centroids · 0 · merges · weight · 0 · means · weights
func (r *Reader) TDigest() *TDigest {
	parts := r.ModuleParts(true)
	const head = 9
	if r.Err != nil {
		return nil
	}
	if len(parts) < head || parts[4].N != uint64(len(parts)-head)/2 || len(parts)%2 != head%2 || parts[5].N != 0 {
		r.Failf("t-digest of %d parts", len(parts))
		return nil
	}
	t := &TDigest{Compression: parts[0].F, Min: parts[1].F, Max: parts[2].F}
	n := (len(parts) - head) / 2
	for i, p := range parts[head:] {
		if p.Kind != ModuleDouble || math.IsNaN(p.F) || math.IsInf(p.F, 0) || i >= n && p.F <= 0 {
			r.Failf("centroid of a t-digest")
			return nil
		}
		if i < n {
			t.Means = append(t.Means, p.F)
		} else {
			t.Weights = append(t.Weights, p.F)
		}
	}
	if !sort.Float64sAreSorted(t.Means) || !(t.Compression >= 1) || n > 0 && !(t.Min <= t.Max) {
		r.Failf("t-digest with centroids out of order")
		return nil
	}
	return t
}

// Append appends the value of the t-digest.
func (t *TDigest) Append(dst []byte) []byte {
	double := func(f float64) { dst = AppendScore(append(dst, ModuleDouble), f) }
	double(t.Compression)
	double(t.Min)
	double(t.Max)
	n := uint64(len(t.Means))
	for _, u := range []uint64{6*uint64(t.Compression) + 10, n, 0, 1} {
		dst = AppendLength(append(dst, ModuleSint), u)
	}
	weight := 0.0
	for _, w := range t.Weights {
		weight += w
	}
	double(weight)
	double(0)
	for _, f := range t.Means {
		double(f)
	}
	for _, f := range t.Weights {
		double(f)
	}
	return append(dst, ModuleEnd)
}

// Cuckoo reads the value of a chain of cuckoo filters, whose sizes it checks against the data only:
//
//	filters · buckets of the first one · items · deleted items · bucket size · max iterations · expansion ·
//	(buckets · fingerprints) for each filter
func (r *Reader) Cuckoo() *Cuckoo {
	parts := r.ModuleParts(true)
	const head = 7
	if r.Err != nil {
		return nil
	}
	if len(parts) < head || parts[0].N == 0 || parts[0].N > math.MaxUint16 || uint64(len(parts)-head) != 2*parts[0].N ||
		parts[4].N > math.MaxUint8 || parts[5].N > math.MaxUint16 || parts[6].N > math.MaxUint16 {
		r.Failf("cuckoo filter of %d parts", len(parts))
		return nil
	}
	c := &Cuckoo{Items: parts[2].N, Deleted: parts[3].N, BucketSize: uint8(parts[4].N),
		MaxIterations: uint16(parts[5].N), Expansion: uint16(parts[6].N)}
	for filters := parts[head:]; len(filters) > 0; filters = filters[2:] {
		buckets, data := filters[0].N, filters[1].S
		if c.BucketSize == 0 || uint64(len(data))%uint64(c.BucketSize) != 0 ||
			buckets != uint64(len(data))/uint64(c.BucketSize) {
			r.Failf("cuckoo filter of %d bytes", len(data))
			return nil
		}
		c.Filters = append(c.Filters, data)
	}
	return c
}

// Append appends the value of the chain.
func (c *Cuckoo) Append(dst []byte) []byte {
	buckets := func(f []byte) uint64 { return uint64(len(f)) / uint64(c.BucketSize) }
	for _, n := range []uint64{uint64(len(c.Filters)), buckets(c.Filters[0]), c.Items, c.Deleted, uint64(c.BucketSize),
		uint64(c.MaxIterations), uint64(c.Expansion)} {
		dst = AppendLength(append(dst, ModuleUint), n)
	}
	for _, f := range c.Filters {
		dst = AppendLength(append(dst, ModuleUint), buckets(f))
		dst = AppendString(append(dst, ModuleString), f)
	}
	return append(dst, ModuleEnd)
}
