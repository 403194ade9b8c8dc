// Package server is the RESP server: listeners, connections, the pipeline that runs commands, and the
// background work. The commands themselves are in package command.
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
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/metrics"
	"github.com/basaltdb/basalt/server/replication"
	"github.com/basaltdb/basalt/server/replycache"
	"github.com/basaltdb/basalt/server/scripts"
	"github.com/basaltdb/basalt/server/sweep"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// Server serves one database to Redis clients.
type Server struct {
	*Shared
	cfg      *config.Config
	runID    string
	plan     config.MemoryPlan
	info     info.Sections
	memory   info.Memory
	sweep    *sweep.Sweep
	work     *maintenance.Work
	master   *replication.Master        // for the replicas of this server
	replica  *replication.Replica       // follows the master, if there is one
	build    string                     // the version of this program
	diskSize func() uint64              // bytes of the database on disk
	tls      atomic.Pointer[tls.Config] // for new connections; nil = there is no TLS port

	admin     *admin.Door // nil = there is none
	listeners wire.Listeners
	stop      chan struct{}
	stopOnce  sync.Once
	shutdown  chan struct{} // closed when a client has sent SHUTDOWN
	downOnce  sync.Once
	wg        sync.WaitGroup
}

// New makes a server for an open database. The caller closes the database after Close.
func New(cfg *config.Config, db *engine.DB, log *zap.Logger) *Server {
	if log == nil {
		log = zap.NewNop()
	}
	s := &Server{cfg: cfg, stop: make(chan struct{}), shutdown: make(chan struct{}), runID: newRunID(),
		diskSize: db.DiskSize}
	s.Shared = &Shared{db: db, log: log, started: time.Now(), conns: map[int64]*conn{},
		stats: metrics.NewStats(), replies: replycache.New(db.Derived())}
	s.auth, s.sweep = s.newAuth(), s.newSweep()
	s.hooks = hooks{
		writable: s.limits.refuseWrite, refuse: s.refuse, databases: cfg.Databases,
		mayStoreNamespaces: cfg.MayStoreNamespaces, refreshNamespaces: s.refreshNamespaces,
		replicating:      func() bool { return s.master.Connected() > 0 },
		replicateMessage: s.replicate, broadcasting: s.sweep.Listen, unpaused: s.sweep.Wake,
		failingOver: func() bool { return s.master.FailoverState() != replication.NoFailover },
	}
	s.services = command.Server{
		DB: db, Table: command.DefaultTable(), Settings: settings{s}, Users: s.auth, Namespaces: auth.Namespaces{Auth: s.auth},
		Clients: clients{s.Shared}, PubSub: &s.hub, SlowLog: &s.slowlog, PerfLog: &s.perflog,
		Latency: &s.latency, Stats: s.stats, Debug: debugging{s}, Memory: &s.memory, Info: &s.info,
		Replication: s,
		KeysFlushed: s.keysFlushed,
	}
	s.openScripts(max(8, 2*runtime.GOMAXPROCS(0)))
	s.runs.New = func() any { return newRun(s.Shared) }
	s.stats.OnReset = func() {
		s.db.Stats.Hits.Store(0)
		s.db.Stats.Misses.Store(0)
	}
	s.tracker = tracking.New(tracking.Options{Observe: db.Observe, Slots: db.Slots(), Find: s.trackingPeer})
	s.limits.queued.Store(maxQueuedBytes)
	s.limits.handshake.Store(int64(10 * time.Second))
	s.limits.ending.Store(int64(2 * time.Second))
	s.plan = cfg.MemoryPlan()
	s.memory = info.Memory{
		DB:       db,
		Clients:  clients{s.Shared}.List,
		Scripts:  func() (int64, int64) { m := s.scripts.Memory(); return m.Scripts, m.Functions },
		DiskSize: func() uint64 { return s.diskSize() },
		Budget:   int64(s.plan.Budget),
	}
	s.memory.StartupRSS, _ = info.ResidentBytes()
	s.registerInfo()
	s.work = s.newWork()
	s.services.Maintenance = s.work
	s.startMaster()
	s.startReplica()
	s.follow()
	return s
}

// openScripts reads the scripts of the database, of which so many can run at once.
func (s *Server) openScripts(states int) {
	s.scripts = scripts.Open(scripts.Options{
		DB: s.db, Log: s.log, States: states,
		MemoryLimit: func() int64 { return s.cfg.Int("lua-memory-limit-mb") << 20 },
		TimeLimit:   func() time.Duration { return time.Duration(s.cfg.Int("lua-time-limit")) * time.Millisecond },
	})
	s.services.Scripts = s.scripts
}

// Listen opens the sockets that the settings name: every address of bind with port, or the socket that socket-fd passes
// on; every address of bind with tls-port; the Unix socket. The error begins with the setting that it is about.
func Listen(cfg *config.Config) (wire.Listeners, error) {
	return wire.Listen(wire.Addresses{
		FD: int(cfg.Int("socket-fd")), Hosts: cfg.Bind(), Port: cfg.Port(), TLSPort: int(cfg.Int("tls-port")),
		Unix: cfg.Text("unixsocket"), UnixPerm: uint32(cfg.Int("unixsocketperm")), Backlog: cfg.TCPBacklog(),
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

// Serve serves in the background what connects to the listeners, which it takes over.
func (s *Server) Serve(listeners wire.Listeners) error {
	if s.closing.Load() {
		listeners.Close()
		return errClosing
	}
	table, err := commandTable(s.cfg)
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
	s.listeners, s.services.Table = listeners, table
	s.work.CheckSize()
	if host, port, ok := s.followed(); ok {
		s.beginFollowing(host, port, false) // it was so when it was stopped, as far as anybody knows
	} else if err := s.beginHistory(true); err != nil {
		listeners.Close()
		return err
	}
	if err := s.openAdmin(); err != nil {
		listeners.Close()
		return err
	}
	for _, l := range s.listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	s.sample(time.Now())
	s.work.Start()
	return nil
}

// Addr returns the address of the first listener.
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

// Close stops accepting, lets the commands that run finish and their replies be sent, closes all connections
// and waits for the background work; compactions are cut short.
func (s *Server) Close() {
	s.stopOnce.Do(func() {
		s.Shared.close(time.Duration(s.limits.ending.Load()))
		close(s.stop)
		s.work.Stop()
		s.sweep.Stop()
		s.listeners.Close()
		if s.admin != nil {
			s.admin.Close()
		}
		s.replica.Close()
		s.master.Close()
		s.scripts.Stop()
		s.db.Interrupt()
	})
	s.left.Wait()
	s.wg.Wait()
	s.work.Wait()
	s.sweep.Wait()
}

// ShutdownRequested is closed when a client has sent SHUTDOWN.
func (s *Server) ShutdownRequested() <-chan struct{} { return s.shutdown }

// Shutdown asks the owner of the server to close it.
func (s *Server) Shutdown() { s.downOnce.Do(func() { close(s.shutdown) }) }

// SetBuild sets the version of this program that INFO shows. It must be called before Serve.
func (s *Server) SetBuild(version string) { s.build = version }

// newRunID makes the 40 hexadecimal digits that tell one run of a server from another.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
