package zset

import (
	"bytes"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// By says what the bounds of a [Query] mean.
type By uint8

// The kinds of bounds.
const (
	ByRank By = iota
	ByScore
	ByLex
)

// Query selects a range of members and their order.
type Query struct {
	By By
	// Start and Stop are the first and the last rank. Negative ranks count from the end (-1 = the last member). With
	// Reverse the member with the highest score has rank 0.
	Start, Stop int64
	Score       ScoreRange
	Lex         LexRange
	Reverse     bool // from the highest score or member to the lowest
	// In a range by score or by member, Offset members are skipped, and then at most Count are returned. A negative
	// Count is unlimited; a negative Offset returns nothing.
	Offset, Count int64
}

// Range calls emit with the members that the query selects.
//
// A range by member is meant for sets whose members all have the same score. Redis leaves the result undefined for
// other sets. Here it is the range in the byte order of the members, except in small sets (see [smallLex]).
func Range(tx *engine.Tx, key []byte, q *Query, emit Emit) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	if q.By == ByLex && rec.Size <= smallSize {
		return smallLex(tx, &rec, q, emit)
	}
	s, ok := q.span(tx, &rec)
	if !ok {
		return nil
	}
	return s.run(tx, &rec, emit)
}

// span returns the range as a span; ok is false when the range is empty.
func (q *Query) span(tx *engine.Tx, rec *engine.Record) (s span, ok bool) {
	s = span{id: cf.ZSetScore, reverse: q.Reverse, total: rec.Size}
	if q.By == ByRank {
		from, n := q.ranks(rec.Size)
		s.skip, s.n, s.exact = from, n, true
		return s, n > 0
	}
	if q.Offset < 0 || q.Count == 0 {
		return s, false
	}
	s.skip, s.n = uint64(q.Offset), math.MaxUint64
	if q.Count > 0 {
		s.n = uint64(q.Count)
	}
	prefix := tx.SubkeyPrefix(rec)
	if q.By == ByLex {
		s.id = cf.Default
		s.lower, s.upper = q.Lex.bounds(prefix)
		s.exact = s.lower == nil && s.upper == nil
		return s, !q.Lex.empty()
	}
	if s.exact = q.Score.all(); !s.exact {
		s.lower, s.upper = q.Score.bounds(prefix)
	}
	return s, !q.Score.empty()
}

// ranks returns the first rank of a query by rank, and its number of members, in a set of size members.
func (q *Query) ranks(size uint64) (from, n uint64) {
	start, stop, last := q.Start, q.Stop, int64(size)-1
	if start < 0 {
		start = max(start+last+1, 0)
	}
	if stop < 0 {
		stop += last + 1
	}
	if stop = min(stop, last); start > stop {
		return 0, 0
	}
	return uint64(start), uint64(stop-start) + 1
}

// smallSize is the max size of a set that Redis stores as one listpack.
const smallSize = 128

// smallLex is a range by member of a small set, in score order. When the scores differ, it returns what Redis returns
// from a listpack: the members from the first one that is not before the range up to, excluding, the next one that is
// after the range.
func smallLex(tx *engine.Tx, rec *engine.Record, q *Query, emit Emit) error {
	r := &q.Lex
	if r.empty() || q.Offset < 0 || q.Count == 0 {
		return nil
	}
	t := tapes.Get().(*tape)
	defer t.release()
	s := span{id: cf.ZSetScore, n: math.MaxUint64, total: rec.Size, exact: true}
	if err := s.run(tx, rec, t.add); err != nil {
		return err
	}
	n := len(t.ents)
	if n == 0 || !r.after(t.member(n-1)) || !r.before(t.member(0)) {
		return nil
	}
	i, step, enter, stay := 0, 1, r.after, r.before
	if q.Reverse {
		i, step, enter, stay = n-1, -1, r.before, r.after
	}
	for i >= 0 && i < n && !enter(t.member(i)) {
		i += step
	}
	if i < 0 || i >= n || !stay(t.member(i)) {
		return nil
	}
	i += step * int(min(q.Offset, smallSize))
	for left := q.Count; left != 0 && i >= 0 && i < n && stay(t.member(i)); left-- {
		emit(t.member(i), t.ents[i].score)
		i += step
	}
	return nil
}

