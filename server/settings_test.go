package server_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/servertest"
)

// kvrocksSettings returns the rows of the table of Kvrocks's settings. The fields of a row are name, type, default,
// range, and "set" or "fixed".
func kvrocksSettings(t *testing.T) (rows [][]string) {
	t.Helper()
	data := require.File(t, "config/setting/testdata/kvrocks-2.10.tsv")
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(strings.TrimRight(line, "\n"), "\t"); line[0] != '#' && len(f) >= 5 {
			rows = append(rows, f)
		}
	}
	if len(rows) < 120 {
		t.Fatalf("only %d settings", len(rows))
	}
	return rows
}

// another returns a valid value of a setting that differs from its present value; "" if it has none for the type.
func another(kind, value, bounds string) string {
	switch kind {
	case "bool":
		if value == "yes" {
			return "no"
		}
		return "yes"
	case "enum", "multi":
		return ""
	case "string":
		return "x" + value
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	lo, hi, _ := strings.Cut(bounds, " ")
	low, _ := strconv.ParseInt(lo, 10, 64)
	if high, err := strconv.ParseInt(hi, 10, 64); err == nil && n+1 > high || n+1 < low {
		return strconv.FormatInt(max(low, n-1), 10)
	}
	return strconv.FormatInt(n+1, 10)
}

// TestSetEveryKvrocksSetting sets each setting that can be changed at run time in Kvrocks to another value and back, by
// CONFIG SET. Changes of the other settings must be refused.
func TestSetEveryKvrocksSetting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kvrocks.conf")
	text := "# every key\nport 0 # any\nbind 127.0.0.1\nlog-dir " + t.TempDir() + "\ndir " + t.TempDir() +
		"\nenable-protected-configs yes\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	cfg, err := config.Load([]string{"-c", path}, nil)
	require.NoError(t, err)
	s := server.New(cfg, enginetest.Open(t), zap.NewNop())
	require.NoError(t, s.Start())
	t.Cleanup(s.Close)
	c := (&servertest.Harness{Server: s}).Dial(t)
	// Values of settings that have a special format, or depend on other settings.
	values := map[string]string{
		"compact-cron": "0 3 * * *", "bgsave-cron": "0 3 * * *", "dbsize-scan-cron": "0 3 * * *",
		"compaction-checker-cron": "0 3 * * *", "compaction-checker-range": "", "log-level": "warning",
		"json-storage-format": "cbor", "migrate-type": "raw-key-value", "rocksdb.compression": "lz4", "requirepass": "",
		"proto-max-bulk-len":        "2097152",
		"rocksdb.write_buffer_size": "8",
		"timeout":                   "3600", // one second may be too little for this client
		"tls-protocols":             "TLSv1.2", "tls-auth-clients": "optional",
	}
	if got := c.Do("CONFIG", "SET", "rocksdb.enable_blob_files", "yes"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	changed := 0
	for _, row := range kvrocksSettings(t) {
		name, kind, mode := row[0], row[1], row[4]
		was, ok := cfg.Get(name)
		if !ok {
			t.Errorf("%s: unknown", name)
			continue
		}
		value, given := values[name]
		if !given {
			value = another(kind, was, row[3])
		}
		got := c.Do("CONFIG", "SET", name, value)
		if mode == "fixed" {
			if want := "-ERR CONFIG SET failed (possibly related to argument '" + name +
				"') - can't set immutable config\r\n"; got != want {
				t.Errorf("%s is fixed: %q", name, got)
			}
			continue
		}
		if name == "rocksdb.level_compaction_dynamic_level_bytes" {
			// As in Kvrocks, RocksDB refuses the change.
			if !strings.HasSuffix(got, "Option not changeable: level_compaction_dynamic_level_bytes\r\n") {
				t.Errorf("CONFIG SET %s %s: %q", name, value, got)
			}
			value = was
		} else if got != "+OK\r\n" {
			t.Errorf("CONFIG SET %s %s: %q", name, value, got)
			continue
		}
		if now, _ := cfg.Get(name); now != value {
			t.Errorf("%s is %q after it was set to %q", name, now, value)
		}
		if now, _ := cfg.Get(name); now != was {
			changed++
		}
		if got := c.Do("CONFIG", "SET", name, was); got != "+OK\r\n" {
			t.Errorf("CONFIG SET %s back to %q: %q", name, was, got)
		}
	}
	if changed < 80 {
		t.Errorf("only %d settings were changed", changed)
	}
	c.Want("CONFIG SET timeout 77 slowlog-max-len 5", "+OK\r\n")
	c.Want("CONFIG REWRITE", "+OK\r\n")
	data := require.File(t, path)
	if got := string(data); !strings.HasPrefix(got, text) || !strings.Contains(got, "\ntimeout 77\n") ||
		!strings.Contains(got, "\nslowlog-max-len 5\n") {
		t.Errorf("the file is now\n%s", got)
	}
}

// TestSettingsTakeEffect checks that CONFIG SET has an effect at once, for settings that no other test checks.
func TestSettingsTakeEffect(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	// CONFIG SET changes all settings or none: valid values beside an invalid one have no effect, in the server either.
	c.Want("CONFIG SET maxclients 5 proto-max-bulk-len 2mb timeout -1 client-query-buffer-limit 2mb",
		"-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and 2147483647 "+
			"inclusive\r\n")
	if h.MaxClients() == 5 || h.Sessions().Limits.Bulk.Load() == 2<<20 || h.Sessions().Limits.Query.Load() == 2<<20 {
		t.Error("a refused CONFIG SET has had an effect")
	}
	c.Want("CONFIG SET timeout 1 timeout 2",
		"-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter\r\n")
	c.Want("CONFIG SET maxclients 5 proto-max-bulk-len 2mb client-query-buffer-limit 2mb", "+OK\r\n")
	if h.MaxClients() != 5 || h.Sessions().Limits.Bulk.Load() != 2<<20 || h.Sessions().Limits.Query.Load() != 2<<20 {
		t.Error("CONFIG SET has had no effect")
	}
	// If the second change fails when it is applied, the first one is undone.
	clients, _ := server.OpenFiles(servertest.Config(t))
	c.Want("CONFIG SET timeout 9 maxclients 2000000000",
		"-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle "+
			"the specified number of clients, try with "+strconv.FormatInt(clients, 10)+"\r\n")
	if h.Sessions().Limits.Timeout.Load() != 0 {
		t.Errorf("the timeout is %d", h.Sessions().Limits.Timeout.Load())
	}
	c.Want("CONFIG SET json-max-nesting-depth 2", "+OK\r\n")
	if got := c.Do("JSON.SET", "j", "$", "[[[1]]]"); !strings.HasPrefix(got, "-ERR") {
		t.Errorf("json-max-nesting-depth: %q", got)
	}
	c.Want("CONFIG SET redis-cursor-compatible no", "+OK\r\n")
	for i := range 50 {
		c.Want("SET key:"+strconv.Itoa(i)+" v", "+OK\r\n")
	}
	if got := c.Do("SCAN", "0", "COUNT", "5"); !strings.HasPrefix(got, "*2\r\n$") || !strings.Contains(got, "\r\n_") {
		t.Errorf("redis-cursor-compatible no: %q", got)
	}
	c.Want("CONFIG SET redis-cursor-compatible yes", "+OK\r\n")
}
