package reccache

// The record cache begins small. The sets and the groups of large slots double, shard by shard, up to the max size. So
// a small database takes little memory, and the working set of a big one is served without a read of RocksDB as far as
// the memory goes.

// displacedBy notes that a record that was read after a miss has displaced others in the shard of a hash. When that has
// happened as often as the shard has slots, the slots are too few and the shard grows. Records that are only written do
// not count, because they need not be cached.
func (c *Cache) displacedBy(sh *cacheShard, h uint64, small, large bool) {
	first := uint32(h >> 1 & (cacheShards - 1))
	sets := (sh.mask.Load() + 1) / cacheShards
	if small {
		if sh.displaced++; sh.displaced > sets*cacheWays && c.grow(sh, first) {
			sh.displaced, sh.displacedLarge = 0, 0
			return
		}
	}
	if large {
		// A slot of the cache stands for each large slot: more groups than sets would be of no use.
		if sh.displacedLarge++; sh.displacedLarge > sh.groups*largeWays && sh.groups*2 <= min(sets, c.large.groups) {
			c.growLarge(sh, first)
			sh.displacedLarge = 0
		}
	}
}

// grow doubles the sets of a shard; first is the number of its first set. It does nothing when memory is missing, or
// while a commit is under way in the shard: the end of the commit must find the sets that its beginning has marked.
//
// The half of a set's records that belongs to the new set moves there, with the set's seq, so an older ticket is as
// valid for the one as for the other. Large slots stay in place, because the old and the new set have the same group.
func (c *Cache) grow(sh *cacheShard, first uint32) bool {
	n := sh.mask.Load() + 1
	if uint64(n)*2 > uint64(len(c.sets)) {
		return false
	}
	for i := first; i < n; i += cacheShards {
		if c.sets[i].busy > 0 {
			return false
		}
	}
	sh.mask.Store(n*2 - 1)
	for i := first; i < n; i += cacheShards {
		from, to := &c.sets[i], &c.sets[i+n]
		c.renew(sh, from)
		to.seq, to.epoch = from.seq, from.epoch
		for w := range cacheWays {
			h := from.hash[w].Load()
			if h == 0 || uint32(sh.index(h)) == i {
				continue
			}
			if at := from.large[w]; at > 0 {
				to.large[w], from.large[w] = at, 0
				c.large.owner[at-1] = (i+n)*cacheWays + uint32(w) + 1
			} else {
				copy(c.writeSlot(int(i+n)*cacheWays+w), c.slot(int(i)*cacheWays+w))
			}
			to.hash[w].Store(h)
			from.hash[w].Store(0)
			bit := uint8(1) << w
			to.used |= from.used & bit
			from.used &^= bit
		}
	}
	return true
}

// growLarge doubles the groups of a shard. The number of groups stays a divisor of the number of sets (both are powers
// of two), so a set's group does not depend on the number of sets.
func (c *Cache) growLarge(sh *cacheShard, first uint32) {
	l, n := &c.large, sh.groups
	sh.groups = n * 2
	for g := range n {
		old := (first + g*cacheShards) * largeWays
		for at := old; at < old+largeWays; at++ {
			if l.owner[at] == 0 {
				continue
			}
			slot := l.owner[at] - 1
			to := l.group(slot/cacheWays, sh.groups)
			if to == old {
				continue
			}
			to += at - old
			copy(l.write(to), l.place(at))
			l.owner[to], l.used[to] = l.owner[at], l.used[at]
			l.owner[at], l.used[at] = 0, false
			c.sets[slot/cacheWays].large[slot%cacheWays] = to + 1
		}
	}
}
