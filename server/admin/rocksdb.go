package admin

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/info"
)

// The counters of RocksDB that the console plots.
const (
	tickCacheMiss  = "block.cache.miss"
	tickCacheHit   = "block.cache.hit"
	tickCompaction = "compact.write.bytes"
	tickFlush      = "flush.write.bytes"
)

// tickers are counters of RocksDB that INFO does not show.
var tickers = [...]struct {
	field, name string
	unit        info.Unit
}{
	{"bloom_filter_useful", "bloom.filter.useful", info.None},
	{"bloom_filter_positive", "bloom.filter.full.positive", info.None},
	{"bloom_filter_true_positive", "bloom.filter.full.true.positive", info.None},
	{"compaction_dropped_newer_entry", "compaction.key.drop.new", info.None},
	{"compaction_dropped_obsolete", "compaction.key.drop.obsolete", info.None},
	{"compaction_dropped_range_delete", "compaction.key.drop.range_del", info.None},
	{"compaction_dropped_by_filter", "compaction.key.drop.user", info.None},
	{"bytes_written", "bytes.written", info.Bytes},
	{"stalled_usec", "stall.micros", info.Microseconds},
	{"wal_syncs", "wal.synced", info.None},
	{"wal_written", "wal.bytes", info.Bytes},
	{"compaction_read", "compact.read.bytes", info.Bytes},
	{"compaction_written", tickCompaction, info.Bytes},
	{"flush_written", tickFlush, info.Bytes},
	{"blob_files_written", "blobdb.blob.file.bytes.written", info.Bytes},
	{"blob_files_read", "blobdb.blob.file.bytes.read", info.Bytes},
}

// familyProperties are numbers of each column family that INFO does not show.
var familyProperties = [...]struct {
	name, property string
	unit           info.Unit
}{
	{"sst_files", "rocksdb.total-sst-files-size", info.Bytes},
	{"live_sst_files", "rocksdb.live-sst-files-size", info.Bytes},
	{"live_data", "rocksdb.estimate-live-data-size", info.Bytes},
	{"live_blob_files", "rocksdb.live-blob-file-size", info.Bytes},
	{"garbage_blob_files", "rocksdb.live-blob-file-garbage-size", info.Bytes},
	{"blob_files", "rocksdb.num-blob-files", info.None},
	{"memtables", "rocksdb.cur-size-all-mem-tables", info.Bytes},
	{"immutable_memtables", "rocksdb.num-immutable-mem-table", info.None},
	{"memtable_entries", "rocksdb.num-entries-active-mem-table", info.None},
	{"pending_compaction", "rocksdb.estimate-pending-compaction-bytes", info.Bytes},
	{"running_compactions", "rocksdb.num-running-compactions", info.None},
}

// RocksDB writes what an operator plots of RocksDB and INFO does not show.
func RocksDB(db *engine.DB, w *info.Writer) {
	for id := range cf.NumFamilies {
		for _, p := range familyProperties {
			n, _ := db.FamilyIntProperty(id, p.property)
			w.Of("rocksdb_"+p.name, id.String(), info.Gauge, p.unit, int64(n))
		}
		if hits, misses, ok := db.CacheLookups(id); ok {
			w.Of("rocksdb_block_cache_hits", id.String(), info.Counter, info.None, int64(hits))
			w.Of("rocksdb_block_cache_misses", id.String(), info.Counter, info.None, int64(misses))
		}
	}
	for _, t := range tickers {
		w.Counter("rocksdb_"+t.field, t.unit, ticker(db, t.name))
	}
	// These are of the database, whichever family is asked.
	for _, p := range [...]struct{ name, property string }{
		{"rocksdb_delayed_write_rate", "rocksdb.actual-delayed-write-rate"},
		{"rocksdb_writes_stopped", "rocksdb.is-write-stopped"},
	} {
		n, _ := db.FamilyIntProperty(cf.Metadata, p.property)
		w.Gauge(p.name, info.None, int64(n))
	}
	files, bytes := db.WALFiles()
	w.Gauge("rocksdb_wal_files", info.None, int64(files))
	w.Gauge("rocksdb_wal_size", info.Bytes, bytes)
}

// Levels calls f with what an operator plots of the levels of each column family.
func Levels(db *engine.DB, f func(Series)) {
	for id := range cf.NumFamilies {
		levels, _ := db.Levels(id)
		for _, l := range levels {
			labels := []string{"family", id.String(), "level", strconv.Itoa(l.Level)}
			for _, s := range []Series{
				{"rocksdb_level_files", "Table files of a level.", false, labels, float64(l.Files)},
				{"rocksdb_level_files_compacting", "Table files of a level that are being compacted.", false, labels,
					float64(l.Compacting)},
				{"rocksdb_level_size_bytes", "Bytes of the table files of a level.", false, labels, float64(l.Bytes)},
				{"rocksdb_level_score", "How urgent a compaction of a level is: one is due from 1 on.", false, labels, l.Score},
				{"rocksdb_level_read_bytes_total", "Bytes that compactions into a level have read.", true, labels,
					float64(l.Read)},
				{"rocksdb_level_written_bytes_total", "Bytes that compactions have written to a level, for level 0 flushes.",
					true, labels, float64(l.Written)},
				{"rocksdb_level_compactions_total", "Compactions into a level, for level 0 flushes.", true, labels,
					float64(l.Compactions)},
				{"rocksdb_level_compaction_seconds_total", "Time that compactions into a level took.", true, labels, l.Seconds},
				{"rocksdb_level_dropped_entries_total", "Entries that compactions into a level have dropped.", true, labels,
					float64(l.KeysMerged)},
			} {
				f(s)
			}
		}
	}
}

// BlockCache returns how many look-ups in the block cache have hit and missed.
func BlockCache(db *engine.DB) (hits, misses int64) {
	return ticker(db, tickCacheHit), ticker(db, tickCacheMiss)
}

// Written returns how many bytes flushes and compactions have written.
func Written(db *engine.DB) (flushed, compacted int64) {
	return ticker(db, tickFlush), ticker(db, tickCompaction)
}

func ticker(db *engine.DB, name string) int64 {
	n, _ := db.Ticker(name)
	return int64(n)
}
