// Package reccache caches small records that were read or written lately, in bounded memory outside Go's heap. It knows
// neither transactions nor RocksDB: the caller reports what it has read, what it is about to write and whether the
// commit has succeeded.
package reccache

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/hugepage"
)

// Cache keeps small records that were read or written lately, so that a hot point read needs neither a cgo call nor a
// search in the skip lists of several memtables (measured: 0.15 instead of 2 to 6 microseconds). It holds records of
// the metadata and default families.
//
// The cache never returns anything that RocksDB would not return. Before its commit a transaction marks the sets of the
// keys that it has written: readers bypass a marked set and ask RocksDB. After the commit it stores the new values. A
// reader that missed stores a record only if its set was not marked since the reader began to read.
//
// The cache also remembers that a key has no record: after a delete of a cached one, and after a read that found none.
// Commands that look for what is gone (a lock that was given back, a flag that is not set, an element that was removed)
// need not ask the memtables and the filters of all files each time: SREM and HDEL of such elements take two thirds of
// the CPU time.
//
// The memory has no pointers and is not in Go's heap: sets of four slots of SlotSize bytes. Records that do not fit
// into a slot are in another slab, see largeSlots. The cache begins small and grows with what is read, see grow. A slot
// holds
//
//	1 byte family | 1 byte key length | 2 bytes value length, or absentLen for "no record" | key | value
type Cache struct {
	seed   maphash.Seed
	slab   hugepage.Slab // the slots of all sets
	sets   []cacheSet    // as many as may ever exist
	large  largeSlots
	shards [cacheShards]cacheShard
}

const (
	cacheShards = 1024
	SlotSize    = 256
	slotHeader  = 4
	cacheWays   = 4
	allUsed     = 1<<cacheWays - 1
	absentLen   = 1<<16 - 1
)

// Answer is what the cache knows of a key.
type Answer uint8

const (
	Unknown Answer = iota // only RocksDB knows
	Present
	Absent // RocksDB has no record of the key
)

// cacheShard guards the sets whose numbers have the same remainder modulo cacheShards.
type cacheShard struct {
	sync.Mutex
	mask           atomic.Uint32 // sets in use - 1, if all shards were as big as this one; atomic only for Touch
	groups         uint32        // the same for groups of large slots, divided by cacheShards
	displaced      uint32        // records displaced by reads that missed since the shard last grew
	displacedLarge uint32        // large slots, the same
	hits, misses   uint64        // of readers

	// What MarkAll, DoneAll and Clear say of all sets of the shard, so that they need not visit each set.
	busy  uint32 // commits under way that delete keys without naming them
	marks uint32 // how often tickets of all sets became invalid
	epoch uint32 // how often all sets were emptied; see cacheSet.epoch
	_     [64 - 52]byte
}

// cacheSet describes the four slots of a set. It is one CPU cache line.
type cacheSet struct {
	hash  [cacheWays]atomic.Uint64 // 0 = empty; atomic only for Touch, which takes no lock
	large [cacheWays]uint32        // index of the record in the slab of large slots, + 1; 0 = in its slot
	seq   uint32                   // grows with every mark
	epoch uint32                   // that of the shard when the set was last used; if it differs the set counts as empty
	busy  uint16                   // commits under way that write a key of this set
	used  uint8                    // a bit for each slot: used since all of them were last used
	_     [5]byte
}

// Size is the approximate number of bytes of slots with which the record cache begins, and up to which it grows. It
// does not grow if the max size is less than the initial size.
type Size struct{ Small, SmallMax, Large, LargeMax int }

// New makes a cache; nil when the size is too small to be of use or memory is missing.
func New(size Size) *Cache {
	sets := func(bytes int) uint64 { // a power of two
		if bytes < SlotSize*cacheWays {
			return 0
		}
		return 1 << (bits.Len(uint(bytes/(SlotSize*cacheWays))) - 1)
	}
	n := sets(size.Small)
	if n < cacheShards {
		return nil
	}
	most := min(max(n, sets(size.SmallMax)), 1<<31)
	c := &Cache{seed: maphash.MakeSeed()}
	var ok bool
	if c.slab, ok = hugepage.MapSlab(c, int(most*SlotSize*cacheWays)); !ok {
		return nil
	}
	if c.sets, ok = hugepage.Map[cacheSet](c, int(most)); !ok {
		return nil
	}
	for i := range c.shards {
		c.shards[i].mask.Store(uint32(n - 1))
	}
	c.initLarge(size.Large, size.LargeMax, n)
	return c
}

