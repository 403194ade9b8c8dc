package wire

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"syscall"
)

// Sizes of the read buffer, in bytes.
const (
	ReadBuffer = 16 << 10 // initial size
	KeepBuffer = 64 << 10 // a larger buffer is released after use
)

// readBuffers are read buffers of the initial size. A connection has a buffer only while the buffer holds bytes, so
// thousands of idle connections cost little memory.
var readBuffers = sync.Pool{New: func() any { return new([ReadBuffer]byte) }}

// receiver reads from a socket into a buffer that exists only while there are bytes to read.
type receiver struct {
	nc  net.Conn
	raw syscall.RawConn // nil when the connection is not a socket
	buf []byte          // buf[:w] was received and not consumed yet
	w   int

	secure    *tls.Conn // decrypts, see readSecure; nil = no encryption
	transport *transport
	first     [1]byte

	// The results of try: a closure made for each read would be an allocation.
	n   int
	err error
	try func(fd uintptr) bool
}

func (r *receiver) init(nc net.Conn, raw syscall.RawConn) {
	r.nc, r.raw = nc, raw
	r.try = func(fd uintptr) bool {
		r.acquire()
		for {
			r.n, r.err = syscall.Read(int(fd), r.buf[r.w:])
			switch r.err {
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				r.release()
				return false // wait until there are bytes
			}
			return true
		}
	}
}

// acquire makes sure that a buffer exists.
func (r *receiver) acquire() {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[ReadBuffer]byte)[:]
	}
}

// release returns an empty buffer to the pool.
func (r *receiver) release() {
	if r.w > 0 || r.buf == nil {
		return
	}
	if len(r.buf) == ReadBuffer {
		readBuffers.Put((*[ReadBuffer]byte)(r.buf))
	}
	r.buf = nil
}

// grow makes room for at least need more bytes, but it never more than doubles the bytes really received: need is
// only what the client has announced.
func (r *receiver) grow(need int) {
	if r.w < len(r.buf) || r.w == 0 {
		return
	}
	grown := make([]byte, min(r.w+max(need, ReadBuffer), 2*r.w))
	copy(grown, r.buf[:r.w])
	r.buf = grown
}

// read waits for bytes and appends them to the buffer.
func (r *receiver) read() (int, error) {
	if r.secure != nil {
		return r.readSecure()
	}
	if r.raw == nil {
		r.acquire()
		n, err := r.nc.Read(r.buf[r.w:])
		r.w += n
		return n, err
	}
	r.n, r.err = 0, nil
	if err := r.raw.Read(r.try); err != nil {
		return 0, err
	}
	switch {
	case r.err != nil:
		return 0, r.err
	case r.n == 0:
		return 0, io.EOF
	}
	r.w += r.n
	return r.n, nil
}

// inject appends b to the buffer.
func (r *receiver) inject(b []byte) {
	if len(r.buf)-r.w < len(b) {
		grown := make([]byte, r.w+len(b))
		copy(grown, r.buf[:r.w])
		r.buf = grown
	}
	r.w += copy(r.buf[r.w:], b)
}

// consume drops the first n bytes, see Conn.Consume.
func (r *receiver) consume(n int) (dropped bool) {
	r.w = copy(r.buf, r.buf[n:r.w])
	if r.w == 0 && len(r.buf) > KeepBuffer {
		r.buf = nil
		return true
	}
	return false
}
