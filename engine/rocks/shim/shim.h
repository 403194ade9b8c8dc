// The C side of package rocks: what grocksdb lacks, and what must be a single cgo call.
//
// Ownership, for every function here: the callee borrows pointer arguments for the duration of the call. Results go to
// buffers of the caller, except where a comment says that the caller owns the result and how to free it. An error is a
// malloc'ed C string in *err, which the caller frees with free().
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

// bk_get copies the value of a key into buf and returns its length, -1 if the key does not exist, -2 on an error. If
// the value is longer than cap and rest is NULL, it copies the first cap bytes. If rest is not NULL, it copies nothing,
// and the caller owns *rest, which pins the value until bk_get_rest or bk_rest_free: finding a long value again would
// cost as much as the first time.
int64_t bk_get(void* db, void* ro, void* cf, const char* key, size_t klen, char* buf, size_t cap, void** rest,
               char** err);
// bk_get_rest copies the whole value, whose length bk_get has returned, into buf and frees rest.
void bk_get_rest(void* rest, char* buf);
// bk_rest_copy copies n bytes of the value, from offset from on, into buf and keeps rest. bk_rest_free frees rest.
void bk_rest_copy(void* rest, size_t from, char* buf, size_t n);
void bk_rest_free(void* rest);

// bk_multiget reads n keys, concatenated in keys with their lengths in lens, in one MultiGet. For each key buf gets:
// u32 length (little-endian; 0xffffffff = not found), value. Values are truncated to vmax bytes (0 = no limit); the
// length is that of the whole value. It reads the snapshot snap, or the present when that is NULL. It returns the
// needed size in bytes, or -2 on an error. If that is more than cap, nothing was copied, and the caller owns *rest,
// which holds the result until bk_multiget_rest.
int64_t bk_multiget(void* db, void* ro, void* snap, void* cf, int n, const char* keys, const uint32_t* lens,
                    size_t vmax, char* buf, size_t cap, void** rest, char** err);
// bk_multiget_rest copies the result, whose size bk_multiget has returned, into buf and frees rest.
void bk_multiget_rest(void* rest, char* buf);

// bk_kept returns the size of the value buffers that the calling thread keeps for its next reads.
size_t bk_kept(void);

// Writing ----------------------------------------------------------------------------------------------------

// bk_write commits a write batch in RocksDB's format. It returns the sequence number of the first record, or -1
// after an error.
enum { BK_SYNC = 1, BK_DISABLE_WAL = 2, BK_NO_SLOWDOWN = 4, BK_LOW_PRI = 8, BK_INSERT_HINT = 16 };
int64_t bk_write(void* db, const char* rep, size_t n, uint32_t flags, char** err);

// Iterators --------------------------------------------------------------------------------------------------

enum { BK_REVERSE = 1, BK_KEYS_ONLY = 2, BK_NO_FILL = 4, BK_ASYNC = 8, BK_COLLECTION = 16 };

// bk_iter_open positions an iterator on the first key of [lower, upper) (with BK_REVERSE on the last one; a bound of
// length 0 is none), skips skip entries and fills buf like bk_iter_fill. It returns NULL on an error, or if everything
// fitted: then the native iterator is closed already. Otherwise the caller owns the iterator and closes it with
// bk_iter_close. strip bytes are removed from the front of every key; values are truncated to vmax bytes (0 = no
// limit). max_skip limits how many hidden entries (tombstones) one step may pass; 0 = no limit. BK_COLLECTION says that
// lower is given and that all keys of the range belong to one version of one collection.
//
// With nparts > 0 the iterator only returns entries whose stripped keys begin within one of nparts ranges, and entries
// with keys shorter than plen. parts holds a lower and an upper bound of each range, in ascending order, all of plen
// bytes. lower must then be at least strip bytes long. Not for BK_REVERSE.
bk_iter* bk_iter_open(void* db, void* cf, void* snapshot, const char* lower, size_t llen, const char* upper,
                      size_t ulen, uint32_t flags, size_t strip, const char* parts, size_t nparts, size_t plen,
                      size_t vmax, uint64_t max_skip, uint64_t skip,
                      char* buf, size_t cap, int maxn, int* n_out, int64_t* bytes, char** err);

