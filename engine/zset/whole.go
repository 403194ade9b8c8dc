package zset

import (
	"bytes"
	"slices"
	"sort"

	"github.com/basaltdb/basalt/engine"
)

// subkeys holds the zset_score subkeys of consecutive members, in their order: of a block of a large set, or of all
// members of a small set.
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

// change adds (n = 1) or removes (-1) a subkey; ok is false when the subkeys were wrong.
func (s *subkeys) change(sub []byte, n int) (ok bool) {
	i, found := s.find(sub)
	if found != (n < 0) {
		return false
	}
	if found {
		s.remove(i)
	} else {
		s.insert(i, sub)
	}
	return true
}

// memory returns how many bytes the subkeys take.
func (s *subkeys) memory() int { return 48 + cap(s.data) + 4*cap(s.ends) }

// readSubkeys reads the subkeys from the iterator until they have more than maxBytes, and closes it.
func readSubkeys(it *engine.Iter, maxBytes int) (s subkeys, err error) {
	defer it.Close()
	for len(s.data) <= maxBytes && it.Next() {
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

// askWhole notes that the subkeys of a small set are worth keeping, because one of them was deleted.
func (w *writer) askWhole() {
	if w.rec.Size <= rankSingle {
		engine.AskedState(w.tx, rankKind, &w.rec)
	}
}
