package setting

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Table {
		for _, name := range []string{s.Name, s.Alias} {
			if name == "" {
				continue
			}
			if seen[name] || foreign[name] || name != strings.ToLower(name) || strings.ContainsAny(name, " \t\n\v\f\r#\"'") {
				t.Errorf("%q: not a good name, or twice", name)
			}
			seen[name] = true
		}
		if (s.Comment == "") != s.Redis || strings.Contains(s.Comment, "\n") || len(s.Comment) > 130 {
			t.Errorf("%s: comment is %q", s.Name, s.Comment)
		}
		if s.Kind == Multi {
			continue
		}
		if v, err := s.Parse("", s.Default); err != nil || v.Text != s.Default {
			t.Errorf("%s: default %q reads as %q (%v)", s.Name, s.Default, v.Text, err)
		}
		if s.Kind == Enum && !s.Redis && !strings.Contains(s.Comment, strings.Join(s.Names, ", ")) && len(s.Names) > 2 {
			t.Errorf("%s: the comment does not list %q", s.Name, s.Names)
		}
	}
}

// TestSettingsOfKvrocks holds the table against the settings of Kvrocks 2.10, differences listed.
func TestSettingsOfKvrocks(t *testing.T) {
	different := map[string]string{
		"port":          "type Int default 6666 range 0 65535 dynamic false", // 0 = any
		"resp3-enabled": "type Bool default yes dynamic true",
		"backup-dir":    "type String default  dynamic true", // from dir, as in Kvrocks, but shown empty in files
		"pidfile":       "type String default  dynamic false",
		// From the machine's memory.
		"rocksdb.block_cache_size":          "type Int default 0 range 0 2147483647 dynamic false",
		"rocksdb.write_buffer_size":         "type Int default 0 range 0 4096 dynamic true",
		"rocksdb.subkey_block_cache_size":   "type Int default 0 range 0 2147483647 dynamic false",
		"rocksdb.metadata_block_cache_size": "type Int default 0 range 0 2147483647 dynamic false",
		// By family.
		"rocksdb.block_size": "type Bytes default 0 range 0 2147483647 dynamic false",
		// More is no length of anything.
		"proto-max-bulk-len": "type Bytes default 536870912 range 1048576 9223372036854775807 dynamic true",
		"unixsocketperm":     "type Octal default 777 range 1 2147483647 dynamic false",
		// The ranges of Kvrocks 2.14.
		"rocksdb.level0_slowdown_writes_trigger": "type Int default 20 range 0 1024 dynamic true",
		"rocksdb.max_bytes_for_level_base":       "type Bytes default 268435456 range 0 9223372036854775807 dynamic true",
	}
	const inBytes = "rocksdb.block_size,rocksdb.compaction_readahead_size,rocksdb.delayed_write_rate," +
		"rocksdb.max_bytes_for_level_base," +
		"rocksdb.min_blob_size,rocksdb.blob_file_size,rocksdb.write_options.write_batch_max_bytes"
	kinds := map[string]string{"bool": "Bool", "int": "Int", "u32": "Int", "i64": "Int", "u64 unit": "Bytes",
		"octal": "Octal", "enum": "Enum", "string": "String", "multi": "Multi"}
	kindNames := []string{Bool: "Bool", Int: "Int", Bytes: "Bytes", Octal: "Octal", Enum: "Enum", String: "String",
		Multi: "Multi"}
	describe := func(kind, def, rng string, dynamic bool) string {
		if rng != "" {
			rng = " range " + rng
		}
		return fmt.Sprintf("type %s default %s%s dynamic %v", kind, def, rng, dynamic)
	}
	file := require.File(t, "testdata/kvrocks-2.10.tsv")
	n := 0
	for _, line := range strings.Split(strings.TrimSuffix(string(file), "\n"), "\n") {
		if line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		n++
		s, _, ok := Find(f[0])
		if !ok {
			t.Errorf("%s is missing", f[0])
			continue
		}
		rng := ""
		if s.Kind == Int || s.Kind == Bytes || s.Kind == Octal {
			rng = fmt.Sprintf("%d %d", s.Min, s.Max)
		}
		if strings.Contains(","+inBytes+",", ","+f[0]+",") { // Kvrocks takes no unit there
			f[1] = "u64 unit"
		}
		have := describe(kindNames[s.Kind], s.Default, rng, s.Dynamic)
		want := describe(kinds[f[1]], f[2], f[3], f[4] == "set")
		if other, ok := different[f[0]]; ok {
			want = other
		}
		if have != want {
			t.Errorf("%s:\n have %s\n want %s", f[0], have, want)
		}
	}
	if n < 120 {
		t.Errorf("only %d settings were compared", n)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string
		num        int64
		err        string
	}{
		{"daemonize", "YES", "yes", 1, ""},
		{"daemonize", "true", "", 0, "argument must be 'yes' or 'no'"},
		{"daemonize", "", "", 0, "argument must be 'yes' or 'no'"},
		{"timeout", "0x10", "16", 16, ""},
		{"timeout", "010", "8", 8, ""},
		{"timeout", "+7", "7", 7, ""},
		{"timeout", "-1", "", 0, "argument must be between 0 and 2147483647 inclusive"},
		{"timeout", "2147483648", "", 0, "argument must be between 0 and 2147483647 inclusive"},
		{"timeout", "99999999999999999999", "", 0, "argument couldn't be parsed into an integer"},
		{"timeout", "1_0", "", 0, "argument couldn't be parsed into an integer"},
		{"timeout", "0b1", "", 0, "argument couldn't be parsed into an integer"},
		{"timeout", "0o7", "", 0, "argument couldn't be parsed into an integer"},
		{"timeout", "0xB", "11", 11, ""},
		{"timeout", "1x", "", 0, "argument couldn't be parsed into an integer"},
		{"timeout", "", "", 0, "argument couldn't be parsed into an integer"},
		{"force-compact-file-age", "9223372036854775807", "9223372036854775807", 1<<63 - 1, ""},
		{"proto-max-bulk-len", "100M", "104857600", 100 << 20, ""},
		{"proto-max-bulk-len", "1024k", "1048576", 1 << 20, ""},
		{"proto-max-bulk-len", "1p", "1125899906842624", 1 << 50, ""},
		{"proto-max-bulk-len", "18446744073709551615", "9223372036854775807", 1<<63 - 1, ""},
		{"proto-max-bulk-len", "16384p", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "16383p", "9223372036854775807", 1<<63 - 1, ""},
		{"proto-max-bulk-len", "-1", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "k", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "1024kb", "1048576", 1 << 20, ""},
		{"proto-max-bulk-len", "2MB", "2097152", 2 << 20, ""},
		{"proto-max-bulk-len", "3gB", "3221225472", 3 << 30, ""},
		{"proto-max-bulk-len", "1048577b", "1048577", 1<<20 + 1, ""},
		{"proto-max-bulk-len", "1bb", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "1bk", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "1kk", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "1 kb", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "1\u212a", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "1İ", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "-1mb", "", 0, "argument must be a memory value"},
		{"proto-max-bulk-len", "", "", 0, "argument must be a memory value"},
		{"rocksdb.block_size", "16k", "16384", 16 << 10, ""},
		{"rocksdb.block_size", "0x4000", "16384", 16 << 10, ""},
		{"rocksdb.block_size", "0x1b", "27", 27, ""}, // hexadecimal, not one byte
		{"rocksdb.block_size", "2gb", "", 0, "argument must be between 0 and 2147483647 inclusive"},
		{"rocksdb.compaction_readahead_size", "2mb", "2097152", 2 << 20, ""},
		{"rocksdb.delayed_write_rate", "8m", "8388608", 8 << 20, ""},
		{"rocksdb.max_bytes_for_level_base", "1gb", "1073741824", 1 << 30, ""},
		{"rocksdb.min_blob_size", "4kb", "4096", 4 << 10, ""},
		{"rocksdb.blob_file_size", "256MB", "268435456", 256 << 20, ""},
		{"rocksdb.write_options.write_batch_max_bytes", "1m", "1048576", 1 << 20, ""},
		{"rocksdb.write_buffer_size", "64mb", "", 0, "argument couldn't be parsed into an integer"}, // is in MiB
		{"proto-max-bulk-len", "10", "", 0, "argument must be between 1048576 and 9223372036854775807 inclusive"},
		{"unixsocketperm", "0700", "700", 0o700, ""},
		{"unixsocketperm", "9", "", 0, "argument couldn't be parsed as an octal number"},
		{"rocksdb.compression", "ZSTD", "zstd", 3, ""},
		{"rocksdb.compression", "gzip", "", 0, "argument(s) must be one of the following: no, snappy, lz4, zstd, zlib"},
		{"bgsave-cron", "0 3 * * *", "0 3 * * *", 0, ""},
		{"bgsave-cron", "0 3 * *", "", 0, "cron expression format error, should only contain 5x fields"},
		{"admin-listen", "127.0.0.1:0", "127.0.0.1:0", 0, ""},
		{"admin-listen", "", "", 0, ""},
		{"admin-listen", "127.0.0.1", "", 0, "must be HOST:PORT, such as 127.0.0.1:9121"},
		{"compaction-checker-range", "0-7", "0-7", 0, ""},
		{"compaction-checker-range", "7-0", "", 0,
			"cron expression format error: for pattern `l-r` in cron expression, r should be larger than l"},
		{"compaction-checker-range", "0 7", "", 0, "cron expression format error, should only contain 5x fields"},
		{"slaveof", "10.0.0.1 6666", "10.0.0.1 6666", 0, ""},
		{"slaveof", "NO ONE", "NO ONE", 0, ""},
		{"slaveof", "10.0.0.1", "", 0, "must be 'host port' or 'no one'"},
		{"slaveof", "10.0.0.1 x", "", 0, "the master's port must be between 1 and 65535"},
		{"rename-command", "KEYS", "", 0, "Invalid rename-command format"},
		{"rename-command", "", "", 0, "Invalid rename-command format"},
		{"rename-command", "a b c", "", 0, "Invalid rename-command format"},
		{"rename-command", "a b\n\nc d", "", 0, "Invalid rename-command format"},
		{"client-output-buffer-limit", "", "normal 0 0 0 slave 0 0 0 pubsub 0 0 0", 0, ""},
		{"client-output-buffer-limit", "NORMAL 1mb 2kb 3 replica 1k 1m 4 pubsub 1g 1gb 0",
			"normal 1048576 2048 3 slave 1000 1000000 4 pubsub 1000000000 1073741824 0", 1 << 20, ""},
		{"client-output-buffer-limit", "normal 1 2", "", 0, "Wrong number of arguments in buffer limit configuration."},
		{"client-output-buffer-limit", "foo 1 2 3", "", 0, "Invalid client class specified in buffer limit configuration."},
		{"client-output-buffer-limit", "normal -1mb 2 3", "", 0,
			"Error in hard, soft or soft_seconds setting in buffer limit configuration."},
		{"client-output-buffer-limit", "normal 1İ 2 3", "", 0,
			"Error in hard, soft or soft_seconds setting in buffer limit configuration."},
		{"client-output-buffer-limit", "normal 9999999999999999gb 2 3", "", 0,
			"Error in hard, soft or soft_seconds setting in buffer limit configuration."},
	} {
		s, _, ok := Find(c.name)
		if !ok {
			t.Fatalf("no setting %s", c.name)
		}
		v, err := s.Parse("", c.text)
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s %q: error is %v, not %s", c.name, c.text, err, c.err)
			}
		case err != nil || v.Text != c.want || v.Num != c.num:
			t.Errorf("%s %q: %+v, %v", c.name, c.text, v, err)
		}
	}
}
