package rocks

// #include <stdlib.h>
// #include "shim/shim.h"
import "C"

import (
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// FamilyKind says what a column family holds. It determines the compaction filter and the table options.
type FamilyKind int

// The kinds of families.
const (
	Unknown   FamilyKind = 0 // a family of a newer version: preserved, no compaction filter
	Meta      FamilyKind = C.BK_FILTER_METADATA
	Subkeys   FamilyKind = C.BK_FILTER_SUBKEY
	PubSub    FamilyKind = C.BK_FILTER_PUBSUB
	Propagate FamilyKind = C.BK_FILTER_PROPAGATE
	Search    FamilyKind = C.BK_FILTER_SEARCH
	Index     FamilyKind = C.BK_FILTER_INDEX
)

// FamilySpec describes a known family.
type FamilySpec struct {
	Name       string
	Kind       FamilyKind
	ScoreOrder bool // use the C++ implementation of the zset_score order instead of RocksDB's bytewise comparator
}

// Options are the options of a database, in RocksDB's terms and units.
type Options struct {
	Families []FamilySpec
	Slots    bool // keys carry the cluster slot
	// ReadOnly opens an existing database, whose given families all exist. Writes fail. The content of the logs is read
	// into memory. RocksDB may still touch the logs and write its own LOG file: see engine.OpenReadOnly.
	ReadOnly bool

	BlockCacheSize              int // bytes, shared by the data families
	HyperClockCache             bool
	BlockSize                   int // bytes; 0 = by family, see blockSize
	CacheIndexAndFilterBlocks   bool
	RowCacheSize                int  // bytes, 0 = none
	WriteBufferSize             int  // bytes
	SkipListMemtable            bool // use RocksDB's own memtable instead of the B+-tree of memtable_tree.h
	MaxWriteBufferNumber        int
	MinWriteBufferNumberToMerge int // 0 = 1; see common
	TargetFileSizeBase          int // bytes
	MaxOpenFiles                int
	MaxBackgroundCompactions    int
	MaxBackgroundFlushes        int
	MaxBackgroundJobs           int
	MaxSubcompactions           int
	Compression                 string // no, snappy, zlib, lz4, zstd
	CompressionLevel            int    // 32767 = the library's default
	CompressionStartLevel       int
	CompressionMaxDictBytes     int // max bytes of a compression dictionary in a file, 0 = none
	// max bytes of samples from which zstd trains a dictionary, 0 = the samples are the dictionary
	CompressionZstdMaxTrainBytes   int
	DelayedWriteRate               int64 // bytes a second, 0 = default
	WALCompression                 bool  // zstd
	WALTTLSeconds                  int
	WALSizeLimitMB                 int
	MaxTotalWALSize                int // bytes
	DisableAutoCompactions         bool
	EnablePipelinedWrite           bool
	StatsDumpPeriodSec             int
	CompactionReadaheadSize        int // bytes
	Level0SlowdownWritesTrigger    int
	Level0StopWritesTrigger        int
	Level0FileNumCompactionTrigger int
	EnableBlobFiles                bool
	MinBlobSize                    int // bytes
	BlobFileSize                   int // bytes
	EnableBlobGarbageCollection    bool
	BlobGarbageCollectionAgeCutoff float64 // 0..1
	MaxBytesForLevelBase           int     // bytes
	MaxBytesForLevelMultiplier     int
	MaxCompactionBytes             int64 // 0 = 25 times TargetFileSizeBase
	// age in seconds from which a file is compacted towards the last level; 0 = never, see Auto
	TTL int64
	// age in seconds from which a file is compacted within its level; 0 = never, see Auto
	PeriodicCompactionSeconds   int64
	LevelCompactionDynamicLevel bool
	RateLimitBytes              int64 // max bytes a second of background writes
	RateLimiterAutoTuned        bool
	NoPartitionedFilters        bool // one filter block for each file
	BlobCache                   bool // cache blobs in the block cache
	CountLookups                bool // count the look-ups of each family in the block cache
	DirectReads                 bool // reads bypass the page cache
	DirectWrites                bool // flushes and compactions bypass the page cache
	AvoidUnnecessaryBlockingIO  bool
	SkipDamagedLogs             bool // read past damage in the write-ahead log; otherwise only up to the first damage

	// Verdict decides what a compaction does with a record: [Keep], [Drop], [DropIfZero], [DropIfExpired] or
	// [CheckSeries]. In a family of kind Subkeys it is called once for each prefix (up to and including the version),
	// and key is that prefix; in the other families it is called for each record. It runs on RocksDB's threads; key and
	// value are valid only during the call. For kind Subkeys, end is the expiry of the collection in milliseconds since
	// the epoch, 0 = never. With DropIfExpired, fields that expired before the time before are dropped. With
	// CheckSeries, chunks whose last sample is older than before are dropped, and it is called again for each rule,
	// with the whole key.
	Verdict func(kind FamilyKind, key, value []byte) (verdict int, end, before uint64)
	// Event is called with RocksDB's events. It runs on RocksDB's threads and must not block.
	Event func(Event)
}

// Auto as an age of files means RocksDB's default: 30 days.
const Auto = -2

// Verdicts of a compaction filter.
const (
	Keep          = 0
	Drop          = 1
	DropIfZero    = 2 // drop the record if all bytes of its value are zero
	DropIfExpired = 3 // drop the record if its value begins with an expiry in the past: compaction.CheckField
	CheckSeries   = 4 // it is a part of a time series: see compaction.CheckSeries
)

// arenaBlock is the block size in bytes of the arenas of large skip-list memtables.
const arenaBlock = 4 << 20

const collectorTrigger = 0.3 // ratio of deleted entries above which RocksDB marks a file for compaction

func compressionType(name string) grocksdb.CompressionType {
	switch name {
	case "snappy":
		return grocksdb.SnappyCompression
	case "zlib":
		return grocksdb.ZLibCompression
	case "lz4":
		return grocksdb.LZ4Compression
	case "zstd":
		return grocksdb.ZSTDCompression
	}
	return grocksdb.NoCompression
}

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (d *DB) freeCache() {
	if d.cache != nil {
		C.bk_cache_free(d.cache)
		d.cache = nil
		live.Add(-1)
	}
}

// common sets the options that the database and all families share.
func (o *Options) common() *grocksdb.Options {
	g := grocksdb.NewDefaultOptions()
	g.SetCreateIfMissing(true)
	g.SetCreateIfMissingColumnFamilies(true)
	g.SetNumLevels(7)
	g.SetWriteBufferSize(uint64(o.WriteBufferSize))
	g.SetMaxWriteBufferNumber(o.MaxWriteBufferNumber)
	if !o.SkipListMemtable {
		C.bk_options_set_tree_memtable(raw(g))
	} else if o.WriteBufferSize >= 8*arenaBlock {
		g.SetArenaBlockSize(arenaBlock)
	}
	// Kvrocks 2.10 merges two memtables in a flush. With more than one, RocksDB 7.8.3 can lose a flush request (its
	// issues 12094, 12166 and 13280, open as of 9.7): a job decides how much it flushes, releases the mutex to sync
	// older logs, and then clears the request even if another memtable was added meanwhile. The number of waiting
	// memtables then stays below the number to merge, so nothing flushes them, and Flush, Checkpoint or CompactRange
	// waits for ever. The job may be RocksDB's own, so a lock of this program would not help. With 1, any waiting
	// memtable causes a flush and the request does not matter.
	g.SetMinWriteBufferNumberToMerge(max(1, o.MinWriteBufferNumberToMerge))
	g.SetTargetFileSizeBase(uint64(o.TargetFileSizeBase))
	levels := make([]grocksdb.CompressionType, 7)
	for i := range levels {
		if i >= o.CompressionStartLevel {
			levels[i] = compressionType(o.Compression)
		} else {
			levels[i] = grocksdb.NoCompression
		}
	}
	g.SetCompressionPerLevel(levels)
	co := grocksdb.NewDefaultCompressionOptions()
	co.Level = o.CompressionLevel
	co.MaxDictBytes = o.CompressionMaxDictBytes
	g.SetCompressionOptions(co)
	g.SetCompressionOptionsZstdMaxTrainBytes(o.CompressionZstdMaxTrainBytes)
	g.SetDisableAutoCompactions(o.DisableAutoCompactions)
	g.SetLevel0SlowdownWritesTrigger(o.Level0SlowdownWritesTrigger)
	g.SetLevel0StopWritesTrigger(o.Level0StopWritesTrigger)
	g.SetLevel0FileNumCompactionTrigger(o.Level0FileNumCompactionTrigger)
	g.SetMaxBytesForLevelBase(uint64(o.MaxBytesForLevelBase))
	g.SetMaxBytesForLevelMultiplier(float64(o.MaxBytesForLevelMultiplier))
	g.SetLevelCompactionDynamicLevelBytes(o.LevelCompactionDynamicLevel)
	g.SetMaxCompactionBytes(uint64(o.MaxCompactionBytes))
	C.bk_options_set_ages(raw(g), C.uint64_t(o.TTL), C.uint64_t(o.PeriodicCompactionSeconds))
	g.EnableBlobFiles(o.EnableBlobFiles)
	g.SetMinBlobSize(uint64(o.MinBlobSize))
	g.SetBlobFileSize(uint64(o.BlobFileSize))
	g.EnableBlobGC(o.EnableBlobGarbageCollection)
	g.SetBlobGCAgeCutoff(o.BlobGarbageCollectionAgeCutoff)
	return g
}

// blockSize returns the uncompressed size in bytes of a block of a family.
//
// Reading a record from disk reads a block. Neighbours of a metadata record, which may be a whole string, are rarely
// read: with values of 1,000 bytes a GET read 17 KB from disk with blocks of 16 KiB, and 7.4 KB with 4 KiB. The other
// families are read in ranges, where each block costs an index look-up.
func (o *Options) blockSize(kind FamilyKind) int {
	switch {
	case o.BlockSize > 0:
		return o.BlockSize
	case kind == Meta:
		return 4 << 10
	default:
		return 16 << 10
	}
}

// maxInfoLog is the size in bytes at which RocksDB starts a new info log file.
const maxInfoLog = 256 << 20

// dbOptions returns the database-wide options for a database in dir. The caller must destroy them.
func (o *Options) dbOptions(dir string, handle uintptr) *grocksdb.Options {
	g := o.common()
	g.EnableStatistics()
	g.SetMaxOpenFiles(o.MaxOpenFiles)
	//lint:ignore SA1019 Kvrocks still has the setting
	g.SetMaxBackgroundCompactions(o.MaxBackgroundCompactions)
	//lint:ignore SA1019 Kvrocks still has the setting
	g.SetMaxBackgroundFlushes(o.MaxBackgroundFlushes)
	g.SetMaxBackgroundJobs(o.MaxBackgroundJobs)
	g.SetWALTtlSeconds(uint64(o.WALTTLSeconds))
	g.SetWalSizeLimitMb(uint64(o.WALSizeLimitMB))
	g.SetMaxTotalWalSize(uint64(o.MaxTotalWALSize))
	g.SetEnablePipelinedWrite(o.EnablePipelinedWrite)
	g.SetStatsDumpPeriodSec(uint(o.StatsDumpPeriodSec))
	g.CompactionReadaheadSize(uint64(o.CompactionReadaheadSize))
	g.SetUseDirectReads(o.DirectReads)
	g.SetUseDirectIOForFlushAndCompaction(o.DirectWrites)
	g.SetMaxManifestFileSize(64 << 20)
	g.SetKeepLogFileNum(12)
	p := raw(g)
	C.bk_options_set_misc(p, cbool(o.AvoidUnnecessaryBlockingIO), cbool(o.WALCompression),
		C.uint32_t(max(1, o.MaxSubcompactions)), C.int64_t(o.DelayedWriteRate))
	C.bk_options_set_rate_limiter(p, C.int64_t(o.RateLimitBytes), cbool(o.RateLimiterAutoTuned))
	if o.RowCacheSize > 0 {
		C.bk_options_set_row_cache(p, C.size_t(o.RowCacheSize))
	}
	C.bk_options_add_listener(p, C.uintptr_t(handle))
	cdir := C.CString(dir)
	defer C.free(unsafe.Pointer(cdir))
	C.bk_options_set_info_log(p, cdir, maxInfoLog, C.uintptr_t(handle))
	// The logs were checked before: point-in-time recovery only omits an incomplete tail.
	g.SetWALRecoveryMode(grocksdb.PointInTimeRecovery)
	if o.SkipDamagedLogs {
		g.SetWALRecoveryMode(grocksdb.SkipAnyCorruptedRecordsRecovery)
	}
	return g
}

// familyOptions returns the options of one family. The caller must destroy them.
func (o *Options) familyOptions(name string, cache *C.bk_cache, handle uintptr) *grocksdb.Options {
	g := o.common()
	p := raw(g)
	var spec FamilySpec
	for _, s := range o.Families {
		if s.Name == name {
			spec = s
		}
	}
	data := spec.Kind == Meta || spec.Kind == Subkeys
	if !data && spec.Kind != Index {
		cache = nil
	}
	C.bk_options_set_table(p, cache, C.size_t(o.blockSize(spec.Kind)), cbool(o.CacheIndexAndFilterBlocks),
		cbool(!o.NoPartitionedFilters), cbool(o.CountLookups))
	if cache != nil && o.BlobCache {
		C.bk_options_set_blob_cache(p, cache)
	}
	if data {
		C.bk_options_add_collector(p, cbool(spec.Kind == Meta), collectorTrigger)
	}
	if spec.Kind == Meta {
		// A file of level 0 holds two write buffers in Kvrocks, and one here. With the same number of files,
		// compactions would start with half as much data and write a quarter more in total. Families that are read in
		// ranges keep the smaller number, because a range read looks into every file of level 0.
		g.SetLevel0FileNumCompactionTrigger(2 * o.Level0FileNumCompactionTrigger)
		g.SetLevel0SlowdownWritesTrigger(2 * o.Level0SlowdownWritesTrigger)
		g.SetLevel0StopWritesTrigger(2 * o.Level0StopWritesTrigger)
	}
	if spec.Kind == Meta || name == "default" {
		// With 2 % of the write buffer, even entries of 100 bytes with a prefix each have 8 bits a filtered key. The 10 %
		// of Kvrocks do not fit into the CPU's caches: SET and INCR in pipelines took 3 to 10 % more CPU time.
		g.SetMemtableWholeKeyFiltering(true)
		g.SetMemTablePrefixBloomSizeRatio(0.02)
	}
	if spec.ScoreOrder {
		C.bk_options_set_comparator(p)
	}
	if spec.Kind != Unknown {
		C.bk_options_set_filter(p, C.uintptr_t(handle), C.int(spec.Kind), cbool(o.Slots))
	}
	if spec.Kind == Subkeys {
		C.bk_options_set_prefix(p, cbool(o.Slots))
	}
	return g
}
