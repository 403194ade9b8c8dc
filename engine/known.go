package engine

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/cf"
)

// knownKeys remembers keys that exist without an expiry, by a 64-bit hash of the metadata key. A plain SET need
// not read what it overwrites; only the key count wants to know whether the key is new. For a key found here
// memory need not be asked (measured, 16 SETs at once of keys that exist: 1.7 against 2.9 microseconds a key).
//
// It is a table of sets, each one line of the processor's caches: a slot holds the hash of one key or 0. A key's entry
// changes only with the key's lock held for writing; keys that share a set merely displace each other.
//
// When that happens too often, an empty table of twice the size takes its place, and learns anew what the next reads of
// SETs tell. Copying would have to stop everyone: a key could be taken back in one table while it is copied to
// the other. So it does not matter which one the last holder of a key's lock saw, the next one sees that or a later one.
type knownKeys struct {
	seed  maphash.Seed
	most  int // size of the biggest table in bytes
	table atomic.Pointer[knownTable]
}

type knownTable struct {
	sets      []knownSet // a power of two
	displaced atomic.Int64
}

type knownSet [8]atomic.Uint64

// firstKnownSets is the size of the first table: half a million keys.
const firstKnownSets = 1 << 16

// newKnownKeys makes a table that grows up to most bytes, about.
func newKnownKeys(most int) *knownKeys {
	k := &knownKeys{seed: maphash.MakeSeed(), most: most}
	k.table.Store(newKnownTable(firstKnownSets))
	return k
}

func newKnownTable(sets int) *knownTable {
	t := &knownTable{sets: make([]knownSet, sets)}
	hugePages(t.sets)
	return t
}

func (k *knownKeys) hash(nsKey []byte) uint64 { return maphash.Bytes(k.seed, nsKey) | 1 }

func (t *knownTable) set(h uint64) *knownSet { return &t.sets[h>>1&uint64(len(t.sets)-1)] }

// has reports whether the key is known to exist without an expiry.
func (k *knownKeys) has(nsKey []byte) bool { return k.holds(k.hash(nsKey)) }

// holds is has for a key's hash.
func (k *knownKeys) holds(h uint64) bool { return k.table.Load().set(h).find(h) != nil }

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
	t := k.table.Load()
	s := t.set(h)
	have := s.find(h)
	switch {
	case !plain && have != nil:
		have.CompareAndSwap(h, 0) // if it was not displaced meanwhile
	case plain && have == nil:
		free := s.find(0)
		if free == nil || !free.CompareAndSwap(0, h) {
			s[h>>61].Store(h)
			k.displaced(t, h)
		}
	}
}

// displaced grows the table when about half of the keys that it has room for have displaced others.
func (k *knownKeys) displaced(t *knownTable, h uint64) {
	const sample = 64 // few of them count, so that the counter's cache line need not travel with every one
	if h>>40%sample != 0 || t.displaced.Add(sample) < int64(len(t.sets)*len(knownSet{})/2) {
		return
	}
	if n := len(t.sets) * 2; n*int(unsafe.Sizeof(knownSet{})) <= k.most && t.displaced.Swap(math.MinInt64/2) > 0 {
		k.table.CompareAndSwap(t, newKnownTable(n))
	}
}

// clear forgets all keys. What others note at this moment of keys that are not concerned may get lost with the old table.
func (k *knownKeys) clear() { k.table.Store(newKnownTable(firstKnownSets)) }

// plainKey reports whether a record belongs into the table.
func plainKey(m *cf.Meta) bool { return m != nil && m.End() == 0 && countable(m) }
