package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
)

func TestInfo(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("SET a 1", "+OK\r\n")
	c.Want("GET a", "$1\r\n1\r\n")
	c.Want("GET b", "$-1\r\n")
	c.Want("INCR a", ":2\r\n")
	c.Want("HGET a f", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
	c.Want("GET", "-ERR wrong number of arguments for 'get' command\r\n")
	fields, sections := servertest.ParseInfo(t, c.Do("INFO"))
	want := "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Cluster Keyspace " +
		"RocksDB"
	all := strings.Replace(want, "Cluster", "Latencystats Cluster", 1)
	if got := strings.Join(sections, " "); got != want {
		t.Errorf("sections %s", got)
	}
	for name, pattern := range map[string]string{
		"redis_version": `7\.2\.0`, "kvrocks_version": `2\.10\.0`, "version": `2\.10\.0`, "redis_mode": "standalone",
		"kvrocks_mode": "standalone", "run_id": `[0-9a-f]{40}`, "tcp_port": h.Addr()[strings.LastIndex(h.Addr(),
			":")+1:], "process_id": strconv.Itoa(os.Getpid()),
		"uptime_in_seconds": `\d+`, "uptime_in_days": "0", "arch_bits": "64", "os": "Linux .*",
		"connected_clients": "1", "maxclients": `\d+`, "blocked_clients": "0",
		"listener0": `name=tcp,bind=127\.0\.0\.1,port=\d+`, "total_blocking_keys": "0", "total_blocking_keys_on_nokey": "0",
		"used_memory": `[1-9]\d+`, "used_memory_human": `[\d.]+[KMG]`, "used_memory_rss": `[1-9]\d+`, "maxmemory": "0",
		"used_memory_startup": `[1-9]\d+`, "loading": "0", "bgsave_in_progress": "0", "last_bgsave_status": "ok",
		"last_bgsave_time_sec": "-1", "total_connections_received": "1", "total_commands_processed": `[1-9]\d*`,
		"instantaneous_ops_per_sec": `\d+`, "total_net_input_bytes": `[1-9]\d*`, "total_net_output_bytes": `[1-9]\d*`,
		"keyspace_hits": `[1-9]\d*`, "keyspace_misses": `[1-9]\d*`, "total_error_replies": "2",
		"role": "master", "connected_slaves": "0", "master_repl_offset": `[1-9]\d*`,
		"used_cpu_sys": `\d+\.\d{6}`, "used_cpu_user": `\d+\.\d{6}`,
		"cmdstat_get":         `calls=2,usec=\d+,usec_per_call=[\d.]+,rejected_calls=1,failed_calls=0`,
		"cmdstat_hget":        `calls=1,usec=\d+,usec_per_call=[\d.]+,rejected_calls=0,failed_calls=1`,
		"errorstat_WRONGTYPE": "count=1", "errorstat_ERR": "count=1",
		"cluster_enabled": "0",
		"db0":             `keys=1,expires=0,avg_ttl=0,expired=0`, "sequence": `[1-9]\d*`, "used_disk_percent": ` \d+%`,
		"disk_capacity": `[1-9]\d*`, "estimate_keys[metadata]": `\d+`, "level0_file_limit_stop[default]": "0",
		"block_cache_usage": `\d+`, "block_cache_capacity": `[1-9]\d+`, "put_per_sec": `\d+`,
		"is_bgsaving": "no", "is_compacting": "no",
		"memtable_count_limit_stop[zset_score]": "0", "cur_mem_tables": `[1-9]\d+`, "num_background_errors": "0",
	} {
		if got, ok := fields[name]; !ok || !regexp.MustCompile("^"+pattern+"$").MatchString(got) {
			t.Errorf("%s is %q, want %s", name, got, pattern)
		}
	}
	for _, tt := range []struct{ command, sections string }{
		{"INFO keyspace", "Keyspace"},
		{"INFO KEYSPACE server", "Server Keyspace"},
		{"INFO nosuch", ""},
		{"INFO everything", all}, {"INFO ALL", all}, {"INFO default", want},
	} {
		if _, got := servertest.ParseInfo(t, c.Do(strings.Fields(tt.command)...)); strings.Join(got, " ") != tt.sections {
			t.Errorf("%s: sections %v", tt.command, got)
		}
	}
	if got := c.Do("INFO", "nosuch"); got != "$0\r\n\r\n" {
		t.Errorf("INFO nosuch: %q", got)
	}

	c.Want("CONFIG RESETSTAT", "+OK\r\n")
	fields, _ = servertest.ParseInfo(t, c.Do("INFO"))
	for _, name := range []string{"keyspace_hits", "total_error_replies", "total_connections_received"} {
		if fields[name] != "0" {
			t.Errorf("after CONFIG RESETSTAT %s is %s", name, fields[name])
		}
	}
	if fields["cmdstat_get"] != "" || fields["errorstat_ERR"] != "" {
		t.Error("CONFIG RESETSTAT kept statistics of commands or errors")
	}
}

func TestBackup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	h := servertest.Start(t, "backup-dir", dir, "max-backup-to-keep", "1", "max-backup-keep-hours", "24")
	c := h.Dial(t)
	started := c.Do("LASTSAVE")
	save := func() {
		t.Helper()
		c.Want("BGSAVE", "+Background saving started\r\n")
		servertest.Eventually(t, "the backup is made", func() bool { return !h.Work().Status().Saving })
	}
	c.Want("BGSAVE what", "-ERR syntax error\r\n")
	c.Want("SET k 1", "+OK\r\n")
	save()
	c.Want("SET k 2", "+OK\r\n")
	c.Want("SAVE", "+OK\r\n") // replaces the first backup
	c.Want("SET k 3", "+OK\r\n")
	if _, err := os.Stat(dir + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is left: %v", err)
	}
	if a, b := integer(t, started), integer(t, c.Do("LASTSAVE")); b < a {
		t.Errorf("LASTSAVE went from %d to %d", a, b)
	}
	iso := regexp.MustCompile(`^\$24\r\n\d{4}(-\d\d){2}T(\d\d:){2}\d\d[+-]\d{4}\r\n$`)
	if got := c.Do("LASTSAVE", "iso8601"); !iso.MatchString(got) {
		t.Errorf("LASTSAVE ISO8601: %q", got)
	}
	c.Want("LASTSAVE what", "-ERR syntax error\r\n")
	c.Want("LASTSAVE ISO8601 x", "-ERR wrong number of arguments for 'lastsave' command\r\n")
	old := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	err := old.View(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
		rec, err := tx.Load([]byte("k"), cf.TypeString)
		if string(rec.Tail) != "2" {
			t.Errorf("the backup holds %q", rec.Tail)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	old.Close()

	exists := func() bool { _, err := os.Stat(dir); return err == nil }
	c.Want("FLUSHBACKUP", "+OK\r\n")
	servertest.Eventually(t, "the backup is removed", func() bool { return !exists() })

	// A file with the name of the temporary directory is removed, and the backup succeeds.
	require.NoError(t, os.WriteFile(dir+".tmp", nil, 0o600))
	save()
	if !exists() {
		t.Error("a file in the way of the temporary directory is not removed")
	}
}

func TestCompact(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("SET k v", "+OK\r\n")
	c.Want("COMPACT", "+OK\r\n")
	servertest.Eventually(t, "the compaction ends", func() bool { return !h.Work().Status().Compacting })
	c.Want("GET k", "$1\r\nv\r\n")
}

func TestFlushAndSize(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	h.DB.WaitScans()
	info, _ := servertest.ParseInfo(t, c.Do("INFO", "keyspace"))
	if info["key_count"] != "exact" || info["key_count_error_bound"] != "0" || info["key_scan_unread_keys"] != "0" {
		t.Errorf("INFO keyspace: %v", info)
	}
	for _, tt := range []struct{ command, want string }{
		{"DBSIZE", ":0\r\n"},
		{"MSET a 1 b 2", "+OK\r\n"},
		{"DBSIZE", ":2\r\n"},
		{"DBSIZE SCAN", "+OK\r\n"},
		{"DBSIZE x", "-ERR wrong number of arguments for 'dbsize' command\r\n"},
		{"FLUSHDB what", "-ERR syntax error\r\n"},
		{"FLUSHALL ASYNC SYNC", "-ERR syntax error\r\n"},
		{"DBSIZE", ":2\r\n"},
		{"FLUSHDB async", "+OK\r\n"},
		{"DBSIZE", ":0\r\n"},
		{"SET a 1", "+OK\r\n"},
		{"FLUSHALL sync", "+OK\r\n"},
		{"GET a", "$-1\r\n"},
		{"DEBUG SLEEP 0", "+OK\r\n"},
		{"DEBUG what", "-ERR unknown subcommand or wrong number of arguments for 'what'. Try DEBUG HELP.\r\n"},
		{"DEBUG", "-ERR wrong number of arguments for 'debug' command\r\n"},
		{"DEBUG PROTOCOL map", "*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	now := time.Now().Unix()
	var sec, usec int64
	reply := strings.Split(c.Do("TIME"), "\r\n")
	sec, _ = strconv.ParseInt(reply[2], 10, 64)
	usec, _ = strconv.ParseInt(reply[4], 10, 64)
	if sec < now || sec > time.Now().Unix() || usec < 0 || usec >= 1e6 {
		t.Errorf("TIME: %q", reply)
	}
}

// integer returns the integer of an integer reply.
func integer(t *testing.T, reply string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(reply, ":"), "\r\n"), 10, 64)
	if err != nil {
		t.Fatalf("%q is not an integer reply", reply)
	}
	return n
}

// TestFlushToFiles: FLUSHMEMTABLE writes the memtables to files, and FLUSHBLOCKCACHE empties the block cache.
func TestFlushToFiles(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	files := func() int {
		props, err := h.DB.TableProperties(cf.Metadata)
		require.NoError(t, err)
		return len(props)
	}
	for i, flush := range []string{"FLUSHMEMTABLE", "FLUSHMEMTABLE async"} {
		c.Want(fmt.Sprintf("SET k%d v", i), "+OK\r\n")
		c.Want(flush, "+OK\r\n")
		if i == 0 && files() != 1 {
			t.Errorf("%s has left %d files", flush, files())
		}
	}
	servertest.Eventually(t, "there are two files", func() bool { return files() == 2 })
	c.Want("FLUSHMEMTABLE NOW", "-ERR parameter must be 'ASYNC'\r\n")
	c.Want("FLUSHMEMTABLE ASYNC x", "-ERR wrong number of arguments for 'flushmemtable' command\r\n")

	c.Want("FLUSHBLOCKCACHE", "+OK\r\n")
	empty, _, _ := h.DB.CacheUsage()
	c.Want("GET k0", "$1\r\nv\r\n")
	if used, _, _ := h.DB.CacheUsage(); used <= empty {
		t.Errorf("the block cache holds %d bytes after a read, and held %d when it was emptied", used, empty)
	}
	c.Want("FLUSHBLOCKCACHE", "+OK\r\n")
	if used, _, _ := h.DB.CacheUsage(); used > empty {
		t.Errorf("the block cache still holds %d bytes, %d when it was emptied before", used, empty)
	}
}

func TestClusterModes(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	for _, name := range []string{"READONLY", "READWRITE", "ASKING"} {
		c.Want(name, "+OK\r\n")
		c.Want(name+" x", "-ERR wrong number of arguments for '"+strings.ToLower(name)+"' command\r\n")
	}
}

// TestProtectedConfigs: CONFIG SET changes paths only if enable-protected-configs allows it.
func TestProtectedConfigs(t *testing.T) {
	const denied = "-ERR CONFIG SET failed (possibly related to argument 'backup-dir') - can't set protected config\r\n"
	for mode, want := range map[string]string{"no": denied, "yes": "+OK\r\n", "local": "+OK\r\n"} {
		h := servertest.Start(t, "enable-protected-configs", mode)
		c := h.Dial(t)
		c.Want("CONFIG SET timeout 7 backup-dir "+t.TempDir(), want)
		if timeout := h.Config().Int("timeout"); (timeout == 7) != (want == "+OK\r\n") {
			t.Errorf("%s: timeout is %d", mode, timeout)
		}
		far := command.Session{}
		err := h.Sessions().Services.Settings.Set(&far, []command.Setting{{Name: "backup-dir", Value: t.TempDir()}})
		if (err == nil) != (mode == "yes") {
			t.Errorf("%s, from another host: %v", mode, err)
		}
	}
}

// TestInfoOfSubscribers checks that a client with several subscriptions counts once.
func TestInfoOfSubscribers(t *testing.T) {
	h := servertest.Start(t)
	c, sub := h.Dial(t), h.Dial(t)
	sub.Do("SUBSCRIBE", "a")
	sub.Do("PSUBSCRIBE", "b*")
	fields, _ := servertest.ParseInfo(t, c.Do("INFO", "clients"))
	if fields["pubsub_clients"] != "1" {
		t.Errorf("pubsub_clients:%s", fields["pubsub_clients"])
	}
}

// INFO's JSON form has the values of its text, with their types.
func TestInfoAsJSON(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Do("SET", "k", "v")
	unwrap := func(reply string) string {
		_, body, _ := strings.Cut(reply, "\r\n")
		return strings.TrimSuffix(body, "\r\n")
	}
	for _, words := range []string{"INFO FORMAT JSON", "info server Format json", "INFO FORMAT json keyspace stats",
		"INFO all FORMAT JSON"} {
		got := unwrap(c.Do(strings.Fields(words)...))
		var sections map[string]map[string]any
		if err := json.Unmarshal([]byte(got), &sections); err != nil || len(sections) == 0 {
			t.Errorf("%s: %v in %q", words, err, got)
		}
		if server := sections["Server"]; server != nil && (server["redis_mode"] != "standalone" ||
			server["process_id"] != float64(os.Getpid())) {
			t.Errorf("%s: %v", words, server)
		}
	}
	if got := unwrap(c.Do("INFO", "cluster", "FORMAT", "JSON")); got != `{"Cluster":{"cluster_enabled":false}}` {
		t.Errorf("%q", got)
	}
	c.Want("INFO cluster FORMAT txt", "$30\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n")
	for _, words := range []string{"INFO FORMAT", "INFO FORMAT xml", "INFO server FORMAT"} {
		c.Want(words, "-ERR syntax error\r\n")
	}
}
