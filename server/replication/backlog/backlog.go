// Package backlog keeps the newest write batches in memory, as the frames that a master sends.
package backlog

import (
	"encoding/binary"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/server/replication/proto"
)

// Backlog contains the newest write batches, as frames. The zero value is empty.
//
//	first -> chunk -> chunk -> last        each: frame frame frame ...
//
// Writers append to the last chunk, under a lock that only writers take. A chunk never moves and a frame never changes,
// so feeders read published frames without a lock and never delay a writer. When the chunks exceed the limit, the
// oldest one leaves the list, and a feeder that needs it reads the log.
//
// The frames of a chunk are consecutive. Where a batch is missing, because writers came out of order, a new chunk
// begins, and feeders read the log in between.
type Backlog struct {
	mu    sync.Mutex // held by writers
	limit int
	last  *chunk
	next  uint64 // the sequence number after the newest frame

	first atomic.Pointer[chunk] // nil = no chunks
	size  atomic.Int64          // bytes of all chunks
}

// Sizes of a chunk: bytes of frames, and how many. A longer frame has a chunk of its own.
const (
	chunkBytes  = 256 << 10
	chunkFrames = 2048
)

type chunk struct {
	buf   []byte // frames fill it from the beginning; its length is its size
	marks []mark // as buf
	n     atomic.Int32
	next  atomic.Pointer[chunk]
}

// mark is the end of a frame, with the sequence numbers of its first record and after its last one.
type mark struct {
	seq, behind uint64
	end         int
}

// frameOverhead is an upper bound of the bytes that a frame takes besides its payload.
const frameOverhead = 24

// Add appends a batch. Several goroutines may call it, in any order.
func (b *Backlog) Add(seq uint64, rep []byte) {
	count := uint64(binary.LittleEndian.Uint32(rep[8:]))
	if count == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if seq < b.next {
		return // a later batch came first: the log has both
	}
	c, i, at := b.last, 0, 0
	if c != nil {
		i = int(c.n.Load())
		at = c.marks[i-1].end
	}
	size := len(rep) + frameOverhead
	if c == nil || seq != b.next || i == len(c.marks) || at+size > len(c.buf) {
		c, i, at = newChunk(size), 0, 0
	}
	frame := proto.AppendFrameHead(c.buf[:at], len(rep))
	body := len(frame)
	frame = append(append(frame, rep...), '\r', '\n')
	binary.LittleEndian.PutUint64(frame[body:], seq)
	b.next = seq + count
	c.marks[i] = mark{seq, b.next, len(frame)}
	c.n.Store(int32(i + 1)) // publishes the frame
	if c != b.last {
		b.link(c)
	}
}

func newChunk(size int) *chunk {
	if size > chunkBytes {
		return &chunk{buf: make([]byte, size), marks: make([]mark, 1)}
	}
	return &chunk{buf: make([]byte, chunkBytes), marks: make([]mark, chunkFrames)}
}

// link makes a chunk the last one, and drops the oldest chunks while they exceed the limit. b.mu must be held.
func (b *Backlog) link(c *chunk) {
	if b.last == nil {
		b.first.Store(c)
	} else {
		b.last.next.Store(c)
	}
	b.last = c
	b.size.Add(int64(len(c.buf)))
	for oldest := b.first.Load(); oldest != c && b.size.Load() > int64(b.limit); oldest = b.first.Load() {
		b.first.Store(oldest.next.Load())
		b.size.Add(-int64(len(oldest.buf)))
	}
}

// SetLimit changes the max size of the chunks in bytes. It takes effect with the next chunk.
func (b *Backlog) SetLimit(n int) {
	b.mu.Lock()
	b.limit = n
	b.mu.Unlock()
}

// Clear drops all frames.
func (b *Backlog) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first.Store(nil)
	b.last, b.next = nil, 0
	b.size.Store(0)
}

// Take returns consecutive frames, beginning with the sequence number next, and the sequence number after them. It
// returns nil when the backlog does not have that frame, because it was dropped or has not been added yet. The frames
// are not copied and never change.
func (b *Backlog) Take(next uint64) (frames []byte, behind uint64) {
	for c := b.first.Load(); c != nil; c = c.next.Load() {
		marks := c.marks[:c.n.Load()]
		last := marks[len(marks)-1]
		if next < marks[0].seq || next >= last.behind {
			continue
		}
		i := sort.Search(len(marks), func(i int) bool { return marks[i].seq >= next })
		if i == len(marks) || marks[i].seq != next {
			return nil, next
		}
		from := 0
		if i > 0 {
			from = marks[i-1].end
		}
		return c.buf[from:last.end], last.behind
	}
	return nil, next
}

// First returns the sequence number of the oldest frame, 0 = no frames.
func (b *Backlog) First() uint64 {
	if c := b.first.Load(); c != nil {
		return c.marks[0].seq
	}
	return 0
}

// Bytes returns the memory of the frames in bytes.
func (b *Backlog) Bytes() int64 { return b.size.Load() }
