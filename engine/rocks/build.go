package rocks

// #include "shim/shim.h"
import "C"

import "fmt"

// Version returns the version of the linked RocksDB.
func Version() string {
	v := int(C.bk_rocksdb_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// Assertions reports whether the linked RocksDB was built with assertions, as Debian's is: then an unexpected error may
// abort the process. third_party/rocksdb is built without assertions.
func Assertions() bool { return C.bk_rocksdb_assertions() != 0 }
