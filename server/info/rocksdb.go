package info

import (
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// tickers are those of RocksDB 7.8 that INFO shows, by their numbers in rocksdb/statistics.h.
var tickers = [...]struct {
	name string
	id   uint32
}{
	{"block_cache_hit", 1}, {"block_cache_index_hit", 5}, {"block_cache_filter_hit", 10}, {"block_cache_data_hit", 15},
	{"block_cache_miss", 0}, {"block_cache_index_miss", 4}, {"block_cache_filter_miss", 9}, {"block_cache_data_miss", 14},
}

// sumProperty adds up a numeric property over the column families.
func (r RocksDB) sumProperty(name string) (sum uint64) {
	for id := range cf.NumFamilies {
		n, _ := r.DB.FamilyIntProperty(id, name)
		sum += n
	}
	return sum
}

// stallCounters are the fields that count why writes were slowed down or stopped, with what RocksDB calls them
// in its statistics text.
var stallCounters = [...]struct{ field, text string }{
	{"level0_file_limit_slowdown", "level0_slowdown"},
	{"level0_file_limit_stop", "level0_numfiles"},
	{"pending_compaction_bytes_slowdown", "slowdown for pending_compaction_bytes"},
	{"pending_compaction_bytes_stop", "stop for pending_compaction_bytes"},
	{"level0_file_limit_stop_with_ongoing_compaction", "level0_numfiles_with_compaction"},
	{"level0_file_limit_slowdown_with_ongoing_compaction", "level0_slowdown_with_compaction"},
	{"memtable_count_limit_slowdown", "memtable_slowdown"},
	{"memtable_count_limit_stop", "memtable_compaction"},
}

// stalls reads the counters from a line such as "Stalls(count): 0 level0_slowdown, 0 ..." of the statistics.
func stalls(stats string) map[string]int64 {
	counts := map[string]int64{}
	_, line, ok := strings.Cut(stats, "Stalls(count): ")
	if !ok {
		return counts
	}
	line, _, _ = strings.Cut(line, "\n")
	for _, item := range strings.Split(line, ", ") {
		if n, name, ok := strings.Cut(item, " "); ok {
			counts[name], _ = strconv.ParseInt(n, 10, 64)
		}
	}
	return counts
}

// RocksDB writes the RocksDB section.
type RocksDB struct{ DB *engine.DB }

// Fields writes the section.
func (r RocksDB) Fields(w *Writer, _ string) {
	used, pinned := r.DB.CacheUsage()
	w.Gauge("block_cache_usage", Bytes, int64(used))
	for id := range cf.NumFamilies {
		num := func(field, property string, unit Unit) {
			n, _ := r.DB.FamilyIntProperty(id, property)
			w.Of(field, id.String(), Gauge, unit, int64(n))
		}
		w.Of("block_cache_pinned_usage", id.String(), Gauge, Bytes, int64(pinned))
		num("estimate_keys", "rocksdb.estimate-num-keys", None)
		num("index_and_filter_cache_usage", "rocksdb.estimate-table-readers-mem", Bytes)
		counts := stalls(r.DB.FamilyProperty(id, "rocksdb.cfstats-no-file-histogram"))
		for _, c := range stallCounters {
			w.Of(c.field, id.String(), Counter, None, counts[c.text])
		}
	}
	for _, t := range tickers {
		w.Counter(t.name, None, int64(r.DB.Ticker(t.id)))
	}
	sum := func(field, property string, unit Unit) { w.Gauge(field, unit, int64(r.sumProperty(property))) }
	global := func(field, property string) {
		n, _ := r.DB.FamilyIntProperty(cf.Metadata, property)
		w.Gauge(field, None, int64(n))
	}
	sum("all_mem_tables", "rocksdb.size-all-mem-tables", Bytes)
	sum("cur_mem_tables", "rocksdb.cur-size-all-mem-tables", Bytes)
	global("snapshots", "rocksdb.num-snapshots")
	sum("num_immutable_tables", "rocksdb.num-immutable-mem-table", None)
	global("num_running_flushes", "rocksdb.num-running-flushes")
	sum("memtable_flush_pending", "rocksdb.mem-table-flush-pending", None)
	sum("compaction_pending", "rocksdb.compaction-pending", None)
	global("num_running_compactions", "rocksdb.num-running-compactions")
	sum("num_live_versions", "rocksdb.num-live-versions", None)
	sum("num_super_version", "rocksdb.current-super-version-number", None)
	w.Counter("num_background_errors", None, int64(r.DB.BackgroundErrors()))
	w.Counter("flush_count", None, int64(r.DB.Stats.Flushes.Load()))
	w.Counter("compaction_count", None, int64(r.DB.Stats.Compactions.Load()))
}
