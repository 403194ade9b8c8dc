package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Conn is the connection of one client. One goroutine, its owner, receives: Fill, Read, Input, Consume, Inject, Grow,
// Handshake and the Wait methods are for the owner only. All other methods may be called by any goroutine.
type Conn struct {
	nc  net.Conn
	raw syscall.RawConn // nil when nc is not a socket
	in  receiver
	out outbox
}

// Size is the size of a Conn in bytes, without its buffers.
const Size = int64(unsafe.Sizeof(Conn{}))

// Limits bound the bytes that wait to be sent to a client. A connection that exceeds a limit is closed, and its error
// is ErrOutputLimit.
type Limits struct {
	// Hard returns how many bytes may wait, 0 = no limit.
	Hard func() int
	// Soft returns how many bytes may wait for longer than a given time, 0 = no limit. nil = no soft limit exists.
	Soft func() (bytes int, during time.Duration)
}

// New takes over a connection. It is closed with Close, or when nothing more can be sent.
func New(nc net.Conn, limits Limits) *Conn {
	c := &Conn{}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	if c.raw == nil {
		nc = &timed{Conn: nc, changed: make(chan struct{})}
	}
	c.nc = nc
	c.in.init(nc, c.raw)
	c.out.init(nc, c.raw, limits)
	return c
}

// Encrypt puts TLS between the connection and its socket. It is called before anything is sent or received.
func (c *Conn) Encrypt(config *tls.Config) {
	t := &transport{Conn: c.nc, box: &c.out}
	c.out.secure = tls.Server(t, config)
	c.in.secure, c.in.transport, c.in.raw = c.out.secure, t, nil
}

// Encrypted reports whether there is TLS.
func (c *Conn) Encrypted() bool { return c.out.secure != nil }

// Handshake does the TLS handshake. The read deadline ends it.
func (c *Conn) Handshake() error { return c.out.secure.Handshake() }

// PeerCertificate returns the verified certificate of the client after the handshake; nil = it has none.
func (c *Conn) PeerCertificate() *x509.Certificate {
	if chains := c.out.secure.ConnectionState().VerifiedChains; len(chains) > 0 {
		return chains[0][0]
	}
	return nil
}

// RemoteAddr returns the address of the client.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// FD returns the file descriptor of the socket, -1 when there is none. It is for display only.
func (c *Conn) FD() int {
	fd := -1
	if c.raw != nil {
		c.raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd
}

// SyscallConn returns the socket, for socket options. It makes Conn a syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if c.raw == nil {
		return nil, errors.ErrUnsupported
	}
	return c.raw, nil
}

// Fill waits for bytes and appends them to the input. The error is io.EOF when the client has ended the connection,
// net.ErrClosed when it was closed here, and os.ErrDeadlineExceeded when the read deadline has passed or Wake was
// called.
func (c *Conn) Fill() (int, error) {
	c.in.grow(0)
	return c.in.read()
}

// Input returns the bytes received and not yet consumed. They are valid until the next Fill, Grow, Read or Consume.
func (c *Conn) Input() []byte { return c.in.buf[:c.in.w] }

// InputCap returns the size of the input's buffer.
func (c *Conn) InputCap() int { return len(c.in.buf) }

// Consume drops the first n bytes of the input. A buffer that has grown for a large command is not kept: then dropped
// is true, and the caller must drop all aliases of the buffer.
func (c *Conn) Consume(n int) (dropped bool) { return c.in.consume(n) }

// Grow makes room for need more bytes when the input's buffer is full, but it never more than doubles the bytes
// really received: need is only what the client has announced.
func (c *Conn) Grow(need int) { c.in.grow(need) }

// Inject appends b to the input as if it had been received. It is for tests and benchmarks.
func (c *Conn) Inject(b []byte) { c.in.inject(b) }

// Read takes bytes from the input; it waits for bytes when the input is empty. Its errors are those of Fill.
func (c *Conn) Read(b []byte) (int, error) {
	if c.in.w == 0 {
		if _, err := c.Fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.Input())
	c.Consume(n)
	return n, nil
}

// Send sends b, and queues a copy of the bytes that the socket does not take. It never blocks. The error is
// permanent.
func (c *Conn) Send(b []byte) error { return c.out.send(b) }

// Reply is Send for the owner between commands: it waits while the queue is full and the client reads. With owned, b
// belongs to the connection from now on, so nothing is copied.
func (c *Conn) Reply(b []byte, owned bool) error { return c.out.sendReply(b, owned, false) }

// ReplyPart sends a part of a reply that is not its end, and waits until the client has read nearly all earlier parts.
// Messages of other clients wait until the end of the reply, which Reply sends. Once a client has not read for some
// time, ReplyPart no longer waits, and only the limit applies. With owned, b belongs to the connection from now on.
func (c *Conn) ReplyPart(b []byte, owned bool) error { return c.out.sendReply(b, owned, true) }

// HoldMessages makes the messages of other clients wait for the next Reply, and follow it.
func (c *Conn) HoldMessages() {
	c.out.mu.Lock()
	c.out.partial = true
	c.out.mu.Unlock()
}

