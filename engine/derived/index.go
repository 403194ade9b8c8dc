package derived

import "sync/atomic"

// index finds states by their hashes without a lock: a search of a graph looks up thousands of nodes, and most of the
// time of a look-up under a mutex is the mutex. The mutex of the shard guards changes.
//
// A reader that has loaded the table before a change may still find what the table held then. That is as if it had
// looked earlier, which the rule of validity allows: its snapshot is from before that.
type index struct {
	table atomic.Pointer[[]indexSlot]
	taken int // slots with a hash, which they keep until the table is replaced
}

type indexSlot struct {
	hash  atomic.Uint64 // 0 = free
	entry atomic.Pointer[Entry]
}

func (x *index) find(h uint64) *Entry {
	t := x.table.Load()
	if t == nil {
		return nil
	}
	if s := slotOf(*t, h); s.hash.Load() == h {
		return s.entry.Load()
	}
	return nil
}

// slotOf returns the slot of a hash, or the free one where it would be.
func slotOf(t []indexSlot, h uint64) *indexSlot {
	mask := uint64(len(t) - 1)
	for i := h >> 16 & mask; ; i = (i + 1) & mask {
		if at := t[i].hash.Load(); at == h || at == 0 {
			return &t[i]
		}
	}
}

// set makes find return an entry for its hash; nil = none.
func (x *index) set(h uint64, e *Entry) {
	if h == 0 {
		return // never found
	}
	t := x.table.Load()
	if t == nil || 4*(x.taken+1) > 3*len(*t) {
		t = x.rebuild(t)
	}
	s := slotOf(*t, h)
	s.entry.Store(e)
	if s.hash.Load() == 0 {
		s.hash.Store(h)
		x.taken++
	}
}

// rebuild makes a table with room for as many entries again as there are.
func (x *index) rebuild(old *[]indexSlot) *[]indexSlot {
	live, size := 0, 16
	if old != nil {
		for i := range *old {
			if (*old)[i].entry.Load() != nil {
				live++
			}
		}
	}
	for size < 3*live {
		size *= 2
	}
	t := make([]indexSlot, size)
	x.taken = live
	if old != nil {
		for i := range *old {
			if e := (*old)[i].entry.Load(); e != nil {
				s := slotOf(t, e.hash)
				s.entry.Store(e)
				s.hash.Store(e.hash)
			}
		}
	}
	x.table.Store(&t)
	return &t
}

func (x *index) clear() {
	x.table.Store(nil)
	x.taken = 0
}
