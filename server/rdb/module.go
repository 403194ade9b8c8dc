package rdb

import (
	"fmt"
	"math"
	"sort"

	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// moduleAux skips the data of a module without a key: its type, the time at which it is read, and parts.
func (r *reader) moduleAux(skip bool) (name string) {
	name = raw.ModuleName(r.Length())
	if !skip {
		r.Fail(fmt.Errorf("%w: the data of a module", ErrUnsupported))
		return ""
	}
	r.Length()
	r.Length()
	r.ModuleParts(false)
	return name
}

// module reads the value of a module. For an unknown module the kind is NoKind, and String is the reason.
func (r *reader) module(v *Value) {
	id := r.Length()
	name, version := raw.ModuleName(id), id&1023
	switch {
	case r.Err != nil:
	case name == "ReJSON-RL" && (version == 2 || version == 3):
		parts := r.ModuleParts(true)
		if len(parts) == 0 || parts[0].Kind != raw.ModuleString {
			r.Failf("JSON document without a text")
			return
		}
		v.Kind, v.String = JSON, parts[0].S
	case name == "TDIS-TYPE" && version == 0:
		v.Kind, v.TDigest = TDigest, r.tdigest()
	case name == "MBbloomCF" && version == 4:
		v.Kind, v.Cuckoo = Cuckoo, r.cuckoo()
	case name == "MBbloom--":
		r.skipModule(v, "a bloom filter of RedisBloom: its bits are of another hash function than those of a filter here")
	default:
		r.skipModule(v, fmt.Sprintf("a value of the module type %s, encoding %d", name, version))
	}
}

func (r *reader) skipModule(v *Value, why string) {
	if !r.skip {
		r.Fail(fmt.Errorf("%w: %s", ErrUnsupported, why))
		return
	}
	v.Kind, v.String = NoKind, []byte(why)
	r.ModuleParts(false)
}

// tdigest reads a t-digest:
//
//	compression · minimum · maximum · capacity · centroids · 0 · merges · weight · 0 · means · weights
func (r *reader) tdigest() *TDigestValue {
	parts := r.ModuleParts(true)
	const head = 9
	if r.Err != nil {
		return nil
	}
	if len(parts) < head || parts[4].N != uint64(len(parts)-head)/2 || len(parts)%2 != head%2 || parts[5].N != 0 {
		r.Failf("t-digest of %d parts", len(parts))
		return nil
	}
	t := &TDigestValue{Compression: parts[0].F, Min: parts[1].F, Max: parts[2].F}
	n := (len(parts) - head) / 2
	for i, p := range parts[head:] {
		if p.Kind != raw.ModuleDouble || math.IsNaN(p.F) || math.IsInf(p.F, 0) || i >= n && p.F <= 0 {
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

// cuckoo reads a chain of cuckoo filters, whose sizes it checks against the data only:
//
//	filters · buckets of the first one · items · deleted items · bucket size · max iterations · expansion ·
//	(buckets · fingerprints) for each filter
func (r *reader) cuckoo() *CuckooValue {
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
	c := &CuckooValue{Items: parts[2].N, Deleted: parts[3].N, BucketSize: uint8(parts[4].N),
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

// appendModule appends a JSON document, a t-digest or a cuckoo filter.
func appendModule(dst []byte, v *Value) []byte {
	dst = append(dst, typeModule2)
	double := func(f float64) { dst = AppendScore(append(dst, raw.ModuleDouble), f) }
	switch v.Kind {
	case JSON:
		dst = raw.AppendLength(dst, raw.ModuleID("ReJSON-RL", 3))
		dst = append(AppendString(append(dst, raw.ModuleString), v.String), raw.ModuleEnd)
		return dst
	case Cuckoo:
		return appendCuckoo(dst, v.Cuckoo)
	}
	t := v.TDigest
	dst = raw.AppendLength(dst, raw.ModuleID("TDIS-TYPE", 0))
	double(t.Compression)
	double(t.Min)
	double(t.Max)
	n := uint64(len(t.Means))
	for _, u := range []uint64{6*uint64(t.Compression) + 10, n, 0, 1} {
		dst = raw.AppendLength(append(dst, raw.ModuleSint), u)
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
	return append(dst, raw.ModuleEnd)
}

func appendCuckoo(dst []byte, c *CuckooValue) []byte {
	dst = raw.AppendLength(dst, raw.ModuleID("MBbloomCF", 4))
	buckets := func(f []byte) uint64 { return uint64(len(f)) / uint64(c.BucketSize) }
	for _, n := range []uint64{uint64(len(c.Filters)), buckets(c.Filters[0]), c.Items, c.Deleted, uint64(c.BucketSize),
		uint64(c.MaxIterations), uint64(c.Expansion)} {
		dst = raw.AppendLength(append(dst, raw.ModuleUint), n)
	}
	for _, f := range c.Filters {
		dst = raw.AppendLength(append(dst, raw.ModuleUint), buckets(f))
		dst = AppendString(append(dst, raw.ModuleString), f)
	}
	return append(dst, raw.ModuleEnd)
}
