package zset

import (
	"bytes"
	"slices"
	"sort"

	"github.com/basaltdb/basalt/engine"
)

// subkeys holds the zset_score subkeys of all members of a small set, in their order.
//
// Each change of a score leaves a tombstone in RocksDB, at the old score. A small set whose scores change all the time
// has many thousands of them between its members until they are compacted, and each read of a range passes them.
// Readers of such a set use its subkeys in memory instead.
type subkeys struct {
	data []byte   // the subkeys, concatenated
	ends []uint32 // the end of each in data
}

func (s *subkeys) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return s.ends[i-1]
}

func (s *subkeys) at(i int) []byte { return s.data[s.start(i):s.ends[i]] }

// find returns how many subkeys are before sub, and whether sub is one of them.
func (s *subkeys) find(sub []byte) (before int, found bool) {
	return sort.Find(len(s.ends), func(i int) int { return bytes.Compare(sub, s.at(i)) })
}

// insert adds a subkey before subkey i.
func (s *subkeys) insert(i int, sub []byte) {
	from := s.start(i)
	s.data = slices.Insert(s.data, int(from), sub...)
	s.ends = slices.Insert(s.ends, i, from)
	for j := i; j < len(s.ends); j++ {
		s.ends[j] += uint32(len(sub))
	}
}

// remove removes subkey i.
func (s *subkeys) remove(i int) {
	from, to := s.start(i), s.ends[i]
	s.data = slices.Delete(s.data, int(from), int(to))
	s.ends = slices.Delete(s.ends, i, i+1)
	for j := i; j < len(s.ends); j++ {
		s.ends[j] -= to - from
	}
}

// before returns how many subkeys are before a bound, a key of which prefix is that of the set.
func (s *subkeys) before(prefix, bound []byte) int {
	if sub, ok := bytes.CutPrefix(bound, prefix); ok {
		n, _ := s.find(sub)
		return n
	}
	if bytes.Compare(bound, prefix) < 0 {
		return 0
	}
	return len(s.ends)
}

// readSubkeys reads the subkeys from the iterator, and closes it.
func readSubkeys(it *engine.Iter) (s subkeys, err error) {
	defer it.Close()
	for it.Next() {
		s.data = append(s.data, it.Key()...)
		s.ends = append(s.ends, uint32(len(s.data)))
	}
	return s, it.Err()
}

// wholeSet returns the counts of a set, made if they are wanted: those of a small set have its subkeys. It returns nil
// if there are none. The caller must hold the key's lock.
func wholeSet(tx *engine.Tx, rec *engine.Record) (*ranks, error) {
	if a := findRanks(tx, rec); a != nil || rec.Size > rankSingle {
		return a, nil
	}
	a, it := wantRanks(tx, rec)
	return a, a.settle(it, rec, nil)
}

// runWhole is run with the subkeys in memory; done is false when there are none.
func (s *span) runWhole(tx *engine.Tx, rec *engine.Record, emit Emit) (done bool, err error) {
	a, err := wholeSet(tx, rec)
	if a == nil || err != nil {
		return false, err
	}
	t := tapes.Get().(*tape)
	defer t.release()
	if done, err = a.read(tx, rec, s, t); !done || err != nil {
		return false, err
	}
	tx.ReadsDone()
	for i := range t.ents {
		emit(t.member(i), t.ents[i].score)
	}
	return true, nil
}

// read adds the entries of a span of the zset_score family to the tape, in the order of the span; ok is false when
// there are no subkeys that can be used.
func (a *ranks) read(tx *engine.Tx, rec *engine.Record, s *span, t *tape) (ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable(rec) || !a.whole {
		return false, nil
	}
	from, to := 0, len(a.subs.ends)
	prefix := tx.SubkeyPrefix(rec)
	if s.lower != nil {
		from = a.subs.before(prefix, s.lower)
	}
	if s.upper != nil {
		to = a.subs.before(prefix, s.upper)
	}
	n := uint64(max(to-from, 0))
	skip := min(s.skip, n)
	at, step := from+int(skip), 1
	if s.reverse {
		at, step = to-1-int(skip), -1
	}
	for left := min(s.n, n-skip); left > 0; left-- {
		member, score, err := splitScored(tx, rec, a.subs.at(at))
		if err != nil {
			return false, err
		}
		t.add(member, score)
		at += step
	}
	return true, nil
}

// changeSub adds (n = 1) or removes (-1) a subkey.
func (a *ranks) changeSub(sub []byte, n int) {
	data, ends := cap(a.subs.data), cap(a.subs.ends)
	i, found := a.subs.find(sub)
	if found != (n < 0) || len(a.subs.ends) >= rankWhole {
		a.drop() // wrong, or no longer small
		return
	}
	if found {
		a.subs.remove(i)
	} else {
		a.subs.insert(i, sub)
	}
	a.total = uint64(len(a.subs.ends))
	if cap(a.subs.data) != data || cap(a.subs.ends) != ends {
		a.resize()
	}
}

// askWhole notes that the subkeys of a small set are worth keeping, because one of them was deleted.
func (w *writer) askWhole() {
	if w.rec.Size <= rankSingle {
		engine.AskedState(w.tx, rankKind, &w.rec)
	}
}
