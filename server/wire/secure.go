package wire

import (
	"net"
	"sync"
	"time"
)

// A TLS connection is a socket like any other, with a layer above it:
//
//	replies  → outbox.send → tls.Conn → transport.Write → outbox.push → socket
//	commands ← receiver.read ← tls.Conn ← transport.Read  ← socket
//
// So crypto/tls never waits for the socket when it writes: the outbox queues the encrypted bytes, and its limit
// applies. Everything else works on the socket itself: deadlines to wake the owner, closing. A read that meets its
// deadline leaves crypto/tls in a usable state, also in the middle of a record. A write never has a deadline.

// transport is the network connection that crypto/tls uses.
type transport struct {
	net.Conn // the socket
	box      *outbox
	// received: nothing more may be read from the socket. Only the reader's goroutine uses the field.
	received bool
}

// errReceived says that all bytes read from the socket are decrypted. To crypto/tls it looks like a passed deadline.
var errReceived net.Error = receivedError{}

type receivedError struct{}

func (receivedError) Error() string   { return "nothing more was received" }
func (receivedError) Timeout() bool   { return true }
func (receivedError) Temporary() bool { return true }

func (t *transport) Read(b []byte) (int, error) {
	if t.received {
		return 0, errReceived
	}
	return t.Conn.Read(b)
}

// Write never blocks.
func (t *transport) Write(b []byte) (int, error) {
	if err := t.box.encrypted(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// crypto/tls must not set deadlines, and must not close the socket.

func (t *transport) SetDeadline(time.Time) error      { return nil }
func (t *transport) SetReadDeadline(time.Time) error  { return nil }
func (t *transport) SetWriteDeadline(time.Time) error { return nil }
func (t *transport) Close() error                     { return nil }

// readSecure is read for a TLS connection. As on a plain connection, no buffer exists while it waits: the first byte
// is read into a separate variable, and the rest of the received bytes follows without another read of the socket.
func (r *receiver) readSecure() (int, error) {
	r.release()
	into := r.first[:]
	if r.buf != nil {
		into = r.buf[r.w:]
	}
	n, err := r.secure.Read(into)
	if n == 0 {
		return 0, err
	}
	if r.buf == nil {
		r.acquire()
		r.buf[0] = r.first[0]
	}
	r.w += n
	for r.transport.received = true; r.w < len(r.buf); {
		m, err := r.secure.Read(r.buf[r.w:])
		n += m
		r.w += m
		if err != nil {
			break // a permanent error is returned again by the next call
		}
	}
	r.transport.received = false
	return n, nil
}

// maxSealed is how many encrypted bytes are collected before they are sent to the socket.
const maxSealed = 64 << 10

var sealBuffers = sync.Pool{New: func() any { return new([]byte) }}

// sendSecure is send and flush for a TLS connection. o.turn keeps the order of messages. The locks are taken in this
// order: o.turn, the lock of crypto/tls, o.mu.
func (o *outbox) sendSecure(b []byte) error {
	o.turn.Lock()
	defer o.turn.Unlock()
	return o.seal(b)
}

// sealReply is sendSecure for a reply, or for a part that is not its end.
func (o *outbox) sealReply(b []byte, more bool) error {
	o.turn.Lock()
	defer o.turn.Unlock()
	err := o.seal(b)
	o.mu.Lock()
	was := o.partial
	err = o.endPart(err, more)
	o.mu.Unlock()
	if was && !more && err == nil {
		err = o.seal(nil) // the messages that waited for the end
	}
	return err
}

// seal encrypts and sends; o.turn must be held.
func (o *outbox) seal(b []byte) error {
	o.mu.Lock()
	if err := o.err; err != nil {
		o.mu.Unlock()
		return err
	}
	o.allow(len(b))
	var added *[]byte
	if !o.partial {
		added, o.added = o.added, nil
	}
	o.sealed = sealBuffers.Get().(*[]byte)
	o.mu.Unlock()

	var err error
	if added != nil {
		_, err = o.secure.Write(*added)
		recycleAdded(added)
	}
	if len(b) > 0 && err == nil {
		_, err = o.secure.Write(b)
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	sealed := o.sealed
	o.sealed = nil
	if o.err == nil && len(*sealed) > 0 {
		o.push(*sealed, false)
	}
	*sealed = (*sealed)[:0]
	if cap(*sealed) <= 2*maxSealed {
		sealBuffers.Put(sealed)
	}
	if o.err != nil {
		return o.err
	}
	return err
}

// encrypted takes the bytes that crypto/tls writes: replies, or its own records.
func (o *outbox) encrypted(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.sealed == nil {
		return o.push(b, false)
	}
	*o.sealed = append(*o.sealed, b...)
	if len(*o.sealed) < maxSealed {
		return nil
	}
	err := o.push(*o.sealed, false)
	*o.sealed = (*o.sealed)[:0]
	return err
}
