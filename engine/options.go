package engine

import (
	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/rocks"
)

// RocksOptions are the options in RocksDB's own terms and units.
type RocksOptions = rocks.Options

// Options are the options of [Open]. The zero value of each field is a usable default.
type Options struct {
	Dir    string // the RocksDB directory (<dir>/db of a Kvrocks data directory)
	Slots  bool   // keys carry the cluster slot: part of the format of a database, but not recorded in it
	Logger *zap.Logger

	// Replica: the database is opened as that of a replica, see [DB.SetReplica].
	Replica bool

	Force Force // what to do when the write-ahead log lacks writes

	Sync       bool // fsync the WAL with every commit
	DisableWAL bool
	NoSlowdown bool
	LowPri     bool
	InsertHint bool

	// RecordCache is the initial size in bytes of the cache of records; 0 = 16 MiB, negative = none.
	RecordCache int
	// RecordCacheMax is the size up to which that cache grows, when more is read than it holds; the block cache shrinks
	// by as much. 0 = it does not grow.
	RecordCacheMax int
	// PresenceCacheMax is the max size in bytes of the presence cache: keys that a SET need not read, 8 bytes a key.
	PresenceCacheMax int
	// DerivedState is the max number of bytes of derived state that is kept; 0 = 16 MiB, negative = none.
	DerivedState int64

	MaxBatchBytes int64 // a bigger write batch fails; 0 = no limit
	// MaxResultBytes is the max size in bytes of a result that is made in memory, such as one that is sorted; 0 = no
	// limit.
	MaxResultBytes int64
	AsyncIO        bool // iterators prefetch asynchronously
	// BytewiseScores gives the zset_score family RocksDB's built-in comparator instead of the native twin of
	// cf.CompareZSetScore. Both have the same order and the same name, so the option may be changed at any time.
	BytewiseScores bool
	ReplicationID  string // see [DB.SetReplicationID]
	// RedisBitOrder makes the first write to an empty database mark it as one whose bitmaps BITFIELD reads and writes
	// in Redis's order of bits; see [Tx.RedisBitOrder].
	RedisBitOrder bool

	Rocks *RocksOptions // nil = DefaultRocksOptions
}

// DefaultRocksOptions are Kvrocks's options for a small memory: for tests, and for library users without requirements.
func DefaultRocksOptions() *RocksOptions {
	return &RocksOptions{
		BlockCacheSize: 64 << 20, CacheIndexAndFilterBlocks: true,
		WriteBufferSize: 16 << 20, MaxWriteBufferNumber: 4, TargetFileSizeBase: 128 << 20, MaxOpenFiles: 8096,
		MaxBackgroundCompactions: -1, MaxBackgroundFlushes: -1, MaxBackgroundJobs: 4, MaxSubcompactions: 2,
		Compression: "snappy", CompressionLevel: 32767, CompressionStartLevel: 2,
		WALTTLSeconds: 10800, WALSizeLimitMB: 16384, MaxTotalWALSize: 512 << 20,
		CompactionReadaheadSize:     2 << 20,
		Level0SlowdownWritesTrigger: 20, Level0StopWritesTrigger: 40, Level0FileNumCompactionTrigger: 4,
		MinBlobSize: 4096, BlobFileSize: 256 << 20, EnableBlobGarbageCollection: true, BlobGarbageCollectionAgeCutoff: 0.25,
		TTL: rocks.Auto, PeriodicCompactionSeconds: rocks.Auto,
		MaxBytesForLevelBase: 256 << 20, MaxBytesForLevelMultiplier: 10, LevelCompactionDynamicLevel: true,
		RateLimitBytes: 1024000 << 20, RateLimiterAutoTuned: true, AvoidUnnecessaryBlockingIO: true,
	}
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.RecordCache == 0 {
		o.RecordCache = 16 << 20
	}
	if o.DerivedState == 0 {
		o.DerivedState = 16 << 20
	}
	if o.Rocks == nil {
		o.Rocks = DefaultRocksOptions()
	}
}

func (o *Options) writeFlags() rocks.WriteFlags {
	var f rocks.WriteFlags
	for _, x := range []struct {
		on   bool
		flag rocks.WriteFlags
	}{{o.Sync, rocks.Sync}, {o.DisableWAL, rocks.DisableWAL}, {o.NoSlowdown, rocks.NoSlowdown}, {o.LowPri,
		rocks.LowPri}, {o.InsertHint, rocks.InsertHint}} {
		if x.on {
			f |= x.flag
		}
	}
	return f
}

// rocksOptions completes RocksDB's options with those that the format requires.
func (o *Options) rocksOptions() *rocks.Options {
	r := *o.Rocks
	r.Slots = o.Slots
	kinds := [cf.NumFamilies]rocks.FamilyKind{rocks.Subkeys, rocks.Meta, rocks.Subkeys, rocks.PubSub, rocks.Propagate,
		rocks.Subkeys, rocks.Search}
	r.Families = nil
	for id, kind := range kinds {
		r.Families = append(r.Families, rocks.FamilySpec{Name: cf.ID(id).String(), Kind: kind,
			ScoreOrder: cf.ID(id) == cf.ZSetScore && !o.BytewiseScores})
	}
	r.Families = append(r.Families, rocks.FamilySpec{Name: cf.IndexName, Kind: rocks.Index})
	return &r
}
