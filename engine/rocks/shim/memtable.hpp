// A RocksDB memtable on bk::Tree, and the option that installs it.
#include <rocksdb/memtablerep.h>

#include "memtable_tree.h"
#include "internal.h"

using namespace rocksdb;

namespace {

// Stock is a thread's free list for iterator memory. RocksDB wants an iterator in its own arena, whose type it does not
// publish, and later only calls the destructor. So an iterator's memory goes to the free list of the thread that
// destroys it.
class Stock {
 public:
  ~Stock() {
    while (n_ > 0) ::operator delete(kept_[--n_]);
  }
  void* get(size_t size) { return n_ > 0 ? kept_[--n_] : ::operator new(size); }
  // put takes a block back whose destructor may still be running: so it never frees this block, but an older one.
  void put(void* block) {
    if (n_ == kKept) {
      ::operator delete(kept_[0]);
      memmove(kept_, kept_ + 1, --n_ * sizeof(void*));
    }
    kept_[n_++] = block;
  }

 private:
  static constexpr int kKept = 8;
  void* kept_[kKept];
  int n_ = 0;
};
thread_local Stock stock;

class TreeIterator final : public MemTableRep::Iterator {
 public:
  // A lookup only steps forward from the position of its seek.
  TreeIterator(const bk::Tree* tree, bool lookup) : tree_(tree), lookup_(lookup) {}
  ~TreeIterator() override {
    if (!lookup_) stock.put(this);
  }
  // The destructor handles the memory, whether RocksDB deletes the iterator or only destroys it.
  static void* operator new(size_t size) { return stock.get(size); }
  static void* operator new(size_t, void* at) { return at; }
  static void operator delete(void*) {}
  static void operator delete(void*, void*) {}

  bool Valid() const override { return valid_; }
  const char* key() const override { return c_.key[c_.pos]; }
  void Next() override {
    c_.pos++;
    settle();
  }
  void Prev() override {
    while (c_.pos == 0) {
      if (!tree_->backward(&c_)) {
        valid_ = false;
        return;
      }
    }
    c_.pos--;
    if (c_.pos >= kAhead) __builtin_prefetch(c_.key[c_.pos - kAhead]);
  }
  void Seek(const Slice& internal_key, const char* memtable_key) override {
    bk::TreeKey k = target(internal_key, memtable_key);
    tree_->seek(&k, lookup_, &c_);
    settle();
  }
  void SeekForPrev(const Slice& internal_key, const char* memtable_key) override {
    bk::TreeKey k = target(internal_key, memtable_key);
    tree_->seek(&k, false, &c_);
    if (c_.pos < c_.n && bk::TreeKey::entry(c_.key[c_.pos]).compare(k) == 0) {
      valid_ = true;
      return;
    }
    valid_ = true;
    Prev();
  }
  void SeekToFirst() override {
    tree_->seek(nullptr, false, &c_);
    settle();
  }
  void SeekToLast() override {
    tree_->last(&c_);
    valid_ = true;
    Prev();
  }

 private:
  static constexpr int kAhead = 3;  // entries to prefetch

  static bk::TreeKey target(const Slice& internal_key, const char* memtable_key) {
    return memtable_key ? bk::TreeKey::entry(memtable_key)
                        : bk::TreeKey::internal(internal_key.data(), internal_key.size());
  }
  // settle moves on to the next leaf when the copy of the current one is used up.
  void settle() {
    while (c_.pos >= c_.n) {
      if (!tree_->forward(&c_)) {
        valid_ = false;
        return;
      }
    }
    valid_ = true;
    if (!lookup_ && c_.pos + kAhead < c_.n) __builtin_prefetch(c_.key[c_.pos + kAhead]);
  }

  const bk::Tree* tree_;
  const bool lookup_;
  bool valid_ = false;
  bk::Tree::Copy c_;
};

class TreeRep final : public MemTableRep {
 public:
  TreeRep(Allocator* allocator, std::shared_ptr<bk::SlabPool> pool, size_t write_buffer)
      : MemTableRep(allocator), blocks_(std::move(pool), write_buffer), tree_(&blocks_) {}
  KeyHandle Allocate(const size_t len, char** buf) override {
    *buf = blocks_.take(len, 1);
    size_.store(blocks_.taken(), std::memory_order_relaxed);
    return *buf;
  }
  void Insert(KeyHandle handle) override { tree_.insert(static_cast<const char*>(handle)); }
  bool Contains(const char* key) const override {
    bk::TreeKey k = bk::TreeKey::entry(key);
    bk::Tree::Copy c;
    tree_.seek(&k, true, &c);
    while (c.n == 0)
      if (!tree_.forward(&c)) return false;
    return bk::TreeKey::entry(c.key[0]).compare(k) == 0;
  }
  size_t ApproximateMemoryUsage() override { return size_.load(std::memory_order_relaxed); }
  uint64_t ApproximateNumEntries(const Slice& start, const Slice& end) override {
    return tree_.count(bk::TreeKey::internal(start.data(), start.size()),
                       bk::TreeKey::internal(end.data(), end.size()));
  }
  Iterator* GetIterator(Arena*) override { return new TreeIterator(&tree_, false); }
  // MemTableRep::Get requests an iterator without an arena and does not delete it: so it gets the thread's own.
  Iterator* GetDynamicPrefixIterator(Arena* arena) override {
    if (arena) return GetIterator(arena);
    alignas(TreeIterator) static thread_local char room[sizeof(TreeIterator)];
    return new (room) TreeIterator(&tree_, true);
  }

 private:
  bk::Blocks blocks_;
  bk::Tree tree_;
  std::atomic<size_t> size_{0};  // size of blocks_, for threads other than the writer
};

class TreeRepFactory final : public MemTableRepFactory {
 public:
  explicit TreeRepFactory(size_t write_buffer)
      : pool_(bk::SlabPool::shared(std::min(write_buffer, kKept))), write_buffer_(write_buffer) {}
  // The name is written to the OPTIONS file, where tools expect a name that they know.
  const char* Name() const override { return "SkipListFactory"; }
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator&, Allocator* allocator, const SliceTransform*,
                                 Logger*) override {
    return new TreeRep(allocator, pool_, write_buffer_);
  }

 private:
  // The number of bytes of flushed memtables that the pool keeps: enough for the next memtable to begin with. Mapping a
  // new slab costs a fraction of a millisecond; at 100 MB of writes a second that is a hundredth of a core.
  static constexpr size_t kKept = 16 << 20;

  const std::shared_ptr<bk::SlabPool> pool_;
  const size_t write_buffer_;
};

}  // namespace

extern "C" void bk_options_set_tree_memtable(void* o) {
  bk::opts(o).memtable_factory = std::make_shared<TreeRepFactory>(bk::opts(o).write_buffer_size);
  bk::opts(o).allow_concurrent_memtable_write = false;
}

extern "C" void bk_slab_usage(size_t* used, size_t* kept) {
  bk::SlabPool::Usage u = bk::SlabPool::usage();
  *used = u.used;
  *kept = u.kept;
}
