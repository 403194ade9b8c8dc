// Package presence remembers keys that exist without an expiry, in a bounded table without locks.
package presence

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/internal/hugepage"
)

// Cache holds keys that exist without an expiry, by a 64-bit hash of the metadata key. A plain SET need
// not read what it overwrites; only the key count wants to know whether the key is new. For a key found here
// memory need not be asked (measured, 16 SETs at once of keys that exist: 1.7 against 2.9 microseconds a key).
//
// It is a table of sets, each one line of the processor's caches: a slot holds the hash of one key or 0. A key's entry
// changes only with the key's lock held for writing; keys that share a set merely displace each other.
//
// When that happens too often, an empty table of twice the size takes its place, and fills with the keys that are
// written. The one before stays until the next growth: what it holds is known, too, and is taken back in both. Copying
// would have to stop everyone: a key could be taken back in one table while it is copied to the other. So it does not
// matter which one the last holder of a key's lock saw, the next one sees that or a later one.
type Cache struct {
	seed    maphash.Seed
	max     int // size of the biggest table in bytes
	current atomic.Pointer[table]
}

type table struct {
	sets      []set // a power of two
	before    atomic.Pointer[table]
	displaced atomic.Int64
}

type set [8]atomic.Uint64

// firstSets is the size of the first table: half a million keys.
const firstSets = 1 << 16

// New makes a table that grows up to max bytes, about.
func New(max int) *Cache {
	k := &Cache{seed: maphash.MakeSeed(), max: max}
	k.current.Store(newTable(firstSets))
	return k
}

func newTable(sets int) *table {
	t := &table{sets: make([]set, sets)}
	hugepage.Advise(t.sets)
	return t
}

// Hash returns the hash of a metadata key, which is never 0.
func (k *Cache) Hash(nsKey []byte) uint64 { return maphash.Bytes(k.seed, nsKey) | 1 }

func (t *table) setOf(h uint64) *set { return &t.sets[h>>1&uint64(len(t.sets)-1)] }

// Exists reports whether a key is known to exist without an expiry.
func (k *Cache) Exists(nsKey []byte) bool { return k.ExistsHash(k.Hash(nsKey)) }

// ExistsHash is Exists for a key's hash.
func (k *Cache) ExistsHash(h uint64) bool {
	t := k.current.Load()
	if t.setOf(h).find(h) != nil {
		return true
	}
	b := t.before.Load()
	return b != nil && b.setOf(h).find(h) != nil
}

func (s *set) find(h uint64) *atomic.Uint64 {
	for i := range s {
		if s[i].Load() == h {
			return &s[i]
		}
	}
	return nil
}

// Note takes down what was committed: exists tells whether the key exists without an expiry now. The key's lock must be
// held for writing.
func (k *Cache) Note(h uint64, exists bool) {
	t := k.current.Load()
	s := t.setOf(h)
	have := s.find(h)
	switch {
	case !exists:
		forget(have, h)
		if b := t.before.Load(); b != nil {
			forget(b.setOf(h).find(h), h)
		}
	case exists && have == nil:
		free := s.find(0)
		if free == nil || !free.CompareAndSwap(0, h) {
			s[h>>61].Store(h)
			k.displaced(t, h)
		}
	}
}

// forget empties the slot of a key, nil = it has none, unless the key was displaced meanwhile.
func forget(slot *atomic.Uint64, h uint64) {
	if slot != nil {
		slot.CompareAndSwap(h, 0)
	}
}

// displaced grows the table when about half of the keys that it has room for have displaced others.
func (k *Cache) displaced(t *table, h uint64) {
	const sample = 64 // few of them count, so that the counter's cache line need not travel with every one
	if h>>40%sample != 0 || t.displaced.Add(sample) < int64(len(t.sets)*len(set{})/2) {
		return
	}
	if n := len(t.sets) * 2; n*int(unsafe.Sizeof(set{})) <= k.max && t.displaced.Swap(math.MinInt64/2) > 0 {
		next := newTable(n)
		next.before.Store(t)
		if k.current.CompareAndSwap(t, next) {
			t.before.Store(nil)
		}
	}
}

// Clear forgets all keys. What others note at this moment of keys that are not concerned may get lost with the old
// table.
func (k *Cache) Clear() { k.current.Store(newTable(firstSets)) }
