package maintenance

import (
	"runtime/debug"
	"runtime/metrics"
)

// heapReturn gives memory back to the system after large values have passed through the server. Go collects garbage
// when the heap has grown to twice what was in use, and gives free memory back little by little: a server that is
// idle after a few values of 512 MB would keep several gigabytes for minutes.
//
// It looks at the heap at every tick. If the heap has grown by worth() since it was last cleaned up, and
// little is being allocated, it is cleaned up. What was in use then may soon be garbage too (a reply of 512 MB that
// was being sent), so as long as there is much more than there once was it is cleaned up again, less and less often,
// and in the end left alone: it has grown for good.
type heapReturn struct {
	base      uint64 // bytes of the heap after the last cleaning, or fewer if there were fewer since
	least     uint64 // the same after any cleaning, until the heap has grown for good
	allocated uint64 // bytes allocated since the start, at the last look
	looks     int
	wait      int // looks from the last cleaning to the next one, if it has not grown
	again     int // the look of the next one; 0 = none is due
	samples   []metrics.Sample
	clean     func() // nil = debug.FreeOSMemory
}

const (
	worthReturning = 128 << 20 // bytes, at most
	leastReturning = 8 << 20   // bytes
	littleAlloc    = 16 << 20  // bytes from one tick to the next
	firstWait      = 2         // looks
	lastWait       = 512       // about a minute
)

// worth returns by how many bytes the heap must have grown to be cleaned up: a quarter of Go's soft limit, so that a
// server in a small container keeps less.
func worth() uint64 {
	return uint64(min(max(debug.SetMemoryLimit(-1)/4, leastReturning), worthReturning))
}

// look is called at every tick, and at once by tests.
func (h *heapReturn) look() {
	held, allocated := h.read()
	worth := worth()
	quiet := allocated-h.allocated < littleAlloc
	if h.looks++; h.looks == 1 {
		h.least = held
		h.base = held
	}
	h.allocated = allocated
	h.base = min(h.base, held)
	h.least = min(h.least, held)
	grown := held-h.base >= worth
	if !quiet || !grown && (h.again == 0 || h.looks < h.again) {
		return
	}
	if h.clean != nil {
		h.clean()
	} else {
		debug.FreeOSMemory()
	}
	h.base, h.allocated = h.read()
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

// read returns how many bytes the heap holds, garbage and free memory included that the system has not got back, and
// how many were allocated since the start.
func (h *heapReturn) read() (held, allocated uint64) {
	if h.samples == nil {
		h.samples = []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
			{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	}
	metrics.Read(h.samples)
	for _, s := range h.samples[1:] {
		held += s.Value.Uint64()
	}
	return held, h.samples[0].Value.Uint64()
}