// Holds reports whether the cache keeps records of a family.
func Holds(id cf.ID) bool { return id == cf.Metadata || id == cf.Default }

// Hash returns the hash of a record's key, which is never 0.
func (c *Cache) Hash(id cf.ID, key []byte) uint64 {
	return (maphash.Bytes(c.seed, key)^uint64(id)*0x9e3779b97f4a7c15)<<1 | 1
}

// shard returns the shard that guards a key's set.
func (c *Cache) shard(h uint64) *cacheShard { return &c.shards[h>>1&(cacheShards-1)] }

// index returns the number of a key's set. Without the shard's lock the number may change at any time.
func (sh *cacheShard) index(h uint64) uint64 { return h >> 1 & uint64(sh.mask.Load()) }

// lock takes the lock that guards a key, and returns it, the key's set and the number of the set's first slot.
func (c *Cache) lock(h uint64) (sh *cacheShard, s *cacheSet, first int) {
	sh = c.shard(h)
	sh.Lock()
	i := sh.index(h)
	s = &c.sets[i]
	c.renew(sh, s)
	return sh, s, int(i * cacheWays)
}

// renew empties a set that was last used before its shard was emptied.
func (c *Cache) renew(sh *cacheShard, s *cacheSet) {
	if s.epoch != sh.epoch {
		s.epoch = sh.epoch
		for w := range cacheWays {
			c.empty(s, w)
		}
	}
}

// mayChange reports whether a commit is under way that may write keys of a set of the shard.
func (sh *cacheShard) mayChange(s *cacheSet) bool { return s.busy > 0 || sh.busy > 0 }

// ticket returns the number that readers of a set get: a new one after each mark. Both terms only grow.
func (sh *cacheShard) ticket(s *cacheSet) uint32 { return s.seq + sh.marks }

// find returns the slot of a set that probably holds a key, -1 for none: another key may have the same hash.
func (s *cacheSet) find(h uint64) int {
	for w := range s.hash {
		if s.hash[w].Load() == h {
			return w
		}
	}
	return -1
}

// place returns the memory of slot w of a set.
func (c *Cache) place(s *cacheSet, first, w int) []byte {
	if s.large[w] > 0 {
		return c.large.place(s.large[w] - 1)
	}
	return c.slot(first + w)
}

// slot returns the memory of a slot.
func (c *Cache) slot(n int) []byte { return c.slab.Bytes[n*SlotSize : (n+1)*SlotSize] }

// writeSlot is slot for writing.
func (c *Cache) writeSlot(n int) []byte { return c.slab.Write(n*SlotSize, (n+1)*SlotSize) }

// slotValue returns the value in a slot, if the slot holds that key.
func slotValue(place []byte, id cf.ID, key []byte) ([]byte, Answer) {
	keyN, valN := int(place[1]), int(binary.LittleEndian.Uint16(place[2:]))
	if place[0] != uint8(id) || keyN != len(key) || !bytes.Equal(place[slotHeader:slotHeader+keyN], key) {
		return nil, Unknown
	}
	if valN == absentLen {
		return nil, Absent
	}
	return place[slotHeader+keyN : slotHeader+keyN+valN], Present
}

// empty empties slot w of a set.
func (c *Cache) empty(s *cacheSet, w int) {
	s.hash[w].Store(0)
	if s.large[w] > 0 {
		c.large.owner[s.large[w]-1], s.large[w] = 0, 0
	}
}

// Get appends the value of a key to dst. If the answer is Unknown, the ticket lets Fill decide whether what the caller
// then reads from RocksDB may be cached.
func (c *Cache) Get(h uint64, id cf.ID, key, dst []byte) (value []byte, is Answer, ticket uint32) {
	sh, s, first := c.lock(h)
	defer sh.Unlock()
	if sh.mayChange(s) {
		sh.misses++
		return dst, Unknown, NoTicket
	}
	if w := s.find(h); w >= 0 {
		if v, is := slotValue(c.place(s, first, w), id, key); is != Unknown {
			sh.hits++
			s.used |= 1 << w
			if s.large[w] > 0 {
				c.large.used[s.large[w]-1] = true
			}
			return append(dst, v...), is, 0
		}
	}
	sh.misses++
	return dst, Unknown, sh.ticket(s)
}

