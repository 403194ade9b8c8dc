package rdb

import (
	"fmt"
	"math"
	"sort"
	"strings"
)

// The value of a module names its type, and is a sequence of numbers and strings, so that it can be passed over:
//
//	u64: name and version of the type · (length: what follows · number or string) · 0
//
// The first number has 54 bits for nine characters of six bits each, and ten bits for the version of the encoding.
const (
	moduleEnd    = 0
	moduleSint   = 1 // length
	moduleUint   = 2 // length
	moduleFloat  = 3 // f32
	moduleDouble = 4 // f64
	moduleString = 5 // string
)

const moduleChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func moduleName(id uint64) string {
	var name [9]byte
	for i := range name {
		name[i] = moduleChars[id>>(64-6*(i+1))&63]
	}
	return string(name[:])
}

// modulePart is a number or a string of a module's value.
type modulePart struct {
	kind uint64
	n    uint64
	f    float64
	s    []byte
}

// maxModuleParts bounds what is kept of a value; a t-digest has about as many centroids as its compression says.
const maxModuleParts = 1 << 16

// moduleParts reads numbers and strings up to the end of a value. It keeps them only if told so.
func (r *reader) moduleParts(keep bool) (parts []modulePart) {
	for r.err == nil {
		p := modulePart{kind: r.length()}
		switch p.kind {
		case moduleEnd:
			return parts
		case moduleSint, moduleUint:
			p.n = r.length()
		case moduleFloat:
			r.fixed(4)
		case moduleDouble:
			p.f = math.Float64frombits(r.u64())
		case moduleString:
			p.s = r.string()
		default:
			r.failf("part %d of the value of a module", p.kind)
		}
		switch {
		case keep && len(parts) == maxModuleParts:
			r.fail(ErrTooLarge)
		case keep:
			r.spend(elemCost)
			parts = append(parts, p)
		case p.s != nil: // nobody keeps it
			r.budget, r.chunk = r.budget+int64(len(p.s))+elemCost, nil
		}
	}
	return nil
}

// moduleAux passes over the data of a module that belong to no key: its type, when they are read, and parts.
func (r *reader) moduleAux(skip bool) (name string) {
	name = moduleName(r.length())
	if !skip {
		r.fail(fmt.Errorf("%w: the data of a module", ErrUnsupported))
		return ""
	}
	r.length()
	r.length()
	r.moduleParts(false)
	return name
}

// module reads the value of a module. Of one that is not known the kind is NoKind, and String says why.
func (r *reader) module(v *Value) {
	id := r.length()
	name, version := moduleName(id), id&1023
	switch {
	case r.err != nil:
	case name == "ReJSON-RL" && (version == 2 || version == 3):
		parts := r.moduleParts(true)
		if len(parts) == 0 || parts[0].kind != moduleString {
			r.failf("JSON document without a text")
			return
		}
		v.Kind, v.String = JSON, parts[0].s
	case name == "TDIS-TYPE" && version == 0:
		v.Kind, v.TDigest = TDigest, r.tdigest()
	case name == "MBbloom--":
		r.skipModule(v, "a bloom filter of RedisBloom: its bits are of another hash function than those of a filter here")
	default:
		r.skipModule(v, fmt.Sprintf("a value of the module type %s, encoding %d", name, version))
	}
}

func (r *reader) skipModule(v *Value, why string) {
	if !r.skip {
		r.fail(fmt.Errorf("%w: %s", ErrUnsupported, why))
		return
	}
	v.Kind, v.String = NoKind, []byte(why)
	r.moduleParts(false)
}

// tdigest reads a t-digest:
//
//	compression · minimum · maximum · capacity · centroids · 0 · merges · weight · 0 · means · weights
func (r *reader) tdigest() *TDigestValue {
	parts := r.moduleParts(true)
	const head = 9
	if r.err != nil {
		return nil
	}
	if len(parts) < head || parts[4].n != uint64(len(parts)-head)/2 || len(parts)%2 != head%2 || parts[5].n != 0 {
		r.failf("t-digest of %d parts", len(parts))
		return nil
	}
	t := &TDigestValue{Compression: parts[0].f, Min: parts[1].f, Max: parts[2].f}
	n := (len(parts) - head) / 2
	for i, p := range parts[head:] {
		if p.kind != moduleDouble || math.IsNaN(p.f) || math.IsInf(p.f, 0) || i >= n && p.f <= 0 {
			r.failf("centroid of a t-digest")
			return nil
		}
		if i < n {
			t.Means = append(t.Means, p.f)
		} else {
			t.Weights = append(t.Weights, p.f)
		}
	}
	if !sort.Float64sAreSorted(t.Means) || !(t.Compression >= 1) || n > 0 && !(t.Min <= t.Max) {
		r.failf("t-digest with centroids out of order")
		return nil
	}
	return t
}

// moduleID is the inverse of moduleName, for a name of nine characters.
func moduleID(name string, version uint64) (id uint64) {
	for i := range len(name) {
		id = id<<6 | uint64(strings.IndexByte(moduleChars, name[i]))
	}
	return id<<10 | version
}

// appendModule appends a JSON document or a t-digest.
func appendModule(dst []byte, v *Value) []byte {
	dst = append(dst, typeModule2)
	double := func(f float64) { dst = AppendScore(append(dst, moduleDouble), f) }
	if v.Kind == JSON {
		dst = appendLength(dst, moduleID("ReJSON-RL", 3))
		dst = append(AppendString(append(dst, moduleString), v.String), moduleEnd)
		return dst
	}
	t := v.TDigest
	dst = appendLength(dst, moduleID("TDIS-TYPE", 0))
	double(t.Compression)
	double(t.Min)
	double(t.Max)
	n := uint64(len(t.Means))
	for _, u := range []uint64{6*uint64(t.Compression) + 10, n, 0, 1} {
		dst = appendLength(append(dst, moduleSint), u)
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
	return append(dst, moduleEnd)
}
