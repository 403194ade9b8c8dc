package zset

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ScoreRanges calls emit with the members whose scores are in each of the ranges, one range after the other, lowest
// score first; i is the index of the range. It ends when emit returns false. It reads nothing outside the ranges,
// except a few members between adjacent ranges.
//
// All ranges show the same state of the set: a reader's locks are released when the last iterator is open.
func ScoreRanges(tx *engine.Tx, key []byte, ranges []ScoreRange, emit func(i int, member []byte,
	score float64) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	if len(ranges) > 1 && ascending(ranges) {
		err = scoreParts(tx, &rec, ranges, emit)
	} else {
		for i, more := 0, true; i < len(ranges) && more && err == nil; i++ {
			more, err = scoreRange(tx, &rec, ranges, i, emit)
		}
	}
	return err
}

// ascending reports whether no range is empty and each range lies before the next.
func ascending(ranges []ScoreRange) bool {
	for i := range ranges {
		r := &ranges[i]
		if r.empty() || i > 0 && (ranges[i-1].Max > r.Min || ranges[i-1].Max == r.Min && !ranges[i-1].MaxOpen && !r.MinOpen) {
			return false
		}
	}
	return true
}

// scoreParts reads ascending ranges with one iterator.
func scoreParts(tx *engine.Tx, rec *engine.Record, ranges []ScoreRange,
	emit func(i int, member []byte, score float64) bool) error {
	prefix := tx.SubkeyPrefix(rec)
	parts := make([]byte, 0, 2*cf.ScoreLen*len(ranges))
	for i := range ranges {
		lower, upper := ranges[i].encoded()
		parts = appendScore(appendScore(parts, lower), upper)
	}
	s := span{id: cf.ZSetScore, lower: append(prefix[:len(prefix):len(prefix)], parts[:cf.ScoreLen]...),
		upper: append(prefix[:len(prefix):len(prefix)], parts[len(parts)-cf.ScoreLen:]...), parts: parts}
	it, _ := s.open(tx, rec, false, 0, 0)
	if it == nil {
		return nil
	}
	defer it.Close()
	tx.ReadsDone()
	i := 0
	for it.Next() {
		member, score, err := entryOf(tx, rec, cf.ZSetScore, it.Key(), nil)
		if err != nil {
			return err
		}
		for i < len(ranges)-1 && (score > ranges[i].Max || score == ranges[i].Max && ranges[i].MaxOpen) {
			i++
		}
		if !emit(i, member, score) {
			return nil
		}
	}
	return it.Err()
}

func scoreRange(tx *engine.Tx, rec *engine.Record, ranges []ScoreRange, i int,
	emit func(i int, member []byte, score float64) bool) (more bool, err error) {
	r := &ranges[i]
	if r.empty() {
		return true, nil
	}
	s := span{id: cf.ZSetScore}
	s.lower, s.upper = r.bounds(tx.SubkeyPrefix(rec))
	it, _ := s.open(tx, rec, false, 0, 0)
	if it == nil {
		return true, nil
	}
	defer it.Close()
	if i == len(ranges)-1 {
		tx.ReadsDone()
	}
	for it.Next() {
		member, score, err := entryOf(tx, rec, cf.ZSetScore, it.Key(), nil)
		if err != nil {
			return false, err
		}
		if !emit(i, member, score) {
			return false, nil
		}
	}
	return true, it.Err()
}
