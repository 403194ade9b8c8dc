package rdb

import (
	"math"
	"slices"

	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// Decode parses the type and value at the beginning of body. It ignores bytes after them, as Redis does. The result,
// with the memory needed to parse it, must fit into maxBytes. Uncompressed strings are slices of body and count only
// for their slice headers.
func Decode(body []byte, maxBytes int64) (*Value, error) {
	r := reader{Reader: raw.NewReader(body, maxBytes)}
	v := &Value{}
	t := r.Byte()
	if t == typeHashValkey {
		r.Failf("type %d", t)
	}
	if r.Err == nil {
		r.value(t, v)
	}
	if r.Err == nil && v.Kind <= Hash && v.Kind != String && len(v.Elems) == 0 {
		r.Failf("empty %s", v.Kind)
	}
	if r.Err != nil {
		return nil, r.Err
	}
	return v, nil
}

func (r *reader) value(t byte, v *Value) {
	add := func(elem []byte) { v.Elems = append(v.Elems, elem) }
	switch t {
	case typeString:
		v.Kind, v.String = String, r.String()
	case typeList, typeSet:
		v.Kind = Set
		if t == typeList {
			v.Kind = List
		}
		for n := r.Count(1); n > 0 && r.Err == nil; n-- {
			add(r.String())
			r.cut(v)
		}
	case typeListZiplist:
		v.Kind = List
		r.Ziplist(r.String(), add)
	case typeQuicklist:
		v.Kind = List
		for n := r.Count(1); n > 0 && r.Err == nil; n-- {
			r.Ziplist(r.String(), add)
			r.cut(v)
		}
	case typeQuicklist2:
		v.Kind = List
		r.quicklist2(v, add)
	case typeSetIntset:
		v.Kind = Set
		r.Intset(r.String(), add)
	case typeSetListpack:
		v.Kind = Set
		r.Listpack(r.String(), add)
	case typeZSet, typeZSet2:
		v.Kind = ZSet
		for n := r.Count(2); n > 0 && r.Err == nil; n-- {
			add(r.String())
			if t == typeZSet2 {
				v.Scores = append(v.Scores, math.Float64frombits(r.U64()))
			} else {
				v.Scores = append(v.Scores, r.Score())
			}
			r.cut(v)
		}
	case typeZSetZiplist:
		v.Kind = ZSet
		r.Ziplist(r.String(), add)
		r.splitScores(v)
	case typeZSetListpack:
		v.Kind = ZSet
		r.Listpack(r.String(), add)
		r.splitScores(v)
	case typeHash:
		v.Kind = Hash
		for n := r.Count(2); n > 0 && r.Err == nil; n-- {
			add(r.String())
			add(r.String())
			r.cut(v)
		}
	case typeHashZipmap:
		v.Kind = Hash
		r.Zipmap(r.String(), add)
	case typeHashZiplist:
		v.Kind = Hash
		r.Ziplist(r.String(), add)
	case typeHashListpack:
		v.Kind = Hash
		r.Listpack(r.String(), add)
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
		r.Fail(ErrUnsupported)
	default:
		r.Failf("type %d", t)
	}
	r.check(v)
}

// The containers of a quicklist of the second form.
const (
	plainNode  = 1 // one large element
	packedNode = 2 // a listpack
)

func (r *reader) quicklist2(v *Value, add func(elem []byte)) {
	for n := r.Count(2); n > 0 && r.Err == nil; n-- {
		r.cut(v)
		switch c := r.Length(); c {
		case plainNode:
			add(r.String())
		case packedNode:
			r.Listpack(r.String(), add)
		default:
			r.Failf("quicklist node of kind %d", c)
		}
	}
}

// splitScores separates members and scores, which alternate.
func (r *reader) splitScores(v *Value) {
	if len(v.Elems)%2 != 0 {
		r.Failf("%d members and scores", len(v.Elems))
	}
	if r.Err != nil {
		return
	}
	n := len(v.Elems) / 2
	v.Scores = make([]float64, n)
	for i := range n {
		v.Scores[i] = r.ParseScore(v.Elems[2*i+1])
		v.Elems[i] = v.Elems[2*i]
	}
	v.Elems = v.Elems[:n]
}

// hashTTL reads a hash with expiring fields. In the plain forms an expiry precedes its field: 0 = none; otherwise, in
// released versions, its difference from the earliest one plus 1.
func (r *reader) hashTTL(t byte, v *Value) {
	first := uint64(0)
	if t == typeHashTTL || t == typeHashTTLPack {
		first = r.U64()
	}
	if t == typeHashTTLPackPre || t == typeHashTTLPack {
		i := 0
		r.EachListpack(r.String(), func(elem []byte, n int64, isInt bool) {
			if i++; i%3 == 0 {
				if !isInt || n < 0 {
					r.Failf("expiry of a field")
				}
				v.Expires = append(v.Expires, uint64(n))
				return
			}
			if isInt {
				elem = r.IntText(n)
			} else {
				r.Spend(raw.ElemCost)
			}
			v.Elems = append(v.Elems, elem)
		})
		if i%3 != 0 {
			r.Failf("%d fields, values and expiries", i)
		}
	} else {
		for n := r.Count(3); n > 0 && r.Err == nil; n-- {
			at := r.Length()
			if at != 0 && t == typeHashTTL {
				if at += first - 1; at < first {
					r.Failf("expiry of a field")
				}
			}
			v.Expires = append(v.Expires, at)
			v.Elems = append(v.Elems, r.String())
			v.Elems = append(v.Elems, r.String())
			r.cut(v)
		}
	}
	r.checkExpiries(v)
}

func (r *reader) hashValkey(v *Value) {
	for n := r.Count(2 + 8); n > 0 && r.Err == nil; n-- {
		v.Elems = append(v.Elems, r.String())
		v.Elems = append(v.Elems, r.String())
		at := r.U64()
		switch {
		case at == math.MaxUint64:
			at = 0
		case at == 0:
			at = 1 // it has passed, and 0 would mean none
		}
		v.Expires = append(v.Expires, at)
		r.cut(v)
	}
	r.checkExpiries(v)
}

// checkExpiries drops the expiries of a hash without any, unless earlier parts of it had some.
func (r *reader) checkExpiries(v *Value) {
	if r.parts == 0 && !slices.ContainsFunc(v.Expires, func(at uint64) bool { return at != 0 }) {
		v.Expires = nil
	}
}

// check checks the rules that all forms of a kind share.
func (r *reader) check(v *Value) {
	if r.Err != nil {
		return
	}
	step := 1
	switch v.Kind {
	case ZSet:
		if slices.ContainsFunc(v.Scores, math.IsNaN) {
			r.Failf("score that is no number")
			return
		}
	case Hash:
		if step = 2; len(v.Elems)%2 != 0 {
			r.Failf("%d fields and values", len(v.Elems))
			return
		}
		for _, at := range v.Expires {
			if at > math.MaxInt64 {
				r.Failf("expiry of a field")
				return
			}
		}
	case Set:
	default:
		return
	}
	if raw.Repeats(v.Elems, step) {
		r.Failf("%s with something twice", v.Kind)
	}
}

// ReadString reads a string of at most maxBytes at the beginning of b. It returns the rest of b, too.
func ReadString(b []byte, maxBytes int64) (s, rest []byte, err error) {
	return raw.ReadString(b, maxBytes)
}
