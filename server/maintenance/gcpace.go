package maintenance

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// gcPace decides how much garbage Go's heap may gather before a collection.
//
// By default the garbage may equal the live objects, at least 4 MiB. Most of this server's data is not in Go's heap, so
// that would mean a collection every few megabytes of commands. And if the live objects fill the memory planned for Go,
// as much garbage again would exceed the plan.
type gcPace struct {
	planned uint64 // planned bytes of Go's heap, see memplan.Plan
	percent int    // the current GOGC
	sample  []metrics.Sample
	set     func(percent int) int // nil = the environment sets GOGC: do nothing
}

// smallGarbage is how many bytes of garbage may always gather within the plan.
const smallGarbage = 32 << 20

func newGCPace(planned uint64) gcPace {
	p := gcPace{planned: planned, percent: 100, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	if os.Getenv("GOGC") == "" {
		p.set = debug.SetGCPercent
	}
	return p
}

// adjust adapts GOGC to the live bytes at the last collection. Changing GOGC stops all goroutines for a moment, so it
// skips small changes.
func (p *gcPace) adjust() {
	if p.set == nil {
		return
	}
	metrics.Read(p.sample)
	want := gcPercent(p.sample[0].Value.Uint64(), p.planned)
	if d := want - p.percent; d > p.percent/4 || -d > p.percent/4 {
		p.set(want)
		p.percent = want
	}
}

// gcPercent returns the GOGC for live and planned bytes: the garbage may equal the live bytes, and be at least
// smallGarbage. Garbage beyond the plan is not allowed, but at least a quarter of the live bytes is.
func gcPercent(live, planned uint64) int {
	const least = 4 << 20 // Go never collects a smaller heap
	live = max(live, least)
	garbage := max(live, smallGarbage)
	if left := planned - min(planned, live); garbage > left {
		garbage = max(left, live/4)
	}
	return int(garbage * 100 / live)
}
