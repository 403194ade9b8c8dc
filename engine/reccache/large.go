package reccache

import (
	"math/bits"
	"slices"

	"github.com/basaltdb/basalt/internal/hugepage"
)

// largeSlots are the slots of the records that do not fit into SlotSize bytes: fragments of bitmaps, segments of
// HyperLogLogs, documents and strings of up to about 1 KiB. They are fewer than the slots of the record cache: one of
// those stands for each large record.
//
// Large slots form groups, and a set of the cache takes large slots only from its group. All sets that share a group
// have the same lock, which therefore guards the group: each shard has its own number of groups, and the number of a
// group has the same remainder modulo cacheShards as the numbers of its sets.
type largeSlots struct {
	slab   hugepage.Slab
	groups uint32   // max number of groups in a shard
	owner  []uint32 // number of the slot of the cache + 1; 0 = free
	used   []bool   // since all slots of its group were last used
}

const (
	LargeSlot = 1280
	largeWays = 4
)

// LargeStep is the unit in bytes of Options.LargeRecordCache, which is rounded down to a multiple of it.
const LargeStep = cacheShards * largeWays * LargeSlot

// initLarge makes the large slots, size bytes at first and up to most, for a cache that begins with so many sets. It
// makes none when they would be too few to be of use or when memory is missing.
func (c *Cache) initLarge(size, most int, sets uint64) {
	l := &c.large
	groupsOf := func(bytes int, sets uint64) uint32 {
		return uint32(min(uint64(max(bytes, 0)/LargeStep), sets/cacheShards))
	}
	groups := groupsOf(size, sets)
	if groups == 0 {
		return
	}
	mostGroups := max(groups, groupsOf(most, uint64(len(c.sets))))
	if uint64(len(c.sets)) > sets || mostGroups > groups { // see grow and growLarge
		groups = 1 << (bits.Len32(groups) - 1)
		mostGroups = 1 << (bits.Len32(mostGroups) - 1)
	}
	n := int(mostGroups) * cacheShards * largeWays
	slab, ok := hugepage.MapSlab(c, n*LargeSlot)
	if !ok {
		return
	}
	l.groups, l.slab, l.owner, l.used = mostGroups, slab, make([]uint32, n), make([]bool, n)
	for i := range c.shards {
		c.shards[i].groups = groups
	}
}

func (l *largeSlots) place(at uint32) []byte {
	return l.slab.Bytes[int(at)*LargeSlot : (int(at)+1)*LargeSlot]
}

// write is place for writing.
func (l *largeSlots) write(at uint32) []byte {
	return l.slab.Write(int(at)*LargeSlot, (int(at)+1)*LargeSlot)
}

// group returns the number of the first slot of a set's group.
func (l *largeSlots) group(set uint32, groups uint32) uint32 {
	return (set%cacheShards + set/cacheShards%groups*cacheShards) * largeWays
}

// take finds a large slot for slot i of the cache, which has none, and returns the index of the large slot + 1. It
// reports whether it had to empty the slot of the cache that owned the large slot before.
func (l *largeSlots) take(c *Cache, sh *cacheShard, i int, h uint64) (at uint32, displaced bool) {
	from := l.group(uint32(i/cacheWays), sh.groups)
	owner, used := l.owner[from:from+largeWays], l.used[from:from+largeWays]
	w := slices.Index(owner, 0)
	if displaced = w < 0; displaced {
		if w = slices.Index(used, false); w < 0 {
			clear(used)
			w = int(h >> 61 % largeWays)
		}
		of := int(owner[w]) - 1
		c.empty(&c.sets[of/cacheWays], of%cacheWays)
	}
	owner[w], used[w] = uint32(i)+1, true
	return from + uint32(w) + 1, displaced
}
