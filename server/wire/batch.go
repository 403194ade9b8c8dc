package wire

import (
	"runtime"
	"sync"
)

// Batch collects the messages that a run of commands sends to other clients. A message enters the outbox of its
// receiver at once, which keeps the order of messages from several senders. The socket is written when the run
// flushes: so many messages to one receiver cost one write, and the sender's own replies go first.
//
// Messages that a client sends to itself are kept until the run appends them to a reply.
//
// A Batch belongs to one goroutine. A nil Batch stands for a sender without a run: its messages are flushed at once.
type Batch struct {
	flusher *Flusher
	flushes []*Conn // pending, for Flush
	shared  []*Conn // pending, for the flusher
	own     []byte
}

// NewBatch returns an empty batch. flusher takes the flushes of PostShared.
func NewBatch(flusher *Flusher) Batch { return Batch{flusher: flusher} }

// Post sends a message to another client.
func (b *Batch) Post(to *Conn, message []byte) {
	switch {
	case to.out.add(message) == noFlush:
	case b == nil:
		to.out.flush()
	default:
		b.flushes = append(b.flushes, to)
	}
}

// PostShared sends a message that many clients may receive, possibly from many senders at the same time: the flusher
// writes it.
func (b *Batch) PostShared(to *Conn, message []byte) {
	switch do := to.out.add(message); {
	case do == noFlush:
	case b == nil:
		to.out.flush()
	case do == flushLater:
		b.shared = append(b.shared, to)
	default:
		b.flushes = append(b.flushes, to)
	}
}

// PostOwn keeps a message of the client to itself.
func (b *Batch) PostOwn(message []byte) { b.own = append(b.own, message...) }

// Own returns the messages of the client to itself. They are valid until the next PostOwn or DropOwn.
func (b *Batch) Own() []byte { return b.own }

// DropOwn drops the messages of the client to itself.
func (b *Batch) DropOwn() {
	if b.own = b.own[:0]; cap(b.own) > KeepBuffer {
		b.own = nil
	}
}

// Pending reports whether any connection has messages to flush.
func (b *Batch) Pending() bool { return len(b.flushes)+len(b.shared) > 0 }

// Flush sends the posted messages.
func (b *Batch) Flush() {
	if len(b.shared) > 0 {
		b.flusher.take(b.shared)
		clear(b.shared)
		b.shared = b.shared[:0]
	}
	for i, c := range b.flushes {
		c.out.flush()
		b.flushes[i] = nil
	}
	b.flushes = b.flushes[:0]
}

// Flusher writes shared messages to the sockets of their receivers. Its goroutine runs only while there are messages
// to write. The zero Flusher is ready to use.
//
// Before the goroutine writes, it lets other goroutines run: clients that publish at the same time then share the
// writes, as in a server with one thread. With 100 subscribers a message takes 100 writes, so sharing them matters
// most. When senders are faster than the flusher, they write themselves (see flushSoon).
type Flusher struct {
	mu      sync.Mutex
	pending []*Conn
	spare   []*Conn // an empty slice, for its memory
	running bool
}

// take accepts connections to flush. It does not keep the slice.
func (f *Flusher) take(conns []*Conn) {
	f.mu.Lock()
	f.pending = append(f.pending, conns...)
	start := !f.running
	f.running = true
	f.mu.Unlock()
	if start {
		go f.run()
	}
}

func (f *Flusher) run() {
	for {
		runtime.Gosched()
		f.mu.Lock()
		conns := f.pending
		f.pending, f.spare = f.spare[:0], nil
		if len(conns) == 0 {
			f.running = false
			f.pending = conns
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		for _, c := range conns {
			c.out.flush()
		}
		clear(conns)
		f.mu.Lock()
		f.spare = conns[:0]
		f.mu.Unlock()
	}
}
