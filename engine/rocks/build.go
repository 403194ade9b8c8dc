package rocks

// #include "shim.h"
import "C"

import "fmt"

// Version returns the version of the RocksDB that is linked.
func Version() string {
	v := int(C.bk_rocksdb_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// Assertions reports whether the RocksDB that is linked was built with assertions, as Debian's is: an error that it
// does not expect may end the process then. That of third_party/rocksdb is built without.
func Assertions() bool { return C.bk_rocksdb_assertions() != 0 }
