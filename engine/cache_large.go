package engine

import "slices"

// largeSlots are the slots of the records that do not fit into one of slotSize bytes: fragments of bitmaps, segments of
// HyperLogLogs, documents and strings of up to about 1 KiB. There are fewer of them than slots of the record cache, one
// of which stands for each record that they hold.
//
// Slots form groups, and a set of the cache takes only slots of its group. All sets that share a group have the same
// lock, which so guards the group: the number of groups is a multiple of that of locks, and both follow from the number
// of the set by its remainder.
type largeSlots struct {
	slab   []byte
	groups uint64
	owner  []uint32 // index in recordCache.meta + 1; 0 = free
	used   []bool   // since its group was last full of used ones
}

const (
	largeSlot = 1280
	largeWays = 4
)

// init makes slots in about size bytes for a cache of so many sets, none when they are too few to be of use.
func (l *largeSlots) init(size int, sets uint64) {
	groups := min(uint64(max(size, 0))/(largeSlot*largeWays), sets) / cacheShards * cacheShards
	if groups == 0 {
		return
	}
	n := groups * largeWays
	l.groups, l.slab, l.owner, l.used = groups, make([]byte, n*largeSlot), make([]uint32, n), make([]bool, n)
	hugePages(l.slab)
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
		c.empty(int(owner[w]) - 1)
	}
	owner[w], used[w] = uint32(i)+1, true
	return from + uint32(w)
}
