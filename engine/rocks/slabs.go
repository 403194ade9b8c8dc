package rocks

// #include "shim.h"
import "C"

// SlabUsage returns how many bytes of slabs the memtables of this process have, and how many are kept for the next
// ones. Memtables of write buffers below 8 MiB have none.
func SlabUsage() (used, kept int) {
	var u, k C.size_t
	C.bk_slab_usage(&u, &k)
	return int(u), int(k)
}
