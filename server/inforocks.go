package server

import (
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/metrics"
)

// The tickers of RocksDB 7.8 that INFO shows, by their numbers in rocksdb/statistics.h.
const (
	tickCacheMiss   = 0
	tickCacheHit    = 1
	tickIndexMiss   = 4
	tickIndexHit    = 5
	tickFilterMiss  = 9
	tickFilterHit   = 10
	tickDataMiss    = 14
	tickDataHit     = 15
	tickKeysWritten = 40
	tickKeysRead    = 41
	tickSeek        = 45
	tickNext        = 46
	tickPrev        = 47
	tickManyRead    = 63 // keys that were read several at a time
)

// rated are the tickers of which INFO shows how fast they move, with the names of the fields.
var rated = [...]struct {
	id   uint32
	rate int
	name string
}{
	{tickKeysWritten, metrics.RatePuts, "put_per_sec"}, {tickKeysRead, metrics.RateGets, "get_per_sec"},
	{tickSeek, metrics.RateSeeks, "seek_per_sec"}, {tickNext, metrics.RateNexts, "next_per_sec"},
	{tickPrev, metrics.RatePrevs, "prev_per_sec"},
}

// rateTicker returns the value of a ticker that is sampled.
func (s *Server) rateTicker(id uint32) int64 {
	n := s.db.Ticker(id)
	if id == tickKeysRead {
		n += s.db.Ticker(tickManyRead)
	}
	return int64(n)
}

// sumProperty adds up a numeric property over the column families.
func (s *Server) sumProperty(name string) (sum uint64) {
	for id := range cf.NumFamilies {
		n, _ := s.db.FamilyIntProperty(id, name)
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
func stalls(stats string) map[string]string {
	counts := map[string]string{}
	_, line, ok := strings.Cut(stats, "Stalls(count): ")
	if !ok {
		return counts
	}
	line, _, _ = strings.Cut(line, "\n")
	for _, item := range strings.Split(line, ", ") {
		if n, name, ok := strings.Cut(item, " "); ok {
			counts[name] = n
		}
	}
	return counts
}

func (s *Server) infoRocksDB(w *infoWriter, _ string) {
	used, pinned := s.db.CacheUsage()
	w.field("block_cache_usage", used)
	for id := range cf.NumFamilies {
		name := "[" + id.String() + "]"
		num := func(field, property string) {
			n, _ := s.db.FamilyIntProperty(id, property)
			w.field(field+name, n)
		}
		w.field("block_cache_pinned_usage"+name, pinned)
		num("estimate_keys", "rocksdb.estimate-num-keys")
		num("index_and_filter_cache_usage", "rocksdb.estimate-table-readers-mem")
		counts := stalls(s.db.FamilyProperty(id, "rocksdb.cfstats-no-file-histogram"))
		for _, c := range stallCounters {
			n := counts[c.text]
			if n == "" {
				n = "0"
			}
			w.field(c.field+name, n)
		}
	}
	for _, t := range []struct {
		name string
		id   uint32
	}{
		{"block_cache_hit", tickCacheHit}, {"block_cache_index_hit", tickIndexHit}, {"block_cache_filter_hit", tickFilterHit}, {"block_cache_data_hit", tickDataHit},
		{"block_cache_miss", tickCacheMiss}, {"block_cache_index_miss", tickIndexMiss}, {"block_cache_filter_miss", tickFilterMiss}, {"block_cache_data_miss", tickDataMiss},
	} {
		w.field(t.name, s.db.Ticker(t.id))
	}
	global := func(field, property string) {
		n, _ := s.db.FamilyIntProperty(cf.Metadata, property)
		w.field(field, n)
	}
	w.field("all_mem_tables", s.sumProperty("rocksdb.size-all-mem-tables"))
	w.field("cur_mem_tables", s.sumProperty("rocksdb.cur-size-all-mem-tables"))
	global("snapshots", "rocksdb.num-snapshots")
	w.field("num_immutable_tables", s.sumProperty("rocksdb.num-immutable-mem-table"))
	global("num_running_flushes", "rocksdb.num-running-flushes")
	w.field("memtable_flush_pending", s.sumProperty("rocksdb.mem-table-flush-pending"))
	w.field("compaction_pending", s.sumProperty("rocksdb.compaction-pending"))
	global("num_running_compactions", "rocksdb.num-running-compactions")
	w.field("num_live_versions", s.sumProperty("rocksdb.num-live-versions"))
	w.field("num_super_version", s.sumProperty("rocksdb.current-super-version-number"))
	w.field("num_background_errors", s.db.BackgroundErrors())
	w.field("flush_count", s.db.Stats.Flushes.Load())
	w.field("compaction_count", s.db.Stats.Compactions.Load())
	rates := s.stats.Samples.Rates()
	for _, r := range rated {
		w.field(r.name, int64(rates[r.rate]))
	}
	w.field("is_bgsaving", yesNo(s.work.saving.Load()))
	w.field("is_compacting", yesNo(s.work.compacting.Load()))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
