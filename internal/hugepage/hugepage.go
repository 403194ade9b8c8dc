// Package hugepage gets memory from the kernel that is read at random: backed by huge pages, outside of Go's heap.
package hugepage

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Advise asks the kernel to back a big table that is read at random with huge pages: with small ones a read
// misses the TLB nearly always. It comes before the first use of the memory. That the kernel has none is no error.
//
// The kernel then gives 2 MiB for the first byte that is used of them. So such a table must be one of which all is used
// soon, or that grows from its beginning.
func Advise[T any](table []T) {
	if len(table) == 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&table[0])), uintptr(len(table))*unsafe.Sizeof(table[0]))
	skip := -uintptr(unsafe.Pointer(&b[0])) & (pageSize - 1)
	if uintptr(len(b)) < skip+pageSize {
		return
	}
	b = b[skip:]
	_ = syscall.Madvise(b[:len(b)&^(pageSize-1)], syscall.MADV_HUGEPAGE)
}

// Map returns zeroed memory for n values of a type without pointers, backed by huge pages, which the kernel gives only
// where it is used. It is not in Go's heap: there it would let as much garbage gather before each collection as it is
// long. It is given back when nothing refers to its owner any more: who uses the memory must refer to the owner.
func Map[T, O any](owner *O, n int) ([]T, bool) {
	memory, err := syscall.Mmap(-1, 0, n*int(unsafe.Sizeof(*new(T))), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, false
	}
	runtime.AddCleanup(owner, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	Advise(memory)
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), n), true
}

// Slab is memory that is not in Go's heap, see Map, and knows how much of it the kernel has given. mincore(2) does
// not: it counts the zero page, which costs nothing, for what was read and never written.
type Slab struct {
	Bytes   []byte
	written []atomic.Bool // one a huge page, which is what the kernel gives for the first byte
}

const pageSize = 2 << 20

// MapSlab returns a slab of size bytes.
func MapSlab[O any](owner *O, size int) (s Slab, ok bool) {
	s.Bytes, ok = Map[byte](owner, size)
	s.written = make([]atomic.Bool, size/pageSize+1)
	return s, ok
}

// Write returns the memory from one offset to another, which is about to be written.
func (s *Slab) Write(from, to int) []byte {
	if w := &s.written[from/pageSize]; !w.Load() {
		w.Store(true)
	}
	return s.Bytes[from:to]
}

// Resident returns about how many bytes the kernel has given.
func (s *Slab) Resident() (n int) {
	for i := range s.written {
		if s.written[i].Load() {
			n += pageSize
		}
	}
	return min(n, len(s.Bytes))
}
