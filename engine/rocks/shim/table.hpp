// Checks of table files without their database.
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>

#include "internal.h"

using namespace rocksdb;

extern "C" {

int bk_verify_table(const char* path, size_t n, int whole, char** err) {
  BlockBasedTableOptions t;
  t.cache_index_and_filter_blocks = whole;  // so that opening reads all parts of index and filter,
  t.filter_policy.reset(NewBloomFilterPolicy(10, false));  // which VerifyChecksum does not
  t.partition_filters = true;
  Options o;
  o.table_factory.reset(NewBlockBasedTableFactory(t));  // with a cache of its own, which is empty
  SstFileReader r(o);
  if (bk::set_err(err, r.Open(std::string(path, n)))) return 0;
  if (!whole) return 1;
  ReadOptions ro;
  ro.fill_cache = false;
  ro.readahead_size = 2 << 20;
  return !bk::set_err(err, r.VerifyChecksum(ro));
}

}  // extern "C"
