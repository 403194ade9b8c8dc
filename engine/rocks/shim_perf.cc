// What RocksDB counts and times for one thread, and what it says of sizes.
#include <rocksdb/iostats_context.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <string.h>

#include <string>
#include <vector>

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

uint64_t bk_approximate_size(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el) {
  rocksdb::SizeApproximationOptions o;
  o.include_memtables = o.include_files = true;
  rocksdb::Range range(rocksdb::Slice(start, sl), rocksdb::Slice(stop, el));
  uint64_t size = 0;
  return bk::db(db)->GetApproximateSizes(o, bk::cf(cf), &range, 1, &size).ok() ? size : 0;
}

int bk_approximate_parts(void* db, void* cf, const char* head, size_t hl, const char* end, size_t el, const uint16_t* at,
                         int n, uint64_t* sizes) {
  rocksdb::SizeApproximationOptions o;
  o.include_memtables = o.include_files = true;
  std::vector<std::string> bounds(n + 1);
  for (int i = 0; i <= n; i++) {
    if (at[i] > 255) {
      bounds[i].assign(end, el);
    } else {
      bounds[i].assign(head, hl);
      bounds[i].push_back(static_cast<char>(at[i]));
    }
  }
  std::vector<rocksdb::Range> ranges(n);
  for (int i = 0; i < n; i++) ranges[i] = rocksdb::Range(bounds[i], bounds[i + 1]);
  return bk::db(db)->GetApproximateSizes(o, bk::cf(cf), ranges.data(), n, sizes).ok();
}

}  // extern "C"
