package zset

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// The pop cache remembers, for sorted sets that members are popped from, which members come next. To open an
// iterator costs more than all the rest of a pop; with the cache it is done once for up to popAhead pops.
//
// The remembered entries are a run from one end of the set. They change at once with every write to the set, in
// the transaction that makes it and that holds the key's lock for writing: an entry that is added or removed
// inside the run ends it there. Only writers use them. They can be trusted as long as the engine keeps the hint that
// belongs to them: see [rankCache], whose rules hold here too.
type popCache struct {
	mu    sync.Mutex
	sets  map[string]*popAnchor
	used  atomic.Bool
	token atomic.Uint64
}

var pops = popCache{sets: map[string]*popAnchor{}}

const (
	popMaxSets  = 256
	popAhead    = 128      // entries of a run at most
	popMinAhead = 8        // and of the first one that is read ahead
	popMaxBytes = 16 << 10 // bytes of a run; one more entry may follow
	popSentinel = cf.PubSub
)

// popAnchor holds the runs of one set. It is guarded by the key's lock.
type popAnchor struct {
	id        string
	token     uint64
	low, high popRun
}

// popRun are zset_score subkeys, one after the other, in the order in which they are popped.
type popRun struct {
	highest bool
	data    []byte
	ends    []int
	pos     int // entries before it were popped
	ahead   int // how many to read next time
}

func (a *popAnchor) run(highest bool) *popRun {
	if highest {
		return &a.high
	}
	return &a.low
}

// of returns the runs of a set that can be trusted, new ones with create.
func (c *popCache) of(tx *engine.Tx, rec *engine.Record, create bool) *popAnchor {
	if !create && !c.used.Load() {
		return nil
	}
	prefix := tx.SubkeyPrefix(rec)
	var buf [128]byte
	id := rankID(buf[:0], tx, prefix)
	c.mu.Lock()
	a := c.sets[string(id)]
	c.mu.Unlock()
	if a != nil {
		if hint := tx.LowBound(popSentinel, prefix); len(hint) == 8 && binary.LittleEndian.Uint64(hint) == a.token {
			return a
		}
		c.drop(a.id)
	}
	if !create {
		return nil
	}
	a = &popAnchor{id: string(id), token: c.token.Add(1)}
	a.high.highest = true
	var token [8]byte
	binary.LittleEndian.PutUint64(token[:], a.token)
	tx.SetLowBound(popSentinel, prefix, token[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sets) >= popMaxSets {
		for k := range c.sets {
			delete(c.sets, k)
			break
		}
	}
	c.sets[a.id] = a
	c.used.Store(true)
	return a
}

func (c *popCache) drop(id string) {
	c.mu.Lock()
	delete(c.sets, id)
	c.used.Store(len(c.sets) > 0)
	c.mu.Unlock()
}

func (r *popRun) left() int { return len(r.ends) - r.pos }

func (r *popRun) at(i int) []byte {
	from := 0
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.data[from:r.ends[i]]
}

// reset empties the run before it is filled anew, and returns how many entries it shall get. The more often it was
// used up, the more.
func (r *popRun) reset() int {
	n := r.ahead
	if r.pos == len(r.ends) {
		r.ahead = min(max(2*r.ahead, popMinAhead), popAhead)
	}
	r.data, r.ends, r.pos = r.data[:0], r.ends[:0], 0
	return n
}

// add appends an entry and reports whether there is room for more.
func (r *popRun) add(sub []byte) bool {
	r.data = append(r.data, sub...)
	r.ends = append(r.ends, len(r.data))
	return len(r.data) < popMaxBytes
}

// changed ends the runs before an entry that was added or removed. It leaves out the run from which it was popped.
func (a *popAnchor) changed(sub []byte, from *popRun) {
	for _, r := range [...]*popRun{&a.low, &a.high} {
		if r != from {
			r.cut(sub)
		}
	}
}

func (r *popRun) cut(sub []byte) {
	n := r.left()
	if n == 0 {
		return
	}
	inside := func(i int) bool { // the entry is not before sub
		c := bytes.Compare(r.at(r.pos+i), sub)
		return c == 0 || (c > 0) != r.highest
	}
	if !inside(n - 1) {
		return
	}
	r.ends = slices.Delete(r.ends, r.pos+sort.Search(n, inside), len(r.ends))
	r.ahead = popMinAhead
}