// Count returns how many members have a score in the range.
func Count(tx *engine.Tx, key []byte, r ScoreRange) (uint64, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || r.empty() {
		return 0, err
	}
	if r.all() {
		return rec.Size, nil
	}
	s := span{id: cf.ZSetScore}
	s.lower, s.upper = r.bounds(tx.SubkeyPrefix(&rec))
	a, err := wholeSet(tx, &rec)
	if err != nil {
		return 0, err
	}
	if a != nil {
		if from, to, ok, err := s.ranks(tx, &rec, a); ok || err != nil {
			return to - min(from, to), err
		}
	}
	if rec.Size <= rankNearSteps {
		return s.count(tx, &rec)
	}
	build, it := wantRanks(tx, &rec)
	n, err := s.count(tx, &rec)
	if n > rankFarSteps {
		engine.AskedState(tx, rankKind, &rec)
	}
	return n, build.settle(it, &rec, err)
}

// LexCount returns how many members are in the range, see [Range].
func LexCount(tx *engine.Tx, key []byte, r LexRange) (n uint64, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || r.empty() {
		return 0, err
	}
	if rec.Size <= smallSize {
		err = smallLex(tx, &rec, &Query{By: ByLex, Lex: r, Count: -1}, func([]byte, float64) { n++ })
		return n, err
	}
	s := span{id: cf.Default}
	if s.lower, s.upper = r.bounds(tx.SubkeyPrefix(&rec)); s.lower == nil && s.upper == nil {
		return rec.Size, nil
	}
	return s.count(tx, &rec)
}

// Rank returns the score of a member and how many members come before it, with reverse: after it.
func Rank(tx *engine.Tx, key, member []byte, reverse bool) (rank uint64, score float64, found bool, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, 0, false, err
	}
	score, found, err = scoreOf(tx, &rec, member)
	if err != nil || !found {
		return 0, 0, false, err
	}
	rank, err = rankOf(tx, &rec, score, member)
	if reverse {
		rank = rec.Size - 1 - min(rank, rec.Size-1)
	}
	return rank, score, true, err
}

// rankOf counts the members before a member.
func rankOf(tx *engine.Tx, rec *engine.Record, score float64, member []byte) (uint64, error) {
	at := bytes.Clone(tx.ScoreKey(rec, score, member))
	sub := at[len(tx.SubkeyPrefix(rec)):]
	if a := findRanks(tx, rec); a != nil {
		if n, ok, err := a.rank(tx, rec, sub, true); ok || err != nil {
			return n, err
		}
	}
	build, it := wantRanks(tx, rec)
	if rec.Size > rankSingle {
		n, err := rankFromEnds(tx, rec, at)
		if min(n, rec.Size-min(n, rec.Size)) > rankFarSteps {
			engine.AskedState(tx, rankKind, rec)
		}
		return n, build.settle(it, rec, err)
	}
	if build != nil { // filling the counts costs about as much as counting
		if err := build.settle(it, rec, nil); err != nil {
			return 0, err
		}
		if n, ok, err := build.rank(tx, rec, sub, true); ok || err != nil {
			return n, err
		}
	}
	engine.AskedState(tx, rankKind, rec)
	before := span{id: cf.ZSetScore, upper: at}
	return before.count(tx, rec)
}

// rankChunk is how many members are counted from each side at first.
const rankChunk = 256

// rankFromEnds counts the members before a key. It does not know which side is shorter, so it counts alternately from
// the beginning of the set and from the key on, twice as many each time, until one side reaches its end: at most about
// four times as many steps as the shorter side has.
func rankFromEnds(tx *engine.Tx, rec *engine.Record, at []byte) (uint64, error) {
	// Both iterators are opened before the locks are released, so they see the same state.
	sides := [2]span{{id: cf.ZSetScore, upper: at}, {id: cf.ZSetScore, lower: at}}
	var its [2]*engine.Iter
	for i := range sides {
		its[i], _ = sides[i].open(tx, rec, false, 0, 1)
		if its[i] == nil {
			return 0, nil
		}
		defer its[i].Close()
	}
	tx.ReadsDone()
	var n [2]uint64
	for chunk := uint64(rankChunk); ; chunk *= 2 {
		for i, it := range its {
			got := it.Skip(chunk)
			n[i] += got
			if err := it.Err(); err != nil {
				return 0, err
			}
			if got == chunk {
				continue
			}
			if i == 0 {
				return n[0], nil
			}
			return rec.Size - min(n[1], rec.Size), nil
		}
	}
}

// RangeEntries returns the members that the query selects.
func RangeEntries(tx *engine.Tx, key []byte, q *Query) ([]Entry, error) {
	var entries []Entry
	var names arena
	err := Range(tx, key, q, func(member []byte, score float64) {
		entries = append(entries, Entry{names.copy(member), score})
	})
	return entries, err
}
