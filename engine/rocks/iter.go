package rocks

// #include <stdlib.h>
// #include "shim/shim.h"
import "C"

import (
	"encoding/binary"
	"errors"
)

// IterFlags are the options of an iterator.
type IterFlags uint32

// The iterator options.
const (
	Reverse  IterFlags = C.BK_REVERSE   // from the last key to the first
	KeysOnly IterFlags = C.BK_KEYS_ONLY // do not copy values
	NoFill   IterFlags = C.BK_NO_FILL   // do not add the blocks that are read to the block cache
	AsyncIO  IterFlags = C.BK_ASYNC     // prefetch asynchronously
	// Collection: all keys of the range, which has a lower bound, belong to one version of one collection. Files that
	// hold nothing of it, as their filters say, are not read, unless the iterator goes backwards.
	Collection IterFlags = C.BK_COLLECTION
)

// Range says what an iterator reads.
type Range struct {
	Lower, Upper []byte // [Lower, Upper); empty = no bound
	Flags        IterFlags
	Strip        int    // bytes to remove from the front of every key
	ValueMax     int    // max bytes of a value to copy; 0 = all
	MaxSkip      uint64 // max hidden entries that one step may pass before it fails with Incomplete; 0 = no limit
	Skip         uint64 // entries to skip at the start
	Limit        int    // expected number of entries, for the size of the first read; 0 = unknown
	Buffer       int    // max size in bytes of the buffer, at least 4 KiB; 0 = 64 KiB. A longer entry has room anyway
	Snapshot     *Snapshot
	Lane         *Lane // a lane that the caller has entered; the open iterator keeps the database open
	Stop         *bool // once true, the iterator ends with ErrStopped when it would read more; nil = never
	// Parts restricts a forward iterator to keys that, once stripped, begin within one of several ranges or are shorter
	// than a bound. It holds a lower and an upper bound of each range, in ascending order, all of SliceLen bytes. Lower
	// must be at least as long as Strip.
	Parts    []byte
	SliceLen int
}

func (r *Range) parts() int {
	if r.SliceLen == 0 {
		return 0
	}
	return len(r.Parts) / (2 * r.SliceLen)
}

const (
	minIterBuf = 4 << 10
	maxIterBuf = 64 << 10
)

// Iter reads a range in chunks: one cgo call fills a buffer with many entries. Reading a small range takes one cgo call
// in total.
type Iter struct {
	c       *C.bk_iter // nil when the range is exhausted
	lane    *Lane
	stop    *bool
	buf     []byte
	data    []byte // unread part of the filled buffer
	key     []byte
	value   []byte
	left    int // number of entries in data
	maxn    int
	err     error
	max     int // size of the buffer
	readMax bool
}

// NewIter opens an iterator before the first entry of the range. The caller must close it. buf, which may be nil, is
// its first buffer; the caller may reuse it after Close.
func (d *DB) NewIter(f *Family, r *Range, buf []byte) Iter {
	it := Iter{maxn: r.Limit, stop: r.Stop, max: maxIterBuf}
	if r.Buffer > 0 {
		it.max = min(max(r.Buffer, minIterBuf), maxIterBuf)
	}
	if it.maxn <= 0 {
		it.maxn = 1 << 30
	}
	size := it.max
	if r.Limit > 0 && r.Limit <= 32 {
		size = minIterBuf
	}
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	it.buf = buf[:cap(buf)]
	var n C.int
	var bytes C.int64_t
	var cerr *C.char
	it.c = C.bk_iter_open(d.ptr, f.ptr, r.Snapshot.ptr(), bytesPtr(r.Lower), C.size_t(len(r.Lower)),
		bytesPtr(r.Upper), C.size_t(len(r.Upper)),
		C.uint32_t(r.Flags), C.size_t(r.Strip), bytesPtr(r.Parts), C.size_t(r.parts()), C.size_t(r.SliceLen),
		C.size_t(r.ValueMax), C.uint64_t(r.MaxSkip), C.uint64_t(r.Skip),
		bytesPtr(it.buf), C.size_t(len(it.buf)), C.int(it.maxn), &n, &bytes, &cerr)
	it.err = readErr(cerr)
	if it.c != nil {
		live.Add(1)
		if it.lane = r.Lane; it.lane != nil {
			it.lane.hold()
		}
	}
	it.took(int(n), int(bytes))
	return it
}

// took accounts for what a cgo call has put into the buffer.
func (it *Iter) took(n, bytes int) {
	if n < 0 { // the first entry did not fit
		it.buf = make([]byte, bytes+bytes/4)
		it.left, it.data = 0, nil
		it.fill()
		return
	}
	it.left, it.data = n, it.buf[:bytes]
}

// ErrStopped is the error of an iterator whose owner has stopped it.
var ErrStopped = errors.New("the iteration was stopped")

// fill reads the next chunk.
func (it *Iter) fill() {
	if it.stop != nil && *it.stop {
		it.err = ErrStopped
		it.free()
		return
	}
	var n, done C.int
	var cerr *C.char
	bytes := C.bk_iter_fill(it.c, bytesPtr(it.buf), C.size_t(len(it.buf)), C.int(it.maxn), &n, &done, &cerr)
	it.err = readErr(cerr)
	if done != 0 {
		it.free()
	}
	it.took(int(n), int(bytes))
}

// Next advances to the next entry and returns false at the end. Key and Value are valid until the next call.
func (it *Iter) Next() bool {
	if it.left == 0 {
		if it.c == nil || it.err != nil {
			return false
		}
		// The caller asked for few entries but continues: read more at once from here on.
		it.maxn = 1 << 30
		if len(it.buf) < it.max && it.readMax {
			it.buf = make([]byte, it.max)
		}
		it.readMax = true
		it.fill()
		if it.left == 0 {
			return false
		}
	}
	kl := binary.LittleEndian.Uint32(it.data)
	vl := binary.LittleEndian.Uint32(it.data[4:])
	rest := it.data[8:]
	it.key = rest[:kl:kl]
	it.value = rest[kl : kl+vl : kl+vl]
	it.data = rest[kl+vl:]
	it.left--
	return true
}

// Key returns the key of the current entry without the stripped bytes.
func (it *Iter) Key() []byte { return it.key }

// Value returns the value of the current entry.
func (it *Iter) Value() []byte { return it.value }

// Err returns the error that ended the iteration, nil at the end of the range.
func (it *Iter) Err() error { return it.err }

// Skip passes up to n entries without copying them and returns how many it passed.
func (it *Iter) Skip(n uint64) uint64 {
	var done uint64
	for done < n && it.left > 0 {
		it.Next()
		done++
	}
	if done < n && it.c != nil && it.err == nil {
		var cerr *C.char
		done += uint64(C.bk_iter_skip(it.c, C.uint64_t(n-done), &cerr))
		it.err = readErr(cerr)
	}
	return done
}

// Buffer returns the buffer, which the caller may reuse after Close.
func (it *Iter) Buffer() []byte { return it.buf }

func (it *Iter) free() {
	if it.c != nil {
		C.bk_iter_close(it.c)
		it.c = nil
		live.Add(-1)
		if it.lane != nil {
			it.lane.Leave()
		}
	}
}

// Close frees the native iterator. Repeated calls are allowed.
func (it *Iter) Close() {
	it.free()
	it.left, it.data = 0, nil
}
