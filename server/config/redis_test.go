package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config/setting"
)

// TestSettingsOfRedis holds what CONFIG GET answers against redis-server: every name of its is known and has its value,
// but for those that also Kvrocks has or that would be untrue.
func TestSettingsOfRedis(t *testing.T) {
	different := map[string]string{
		"repl-backlog-size":          "16777216", // in the form of the write batches, which are longer
		"appendfsync":                "no",       // rocksdb.write_options.sync
		"bind":                       "127.0.0.1",
		"client-output-buffer-limit": "normal 268435456 67108864 60 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		"databases":                  "1",
		"enable-debug-command":       "yes", // for administrators
		"slowlog-log-slower-than":    "100000",
		"tcp-keepalive":              "120",
		"tls-auth-clients":           "", // anything but no and optional is yes
		"unixsocketperm":             "777",
	}
	file := require.File(t, "testdata/redis-7.2.tsv")
	c := Default()
	n := 0
	for line := range strings.Lines(string(file)) {
		name, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		n++
		if other, ok := different[name]; ok {
			want = other
		}
		if have, ok := c.Get(name); !ok || have != want {
			t.Errorf("%s: have %q, %v; want %q", name, have, ok, want)
		}
	}
	if n < 190 {
		t.Errorf("only %d settings were compared", n)
	}
}

