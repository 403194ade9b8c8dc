package stream

import (
	"slices"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// A run is the ids of the oldest entries of a stream that is trimmed, one after the other. An entry that is added to
// a stream of limited length pushes the oldest one out, and the new first entry must be found: to open an iterator
// costs more than all the rest. With the run it is done once for up to runAhead entries, and never for a stream
// that is so short that the run holds all of it.
//
// Only writers use runs, which change at once with every write to the stream, in the transaction that makes it. As a
// last check, a run must begin with the first entry by the metadata record.
type run struct {
	derived.Entry
	ids   []ID
	pos   int // entries before it are gone
	ahead int // how many were read last time
	end   ID  // when it is the last entry of the stream, the run reaches up to there
}

const (
	runFirst = 16
	runAhead = 256
	runMax   = 1024 // ids of a run at most, beyond which it is not extended by entries that are added
)

var runKind = derived.Kind[*run]{ID: derived.Runs}

// runOf returns the run of a stream, nil when there is none; with create, an empty one then.
func (s *stream) runOf(create bool) *run {
	r := engine.FindState(s.tx, runKind, &s.rec)
	if r == nil && create {
		r = &run{}
		engine.KeepState(s.tx, runKind, &s.rec, r, 0)
	}
	if r != nil && (r.left() == 0 || r.ids[r.pos] != s.meta.First) {
		r.ids, r.pos, r.end = r.ids[:0], 0, ID{}
	}
	return r
}

// resize tells the registry how many bytes the run takes.
func (r *run) resize() { r.Resize(16*cap(r.ids) + 64) }

func (r *run) left() int { return len(r.ids) - r.pos }

// grow makes room and returns how many ids the run shall hold, at least n: the more often it was used up, the more.
func (r *run) grow(n int) int {
	r.ids = slices.Delete(r.ids, 0, r.pos)
	r.pos = 0
	r.ahead = min(max(2*r.ahead, runFirst), runAhead)
	return max(n, r.ahead)
}

// dropRun forgets the run of a stream.
func (s *stream) dropRun() {
	if r := s.runOf(false); r != nil {
		r.ids, r.pos, r.end = r.ids[:0], 0, ID{}
	}
}

// extendRun adds an entry that was added after oldLast to a run that reaches up to there.
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

// deleted notes that an entry is gone that may be in the middle of a run. It must be called before the first
// entry by the metadata record is changed.
func (r *run) deleted(id ID) {
	live := r.ids[r.pos:]
	if len(live) == 0 || id.Compare(live[len(live)-1]) > 0 {
		return
	}
	i, found := slices.BinarySearchFunc(live, id, ID.Compare)
	if !found {
		r.ids, r.pos, r.end = r.ids[:0], 0, ID{}
		return
	}
	r.ids = slices.Delete(r.ids, r.pos+i, r.pos+i+1)
	if r.end == id { // the last entry of the stream is another one now
		r.end = ID{}
	}
}
