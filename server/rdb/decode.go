package rdb

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
)

// Decode reads the type and value at the beginning of body. Bytes behind it are of no interest, as in Redis.
//
// What is read, with what is needed to read it, must fit into maxBytes. Strings that are not compressed stay parts of
// body and count only for the little that holds them together.
func Decode(body []byte, maxBytes int64) (*Value, error) {
	r := reader{b: body, budget: maxBytes}
	v := &Value{}
	t := r.byte()
	if t == typeHashValkey {
		r.failf("type %d", t)
	}
	if r.err == nil {
		r.value(t, v)
	}
	if r.err == nil && v.Kind <= Hash && v.Kind != String && len(v.Elems) == 0 {
		r.failf("empty %s", v.Kind)
	}
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

func (r *reader) value(t byte, v *Value) {
	add := func(elem []byte) { v.Elems = append(v.Elems, elem) }
	switch t {
	case typeString:
		v.Kind, v.String = String, r.string()
	case typeList, typeSet:
		v.Kind = Set
		if t == typeList {
			v.Kind = List
		}
		for n := r.count(1); n > 0 && r.err == nil; n-- {
			add(r.string())
			r.cut(v)
		}
	case typeListZiplist:
		v.Kind = List
		r.ziplist(r.string(), add)
	case typeQuicklist:
		v.Kind = List
		for n := r.count(1); n > 0 && r.err == nil; n-- {
			r.ziplist(r.string(), add)
			r.cut(v)
		}
	case typeQuicklist2:
		v.Kind = List
		r.quicklist2(v, add)
	case typeSetIntset:
		v.Kind = Set
		r.intset(r.string(), add)
	case typeSetListpack:
		v.Kind = Set
		r.listpack(r.string(), add)
	case typeZSet, typeZSet2:
		v.Kind = ZSet
		for n := r.count(2); n > 0 && r.err == nil; n-- {
			add(r.string())
			if t == typeZSet2 {
				v.Scores = append(v.Scores, math.Float64frombits(r.u64()))
			} else {
				v.Scores = append(v.Scores, r.score())
			}
			r.cut(v)
		}
	case typeZSetZiplist:
		v.Kind = ZSet
		r.ziplist(r.string(), add)
		r.splitScores(v)
	case typeZSetListpack:
		v.Kind = ZSet
		r.listpack(r.string(), add)
		r.splitScores(v)
	case typeHash:
		v.Kind = Hash
		for n := r.count(2); n > 0 && r.err == nil; n-- {
			add(r.string())
			add(r.string())
			r.cut(v)
		}
	case typeHashZipmap:
		v.Kind = Hash
		r.zipmap(r.string(), add)
	case typeHashZiplist:
		v.Kind = Hash
		r.ziplist(r.string(), add)
	case typeHashListpack:
		v.Kind = Hash
		r.listpack(r.string(), add)
	case typeHashValkey:
		v.Kind = Hash
		r.hashValkey(v)
	case typeHashTTLPre, typeHashTTLPackPre, typeHashTTL, typeHashTTLPack:
		v.Kind = Hash
		r.hashTTL(t, v)
	case typeStream, typeStream2, typeStream3:
		v.Kind = Stream
		r.stream(t, v)
	case typeModule2:
		r.module(v)
	case typeModule:
		r.fail(ErrUnsupported)
	default:
		r.failf("type %d", t)
	}
	r.check(v)
}

// The containers of a quicklist of the second form.
const (
	plainNode  = 1 // one large element
	packedNode = 2 // a listpack
)

func (r *reader) quicklist2(v *Value, add func(elem []byte)) {
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		r.cut(v)
		switch c := r.length(); c {
		case plainNode:
			add(r.string())
		case packedNode:
			r.listpack(r.string(), add)
		default:
			r.failf("quicklist node of kind %d", c)
		}
	}
}

// splitScores takes the scores out of members and scores in turn.
func (r *reader) splitScores(v *Value) {
	if len(v.Elems)%2 != 0 {
		r.failf("%d members and scores", len(v.Elems))
	}
	if r.err != nil {
		return
	}
	n := len(v.Elems) / 2
	v.Scores = make([]float64, n)
	for i := range n {
		v.Scores[i] = r.parseScore(v.Elems[2*i+1])
		v.Elems[i] = v.Elems[2*i]
	}
	v.Elems = v.Elems[:n]
}

