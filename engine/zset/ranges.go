package zset

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ScoreRanges calls emit with the members whose scores are in each of the ranges, lowest score first, one range
// after the other; i is the index of the range. It ends when emit returns false. Nothing outside the ranges is read.
//
// All ranges show the same state of the set: a reader's locks are given back when the last one is open.
func ScoreRanges(tx *engine.Tx, key []byte, ranges []ScoreRange, emit func(i int, member []byte, score float64) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	for i := range ranges {
		more, err := scoreRange(tx, &rec, ranges, i, emit)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if !more {
			break
		}
	}
	return nil
}

func scoreRange(tx *engine.Tx, rec *engine.Record, ranges []ScoreRange, i int, emit func(i int, member []byte, score float64) bool) (more bool, err error) {
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
		member, score, err := entryOf(cf.ZSetScore, it.Key(), nil)
		if err != nil {
			return false, err
		}
		if !emit(i, member, score) {
			return false, nil
		}
	}
	return true, it.Err()
}
