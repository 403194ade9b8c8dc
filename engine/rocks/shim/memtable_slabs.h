// The memory of memtables: entries and tree nodes are allocated from slabs, which later memtables reuse when RocksDB
// drops a flushed one.
//
// Why not malloc: a memtable's blocks are allocated by whichever thread leads a write and freed by a flush. So each of
// malloc's arenas keeps holes of past memtables, which only the next block of a thread of the same arena can fill.
// Measured after 11 million operations with write buffers of 16 MiB: malloc held 358 MiB, of which 87 MiB were in use;
// early in the run 233 and 97 MiB. Slabs have one size and serve all threads and families.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace bk {

// SlabPool allocates slabs. It keeps some of the returned slabs, whose pages need not be faulted in again, and unmaps
// the others. Any thread may use it.
class SlabPool {
 public:
  // The size of a slab in bytes: a huge page, because otherwise nearly every step down a tree would miss the TLB
  // (measured: SET is 8 % slower with pages of 4 KiB).
  static constexpr size_t kSlab = 2 << 20;

  struct Usage {
    size_t used, kept;  // bytes
  };

  // shared returns the pool of the process, which lives as long as it has an owner. From now on it keeps at least keep
  // bytes.
  static std::shared_ptr<SlabPool> shared(size_t keep) {
    std::lock_guard<std::mutex> lock(current_mu_);
    std::shared_ptr<SlabPool> p = current_.lock();
    if (!p) current_ = p = std::make_shared<SlabPool>();
    std::lock_guard<std::mutex> own(p->mu_);
    if (p->keep_ < keep / kSlab) {
      p->keep_ = keep / kSlab;
      p->free_.reserve(p->keep_);
    }
    return p;
  }
  // usage returns the usage of the process's pool.
  static Usage usage() {
    std::lock_guard<std::mutex> lock(current_mu_);
    std::shared_ptr<SlabPool> p = current_.lock();
    if (!p) return {0, 0};
    std::lock_guard<std::mutex> own(p->mu_);
    return {p->used_ * kSlab, p->free_.size() * kSlab};
  }

  SlabPool() = default;
  ~SlabPool() {
    for (char* s : free_) munmap(s, kSlab);
  }
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  // get returns an uninitialized slab, aligned to its size.
  char* get() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      used_++;
      if (!free_.empty()) {
        char* s = free_.back();
        free_.pop_back();
        return s;
      }
    }
    // Twice the size contains an aligned slab; the rest is unmapped.
    void* p = mmap(nullptr, 2 * kSlab, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();  // as a failing operator new would end without exceptions
    char* s = static_cast<char*>(p);
    size_t before = -reinterpret_cast<uintptr_t>(s) & (kSlab - 1);
    if (before > 0) munmap(s, before);
    munmap(s + before + kSlab, kSlab - before);
    madvise(s + before, kSlab, MADV_HUGEPAGE);  // without huge pages in the kernel, small pages work too
    return s + before;
  }
  void put(char* s) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      used_--;
      if (free_.size() < keep_) {
        free_.push_back(s);
        return;
      }
    }
    munmap(s, kSlab);
  }

 private:
  inline static std::mutex current_mu_;
  inline static std::weak_ptr<SlabPool> current_;

  std::mutex mu_;
  size_t keep_ = 0;  // slabs
  size_t used_ = 0;  // slabs
  std::vector<char*> free_;
};

// Blocks is the memory of one memtable; its destructor frees everything at once. One thread at a time may allocate.
// Memtables that are much smaller than a slab get blocks from malloc instead, and so does the beginning of each
// memtable, because most memtables of most families stay empty.
class Blocks {
 public:
  // The block size of a memtable is an eighth of its write buffer, as in RocksDB's arena; from half a slab on, blocks
  // are slabs.
  Blocks(std::shared_ptr<SlabPool> pool, size_t write_buffer) : pool_(std::move(pool)), block_(write_buffer / 8) {
    if (block_ >= SlabPool::kSlab / 2) block_ = SlabPool::kSlab;
    if (block_ < kFirst) block_ = kFirst;
    at_ = other(kFirst);
    left_ = kFirst;
    taken_ = 0;
  }
  ~Blocks() {
    for (char* s : slabs_) pool_->put(s);
    for (void* p : others_) free(p);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  // take returns n uninitialized bytes; align is a power of two of at most 64.
  char* take(size_t n, size_t align) {
    size_t skip = -reinterpret_cast<uintptr_t>(at_) & (align - 1);
    if (skip + n > left_) {
      if (n > block_ / 4) return other(n);  // the rest of the block would be wasted
      next();
      skip = 0;
    }
    char* p = at_ + skip;
    at_ = p + n;
    left_ -= skip + n;
    taken_ += skip + n;
    return p;
  }
  // taken returns how many bytes were allocated: RocksDB compares this with the write buffer size.
  size_t taken() const { return taken_; }

 private:
  static constexpr size_t kFirst = 4 << 10;

  // other returns a separate block, aligned to 64 bytes.
  char* other(size_t n) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, n) != 0) abort();
    others_.push_back(p);
    taken_ += n;
    return static_cast<char*>(p);
  }
  // next starts a new block.
  void next() {
    if (block_ == SlabPool::kSlab) {
      at_ = pool_->get();
      slabs_.push_back(at_);
    } else {
      at_ = other(block_);
      taken_ -= block_;
    }
    left_ = block_;
  }

  const std::shared_ptr<SlabPool> pool_;
  size_t block_;  // bytes
  char* at_ = nullptr;
  size_t left_ = 0, taken_ = 0;
  std::vector<char*> slabs_;
  std::vector<void*> others_;
};

}  // namespace bk
