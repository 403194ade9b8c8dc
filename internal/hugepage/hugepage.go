// Package hugepage allocates memory for random reads: backed by huge pages, outside Go's heap.
package hugepage

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Advise asks the kernel to back a large table for random reads with huge pages: with small pages nearly every read
// misses the TLB. It must be called before the memory is first used. If the kernel has no huge pages, that is no error.
//
// The kernel then provides 2 MiB for the first byte used of them. So such a table should soon be used completely, or
// grow from its beginning.
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

// Map returns zeroed memory for n values of a type without pointers, backed by huge pages that the kernel provides on
// first use. The memory is outside Go's heap, where its size would let as much garbage gather before each collection.
// It is unmapped when owner becomes unreachable: users of the memory must keep a reference to the owner.
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

// Slab is memory from Map that knows how much of it the kernel has provided. mincore(2) cannot tell: it also counts the
// zero page, which costs nothing, for memory that was read but never written.
type Slab struct {
	Bytes   []byte
	written []atomic.Bool // one for each huge page, which the kernel provides at the first write
}

const pageSize = 2 << 20

func MapSlab[O any](owner *O, size int) (s Slab, ok bool) {
	s.Bytes, ok = Map[byte](owner, size)
	s.written = make([]atomic.Bool, size/pageSize+1)
	return s, ok
}

// Write returns the memory in [from, to) for writing.
func (s *Slab) Write(from, to int) []byte {
	if w := &s.written[from/pageSize]; !w.Load() {
		w.Store(true)
	}
	return s.Bytes[from:to]
}

// Resident returns approximately how many bytes the kernel has provided.
func (s *Slab) Resident() (n int) {
	for i := range s.written {
		if s.written[i].Load() {
			n += pageSize
		}
	}
	return min(n, len(s.Bytes))
}
