// The version of the linked RocksDB.
#include <rocksdb/version.h>

#include "shim.h"

// RocksDB compiles its SyncPoint class, and the calls to it, only where NDEBUG is not defined, like its assertions. The
// weak reference does not pull the symbol out of the library: it resolves only if RocksDB's own objects need the
// symbol.
extern "C" __attribute__((weak)) void* _ZN7rocksdb9SyncPoint11GetInstanceEv();

extern "C" {

int bk_rocksdb_version(void) { return ROCKSDB_MAJOR * 10000 + ROCKSDB_MINOR * 100 + ROCKSDB_PATCH; }
int bk_rocksdb_assertions(void) { return _ZN7rocksdb9SyncPoint11GetInstanceEv != nullptr; }

}  // extern "C"