// hashTTL reads a hash of which fields expire. In the plain forms an expiry comes before its field: 0 when there is
// none, else in releases by how much it is later than the first one, plus 1.
func (r *reader) hashTTL(t byte, v *Value) {
	first := uint64(0)
	if t == typeHashTTL || t == typeHashTTLPack {
		first = r.u64()
	}
	if t == typeHashTTLPackPre || t == typeHashTTLPack {
		i := 0
		r.eachListpack(r.string(), func(elem []byte, n int64, isInt bool) {
			if i++; i%3 == 0 {
				if !isInt || n < 0 {
					r.failf("expiry of a field")
				}
				v.Expires = append(v.Expires, uint64(n))
				return
			}
			if isInt {
				elem = r.int(n)
			} else {
				r.spend(elemCost)
			}
			v.Elems = append(v.Elems, elem)
		})
		if i%3 != 0 {
			r.failf("%d fields, values and expiries", i)
		}
	} else {
		for n := r.count(3); n > 0 && r.err == nil; n-- {
			at := r.length()
			if at != 0 && t == typeHashTTL {
				if at += first - 1; at < first {
					r.failf("expiry of a field")
				}
			}
			v.Expires = append(v.Expires, at)
			v.Elems = append(v.Elems, r.string())
			v.Elems = append(v.Elems, r.string())
			r.cut(v)
		}
	}
	r.checkExpiries(v)
}

// hashValkey reads a hash of Valkey of which fields expire.
func (r *reader) hashValkey(v *Value) {
	for n := r.count(2 + 8); n > 0 && r.err == nil; n-- {
		v.Elems = append(v.Elems, r.string())
		v.Elems = append(v.Elems, r.string())
		at := r.u64()
		switch {
		case at == math.MaxUint64:
			at = 0
		case at == 0:
			at = 1 // has passed, and 0 stands for none
		}
		v.Expires = append(v.Expires, at)
		r.cut(v)
	}
	r.checkExpiries(v)
}

// checkExpiries drops the expiries of a hash when there is none, unless parts of it had some.
func (r *reader) checkExpiries(v *Value) {
	if r.parts == 0 && !slices.ContainsFunc(v.Expires, func(at uint64) bool { return at != 0 }) {
		v.Expires = nil
	}
}

// check makes sure of what is common to all forms of a kind.
func (r *reader) check(v *Value) {
	if r.err != nil {
		return
	}
	step := 1
	switch v.Kind {
	case ZSet:
		for _, s := range v.Scores {
			if math.IsNaN(s) {
				r.failf("score that is no number")
				return
			}
		}
	case Hash:
		if step = 2; len(v.Elems)%2 != 0 {
			r.failf("%d fields and values", len(v.Elems))
			return
		}
		for _, at := range v.Expires {
			if at > math.MaxInt64 {
				r.failf("expiry of a field")
				return
			}
		}
	case Set:
	default:
		return
	}
	if repeats(v.Elems, step) {
		r.failf("%s with something twice", v.Kind)
	}
}

// few is up to how many elements comparing each with each is cheapest.
const few = 12

var seed = maphash.MakeSeed()

// repeats reports whether two of every step-th elements are equal.
func repeats(elems [][]byte, step int) bool {
	if len(elems) <= few*step {
		for i := 0; i < len(elems); i += step {
			for j := 0; j < i; j += step {
				if bytes.Equal(elems[i], elems[j]) {
					return true
				}
			}
		}
		return false
	}
	// A hash table of indexes, at most half full, that is probed step by step.
	size := 16
	for size < 2*len(elems)/step {
		size *= 2
	}
	table := make([]uint32, size) // index + 1
	for i := 0; i < len(elems); i += step {
		at := int(maphash.Bytes(seed, elems[i])) & (size - 1)
		for ; table[at] != 0; at = (at + 1) & (size - 1) {
			if bytes.Equal(elems[table[at]-1], elems[i]) {
				return true
			}
		}
		table[at] = uint32(i + 1)
	}
	return false
}

// ReadString reads one string at the beginning of b and returns what follows it. It has at most maxBytes.
func ReadString(b []byte, maxBytes int64) (s, rest []byte, err error) {
	r := reader{b: b, budget: maxBytes}
	s = r.string()
	if r.err != nil {
		return nil, nil, r.err
	}
	return s, r.b, nil
}
