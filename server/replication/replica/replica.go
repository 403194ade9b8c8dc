// Package replica is the replica's side of Kvrocks's replication: it follows a master, applies the write batches of its
// log with the same sequence numbers, and replaces the database by a copy when the master's log lacks the next
// write. It also follows Redis masters, see package redislink.
package replica

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/fullsync"
	"github.com/basaltdb/basalt/server/replication/history"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/redistarget"
)

// Options are the options of [New]. All functions except Dial may be nil.
type Options struct {
	DB  *engine.DB
	Log *zap.Logger
	// Dir is the parent directory of the files of a full sync, <dir>/sync_checkpoint. It must be on the file system of
	// the database.
	Dir string
	// Dial connects to the master.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Committed is called after each write batch of the master, while the locks of its keys are held; see
	// [engine.DB.ApplyUpdates]. Applied is called with the same batches a little later, without locks.
	Committed func(tx *engine.Tx, b *engine.ExternalBatch)
	Applied   func(b *engine.ExternalBatch)
	// Replacing is called before the database is replaced. From then on, until its result is called, no reader of the
	// log may be open. Replaced is called afterwards, also after a failure.
	Replacing func() (resume func())
	Replaced  func()
	// Redis runs the commands of a Redis master; nil = following a Redis master is impossible.
	Redis redistarget.Commands
	// Changed is called when the link to the master has come up or gone down, and when it has been removed.
	Changed func()
}

// Settings are the settings of a Replica. They may change at any time, and take effect with the next connection. A link
// that is down connects at once after a change: the change may be the correction that the master waits for.
type Settings struct {
	User, Password string // masteruser, masterauth; "" = none
	DBName         string // must be equal on the master
	Port           int    // announced to the master
	Address        string // announced, "" = the address of the connection
	Writable       bool   // slave-read-only no: clients may write, too
	SendID         bool   // PSYNC sends the replication id (use-rsid-psync)
	EmptyFirst     bool   // the database is emptied before a full sync, to save space
}

// Replica follows one master or none. Several goroutines may call its methods, also while they hold locks of keys: no
// method waits for the link.
type Replica struct {
	o        Options
	settings atomic.Pointer[Settings]
	changed  chan struct{} // holds a token when the settings have changed since the last attempt to connect
	fulls    atomic.Int64  // successful full syncs
	received atomic.Int64  // bytes received from masters
	own      *ownWrites

	mu     sync.Mutex
	link   *link         // nil = no master
	ended  chan struct{} // closed when the previous link has ended
	closed bool
}

// New makes a replica without a master. It deletes what an earlier process has left of a full sync.
func New(o Options, s Settings) *Replica {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Committed == nil {
		o.Committed = func(*engine.Tx, *engine.ExternalBatch) {}
	}
	if o.Applied == nil {
		o.Applied = func(*engine.ExternalBatch) {}
	}
	if o.Replacing == nil {
		o.Replacing = func() func() { return func() {} }
	}
	for _, f := range []*func(){&o.Replaced, &o.Changed} {
		if *f == nil {
			*f = func() {}
		}
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		o.Log.Error("removing the files of an earlier full synchronisation failed", zap.Error(err))
	}
	r := &Replica{o: o, ended: make(chan struct{}), changed: make(chan struct{}, 1),
		own: openOwnWrites(filepath.Join(filepath.Dir(o.Dir), OwnWrites), o.Log)}
	close(r.ended)
	r.settings.Store(&s)
	return r
}

