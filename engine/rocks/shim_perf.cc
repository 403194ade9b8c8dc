// What RocksDB counts and times for one thread.
#include <rocksdb/iostats_context.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <string.h>

#include "shim_internal.h"

extern "C" {

void bk_perf_start(void) {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableTimeExceptForMutex);
  rocksdb::get_perf_context()->Reset();
  rocksdb::get_iostats_context()->Reset();
}

void bk_perf_stop(char** perf, char** io) {
  *perf = strdup(rocksdb::get_perf_context()->ToString(true).c_str());
  *io = strdup(rocksdb::get_iostats_context()->ToString(true).c_str());
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
}

}  // extern "C"
