// Package server assembles a server from its packages: it opens listeners, starts a session for each connection,
// applies settings, and connects the packages to each other. Package session executes the commands.
package server

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/cluster/broadcast"
	"github.com/basaltdb/basalt/server/cluster/migration"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/memplan"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/metrics"
	"github.com/basaltdb/basalt/server/operators"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/redistarget"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/report"
	"github.com/basaltdb/basalt/server/scripts"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/sweep"
	"github.com/basaltdb/basalt/server/wire"
)

// Server serves one database to Redis clients.
type Server struct {
	cfg       *config.Config
	db        *engine.DB
	log       *zap.Logger
	sessions  *session.Shared
	auth      *auth.Auth
	plan      memplan.Plan
	report    *report.Report
	memory    info.Memory
	sweep     *sweep.Sweep
	work      *maintenance.Work
	master    *master.Master             // serves the replicas of this server
	replica   *replica.Replica           // follows the master, if any
	migration *migration.Node            // slot migration in a cluster
	cluster   *cluster.Map               // nil = cluster-enabled is off
	messages  *broadcast.Sender          // of publishers, to other nodes; nil = no cluster
	build     string                     // version of this program
	diskSize  func() uint64              // bytes of the database on disk
	tls       atomic.Pointer[tls.Config] // for new connections; nil = no TLS port

	maxClients atomic.Int64 // 0 = no limit

	admin     *admin.Door // nil = no admin listener
	listeners wire.Listeners
	stop      chan struct{}
	stopOnce  sync.Once
	shutdown  chan struct{} // closed by SHUTDOWN
	downOnce  sync.Once
	wg        sync.WaitGroup
}

// New returns a server for an open database. The caller must close the database after Close.
func New(cfg *config.Config, db *engine.DB, log *zap.Logger) *Server {
	if log == nil {
		log = zap.NewNop()
	}
	s := &Server{cfg: cfg, db: db, log: log, stop: make(chan struct{}), shutdown: make(chan struct{}),
		diskSize: db.DiskSize, plan: cfg.MemoryPlan()}
	s.auth = s.newAuth()
	s.sessions = session.NewShared(session.Options{
		DB: db, Log: log, Auth: s.auth, Scripts: s.openScripts(),
		Refuse: s.refuse, Databases: cfg.Databases,
		MayStoreNamespaces: cfg.MayStoreNamespaces, RefreshNamespaces: s.refreshNamespaces,
		Replicating:      func() bool { return s.master.Connected() > 0 },
		ReplicateMessage: s.replicate,
		Broadcasting:     func(on bool) { s.sweep.Listen(on) },
		Unpaused:         func() { s.sweep.Wake() },
		FailingOver:      s.failingOver,
	})
	s.sweep = s.newSweep()
	s.memory = info.Memory{
		DB:       db,
		Clients:  s.sessions.Services.Clients.List,
		Scripts:  func() (int64, int64) { m := s.sessions.Scripts.Memory(); return m.Scripts, m.Functions },
		DiskSize: func() uint64 { return s.diskSize() },
		Budget:   int64(s.plan.Budget),
		Dir:      cfg.Dir(),
		Anywhere: cfg.MayNamePaths,
	}
	s.memory.StartupRSS, _ = info.ResidentBytes()
	s.work = s.newWork()
	v := &s.sessions.Services
	v.Settings, v.Users, v.Namespaces, v.Scripts = settings{s}, s.auth, auth.Namespaces{Auth: s.auth}, s.sessions.Scripts
	v.Debug, v.Memory, v.Maintenance, v.Replication = debugging{s}, &s.memory, s.work, s
	s.startMaster()
	s.startReplica()
	s.newCluster()
	s.report = report.New(report.Options{
		Config: cfg, DB: db, Sessions: s.sessions, Auth: s.auth, Work: s.work, Memory: &s.memory, Master: s.master,
		Replica: s.replica, Cluster: s.cluster, Started: time.Now(), RunID: newRunID(),
		Build: func() string { return s.build }, Port: s.port, MaxClients: s.maxClients.Load,
		Listeners: func() []string { return s.listeners.Describe() },
		DiskSize:  func() uint64 { return s.diskSize() },
	})
	s.work.Every(metrics.SampleInterval, s.report.Sample)
	v.Info, s.sessions.Stats.OnReset = &s.report.Sections, s.report.ResetStats
	s.follow()
	return s
}

