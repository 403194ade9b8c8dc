package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/servertest"
)

// optionsFile returns the text of RocksDB's newest OPTIONS file.
func optionsFile(t *testing.T, db *engine.DB) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(db.Dir(), "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no OPTIONS file: %v", err)
	}
	newest := ""
	for _, f := range files {
		newest = max(newest, f)
	}
	text := require.File(t, newest)
	return string(text)
}

// rocksSettings are settings, each with a value other than the default and the line of RocksDB's OPTIONS file for this
// value. The line occurs once if db is true, else once for each column family. later is a value for CONFIG SET, and
// lineLater is its line.
var rocksSettings = []struct {
	name, value, line string
	db                bool
	later, lineLater  string
}{
	{"rocksdb.max_open_files", "500", "max_open_files=500", true, "400", "max_open_files=400"},
	{"rocksdb.max_background_jobs", "3", "max_background_jobs=3", true, "2", "max_background_jobs=2"},
	{"rocksdb.max_background_compactions", "1", "max_background_compactions=1", true, "2", "max_background_compactions=2"},
	{"rocksdb.max_background_flushes", "1", "max_background_flushes=1", true, "", ""},
	{"rocksdb.max_subcompactions", "3", "max_subcompactions=3", true, "1", "max_subcompactions=1"},
	{"rocksdb.max_total_wal_size", "100", "max_total_wal_size=104857600", true, "50", "max_total_wal_size=52428800"},
	{"rocksdb.wal_ttl_seconds", "77", "WAL_ttl_seconds=77", true, "", ""},
	{"rocksdb.wal_size_limit_mb", "78", "WAL_size_limit_MB=78", true, "", ""},
	{"rocksdb.wal_compression", "zstd", "wal_compression=kZSTD", true, "", ""},
	{"rocksdb.delayed_write_rate", "1mb", "delayed_write_rate=1048576", true, "2mb", "delayed_write_rate=2097152"},
	{"rocksdb.stats_dump_period_sec", "9", "stats_dump_period_sec=9", true, "8", "stats_dump_period_sec=8"},
	{"rocksdb.compaction_readahead_size", "1mb", "compaction_readahead_size=1048576", true, "2mb",
		"compaction_readahead_size=2097152"},
	{"rocksdb.avoid_unnecessary_blocking_io", "no", "avoid_unnecessary_blocking_io=false", true, "", ""},
	{"rocksdb.write_buffer_size", "2", "write_buffer_size=2097152", false, "1", "write_buffer_size=1048576"},
	{"rocksdb.max_write_buffer_number", "6", "max_write_buffer_number=6", false, "5", "max_write_buffer_number=5"},
	{"rocksdb.min_write_buffer_number_to_merge", "2", "min_write_buffer_number_to_merge=2", false, "", ""},
	{"rocksdb.target_file_size_base", "3", "target_file_size_base=3145728", false, "4", "target_file_size_base=4194304"},
	{"rocksdb.disable_auto_compactions", "yes", "disable_auto_compactions=true", false, "no",
		"disable_auto_compactions=false"},
	{"rocksdb.max_bytes_for_level_base", "8mb", "max_bytes_for_level_base=8388608", false, "16mb",
		"max_bytes_for_level_base=16777216"},
	{"rocksdb.max_bytes_for_level_multiplier", "7", "max_bytes_for_level_multiplier=7.000000", false, "8",
		"max_bytes_for_level_multiplier=8.000000"},
	{"rocksdb.max_compaction_bytes", "64mb", "max_compaction_bytes=67108864", false, "0",
		"max_compaction_bytes=104857600"},
	{"rocksdb.ttl", "1000", "ttl=1000", false, "18446744073709551614", "ttl=2592000"},
	{"rocksdb.periodic_compaction_seconds", "2000", "periodic_compaction_seconds=2000", false, "0",
		"periodic_compaction_seconds=0"},
	{"rocksdb.compression_max_dict_bytes", "4096", "max_dict_bytes=4096;", false, "", ""},
	{"rocksdb.compression_zstd_max_train_bytes", "8192", "zstd_max_train_bytes=8192;", false, "", ""},
	{"rocksdb.enable_blob_files", "yes", "enable_blob_files=true", false, "", ""},
	{"rocksdb.min_blob_size", "100", "min_blob_size=100", false, "200", "min_blob_size=200"},
	{"rocksdb.blob_file_size", "1mb", "blob_file_size=1048576", false, "2mb", "blob_file_size=2097152"},
	{"rocksdb.partition_filters", "no", "partition_filters=false", false, "", ""},
	{"rocksdb.cache_index_and_filter_blocks", "no", "cache_index_and_filter_blocks=false", false, "", ""},
	{"rocksdb.block_size", "8kb", "block_size=8192", false, "", ""},
}

