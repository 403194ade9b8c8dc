package stream

import (
	"slices"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// A run holds the consecutive ids of the oldest entries of a stream that is trimmed. An entry that is added to a stream
// of limited length evicts the oldest entry, and then the new first entry must be found. Opening an iterator for that
// costs more than all the rest: XADD MAXLEN takes 3.6 times the CPU time. With a run, one iterator serves up to
// runAhead evictions, and none is opened for a stream so short that the run holds all of it.
//
// Only writers use runs. Every transaction that writes to the stream changes the run at once. As a last check, a run
// must begin with the metadata record's first entry.
type run struct {
	derived.Entry
	ids   []ID
	pos   int // entries before this index are gone
	ahead int // how many ids the last read asked for
	end   ID  // if this is the last entry of the stream, the run holds all entries
}

const (
	runFirst = 16
	runAhead = 256
	runMax   = 1024 // max ids to which added entries extend a run
)

var runKind = derived.Kind[*run]{ID: derived.Runs}

// runOf returns the run of a stream, or nil; with create, a new empty run instead of nil.
func (s *stream) runOf(create bool) *run {
	r := engine.FindState(s.tx, runKind, &s.rec)
	if r == nil && create {
		r = &run{}
		engine.KeepState(s.tx, runKind, &s.rec, r, 0)
	}
	if r != nil && (r.left() == 0 || r.ids[r.pos] != s.meta.First) {
		r.empty()
	}
	return r
}

// resize reports the run's size in bytes to the registry.
func (r *run) resize() { r.Resize(16*cap(r.ids) + 64) }

func (r *run) empty() { r.ids, r.pos, r.end = r.ids[:0], 0, ID{} }

func (r *run) left() int { return len(r.ids) - r.pos }

// grow makes room and returns how many ids to read, at least n. The number grows each time that the run was used up.
func (r *run) grow(n int) int {
	r.ids = slices.Delete(r.ids, 0, r.pos)
	r.pos = 0
	r.ahead = min(max(2*r.ahead, runFirst), runAhead)
	return max(n, r.ahead)
}

// extendRun appends an entry that was added after oldLast, if the run reaches up to oldLast.
func (s *stream) extendRun(oldLast, id ID) {
	r := s.runOf(false)
	if r == nil || r.left() == 0 || r.end != oldLast || oldLast == (ID{}) {
		return
	}
	if r.left() >= runMax {
		r.end = ID{}
		return
	}
	if r.pos > runMax {
		r.ids = slices.Delete(r.ids, 0, r.pos)
		r.pos = 0
	}
	r.ids = append(r.ids, id)
	r.end = id
}

// deleted removes an id, maybe from the middle of the run. It must be called before the metadata record's first entry
// changes.
func (r *run) deleted(id ID) {
	live := r.ids[r.pos:]
	if len(live) == 0 || id.Compare(live[len(live)-1]) > 0 {
		return
	}
	i, found := slices.BinarySearchFunc(live, id, ID.Compare)
	if !found {
		r.empty()
		return
	}
	r.ids = slices.Delete(r.ids, r.pos+i, r.pos+i+1)
	if r.end == id { // the stream has another last entry now
		r.end = ID{}
	}
}
