package engine

import "slices"

// An arena holds the bytes that the reads of one transaction return. Growing allocates a new block; slices of the old
// block stay valid.
type arena struct{ buf []byte }

const (
	arenaBlock = 16 << 10
	arenaMax   = 512 << 10 // a block bigger than this is not kept between transactions
)

func (a *arena) reset() {
	if cap(a.buf) > arenaMax {
		a.buf = nil
	}
	a.buf = a.buf[:0]
}

// reserve makes sure that n bytes are free.
func (a *arena) reserve(n int) {
	if cap(a.buf)-len(a.buf) < n {
		a.buf = make([]byte, 0, max(arenaBlock, 2*n, min(2*cap(a.buf), arenaMax)))
	}
}

// take returns an empty slice with room for n bytes. The caller appends to it and passes it to keep before the next
// call.
func (a *arena) take(n int) []byte {
	a.reserve(n)
	return a.buf[len(a.buf):len(a.buf):cap(a.buf)]
}

// keep makes the bytes that were appended to the slice of take part of the arena.
func (a *arena) keep(b []byte) []byte {
	if n := len(a.buf); n+len(b) <= cap(a.buf) && (len(b) == 0 || &b[0] == &a.buf[:n+1][n]) {
		a.buf = a.buf[:n+len(b)]
	}
	return slices.Clip(b)
}

// keepGrown is keep for a slice that replaces the slice of take because that had too little room. A slice bigger than
// the current block becomes the next block, so that the next transaction has as much room.
func (a *arena) keepGrown(b []byte) []byte {
	if cap(b) > cap(a.buf) {
		a.buf = b
		return slices.Clip(b)
	}
	return a.keep(b)
}

// adopt takes over b: the arena's buffer with bytes appended at from. append may have moved the buffer to a bigger
// block.
func (a *arena) adopt(b []byte, from int) []byte {
	a.buf = b
	return b[from:len(b):len(b)]
}

func (a *arena) copy(b []byte) []byte { return a.keep(append(a.take(len(b)), b...)) }
