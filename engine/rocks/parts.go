package rocks

/*
#cgo noescape bk_get_parts
#cgo nocallback bk_get_parts
#include "shim/parts.h"
*/
import "C"

import "unsafe"

// GetSlices copies len(out)/len(offsets) bytes from each offset of a value into out, one slice after the other, and
// nothing else of the value. It returns the length of the value. A slice that is not completely within the value leaves
// its part of out unchanged. found is false when the key does not exist.
func (d *DB) GetSlices(f *Family, key []byte, offsets []uint32, out []byte) (size int, found bool, err error) {
	part := 0
	if len(offsets) > 0 {
		part = len(out) / len(offsets)
	}
	var cerr *C.char
	n := int(C.bk_get_parts(d.ptr, f.ptr, bytesPtr(key), C.size_t(len(key)), (*C.uint32_t)(unsafe.SliceData(offsets)),
		C.int(len(offsets)),
		C.size_t(part), bytesPtr(out), &cerr))
	return lengthOf(n, cerr)
}
