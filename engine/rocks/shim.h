// The C side of package rocks: what grocksdb lacks, and what must be one crossing.
//
// Ownership, for every function here: pointers that come in are borrowed for the call only. Memory that goes
// out is written into buffers of the caller, except where a comment says that the caller owns the result and
// how to free it. An error is returned as a malloc'ed C string in *err that the caller frees with free().
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <rocksdb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bk_iter bk_iter;
typedef struct bk_cache bk_cache;

// Point reads ------------------------------------------------------------------------------------------------

// bk_get copies the value of a key into buf and returns its length, -1 when there is none, -2 on an error. Of a value
// longer than cap it copies the first cap bytes when rest is NULL; else nothing, and the caller owns *rest, which holds
// the value until it is given to bk_get_rest: finding a long value again would cost as much as the first time.
int64_t bk_get(void* db, void* ro, void* cf, const char* key, size_t klen, char* buf, size_t cap, void** rest, char** err);
// bk_get_rest copies the value, of which bk_get has returned the length, into buf and frees rest.
void bk_get_rest(void* rest, char* buf);
// bk_rest_copy copies n bytes of the value from an offset on into buf, and keeps rest; bk_rest_free frees it.
void bk_rest_copy(void* rest, size_t from, char* buf, size_t n);
void bk_rest_free(void* rest);

// bk_multiget reads n keys, concatenated in keys with their lengths in lens, in one batched MultiGet. The
// result in buf is, a key: u32 length (little-endian), value; length 0xffffffff = there is none. Of a value longer
// than vmax (0 = no bound) only the first vmax bytes follow its length. Returns the bytes needed; when that is more
// than cap nothing was copied, and the caller owns *rest, which holds the result until it is given to
// bk_multiget_rest. -2 on an error.
int64_t bk_multiget(void* db, void* ro, void* cf, int n, const char* keys, const uint32_t* lens, size_t vmax, char* buf, size_t cap, void** rest, char** err);
// bk_multiget_rest writes the result, of which bk_multiget has returned the length, into buf and frees rest.
void bk_multiget_rest(void* rest, char* buf);

// bk_peek looks for n keys, concatenated in keys with their lengths in lens, in memtables, filters and the block cache
// only; it reads no file. sizes gets the length of each value, 0xffffffff = there is none, 0xfffffffe = these do not
// tell; heads the first most bytes of each, most bytes apart.
void bk_peek(void* db, void* cf, int n, const char* keys, const uint32_t* lens, size_t most, uint32_t* sizes,
             char* heads);

// bk_kept returns how many bytes of buffers for values the calling thread keeps for its next reads.
size_t bk_kept(void);

// Writing ----------------------------------------------------------------------------------------------------

// bk_write commits a write batch in RocksDB's own representation. Returns the sequence number that its first record got,
// or, negative, the RocksDB status code + 1.
enum { BK_SYNC = 1, BK_DISABLE_WAL = 2, BK_NO_SLOWDOWN = 4, BK_LOW_PRI = 8, BK_INSERT_HINT = 16 };
int64_t bk_write(void* db, const char* rep, size_t n, uint32_t flags, char** err);

// Iterators --------------------------------------------------------------------------------------------------

enum { BK_REVERSE = 1, BK_KEYS_ONLY = 2, BK_NO_FILL = 4, BK_ASYNC = 8 };

// bk_iter_open positions an iterator on the first key of [lower, upper) (the last one when reversed; no bound
// where its length is 0) and fills buf as bk_iter_fill does. Returns NULL when everything fitted (the native
// iterator is closed already) or on an error; else the caller owns the iterator and closes it with
// bk_iter_close. strip bytes are cut off the front of every key; of a value at most vmax bytes are copied.
// max_skip bounds how many hidden entries (tombstones) one step may pass over; 0 = no bound.
//
// With nparts > 0 only those entries come whose stripped keys begin within one of so many ranges: parts holds a
// lower and an upper bound for each, all of plen bytes, in ascending order. Keys that are shorter come too. Not for
// reversed iterators. lower must be at least strip bytes long then.
bk_iter* bk_iter_open(void* db, void* cf, void* snapshot, const char* lower, size_t llen, const char* upper,
                      size_t ulen, uint32_t flags, size_t strip, const char* parts, size_t nparts, size_t plen,
                      size_t vmax, uint64_t max_skip, uint64_t skip,
                      char* buf, size_t cap, int maxn, int* n_out, int64_t* bytes, char** err);

// bk_iter_fill copies entries into buf, each as u32 key length, u32 value length (little-endian), key, value,
// until maxn entries, the end of the range or of the buffer. *n_out is the number; -1 when not even one entry
// fitted, and the result is then the bytes that it needs. *done is 1 when the range is exhausted.
int64_t bk_iter_fill(bk_iter* it, char* buf, size_t cap, int maxn, int* n_out, int* done, char** err);

