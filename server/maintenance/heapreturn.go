package maintenance

import (
	"runtime/debug"
	"runtime/metrics"
)

// heapReturn returns memory to the system after large values have passed through the server. Go collects garbage when
// the heap has doubled, and returns free memory slowly: a server that is idle after a few values of 512 MB would keep
// several gigabytes for minutes.
//
// It checks the heap at every tick. If the heap has grown by worth() since the last cleaning, and little is being
// allocated, it collects garbage and returns free memory. What was in use then may soon be garbage too (such as a reply
// of 512 MB that was being sent). So while the heap stays much larger than before, it is cleaned again at growing
// intervals, and finally left alone: it has grown for good.
//
// It also cleans the heap when the server has become idle. Go keeps the free memory that its next collection would
// allow, and minutes pass before a collection: in a container of 256 MiB that were up to 30 MiB.
type heapReturn struct {
	base      uint64 // bytes of the heap after the last cleaning, or the minimum since
	least     uint64 // the minimum after any cleaning, until the heap has grown for good
	allocated uint64 // bytes allocated since the start, at the last tick
	cleaned   uint64 // bytes allocated since the start, at the last cleaning
	idle      int    // ticks since the last one with more than idleAlloc
	looks     int
	wait      int // ticks from the last cleaning to the next one, if the heap has not grown
	again     int // ticks until the next cleaning; 0 = none is due
	samples   []metrics.Sample
	clean     func()
}

const (
	maxReturning = 128 << 20 // max growth in bytes
	minReturning = 8 << 20   // min growth in bytes
	littleAlloc  = 16 << 20  // bytes from one tick to the next
	idleAlloc    = 256 << 10 // bytes from one tick to the next, of a server without work
	idleTicks    = 20        // two seconds
	firstWait    = 2         // ticks
	lastWait     = 512       // about a minute
)

// worth returns the growth of the heap in bytes that causes a cleaning: a quarter of Go's soft limit, so that a server
// in a small container keeps less.
func worth() uint64 {
	return uint64(min(max(debug.SetMemoryLimit(-1)/4, minReturning), maxReturning))
}

// newHeapReturn measures growth from now on. What comes before the first tick counts: a server may get large values as
// soon as it is ready.
func newHeapReturn() *heapReturn {
	h := &heapReturn{clean: debug.FreeOSMemory, samples: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}}
	h.base, h.allocated = h.read()
	h.least = h.base
	return h
}

// tick is called at every tick of Work; tests call it directly.
func (h *heapReturn) tick() {
	held, allocated := h.read()
	worth := worth()
	quiet := allocated-h.allocated < littleAlloc
	if h.idle++; allocated-h.allocated > idleAlloc {
		h.idle = 0
	}
	h.looks++
	h.allocated = allocated
	h.base = min(h.base, held)
	h.least = min(h.least, held)
	grown := held-h.base >= worth
	// Half a heap of garbage: bursts with pauses in between cause at most twice as many collections as without pauses.
	idle := h.idle >= idleTicks && allocated-h.cleaned >= max(minReturning, held/2)
	if !quiet || !grown && !idle && (h.again == 0 || h.looks < h.again) {
		return
	}
	h.clean()
	h.base, h.allocated = h.read()
	h.cleaned = h.allocated
	h.least = min(h.least, h.base)
	if h.wait *= 2; grown || held-min(held, h.base) >= worth {
		h.wait = firstWait
	}
	switch {
	case h.base-h.least < worth:
		h.again = 0
	case h.wait > lastWait:
		h.again, h.least = 0, h.base
	default:
		h.again = h.looks + h.wait
	}
}

// read returns the bytes of the heap, including garbage and free memory that was not returned, and the bytes allocated
// since the start.
func (h *heapReturn) read() (held, allocated uint64) {
	metrics.Read(h.samples)
	for _, s := range h.samples[1:] {
		held += s.Value.Uint64()
	}
	return held, h.samples[0].Value.Uint64()
}
