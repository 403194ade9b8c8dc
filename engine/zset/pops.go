package zset

import (
	"bytes"
	"slices"
	"sort"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// popKind is, for sorted sets that members are popped from, which members come next. To open an iterator costs more
// than all the rest of a pop; so it is done once for up to popAhead pops.
//
// The entries are a run from one end of the set. They change at once with every write to the set, in the transaction
// that makes it and that holds the key's lock for writing: an entry that is added or removed inside the run ends it
// there. Only writers use them.
var popKind = derived.Kind[*pops]{ID: derived.Pops}

const (
	popAhead    = 128      // entries of a run at most
	popMinAhead = 8        // and of the first one that is read ahead
	popMaxBytes = 16 << 10 // bytes of a run; one more entry may follow
)

// pops holds the runs of one set. It is guarded by the key's lock.
type pops struct {
	derived.Entry
	low, high popRun
}

// makePops returns the runs of a set, empty ones if there are none.
func makePops(tx *engine.Tx, rec *engine.Record) *pops {
	p := engine.FindState(tx, popKind, rec)
	if p == nil {
		p = &pops{high: popRun{highest: true}}
		engine.KeepState(tx, popKind, rec, p, p.memory())
	}
	return p
}

// memory returns how many bytes the runs take.
func (p *pops) memory() int {
	return 192 + cap(p.low.data) + cap(p.high.data) + 8*(cap(p.low.ends)+cap(p.high.ends))
}

// popRun are zset_score subkeys, one after the other, in the order in which they are popped.
type popRun struct {
	highest bool
	data    []byte
	ends    []int
	pos     int // entries before it were popped
	ahead   int // how many to read next time
}

func (p *pops) run(highest bool) *popRun {
	if highest {
		return &p.high
	}
	return &p.low
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
func (p *pops) changed(sub []byte, from *popRun) {
	for _, r := range [...]*popRun{&p.low, &p.high} {
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