// bk_iter_fill copies entries into buf, each as u32 key length, u32 value length (little-endian), key, value, until
// maxn entries, the end of the range or the end of the buffer. It returns the number of bytes; *n_out is the number of
// entries. If not even one entry fitted, *n_out is -1 and the result is the size that the entry needs. *done is 1 when
// the range is exhausted.
int64_t bk_iter_fill(bk_iter* it, char* buf, size_t cap, int maxn, int* n_out, int* done, char** err);

// bk_iter_skip passes up to n entries and returns how many it passed.
uint64_t bk_iter_skip(bk_iter* it, uint64_t n, char** err);

void bk_iter_close(bk_iter* it);

// bk_snapshot_sequence returns the sequence number of the newest write that a snapshot includes.
uint64_t bk_snapshot_sequence(void* snapshot);

// bk_count returns the number of keys in [lower, upper); it stops counting at max (0 = no limit). It copies nothing.
uint64_t bk_count(void* db, void* cf, void* snapshot, const char* lower, size_t llen, const char* upper, size_t ulen,
                  uint64_t max, int reverse, char** err);

// Options ----------------------------------------------------------------------------------------------------

// bk_cache_new creates a block cache (LRU with a high-priority pool of 0.75, or HyperClock if hyper is not 0). The
// caller owns it and frees it with bk_cache_free; tables keep references of their own.
bk_cache* bk_cache_new(size_t capacity, int hyper, size_t block_size);
void bk_cache_free(bk_cache* c);
size_t bk_cache_capacity(bk_cache* c);
void bk_cache_set_capacity(bk_cache* c, size_t capacity);
size_t bk_cache_usage(bk_cache* c);
size_t bk_cache_pinned(bk_cache* c);
// bk_cache_drop drops the unpinned entries.
void bk_cache_drop(bk_cache* c);
// bk_family_lookups counts the look-ups of a column family, given by its options, in the shared cache since the
// database was opened. It returns 0 when they are not counted.
int bk_family_lookups(void* opts, uint64_t* hits, uint64_t* misses);

// bk_options_set_table sets the block-based table format of a column family. The options keep a reference to the cache.
// If cache is NULL, the table has a small cache of its own. count says whether the family's look-ups are counted.
void bk_options_set_table(void* opts, bk_cache* cache, size_t block_size, int cache_index_and_filter,
                          int partition_filters, int count);
// bk_options_set_blob_cache caches the blobs of a column family in the cache. The options keep a reference to it.
void bk_options_set_blob_cache(void* opts, bk_cache* cache);
// bk_options_set_ages sets the ages in seconds from which table files are compacted; 0 = never, 0xfffffffffffffffe =
// RocksDB's default.
void bk_options_set_ages(void* opts, uint64_t ttl, uint64_t periodic);
// bk_options_set_info_log makes RocksDB log to dir/LOG. No other database may be open in dir: an existing LOG is
// renamed. A file that reaches max_size bytes is renamed as well. Messages about skipped parts of write-ahead logs also
// go to goEvent with the handle.
void bk_options_set_info_log(void* opts, const char* dir, size_t max_size, uintptr_t handle);
void bk_options_set_row_cache(void* opts, size_t capacity);
void bk_options_set_rate_limiter(void* opts, int64_t bytes_per_second, int auto_tuned);
void bk_options_set_rate(void* opts, int64_t bytes_per_second);
void bk_options_set_misc(void* opts, int avoid_blocking_io, int wal_compression_zstd, uint32_t max_subcompactions,
                         int64_t delayed_write_rate);
