package setting

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// redisSettings are the settings of Redis 7.2.6 that nothing here corresponds to, with Redis's types, defaults and
// ranges. Clients and tools read and set them, so they are answered as by Redis; only loglevel, which stands for
// log-level, has an effect. Where a value would promise what this server does not do, it is refused with the reason.
//
// CONFIG REWRITE does not write them, and kvrocks.toml does not list them.
var redisSettings = []Setting{
	// Memory. Data lies on the disk.
	size("maxmemory", 0, 0, math.MaxInt64, dynamic),
	enum("maxmemory-policy", "noeviction", []string{"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
		"allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"}, dynamic),
	text("maxmemory-clients", "0", dynamic).check(checkClientMemory),
	integer("maxmemory-samples", 5, 1, maxInt, dynamic),
	integer("maxmemory-eviction-tenacity", 10, 0, 100, dynamic),
	integer("lfu-log-factor", 10, 0, maxInt, dynamic),
	integer("lfu-decay-time", 1, 0, maxInt, dynamic),
	boolean("lazyfree-lazy-eviction", "no", dynamic),
	boolean("lazyfree-lazy-expire", "no", dynamic),
	boolean("lazyfree-lazy-server-del", "no", dynamic),
	boolean("lazyfree-lazy-user-del", "no", dynamic),
	boolean("lazyfree-lazy-user-flush", "no", dynamic),
	boolean("activedefrag", "no", dynamic).only("no", "RocksDB's files have no fragments: COMPACT"),
	size("active-defrag-ignore-bytes", 100<<20, 1, math.MaxInt64, dynamic),
	integer("active-defrag-threshold-lower", 10, 0, 1000, dynamic),
	integer("active-defrag-threshold-upper", 100, 0, 1000, dynamic),
	integer("active-defrag-cycle-min", 1, 1, 99, dynamic),
	integer("active-defrag-cycle-max", 25, 1, 99, dynamic),
	integer("active-defrag-max-scan-fields", 1000, 1, math.MaxInt64, dynamic),
	integer("active-expire-effort", 1, 1, 10, dynamic),
	boolean("activerehashing", "yes", dynamic),
	boolean("jemalloc-bg-thread", "yes", dynamic),
	enum("oom-score-adj", "no", []string{"no", "yes", "relative", "absolute"}, dynamic).
		only("no", "the supervisor sets the score"),
	text("oom-score-adj-values", "0 200 800", dynamic).check(checkScores),
	boolean("disable-thp", "yes", fixed),

	// Encodings. There is one a type.
	integer("hash-max-listpack-entries", 512, 0, math.MaxInt64, dynamic).alias("hash-max-ziplist-entries"),
	size("hash-max-listpack-value", 64, 0, math.MaxInt64, dynamic).alias("hash-max-ziplist-value"),
	integer("list-max-listpack-size", -2, math.MinInt32, maxInt, dynamic).alias("list-max-ziplist-size"),
	integer("list-compress-depth", 0, 0, maxInt, dynamic),
	integer("set-max-intset-entries", 512, 0, math.MaxInt64, dynamic),
	integer("set-max-listpack-entries", 128, 0, math.MaxInt64, dynamic),
	integer("set-max-listpack-value", 64, 0, math.MaxInt64, dynamic),
	integer("zset-max-listpack-entries", 128, 0, math.MaxInt64, dynamic).alias("zset-max-ziplist-entries"),
	size("zset-max-listpack-value", 64, 0, math.MaxInt64, dynamic).alias("zset-max-ziplist-value"),
	integer("stream-node-max-entries", 100, 0, math.MaxInt64, dynamic),
	size("stream-node-max-bytes", 4096, 0, math.MaxInt64, dynamic),
	size("hll-sparse-max-bytes", 3000, 0, math.MaxInt64, dynamic),

	// Persistence. Every write is in the write-ahead log before it is answered; backups are checkpoints in backup-dir.
	enum("appendfsync", "no", []string{"everysec", "always", "no"}, dynamic).volatile(),
	text("appendfilename", "appendonly.aof", fixed),
	text("appenddirname", "appendonlydir", fixed),
	boolean("no-appendfsync-on-rewrite", "no", dynamic),
	integer("auto-aof-rewrite-percentage", 100, 0, maxInt, dynamic),
	size("auto-aof-rewrite-min-size", 64<<20, 0, math.MaxInt64, dynamic),
	boolean("aof-load-truncated", "yes", dynamic),
	boolean("aof-rewrite-incremental-fsync", "yes", dynamic),
	boolean("aof-timestamp-enabled", "no", dynamic),
	boolean("aof-use-rdb-preamble", "yes", dynamic),
	text("dbfilename", "dump.rdb", dynamic).protected().only("dump.rdb", "backups are directories in backup-dir"),
	boolean("rdbcompression", "yes", dynamic),
	boolean("rdbchecksum", "yes", fixed),
	boolean("rdb-del-sync-files", "no", dynamic),
	boolean("rdb-save-incremental-fsync", "yes", dynamic),
	boolean("stop-writes-on-bgsave-error", "yes", dynamic),
	enum("sanitize-dump-payload", "no", []string{"no", "yes", "clients"}, dynamic),
	text("shutdown-on-sigint", "default", dynamic).check(checkShutdown),
	text("shutdown-on-sigterm", "default", dynamic).check(checkShutdown),
	integer("shutdown-timeout", 10, 0, maxInt, dynamic),

	// Replication.
	integer("repl-backlog-ttl", 3600, 0, math.MaxInt64, dynamic),
	boolean("repl-disable-tcp-nodelay", "no", dynamic),
	enum("repl-diskless-load", "disabled", []string{"disabled", "on-empty-db", "swapdb"}, dynamic),
	boolean("repl-diskless-sync", "yes", dynamic),
	integer("repl-diskless-sync-delay", 5, 0, maxInt, dynamic),
	integer("repl-diskless-sync-max-replicas", 0, 0, maxInt, dynamic),
	integer("repl-ping-replica-period", 10, 1, maxInt, dynamic).alias("repl-ping-slave-period"),
	boolean("replica-announced", "yes", dynamic),
	boolean("replica-ignore-disk-write-errors", "no", dynamic),
	boolean("replica-ignore-maxmemory", "yes", dynamic).alias("slave-ignore-maxmemory"),
	boolean("replica-lazy-flush", "no", dynamic).alias("slave-lazy-flush"),
	enum("propagation-error-behavior", "ignore", []string{"ignore", "panic", "panic-on-replicas"}, dynamic),

	// Cluster.
	boolean("cluster-allow-pubsubshard-when-down", "yes", dynamic),
	boolean("cluster-allow-reads-when-down", "no", dynamic),
	boolean("cluster-allow-replica-migration", "yes", dynamic),
	integer("cluster-announce-bus-port", 0, 0, 65535, dynamic),
	text("cluster-announce-hostname", "", dynamic),
	text("cluster-announce-human-nodename", "", dynamic),
	text("cluster-announce-ip", "", dynamic),
	integer("cluster-announce-port", 0, 0, 65535, dynamic),
	integer("cluster-announce-tls-port", 0, 0, 65535, dynamic),
	text("cluster-config-file", "nodes.conf", fixed),
	size("cluster-link-sendbuf-limit", 0, 0, math.MaxInt64, dynamic),
	integer("cluster-migration-barrier", 1, 0, maxInt, dynamic),
	integer("cluster-node-timeout", 15000, 0, math.MaxInt64, dynamic),
	integer("cluster-port", 0, 0, 65535, fixed),
	enum("cluster-preferred-endpoint-type", "ip", []string{"ip", "hostname", "unknown-endpoint"}, dynamic),
	boolean("cluster-replica-no-failover", "no", dynamic).alias("cluster-slave-no-failover"),
	integer("cluster-replica-validity-factor", 10, 0, maxInt, dynamic).alias("cluster-slave-validity-factor"),
	boolean("cluster-require-full-coverage", "yes", dynamic),

	// Process and network.
	integer("hz", 10, 0, maxInt, dynamic),
	boolean("dynamic-hz", "yes", dynamic),
	integer("io-threads", 1, 1, 128, fixed),
	boolean("io-threads-do-reads", "no", fixed),
	text("server_cpulist", "", fixed),
	text("bio_cpulist", "", fixed),
	text("aof_rewrite_cpulist", "", fixed),
	text("bgsave_cpulist", "", fixed),
	text("bind-source-addr", "", dynamic),
	integer("socket-mark-id", 0, 0, math.MaxUint32, fixed),
	boolean("always-show-logo", "no", fixed),
	boolean("set-proc-title", "yes", fixed),
	text("proc-title-template", "{title} {listen-addr} {server-mode}", dynamic),
	text("locale-collate", "", dynamic).check(checkLocale),
	text("ignore-warnings", "", dynamic),
	boolean("crash-log-enabled", "yes", dynamic),
	boolean("crash-memcheck-enabled", "yes", dynamic),
	text("logfile", "", fixed),
	enum("loglevel", "notice", []string{"debug", "verbose", "notice", "warning", "nothing"}, dynamic),
	boolean("syslog-enabled", "no", fixed),
	text("syslog-ident", "redis", fixed),
	enum("syslog-facility", "local0", []string{"user", "local0", "local1", "local2", "local3", "local4", "local5",
		"local6", "local7"}, fixed),
	enum("enable-debug-command", "yes", []string{"no", "yes", "local"}, fixed),
	enum("enable-module-command", "no", []string{"no", "yes", "local"}, fixed),
	boolean("tls-cluster", "no", dynamic),
	text("tls-client-cert-file", "", dynamic),
	text("tls-client-key-file", "", dynamic),
	text("tls-client-key-file-pass", "", dynamic),
	text("tls-dh-params-file", "", dynamic),
}

