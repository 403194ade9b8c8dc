// The block cache, for the other parts of the shim.
#pragma once
#include <memory>

#include "internal.h"

struct bk_cache { std::shared_ptr<rocksdb::Cache> rep; };

namespace bk {
// of_family returns the cache for the tables of one column family: the same one, with the family's look-ups counted.
std::shared_ptr<rocksdb::Cache> of_family(const bk_cache* cache);
}  // namespace bk
