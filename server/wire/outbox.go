package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// An outbox sends replies without ever blocking the one that produces them. What the socket does not take at
// once is queued, and a goroutine, which lives only as long as there is a queue, writes it. So a client that
// sends a long pipeline before it reads does not deadlock with us, and one that never reads is cut off when its
// queue exceeds the limit. One reply may be longer than the limit, when nothing is queued before it; see also room.
//
// Several goroutines may send; each call's bytes stay together. Of a long reply, parts leave while it is made: the
// messages of others wait until its end.
type outbox struct {
	nc     net.Conn
	raw    syscall.RawConn // nil when the connection is not a socket
	limits Limits

	secure *tls.Conn  // encrypts what is sent, see sendSecure; nil = nothing does
	turn   sync.Mutex // with secure: the right to encrypt
	sealed *[]byte    // with secure: encrypted by the one whose turn it is; nil = it is nobody's

	mu      sync.Mutex
	queue   [][]byte
	queued  int
	taken   int     // bytes of the queue that the socket has taken, ever
	grace   int     // bytes that may be queued beyond the limit: a reply that is longer than it
	added   *[]byte // of addedBuffers: by add, to go out with the next flush or send; nil = nothing
	writing bool
	partial bool // a reply has begun, and its end is to come with another call of sendReply
	stuck   bool // the client has taken nothing for some time of a reply that leaves in parts
	err     error
	idle    sync.Cond   // signalled when something of the queue was taken or it has failed
	over    *time.Timer // runs while the soft limit is exceeded
	// stalled is how long a client may take nothing of its queue until it counts as one that does not read.
	stalled time.Duration

	// The arguments and results of tryWrite: a closure made for each write would be an allocation.
	now  []byte
	n    int
	werr error
	try  func(fd uintptr) bool
}

// Messages wait in a buffer of their own, until the socket has taken them.
const (
	keepAdded   = 256 << 10 // a bigger buffer is not used again
	urgentAdded = 64 << 10  // so many bytes must not wait for somebody else to send them
)

const (
	drainPiece = 64 << 10 // bytes of the queue that are written at once
	stalled    = 3 * time.Second
	// streamAhead is how many bytes of a reply that leaves in parts may wait for a client that reads.
	streamAhead = 4 << 20
)

var addedBuffers = sync.Pool{New: func() any { return new([]byte) }}

// ErrOutputLimit says that a client has not read what was sent to it, see Limits.
var ErrOutputLimit = errors.New("output buffer limit exceeded")

func (o *outbox) init(nc net.Conn, raw syscall.RawConn, limits Limits) {
	o.nc, o.raw, o.limits, o.stalled = nc, raw, limits, stalled
	o.idle.L = &o.mu
	o.try = func(fd uintptr) bool {
		o.n, o.werr = syscall.Write(int(fd), o.now)
		return true
	}
}

// send sends b, or queues a copy of what the socket does not take. The error is permanent.
func (o *outbox) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if o.secure != nil {
		return o.sendSecure(b)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sendPlain(b, false)
}

// sendReply is Conn.Reply, or with more Conn.ReplyPart.
func (o *outbox) sendReply(b []byte, owned, more bool) error {
	o.mu.Lock()
	if more && !o.stuck {
		o.stuck = !o.room(func() bool { return o.queued+len(b) > streamAhead || o.full(len(b)) })
	}
	o.room(func() bool { return o.full(len(b)) })
	if o.secure != nil {
		o.mu.Unlock()
		return o.sealReply(b, more)
	}
	defer o.mu.Unlock()
	return o.endPart(o.sendPlain(b, owned), more)
}

// endPart notes that a part of a reply was sent, or its end, after which come the messages that waited for it. err is
// the result so far; mu is held.
func (o *outbox) endPart(err error, more bool) error {
	was := o.partial
	if o.partial = more; !more {
		o.stuck = false
	}
	if was && !more && o.added != nil && err == nil && o.secure == nil {
		err = o.pushAdded()
	}
	return err
}

// sendPlain sends b on a connection without TLS; mu is held.
func (o *outbox) sendPlain(b []byte, owned bool) error {
	if o.err != nil {
		return o.err
	}
	o.allow(len(b))
	if o.added == nil || o.partial {
		return o.push(b, owned)
	}
	*o.added = append(*o.added, b...)
	return o.pushAdded()
}

// allow makes room for a reply of n bytes that is longer than the limit if nothing is queued before it; mu is held.
func (o *outbox) allow(n int) {
	if o.queued > 0 {
		return
	}
	o.grace = 0
	if limit := o.limits.Hard(); limit > 0 && n > limit {
		o.grace = n + n/64 + keepAdded // and what encryption adds, and messages before it
	}
}

// full reports whether n more bytes are too many for the queue; mu is held.
func (o *outbox) full(n int) bool {
	limit := o.limits.Hard()
	return limit > 0 && n > limit+o.grace-o.queued
}

// room waits until there is room in the queue, or it is empty, as long as the client takes something of what is there:
// one that reads more slowly than we reply is not to be cut off. It returns false when the client has not. mu is held,
// here and when full is called, and given back meanwhile.
func (o *outbox) room(full func() bool) bool {
	for o.err == nil && o.queued > 0 && full() {
		taken, late := o.taken, false
		timer := time.AfterFunc(o.stalled, func() {
			o.mu.Lock()
			late = true
			o.mu.Unlock()
			o.idle.Broadcast()
		})
		for o.err == nil && o.taken == taken && !late {
			o.idle.Wait()
		}
		timer.Stop()
		if o.taken == taken {
			return false
		}
	}
	return true
}

