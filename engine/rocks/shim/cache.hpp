// The block cache, and what each column family has of it.
#include <rocksdb/version.h>

#if ROCKSDB_MAJOR >= 8
#include <rocksdb/advanced_cache.h>
#else
#include <rocksdb/cache.h>
#endif
#include <rocksdb/table.h>

#include <atomic>
#include <memory>
#include <utility>

#include "cache.h"

using namespace rocksdb;

namespace {

#if ROCKSDB_MAJOR < 8
// CacheWrapper passes calls on to another cache, as the class of this name in RocksDB 8 does.
class CacheWrapper : public Cache {
 public:
  explicit CacheWrapper(std::shared_ptr<Cache> target) : target_(std::move(target)) {}
  Status Insert(const Slice& key, void* value, size_t charge, DeleterFn deleter, Handle** handle,
                Priority priority) override {
    return target_->Insert(key, value, charge, deleter, handle, priority);
  }
  Status Insert(const Slice& key, void* value, const CacheItemHelper* helper, size_t charge, Handle** handle,
                Priority priority) override {
    return target_->Insert(key, value, helper, charge, handle, priority);
  }
  bool Ref(Handle* handle) override { return target_->Ref(handle); }
  bool Release(Handle* handle, bool erase) override { return target_->Release(handle, erase); }
  bool Release(Handle* handle, bool useful, bool erase) override { return target_->Release(handle, useful, erase); }
  bool IsReady(Handle* handle) override { return target_->IsReady(handle); }
  void Wait(Handle* handle) override { target_->Wait(handle); }
  void WaitAll(std::vector<Handle*>& handles) override { target_->WaitAll(handles); }
  void* Value(Handle* handle) override { return target_->Value(handle); }
  void Erase(const Slice& key) override { target_->Erase(key); }
  uint64_t NewId() override { return target_->NewId(); }
  void SetCapacity(size_t capacity) override { target_->SetCapacity(capacity); }
  void SetStrictCapacityLimit(bool strict) override { target_->SetStrictCapacityLimit(strict); }
  bool HasStrictCapacityLimit() const override { return target_->HasStrictCapacityLimit(); }
  size_t GetCapacity() const override { return target_->GetCapacity(); }
  size_t GetUsage() const override { return target_->GetUsage(); }
  size_t GetUsage(Handle* handle) const override { return target_->GetUsage(handle); }
  size_t GetPinnedUsage() const override { return target_->GetPinnedUsage(); }
  size_t GetOccupancyCount() const override { return target_->GetOccupancyCount(); }
  size_t GetTableAddressCount() const override { return target_->GetTableAddressCount(); }
  size_t GetCharge(Handle* handle) const override { return target_->GetCharge(handle); }
  DeleterFn GetDeleter(Handle* handle) const override { return target_->GetDeleter(handle); }
  void ApplyToAllEntries(const std::function<void(const Slice&, void*, size_t, DeleterFn)>& callback,
                         const ApplyToAllEntriesOptions& options) override {
    target_->ApplyToAllEntries(callback, options);
  }
  void EraseUnRefEntries() override { target_->EraseUnRefEntries(); }
  std::string GetPrintableOptions() const override { return target_->GetPrintableOptions(); }

 protected:
  std::shared_ptr<Cache> target_;
};
#endif

// Counts are look-ups by some of the threads. Threads of different slots do not share a cache line.
struct alignas(64) Counts {
  std::atomic<uint64_t> found[2] = {};  // misses, hits
};
constexpr unsigned kSlots = 8;
std::atomic<unsigned> threads{0};
thread_local unsigned slot = kSlots;  // kSlots = the thread has not looked anything up yet

// FamilyCache is the shared block cache as the tables of one column family see it. It counts their look-ups: RocksDB
// counts those of all families together.
class FamilyCache : public CacheWrapper {
 public:
  using CacheWrapper::CacheWrapper;
  const char* Name() const override { return target_->Name(); }
#if ROCKSDB_MAJOR >= 8
  Handle* Lookup(const Slice& key, const CacheItemHelper* helper, CreateContext* context, Priority priority,
                 Statistics* stats) override {
    return counted(target_->Lookup(key, helper, context, priority, stats));
  }
  void StartAsyncLookup(AsyncLookupHandle& h) override {
    target_->StartAsyncLookup(h);
    counted(h.Result());  // without a second cache behind the first one nothing is looked up later
  }
#else
  Handle* Lookup(const Slice& key, Statistics* stats) override { return counted(target_->Lookup(key, stats)); }
  Handle* Lookup(const Slice& key, const CacheItemHelper* helper, const CreateCallback& create, Priority priority,
                 bool wait, Statistics* stats) override {
    return counted(target_->Lookup(key, helper, create, priority, wait, stats));
  }
#endif
  uint64_t count(bool hits) const {
    uint64_t n = 0;
    for (auto& c : counts_) n += c.found[hits].load(std::memory_order_relaxed);
    return n;
  }

 private:
  Counts counts_[kSlots];

  Handle* counted(Handle* handle) {
    if (slot == kSlots) slot = threads.fetch_add(1, std::memory_order_relaxed) % kSlots;
    counts_[slot].found[handle != nullptr].fetch_add(1, std::memory_order_relaxed);
    return handle;
  }
};

}  // namespace

std::shared_ptr<Cache> bk::of_family(const bk_cache* cache) { return std::make_shared<FamilyCache>(cache->rep); }

extern "C" {

bk_cache* bk_cache_new(size_t capacity, int hyper, size_t block_size) {
  if (hyper) return new bk_cache{HyperClockCacheOptions(capacity, block_size).MakeSharedCache()};
  return new bk_cache{NewLRUCache(capacity, -1, false, 0.75)};
}
void bk_cache_free(bk_cache* c) { delete c; }
size_t bk_cache_capacity(bk_cache* c) { return c->rep->GetCapacity(); }
void bk_cache_set_capacity(bk_cache* c, size_t capacity) { c->rep->SetCapacity(capacity); }
size_t bk_cache_usage(bk_cache* c) { return c->rep->GetUsage(); }
size_t bk_cache_pinned(bk_cache* c) { return c->rep->GetPinnedUsage(); }
void bk_cache_drop(bk_cache* c) { c->rep->EraseUnRefEntries(); }

int bk_family_lookups(void* opts, uint64_t* hits, uint64_t* misses) {
  auto* table = bk::opts(opts).table_factory->GetOptions<BlockBasedTableOptions>();
  auto* cache = table ? dynamic_cast<FamilyCache*>(table->block_cache.get()) : nullptr;
  if (!cache) return 0;
  *hits = cache->count(true);
  *misses = cache->count(false);
  return 1;
}

}  // extern "C"
