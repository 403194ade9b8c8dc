// Package session runs the commands of clients. A session is one connection: its goroutine reads and decodes
// commands, checks them, takes the locks of their keys, calls their handlers, commits and replies.
//
// Shared is the common state of the sessions of a server, and all that the server sees of the sessions: Serve begins a
// session, and Close ends all of them.
package session

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
	"github.com/basaltdb/basalt/server/pubsub"
	"github.com/basaltdb/basalt/server/replycache"
	"github.com/basaltdb/basalt/server/scripts"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// Shared is the state that all sessions of a server share: the components that commands use, and what sessions know
// of each other. A session knows nothing else of the server.
type Shared struct {
	Options
	Services command.Server // what handlers see of the server; the server adds everything outside the sessions
	Limits   Limits
	Stats    *metrics.Stats
	Hub      pubsub.Hub
	Tracker  *tracking.Table

	started time.Time
	slowlog metrics.SlowLog
	perflog metrics.Log[command.PerfEntry]
	latency metrics.Latency
	flusher wire.Flusher // of messages to subscribers
	replies replycache.Cache
	events  atomic.Uint32 // command.EventClass: the wanted classes

	waiters   waitTable
	monitors  monitors
	observed  atomic.Pointer[observed]
	observing sync.Mutex   // held while observed is replaced
	paused    atomic.Int64 // clients that wait for the end of CLIENT PAUSE

	mu      sync.Mutex
	conns   map[int64]*conn
	remote  atomic.Int64 // connections in conns from other hosts
	lastID  atomic.Int64
	closing atomic.Bool    // set with mu held
	ends    atomic.Int64   // see ended: nanoseconds since the epoch, 0 = Close was not called
	left    sync.WaitGroup // connections that are served
	runs    sync.Pool      // of *run

	failures   rateLimit // of log lines about failed reads
	writes     writeFailures
	handshakes rateLimit // of log lines about failed TLS handshakes
	browsers   rateLimit // of log lines about requests of web browsers
}

// Options are what the sessions need from the server. All of them must be set, except Cluster.
type Options struct {
	DB      *engine.DB
	Log     *zap.Logger
	Auth    *auth.Auth
	Scripts *scripts.Store

	// Cluster is the topology by which commands are routed, nil = all commands run here.
	Cluster *cluster.Map
	// Refuse returns the reply to a client that is not accepted, "" = accepted. local: the client is on this host.
	Refuse func(local bool) string
	// Databases is redis-databases.
	Databases func() int64
	// MayStoreNamespaces returns why the database must not get namespaces, nil = it may. RefreshNamespaces is called
	// after namespaces were stored.
	MayStoreNamespaces func() error
	RefreshNamespaces  func()
	// Replicating reports whether messages go to replicas, by ReplicateMessage; fromMaster: the message comes from a
	// [Feed].
	Replicating      func() bool
	ReplicateMessage func(channel, payload []byte, fromMaster bool)
	// Broadcast passes a message of a client on to other nodes of a cluster, and reports whether it will come back through
	// the log of the master. nil = no cluster.
	Broadcast func(channel, payload []byte, shard bool) (returns bool)
	// Broadcasting is called when a client has begun or ended tracking in broadcasting mode.
	Broadcasting func(on bool)
	// Unpaused is called at the end of a pause. FailingOver reports whether the present pause belongs to a failover.
	Unpaused    func()
	FailingOver func() bool
}

// NewShared makes the common state of the sessions. The server adds to Services what sessions do not do themselves.
func NewShared(o Options) *Shared {
	s := &Shared{Options: o, started: time.Now(), conns: map[int64]*conn{}, Stats: metrics.NewStats(),
		replies: replycache.New(o.DB.Derived())}
	s.Services = command.Server{
		DB: o.DB, Table: command.DefaultTable(), Clients: clients{s}, PubSub: &s.Hub, SlowLog: &s.slowlog,
		Indexes: search.Open(o.DB, func(text string) { o.Log.Warn(text) }),
		PerfLog: &s.perflog, Latency: &s.latency, Stats: s.Stats, KeyspaceChanged: s.waiters.keyspaceChanged,
	}
	s.Tracker = tracking.New(tracking.Options{Observe: o.DB.Observe, Slots: o.DB.Slots(), Find: s.trackingPeer})
	s.Limits.Queued.Store(maxQueuedBytes)
	s.Limits.Handshake.Store(int64(10 * time.Second))
	s.Limits.Ending.Store(int64(2 * time.Second))
	s.runs.New = func() any { return newRun(s) }
	return s
}

// Serve begins a session for a connection, and takes the connection over. secure is the configuration of TLS, nil for a
// connection without TLS. Serve closes the connection and returns false when the server is being closed.
func (s *Shared) Serve(nc net.Conn, secure *tls.Config) bool {
	c := newConn(s, nc, s.lastID.Add(1))
	if secure != nil {
		c.wire.Encrypt(secure)
		c.shaking.Store(true)
	}
	if !s.add(c) {
		nc.Close()
		return false
	}
	go func() {
		defer s.left.Done()
		c.serve()
	}()
	return true
}

// Close lets running commands finish, and gives all clients some time to read their replies. Then the connections
// end: commands of a pipeline that have not begun by then are not run. Close does not wait for the end of the
// connections, Wait does.
func (s *Shared) Close() {
	grace := time.Duration(s.Limits.Ending.Load())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends.CompareAndSwap(0, time.Now().Add(grace).UnixNano())
	s.closing.Store(true)
	for _, c := range s.conns {
		c.stopWaiting() // before the deadlines: the owner of a detached connection asks why a read ended
		c.wire.Wake()   // wakes a waiting reader; running commands finish
		c.wire.SetWriteDeadline(time.Now().Add(grace))
	}
}

// ended reports whether the time that Close gives the clients is over.
func (s *Shared) ended() bool {
	at := s.ends.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

// Closing reports whether Close was called.
func (s *Shared) Closing() bool { return s.closing.Load() }

// Wait waits for the end of all sessions after Close.
func (s *Shared) Wait() { s.left.Wait() }

// Tick does the periodic work.
func (s *Shared) Tick(now time.Time) {
	s.forgetPause()
	if n, took := s.writes.ended(now, s.DB.LatestSequence); n > 0 {
		s.Log.Info("writes succeed again", zap.Int64("failures", n), zap.Duration("failed for", took))
	}
	if !s.Paused() { // in a pause nothing expires
		s.Tracker.Expire(now)
	}
}

// WriteFailed counts a failed commit. The first one is logged, and later ones whose error is another one, at most one a
// second. Tick logs the end. A write that came while the server became a replica has not failed: it was refused.
func (s *Shared) WriteFailed(err error) {
	if errors.Is(err, engine.ErrReplica) {
		return
	}
	n := s.Stats.WriteErrors.Add(1)
	if s.writes.failed(err.Error(), time.Now(), s.DB.LatestSequence()) {
		s.Log.Error("a write failed", zap.Error(err), zap.Int64("failures", n))
	}
}

// ErrClosing is the reply to commands that arrive after Close.
var ErrClosing = engine.NewError("ERR", "the server is shutting down")

// rateLimit allows an event once per interval.
type rateLimit struct{ last atomic.Int64 }

func (r *rateLimit) allow(every time.Duration) bool {
	now := time.Now().UnixNano()
	last := r.last.Load()
	return now-last >= int64(every) && r.last.CompareAndSwap(last, now)
}
