#include "parts.h"

#include <rocksdb/iterator.h>

#include <memory>
#include <string>

#include "internal.h"

using namespace rocksdb;

extern "C" {

// An iterator points at the value in the memtable or in a cached block; Get would copy it.
int64_t bk_get_parts(void* dbp, void* cfp, const char* key, size_t klen, const uint32_t* offsets, int count, size_t n,
                     char* out, char** err) {
  std::string upper(key, klen);
  upper.push_back('\0');
  Slice upper_slice(upper);
  ReadOptions ro;
  ro.iterate_upper_bound = &upper_slice;
  std::unique_ptr<Iterator> it(bk::db(dbp)->NewIterator(ro, bk::cf(cfp)));
  it->Seek(Slice(key, klen));
  if (!it->Valid()) return bk::set_err(err, it->status()) ? -2 : -1;
  Slice v = it->value();
  for (int i = 0; i < count; i++) {
    if (static_cast<size_t>(offsets[i]) + n > v.size()) continue;
    memcpy(out + static_cast<size_t>(i) * n, v.data() + offsets[i], n);
  }
  return static_cast<int64_t>(v.size());
}

}  // extern "C"
