package maintenance

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// gcPace decides how much garbage Go's heap may gather before it is collected.
//
// By itself Go lets as much gather as there are live objects, 4 MiB at the least. Most of what this server keeps is
// not in Go's heap, so that would be a collection every few megabytes of commands. And where the live objects fill
// what is planned for Go, as much again would be beyond the plan.
type gcPace struct {
	planned uint64 // bytes of Go's heap, see config.MemoryPlan
	percent int    // in force
	sample  []metrics.Sample
	set     func(percent int) int // nil = the environment sets GOGC: nothing is done
}

// smallGarbage is how many bytes of garbage may always gather if they are within the plan.
const smallGarbage = 32 << 20

func newGCPace(planned uint64) gcPace {
	p := gcPace{planned: planned, percent: 100, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	if os.Getenv("GOGC") == "" {
		p.set = debug.SetGCPercent
	}
	return p
}

// look adapts GOGC to what was live at the last collection. A change stops all goroutines for a moment, so small ones
// are left out.
func (p *gcPace) look() {
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

// gcPercent returns the GOGC for a heap of so many live bytes, of which so many are planned: garbage may be as much
// as is live, and smallGarbage at the least. What is beyond the plan is cut off, down to a quarter of what is live.
func gcPercent(live, planned uint64) int {
	const least = 4 << 20 // Go's heap is never collected below that
	live = max(live, least)
	garbage := max(live, smallGarbage)
	if left := planned - min(planned, live); garbage > left {
		garbage = max(left, live/4)
	}
	return int(garbage * 100 / live)
}
