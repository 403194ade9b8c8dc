package rocks

// #include <stdlib.h>
// #include "shim/shim.h"
import "C"

import "unsafe"

// PerfStart starts RocksDB's counters and timers for the calling thread. The goroutine must be locked to the thread.
func PerfStart() { C.bk_perf_start() }

// PerfStop stops them, on the same thread, and returns RocksDB's perf context and I/O statistics as text.
func PerfStop() (perf, io string) {
	var p, i *C.char
	C.bk_perf_stop(&p, &i)
	perf, io = C.GoString(p), C.GoString(i)
	C.free(unsafe.Pointer(p))
	C.free(unsafe.Pointer(i))
	return perf, io
}
