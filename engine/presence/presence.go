// Package presence remembers keys that exist without an expiry, in a bounded table without locks.
package presence

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/internal/hugepage"
)

// Cache holds keys that exist without an expiry, by a 64-bit hash of the metadata key. A plain SET need not read what
// it overwrites; only the key count depends on whether the key is new. A key that is found here need not be looked up
// in RocksDB (measured for batches of 16 SETs of existing keys: 1.7 instead of 2.9 microseconds a key).
//
// It is a table of sets of one CPU cache line each; a slot holds the hash of one key or 0. A key's entry changes only
// with the key's lock held for writing; keys that share a set merely displace each other.
//
// When that happens too often, an empty table of twice the size takes its place and fills with the keys that are
// written. The previous table stays until the next growth: its keys are still found, and a key that ceases to exist is
// removed from both tables. Copying would have to stop all writers, because a key could be removed from the old table
// after it was copied. Whichever table the last holder of a key's lock saw, the next holder sees that one or a later
// one.
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

// firstSets is the size of the first table: 32,768 keys in 256 KiB. Clear makes such a table anew, so it is small.
const firstSets = 1 << 12

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

// Note records the state of a key after a commit: whether it exists without an expiry. The key's lock must be held for
// writing.
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
	const sample = 64 // only one of so many counts, so that the processors do not contend for the counter
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

// Clear forgets all keys. Concurrent calls of Note may be lost with the old table.
func (k *Cache) Clear() { k.current.Store(newTable(firstSets)) }
