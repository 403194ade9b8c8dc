package options

import (
	"math"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/memplan"
)

func load(t *testing.T, args ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(append([]string{"--dir", t.TempDir()}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestUnits: settings have units of their own.
func TestUnits(t *testing.T) {
	cfg := load(t, "--max-replication-mb", "3", "--max-replication-lag", "7", "--replication-send-timeout-ms", "1500",
		"--min-replicas-to-write", "2", "--min-replicas-max-lag", "4", "--migrate-batch-size-kb", "5",
		"--migrate-batch-rate-limit-mb", "6", "--migrate-type", "raw-key-value", "--max-db-size", "2",
		"--slowlog-log-slower-than", "250", "--replica-announce-port", "7000", "--tls-port", "0", "--max-io-mb", "9",
		"--client-output-buffer-limit", "normal 8 4 2")
	m := Master(cfg)
	if m.BytesPerSecond != 3*MiB || m.MaxLag != 7 || m.SendTimeout != 1500*time.Millisecond || m.MinReplicas != 2 ||
		m.MaxAckAge != 4*time.Second {
		t.Errorf("%+v", m)
	}
	g := Migration(cfg)
	if g.BatchBytes != 5<<10 || g.BatchRate != 6*MiB || !g.Raw {
		t.Errorf("%+v", g)
	}
	if w := Maintenance(cfg); w.MaxSize != 2<<30 {
		t.Errorf("%+v", w)
	}
	if d := Diagnostics(cfg); d.Slow != 250*time.Microsecond || d.Latency != -1 {
		t.Errorf("%+v", d)
	}
	if r := Replica(cfg, 6666); r.Port != 7000 || r.Writable {
		t.Errorf("%+v", r)
	}
	if got := WriteRate(cfg); got != 9*MiB {
		t.Errorf("%d bytes a second", got)
	}
	if l := OutputLimits(cfg).Normal; l.Hard != 8 || l.Soft != 4 || l.During != 2*time.Second {
		t.Errorf("%+v", l)
	}
	e := Engine(cfg, cfg.MemoryPlan(), nil)
	if e.Dir != cfg.DBDir() || e.Rocks.RateLimitBytes != 9*MiB || e.Replica {
		t.Errorf("%+v", e)
	}
}

// TestLittleMemory: defaults that would take most of a small memory are lowered, what was set is not.
func TestLittleMemory(t *testing.T) {
	for _, c := range []struct {
		memory                 uint64
		limits                 string // client-output-buffer-limit
		scripts                string // lua-memory-limit-mb
		waiting, whole, script int64
	}{
		{64 << 30, "", "", 256 * MiB, 8 << 30, 256 * MiB},
		{1 << 30, "", "", 128 * MiB, 256 * MiB, 256 * MiB},
		{256 * MiB, "", "", 32 * MiB, 64 * MiB, 64 * MiB},
		{256 * MiB, "normal 100000000 0 0", "200", 100_000_000, 64 * MiB, 200 * MiB},
		{256 * MiB, "", "0", 32 * MiB, 64 * MiB, 0}, // no limit
	} {
		var args []string
		if c.limits != "" {
			args = append(args, "--client-output-buffer-limit", c.limits)
		}
		if c.scripts != "" {
			args = append(args, "--lua-memory-limit-mb", c.scripts)
		}
		cfg, plan := load(t, args...), memplan.Plan{}
		plan.Memory.Bytes = c.memory
		waiting, whole := MaxReply(cfg, plan)
		script := ScriptMemory(cfg, plan)
		if waiting != c.waiting || whole != c.whole || script != c.script {
			t.Errorf("%+v: replies of %d and %d bytes, scripts of %d", c, waiting, whole, script)
		}
	}
}

// TestLongDurations: a value that stands for "never" is the longest duration, and not what its bits give.
func TestLongDurations(t *testing.T) {
	cfg := load(t, "--max-backup-keep-hours", "5124096", "--force-compact-file-age", "18446744074",
		"--latency-monitor-threshold", "18446744073710")
	if w := Maintenance(cfg); w.KeepFor != math.MaxInt64 || w.Checker.ForceAge != math.MaxInt64 {
		t.Errorf("backups are kept for %v, files are forced after %v", w.KeepFor, w.Checker.ForceAge)
	}
	if d := Diagnostics(cfg); d.Latency != math.MaxInt64 {
		t.Errorf("events are recorded from %v", d.Latency)
	}
}

// TestRoles: a replica needs no replicas of its own to write, and listens where it says.
func TestRoles(t *testing.T) {
	cfg := load(t, "--slaveof", "127.0.0.1 7000", "--min-replicas-to-write", "2", "--min-replicas-max-lag", "4")
	if m := Master(cfg); m.MinReplicas != 0 {
		t.Errorf("%+v", m)
	}
	if r := Replica(cfg, 6666); r.Port != 6666 {
		t.Errorf("%+v", r)
	}
	if !Engine(cfg, cfg.MemoryPlan(), nil).Replica {
		t.Error("the database is not opened as that of a replica")
	}
}

// TestNames: commands and users that the configuration names.
func TestNames(t *testing.T) {
	table, err := Commands(load(t))
	if err != nil || table != command.DefaultTable() {
		t.Errorf("without renames: %v", err)
	}
	table, err = Commands(load(t, "--rename-command", "KEYS ALLKEYS"))
	if err != nil || table.Lookup([]byte("keys")) != nil || table.Lookup([]byte("allkeys")) == nil {
		t.Errorf("renamed: %v", err)
	}
	if _, err := Commands(load(t, "--rename-command", "NOSUCH OTHER")); err == nil {
		t.Error("a command that does not exist was renamed")
	}
	users, err := Users(load(t, "--user", "bob on nopass +get"), command.ACLTable())
	if err != nil || len(users) != 1 || users[0].Name() != "bob" || !users[0].NoPass() {
		t.Errorf("%v, %v", users, err)
	}
	if _, err := Users(load(t, "--user", "bob +nosuch"), command.ACLTable()); err == nil {
		t.Error("a rule that does not exist was applied")
	}
}
