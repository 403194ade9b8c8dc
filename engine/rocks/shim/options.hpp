// Options that grocksdb does not reach, and the zset_score comparator.
#include <rocksdb/version.h>

#include <rocksdb/cache.h>
#include <rocksdb/comparator.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "cache.h"

using namespace rocksdb;

namespace {

// The order of zset_score: prefix (up to and including the version), score, member. The encoded score sorts bytewise as
// the doubles sort, so this order equals the bytewise order; package cf defines it field by field, and a property test
// compares the two. The comparator has the name of RocksDB's bytewise one, because any tool that knows only that one
// must be able to open the files.
class ZSetScoreOrder : public Comparator {
 public:
  const char* Name() const override { return BytewiseComparator()->Name(); }
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  bool Equal(const Slice& a, const Slice& b) const override { return a == b; }
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    BytewiseComparator()->FindShortestSeparator(start, limit);
  }
  void FindShortSuccessor(std::string* key) const override { BytewiseComparator()->FindShortSuccessor(key); }
  bool IsSameLengthImmediateSuccessor(const Slice& s, const Slice& t) const override {
    return BytewiseComparator()->IsSameLengthImmediateSuccessor(s, t);
  }
  bool CanKeysWithDifferentByteContentsBeEqual() const override { return false; }
};

const ZSetScoreOrder* order() {
  static const ZSetScoreOrder* o = new ZSetScoreOrder();  // RocksDB may use it until the process ends
  return o;
}

}  // namespace

extern "C" {

void bk_create_families(void* db, int n, char** names, void** options, void** handles, char** err) {
  std::vector<ColumnFamilyDescriptor> families;
  for (int i = 0; i < n; i++) families.emplace_back(names[i], bk::opts(options[i]));
  std::vector<ColumnFamilyHandle*> made;
  if (bk::set_err(err, bk::db(db)->CreateColumnFamilies(families, &made))) {
    for (ColumnFamilyHandle* h : made) delete h;
    return;
  }
  for (int i = 0; i < n; i++) handles[i] = new rocksdb_column_family_handle_t{made[i]};
}

void bk_options_set_table(void* o, bk_cache* cache, size_t block_size, int cache_index_and_filter,
                          int partition_filters, int count) {
  BlockBasedTableOptions t;
  t.format_version = 5;
  t.index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
  t.filter_policy.reset(NewBloomFilterPolicy(10, false));
  t.partition_filters = partition_filters;
  t.optimize_filters_for_memory = true;
  t.metadata_block_size = 4096;
  t.data_block_index_type = BlockBasedTableOptions::kDataBlockBinaryAndHash;
  t.data_block_hash_table_util_ratio = 0.75;
  t.block_size = block_size;
  if (cache) t.block_cache = count ? bk::of_family(cache) : cache->rep;
  t.cache_index_and_filter_blocks = cache_index_and_filter;
  t.cache_index_and_filter_blocks_with_high_priority = true;
  t.pin_l0_filter_and_index_blocks_in_cache = true;
  t.pin_top_level_index_and_filter = true;
  bk::opts(o).table_factory.reset(NewBlockBasedTableFactory(t));
}

void bk_options_set_blob_cache(void* o, bk_cache* cache) { bk::opts(o).blob_cache = cache->rep; }

void bk_options_set_ages(void* o, uint64_t ttl, uint64_t periodic) {
  bk::opts(o).ttl = ttl;
  bk::opts(o).periodic_compaction_seconds = periodic;
}

void bk_options_set_row_cache(void* o, size_t capacity) { bk::opts(o).row_cache = NewLRUCache(capacity); }

void bk_options_set_rate_limiter(void* o, int64_t rate, int auto_tuned) {
  bk::opts(o).rate_limiter.reset(
      NewGenericRateLimiter(rate, 100 * 1000, 10, RateLimiter::Mode::kWritesOnly, auto_tuned));
}
void bk_options_set_rate(void* o, int64_t rate) {
  if (bk::opts(o).rate_limiter) bk::opts(o).rate_limiter->SetBytesPerSecond(rate);
}

void bk_options_set_misc(void* o, int avoid_blocking_io, int wal_zstd, uint32_t max_subcompactions,
                         int64_t delayed_write_rate) {
  Options& opt = bk::opts(o);
  opt.avoid_unnecessary_blocking_io = avoid_blocking_io;
  if (wal_zstd) opt.wal_compression = kZSTD;
  opt.max_subcompactions = max_subcompactions;
  opt.delayed_write_rate = static_cast<uint64_t>(delayed_write_rate);
#if ROCKSDB_MAJOR < 9
  // By default a compaction resets its input files from random to normal access, for other readers too: the kernel then
  // reads ahead in pages that RocksDB reads ahead itself, and behind every Get. RocksDB 9 dropped the option.
  opt.access_hint_on_compaction_start = Options::NONE;
#endif
  // Counters only: timing every read and write costs more than counting it.
  if (opt.statistics) opt.statistics->set_stats_level(StatsLevel::kExceptHistogramOrTimers);
}

void bk_options_set_comparator(void* o) { bk::opts(o).comparator = order(); }
int bk_compare_zset_score(const char* a, size_t al, const char* b, size_t bl) {
  return order()->Compare(Slice(a, al), Slice(b, bl));
}

int bk_ticker(void* o, const char* name, size_t n, uint64_t* count) {
  static const auto* numbers = [] {  // the enum's numbers are others in each version
    auto* m = new std::unordered_map<std::string, uint32_t>;
    for (auto& t : TickersNameMap) m->emplace(t.second, t.first);
    return m;
  }();
  auto at = numbers->find(std::string(name, n));
  if (at == numbers->end()) return 0;
  auto& s = bk::opts(o).statistics;
  *count = s ? s->getTickerCount(at->second) : 0;
  return 1;
}

}  // extern "C"
