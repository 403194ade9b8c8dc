// The layout of the wrapper structs of RocksDB's C API, to which grocksdb's pointers point.
#pragma once
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <cstdlib>
#include <cstring>
#include "shim.h"

struct rocksdb_t { rocksdb::DB* rep; };
struct rocksdb_column_family_handle_t { rocksdb::ColumnFamilyHandle* rep; };
struct rocksdb_readoptions_t { rocksdb::ReadOptions rep; };
struct rocksdb_options_t { rocksdb::Options rep; };
struct rocksdb_snapshot_t { const rocksdb::Snapshot* rep; };

namespace bk {
inline rocksdb::DB* db(void* p) { return static_cast<rocksdb_t*>(p)->rep; }
inline rocksdb::ColumnFamilyHandle* cf(void* p) { return static_cast<rocksdb_column_family_handle_t*>(p)->rep; }
inline rocksdb::Options& opts(void* p) { return static_cast<rocksdb_options_t*>(p)->rep; }
inline const rocksdb::Snapshot* snap(void* p) { return p ? static_cast<rocksdb_snapshot_t*>(p)->rep : nullptr; }
// set_err stores the text of a status in *err, which the caller must free; it returns true if the status is an error.
inline bool set_err(char** err, const rocksdb::Status& s) {
  if (s.ok()) return false;
  *err = strdup(s.ToString().c_str());
  return true;
}
}  // namespace bk
