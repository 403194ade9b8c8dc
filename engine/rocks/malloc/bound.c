// Bounds on what glibc's malloc keeps of memory that was given back to it.
#define _GNU_SOURCE
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__

// big is the size in bytes from which a block is a mapping of its own. It must be given: by itself glibc raises it, up
// to 32 MiB, to the size of every block that is freed, and then the buffers of flushes and compactions leave holes
// too. Buffers of reads are smaller and shall not be mapped and unmapped each time.
static const int big = 1 << 20;

// given reports whether the environment has parameters for malloc, which are then left alone.
static int given(void) {
  const char* tunables = getenv("GLIBC_TUNABLES");
  return getenv("MALLOC_ARENA_MAX") || getenv("MALLOC_ARENA_TEST") || getenv("MALLOC_MMAP_THRESHOLD_") ||
         getenv("MALLOC_TRIM_THRESHOLD_") || (tunables && strstr(tunables, "glibc.malloc."));
}

// One arena a processor, and two where there is one: what runs at a time seldom meets in an arena.
static int arenas(void) {
  cpu_set_t cpus;
  int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 8;  // fails with more than 1024
  return n < 2 ? 2 : n;
}

// A constructor, because a thread that exists keeps its arena: Go's runtime starts threads before main.
__attribute__((constructor)) static void bound(void) {
  if (given()) return;
  mallopt(M_ARENA_MAX, arenas());
  mallopt(M_MMAP_THRESHOLD, big);
  mallopt(M_TRIM_THRESHOLD, 4 * big);  // bytes free at the end of an arena; 128 KiB otherwise, now that big is given
}

// basalt_malloc_usage tells how many bytes of malloc are in use, blocks with mappings of their own included, and how many
// are free in the arenas, whether the system has their pages back or not. It takes each arena's lock, for as long as a walk
// over its free blocks lasts.
void basalt_malloc_usage(size_t* used, size_t* unused) {
#if __GLIBC_PREREQ(2, 33)
  struct mallinfo2 m = mallinfo2();
  *used = m.uordblks + m.hblkhd;
  *unused = m.fordblks;
#else
  *used = *unused = 0;
#endif
}

// Each arena keeps the holes of what it once held, and the block cache moves from arena to arena with the threads that read: in
// time malloc would keep it once an arena. malloc_trim gives the pages of holes back, wherever they are; a page costs some tenths
// of a microsecond, and the arena waits meanwhile. What has been given back already costs little.
int basalt_malloc_trim(void) {
#if __GLIBC_PREREQ(2, 33)
  if (given()) return 0;
  struct mallinfo2 m = mallinfo2();
  if (m.fordblks < 32 * (size_t)big || m.fordblks < m.uordblks / 8) return 0;
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
