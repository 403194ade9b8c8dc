package server

import (
	"runtime/debug"
	"runtime/metrics"
)

// heapReturn gives memory back to the system after large values have passed through the server. Go collects garbage when
// the heap has grown to twice what was in use, and gives free memory back little by little: a server that is idle after a
// few values of 512 MB would keep several gigabytes for minutes.
//
// It looks at the heap at every tick. If the heap has grown by worthReturning since it was last cleaned up, and little is
// being allocated, it is cleaned up. What is in use then is the new base: a heap that has grown for good is not cleaned
// up again and again.
type heapReturn struct {
	base      uint64 // bytes of the heap after the last cleaning, or fewer if there were fewer since
	allocated uint64 // bytes allocated since the start, at the last look
	samples   []metrics.Sample
	clean     func() // nil = debug.FreeOSMemory
}

const (
	worthReturning = 128 << 20 // bytes
	littleAlloc    = 16 << 20  // bytes from one tick to the next
)

// look is called at every tick, and at once by tests.
func (h *heapReturn) look() {
	held, allocated := h.read()
	quiet := allocated-h.allocated < littleAlloc
	first := h.allocated == 0
	h.allocated = allocated
	if first || held < h.base {
		h.base = held
	}
	if !quiet || held-h.base < worthReturning {
		return
	}
	if h.clean != nil {
		h.clean()
	} else {
		debug.FreeOSMemory()
	}
	h.base, h.allocated = h.read()
}

// read returns how many bytes the heap holds, garbage and free memory included that the system has not got back, and how
// many were allocated since the start.
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
