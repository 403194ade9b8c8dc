package engine

// iterBuffers are the buffers of closed iterators of a transaction, for its next ones.
type iterBuffers struct{ free [][]byte }

const (
	firstIterBuffer = 16 << 10
	maxIterBuffers  = 16        // while the transaction lasts
	keptIterBuffers = 2         // for the next transaction: commands of two collections read both at the same time
	keptIterBuffer  = 128 << 10 // bytes, at most
)

// take returns a buffer for an iterator.
func (b *iterBuffers) take() []byte {
	n := len(b.free) - 1
	if n < 0 {
		return make([]byte, firstIterBuffer)
	}
	buf := b.free[n]
	b.free = b.free[:n]
	return buf
}

// put takes the buffer of a closed iterator.
func (b *iterBuffers) put(buf []byte) {
	if len(b.free) < maxIterBuffers {
		b.free = append(b.free, buf)
	}
}

// trim drops what is not kept for the next transaction.
func (b *iterBuffers) trim() {
	kept := b.free[:0]
	for _, buf := range b.free {
		if len(kept) < keptIterBuffers && cap(buf) <= keptIterBuffer {
			kept = append(kept, buf)
		}
	}
	clear(b.free[len(kept):])
	b.free = kept
}

// bytes returns the memory of the buffers.
func (b *iterBuffers) bytes() (n int) {
	for _, buf := range b.free {
		n += cap(buf)
	}
	return n
}