func (r *Replica) Set(s Settings) {
	if *r.settings.Swap(&s) == s {
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Follow makes the database the replica of a master, which replaces the previous one. It returns at once; transactions
// that hold locks are committed before the database refuses writes.
//
// written: clients may have written to the database before. Without replication ids a full sync then follows, also in
// the next process if this one ends before.
func (r *Replica) Follow(host string, port int, written bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.link != nil {
		r.link.stop()
	}
	if written {
		r.own.set(true)
	}
	l := &link{r: r, db: r.o.DB, host: host, port: port, written: written, before: r.ended, done: make(chan struct{})}
	l.log = r.o.Log.With(zap.String("master", l.addr()))
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.files = fullsync.New(fullsync.Options{Dir: r.o.Dir, Log: l.log, Meter: &l.meter, Dial: l.dial})
	l.downSince.Store(time.Now().UnixNano())
	r.link, r.ended = l, l.done
	go l.run()
}

// Lead records that the server begins as a master: clients may write to the database from now on.
func (r *Replica) Lead() { r.own.set(true) }

// HandOver records that another server, which this one will follow, has all that clients have written.
func (r *Replica) HandOver() { r.own.set(false) }

// Unfollow ends the link and makes the database writable again. It calls begin, for the id of a new history, at the
// moment when the master's replication id is no longer written and no client can have written yet.
func (r *Replica) Unfollow(begin func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link != nil {
		r.link.stop()
		r.link = nil
	}
	begin()
	r.own.set(true)
	r.o.DB.SetMaster() // from now on a link to a Redis master writes nothing
	// While the database is being replaced that is impossible, and left to the next Follow.
	if err := redistarget.Forget(r.o.DB); err != nil && !errors.Is(err, engine.ErrLoading) {
		r.o.Log.Error("deleting the position in the stream of a Redis master failed", zap.Error(err))
	}
	r.o.Changed()
}

// Disconnect closes the connection to the master, or to the master of an address unless it is empty; the link connects
// again. It reports whether there was such a connection.
func (r *Replica) Disconnect(addr string) bool {
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	if l == nil {
		return false
	}
	c := l.conn.Load()
	if c == nil || addr != "" && addr != l.addr() && addr != c.RemoteAddr().String() || !l.conn.CompareAndSwap(c, nil) {
		return false
	}
	l.log.Info("a client has closed the connection to the master")
	c.Conn.Close()
	return true
}

// Close ends the link and waits for its end. The database remains a replica's.
func (r *Replica) Close() {
	r.mu.Lock()
	r.closed = true
	if r.link != nil {
		r.link.stop()
	}
	ended := r.ended
	r.mu.Unlock()
	<-ended
}

// LinkState is the state of a link.
type LinkState uint32

// The states of a link, in their order.
const (
	Connecting LinkState = iota
	SendingAuth
	CheckingName
	SendingConf
	SendingPSync
	FetchingMeta  // of a full sync
	FetchingFiles // of a full sync
	LoadingRDB    // of a full sync with a Redis master
	Replacing     // of a full sync
	Connected
)

var linkStates = [...]string{"connecting", "authenticating", "checking db-name", "introducing itself", "psync",
	"fetching the list of files", "fetching files", "loading an RDB file", "replacing the database", "connected"}

func (s LinkState) String() string { return linkStates[s] }

// Syncing reports whether a full sync is running.
func (s LinkState) Syncing() bool { return s >= FetchingMeta && s <= Replacing }

// Status describes the link.
type Status struct {
	State     LinkState
	LastIO    time.Time // of the last data from the master; zero = none
	DownSince time.Time // zero = the link is up
	Err       string    // why the link went down or does not come up
	Sync      fullsync.Progress
	FullSyncs int64 // successful ones
	Redis     bool  // the master is a Redis
	Offset    int64 // the applied offset in the stream of a Redis master, otherwise the applied sequence number
}

// Status describes the link; ok is false when no master is followed.
func (r *Replica) Status() (s Status, ok bool) {
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	s.FullSyncs, s.Offset = r.fulls.Load(), int64(r.o.DB.LatestSequence())
	if l == nil {
		return s, false
	}
	s.State, s.Sync = LinkState(l.state.Load()), l.meter.Get(time.Now())
	if s.Redis = l.redis.Load(); s.Redis {
		s.Offset = l.offset.Load()
	}
	if at := l.lastIO.Load(); at != 0 {
		s.LastIO = time.Unix(0, at)
	}
	if at := l.downSince.Load(); at != 0 {
		s.DownSince = time.Unix(0, at)
	}
	if err := l.err.Load(); err != nil {
		s.Err = *err
	}
	return s, true
}

// Received returns the number of bytes received from masters since the start or ResetStats.
func (r *Replica) Received() int64 { return r.received.Load() }

// ResetStats sets the counter of received bytes to zero.
func (r *Replica) ResetStats() { r.received.Store(0) }

// Up reports whether no master is followed, or the link to the master is up.
func (r *Replica) Up() bool {
	s, ok := r.Status()
	return !ok || s.State == Connected
}

func (l *link) addr() string { return net.JoinHostPort(l.host, strconv.Itoa(l.port)) }

// Times between two connections.
const (
	retryLost  = time.Second      // the connection failed or was lost
	retryError = 10 * time.Second // the master or the replica cannot continue
)

// Reasons for the end of a link.
var (
	errNeedsFull = errors.New("a full synchronisation is needed")
	errName      = errors.New("the master has another db-name")
)

// run follows the master until the link is stopped. Per connection:
//
//	dial, AUTH, _db_name, REPLCONF --> PSYNC --+OK--> stream: batches are applied
//	  ^           |                       |              | it ends
//	  |           | unknown command: followRedis         |
//	  |                                   | -ERR         |
//	  |<- 1 s, 10 s, Set - an error       v              |
//	  |                                full sync --------+--> 1 s
//	  +------------------------------------+ at once
func (l *link) run() {
	defer close(l.done)
	<-l.before // its full sync must have ended
	if l.ctx.Err() != nil {
		return
	}
	if err := l.begin(); err != nil {
		l.log.Error("removing the files of an earlier full synchronisation failed", zap.Error(err))
	}
	for l.ctx.Err() == nil {
		select {
		case <-l.r.changed: // the attempt has these settings
		default:
		}
		err := l.once()
		if l.ctx.Err() != nil {
			break
		}
		renew := l.renew(err)
		if errors.Is(err, errNeedsFull) {
			if err = l.fullSync(); err == nil {
				l.full()
				continue
			}
		}
		if l.ctx.Err() != nil {
			break
		}
		l.down(err)
		wait := retryLost
		if _, permanent := errors.AsType[proto.Refused](err); permanent && !renew {
			wait = retryError
		}
		select {
		case <-l.ctx.Done():
		case <-l.r.changed:
		case <-time.After(wait):
		}
	}
	l.setState(Connecting)
	if err := l.files.Clear(); err != nil { // no other link goes on with them
		l.log.Error("removing the files of a full synchronisation failed", zap.Error(err))
	}
}

// begin makes the database a replica's, and drops what an earlier master has sent. It does nothing if Unfollow or
// another Follow was called while it waited for transactions: the database then belongs to a master again, or to the
// other link.
func (l *link) begin() error {
	begun := false
	l.db.SetReplica(func(set func(locked bool)) {
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		if begun = l.r.link == l; !begun {
			return
		}
		for s := (*Settings)(nil); s != l.r.settings.Load(); { // repeated until the settings have not changed meanwhile
			s = l.r.settings.Load()
			set(!s.Writable)
		}
		l.db.SetReplicationID("")
	})
	if !begun {
		return nil
	}
	if l.written { // the database is a replica's already, unless that was impossible
		if err := redistarget.Forget(l.db); err != nil {
			return err
		}
	}
	return l.files.Clear()
}

// renewEvery is the min time from a full sync for damage to the next one: what happens to a fresh copy may be due to
// the disk, or to the master's files.
const renewEvery = time.Hour

// renew makes a full sync follow if files of the database are damaged, so that it cannot apply what comes. It reports
// whether it did.
func (l *link) renew(err error) bool {
	if l.forceFull || !engine.IsDamage(err) && l.db.Stopped() == nil ||
		!l.renewed.IsZero() && time.Since(l.renewed) < renewEvery {
		return false
	}
	l.log.Error("the database of this replica is damaged: it is replaced by a copy of the master's", zap.Error(err))
	l.forceFull = true
	return true
}

// full records that a full sync has ended.
func (l *link) full() {
	l.r.fulls.Add(1)
	if l.forceFull {
		l.forceFull, l.renewed = false, time.Now()
	}
}

// down records that the link is down.
func (l *link) down(err error) {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil { // the port differs at each attempt
		text = strings.Replace(text, op.Source.String()+"->", "", 1)
	}
	was := LinkState(l.state.Load())
	if old := l.err.Load(); was == Connected || old == nil || *old != text {
		l.log.Warn("the link to the master is down", zap.Stringer("state", was), zap.String("error", text))
	}
	l.err.Store(&text)
	l.downSince.CompareAndSwap(0, time.Now().UnixNano())
	l.setState(Connecting)
}

func (l *link) setState(s LinkState) {
	old := LinkState(l.state.Swap(uint32(s)))
	if s == Connected {
		l.downSince.Store(0)
		l.err.Store(nil)
	}
	if (old == Connected) != (s == Connected) {
		l.r.o.Changed()
	}
}

// lastWritten returns the arguments of PSYNC: the sequence number after the last write, and the replication id of that
// write.
func (l *link) lastWritten() (id string, next uint64) {
	next = l.db.LatestSequence() + 1
	if !l.r.settings.Load().SendID || l.short {
		return "", next
	}
	id, _, err := history.IDBefore(l.db, next)
	if err != nil {
		l.log.Warn("the replication id cannot be read", zap.Error(err))
	}
	return id, next
}
