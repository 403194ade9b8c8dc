package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// An outbox sends replies without ever blocking the sender. Bytes that the socket does not take at once are queued,
// and a goroutine, which lives only as long as the queue, writes them. So a client that sends a long pipeline before
// it reads does not deadlock with the server, and a client that never reads is disconnected when its queue exceeds
// the limit. One reply may be longer than the limit, when nothing is queued before it; see also room.
//
// Several goroutines may send; each call's bytes stay together. Parts of a long reply are sent while the reply is
// made: the messages of other clients wait until its end.
type outbox struct {
	nc     net.Conn
	raw    syscall.RawConn // nil when the connection is not a socket
	limits Limits

	secure *tls.Conn  // encrypts the output, see sendSecure; nil = no encryption
	turn   sync.Mutex // with secure: the right to encrypt
	sealed *[]byte    // with secure: encrypted bytes of the holder of turn; nil = nobody holds turn

	mu      sync.Mutex
	queue   [][]byte
	queued  int
	taken   int     // bytes of the queue that the socket has taken so far
	grace   int     // bytes that may be queued beyond the limit: for one reply longer than the limit
	added   *[]byte // of addedBuffers: messages of add for the next flush or send; nil = none
	writing bool
	partial bool // a reply has begun, and its end comes with a later call of sendReply; see also HoldMessages
	stuck   bool // a reply is sent in parts, and the client has taken nothing of it for some time
	err     error
	idle    sync.Cond   // signalled when the socket has taken bytes of the queue, or has failed
	over    *time.Timer // runs while the soft limit is exceeded
	// stalled is how long a client may take nothing from its queue before it counts as not reading.
	stalled time.Duration

	// The arguments and results of tryWrite: a closure made for each write would be an allocation.
	now  []byte
	n    int
	werr error
	try  func(fd uintptr) bool
}

// Messages wait in a buffer of their own until the socket has taken them.
const (
	keepAdded   = 256 << 10 // a larger buffer is not reused
	urgentAdded = 64 << 10  // so many bytes must not wait for another goroutine to send them
)

const (
	drainPiece = 64 << 10 // bytes of the queue per write
	stalled    = 3 * time.Second
	// streamAhead is how many bytes of a reply that is sent in parts may wait for a client that reads.
	streamAhead = 4 << 20
)

var addedBuffers = sync.Pool{New: func() any { return new([]byte) }}

// ErrOutputLimit is the error of a client with too many unread bytes, see Limits.
var ErrOutputLimit = errors.New("output buffer limit exceeded")

func (o *outbox) init(nc net.Conn, raw syscall.RawConn, limits Limits) {
	o.nc, o.raw, o.limits, o.stalled = nc, raw, limits, stalled
	o.idle.L = &o.mu
	o.try = func(fd uintptr) bool {
		o.n, o.werr = syscall.Write(int(fd), o.now)
		return true
	}
}

// send sends b, and queues a copy of the bytes that the socket does not take. The error is permanent.
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

// endPart notes that a part of a reply, or its end, was sent. After the end it pushes the messages that waited. err
// is the result so far; mu must be held.
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

// sendPlain sends b on a connection without TLS; mu must be held.
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

// allow makes room for a reply of n bytes that is longer than the limit, if nothing is queued before it; mu must be
// held.
func (o *outbox) allow(n int) {
	if o.queued > 0 {
		return
	}
	o.grace = 0
	if limit := o.limits.Hard(); limit > 0 && n > limit {
		o.grace = n + n/64 + keepAdded // plus the overhead of encryption, and earlier messages
	}
}

// full reports whether n more bytes are too many for the queue; mu must be held.
func (o *outbox) full(n int) bool {
	limit := o.limits.Hard()
	return limit > 0 && n > limit+o.grace-o.queued
}

// room waits until the queue has room or is empty, as long as the client takes bytes from the queue: a client that
// reads more slowly than the server replies must not be disconnected. It returns false when the client has taken
// nothing. mu must be held, is held when full is called, and is released meanwhile.
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

// pushAdded sends the added messages; mu must be held.
func (o *outbox) pushAdded() error {
	b := o.added
	o.added = nil
	err := o.push(*b, false)
	recycleAdded(b)
	return err
}

// recycleAdded returns a buffer that is no longer needed to the pool.
func recycleAdded(b *[]byte) {
	if cap(*b) <= keepAdded {
		*b = (*b)[:0]
		addedBuffers.Put(b)
	}
}

// push writes b and queues the bytes that the socket does not take: b itself if it is owned, else a copy. mu must be
// held.
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

// urgency says what the goroutine that has added a message must do.
type urgency uint8

const (
	noFlush    urgency = iota // nothing: another goroutine will flush
	flushLater                // make sure that the outbox is flushed
	flushSoon                 // flush before adding much more: the goroutine that should flush does not keep up
)

// add appends a message for flush, or for the next send. A client whose messages exceed the limit is disconnected.
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

// flush sends the added messages.
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

// tryWrite writes as many bytes as the socket takes without waiting.
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

// fail ends the connection; mu must be held.
func (o *outbox) fail(err error) {
	o.err = err
	o.queue, o.queued, o.added = nil, 0, nil
	o.checkSoft()
	o.idle.Broadcast()
	o.nc.Close() // wakes drain and the reader
}

// checkSoft starts the timer of the soft limit when the queue begins to exceed the limit, and stops the timer when
// the queue no longer does. For a reply that is longer than the limits, or is sent in parts, the timer restarts
// whenever the client has taken bytes. mu must be held.
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

// pending returns how many bytes are queued, including the bytes being written.
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

// backlog returns how many buffers are queued, and their bytes, including messages that wait for a flush.
func (o *outbox) backlog() (buffers, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	buffers = len(o.queue)
	if o.queued > 0 && buffers == 0 {
		buffers = 1 // the buffer that is being written
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

// wait returns when everything is written or the connection has failed.
func (o *outbox) wait() {
	o.mu.Lock()
	for o.writing {
		o.idle.Wait()
	}
	o.mu.Unlock()
}