// startDir starts a server with settings, and opens its database with the options that follow from the settings.
func startDir(t *testing.T, settings ...string) *servertest.Harness {
	t.Helper()
	cfg := servertest.Config(t, settings...)
	require.NoError(t, os.MkdirAll(cfg.DBDir(), 0o700))
	db, err := engine.Open(options.Engine(cfg, cfg.MemoryPlan(), nil))
	require.NoError(t, err)
	s := server.New(cfg, db, zap.NewNop())
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	require.NoError(t, s.Start())
	return &servertest.Harness{Server: s, DB: db}
}

// TestRocksSettings checks that settings have an effect on RocksDB's options, at the start and with CONFIG SET.
func TestRocksSettings(t *testing.T) {
	var settings []string
	for _, tt := range rocksSettings {
		settings = append(settings, tt.name, tt.value)
	}
	h := startDir(t, settings...)
	check := func(text, name, line string, db bool) {
		t.Helper()
		want := int(cf.NumFamilies)
		if db {
			want = 1
		}
		if !strings.HasSuffix(line, ";") { // a line with a semicolon is an element of a list
			line = "  " + line + "\n"
		}
		have := strings.Count(text, line)
		if have < want {
			t.Errorf("%s: %q occurs %d times in RocksDB's options, want %d", name, line, have, want)
		}
	}
	text := optionsFile(t, h.DB)
	for _, tt := range rocksSettings {
		check(text, tt.name, tt.line, tt.db)
	}
	c := h.Dial(t)
	for _, tt := range rocksSettings {
		if tt.later == "" {
			continue
		}
		c.Want("CONFIG SET "+tt.name+" "+tt.later, "+OK\r\n")
	}
	text = optionsFile(t, h.DB)
	for _, tt := range rocksSettings {
		if tt.later != "" {
			check(text, tt.name, tt.lineLater, tt.db)
		}
	}
	c.Want("SET a 1", "+OK\r\n")
}

// TestDirectIO checks that the settings of direct I/O reach RocksDB, and that reads and writes work with them.
func TestDirectIO(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "probe"), os.O_CREATE|os.O_WRONLY|syscall.O_DIRECT, 0o600)
	if errors.Is(err, syscall.EINVAL) {
		t.Skip("the file system of the temporary directory has no direct I/O")
	}
	require.NoError(t, err)
	f.Close()
	h := startDir(t, "dir", dir, "rocksdb.use_direct_reads", "yes", "rocksdb.use_direct_io_for_flush_and_compaction",
		"yes",
		"enable-blob-cache", "yes", "rocksdb.enable_blob_files", "yes", "rocksdb.min_blob_size", "1")
	text := optionsFile(t, h.DB)
	for _, line := range []string{"  use_direct_reads=true\n", "  use_direct_io_for_flush_and_compaction=true\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("RocksDB's options lack %q", line)
		}
	}
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"SET k value", "+OK\r\n"}, {"DEBUG RELOAD", "+OK\r\n"}, {"GET k", "$5\r\nvalue\r\n"}, {"COMPACT", "+OK\r\n"},
		{"GET k", "$5\r\nvalue\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
}
