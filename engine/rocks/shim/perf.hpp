// RocksDB's counters and timers of one thread, and its size estimates.
#include <rocksdb/iostats_context.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <string.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "internal.h"

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

int bk_stored(void* dbp, void* cfp, uint64_t out[4], char** err) {
  rocksdb::DB* db = bk::db(dbp);
  rocksdb::ColumnFamilyHandle* cf = bk::cf(cfp);
  rocksdb::TablePropertiesCollection props;
  if (bk::set_err(err, db->GetPropertiesOfAllTables(cf, &props))) return 0;
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(cf, &meta);
  std::set<std::string> lowest;
  for (auto level = meta.levels.rbegin(); level != meta.levels.rend() && lowest.empty() && level->level > 0; ++level)
    for (auto& f : level->files) lowest.insert(f.db_path + f.name);
  memset(out, 0, 4 * sizeof *out);
  for (auto& p : props) {
    // RocksDB counts deletes and range deletes as entries, too.
    uint64_t puts = p.second->num_entries - std::min(p.second->num_entries, p.second->num_deletions);
    out[0] += puts;
    out[1] += p.second->num_deletions - std::min(p.second->num_deletions, p.second->num_range_deletions);
    out[2] += p.second->num_range_deletions;
    if (lowest.count(p.first)) out[3] += puts;
  }
  for (const char* kind : {"active-mem-table", "imm-mem-tables"}) {
    uint64_t entries = 0, deletes = 0;
    db->GetIntProperty(cf, std::string("rocksdb.num-entries-") + kind, &entries);
    db->GetIntProperty(cf, std::string("rocksdb.num-deletes-") + kind, &deletes);
    out[0] += entries - std::min(entries, deletes);
    out[1] += deletes;
  }
  return 1;
}

uint64_t bk_deletes_at(void* db, void* cf, const char* key, size_t n, char** err) {
  std::string behind(key, n);
  behind.push_back(0);
  rocksdb::Range range(rocksdb::Slice(key, n), behind);
  rocksdb::TablePropertiesCollection props;
  if (bk::set_err(err, bk::db(db)->GetPropertiesOfTablesInRange(bk::cf(cf), &range, 1, &props))) return 0;
  uint64_t deletes = 0;
  for (auto& p : props) deletes += p.second->num_deletions;  // range deletes are among them
  return deletes;
}

uint64_t bk_approximate_size(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el) {
  rocksdb::SizeApproximationOptions o;
  o.include_memtables = o.include_files = true;
  rocksdb::Range range(rocksdb::Slice(start, sl), rocksdb::Slice(stop, el));
  uint64_t size = 0;
  return bk::db(db)->GetApproximateSizes(o, bk::cf(cf), &range, 1, &size).ok() ? size : 0;
}

int bk_approximate_parts(void* db, void* cf, const char* head, size_t hl, const char* end, size_t el,
                         const uint16_t* at, int n, uint64_t* sizes) {
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
