package zset

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/basaltdb/basalt/cf"
)

// ScoreRange is the range of scores from Min to Max. It does not include a bound that is Open.
type ScoreRange struct {
	Min, Max         float64
	MinOpen, MaxOpen bool
}

// AllScores is the range of all scores.
var AllScores = ScoreRange{Min: math.Inf(-1), Max: math.Inf(1)}

func (r *ScoreRange) empty() bool {
	return r.Min > r.Max || r.Min == r.Max && (r.MinOpen || r.MaxOpen)
}

// all reports whether the range contains every score.
func (r *ScoreRange) all() bool {
	return math.IsInf(r.Min, -1) && math.IsInf(r.Max, 1) && !r.MinOpen && !r.MaxOpen
}

// bounds returns the range as keys of the zset_score family, [lower, upper).
func (r *ScoreRange) bounds(prefix []byte) (lower, upper []byte) {
	lo, hi := r.encoded()
	return scoreBound(prefix, lo), scoreBound(prefix, hi)
}

// encoded returns the range as encodings of scores, [lo, hi). The equal scores 0 and -0 have two adjacent encodings.
func (r *ScoreRange) encoded() (lo, hi uint64) {
	lo, hi = cf.EncodeDouble(r.Min), cf.EncodeDouble(r.Max)
	if r.Min == 0 {
		lo = cf.EncodeDouble(math.Copysign(0, -1))
		if r.MinOpen {
			lo = cf.EncodeDouble(0)
		}
	}
	if r.MinOpen {
		lo++ // no overflow: the encodings end before those of NaN
	}
	if r.Max == 0 {
		hi = cf.EncodeDouble(0)
		if r.MaxOpen {
			hi = cf.EncodeDouble(math.Copysign(0, -1))
		}
	}
	if !r.MaxOpen {
		hi++
	}
	return lo, hi
}

func scoreBound(prefix []byte, encoded uint64) []byte {
	b := make([]byte, 0, len(prefix)+cf.ScoreLen)
	return appendScore(append(b, prefix...), encoded)
}

func appendScore(dst []byte, encoded uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, encoded)
}

// LexBound is one end of a range of members.
type LexBound struct {
	Member   []byte
	Open     bool // the range does not include the member itself
	Infinite int8 // -1 = before all members, 1 = after all members; the other fields are ignored then
}

// LexRange is the range of members from Min to Max in byte order.
type LexRange struct{ Min, Max LexBound }

// AllMembers is the range of all members.
var AllMembers = LexRange{Min: LexBound{Infinite: -1}, Max: LexBound{Infinite: 1}}

func (r *LexRange) empty() bool {
	switch {
	case r.Min.Infinite > 0 || r.Max.Infinite < 0:
		return true
	case r.Min.Infinite < 0 || r.Max.Infinite > 0:
		return false
	}
	c := bytes.Compare(r.Min.Member, r.Max.Member)
	return c > 0 || c == 0 && (r.Min.Open || r.Max.Open)
}

// after reports whether a member is in the range or after it.
func (r *LexRange) after(member []byte) bool {
	if r.Min.Infinite != 0 {
		return r.Min.Infinite < 0
	}
	c := bytes.Compare(member, r.Min.Member)
	return c > 0 || c == 0 && !r.Min.Open
}

// before reports whether a member is in the range or before it.
func (r *LexRange) before(member []byte) bool {
	if r.Max.Infinite != 0 {
		return r.Max.Infinite > 0
	}
	c := bytes.Compare(member, r.Max.Member)
	return c < 0 || c == 0 && !r.Max.Open
}

// bounds returns a non-empty range as keys of the default family, [lower, upper); nil = no bound.
func (r *LexRange) bounds(prefix []byte) (lower, upper []byte) {
	if r.Min.Infinite == 0 {
		lower = memberBound(prefix, r.Min.Member, r.Min.Open)
	}
	if r.Max.Infinite == 0 {
		upper = memberBound(prefix, r.Max.Member, !r.Max.Open)
	}
	return lower, upper
}

// memberBound returns the key of a member, or with next the smallest key after it.
func memberBound(prefix, member []byte, next bool) []byte {
	b := make([]byte, 0, len(prefix)+len(member)+1)
	b = append(append(b, prefix...), member...)
	if next {
		b = append(b, 0)
	}
	return b
}