// bk_options_set_comparator installs the C++ implementation of the zset_score order (shim_order.cc). The comparator
// lives as long as the process.
void bk_options_set_comparator(void* opts);
// bk_options_set_tree_memtable uses a B+-tree (memtable_tree.h) as memtable instead of RocksDB's skip list. It must be
// set for the database and for all families that use it: it disables concurrent memtable writes. The families must be
// ordered bytewise. It depends on the write buffer size, which must be set before.
void bk_options_set_tree_memtable(void* opts);
// bk_slab_usage returns the total size in bytes of the slabs (memtable_slabs.h) in use by memtables of the process, and
// of those kept for reuse.
void bk_slab_usage(size_t* used, size_t* kept);
int bk_compare_zset_score(const char* a, size_t al, const char* b, size_t bl);

// bk_options_set_filter sets the compaction filter factory of a column family. Every compaction gets a filter object of
// its own. handle is passed to the Go callbacks; kind is the kind of family; slots says whether keys contain the
// cluster slot. The options own the factory.
enum {
  BK_FILTER_METADATA = 1,
  BK_FILTER_SUBKEY = 2,
  BK_FILTER_PUBSUB = 3,
  BK_FILTER_PROPAGATE = 4,
  BK_FILTER_SEARCH = 5,
  BK_FILTER_INDEX = 6
};
void bk_options_set_filter(void* opts, uintptr_t handle, int kind, int slots);
// bk_options_set_prefix makes the filters of a family's files, and of its memtables if they have any, hold what all
// keys of a collection have in common. So bk_iter_open with BK_COLLECTION passes over files without the collection.
// slots says whether keys contain the cluster slot. The options own the extractor.
void bk_options_set_prefix(void* opts, int slots);
// bk_settled returns 1 if the filter keeps a metadata record without asking Go: compaction.Settled.
int bk_settled(const char* value, size_t n);

// bk_options_add_collector adds the table properties collector (total_keys, deleted_keys, start_key, stop_key,
// basalt.expiries). The options own it.
void bk_options_add_collector(void* opts, int is_metadata, double trigger);

// bk_options_add_listener adds an event listener that calls goEvent with the handle.
enum {
  BK_EV_FLUSH = 1,
  BK_EV_COMPACTION = 2,
  BK_EV_ERROR = 3,
  BK_EV_STALL = 4,
  BK_EV_RECOVERED = 5,
  BK_EV_SEALED = 6,
  BK_EV_DROPPED = 7,
  BK_EV_FIELDS = 8
};
void bk_options_add_listener(void* opts, uintptr_t handle);

// bk_rocksdb_version returns the version of the RocksDB that is linked, as major * 10000 + minor * 100 + patch.
int bk_rocksdb_version(void);
// bk_rocksdb_assertions returns 1 if the linked RocksDB was built with assertions.
int bk_rocksdb_assertions(void);

// Administration ---------------------------------------------------------------------------------------------

// bk_ticker reads a counter by its name in RocksDB's TickersNameMap. It returns 0 when there is none of that name.
int bk_ticker(void* opts, const char* name, size_t n, uint64_t* count);
// bk_map_property returns a malloc'ed buffer of *n bytes that the caller frees: "name=value" and a newline for each
// entry of a property that is a map. NULL when RocksDB does not know the property.
char* bk_map_property(void* db, void* cf, const char* name, size_t nl, size_t* n);
int bk_set_db_option(void* db, const char* key, const char* value, char** err);
int bk_set_cf_option(void* db, void* cf, const char* key, const char* value, char** err);
int bk_resume(void* db, char** err);
// bk_compact_range compacts [start, stop]; a bound of length 0 is none. It may change the level of files, and rewrites
// bottommost files once (force-optimized).
int bk_compact_range(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el, char** err);
// bk_compact_files compacts table files, given by their names separated by newlines, together with the overlapping
// files of the given level, into files of about file_size bytes in that level. It returns 1; 0 if a file is gone or is
// being compacted; -1 on an error.
int bk_compact_files(void* db, void* cf, const char* names, size_t n, int level, uint64_t file_size, char** err);
// bk_create_families creates n column families, whose numbers count up, and writes the OPTIONS file once. The options
// are rocksdb_options_t. The caller owns the n handles and frees them with rocksdb_column_family_handle_destroy. After
// an error there are none, and some of the families may exist.
void bk_create_families(void* db, int n, char** names, void** options, void** handles, char** err);

