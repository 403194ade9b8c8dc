package engine

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
)

// knownKeys remembers keys that exist without an expiry, by a 64-bit hash of the metadata key. A plain SET need
// not read what it overwrites; only the key count wants to know whether the key is new. For a key found here
// that read is saved (measured: it costs as much as the write).
//
// It is a table of sets, each one line of the processor's caches: a slot holds the hash of one key or 0. A key's entry
// changes only with the key's lock held for writing; keys that share a set merely displace each other.
type knownKeys struct {
	seed maphash.Seed
	sets []knownSet // 4 MiB
}

type knownSet [8]atomic.Uint64

const knownBits = 16

func newKnownKeys() *knownKeys {
	k := &knownKeys{seed: maphash.MakeSeed(), sets: make([]knownSet, 1<<knownBits)}
	hugePages(k.sets)
	return k
}

func (k *knownKeys) hash(nsKey []byte) uint64 { return maphash.Bytes(k.seed, nsKey) | 1 }

func (k *knownKeys) set(h uint64) *knownSet { return &k.sets[h>>(64-knownBits)] }

// has reports whether the key is known to exist without an expiry.
func (k *knownKeys) has(nsKey []byte) bool { return k.holds(k.hash(nsKey)) }

// holds is has for a key's hash.
func (k *knownKeys) holds(h uint64) bool { return k.set(h).find(h) != nil }

func (s *knownSet) find(h uint64) *atomic.Uint64 {
	for i := range s {
		if s[i].Load() == h {
			return &s[i]
		}
	}
	return nil
}

// note takes down what was committed: plain tells whether the key exists without an expiry now.
func (k *knownKeys) note(h uint64, plain bool) {
	s := k.set(h)
	have := s.find(h)
	switch {
	case !plain && have != nil:
		have.CompareAndSwap(h, 0) // if it was not displaced meanwhile
	case plain && have == nil:
		free := s.find(0)
		if free == nil || !free.CompareAndSwap(0, h) {
			s[h>>1%uint64(len(s))].Store(h)
		}
	}
}

func (k *knownKeys) clear() {
	for i := range k.sets {
		for j := range k.sets[i] {
			k.sets[i][j].Store(0)
		}
	}
}

// plainKey reports whether a record belongs into the table.
func plainKey(m *cf.Meta) bool { return m != nil && m.End() == 0 && countable(m) }