// bk_iter_skip steps over up to n entries and returns how many there were.
uint64_t bk_iter_skip(bk_iter* it, uint64_t n, char** err);

void bk_iter_close(bk_iter* it);

// bk_snapshot_sequence returns the sequence number up to which a snapshot sees.
uint64_t bk_snapshot_sequence(void* snapshot);

// bk_count returns how many keys are in [lower, upper), at most max (0 = no bound), without copying any.
uint64_t bk_count(void* db, void* cf, void* snapshot, const char* lower, size_t llen, const char* upper, size_t ulen,
                  uint64_t max, int reverse, char** err);

// Options ----------------------------------------------------------------------------------------------------

// bk_cache_new makes a block cache (LRU with a high-priority pool of 0.75, or HyperClock when hyper != 0). The
// caller owns it and frees it with bk_cache_free; tables keep their own reference.
bk_cache* bk_cache_new(size_t capacity, int hyper, size_t block_size);
void bk_cache_free(bk_cache* c);
size_t bk_cache_usage(bk_cache* c);
size_t bk_cache_pinned(bk_cache* c);
// bk_cache_drop drops the entries that nobody has pinned. The cache stays the caller's.
void bk_cache_drop(bk_cache* c);

// bk_options_set_table sets the block-based table format of a column family. cache may be NULL: then the
// table has a small one of its own.
void bk_options_set_table(void* opts, bk_cache* cache, size_t block_size, int cache_index_and_filter,
                          int partition_filters);
// bk_options_set_blob_cache lets the blobs of a column family into the cache, of which it keeps a reference.
void bk_options_set_blob_cache(void* opts, bk_cache* cache);
// bk_options_set_ages sets after how many seconds table files are compacted because of their age; 0 = never,
// 0xfffffffffffffffe = what RocksDB chooses.
void bk_options_set_ages(void* opts, uint64_t ttl, uint64_t periodic);
// bk_options_set_info_log lets RocksDB log to dir/LOG, which must be a directory that no one else has open: the
// LOG that is there is put aside. A file that grows to max_size bytes is put aside as well. What RocksDB says there of
// logs that it leaves out goes to goEvent with the handle, too.
void bk_options_set_info_log(void* opts, const char* dir, size_t max_size, uintptr_t handle);
void bk_options_set_row_cache(void* opts, size_t capacity);
void bk_options_set_rate_limiter(void* opts, int64_t bytes_per_second, int auto_tuned);
void bk_options_set_rate(void* opts, int64_t bytes_per_second);
void bk_options_set_misc(void* opts, int avoid_blocking_io, int wal_compression_zstd, uint32_t max_subcompactions,
                         int64_t delayed_write_rate);
// bk_options_set_comparator installs the native twin of the zset_score order (shim_order.cc). It lives for
// the whole process.
void bk_options_set_comparator(void* opts);
// bk_options_set_tree_memtable keeps the memtables in a B+-tree (memtable_tree.h) in place of RocksDB's skip list. For
// families ordered by bytes, and for the options of the database and of all of its families alike: it turns
// concurrent memtable writes off. It goes by the size of the write buffers, which must be set before.
void bk_options_set_tree_memtable(void* opts);
// bk_slab_usage tells how many bytes of slabs (memtable_slabs.h) the process's memtables have, and how many are kept
// for the next ones.
void bk_slab_usage(size_t* used, size_t* kept);
int bk_compare_zset_score(const char* a, size_t al, const char* b, size_t bl);

// bk_options_set_filter registers the compaction filter factory of a column family. Every compaction gets a
// filter object of its own. handle is passed to the Go callbacks; kind tells the family; slots whether keys
// carry the cluster slot.
enum { BK_FILTER_METADATA = 1, BK_FILTER_SUBKEY = 2, BK_FILTER_PUBSUB = 3, BK_FILTER_PROPAGATE = 4, BK_FILTER_SEARCH = 5 };
void bk_options_set_filter(void* opts, uintptr_t handle, int kind, int slots);
// bk_settled tells whether the filter keeps a metadata record without asking Go: compaction.Settled.
int bk_settled(const char* value, size_t n);

// bk_options_add_collector adds the table-properties collector (total_keys, deleted_keys, start_key, stop_key,
// basalt.expiries).
void bk_options_add_collector(void* opts, int is_metadata, double trigger);

// bk_options_add_listener adds an event listener that calls goEvent with the handle.
enum { BK_EV_FLUSH = 1, BK_EV_COMPACTION = 2, BK_EV_ERROR = 3, BK_EV_STALL = 4, BK_EV_RECOVERED = 5, BK_EV_SEALED = 6, BK_EV_DROPPED = 7, BK_EV_FIELDS = 8 };
void bk_options_add_listener(void* opts, uintptr_t handle);

