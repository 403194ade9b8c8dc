package server

import (
	"runtime"
	"sync"
)

// courier writes published messages to the sockets of their subscribers. It is a goroutine that lives as long as there
// is something to write.
//
// Before it begins it lets others run: clients that publish at the same time then share the writes, as they do in a
// server with one thread. With 100 subscribers a message takes 100 writes, so that counts more than anything else.
// When publishers are faster than the courier, they write themselves (see kickSoon).
type courier struct {
	mu      sync.Mutex
	boxes   []*outbox // to be kicked
	spare   []*outbox // an empty slice, for its memory
	running bool
}

// take accepts outboxes to be kicked. It does not keep the slice.
func (r *courier) take(boxes []*outbox) {
	r.mu.Lock()
	r.boxes = append(r.boxes, boxes...)
	start := !r.running
	r.running = true
	r.mu.Unlock()
	if start {
		go r.run()
	}
}

func (r *courier) run() {
	for {
		runtime.Gosched()
		r.mu.Lock()
		boxes := r.boxes
		r.boxes, r.spare = r.spare[:0], nil
		if len(boxes) == 0 {
			r.running = false
			r.boxes = boxes
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		for _, b := range boxes {
			b.kick()
		}
		clear(boxes)
		r.mu.Lock()
		r.spare = boxes[:0]
		r.mu.Unlock()
	}
}
