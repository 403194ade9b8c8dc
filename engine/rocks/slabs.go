package rocks

// #include "shim/shim.h"
import "C"

// SlabUsage returns the total size in bytes of the slabs in use by memtables of this process, and of those kept for
// reuse. Memtables with write buffers below 8 MiB do not use slabs.
func SlabUsage() (used, kept int) {
	var u, k C.size_t
	C.bk_slab_usage(&u, &k)
	return int(u), int(k)
}