func TestSetRedis(t *testing.T) {
	const failed = "CONFIG SET failed (possibly related to argument "
	for _, c := range []struct {
		start, pairs, want string
	}{
		{"", "maxmemory 0", ""},
		{"", "maxmemory 10000001", ""},
		{"", "maxmemory-policy allkeys-lru", ""}, // without a maxmemory Redis evicts nothing either
		{"", "maxmemory-policy allkeys-lru maxmemory 1gb", failed + "'maxmemory-policy') - " + ErrEviction.Error()},
		{"maxmemory-policy allkeys-random", "maxmemory 1gb", failed + "'maxmemory') - " + ErrEviction.Error()},
		{"maxmemory-policy volatile-ttl", "maxmemory 1gb", ""},
		{"maxmemory 1gb", "maxmemory-policy allkeys-lfu", failed + "'maxmemory-policy') - " + ErrEviction.Error()},
		{"maxmemory 1gb", "maxmemory-policy lru", failed +
			"'maxmemory-policy') - argument(s) must be one of the following: " +
			"volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"},
		{"", "maxmemory-clients 0%", ""},
		{"", "maxmemory-clients 200%", failed + "'maxmemory-clients') - percentage argument must be less or equal to 100"},
		{"", "maxmemory-clients 10mb", failed +
			"'maxmemory-clients') - clients are not evicted: client-output-buffer-limit limits each"},
		{"", "maxmemory-clients x", failed + "'maxmemory-clients') - argument must be a memory value"},
		{"", "appendonly yes appendfsync no", ""}, // every write is in the log
		{"", "appendfsync always", failed + "'appendfsync') - " + errFsync.Error()},
		{"", "appendfsync everysec", failed + "'appendfsync') - " + errFsync.Error()},
		{"rocksdb.write_options.sync yes", "appendfsync always", ""},
		{"rocksdb.write_options.sync yes", "appendfsync no", failed + "'appendfsync') - " + errFsync.Error()},
		{"", "hash-max-ziplist-entries 0 zset-max-listpack-value 1kb list-max-listpack-size -5", ""},
		{"", "hash-max-listpack-entries 1 hash-max-ziplist-entries 2", failed +
			"'hash-max-ziplist-entries') - duplicate parameter"},
		{"", "list-compress-depth -1", failed +
			"'list-compress-depth') - argument must be between 0 and 2147483647 inclusive"},
		{"", "activedefrag yes", failed + "'activedefrag') - RocksDB's files have no fragments: COMPACT"},
		{"", "dbfilename x.rdb", failed + "'dbfilename') - backups are directories in backup-dir"},
		{"", "io-threads 4", failed + "'io-threads') - can't set immutable config"},
		{"", "io-threads 1 port 6666 dir /tmp/kvrocks backup-dir /tmp/kvrocks/backup", ""}, // as it is
		{"", "oom-score-adj no loglevel notice", ""},
		{"", "oom-score-adj yes", failed + "'oom-score-adj') - the supervisor sets the score"},
		{"", "loglevel debug", ""},
		{"", "loglevel info", failed +
			"'loglevel') - argument(s) must be one of the following: debug, verbose, notice, warning, nothing"},
		{"", "loglevel debug log-level debug", failed + "'log-level') - duplicate parameter"},
		{"", "log-level debug loglevel debug", failed + "'loglevel') - duplicate parameter"},
		{"", "loglevel debug loglevel notice", failed + "'loglevel') - duplicate parameter"},
		{"log-level error", "log-level error loglevel error", ""}, // as it is
		{"", "locale-collate C", ""},
		{"", "locale-collate de_DE.UTF-8", failed + "'locale-collate') - SORT ALPHA compares bytes, as in the locale C"},
		{"", "shutdown-on-sigint", "syntax error"},
		{"", "shutdown-on-sigint nosave,now", failed +
			"'shutdown-on-sigint') - argument(s) must be one of the following: default, save, nosave, now, force"},
		{"", "min-slaves-to-write 2", ""},
		{"", "lfu-log-factor 3 lazyfree-lazy-expire yes active-expire-effort 10 hz 100 stream-node-max-entries 0", ""},
	} {
		cfg, err := Load([]string{"-c", "-"}, strings.NewReader(c.start))
		require.NoError(t, err)
		have := ""
		if err := cfg.Set(strings.Fields(c.pairs)...); err != nil {
			have = err.Error()
		}
		if have != c.want {
			t.Errorf("%q %q:\n have %s\n want %s", c.start, c.pairs, have, c.want)
		}
	}
	for text, ok := range map[string]bool{"0 200 800": true, "-2000 0 2000": true, "0 800 200": false, "0 1": false,
		"0 1 x":    false,
		"0 1 2001": false} {
		if err := Default().Set("oom-score-adj-values", text); (err == nil) != ok {
			t.Errorf("oom-score-adj-values %q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"nosave now force": true, "default": true, "save nosave": false,
		"default now": false,
		"":            false, "later": false} {
		if err := Default().Set("shutdown-on-sigterm", text); (err == nil) != ok {
			t.Errorf("shutdown-on-sigterm %q: %v", text, err)
		}
	}
}

// TestRedisLogLevel sets the level of the log under Redis's name of it.
func TestRedisLogLevel(t *testing.T) {
	path := write(t, "a.conf", "")
	c, err := Load([]string{"-c", path}, nil)
	require.NoError(t, err)
	var told []string
	c.OnChange("log-level", func(_, level string) error { told = append(told, level); return nil })
	for _, pair := range []struct{ name, set, own, redis string }{
		{"loglevel", "WARNING", "warning", "warning"},
		{"loglevel", "verbose", "info", "verbose"},
		{"loglevel", "notice", "info", "notice"},
		{"loglevel", "nothing", "fatal", "nothing"},
		{"log-level", "error", "error", "error"},
		{"loglevel", "notice", "info", "notice"},
		{"log-level", "warning", "warning", "warning"},
		{"log-level", "fatal", "fatal", "nothing"},
		{"loglevel", "debug", "debug", "debug"},
	} {
		require.NoError(t, c.Set(pair.name, pair.set))
		own, _ := c.Get("log-level")
		redis, _ := c.Get("loglevel")
		if own != pair.own || redis != pair.redis {
			t.Errorf("%s %s: log-level is %s, loglevel %s", pair.name, pair.set, own, redis)
		}
	}
	if have := strings.Join(told, " "); have != "warning info fatal error info warning fatal debug" {
		t.Errorf("the log was told %s", have)
	}
	require.NoError(t, c.Rewrite())
	if text, _ := os.ReadFile(path); string(text) != "log-level debug\n" {
		t.Errorf("the file is %q", text)
	}
	_, err = Load([]string{"-c", "-"}, strings.NewReader("loglevel debug\n"))
	if err == nil || !strings.Contains(err.Error(), "the setting is log-level") {
		t.Errorf("loglevel in a file: %v", err)
	}
}

// TestRedisInFiles checks that Redis's settings may stand in a file, where the same is refused, and that CONFIG
// REWRITE adds none.
func TestRedisInFiles(t *testing.T) {
	_, err := Load([]string{"-c", "-"}, strings.NewReader("maxmemory 1gb\nmaxmemory-policy allkeys-lru\n"))
	if err == nil || !strings.Contains(err.Error(), "nothing is evicted") {
		t.Errorf("maxmemory with a policy: %v", err)
	}
	for _, file := range []string{"a.conf", "a.toml"} {
		path := write(t, file, "")
		c := load(t, "-c", path)
		require.NoError(t, c.Set("hz", "50", "maxmemory", "1gb", "timeout", "7"))
		require.NoError(t, c.Rewrite())
		text, _ := os.ReadFile(path)
		if !strings.Contains(string(text), "timeout") || strings.Contains(string(text), "hz") {
			t.Errorf("%s: %s", file, text)
		}
	}
}

// TestWarnings checks the line that lists what has no effect.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"workers 8\nsave ''\nmaxmemory 0\nmigrate-speed 4096", ""}, // defaults
		{"workers 2\nrocksdb.dump_malloc_stats no\nmaxmemory 1gb\nmaxclients 5\nWORKERS 4",
			"settings without effect here: workers, rocksdb.dump_malloc_stats, maxmemory"},
	} {
		cfg, err := Load([]string{"-c", "-"}, strings.NewReader(c.text))
		require.NoError(t, err)
		if have := strings.Join(cfg.Warnings(), "|"); have != c.want {
			t.Errorf("%q:\n have %q\n want %q", c.text, have, c.want)
		}
	}
}