// LogLevels maps the values of Redis's loglevel to those of log-level.
var LogLevels = map[string]string{"debug": "debug", "verbose": "info", "notice": "info", "warning": "warning",
	"nothing": "fatal"}

// only lets a setting be set to one value, because any other would promise what does not happen.
func (s Setting) only(value, reason string) Setting {
	return s.check(func(text string) error {
		if text != value {
			return errors.New(reason)
		}
		return nil
	})
}

var (
	errScores        = errors.New("must be three numbers from -2000 to 2000, in ascending order")
	errShutdown      = errors.New("argument(s) must be one of the following: " + strings.Join(shutdownWords, ", "))
	errShutdownTwice = errors.New("Invalid combination of save and nosave") //lint:ignore ST1005 the text is Redis's
)

// checkClientMemory checks maxmemory-clients: 0, a size, or a percentage of maxmemory.
func checkClientMemory(text string) error {
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		switch n, err := strconv.Atoi(digits); {
		case err != nil || n < 0:
			return errMemory
		case n > 100:
			return errors.New("percentage argument must be less or equal to 100")
		}
		text = digits
	}
	switch n, err := parseBytes(text); {
	case err != nil:
		return err
	case n != 0:
		return errors.New("clients are not evicted: client-output-buffer-limit limits each")
	}
	return nil
}

// checkScores checks oom-score-adj-values.
func checkScores(text string) error {
	words := strings.Fields(text)
	var scores []int
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n < -2000 || n > 2000 {
			return errScores
		}
		scores = append(scores, n)
	}
	if len(scores) != 3 || !slices.IsSorted(scores) {
		return errScores
	}
	return nil
}

// checkLocale checks locale-collate: only the locales in which strings are compared by their bytes.
func checkLocale(text string) error {
	if text != "" && text != "C" && text != "POSIX" {
		return errors.New("SORT ALPHA compares bytes, as in the locale C")
	}
	return nil
}

var shutdownWords = []string{"default", "save", "nosave", "now", "force"}

// checkShutdown checks shutdown-on-sigint and -sigterm: words.
func checkShutdown(text string) error {
	words := strings.Fields(strings.ToLower(text))
	for _, w := range words {
		if !slices.Contains(shutdownWords, w) || w == "default" && len(words) > 1 {
			return errShutdown
		}
	}
	if len(words) == 0 {
		return errShutdown
	}
	if slices.Contains(words, "save") && slices.Contains(words, "nosave") {
		return errShutdownTwice
	}
	return nil
}
