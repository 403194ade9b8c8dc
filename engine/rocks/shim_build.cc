// Which RocksDB is linked.
#include <rocksdb/version.h>

#include "shim.h"

// RocksDB compiles its SyncPoint, and the calls to it, only where NDEBUG is not defined, as its assertions. A weak
// reference does not take it out of the library: it is there when RocksDB's own objects need it.
extern "C" __attribute__((weak)) void* _ZN7rocksdb9SyncPoint11GetInstanceEv();

extern "C" {

int bk_rocksdb_version(void) { return ROCKSDB_MAJOR * 10000 + ROCKSDB_MINOR * 100 + ROCKSDB_PATCH; }
int bk_rocksdb_assertions(void) { return _ZN7rocksdb9SyncPoint11GetInstanceEv != nullptr; }

}  // extern "C"
