// Package report shows the state of a server in the sections of INFO. Names and fields are Kvrocks's, and those of
// Redis that monitoring tools read.
package report

import (
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/session"
)

// KvrocksVersion is the version of Kvrocks whose data directory and commands this server implements.
const KvrocksVersion = "2.10.0"

// Options are what a Report tells of.
type Options struct {
	Config   *config.Config
	DB       *engine.DB
	Sessions *session.Shared
	Auth     *auth.Auth
	Work     *maintenance.Work
	Memory   *info.Memory
	Master   *master.Master
	Replica  *replica.Replica
	Cluster  *cluster.Map // nil = cluster-enabled is off

	Started    time.Time
	RunID      string
	Build      func() string // the version of this program
	Port       func() int
	Listeners  func() []string
	MaxClients func() int64
	DiskSize   func() uint64
}

// Report is the state of a server.
type Report struct {
	Options
	// Sections are those of INFO.
	Sections info.Sections
	// expiredBefore is what engine.DB.ExpiredKeys has returned at the last CONFIG RESETSTAT.
	expiredBefore atomic.Int64
}

func New(o Options) *Report {
	r := &Report{Options: o}
	r.Sections.Register(
		info.Section{Name: "Server", Fields: r.infoServer},
		info.Section{Name: "Clients", Fields: r.infoClients},
		info.Section{Name: "Memory", Fields: r.Memory.Fields},
		info.Section{Name: "Memory", Fields: r.infoMemory},
		info.Section{Name: "Persistence", Fields: r.infoPersistence},
		info.Section{Name: "Stats", Fields: r.infoStats},
		info.Section{Name: "Replication", Fields: r.infoReplication},
		info.Section{Name: "CPU", Fields: info.CPU},
		info.Section{Name: "Modules", Fields: func(*info.Writer, string) {}},
		info.Section{Name: "Commandstats", Fields: r.infoCommands},
		info.Section{Name: "Errorstats", Fields: r.infoErrors},
		info.Section{Name: "Latencystats", Fields: r.infoLatencies},
		info.Section{Name: "Cluster", Fields: r.infoCluster},
		info.Section{Name: "Keyspace", Fields: (&info.Keyspace{
			DB:        r.DB,
			Databases: r.Config.Databases,
			DiskSize:  func() uint64 { return r.DiskSize() },
			MaxSize:   func() int64 { return r.Config.Int("max-db-size") << 30 },
		}).Fields},
		info.Section{Name: "RocksDB", Fields: info.RocksDB{DB: r.DB}.Fields},
		info.Section{Name: "RocksDB", Fields: r.infoRocksDB},
	)
	return r
}

// ResetStats sets the counters to zero that are not of the sessions.
func (r *Report) ResetStats() {
	r.DB.Stats.Hits.Store(0)
	r.DB.Stats.Misses.Store(0)
	r.DB.Stats.ExpiredFields.Store(0)
	r.expiredBefore.Store(r.DB.ExpiredKeys())
	r.Master.ResetStats()
	r.Replica.ResetStats()
}
