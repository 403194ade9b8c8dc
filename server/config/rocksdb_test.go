package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config/memplan"
	"github.com/basaltdb/basalt/server/config/setting"
)

func TestMemoryPlan(t *testing.T) {
	for _, c := range []struct {
		memory uint64
		args   []string
		want   string
	}{
		{16 << 30, nil, "block cache 2530 MiB (chosen), write buffers 16 x 65536 KiB (chosen), Go heap 256 MiB, " +
			"budget 4096 MiB (chosen) of 16384 MiB test"},
		{4 << 30, nil, "block cache 450 MiB (chosen), write buffers 16 x 21504 KiB (chosen), Go heap 160 MiB, " +
			"budget 1024 MiB (chosen) of 4096 MiB test"},
		{256 << 20, nil, "block cache 20 MiB (chosen), write buffers 16 x 1024 KiB (chosen), Go heap 10 MiB, " +
			"budget 64 MiB (chosen) of 256 MiB test"},
		{64 << 20, nil, "block cache 4 MiB (chosen), write buffers 16 x 320 KiB (chosen), Go heap 2 MiB, " +
			"budget 16 MiB (chosen) of 64 MiB test"},
		{16 << 30, []string{"--memory-budget-mb", "8192"},
			"block cache 6138 MiB (chosen), write buffers 16 x 65536 KiB (chosen), Go heap 384 MiB, " +
				"budget 8192 MiB (configured) of 16384 MiB test"},
		{16 << 30, []string{"--rocksdb.block_cache_size", "2048", "--rocksdb.write_buffer_size", "32"},
			"block cache 2048 MiB (configured), write buffers 16 x 32768 KiB (configured), Go heap 256 MiB, " +
				"budget 4096 MiB (chosen) of 16384 MiB test"},
		{2 << 30, []string{"--rocksdb.block_cache_size", "4096", "--rocksdb.write_buffer_size", "64"},
			"block cache 4096 MiB (configured), write buffers 16 x 65536 KiB (configured), Go heap 80 MiB, " +
				"budget 512 MiB (chosen) of 2048 MiB test: more than the budget"},
		{16 << 30, []string{"--rocksdb.subkey_block_cache_size", "100", "--rocksdb.metadata_block_cache_size", "20",
			"--rocksdb.max_write_buffer_number", "2"},
			"block cache 120 MiB (configured), write buffers 8 x 65536 KiB (chosen), Go heap 256 MiB, " +
				"budget 4096 MiB (chosen) of 16384 MiB test"},
	} {
		cfg, err := Load(c.args, nil)
		require.NoError(t, err)
		if have := cfg.memoryPlan(memplan.Memory{Bytes: c.memory, Source: "test"}).String(); have != c.want {
			t.Errorf("%d %q:\n have %s\n want %s", c.memory, c.args, have, c.want)
		}
	}
}

func TestOptionChange(t *testing.T) {
	c := Default()
	require.NoError(t, c.Set("rocksdb.enable_blob_files", "yes", "rocksdb.write_buffer_size", "8",
		"rocksdb.compression_start_level", "3", "rocksdb.level0_slowdown_writes_trigger", "0",
		"rocksdb.level0_stop_writes_trigger", "33", "rocksdb.max_bytes_for_level_base", "8gb"))
	for name, want := range map[string]OptionChange{
		"rocksdb.max_open_files":                     {"max_open_files", "8096", true},
		"rocksdb.max_total_wal_size":                 {"max_total_wal_size", "536870912", true},
		"rocksdb.write_buffer_size":                  {"write_buffer_size", "8388608", false},
		"rocksdb.enable_blob_files":                  {"enable_blob_files", "true", false},
		"rocksdb.disable_auto_compactions":           {"disable_auto_compactions", "false", false},
		"rocksdb.blob_garbage_collection_age_cutoff": {"blob_garbage_collection_age_cutoff", "0.25", false},
		"rocksdb.level0_slowdown_writes_trigger":     {"level0_slowdown_writes_trigger", "33", false},
		"rocksdb.max_bytes_for_level_base":           {"max_bytes_for_level_base", "8589934592", false},
		"rocksdb.compression": {"compression_per_level",
			"kNoCompression:kNoCompression:kNoCompression" + strings.Repeat(":kSnappyCompression", 4), false},
	} {
		if have, ok := c.OptionChange(name); have != want || !ok {
			t.Errorf("%s: %+v %v", name, have, ok)
		}
	}
	for _, name := range []string{"timeout", "rocksdb.read_options.async_io", "nonsense",
		"rocksdb.write_options.write_batch_max_bytes"} {
		if have, ok := c.OptionChange(name); ok {
			t.Errorf("%s: %+v", name, have)
		}
	}
	var dynamic []string
	for _, s := range setting.Table {
		if strings.HasPrefix(s.Name, "rocksdb.") && s.Dynamic {
			if _, ok := c.OptionChange(s.Name); ok {
				dynamic = append(dynamic, s.Name)
			}
		}
	}
	if have := RocksDBChanges(); !reflect.DeepEqual(have, dynamic) {
		t.Errorf("changes are %q, not %q", have, dynamic)
	}
}
