package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import "unsafe"

// PerfStart begins to count and time what RocksDB does on the calling thread, to which the goroutine must be locked.
func PerfStart() { C.bk_perf_start() }

// PerfStop ends it, on the same thread, and returns RocksDB's perf context and I/O statistics as text.
func PerfStop() (perf, io string) {
	var p, i *C.char
	C.bk_perf_stop(&p, &i)
	perf, io = C.GoString(p), C.GoString(i)
	C.free(unsafe.Pointer(p))
	C.free(unsafe.Pointer(i))
	return perf, io
}