// Lookups returns how many calls of Get the cache could answer, and how many it could not.
func (c *Cache) Lookups() (hits, misses uint64) {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.Lock()
		hits += sh.hits
		misses += sh.misses
		sh.Unlock()
	}
	return hits, misses
}

// Head is Get for a caller that needs no more of a value than fits dst, which must be empty.
func (c *Cache) Head(h uint64, id cf.ID, key, dst []byte) (head []byte, is Answer) {
	sh, s, first := c.lock(h)
	defer sh.Unlock()
	if w := s.find(h); w >= 0 && !sh.mayChange(s) {
		v, is := slotValue(c.place(s, first, w), id, key)
		return append(dst, v[:min(len(v), cap(dst))]...), is
	}
	return nil, Unknown
}

// NoTicket says that the value that is read must not be cached.
const NoTicket = ^uint32(0)

// Fill caches the value that a reader got from RocksDB after a miss.
func (c *Cache) Fill(h uint64, id cf.ID, key, value []byte, ticket uint32) {
	if ticket == NoTicket || slotHeader+len(key)+len(value) > c.most() || len(key) > 255 {
		return
	}
	sh, s, first := c.lock(h)
	if !sh.mayChange(s) && sh.ticket(s) == ticket {
		d, dl := c.store(sh, s, first, h, id, key, value)
		if d || dl {
			c.displacedBy(sh, h, d, dl)
		}
	}
	sh.Unlock()
}

// FillAbsent is Fill of a key that has no record in RocksDB. A look-up of such a key costs no disk read as a rule, so
// the entry takes the place of no record that was used lately, is the first one to be displaced, and never makes the
// cache grow.
func (c *Cache) FillAbsent(h uint64, id cf.ID, key []byte, ticket uint32) {
	if ticket == NoTicket || slotHeader+len(key) > SlotSize || len(key) > 255 {
		return
	}
	sh, s, first := c.lock(h)
	if !sh.mayChange(s) && sh.ticket(s) == ticket {
		if w, displaced := s.next(h); !displaced || s.used != allUsed {
			c.storeAbsent(s, first, w, h, id, key)
		}
	}
	sh.Unlock()
}

// absent reports whether slot w of a set says that a key has no record.
func (c *Cache) absent(s *cacheSet, first, w int) bool {
	return s.large[w] == 0 && binary.LittleEndian.Uint16(c.slot(first + w)[2:]) == absentLen
}

// storeAbsent notes in slot w of a set that a key has no record.
func (c *Cache) storeAbsent(s *cacheSet, first, w int, h uint64, id cf.ID, key []byte) {
	c.empty(s, w) // gives back a large slot
	s.hash[w].Store(h)
	s.used &^= 1 << w
	p := c.writeSlot(first + w)
	p[0], p[1] = uint8(id), uint8(len(key))
	binary.LittleEndian.PutUint16(p[2:], absentLen)
	copy(p[slotHeader:], key)
}

// most is the max number of bytes in a slot.
func (c *Cache) most() int {
	if c.large.groups > 0 {
		return LargeSlot
	}
	return SlotSize
}

// store puts a record into its set. It reports whether the record has displaced another one, and whether a large one.
func (c *Cache) store(sh *cacheShard, s *cacheSet, first int, h uint64, id cf.ID, key, value []byte) (
	displaced, displacedLarge bool) {
	w, displaced := s.next(h)
	if displaced && s.used == allUsed {
		s.used = 0
	}
	displaced = displaced && !c.absent(s, first, w)
	switch large := slotHeader+len(key)+len(value) > SlotSize; {
	case large && s.large[w] == 0:
		s.large[w], displacedLarge = c.large.take(c, sh, first+w, h)
	case !large && s.large[w] > 0:
		c.empty(s, w)
	}
	s.hash[w].Store(h)
	s.used |= 1 << w
	var p []byte
	if s.large[w] > 0 {
		p = c.large.write(s.large[w] - 1)
	} else {
		p = c.writeSlot(first + w)
	}
	p[0], p[1] = uint8(id), uint8(len(key))
	binary.LittleEndian.PutUint16(p[2:], uint16(len(value)))
	copy(p[slotHeader+copy(p[slotHeader:], key):], value)
	return displaced, displacedLarge
}

