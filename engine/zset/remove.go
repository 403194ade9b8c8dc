package zset

import (
	"bytes"
	"cmp"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Remove removes members and returns how many the set contained.
func Remove(tx *engine.Tx, key []byte, members [][]byte) (int, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	w := writer{tx: tx, rec: rec}
	repeats := engine.NewRepeats(len(members))
	err = eachScore(tx, &w.rec, members, func(i int, score float64, found bool) {
		if found && !repeats.Again(members[i]) {
			w.remove(members[i], score)
		}
	})
	if err != nil {
		return 0, err
	}
	w.done()
	return int(-w.grown), nil
}

// remove removes one member.
func (w *writer) remove(member []byte, score float64) {
	w.log()
	w.tx.DeleteSubkey(cf.Default, w.tx.Subkey(&w.rec, member))
	w.deleteScore(w.tx.ScoreKey(&w.rec, score, member))
	w.grown--
}

// RemoveRange removes the members that a query selects and returns their number. The query must not have Offset, Count
// or Reverse.
func RemoveRange(tx *engine.Tx, key []byte, q *Query) (int, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	w := writer{tx: tx, rec: rec}
	all := *q
	all.Offset, all.Count, all.Reverse = 0, -1, false
	if q.By == ByLex {
		err = w.removeLex(&all)
	} else {
		// Kvrocks writes no log data when it removes by rank.
		w.logged = q.By == ByRank
		err = w.removeByScore(&all)
	}
	if err != nil {
		return 0, err
	}
	w.done()
	return int(-w.grown), nil
}

// removeLex deletes the score key of each member first: Kvrocks's order.
func (w *writer) removeLex(q *Query) error {
	remove := func(member []byte, score float64) {
		w.log()
		w.deleteScore(w.tx.ScoreKey(&w.rec, score, member))
		w.tx.DeleteSubkey(cf.Default, w.tx.Subkey(&w.rec, member))
		w.grown--
	}
	if w.rec.Size <= smallSize {
		return smallLex(w.tx, &w.rec, q, remove)
	}
	s, ok := q.span(w.tx, &w.rec)
	if !ok {
		return nil
	}
	it, _ := s.open(w.tx, &w.rec, false, 0, math.MaxUint64)
	if it == nil {
		return nil
	}
	defer it.Close()
	for w.tx.BatchError() == nil && it.Next() {
		member, score, err := entryOf(w.tx, &w.rec, s.id, it.Key(), it.Value())
		if err != nil {
			return err
		}
		remove(member, score)
	}
	return cmp.Or(it.Err(), w.tx.BatchError())
}

// fits returns an error if there is no room in the write batch for the removal of n members.
func (w *writer) fits(n uint64) error {
	return w.tx.SubkeysFit(&w.rec, 2*n, cf.ScoreLen/2) // the score of a member is in one of its two records
}

// removeByScore removes a range by rank or by score.
func (w *writer) removeByScore(q *Query) error {
	s, ok := q.span(w.tx, &w.rec)
	if !ok || s.skip >= s.total {
		return nil
	}
	n := min(s.n, s.total-s.skip)
	if s.exact {
		if err := w.fits(n); err != nil {
			return err
		}
	}
	tail := s.total - s.skip - n
	if s.exact && s.skip > rankFarSteps {
		if a := findRanks(w.tx, &w.rec); a != nil {
			lower, skip, ok, err := a.seek(w.tx, &w.rec, s.skip)
			if err != nil {
				return err
			}
			if ok {
				s.lower, s.skip, s.exact = lower, skip, false
				return w.removeSpan(&s)
			}
		}
	}
	if s.exact && tail*backwardCost < s.skip {
		return w.removeFromEnd(&s, tail)
	}
	if err := w.removeSpan(&s); err != nil {
		return err
	}
	if q.By == ByScore && w.grown < 0 && s.upper != nil {
		w.cleared(&s)
	}
	return nil
}

// removeSpan removes the entries of a span in order.
func (w *writer) removeSpan(s *span) error {
	it, rest := s.open(w.tx, &w.rec, false, s.skip, s.n)
	if it == nil {
		return nil
	}
	defer it.Close()
	it.Skip(rest)
	for n := s.n; n > 0 && w.tx.BatchError() == nil && it.Next(); n-- {
		if _, _, err := splitScored(w.tx, &w.rec, it.Key()); err != nil {
			return err
		}
		w.removeScored(it.Key())
		if n == 1 && s.exact && s.skip == 0 {
			w.bound(it.Key(), false)
		}
	}
	return cmp.Or(it.Err(), w.tx.BatchError())
}

// removeFromEnd removes members deep in a large set. It reads them from the end, passing over tail others, but removes
// them in ascending order.
func (w *writer) removeFromEnd(s *span, tail uint64) error {
	t := tapes.Get().(*tape)
	defer t.release()
	if err := s.read(w.tx, &w.rec, true, tail, s.n, t.add); err != nil {
		return err
	}
	t.backwards(0, len(t.ents), w.remove)
	if n := len(t.ents); n > 0 && tail == 0 {
		w.tx.SetHighBound(&w.rec, w.tx.SubkeyPrefix(&w.rec), w.tx.ScoreKey(&w.rec, t.ents[n-1].score, t.member(n-1)))
	}
	return nil
}

// bound records that no member is left up to the given zset_score subkey, with highest: from it on.
func (w *writer) bound(sub []byte, highest bool) {
	prefix := w.tx.SubkeyPrefix(&w.rec)
	if key := w.tx.Subkey(&w.rec, sub); highest {
		w.tx.SetHighBound(&w.rec, prefix, key)
	} else {
		w.tx.SetLowBound(&w.rec, prefix, append(key, 0))
	}
}

// cleared records that no member is left within the bounds of a span. A moving window (a rate limiter, a queue ordered
// by time) leaves its tombstones at the beginning.
func (w *writer) cleared(s *span) {
	prefix := w.tx.SubkeyPrefix(&w.rec)
	first := scoreBound(prefix, cf.EncodeDouble(math.Inf(-1)))
	if low, _ := w.tx.Bounds(&w.rec, prefix); bytes.Compare(low, first) > 0 {
		first = low
	}
	if bytes.Compare(s.lower, first) <= 0 && bytes.Compare(s.upper, first) > 0 {
		w.tx.SetLowBound(&w.rec, prefix, s.upper)
	}
}

// Pop removes up to n members with the lowest scores, with highest those with the highest scores, and calls emit with
// them in the order of removal.
func Pop(tx *engine.Tx, key []byte, n uint64, highest bool, emit Emit) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || n == 0 {
		return err
	}
	w := writer{tx: tx, rec: rec, looked: true}
	if err := w.fits(min(n, rec.Size)); err != nil {
		return err
	}
	w.ranks, w.pops = engine.HaveState(tx, rankKind, &rec), makePops(tx, &rec)
	w.asked = true // the bounds of the set keep readers from what popped members leave
	if err := w.popRun(w.pops.run(highest), n, emit); err != nil {
		w.pops.Drop()
		return err
	}
	w.done()
	if w.rec.Size == 0 {
		w.pops.Drop()
	}
	return nil
}