// Write sends b for an owner that produces as much as the client can take. It waits, as long as the connection lives,
// until at most 4 MiB are queued, and then queues a copy of the bytes that the socket does not take.
func (c *Conn) Write(b []byte) (int, error) {
	c.out.await(streamAhead)
	if err := c.out.send(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// SendFile sends the next n bytes of a file, for the owner of a connection to which nobody else sends meanwhile.
// Without TLS the bytes go from the kernel's page cache to the socket. io.ErrUnexpectedEOF = the file has fewer
// bytes.
func (c *Conn) SendFile(f *os.File, n int64) error {
	c.Drain()
	if err := c.Err(); err != nil {
		return err
	}
	var to io.Writer = c
	if tcp, ok := c.nc.(*net.TCPConn); ok && !c.Encrypted() {
		to = tcp
	}
	sent, err := io.CopyN(to, f, n)
	if errors.Is(err, io.EOF) && sent < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Drain waits until everything is sent, or nothing more can be sent.
func (c *Conn) Drain() { c.out.wait() }

// CloseWrite tells a TLS client that nothing more will be sent.
func (c *Conn) CloseWrite() {
	if c.out.secure != nil {
		c.out.secure.CloseWrite()
	}
}

// Pending returns how many bytes are queued, including the bytes being written.
func (c *Conn) Pending() int { return c.out.pending() }

// Backlog returns how many buffers are queued, and their bytes, including messages that wait to be flushed.
func (c *Conn) Backlog() (buffers, bytes int) { return c.out.backlog() }

// Err returns why nothing more can be sent, nil when it can.
func (c *Conn) Err() error { return c.out.failure() }

// Fail ends the connection without its last replies; err becomes its error, unless it already has one.
func (c *Conn) Fail(err error) { c.out.end(err) }

// SetPatience sets how long a client may take nothing from its queue before it counts as not reading; the default is
// 3 s.
func (c *Conn) SetPatience(d time.Duration) {
	c.out.mu.Lock()
	c.out.stalled = d
	c.out.mu.Unlock()
}

// SetReadDeadline sets when Fill and the Wait methods give up; the zero time means never.
func (c *Conn) SetReadDeadline(t time.Time) { c.nc.SetReadDeadline(t) }

// SetWriteDeadline sets the time by which the queue must be sent; the zero time means never.
func (c *Conn) SetWriteDeadline(t time.Time) { c.nc.SetWriteDeadline(t) }

// Wake makes the owner's Fill or Wait return with os.ErrDeadlineExceeded. This also holds for later calls, until the
// owner sets a read deadline.
func (c *Conn) Wake() { c.nc.SetReadDeadline(time.Unix(1, 0)) }

// WaitHangup waits for the read deadline, or for Wake, without receiving anything: then its error is
// os.ErrDeadlineExceeded. It also ends when the client is gone: then the error is ErrGone. The end of a connection that
// is not a socket is not noticed.
func (c *Conn) WaitHangup() error {
	if c.raw == nil {
		return c.nc.(*timed).wait()
	}
	gone := false
	err := c.raw.Read(func(fd uintptr) bool {
		gone = hungUp(fd)
		return gone
	})
	if gone {
		return ErrGone
	}
	return err
}

// Close closes the connection at once.
func (c *Conn) Close() error { return c.nc.Close() }

// ErrGone says that the client has closed its end of the connection.
var ErrGone = errors.New("the client is gone")

// hungUp reports whether the other end of a socket is closed, even if there are bytes left to read.
func hungUp(fd uintptr) bool {
	const rdhup, hup, bad = 0x2000, 0x10, 0x8 | 0x20 // of poll(2)
	p := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: rdhup}
	var now syscall.Timespec
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)),
		0, 0, 0)
	return errno == 0 && p.revents&(rdhup|hup|bad) != 0
}

// timed is a connection that is not a socket. It records its read deadline, so that its owner can wait for the
// deadline without reading.
type timed struct {
	net.Conn
	mu      sync.Mutex
	at      time.Time
	changed chan struct{} // closed when at or closed changes
	closed  bool
}

func (t *timed) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	close(t.changed)
	t.changed = make(chan struct{})
}

// SetReadDeadline implements net.Conn.
func (t *timed) SetReadDeadline(at time.Time) error {
	t.change(func() { t.at = at })
	return t.Conn.SetReadDeadline(at)
}

// Close implements net.Conn.
func (t *timed) Close() error {
	t.change(func() { t.closed = true })
	return t.Conn.Close()
}

func (t *timed) wait() error {
	for {
		t.mu.Lock()
		at, changed, closed := t.at, t.changed, t.closed
		t.mu.Unlock()
		if closed {
			return net.ErrClosed
		}
		var passed <-chan time.Time
		if !at.IsZero() {
			left := time.Until(at)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			passed = time.After(left)
		}
		select {
		case <-passed:
		case <-changed:
		}
	}
}