// actsHere are the settings that have an effect although only this package knows their names.
var actsHere = map[string]string{
	"bind":                              "Config.Bind",
	"compaction-checker-range":          "stands for a compaction-checker-cron",
	"databases":                         "shows redis-databases",
	"enable-protected-configs":          "Config.SetFor",
	"log-dir":                           "Config.LogTargets",
	"memory-budget-mb":                  "Config.MemoryPlan",
	"redis-databases":                   "Config.Databases",
	"rename-command":                    "Config.Renames",
	"rocksdb.metadata_block_cache_size": "Config.MemoryPlan",
	"rocksdb.subkey_block_cache_size":   "Config.MemoryPlan",
	"loglevel":                          "sets log-level",
	"tcp-backlog":                       "Config.TCPBacklog",
	"tls-auth-clients-user":             "Config.CertificateUser",
}

// TestSettingsAct walks the table: code outside of this package names each setting, or the setting is marked as without
// effect. A setting with that mark must not be read.
func TestSettingsAct(t *testing.T) {
	named, read := map[string]bool{}, map[string]bool{}
	literal := regexp.MustCompile(`(\.(?:Text|Int|Bool|num|OnChange)\()?"([a-z][a-z0-9._-]+)"`)
	require.NoError(t, filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != "../.." && (strings.HasPrefix(name, ".") && name != ".." || name == "build" ||
				name == "third_party" || path == "../../server/config") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range literal.FindAllSubmatch(source, -1) {
			named[string(m[2])] = true
			if len(m[1]) > 0 {
				read[string(m[2])] = true
			}
		}
		return err
	}))
	for _, s := range setting.Table {
		acts := named[s.Name] || s.Alias != "" && named[s.Alias] || actsHere[s.Name] != ""
		switch {
		case s.Inert == "" && !acts:
			t.Errorf("%s: nobody reads it: say what for it is, or mark it as inert", s.Name)
		case s.Inert != "" && !s.Redis && (read[s.Name] || read[s.Alias]):
			t.Errorf("%s: it is read, but marked as inert (%s)", s.Name, s.Inert)
		}
	}
}
