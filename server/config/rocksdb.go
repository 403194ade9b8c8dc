package config

import (
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// OptionChange is a run-time change of RocksDB: an option and its value in RocksDB's own names and units.
type OptionChange struct {
	Option, Value string
	DB            bool // an option of the database; else an option of every column family
}

const mib = 1 << 20

// levels is the number of levels of RocksDB's tree.
const levels = 7

// compressionTypes are RocksDB's names of the compressions.
var compressionTypes = map[string]string{
	"no": "kNoCompression", "snappy": "kSnappyCompression", "lz4": "kLZ4Compression", "zstd": "kZSTD",
	"zlib": "kZlibCompression",
}

// rocksUnit maps the settings that change an option of RocksDB to the factor to RocksDB's unit.
var rocksUnit = map[string]struct {
	factor int64
	db     bool
}{
	"max_open_files": {1, true}, "stats_dump_period_sec": {1, true}, "delayed_write_rate": {1, true},
	"max_background_compactions": {1, true}, "max_background_jobs": {1, true}, "max_subcompactions": {1, true},
	"compaction_readahead_size": {1, true}, "max_total_wal_size": {1 << 20, true},
	"max_write_buffer_number": {1, false}, "level0_file_num_compaction_trigger": {1, false},
	"level0_slowdown_writes_trigger": {1, false}, "level0_stop_writes_trigger": {1, false},
	"write_buffer_size": {1 << 20, false}, "target_file_size_base": {1 << 20, false},
	"disable_auto_compactions": {1, false}, "enable_blob_files": {1, false}, "min_blob_size": {1, false},
	"blob_file_size": {1, false}, "enable_blob_garbage_collection": {1, false},
	"level_compaction_dynamic_level_bytes": {1, false},
	"max_compaction_bytes":                 {1, false}, "ttl": {1, false}, "periodic_compaction_seconds": {1, false},
	"max_bytes_for_level_base": {1, false}, "max_bytes_for_level_multiplier": {1, false},
}

// RocksDBChanges returns the names of the settings that [Config.OptionChange] handles.
func RocksDBChanges() []string {
	var list []string
	for _, s := range setting.Table {
		option, ok := strings.CutPrefix(s.Name, "rocksdb.")
		if _, direct := rocksUnit[option]; ok && (direct || derived(option)) {
			list = append(list, s.Name)
		}
	}
	return list
}

func derived(option string) bool {
	return option == "compression" || option == "compression_start_level" || option == "blob_garbage_collection_age_cutoff"
}

// OptionChange returns the option of RocksDB to change after the setting name has changed; ok is false when RocksDB
// is not affected.
func (c *Config) OptionChange(name string) (change OptionChange, ok bool) {
	s, i, known := setting.Find(name)
	if !known {
		return change, false
	}
	option, _ := strings.CutPrefix(s.Name, "rocksdb.")
	v := c.state.Load().values[i]
	switch option {
	case "compression", "compression_start_level":
		kind := compressionTypes[c.Text("rocksdb.compression")]
		var list []string
		for level := range int64(levels) {
			if level < c.Int("rocksdb.compression_start_level") {
				list = append(list, compressionTypes["no"])
			} else {
				list = append(list, kind)
			}
		}
		return OptionChange{"compression_per_level", strings.Join(list, ":"), false}, true
	case "blob_garbage_collection_age_cutoff":
		return OptionChange{option, strconv.FormatFloat(float64(v.Num)/100, 'g', -1, 64), false}, true
	case "max_compaction_bytes":
		if v.Num == 0 { // a running RocksDB takes the number as it is
			return OptionChange{option, strconv.FormatInt(25*mib*c.Int("rocksdb.target_file_size_base"), 10), false}, true
		}
	case "level0_slowdown_writes_trigger":
		if v.Num == 0 {
			return OptionChange{option, c.Text("rocksdb.level0_stop_writes_trigger"), false}, true
		}
	case "ttl", "periodic_compaction_seconds":
		if v.Num == setting.RocksDecides {
			return OptionChange{option, strconv.Itoa(30 * 24 * 3600), false}, true
		}
	case "write_buffer_size":
		if v.Num == 0 {
			return OptionChange{option, strconv.FormatUint(c.MemoryPlan().WriteBuffer, 10), false}, true
		}
	}
	unit, ok := rocksUnit[option]
	switch {
	case !ok || !strings.HasPrefix(s.Name, "rocksdb."):
		return change, false
	case s.Kind == setting.Bool:
		return OptionChange{option, strconv.FormatBool(v.Num != 0), unit.db}, true
	}
	return OptionChange{option, strconv.FormatInt(v.Num*unit.factor, 10), unit.db}, true
}