// bk_cancel_compactions cancels running calls of bk_compact_range, waits for their end, and makes later calls fail.
void bk_cancel_compactions(void* db);
// Ends flushes and compactions, and lets no more begin; the database can only be closed then.
void bk_cancel_background(void* db);
// bk_table_properties returns a malloc'ed buffer of *n bytes, which the caller frees with free(). For each file it
// holds: u32 length and bytes of the file name; u64 file_creation_time; u64 bytes of keys and values; u32 level; then
// for total_keys, deleted_keys, start_key, stop_key and basalt.expiries each u32 length (0xffffffff = absent) and
// bytes. All integers are little-endian. NULL on an error.
char* bk_table_properties(void* db, void* cf, size_t* n, char** err);

// bk_stored stores in out how many entries a column family stores: puts and deletes in files and memtables, range
// deletes in files, and puts in files of the lowest level that has any (0 if only level 0 has). It reads the properties
// of the files, but no data. It returns 0 on an error.
int bk_stored(void* db, void* cf, uint64_t out[4], char** err);

// bk_deletes_at returns how many deletes and range deletes, of whatever keys, the files hold whose ranges of keys
// contain the key. It reads the properties of these files, but no data. It returns 0 and sets err on an error.
uint64_t bk_deletes_at(void* db, void* cf, const char* key, size_t n, char** err);

// bk_approximate_size returns RocksDB's estimate of how many bytes [start, stop) occupies in files and memtables; 0 on
// an error.
uint64_t bk_approximate_size(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el);

// bk_approximate_parts stores in sizes an estimate of how many bytes each of n adjacent ranges occupies. Range i begins
// at head · at[i] and ends where the next one begins; the last one ends at head · at[n], or if at[n] is 256, at end,
// which must come after all keys that begin with head. It returns 0 on an error.
int bk_approximate_parts(void* db, void* cf, const char* head, size_t hl, const char* end, size_t el,
                         const uint16_t* at, int n, uint64_t* sizes);

// bk_verify_table opens a table file of any family, without a cache. If whole is not 0, it reads the whole file and
// verifies the checksums of its blocks. It returns 1; 0 with an error.
int bk_verify_table(const char* path, size_t n, int whole, char** err);

// bk_perf_start resets and enables RocksDB's perf context and I/O statistics of the calling thread, with all times
// except those of mutexes. bk_perf_stop disables them and returns both as text, without zero counters, in malloc'ed
// strings that the caller frees with free().
void bk_perf_start(void);
void bk_perf_stop(char** perf, char** io);

// Table files made outside a database -------------------------------------------------------------------------

typedef struct bk_sst bk_sst;

// bk_sst_open starts a table file with the family's options at path. The caller owns the result and frees it with
// bk_sst_close; NULL on an error. The database must stay open until then.
bk_sst* bk_sst_open(void* db, void* cf, const char* path, char** err);
// bk_sst_add adds n records in ascending order of their keys. at holds the offsets of the records in arena. A record is
// u32 key length · u32 value length · key · value, in the byte order of the host. It returns 0 on an error.
int bk_sst_add(bk_sst* w, const char* arena, const uint64_t* at, size_t n, char** err);
// bk_sst_finish completes the file. It returns 0 on an error.
int bk_sst_finish(bk_sst* w, char** err);
// bk_sst_close frees w. An unfinished file remains and is useless.
void bk_sst_close(bk_sst* w);
// bk_sst_check reads the whole table file at path and checks its checksums, and that its comparator is that of the
// family. It returns 0 on an error.
int bk_sst_check(void* db, void* cf, const char* path, char** err);
// bk_ingest moves n files into the database, or copies them, either all or none. path and cf have n elements: each file
// and its family.
int bk_ingest(void* db, int n, void** cf, char** path, int move, char** err);

#ifdef __cplusplus
}
#endif
