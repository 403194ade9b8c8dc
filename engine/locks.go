package engine

import (
	"hash/maphash"
	"slices"
	"sync"
)

// numStripes is the size of the pool of key locks.
const numStripes = 1 << 14

// stripe is one key lock, alone on its cache line so that neighbours do not slow each other down.
type stripe struct {
	sync.RWMutex
	_ [64 - 24]byte
}

// lockTable is the pool of striped key locks. A key's stripe follows from the hash of its metadata key.
//
// Locks are always taken in the order of their indexes and a transaction takes all of its locks at once, so
// there is no deadlock.
type lockTable struct {
	seed    maphash.Seed
	stripes [numStripes]stripe
}

func newLockTable() *lockTable { return &lockTable{seed: maphash.MakeSeed()} }

func (t *lockTable) index(nsKey []byte) uint32 {
	return uint32(maphash.Bytes(t.seed, nsKey)) & (numStripes - 1)
}

// lockSet collects the stripes that a transaction needs: index<<1, plus 0 for writing and 1 for reading, so
// that after sorting the stronger side of a stripe comes first.
type lockSet struct {
	want []uint32
	held []uint32
}

func (s *lockSet) add(index uint32, write bool) {
	v := index << 1
	if !write {
		v |= 1
	}
	s.want = append(s.want, v)
}

// acquire takes everything that was added, in index order, each stripe once.
func (s *lockSet) acquire(t *lockTable) {
	if len(s.want) > 1 {
		slices.Sort(s.want)
	}
	for i, v := range s.want {
		if i > 0 && s.want[i-1]>>1 == v>>1 {
			continue
		}
		if v&1 == 0 {
			t.stripes[v>>1].Lock()
		} else {
			t.stripes[v>>1].RLock()
		}
		s.held = append(s.held, v)
	}
	s.want = s.want[:0]
}

func (s *lockSet) release(t *lockTable) {
	for i := len(s.held) - 1; i >= 0; i-- {
		v := s.held[i]
		if v&1 == 0 {
			t.stripes[v>>1].Unlock()
		} else {
			t.stripes[v>>1].RUnlock()
		}
	}
	s.held = s.held[:0]
}

// writes reports whether the set holds a lock for writing.
func (s *lockSet) writes() bool {
	for _, v := range s.held {
		if v&1 == 0 {
			return true
		}
	}
	return false
}

// lockAll takes every stripe for writing: for FLUSHALL and other changes of the whole keyspace.
func (t *lockTable) lockAll() {
	for i := range t.stripes {
		t.stripes[i].Lock()
	}
}

func (t *lockTable) unlockAll() {
	for i := range t.stripes {
		t.stripes[i].Unlock()
	}
}
