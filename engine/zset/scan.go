package zset

import (
	"bytes"
	"math"
	"sync"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// backwardCost is the cost of a step backward relative to a step forward. It was measured in a memtable, whose skip
// list has no backward pointers: a step backward is a search, about 1 microsecond instead of 0.09. In files the two
// cost nearly the same, but hot entries are in the memtable.
const backwardCost = 11

// deepSkip is the max number of entries that are skipped while the locks are held.
const deepSkip = 4096

// span is a run of entries of one family: those in [lower, upper) (nil = no bound), without the first skip entries, at
// most n. With reverse, skip and n count from the end.
type span struct {
	id           cf.ID
	lower, upper []byte
	skip, n      uint64
	reverse      bool
	total        uint64 // the number of entries in [lower, upper), or an upper bound of it
	exact        bool   // total is exact
	parts        []byte // only scores in these ranges: bounds as in engine.IterOptions.Parts; nil = all
}

// run calls emit with the entries of the span. It reads them from the side that it estimates to be cheaper. If that is
// the opposite side, it collects all entries and emits them in the right order afterwards.
func (s *span) run(tx *engine.Tx, rec *engine.Record, emit Emit) error {
	if s.n == 0 || s.skip >= s.total {
		return nil
	}
	s.n = min(s.n, s.total-s.skip)
	if s.id == cf.ZSetScore && (rec.Size < rankWhole || s.exact && s.n <= rankMaxRange) {
		a, err := wholeSet(tx, rec)
		if a != nil && err == nil {
			var done bool
			if done, err = s.runRanked(tx, rec, a, true, emit); done {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	near := s.skip + s.n // entries to read from the side where skip counts
	far := s.total       // entries to read from the opposite side
	if s.exact {
		far -= s.skip
	}
	turn := false
	most := s.n // entries that are kept when the span is read from the opposite side
	if !s.exact {
		most = s.total
	}
	if s.reverse {
		turn = far < near*backwardCost && most <= tapeMost
	} else {
		turn = s.exact && far*backwardCost < near && most <= tapeMost
	}
	vain := s.vain(turn)
	if s.id != cf.ZSetScore || vain < rankNearSteps {
		return s.runPlain(tx, rec, turn, emit)
	}
	if a := findRanks(tx, rec); a != nil {
		if done, err := s.runRanked(tx, rec, a, false, emit); done || err != nil {
			return err
		}
	}
	if vain < rankFarSteps {
		return s.runPlain(tx, rec, turn, emit)
	}
	build, it := wantRanks(tx, rec)
	engine.AskedState(tx, rankKind, rec)
	return build.settle(it, rec, s.runPlain(tx, rec, turn, emit))
}

// vain returns the cost of the entries that are read but not wanted, in steps forward.
func (s *span) vain(turn bool) uint64 {
	steps := s.skip + s.n
	switch {
	case turn && s.exact:
		steps = s.total - s.skip
	case turn:
		steps = s.total
	}
	if turn != s.reverse {
		steps *= backwardCost
	}
	return steps - s.n
}

func (s *span) runPlain(tx *engine.Tx, rec *engine.Record, turn bool, emit Emit) error {
	if !turn {
		return s.read(tx, rec, s.reverse, s.skip, s.n, emit)
	}
	if s.exact {
		// These are the same entries, counted from the opposite side.
		return s.readTurned(tx, rec, !s.reverse, s.total-s.skip-s.n, s.n, 0, s.n, emit)
	}
	return s.readTurned(tx, rec, !s.reverse, 0, s.total, s.skip, s.n, emit)
}

// runRanked is run with the counts of the set, or with kept with its kept entries only; done is false when they cannot
// be used.
func (s *span) runRanked(tx *engine.Tx, rec *engine.Record, a *ranks, kept bool, emit Emit) (done bool, err error) {
	start, total, n := uint64(0), s.total, s.n
	if !s.exact {
		from, to, ok, err := s.ranks(tx, rec, a)
		if !ok || err != nil {
			return false, err
		}
		if start, total = from, to-min(from, to); s.skip >= total {
			return true, nil
		}
		n = min(n, total-s.skip)
	}
	if s.reverse {
		start += total - s.skip - n
	} else {
		start += s.skip
	}
	if n <= rankMaxRange || rec.Size < rankWhole {
		t := tapes.Get().(*tape)
		defer t.release()
		if done, err = a.read(tx, rec, start, n, t); err != nil {
			return false, err
		}
		if done {
			tx.ReadsDone()
			t.emit(s.reverse, emit)
			return true, nil
		}
	}
	if kept {
		return false, nil
	}
	lower, skip, ok, err := a.seek(tx, rec, start)
	if !ok || err != nil {
		return false, err
	}
	r := span{id: s.id, lower: lower}
	if s.reverse && n > tapeMost {
		return false, nil
	}
	if s.reverse {
		return true, r.readTurned(tx, rec, false, skip, n, 0, n, emit)
	}
	return true, r.read(tx, rec, false, skip, n, emit)
}

// ranks returns how many entries of the set are before the span's lower and upper bounds.
func (s *span) ranks(tx *engine.Tx, rec *engine.Record, a *ranks) (from, to uint64, ok bool, err error) {
	strip := len(tx.SubkeyPrefix(rec))
	if from, ok, err = a.rank(tx, rec, s.lower[strip:], false); !ok || err != nil {
		return 0, 0, false, err
	}
	to, ok, err = a.rank(tx, rec, s.upper[strip:], false)
	return from, to, ok, err
}

// readTurned reads entries in one direction and emits n of them, after the first drop, in the opposite direction.
func (s *span) readTurned(tx *engine.Tx, rec *engine.Record, reverse bool, skip, limit, drop, n uint64,
	emit Emit) error {
	t := tapes.Get().(*tape)
	defer t.release()
	if err := s.read(tx, rec, reverse, skip, limit, t.add); err != nil {
		return err
	}
	have := uint64(len(t.ents))
	drop = min(drop, have)
	t.backwards(int(drop), int(drop+min(n, have-drop)), emit)
	return nil
}

// read reads the entries in one direction. It releases a reader's locks as soon as the iterator, which is a snapshot,
// is open.
func (s *span) read(tx *engine.Tx, rec *engine.Record, reverse bool, skip, n uint64, emit Emit) error {
	it, rest := s.open(tx, rec, reverse, skip, n)
	if it == nil {
		return nil
	}
	defer it.Close()
	tx.ReadsDone()
	it.Skip(rest)
	for ; n > 0 && it.Next(); n-- {
		member, score, err := entryOf(tx, rec, s.id, it.Key(), it.Value())
		if err != nil {
			return err
		}
		emit(member, score)
	}
	return it.Err()
}

// open opens an iterator to read n entries after skip others; rest is how many of the others it has yet to pass. The
// iterator is nil when the range is empty.
func (s *span) open(tx *engine.Tx, rec *engine.Record, reverse bool, skip, n uint64) (it *engine.Iter, rest uint64) {
	prefix := tx.SubkeyPrefix(rec)
	o := engine.IterOptions{Prefix: prefix, Lower: s.lower, Upper: s.upper, Reverse: reverse,
		KeysOnly: s.id == cf.ZSetScore,
		Skip:     skip, Limit: int(min(n, 1<<20))}
	if s.parts != nil {
		o.Parts, o.SliceLen = s.parts, cf.ScoreLen
	}
	if s.id == cf.ZSetScore {
		// Outside the known bounds may be nothing but the tombstones of popped members.
		low, high := tx.Bounds(rec, prefix)
		if bytes.Compare(low, o.Lower) > 0 {
			o.Lower = low
		}
		if high != nil && (o.Upper == nil || bytes.Compare(high, o.Upper) < 0) {
			o.Upper = high
		}
		if o.Lower != nil && o.Upper != nil && bytes.Compare(o.Lower, o.Upper) >= 0 {
			return nil, 0
		}
	}
	if skip > deepSkip {
		o.Skip, o.Limit, rest = 0, 1, skip
	}
	return tx.Iter(s.id, o), rest
}

// count returns how many entries are in [lower, upper).
func (s *span) count(tx *engine.Tx, rec *engine.Record) (uint64, error) {
	it, _ := s.open(tx, rec, false, 0, 1)
	if it == nil {
		return 0, nil
	}
	defer it.Close()
	tx.ReadsDone()
	n := it.Skip(math.MaxUint64)
	return n, it.Err()
}

// entryOf decodes an entry of either family.
func entryOf(tx *engine.Tx, rec *engine.Record, id cf.ID, sub, value []byte) (member []byte, score float64, err error) {
	if id == cf.ZSetScore {
		return splitScored(tx, rec, sub)
	}
	score, err = parseScore(tx, rec, value)
	return sub, score, err
}

// tapeMost is the max number of entries that are read in one direction to be emitted in the other.
const tapeMost = 1 << 18

// tape holds entries that are emitted later.
type tape struct {
	data []byte // the members, concatenated
	ents []tapeEntry
	add  Emit // appends an entry
}

type tapeEntry struct {
	score   float64
	at, end int
}

// Without the pool ZREVRANGE of 10, of a set whose entries are not kept, takes 1.1 times the CPU time.
var tapes = sync.Pool{New: func() any {
	t := new(tape)
	t.add = func(member []byte, score float64) {
		at := len(t.data)
		t.data = append(t.data, member...)
		t.ents = append(t.ents, tapeEntry{score, at, len(t.data)})
	}
	return t
}}

// tapeKeep is the max size in bytes of each slice of a tape that goes back to the pool.
const tapeKeep = 1 << 20

func (t *tape) release() {
	if cap(t.data) > tapeKeep || cap(t.ents)*24 > tapeKeep {
		return
	}
	t.data, t.ents = t.data[:0], t.ents[:0]
	tapes.Put(t)
}

func (t *tape) member(i int) []byte { return t.data[t.ents[i].at:t.ents[i].end] }

// emit emits all entries.
func (t *tape) emit(reverse bool, emit Emit) {
	if reverse {
		t.backwards(0, len(t.ents), emit)
		return
	}
	for i := range t.ents {
		emit(t.member(i), t.ents[i].score)
	}
}

// backwards emits the entries [from, to), counted from the end of the tape.
func (t *tape) backwards(from, to int, emit Emit) {
	for i := len(t.ents) - 1 - from; i >= len(t.ents)-to; i-- {
		emit(t.member(i), t.ents[i].score)
	}
}
