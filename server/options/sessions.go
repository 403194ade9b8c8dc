package options

import (
	"time"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/memplan"
	"github.com/basaltdb/basalt/server/config/setting"
	"github.com/basaltdb/basalt/server/session"
)

// Commands applies the lines of rename-command in order.
func Commands(cfg *config.Config) (*command.Table, error) {
	renames := cfg.Renames()
	if len(renames) == 0 {
		return command.DefaultTable(), nil
	}
	t := command.DefaultTable().Clone()
	for i, r := range renames {
		if err := t.Rename(r.Old, r.New); err != nil {
			return nil, cfg.RenameError(i, err)
		}
	}
	return t, nil
}

// Accounts returns the settings of the users and of the log of refusals.
func Accounts(cfg *config.Config) accounts.Options {
	return accounts.Options{
		File:        cfg.Text("aclfile"),
		AllChannels: cfg.Text("acl-pubsub-default") == "allchannels",
		LogEntries:  int(cfg.Int("acllog-max-len")),
	}
}

// Users returns the users declared by the configuration.
func Users(cfg *config.Config, t *acl.Table) ([]*acl.User, error) {
	var users []*acl.User
	for i, d := range cfg.Users() {
		u, err := t.Declare(d.Name, d.Rules, cfg.Text("acl-pubsub-default") == "allchannels")
		if err != nil {
			return nil, cfg.UserError(i, err)
		}
		users = append(users, u)
	}
	return users, nil
}

// DiagnosticNames are the settings of the slow log, the latency monitor and command statistics.
var DiagnosticNames = []string{"latency-tracking", "slowlog-log-slower-than", "slowlog-max-len",
	"latency-monitor-threshold", "profiling-sample-ratio", "profiling-sample-commands",
	"profiling-sample-record-threshold-ms", "profiling-sample-record-max-len", "tracking-table-max-keys"}

// Diagnostics returns what is measured of commands.
func Diagnostics(cfg *config.Config) session.Diagnostics {
	d := session.Diagnostics{
		Histograms: cfg.Bool("latency-tracking"),
		Slow:       time.Duration(cfg.Int("slowlog-log-slower-than")) * time.Microsecond, Latency: -1,
		SlowEntries:    int(cfg.Int("slowlog-max-len")),
		Profile:        cfg.Text("profiling-sample-commands"),
		ProfileRatio:   int(cfg.Int("profiling-sample-ratio")),
		ProfileLeast:   time.Duration(cfg.Int("profiling-sample-record-threshold-ms")) * time.Millisecond,
		ProfileEntries: int(cfg.Int("profiling-sample-record-max-len")),
	}
	if ms := cfg.Int("latency-monitor-threshold"); ms > 0 {
		d.Latency = durationOf(ms, time.Millisecond)
	}
	return d
}

// MaxReply returns how many bytes of replies may wait for a client, and how many bytes a reply may have that cannot
// leave in parts, if that is more: an eighth of the memory, and up to 256 MiB a quarter.
func MaxReply(cfg *config.Config, mem memplan.Plan) (waiting, whole int64) {
	total := int64(mem.Memory.Bytes)
	waiting = cfg.Int("client-output-buffer-limit")
	if cfg.AtDefault("client-output-buffer-limit") {
		waiting = min(waiting, total/8)
	}
	return waiting, max(total/8, min(total/4, 256*MiB))
}

// ScriptMemory returns by how many bytes the heap may grow while a script runs. A quarter of the memory is less than
// the default where that is all that Go has beyond its share: see [memplan.Plan.GoLimit].
func ScriptMemory(cfg *config.Config, mem memplan.Plan) int64 {
	n := cfg.Int("lua-memory-limit-mb") * MiB
	if cfg.AtDefault("lua-memory-limit-mb") {
		n = min(n, int64(mem.Memory.Bytes/4))
	}
	return n
}

// OutputLimits returns the limits of what waits for clients that do not read.
func OutputLimits(cfg *config.Config) *session.OutputLimits {
	limit := func(class setting.Class) session.OutputLimit {
		b := cfg.OutputLimits(class)
		return session.OutputLimit{Hard: int(b.Hard), Soft: int(b.Soft), During: time.Duration(b.Seconds) * time.Second}
	}
	return &session.OutputLimits{Normal: limit(setting.ClassNormal), PubSub: limit(setting.ClassPubSub)}
}
