package admin

import (
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/info"
)

// tickers are counters of RocksDB 7.8 that INFO does not show, by their numbers in rocksdb/statistics.h.
var tickers = [...]struct {
	name string
	id   uint32
	unit info.Unit
}{
	{"bloom_filter_useful", 20, info.None},
	{"bloom_filter_positive", 21, info.None},
	{"bloom_filter_true_positive", 22, info.None},
	{"compaction_dropped_newer_entry", 33, info.None},
	{"compaction_dropped_obsolete", 34, info.None},
	{"compaction_dropped_range_delete", 35, info.None},
	{"compaction_dropped_by_filter", 36, info.None},
	{"bytes_written", 43, info.Bytes},
	{"stalled_usec", 58, info.Microseconds},
	{"wal_syncs", 75, info.None},
	{"wal_written", 76, info.Bytes},
	{"compaction_read", 81, info.Bytes},
	{"compaction_written", 82, info.Bytes},
	{"flush_written", 83, info.Bytes},
	{"blob_files_written", 120, info.Bytes},
	{"blob_files_read", 121, info.Bytes},
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
	{"memtables", "rocksdb.cur-size-all-mem-tables", info.Bytes},
	{"pending_compaction", "rocksdb.estimate-pending-compaction-bytes", info.Bytes},
}

// RocksDB writes what an operator plots of RocksDB and INFO does not show.
func RocksDB(db *engine.DB, w *info.Writer) {
	for id := range cf.NumFamilies {
		for _, p := range familyProperties {
			n, _ := db.FamilyIntProperty(id, p.property)
			w.Of("rocksdb_"+p.name, id.String(), info.Gauge, p.unit, int64(n))
		}
		for _, l := range levels(db.FamilyProperty(id, "rocksdb.levelstats")) {
			// Prometheus has one label for each field here, so family and level share it.
			label := id.String() + "/" + strconv.Itoa(l.level)
			w.Of("rocksdb_level_files", label, info.Gauge, info.None, l.files)
			w.Of("rocksdb_level_size", label, info.Gauge, info.Bytes, l.bytes)
		}
	}
	for _, t := range tickers {
		w.Counter("rocksdb_"+t.name, t.unit, int64(db.Ticker(t.id)))
	}
	// These are of the database, whichever family is asked.
	for _, p := range [...]struct{ name, property string }{
		{"rocksdb_delayed_write_rate", "rocksdb.actual-delayed-write-rate"},
		{"rocksdb_writes_stopped", "rocksdb.is-write-stopped"},
	} {
		n, _ := db.FamilyIntProperty(cf.Metadata, p.property)
		w.Gauge(p.name, info.None, int64(n))
	}
}

// level is one level of a column family.
type level struct {
	level        int
	files, bytes int64
}

// levels reads the levels that have files from RocksDB's table of them, whose sizes are whole MiB:
//
//	Level Files Size(MB)
//	--------------------
//	  0        1        0
func levels(table string) (all []level) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		n, err := strconv.Atoi(f[0])
		files, err2 := strconv.ParseInt(f[1], 10, 64)
		mib, err3 := strconv.ParseInt(f[2], 10, 64)
		if err == nil && err2 == nil && err3 == nil && files > 0 {
			all = append(all, level{n, files, mib << 20})
		}
	}
	return all
}
