// Limits the memory that glibc's malloc keeps after it was freed.
#define _GNU_SOURCE
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__

// big is the size in bytes from which a block gets a mapping of its own. It must be set explicitly: otherwise glibc
// raises the limit, up to 32 MiB, to the size of every freed block, and then the buffers of flushes and compactions
// leave holes too. Read buffers are smaller and should not be mapped and unmapped each time.
static const int big = 1 << 20;

// given reports whether the environment sets parameters of malloc. They take precedence.
static int given(void) {
  const char* tunables = getenv("GLIBC_TUNABLES");
  return getenv("MALLOC_ARENA_MAX") || getenv("MALLOC_ARENA_TEST") || getenv("MALLOC_MMAP_THRESHOLD_") ||
         getenv("MALLOC_TRIM_THRESHOLD_") || (tunables && strstr(tunables, "glibc.malloc."));
}

// One arena a CPU, at least two: threads that run at the same time seldom meet in an arena.
static int arenas(void) {
  cpu_set_t cpus;
  int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 8;  // fails with more than 1024
  return n < 2 ? 2 : n;
}

// A constructor, because an existing thread keeps its arena, and Go's runtime starts threads before main.
__attribute__((constructor)) static void bound(void) {
  if (given()) return;
  mallopt(M_ARENA_MAX, arenas());
  mallopt(M_MMAP_THRESHOLD, big);
  mallopt(M_TRIM_THRESHOLD, 4 * big);  // free bytes at the end of an arena; the default is 128 KiB once big is set
}

// basalt_malloc_usage returns how many bytes of malloc's memory are in use, including blocks with mappings of their
// own, and how many are free in the arenas, including free pages that were returned to the system. It holds each
// arena's lock while it walks the arena's free blocks.
void basalt_malloc_usage(size_t* used, size_t* unused) {
#if __GLIBC_PREREQ(2, 33)
  struct mallinfo2 m = mallinfo2();
  *used = m.uordblks + m.hblkhd;
  *unused = m.fordblks;
#else
  *used = *unused = 0;
#endif
}

// Each arena keeps holes of what it once held, and the block cache moves from arena to arena with the reading threads:
// in time malloc would hold it once for each arena. malloc_trim returns the free pages to the system, wherever they
// are. A page costs some tenths of a microsecond, during which the arena is locked. Pages that were returned before
// cost little.
int basalt_malloc_trim(void) {
#if __GLIBC_PREREQ(2, 33)
  if (given()) return 0;
  struct mallinfo2 m = mallinfo2();
  if (m.fordblks < 8 * (size_t)big || m.fordblks < m.uordblks / 8) return 0;
  malloc_trim(4 * big);
  return 1;
#else
  return 0;
#endif
}

#else

int basalt_malloc_trim(void) { return 0; }
void basalt_malloc_usage(size_t* used, size_t* unused) { *used = *unused = 0; }

#endif
