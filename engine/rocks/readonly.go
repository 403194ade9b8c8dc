package rocks

// #include <stdlib.h>
// #include "shim/shim.h"
import "C"

import (
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

func openReadOnly(opts *grocksdb.Options, dir string, names []string, families []*grocksdb.Options) (*grocksdb.DB,
	[]*grocksdb.ColumnFamilyHandle, error) {
	return grocksdb.OpenDbForReadOnlyColumnFamilies(opts, dir, names, families, false)
}

// VerifyTable reads a whole table file and verifies the checksums of its blocks. The file need not belong to an open
// database.
func VerifyTable(path string) error { return verifyTable(path, 1) }

// OpenTable reports why RocksDB cannot open a table file, nil if it can.
func OpenTable(path string) error { return verifyTable(path, 0) }

func verifyTable(path string, whole C.int) error {
	b := []byte(path)
	var cerr *C.char
	if C.bk_verify_table(bytesPtr(b), C.size_t(len(b)), whole, &cerr) != 0 {
		return nil
	}
	text := C.GoString(cerr)
	C.free(unsafe.Pointer(cerr))
	return &Error{Text: text}
}
