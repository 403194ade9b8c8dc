// Package malloc keeps the C library's malloc from holding much more memory than is in use. A program imports it for
// this effect, which is on the whole process and begins before main.
//
// RocksDB's threads and those of its callers take memory for one another: a reader's block goes into the block cache
// and is evicted by someone else. glibc makes up to eight arenas a processor, and each keeps the holes that
// its own busiest time has left. Measured with a block cache of 64 MiB and 2 processors, memtables not counted (they
// have memory of their own, see memtable_slabs.h): about 60 MiB in use make malloc hold 184 MiB with 5 arenas, and 91
// with 2.
//
// Even so each arena keeps what the block cache once had in it, and the cache moves from one to the other. [Trim]
// gives that back.
//
// Nothing is changed when the environment sets malloc's parameters (MALLOC_ARENA_MAX, MALLOC_MMAP_THRESHOLD_,
// MALLOC_TRIM_THRESHOLD_, or GLIBC_TUNABLES with any of malloc's), nor with another C library than glibc.
package malloc

// #include <stddef.h>
// int basalt_malloc_trim(void);
// void basalt_malloc_usage(size_t* used, size_t* unused);
import "C"

// Usage returns how many bytes of malloc are in use, and how many are free in its arenas, whether the system has their
// pages back or not. Both are 0 with another C library than glibc. It costs a walk over the free blocks.
func Usage() (used, free int) {
	var u, f C.size_t
	C.basalt_malloc_usage(&u, &f)
	return int(u), int(f)
}

// Trim gives the memory of holes back to the system, if malloc holds 32 MiB of them and an eighth of what is in use,
// and reports whether it has. It may take a tenth of a second for each GiB.
func Trim() bool { return C.basalt_malloc_trim() != 0 }