// openScripts loads the scripts of the database.
func (s *Server) openScripts() *scripts.Store {
	return scripts.Open(scripts.Options{
		DB: s.db, Log: s.log, States: max(8, 2*runtime.GOMAXPROCS(0)),
		MemoryLimit: func() int64 { return options.ScriptMemory(s.cfg, s.plan) },
		TimeLimit:   func() time.Duration { return time.Duration(s.cfg.Int("lua-time-limit")) * time.Millisecond },
	})
}

// Sessions returns the shared state of the sessions.
func (s *Server) Sessions() *session.Shared { return s.sessions }

// Listen opens the sockets that the settings name: every address of bind with port, or the inherited socket of
// socket-fd; every address of bind with tls-port; the Unix socket; the address of admin-listen. It refuses settings by
// which the server would be its own master. An error begins with the name of its setting.
func Listen(cfg *config.Config) (wire.Listeners, error) {
	if err := checkMaster(cfg); err != nil {
		return nil, err
	}
	return wire.Listen(wire.Addresses{
		FD: int(cfg.Int("socket-fd")), Hosts: cfg.Bind(), Port: cfg.Port(), TLSPort: int(cfg.Int("tls-port")),
		Unix: cfg.Text("unixsocket"), UnixPerm: uint32(cfg.Int("unixsocketperm")), Backlog: int(cfg.Int("tcp-backlog")),
		Admin: cfg.Text("admin-listen"),
	})
}

// Start is Listen and Serve.
func (s *Server) Start() error {
	l, err := Listen(s.cfg)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// Serve serves the connections of the listeners in the background. It takes ownership of the listeners, and closes them
// if it returns an error.
func (s *Server) Serve(listeners wire.Listeners) error {
	if s.sessions.Closing() {
		listeners.Close()
		return session.ErrClosing
	}
	table, err := options.Commands(s.cfg)
	if err != nil {
		listeners.Close()
		return err
	}
	if err := s.loadNamespaces(); err != nil {
		listeners.Close()
		return err
	}
	if err := s.loadUsers(); err != nil {
		listeners.Close()
		return err
	}
	if err := s.startTLS(listeners); err != nil {
		listeners.Close()
		return err
	}
	clients, door := listeners.CutAdmin()
	s.listeners, s.sessions.Services.Table = clients, table
	s.work.CheckSize()
	if err := s.startCluster(); err != nil {
		listeners.Close()
		return err
	}
	if host, port, ok := s.followed(); ok {
		s.beginFollowing(host, port, false) // what was written before it was stopped, a file tells
	} else {
		s.beginHistory()
		s.replica.Lead()
		if err := redistarget.Forget(s.db); err != nil {
			listeners.Close()
			return err
		}
	}
	s.admin = operators.Open(door, operators.Options{
		Config: s.cfg, DB: s.db, Log: s.log, Sessions: s.sessions, Auth: s.auth, Info: &s.report.Sections,
		Master: s.master, Replica: s.replica, Cluster: s.cluster,
	})
	for _, l := range s.listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	s.report.Sample(time.Now())
	s.work.Start()
	return nil
}

// Addr returns the address of the first listener, "" before Serve.
func (s *Server) Addr() string {
	if len(s.listeners) == 0 {
		return ""
	}
	return s.listeners[0].Addr().String()
}

// Addrs returns the addresses of all listeners.
func (s *Server) Addrs() []string {
	var all []string
	for _, l := range s.listeners {
		all = append(all, l.Addr().String())
	}
	return all
}

// Close stops accepting connections, lets running commands finish, sends their replies, closes all connections, and
// waits for the end of the background work. It cancels compactions. It may be called several times.
func (s *Server) Close() {
	s.stopOnce.Do(func() {
		s.sessions.Close()
		close(s.stop)
		s.work.Stop()
		s.sweep.Stop()
		s.listeners.Close()
		if s.admin != nil {
			s.admin.Close()
		}
		s.replica.Close()
		s.master.Close()
		if s.cluster != nil {
			s.messages.Close()
		}
		if s.migration != nil {
			s.migration.Close()
		}
		s.sessions.Scripts.Stop()
		s.db.Interrupt()
	})
	s.sessions.Wait()
	s.wg.Wait()
	s.work.Wait()
	s.sweep.Wait()
}

// ShutdownRequested returns a channel that SHUTDOWN closes.
func (s *Server) ShutdownRequested() <-chan struct{} { return s.shutdown }

// Shutdown asks the owner of the server to close it.
func (s *Server) Shutdown() { s.downOnce.Do(func() { close(s.shutdown) }) }

// SetBuild sets the version of this program that INFO shows. It must be called before Serve.
func (s *Server) SetBuild(version string) { s.build = version }

// newRunID returns 40 random hexadecimal digits that identify a run of the server.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
