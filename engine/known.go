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
// It is a direct-mapped table: a slot holds the hash of one key or 0. A key's entry changes only with the key's
// lock held for writing; keys that share a slot merely displace each other.
type knownKeys struct {
	seed  maphash.Seed
	slots []atomic.Uint64 // 4 MiB
}

const knownBits = 19

func newKnownKeys() *knownKeys {
	k := &knownKeys{seed: maphash.MakeSeed(), slots: make([]atomic.Uint64, 1<<knownBits)}
	hugePages(k.slots)
	return k
}

func (k *knownKeys) hash(nsKey []byte) uint64 { return maphash.Bytes(k.seed, nsKey) | 1 }

func (k *knownKeys) slot(h uint64) *atomic.Uint64 { return &k.slots[h>>(64-knownBits)] }

// has reports whether the key is known to exist without an expiry.
func (k *knownKeys) has(nsKey []byte) bool { return k.holds(k.hash(nsKey)) }

// holds is has for a key's hash.
func (k *knownKeys) holds(h uint64) bool { return k.slot(h).Load() == h }

// set notes what was committed: next is the key's new record, nil when it was deleted.
func (k *knownKeys) set(h uint64, plain bool) {
	s := k.slot(h)
	if plain {
		s.Store(h)
	} else if s.Load() == h {
		s.CompareAndSwap(h, 0)
	}
}

func (k *knownKeys) clear() {
	for i := range k.slots {
		k.slots[i].Store(0)
	}
}

// plainKey reports whether a record belongs into the table.
func plainKey(m *cf.Meta) bool { return m != nil && m.End() == 0 && countable(m) }
