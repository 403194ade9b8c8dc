package rocks

/*
#cgo noescape bk_get_parts
#cgo nocallback bk_get_parts
#include "shim_parts.h"
*/
import "C"

import "unsafe"

// GetSlices copies len(out)/len(offsets) bytes from each offset of the value of a key into out, one after the
// other, without copying the rest of the value. It returns the length of the value; a part that does not lie
// within it leaves out as it is. found is false when there is no value.
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