// next returns the slot into which a record is stored: its own, otherwise a free one, otherwise one that was not used
// lately. An equal hash is enough to reuse a slot: the slot holds this key, or another key that is displaced. Comparing
// the keys would be one more CPU cache miss.
//
// Touch calls next without the lock. A slot that another goroutine changes meanwhile costs it no more than a miss.
//
//go:norace
func (s *cacheSet) next(h uint64) (w int, displaced bool) {
	if w := s.find(h); w >= 0 {
		return w, false
	}
	if w := s.find(0); w >= 0 {
		return w, false
	}
	if used := s.used; used != allUsed {
		return bits.TrailingZeros8(^used) % cacheWays, true
	}
	return int(h >> 62), true
}

// Touch loads bytes of the set of each hash, and of the slot that holds it or will hold it. The loads do not depend on
// each other, so that CPU cache misses overlap; later each miss would delay the next at its lock. What the bytes are,
// while others write them, does not matter.
//
//go:norace
func (c *Cache) Touch(hashes []uint64) (sum uint8) {
	c.TouchSets(hashes)
	for _, h := range hashes {
		i := c.shard(h).index(h)
		w, _ := c.sets[i].next(h)
		slot := c.slot(int(i*cacheWays) + w)
		sum += slot[0] + slot[64] + slot[128] // three cache lines; few records need the fourth
	}
	runtime.KeepAlive(c) // the slots are not in Go's heap
	return sum
}

// TouchSets is Touch for callers that do not need the slots.
func (c *Cache) TouchSets(hashes []uint64) {
	for _, h := range hashes {
		c.sets[c.shard(h).index(h)].hash[0].Load()
	}
	runtime.KeepAlive(c)
}

// Mark is called before a commit for every key that it writes.
func (c *Cache) Mark(h uint64) {
	sh, s, _ := c.lock(h)
	s.busy++
	s.seq++
	sh.Unlock()
}

// SeemsToHold reports whether a key is probably cached; another key may have the same hash.
func (c *Cache) SeemsToHold(h uint64) bool {
	sh, s, _ := c.lock(h)
	defer sh.Unlock()
	return !sh.mayChange(s) && s.find(h) >= 0
}

// Done is called after the commit. With ok the new value is cached, or the key is forgotten if it does not fit. If the
// key was deleted, an entry of it becomes Absent. Without ok nothing was written, and the entry is still valid.
//
// A large record is cached only if it replaces one that was read: a load of data that no command reads must not fill
// the large slots, and copying all large writes would cost more than it gains. Small records are cached at once, in the
// present slots: writes alone never make the cache grow.
func (c *Cache) Done(h uint64, id cf.ID, key, value []byte, deleted, ok bool) {
	sh, s, first := c.lock(h)
	s.busy--
	if ok {
		n, w := slotHeader+len(key)+len(value), s.find(h)
		switch {
		case len(key) > 255 || n > SlotSize && (n > c.most() || deleted || w < 0):
			if w >= 0 {
				if _, is := slotValue(c.place(s, first, w), id, key); is != Unknown {
					c.empty(s, w)
				}
			}
		case !deleted:
			c.store(sh, s, first, h, id, key, value)
		case w >= 0:
			c.storeAbsent(s, first, w, h, id, key)
		}
	}
	sh.Unlock()
}

// MarkAll is Mark of all keys, for a commit that deletes keys which it does not name.
func (c *Cache) MarkAll() {
	c.each(func(sh *cacheShard) {
		sh.busy++
		sh.marks++
	})
}

// DoneAll is Done of all keys after MarkAll. With ok the cache is empty.
func (c *Cache) DoneAll(ok bool) {
	c.each(func(sh *cacheShard) {
		sh.busy--
		if ok {
			sh.epoch++
		}
	})
}

// Clear empties the cache. What readers are reading at present does not get into it.
func (c *Cache) Clear() {
	c.each(func(sh *cacheShard) {
		sh.marks++
		sh.epoch++
	})
}

// each calls f with every shard, while the shard's lock is held.
func (c *Cache) each(f func(sh *cacheShard)) {
	for n := range c.shards {
		sh := &c.shards[n]
		sh.Lock()
		f(sh)
		sh.Unlock()
	}
}

// Resident returns the approximate memory of the cache in bytes.
func (c *Cache) Resident() int {
	sets := 0
	for i := range c.shards {
		sets += int(c.shards[i].mask.Load()+1) / cacheShards
	}
	return sets*int(unsafe.Sizeof(cacheSet{})) + c.slab.Resident() + c.large.slab.Resident()
}
