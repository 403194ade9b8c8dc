package json

import (
	"sync"
	"unsafe"
)

// buffers is a pool of byte slices.
type buffers struct{ pool sync.Pool }

var scratch buffers

// maxKept is the max size of a buffer that the pool keeps.
const maxKept = 64 << 10

func (p *buffers) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	return new([]byte)
}

func (p *buffers) put(b *[]byte) {
	if cap(*b) <= maxKept {
		p.pool.Put(b)
	}
}

// aliased returns bytes as a string without copying them. The string must not outlive the content of the bytes.
func aliased(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