// popRun pops members from a run and then, when it is used up, from the set.
func (w *writer) popRun(run *popRun, n uint64, emit Emit) error {
	w.popping = run
	n = min(n, w.rec.Size)
	for ; n > 0 && run.left() > 0; n-- {
		sub := run.at(run.pos)
		run.pos++
		if err := w.pop(sub, emit); err != nil {
			return err
		}
		if n == 1 {
			w.bound(sub, run.highest)
		}
	}
	if n == 0 {
		return nil
	}
	return w.popFresh(run, n, emit)
}

// pop removes the member of a zset_score subkey and calls emit with it.
func (w *writer) pop(sub []byte, emit Emit) error {
	member, score, err := splitScored(w.tx, &w.rec, sub)
	if err != nil {
		return err
	}
	w.removeScored(sub)
	emit(member, score)
	return nil
}

// popFresh pops members that the run does not hold, and fills the run with the entries that follow.
func (w *writer) popFresh(run *popRun, n uint64, emit Emit) error {
	ahead := run.reset()
	s := span{id: cf.ZSetScore}
	it, _ := s.open(w.tx, &w.rec, run.highest, 0, n+uint64(ahead))
	if it == nil {
		return nil
	}
	defer it.Close()
	for ; n > 0 && it.Next(); n-- {
		if err := w.pop(it.Key(), emit); err != nil {
			return err
		}
		if n == 1 {
			w.bound(it.Key(), run.highest)
		}
	}
	for ; ahead > 0 && it.Next() && run.add(it.Key()); ahead-- {
	}
	w.pops.Resize(w.pops.memory())
	return it.Err()
}
