// Package options translates the configuration into the options of the packages that a server is made of.
package options

import (
	"cmp"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/memplan"
)

// MiB is the unit of settings in MiB.
const MiB = 1 << 20

// unlimitedIO is RocksDB's write rate in MB/s when max-io-mb is 0, as Kvrocks sets it: it never limits.
const unlimitedIO = 1024000

// firstRecordCache is the max initial size in bytes of the cache of records. Writes fill it even if no one reads the
// records.
const firstRecordCache = 64 << 20

// Engine translates the settings into the options of the storage engine. The record caches take a share of the
// block cache's memory.
func Engine(cfg *config.Config, mem memplan.Plan, log *zap.Logger) engine.Options {
	cache := int(mem.BlockCache)
	records := min(firstRecordCache, cache/8)
	known := cache / 128
	num := func(name string) int { return int(cfg.Int(name)) }
	stop := num("rocksdb.level0_stop_writes_trigger")
	_, _, isReplica := cfg.Master()
	_, openTables := OpenFiles(cfg)
	return engine.Options{
		Dir:              cfg.DBDir(),
		Slots:            cfg.Bool("cluster-enabled"),
		Replica:          isReplica,
		Logger:           log,
		Force:            engine.ParseForce(cfg.Text("force-recovery")),
		Sync:             cfg.Bool("rocksdb.write_options.sync"),
		DisableWAL:       cfg.Bool("rocksdb.write_options.disable_wal"),
		NoSlowdown:       cfg.Bool("rocksdb.write_options.no_slowdown"),
		LowPri:           cfg.Bool("rocksdb.write_options.low_pri"),
		InsertHint:       cfg.Bool("rocksdb.write_options.memtable_insert_hint_per_batch"),
		MaxBatchBytes:    MaxBatch(cfg, mem),
		MaxResultBytes:   mem.GoLimit() / 2,
		AsyncIO:          cfg.Bool(AsyncIO),
		BytewiseScores:   cfg.Text("rocksdb.zset_score_comparator") == "bytewise",
		RedisBitOrder:    true,
		RecordCache:      records,
		RecordCacheMax:   cache / 2,
		PresenceCacheMax: known,
		DerivedState:     int64(mem.Derived),
		Rocks: &engine.RocksOptions{
			BlockCacheSize:                 cache - records - known,
			HyperClockCache:                cfg.Text("rocksdb.block_cache_type") == "hcc",
			BlockSize:                      num("rocksdb.block_size"),
			CacheIndexAndFilterBlocks:      cfg.Bool("rocksdb.cache_index_and_filter_blocks"),
			RowCacheSize:                   int(mem.RowCache),
			WriteBufferSize:                int(mem.WriteBuffer),
			SkipListMemtable:               cfg.Text("rocksdb.memtable") == "skiplist",
			MaxWriteBufferNumber:           num("rocksdb.max_write_buffer_number"),
			MinWriteBufferNumberToMerge:    num("rocksdb.min_write_buffer_number_to_merge"),
			TargetFileSizeBase:             num("rocksdb.target_file_size_base") * MiB,
			MaxOpenFiles:                   min(num("rocksdb.max_open_files"), int(openTables)), // -1 = all
			MaxBackgroundCompactions:       num("rocksdb.max_background_compactions"),
			MaxBackgroundFlushes:           num("rocksdb.max_background_flushes"),
			MaxBackgroundJobs:              num("rocksdb.max_background_jobs"),
			MaxSubcompactions:              num("rocksdb.max_subcompactions"),
			Compression:                    cfg.Text("rocksdb.compression"),
			CompressionLevel:               num("rocksdb.compression_level"),
			CompressionStartLevel:          num("rocksdb.compression_start_level"),
			CompressionMaxDictBytes:        num("rocksdb.compression_max_dict_bytes"),
			CompressionZstdMaxTrainBytes:   num("rocksdb.compression_zstd_max_train_bytes"),
			DelayedWriteRate:               int64(num("rocksdb.delayed_write_rate")),
			WALCompression:                 cfg.Text("rocksdb.wal_compression") == "zstd",
			WALTTLSeconds:                  num("rocksdb.wal_ttl_seconds"),
			WALSizeLimitMB:                 num("rocksdb.wal_size_limit_mb"),
			MaxTotalWALSize:                num("rocksdb.max_total_wal_size") * MiB,
			DisableAutoCompactions:         cfg.Bool("rocksdb.disable_auto_compactions"),
			EnablePipelinedWrite:           cfg.Bool("rocksdb.enable_pipelined_write"),
			StatsDumpPeriodSec:             num("rocksdb.stats_dump_period_sec"),
			CompactionReadaheadSize:        num("rocksdb.compaction_readahead_size"),
			Level0SlowdownWritesTrigger:    cmp.Or(num("rocksdb.level0_slowdown_writes_trigger"), stop),
			Level0StopWritesTrigger:        stop,
			Level0FileNumCompactionTrigger: num("rocksdb.level0_file_num_compaction_trigger"),
			EnableBlobFiles:                cfg.Bool("rocksdb.enable_blob_files"),
			MinBlobSize:                    num("rocksdb.min_blob_size"),
			BlobFileSize:                   num("rocksdb.blob_file_size"),
			EnableBlobGarbageCollection:    cfg.Bool("rocksdb.enable_blob_garbage_collection"),
			BlobGarbageCollectionAgeCutoff: float64(num("rocksdb.blob_garbage_collection_age_cutoff")) / 100,
			MaxBytesForLevelBase:           num("rocksdb.max_bytes_for_level_base"),
			MaxBytesForLevelMultiplier:     num("rocksdb.max_bytes_for_level_multiplier"),
			MaxCompactionBytes:             cfg.Int("rocksdb.max_compaction_bytes"),
			TTL:                            cfg.Int("rocksdb.ttl"),
			PeriodicCompactionSeconds:      cfg.Int("rocksdb.periodic_compaction_seconds"),
			NoPartitionedFilters:           !cfg.Bool("rocksdb.partition_filters"),
			BlobCache:                      cfg.Bool("enable-blob-cache"),
			CountLookups:                   cfg.Bool("admin-cache-by-family"),
			DirectReads:                    cfg.Bool("rocksdb.use_direct_reads"),
			DirectWrites:                   cfg.Bool("rocksdb.use_direct_io_for_flush_and_compaction"),
			LevelCompactionDynamicLevel:    cfg.Bool("rocksdb.level_compaction_dynamic_level_bytes"),
			RateLimitBytes:                 WriteRate(cfg),
			RateLimiterAutoTuned:           cfg.Bool("rocksdb.rate_limiter_auto_tuned"),
			AvoidUnnecessaryBlockingIO:     cfg.Bool("rocksdb.avoid_unnecessary_blocking_io"),
		},
	}
}

// MaxBatch returns how many bytes a write batch may have: what is set, or what the memory permits.
func MaxBatch(cfg *config.Config, mem memplan.Plan) int64 {
	return cmp.Or(cfg.Int(MaxBatchBytes), mem.Batch())
}

// Settings of the engine that can change at run time and are not options of RocksDB.
const (
	MaxBatchBytes = "rocksdb.write_options.write_batch_max_bytes"
	AsyncIO       = "rocksdb.read_options.async_io"
)

// WriteRate returns the max rate of flushes and compactions in bytes a second.
func WriteRate(cfg *config.Config) int64 {
	if n := cfg.Int("max-io-mb"); n > 0 {
		return n * MiB
	}
	return unlimitedIO * MiB
}