// bk_rocksdb_version returns the version of the RocksDB that is linked, as major * 10000 + minor * 100 + patch.
int bk_rocksdb_version(void);
// bk_rocksdb_assertions tells whether the RocksDB that is linked was built with assertions.
int bk_rocksdb_assertions(void);

// Administration ---------------------------------------------------------------------------------------------

uint64_t bk_ticker(void* opts, uint32_t ticker);
// bk_map_property returns a malloc'ed buffer of *n bytes that the caller frees: "name=value" and a newline for each
// entry of a property that is a map. NULL when RocksDB does not know the property.
char* bk_map_property(void* db, void* cf, const char* name, size_t nl, size_t* n);
int bk_set_db_option(void* db, const char* key, const char* value, char** err);
int bk_set_cf_option(void* db, void* cf, const char* key, const char* value, char** err);
int bk_resume(void* db, char** err);
// bk_compact_range compacts [start, stop]; no bound where the length is 0. Change level on, bottommost files
// rewritten once (force-optimized).
int bk_compact_range(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el, char** err);
// bk_compact_files compacts table files, given by their names with a newline between them, and what of that level
// overlaps them, into files of about file_size bytes in a level. It returns 1; 0 when a file is being compacted or gone;
// -1 on an error.
int bk_compact_files(void* db, void* cf, const char* names, size_t n, int level, uint64_t file_size, char** err);
// bk_cancel_compactions lets the calls of bk_compact_range fail, those to come as well, and waits until they have.
void bk_cancel_compactions(void* db);
// bk_table_properties returns a malloc'ed buffer of *n bytes that the caller frees, a file: u32 length and
// bytes of the file name; u64 file_creation_time; u64 bytes of keys and values; u32 level; then for total_keys,
// deleted_keys, start_key, stop_key, basalt.expiries each u32 length (0xffffffff = absent) and bytes. All integers little-endian. NULL on an error.
char* bk_table_properties(void* db, void* cf, size_t* n, char** err);

// bk_stored tells how many entries a column family stores, in out: puts and deletes of files and memtables, range deletes
// of files, puts in files of the lowest level that has any (0 = none below level 0). It reads the properties of the
// files, no data. 0 on an error.
int bk_stored(void* db, void* cf, uint64_t out[4], char** err);

// bk_approximate_size returns about how many bytes [start, stop) takes in files and memtables; 0 on an error.
uint64_t bk_approximate_size(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el);

// bk_approximate_parts stores in sizes about how many bytes each of n neighbouring ranges takes. They begin at head
// followed by the bytes at[0] to at[n-1], and the last one ends at head followed by at[n], or at end, which comes after all keys that
// begin with head, when at[n] is 256. It returns 0 on an error. All memory is the caller's.
int bk_approximate_parts(void* db, void* cf, const char* head, size_t hl, const char* end, size_t el, const uint16_t* at,
                         int n, uint64_t* sizes);

// bk_verify_table opens a table file of any family, without a cache. If whole it reads all of the file and compares the
// checksums of its blocks. It returns 1; 0 with an error.
int bk_verify_table(const char* path, size_t n, int whole, char** err);

// bk_perf_start resets RocksDB's perf context and I/O statistics of the calling thread and switches them on, times
// included but for those of mutexes. bk_perf_stop switches them off and returns both as text without the counters
// that are zero, in buffers that the caller frees.
void bk_perf_start(void);
void bk_perf_stop(char** perf, char** io);

// Table files that are made outside of a database -----------------------------------------------------------------

typedef struct bk_sst bk_sst;

// bk_sst_open begins a table file of the family's options at path. The caller owns the result and gives it to
// bk_sst_close; NULL on an error. The database stays open until then.
bk_sst* bk_sst_open(void* db, void* cf, const char* path, char** err);
// bk_sst_add puts n records, in ascending order of their keys: a record begins at an offset of at[] in arena, with the
// lengths of key and value, u32 in the byte order of the machine each, and key and value. False on an error.
int bk_sst_add(bk_sst* w, const char* arena, const uint64_t* at, size_t n, char** err);
// bk_sst_finish completes the file. False on an error.
int bk_sst_finish(bk_sst* w, char** err);
// bk_sst_close frees w. A file that is not finished stays, and is of no use.
void bk_sst_close(bk_sst* w);
// bk_ingest moves files of several families into the database, all or none: n paths, each with its family.
int bk_ingest(void* db, int n, void** cf, char** path, char** err);

#ifdef __cplusplus
}
#endif
