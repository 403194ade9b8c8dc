package engine

import (
	"syscall"
	"unsafe"
)

// hugePages asks the kernel to back a big table that is read at random with huge pages: with small ones a read
// misses the TLB nearly always. It comes before the first use of the memory. That the kernel has none is no error.
func hugePages[T any](table []T) {
	const huge = 2 << 20
	if len(table) == 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&table[0])), uintptr(len(table))*unsafe.Sizeof(table[0]))
	skip := -uintptr(unsafe.Pointer(&b[0])) & (huge - 1)
	if uintptr(len(b)) < skip+huge {
		return
	}
	b = b[skip:]
	_ = syscall.Madvise(b[:len(b)&^(huge-1)], syscall.MADV_HUGEPAGE)
}
