package options

import (
	"cmp"
	"math"
	"time"

	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/replica"
)

// Limits of the age of a checkpoint that another replica may reuse, as in Kvrocks: half of the time for which the log
// is kept, within these limits.
const (
	shareLeast = 10 * time.Minute
	shareMost  = time.Hour
)

// durationOf returns a setting's value in a unit as a duration, or the longest duration if that is shorter.
func durationOf(n int64, unit time.Duration) time.Duration {
	if n > int64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// MasterNames are the settings that control how the server serves replicas.
var MasterNames = []string{"slave-read-only", "repl-backlog-size", "replication-send-timeout-ms", "repl-timeout",
	"max-replication-lag", "max-replication-mb", "min-replicas-max-lag", "min-replicas-to-write"}

// Master returns the settings of serving replicas.
func Master(cfg *config.Config) master.Settings {
	_, _, isReplica := cfg.Master()
	num := func(name string) int { return int(cfg.Int(name)) }
	m := master.Settings{
		BacklogBytes:   num("repl-backlog-size"),
		SendTimeout:    time.Duration(num("replication-send-timeout-ms")) * time.Millisecond,
		AckTimeout:     time.Duration(num("repl-timeout")) * time.Second,
		MaxLag:         uint64(num("max-replication-lag")),
		BytesPerSecond: int64(num("max-replication-mb")) * MiB,
		MaxAckAge:      time.Duration(num("min-replicas-max-lag")) * time.Second,
		NoLog:          cfg.Bool("rocksdb.write_options.disable_wal"),
		ShareFor:       min(max(time.Duration(num("rocksdb.wal_ttl_seconds"))*time.Second/2, shareLeast), shareMost),
	}
	// As in Redis, either setting disables the check, and a replica always accepts the writes of its master.
	if m.MaxAckAge > 0 && !isReplica {
		m.MinReplicas = num("min-replicas-to-write")
	}
	return m
}

// ReplicaNames are the settings that control how the server follows a master.
var ReplicaNames = []string{"masterauth", "masteruser", "replica-announce-ip", "replica-announce-port",
	"slave-read-only", "slave-empty-db-before-fullsync", "slave-serve-stale-data"}

// Replica returns the settings of following a master, for a server that listens on a port.
func Replica(cfg *config.Config, port int) replica.Settings {
	if tlsPort := int(cfg.Int("tls-port")); cfg.Bool("tls-replication") && tlsPort != 0 {
		port = tlsPort
	}
	return replica.Settings{
		User: cfg.Text("masteruser"), Password: cfg.Text("masterauth"), DBName: cfg.Text("db-name"),
		Port: cmp.Or(int(cfg.Int("replica-announce-port")), port), Address: cfg.Text("replica-announce-ip"),
		Writable: !cfg.Bool("slave-read-only"), SendID: cfg.Bool("use-rsid-psync"),
		EmptyFirst: cfg.Bool("slave-empty-db-before-fullsync"),
	}
}

// Migration returns the settings of slot migration.
func Migration(cfg *config.Config) source.Settings {
	return source.Settings{
		Raw: cfg.Text("migrate-type") == "raw-key-value", Gap: uint64(cfg.Int("migrate-sequence-gap")),
		Password: cfg.Text("requirepass"),
		Settings: carry.Settings{
			Speed: int(cfg.Int("migrate-speed")), Pipeline: int(cfg.Int("migrate-pipeline-size")),
			BatchBytes: int(cfg.Int("migrate-batch-size-kb")) << 10,
			BatchRate:  cfg.Int("migrate-batch-rate-limit-mb") << 20,
		},
	}
}

// Maintenance returns the settings of the background work.
func Maintenance(cfg *config.Config) maintenance.Settings {
	cron := func(name string) compaction.Cron {
		c, _ := compaction.ParseCron(cfg.Text(name)) // the configuration accepts only valid schedules
		return c
	}
	return maintenance.Settings{
		BackupDir:   cfg.Text("backup-dir"),
		KeepBackups: cfg.Int("max-backup-to-keep") > 0,
		KeepFor:     durationOf(cfg.Int("max-backup-keep-hours"), time.Hour),
		SaveCron:    cron("bgsave-cron"),
		CompactCron: cron("compact-cron"),
		ScanCron:    cron("dbsize-scan-cron"),
		Checker: compaction.Settings{
			Cron:            cron("compaction-checker-cron"),
			ForceAge:        durationOf(cfg.Int("force-compact-file-age"), time.Second),
			ForceMinDeleted: int(cfg.Int("force-compact-file-min-deleted-percentage")),
		},
		ExpiredPercent: int(cfg.Int("compact-expired-percentage")),
		MaxSize:        uint64(cfg.Int("max-db-size")) << 30,
	}
}
