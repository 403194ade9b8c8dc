// Package malloc limits the memory that the C library's malloc holds beyond what is in use. A program imports it for
// this side effect, which applies to the whole process and begins before main.
//
// RocksDB's threads and their callers free each other's memory: a reader allocates a block, the block cache holds it,
// and another thread evicts it. glibc creates up to eight arenas a CPU, and each arena keeps the holes of its busiest
// time. Measured with a block cache of 64 MiB and 2 CPUs, without memtables (which have memory of their own, see
// memtable_slabs.h): with 60 MiB in use malloc held 184 MiB with 5 arenas and 91 MiB with 2.
//
// Even with 2 arenas each one keeps memory that the block cache once had there. [Trim] returns it to the system.
//
// The package changes nothing when the environment sets malloc's parameters (MALLOC_ARENA_MAX, MALLOC_MMAP_THRESHOLD_,
// MALLOC_TRIM_THRESHOLD_, or GLIBC_TUNABLES with any of malloc's), or when the C library is not glibc.
package malloc

// #include <stddef.h>
// int basalt_malloc_trim(void);
// void basalt_malloc_usage(size_t* used, size_t* unused);
import "C"

// Usage returns how many bytes of malloc's memory are in use and how many are free in its arenas, including free pages
// that were returned to the system. Both are 0 if the C library is not glibc. The call walks the free blocks.
func Usage() (used, free int) {
	var u, f C.size_t
	C.basalt_malloc_usage(&u, &f)
	return int(u), int(f)
}

// Trim returns free memory to the system if at least 8 MiB, and an eighth of what is in use, are free. It reports
// whether it did. It may take a tenth of a second for each GiB.
func Trim() bool { return C.basalt_malloc_trim() != 0 }
