package server

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
	"github.com/basaltdb/basalt/server/pubsub"
	"github.com/basaltdb/basalt/server/replycache"
	"github.com/basaltdb/basalt/server/scripts"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// Shared is what all connections of a server share: the rooms that commands go through, and what connections know of
// each other. A connection knows nothing else of the server.
type Shared struct {
	db       *engine.DB
	log      *zap.Logger
	started  time.Time
	services command.Server // what handlers see of the server
	limits   limits
	stats    *metrics.Stats
	slowlog  metrics.SlowLog
	perflog  metrics.Log[command.PerfEntry]
	latency  metrics.Latency
	scripts  *scripts.Store
	auth     *auth.Auth
	hub      pubsub.Hub
	flusher  wire.Flusher // of messages to subscribers
	replies  replycache.Cache
	tracker  *tracking.Table
	events   atomic.Uint32 // command.EventClass: those that are wanted

	waiters   waitTable
	monitors  monitors
	observed  atomic.Pointer[observed]
	observing sync.Mutex   // held by those who replace it
	paused    atomic.Int64 // clients that wait for the end of CLIENT PAUSE

	mu      sync.Mutex
	conns   map[int64]*conn
	remote  atomic.Int64 // connections in conns from other machines
	lastID  atomic.Int64
	closing atomic.Bool    // set with mu held
	left    sync.WaitGroup // connections that are served
	runs    sync.Pool      // of *run

	failures   rateLimit
	handshakes rateLimit // of log lines about those that have failed
	browsers   rateLimit // of log lines about requests that a web browser has sent

	hooks
}

// hooks are what the server decides for its connections. All but route are set.
type hooks struct {
	// writable returns why a command with these flags, which writes, cannot run now, nil = it can.
	writable func(flags command.Flag) error
	// route returns the error that sends a client elsewhere with its command, nil = it runs here. It is the last
	// check of a command. nil = all commands run here.
	route func(spec *command.Spec, args [][]byte) error
	// refuse returns the reply to a client that is not let in, "" = it is. local: it is on this machine.
	refuse func(local bool) string
	// databases is redis-databases.
	databases func() int64
	// mayStoreNamespaces returns why the database must not get namespaces, nil = it may; refreshNamespaces is called when
	// it has got some.
	mayStoreNamespaces func() error
	refreshNamespaces  func()
	// replicating reports whether messages go to replicas, by replicateMessage.
	replicating      func() bool
	replicateMessage func(channel, payload []byte)
	// broadcasting hears that a client has begun to track keys in broadcasting mode, or has ended it.
	broadcasting func(on bool)
	// unpaused hears of the end of a pause. failingOver reports whether a failover has made the one that there is.
	unpaused    func()
	failingOver func() bool
}

// writeFailed logs a failed commit, not more often than once a second.
func (s *Shared) writeFailed(err error) {
	s.stats.WriteErrors.Add(1)
	if s.failures.allow(time.Second) {
		s.log.Error("a write failed", zap.Error(err), zap.Int64("failures", s.stats.WriteErrors.Load()))
	}
}

var errClosing = engine.NewError("ERR", "the server is shutting down")

// rateLimit lets something happen once in an interval.
type rateLimit struct{ last atomic.Int64 }

func (r *rateLimit) allow(every time.Duration) bool {
	now := time.Now().UnixNano()
	last := r.last.Load()
	return now-last >= int64(every) && r.last.CompareAndSwap(last, now)
}
