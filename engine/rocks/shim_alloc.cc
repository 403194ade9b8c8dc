// Big blocks on huge pages. A memtable's skip list touches memory at random: with 4 KiB pages most steps of an
// insert miss the TLB as well as the cache. RocksDB's arenas get their blocks from operator new[], which a program
// may replace; blocks of 2 MiB and more are aligned and marked for transparent huge pages here. Everything else
// is malloc as before. What new[] returns belongs to whoever calls delete[].
#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}

void* operator new[](std::size_t n) {
  void* p = nullptr;
  if (n < kHugePage) {
    p = std::malloc(n ? n : 1);
  } else if (posix_memalign(&p, kHugePage, n) != 0) {
    p = nullptr;
  } else {
    madvise(p, n & ~(kHugePage - 1), MADV_HUGEPAGE);  // advice only: a refusal changes nothing
  }
  if (!p) throw std::bad_alloc();
  return p;
}
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
