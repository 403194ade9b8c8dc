package zset

import (
	"bytes"
	"slices"
	"sort"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// popKind is the state of a sorted set whose members are popped: the members that come next. Opening an iterator costs
// more than the rest of a pop, so one iterator reads up to popAhead entries for later pops: without that ZPOPMIN takes
// twice the CPU time.
//
// The entries are a run from one end of the set. Every transaction that writes the set changes them at once; it holds
// the key's lock for writing. An entry that is added or removed inside the run truncates the run there. Only writers
// use the runs.
var popKind = derived.Kind[*pops]{ID: derived.Pops}

const (
	popAhead    = 128      // max entries of a run
	popMinAhead = 8        // entries of the first run that is read ahead
	popMaxBytes = 16 << 10 // max bytes of a run; it may be exceeded by one entry
)

// pops holds the two runs of one set. The key's lock guards it.
type pops struct {
	derived.Entry
	low, high popRun
}

// makePops returns the runs of a set, new empty ones if none are kept.
func makePops(tx *engine.Tx, rec *engine.Record) *pops {
	p := engine.FindState(tx, popKind, rec)
	if p == nil {
		p = &pops{high: popRun{highest: true}}
		engine.KeepState(tx, popKind, rec, p, p.memory())
	}
	return p
}

// memory returns how many bytes the runs use.
func (p *pops) memory() int {
	return 192 + cap(p.low.data) + cap(p.high.data) + 8*(cap(p.low.ends)+cap(p.high.ends))
}

// popRun is a sequence of zset_score subkeys in the order in which they will be popped.
type popRun struct {
	highest bool
	data    []byte
	ends    []int
	pos     int // the entries before it were popped
	ahead   int // how many entries to read next time
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

// reset empties the run and returns how many entries to read into it. The number grows each time that the run was used
// up.
func (r *popRun) reset() int {
	n := r.ahead
	if r.pos == len(r.ends) {
		r.ahead = min(max(2*r.ahead, popMinAhead), popAhead)
	}
	r.data, r.ends, r.pos = r.data[:0], r.ends[:0], 0
	return n
}

// add appends an entry and reports whether the run has room for more.
func (r *popRun) add(sub []byte) bool {
	r.data = append(r.data, sub...)
	r.ends = append(r.ends, len(r.data))
	return len(r.data) < popMaxBytes
}

// changed truncates the runs at an entry that was added or removed. It skips from, the run from which the entry was
// popped.
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
	inside := func(i int) bool { // entry i is sub or comes after it
		c := bytes.Compare(r.at(r.pos+i), sub)
		return c == 0 || (c > 0) != r.highest
	}
	if !inside(n - 1) {
		return
	}
	r.ends = slices.Delete(r.ends, r.pos+sort.Search(n, inside), len(r.ends))
	r.ahead = popMinAhead
}
