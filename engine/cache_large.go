package engine

import (
	"runtime"
	"slices"
	"syscall"
)

// largeSlots are the slots of the records that do not fit into one of slotSize bytes: fragments of bitmaps, segments of
// HyperLogLogs, documents and strings of up to about 1 KiB. There are fewer of them than slots of the record cache, one
// of which stands for each record that they hold.
//
// Slots form groups, and a set of the cache takes only slots of its group. All sets that share a group have the same
// lock, which so guards the group: the number of groups is a multiple of that of locks, and both follow from the number
// of the set by its remainder.
//
// The slab is not in Go's heap: there it would let as much garbage gather before each collection as it is long.
type largeSlots struct {
	slab   []byte
	groups uint64
	owner  []uint32 // number of the slot of the cache + 1; 0 = free
	used   []bool   // since its group was last full of used ones
}

const (
	largeSlot = 1280
	largeWays = 4
)

// LargeRecordCacheStep is the unit in bytes of Options.LargeRecordCache, what goes beyond a multiple of it is not used.
const LargeRecordCacheStep = cacheShards * largeWays * largeSlot

// initLarge makes the large slots of a cache of so many sets in about size bytes, none when they are too few to be of use or
// there is no memory. The slab is given back when nobody refers to the cache any more; those who use it hold a lock of the
// cache, and so refer to it.
func (c *recordCache) initLarge(size int, sets uint64) {
	l := &c.large
	groups := min(uint64(max(size, 0)/LargeRecordCacheStep*cacheShards), sets) // sets is a multiple of cacheShards
	if groups == 0 {
		return
	}
	n := groups * largeWays
	slab, err := syscall.Mmap(-1, 0, int(n*largeSlot), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return
	}
	runtime.AddCleanup(c, func(slab []byte) { _ = syscall.Munmap(slab) }, slab)
	l.groups, l.slab, l.owner, l.used = groups, slab, make([]uint32, n), make([]bool, n)
	hugePages(slab)
}

func (l *largeSlots) place(at uint32) []byte {
	return l.slab[int(at)*largeSlot : (int(at)+1)*largeSlot]
}

// take finds a slot for slot i of the cache, which has none, and empties the one of the cache to which it belonged.
func (l *largeSlots) take(c *recordCache, i int, h uint64) uint32 {
	from := uint32(uint64(i/cacheWays) % l.groups * largeWays)
	owner, used := l.owner[from:from+largeWays], l.used[from:from+largeWays]
	w := slices.Index(owner, 0)
	if w < 0 {
		if w = slices.Index(used, false); w < 0 {
			clear(used)
			w = int(h >> 61 % largeWays)
		}
		of := int(owner[w]) - 1
		c.empty(&c.sets[of/cacheWays], of%cacheWays)
	}
	owner[w], used[w] = uint32(i)+1, true
	return from + uint32(w)
}
