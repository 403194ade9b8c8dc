package info

import (
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// tickers are those of RocksDB that INFO shows.
var tickers = [...]struct{ field, name string }{
	{"block_cache_hit", "block.cache.hit"}, {"block_cache_index_hit", "block.cache.index.hit"},
	{"block_cache_filter_hit", "block.cache.filter.hit"}, {"block_cache_data_hit", "block.cache.data.hit"},
	{"block_cache_miss", "block.cache.miss"}, {"block_cache_index_miss", "block.cache.index.miss"},
	{"block_cache_filter_miss", "block.cache.filter.miss"}, {"block_cache_data_miss", "block.cache.data.miss"},
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
// in its statistics text: up to 7.8, and later.
var stallCounters = [...]struct{ field, old, text string }{
	{"level0_file_limit_slowdown", "level0_slowdown", "l0-file-count-limit-delays"},
	{"level0_file_limit_stop", "level0_numfiles", "l0-file-count-limit-stops"},
	{"pending_compaction_bytes_slowdown", "slowdown for pending_compaction_bytes", "pending-compaction-bytes-delays"},
	{"pending_compaction_bytes_stop", "stop for pending_compaction_bytes", "pending-compaction-bytes-stops"},
	{"level0_file_limit_stop_with_ongoing_compaction", "level0_numfiles_with_compaction",
		"cf-l0-file-count-limit-stops-with-ongoing-compaction"},
	{"level0_file_limit_slowdown_with_ongoing_compaction", "level0_slowdown_with_compaction",
		"cf-l0-file-count-limit-delays-with-ongoing-compaction"},
	{"memtable_count_limit_slowdown", "memtable_slowdown", "memtable-limit-delays"},
	{"memtable_count_limit_stop", "memtable_compaction", "memtable-limit-stops"},
}

// stalls reads the counters by their fields from a line of the statistics such as "Stalls(count): 0 level0_slowdown,
// 0 ...", or "Write Stall (count): l0-file-count-limit-delays: 0, ..." since RocksDB 8.
func stalls(stats string) map[string]int64 {
	counts := map[string]int64{}
	_, line, old := strings.Cut(stats, "Stalls(count): ")
	if !old {
		_, line, _ = strings.Cut(stats, "Write Stall (count): ")
	}
	line, _, _ = strings.Cut(line, "\n")
	for item := range strings.SplitSeq(line, ", ") {
		n, name, _ := strings.Cut(item, " ")
		if !old {
			name, n, _ = strings.Cut(item, ": ")
		}
		for _, c := range stallCounters {
			if name == c.text || name == c.old {
				counts[c.field], _ = strconv.ParseInt(n, 10, 64)
			}
		}
	}
	return counts
}

// RocksDB writes the RocksDB section.
type RocksDB struct{ DB *engine.DB }

// Fields writes the section.
func (r RocksDB) Fields(w *Writer, _ string) {
	used, pinned, capacity := r.DB.CacheUsage()
	w.Gauge("block_cache_usage", Bytes, int64(used))
	w.Gauge("block_cache_capacity", Bytes, int64(capacity))
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
			w.Of(c.field, id.String(), Counter, None, counts[c.field])
		}
	}
	for _, t := range tickers {
		n, _ := r.DB.Ticker(t.name)
		w.Counter(t.field, None, int64(n))
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