// pushAdded sends what was added; mu is held.
func (o *outbox) pushAdded() error {
	b := o.added
	o.added = nil
	err := o.push(*b, false)
	recycleAdded(b)
	return err
}

// recycleAdded gives a buffer back that is no longer needed.
func recycleAdded(b *[]byte) {
	if cap(*b) <= keepAdded {
		*b = (*b)[:0]
		addedBuffers.Put(b)
	}
}

// push writes b, or queues what the socket does not take, itself if it is owned and else a copy; mu is held.
func (o *outbox) push(b []byte, owned bool) error {
	if !o.writing {
		n, err := o.tryWrite(b)
		if err != nil {
			o.err = err
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
	if o.full(len(b)) {
		o.fail(ErrOutputLimit)
		return ErrOutputLimit
	}
	if !owned {
		b = append([]byte(nil), b...)
	}
	o.queue = append(o.queue, b)
	o.queued += len(b)
	o.checkSoft()
	if !o.writing {
		o.writing = true
		go o.drain()
	}
	return nil
}

// urgency says what the one who has added a message must do.
type urgency uint8

const (
	noFlush    urgency = iota // nothing: somebody else has undertaken to flush
	flushLater                // see to it that the outbox is flushed
	flushSoon                 // flush it before adding much more: whoever has undertaken to does not keep up
)

// add appends a message that flush, or the next send, is to send. A client whose messages exceed the limit is cut
// off.
func (o *outbox) add(b []byte) urgency {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return noFlush
	}
	do := noFlush
	if o.added == nil {
		o.added = addedBuffers.Get().(*[]byte)
		do = flushLater
	}
	before := len(*o.added)
	if o.full(before + len(b)) {
		o.fail(ErrOutputLimit)
		return noFlush
	}
	*o.added = append(*o.added, b...)
	if after := len(*o.added); before < urgentAdded && after >= urgentAdded {
		do = flushSoon
	}
	return do
}

// flush sends what was added.
func (o *outbox) flush() {
	if o.secure != nil {
		o.sendSecure(nil)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.added != nil && o.err == nil && !o.partial {
		o.pushAdded()
	}
}

// end ends the connection without its last replies.
func (o *outbox) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.fail(err)
	}
}

// tryWrite writes what the socket takes without waiting.
func (o *outbox) tryWrite(b []byte) (int, error) {
	if o.raw == nil {
		return 0, nil
	}
	o.now, o.n, o.werr = b, 0, nil
	err := o.raw.Write(o.try)
	o.now = nil
	switch {
	case err != nil:
		return 0, err
	case o.werr == syscall.EAGAIN || o.werr == syscall.EINTR:
		return 0, nil
	case o.werr != nil:
		return 0, o.werr
	}
	return o.n, nil
}

// drain writes the queue until it is empty.
func (o *outbox) drain() {
	o.mu.Lock()
	for len(o.queue) > 0 && o.err == nil {
		b := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		for len(b) > 0 && o.err == nil {
			piece := b[:min(len(b), drainPiece)]
			b = b[len(piece):]
			o.mu.Unlock()
			_, err := o.nc.Write(piece)
			o.mu.Lock()
			if o.err == nil {
				o.queued -= len(piece)
				o.taken += len(piece)
				o.checkSoft()
				if err != nil {
					o.fail(err)
				}
			}
			o.idle.Broadcast()
		}
	}
	o.queue = nil
	o.writing = false
	o.idle.Broadcast()
	o.mu.Unlock()
}

// fail ends the connection; mu is held.
func (o *outbox) fail(err error) {
	o.err = err
	o.queue, o.queued, o.added = nil, 0, nil
	o.checkSoft()
	o.idle.Broadcast()
	o.nc.Close() // wakes drain and the reader
}

// checkSoft starts the time of the soft limit when what is queued has come to exceed it, and ends it when it no longer
// does. It begins anew whenever something was taken of a reply that is longer than the limits, or leaves in parts. mu
// is held.
func (o *outbox) checkSoft() {
	if o.limits.Soft == nil || o.over == nil && o.queued == 0 {
		return
	}
	most, during := o.limits.Soft()
	exceeded := most > 0 && o.queued > most
	switch {
	case exceeded && o.over == nil:
		var t *time.Timer
		t = time.AfterFunc(during, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.over == t && o.err == nil { // not stopped meanwhile
				o.fail(ErrOutputLimit)
			}
		})
		o.over = t
	case !exceeded && o.over != nil:
		o.over.Stop()
		o.over = nil
	case exceeded && (o.partial || o.queued <= most+o.grace):
		o.over.Reset(during)
	}
}

// pending returns how many bytes are queued, the part included that is being written.
func (o *outbox) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued
}

// failure returns why nothing more can be sent, nil when it can.
func (o *outbox) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// backlog returns how many buffers are queued, and their bytes, messages that wait for a flush included.
func (o *outbox) backlog() (buffers, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	buffers = len(o.queue)
	if o.queued > 0 && buffers == 0 {
		buffers = 1 // the one that is being written
	}
	if o.added != nil {
		return buffers + 1, o.queued + len(*o.added)
	}
	return buffers, o.queued
}

// await waits until no more than n bytes are queued, or the connection has failed.
func (o *outbox) await(n int) {
	o.mu.Lock()
	for o.err == nil && o.queued > n {
		o.idle.Wait()
	}
	o.mu.Unlock()
}

// wait returns when everything was written or the connection failed.
func (o *outbox) wait() {
	o.mu.Lock()
	for o.writing {
		o.idle.Wait()
	}
	o.mu.Unlock()
}
