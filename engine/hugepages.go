package engine

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// hugePages asks the kernel to back a big table that is read at random with huge pages: with small ones a read
// misses the TLB nearly always. It comes before the first use of the memory. That the kernel has none is no error.
//
// The kernel then gives 2 MiB for the first byte that is used of them. So such a table must be one of which all is used
// soon, or that grows from its beginning.
func hugePages[T any](table []T) {
	if len(table) == 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&table[0])), uintptr(len(table))*unsafe.Sizeof(table[0]))
	skip := -uintptr(unsafe.Pointer(&b[0])) & (hugePage - 1)
	if uintptr(len(b)) < skip+hugePage {
		return
	}
	b = b[skip:]
	_ = syscall.Madvise(b[:len(b)&^(hugePage-1)], syscall.MADV_HUGEPAGE)
}

// mapFor returns zeroed memory for n values of a type without pointers, backed by huge pages, which the kernel gives only
// where it is used. It is not in Go's heap: there it would let as much garbage gather before each collection as it is
// long. It is given back when nobody refers to the cache any more; those who use it hold a lock of the cache, and so
// refer to it.
func mapFor[T any](c *recordCache, n int) ([]T, bool) {
	memory, err := syscall.Mmap(-1, 0, n*int(unsafe.Sizeof(*new(T))), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, false
	}
	runtime.AddCleanup(c, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	hugePages(memory)
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), n), true
}

// slab is memory that is not in Go's heap, see mapFor, and knows how much of it the kernel has given. mincore(2) does
// not: it counts the zero page, which costs nothing, for what was read and never written.
type slab struct {
	bytes   []byte
	written []atomic.Bool // one a huge page, which is what the kernel gives for the first byte
}

const hugePage = 2 << 20

// mapSlab returns a slab of size bytes.
func mapSlab(c *recordCache, size int) (s slab, ok bool) {
	s.bytes, ok = mapFor[byte](c, size)
	s.written = make([]atomic.Bool, size/hugePage+1)
	return s, ok
}

// write returns the memory from one offset to another, which is about to be written.
func (s *slab) write(from, to int) []byte {
	if w := &s.written[from/hugePage]; !w.Load() {
		w.Store(true)
	}
	return s.bytes[from:to]
}

// resident returns about how many bytes the kernel has given.
func (s *slab) resident() (n int) {
	for i := range s.written {
		if s.written[i].Load() {
			n += hugePage
		}
	}
	return min(n, len(s.bytes))
}
