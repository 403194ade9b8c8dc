package config

import "math"

var compressionNames = []string{"no", "snappy", "lz4", "zstd", "zlib"}

// rocksdbGroups are the keys of RocksDB's options, with the defaults of the kvrocks.conf that Kvrocks 2.10 ships,
// except for the sizes of the block cache and of the write buffers: 0, their default, takes what [PlanMemory]
// finds. subkey_ and metadata_block_cache_size, which Kvrocks adds up when block_cache_size is 0, are 0 for the same
// reason.
var rocksdbGroups = []group{
	{"[rocksdb]", []Setting{
		integer("rocksdb.block_cache_size", 0, 0, maxInt, fixed, "MiB of the block cache and the caches of records; 0 = what memory-budget-mb leaves."),
		enum("rocksdb.block_cache_type", "lru", []string{"lru", "hcc"}, fixed, "Block cache: lru, or hcc (hyper clock cache)."),
		integer("rocksdb.subkey_block_cache_size", 0, 0, maxInt, fixed, "MiB added to an unset block_cache_size; deprecated."),
		integer("rocksdb.metadata_block_cache_size", 0, 0, maxInt, fixed, "MiB added to an unset block_cache_size; deprecated."),
		boolean("rocksdb.share_metadata_and_subkey_block_cache", "yes", fixed, "One block cache for all families.").
			inert("there is one in any case"),
		integer("rocksdb.row_cache_size", 0, 0, maxInt, fixed, "MiB of the row cache; 0 = none."),
		boolean("rocksdb.partition_filters", "yes", fixed,
			"Filters are in parts, of which the needed ones are read; else each file has one block."),
		boolean("rocksdb.use_direct_reads", "no", fixed, "Read table files past the page cache of the system."),
		boolean("rocksdb.use_direct_io_for_flush_and_compaction", "no", fixed,
			"Flushes and compactions read and write past the page cache of the system."),
		boolean("rocksdb.cache_index_and_filter_blocks", "yes", fixed, "Index and filter blocks are in the block cache and not beside it."),
		size("rocksdb.block_size", 0, 0, maxInt, fixed, "Bytes of a block before compression; 0 = 4096 for keys and strings, 16384 for the elements of collections."),
		integer("rocksdb.max_open_files", 8096, -1, maxInt, dynamic, "Files that RocksDB holds open; -1 = all."),
		integer("rocksdb.write_buffer_size", 0, 0, 4096, dynamic, "MiB of one write buffer of one column family; 0 = from memory-budget-mb, at most 64."),
		integer("rocksdb.max_write_buffer_number", 4, 0, 256, dynamic, "Write buffers of one column family."),
		integer("rocksdb.min_write_buffer_number_to_merge", 1, 1, 256, fixed,
			"Write buffers that one flush merges; with more than 1 RocksDB 7.8 can wait for a flush for ever."),
		integer("rocksdb.target_file_size_base", 128, 1, 1024, dynamic, "MiB of a table file."),
		integer("rocksdb.max_background_jobs", 4, 0, 32, dynamic, "Flushes and compactions at one time."),
		integer("rocksdb.max_background_compactions", -1, -1, 32, dynamic, "Compactions at one time; -1 = from max_background_jobs."),
		integer("rocksdb.max_background_flushes", -1, -1, 32, fixed, "Flushes at one time; -1 = from max_background_jobs."),
		integer("rocksdb.max_subcompactions", 2, 0, 16, dynamic, "Threads of one compaction."),
		boolean("rocksdb.disable_auto_compactions", "no", dynamic, "No compaction unless asked for."),
		size("rocksdb.compaction_readahead_size", 2<<20, 0, 64<<20, dynamic, "Bytes that a compaction reads ahead."),
		enum("rocksdb.compression", "snappy", compressionNames, dynamic, "Compression of table files: no, snappy, lz4, zstd, zlib."),
		integer("rocksdb.compression_level", 32767, math.MinInt32, maxInt, fixed, "Level of the compression; 32767 = the library's default."),
		integer("rocksdb.compression_start_level", 2, 0, 6, dynamic, "First level of the tree that is compressed."),
		size("rocksdb.compression_max_dict_bytes", 0, 0, maxInt, fixed, "Bytes of a compression dictionary, one a table file; 0 = none."),
		size("rocksdb.compression_zstd_max_train_bytes", 0, 0, maxInt, fixed, "Bytes of samples from which zstd trains the dictionary; 0 = the dictionary is samples."),
		enum("rocksdb.wal_compression", "no", []string{"no", "zstd"}, fixed, "Compression of the write-ahead log: no, zstd."),
		integer("rocksdb.wal_ttl_seconds", 3*3600, 0, maxInt, fixed, "Seconds that old write-ahead logs are kept for replicas."),
		integer("rocksdb.wal_size_limit_mb", 16384, 0, maxInt, fixed, "MiB of old write-ahead logs that are kept."),
		integer("rocksdb.max_total_wal_size", 512, 0, maxInt, dynamic, "MiB of live write-ahead logs at which write buffers are flushed."),
		size("rocksdb.delayed_write_rate", 0, 0, math.MaxInt64, dynamic, "Bytes a second of writes while compaction lags; 0 = RocksDB's default."),
		boolean("rocksdb.enable_pipelined_write", "no", fixed, "Write the log and the write buffers in a pipeline."),
		integer("rocksdb.level0_file_num_compaction_trigger", 4, 1, 1024, dynamic, "Files in level 0 that start a compaction; at the start twice as many for keys and strings."),
		integer("rocksdb.level0_slowdown_writes_trigger", 20, 1, 1024, dynamic, "Files in level 0 that slow writes down."),
		integer("rocksdb.level0_stop_writes_trigger", 40, 1, 1024, dynamic, "Files in level 0 that stop writes."),
		boolean("rocksdb.level_compaction_dynamic_level_bytes", "yes", dynamic, "Size the levels from the last one upwards; RocksDB refuses a change at run time."),
		size("rocksdb.max_bytes_for_level_base", 256<<20, 0, maxInt, dynamic, "Bytes of level 1; needs level_compaction_dynamic_level_bytes to be changed at run time."),
		integer("rocksdb.max_bytes_for_level_multiplier", 10, 1, 100, dynamic, "Size of a level in the one above; needs the same."),
		size("rocksdb.max_compaction_bytes", 0, 0, math.MaxInt64, dynamic,
			"Bytes that one compaction may read and write; 0 = 25 times target_file_size_base."),
		age("rocksdb.ttl", "Seconds after which a file is compacted towards the last level"),
		age("rocksdb.periodic_compaction_seconds", "Seconds after which a file is compacted where it is"),
		boolean("rocksdb.enable_blob_files", "no", dynamic, "Keep big values in blob files."),
		size("rocksdb.min_blob_size", 4096, 0, maxInt, dynamic, "Bytes from which a value goes to a blob file."),
		size("rocksdb.blob_file_size", 256<<20, 0, maxInt, dynamic, "Bytes of a blob file."),
		boolean("rocksdb.enable_blob_garbage_collection", "yes", dynamic, "Compactions reclaim blob files."),
		integer("rocksdb.blob_garbage_collection_age_cutoff", 25, 0, 100, dynamic, "Percentage of the oldest blob files that are reclaimed."),
		boolean("rocksdb.rate_limiter_auto_tuned", "yes", fixed, "Adapt the rate of flushes and compactions below max-io-mb to the demand."),
		boolean("rocksdb.avoid_unnecessary_blocking_io", "yes", fixed, "Delete files in the background."),
		size("rocksdb.sst_file_delete_rate_bytes_per_sec", 0, 0, math.MaxInt64, dynamic,
			"Bytes a second of table files that are deleted; 0 = no limit.").inert("files are deleted at once"),
		text("rocksdb.daily_offpeak_time_utc", "", dynamic, "Hours for periodic compactions, \"HH:MM-HH:MM\".").
			inert("RocksDB 7.8 has no such option"),
		boolean("rocksdb.dump_malloc_stats", "yes", fixed, "Statistics of jemalloc in RocksDB's log.").
			inert("the allocator is libc's"),
		integer("rocksdb.stats_dump_period_sec", 0, 0, maxInt, dynamic, "Seconds between statistics in RocksDB's own log; 0 = none."),
		enum("rocksdb.zset_score_comparator", "native", []string{"native", "bytewise"}, fixed, "Order of sorted sets: native comparator, or RocksDB's bytewise one; both order alike."),
		enum("rocksdb.memtable", "tree", []string{"tree", "skiplist"}, fixed, "What new writes are kept in: basalt's B+-tree, or RocksDB's skip list, which takes random keys three times as long."),
	}},
	{"[rocksdb.write_options]", []Setting{
		boolean("rocksdb.write_options.sync", "no", fixed, "Sync the write-ahead log to disk before a write is answered."),
		boolean("rocksdb.write_options.disable_wal", "no", fixed, "Write no log: a crash loses data and replicas cannot follow."),
		boolean("rocksdb.write_options.no_slowdown", "no", fixed, "Fail a write instead of delaying it while compaction lags."),
		boolean("rocksdb.write_options.low_pri", "no", fixed, "Writes yield to compactions that lag."),
		boolean("rocksdb.write_options.memtable_insert_hint_per_batch", "no", fixed, "Remember insert positions within a batch."),
		size("rocksdb.write_options.write_batch_max_bytes", 0, 0, maxInt, dynamic, "Bytes of the largest write batch; 0 = no limit."),
	}},
	{"[rocksdb.read_options]", []Setting{
		boolean("rocksdb.read_options.async_io", "yes", dynamic, "Iterators prefetch asynchronously."),
	}},
}
