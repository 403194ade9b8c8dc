// Package master is the master's side of Kvrocks's replication: it sends replicas the write batches of the log, which
// they apply with the same sequence numbers, and a checkpoint to those that lack more than the log contains. A failover
// passes the master's role to a replica.
//
// The wire format is in package proto. A Master knows neither commands nor sessions, which hand over their connections.
package master

import (
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/backlog"
	"github.com/basaltdb/basalt/server/replication/checkpoint"
	"github.com/basaltdb/basalt/server/replication/history"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/rdbsync"
)

// Link is a connection that a session has handed over. One goroutine may call Read, and another one Write.
type Link interface {
	io.ReadWriter
	// SetWriteDeadline sets the time by which the data given to Write must have been sent.
	SetWriteDeadline(t time.Time)
	// SendFile sends the next n bytes of a file, in place of Write.
	SendFile(f *os.File, n int64) error
	// Pending returns the number of bytes that were given to Write and have not been sent yet.
	Pending() int
	// Drain waits until everything was sent, or sending has become impossible.
	Drain()
	Close() error
	RemoteAddr() net.Addr
}

// Settings are the settings of a Master. They may change at any time. The zero value of a limit means no limit.
type Settings struct {
	BacklogBytes   int           // of the newest batches, in memory
	SendTimeout    time.Duration // a replica that takes nothing for so long is disconnected
	AckTimeout     time.Duration // so is a replica that has acknowledged before, but not for so long
	MaxLag         uint64        // so is a replica with a greater lag in sequence numbers that is still growing
	BytesPerSecond int64         // the rate of all full syncs together
	MinReplicas    int           // with fewer replicas that have acknowledged recently, writes are refused
	MaxAckAge      time.Duration // the max age of a recent acknowledgement
	NoLog          bool          // the database is written without a log
	ShareFor       time.Duration // the max age of a checkpoint that a further replica gets
}

// Options are the options of [New].
type Options struct {
	DB            *engine.DB
	Log           *zap.Logger
	CheckpointDir string          // deleted at the start, and created for full syncs
	RDB           rdbsync.Options // without a database and a log; no directory = SendRDB is not used
	// Acked is called when a replica has acknowledged more than before, and when a replica has disconnected. It may be
	// nil.
	Acked func()
	// Enough is called whenever the time changes until which enough good replicas exist to write, in nanoseconds since
	// the epoch; 0 = no replicas are needed.
	Enough func(until int64)
}

// Master serves replicas. Several goroutines may call its methods.
type Master struct {
	db       *engine.DB
	log      *zap.Logger
	acked    func()
	enough   func(until int64)
	settings atomic.Pointer[Settings]
	backlog  backlog.Backlog
	files    *checkpoint.Files
	copies   *rdbsync.Sender
	sending  limiter // of full syncs

	good    sync.Mutex // see countGood
	mu      sync.Mutex // guards changes of feeders; also held while Follow is called
	feeders atomic.Pointer[[]*feeder]
	links   map[Link]bool          // of full syncs
	heard   map[chan struct{}]bool // see hear
	lost    []position
	failing atomic.Pointer[failover] // stored while mu is held, except for nil
	closed  bool
	// suspended is the number of calls of Suspend that were not resumed. While it is not 0, links are refused.
	suspended int
	users     int       // links being served
	left      sync.Cond // users has decreased; uses mu
	// wantSync is the newest sequence number given to AskSync. Replicas that connect later are asked, too.
	wantSync atomic.Uint64
	work     sync.WaitGroup
	stop     chan struct{}

	syncFull atomic.Int64
	syncOK   atomic.Int64
	syncErr  atomic.Int64
	sent     atomic.Int64 // bytes sent to replicas, in streams and full syncs
}

// position is the sequence number from which a disconnected replica will need the log.
type position struct {
	next  uint64
	until time.Time
}

// lostKept is the time for which the log is kept for a disconnected replica, unless RocksDB keeps it longer anyway.
const lostKept = 10 * time.Minute

// New makes a master without replicas. The owner closes it before the database.
func New(o Options, s Settings) *Master {
	m := &Master{db: o.DB, log: o.Log, acked: o.Acked, enough: o.Enough, links: map[Link]bool{},
		heard: map[chan struct{}]bool{}, stop: make(chan struct{})}
	if m.log == nil {
		m.log = zap.NewNop()
	}
	if m.acked == nil {
		m.acked = func() {}
	}
	if m.enough == nil {
		m.enough = func(int64) {}
	}
	m.left.L = &m.mu
	m.feeders.Store(&[]*feeder{})
	m.files = checkpoint.New(o.DB, m.log, o.CheckpointDir)
	if o.RDB.Dir != "" {
		o.RDB.DB, o.RDB.Log = o.DB, m.log
		m.copies = rdbsync.New(o.RDB)
	}
	m.Set(s)
	m.work.Go(m.keepHouse)
	return m
}

// Set changes the settings.
func (m *Master) Set(s Settings) {
	m.settings.Store(&s)
	m.backlog.SetLimit(s.BacklogBytes)
	m.countGood()
}

// Close disconnects all replicas and waits for their end.
func (m *Master) Close() {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.stop)
	}
	m.mu.Unlock()
	if f := m.failing.Load(); f != nil {
		f.cancel(errStopped)
	}
	m.Disconnect(errStopped)
	m.mu.Lock()
	for m.users > 0 {
		m.left.Wait()
	}
	m.mu.Unlock()
	m.work.Wait()
	m.files.Remove()
}

// Reasons for disconnecting replicas.
var (
	errStopped  = errors.New("the server is being closed")
	errReplaced = errors.New("the database is being replaced")
	errSilent   = errors.New("it does not acknowledge any more (repl-timeout)")
	errLag      = errors.New("it is too far behind (max-replication-lag) and does not catch up")
	errPurged   = errors.New("the log does not contain the writes that it needs: it must synchronise in full")
)

// errNoLog is the reply of a master that has nothing to send.
const errNoLog proto.Error = "replication does not work with rocksdb.write_options.disable_wal"

// Disconnect disconnects all replicas, including those that fetch files.
func (m *Master) Disconnect(reason error) {
	m.mu.Lock()
	links := slices.Collect(maps.Keys(m.links))
	m.mu.Unlock()
	for _, f := range *m.feeders.Load() {
		f.end(reason)
	}
	for _, l := range links {
		l.Close()
	}
}

// Suspend disconnects all replicas, refuses new ones until resume is called, and waits until nothing reads the log or a
// checkpoint: the database is about to be replaced, perhaps by one with another history. State that belongs to the old
// database is dropped. A replica that connects meanwhile is told to try again.
func (m *Master) Suspend() (resume func()) {
	m.mu.Lock()
	m.suspended++
	m.mu.Unlock()
	m.Disconnect(errReplaced)
	m.mu.Lock()
	for m.users > 0 {
		m.left.Wait()
	}
	m.lost = nil
	m.mu.Unlock()
	m.files.Remove()
	m.backlog.Clear()
	return func() {
		m.mu.Lock()
		m.suspended--
		m.mu.Unlock()
	}
}

// Followed reports whether a replica reads the log or fetches files, or did so within the last ten minutes and will
// need the log when it connects again.
func (m *Master) Followed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(time.Now())
	return m.users > 0 || len(m.lost) > 0
}

// Peer is what a replica has announced.
type Peer struct {
	proto.Conf
	Remote string // its address, host:port
}

// Accept checks whether a replica can continue from its position. Its errors are the error replies of PSYNC.
func (m *Master) Accept(p proto.PSync) error {
	if err := m.enter(); err != nil {
		return err
	}
	err := m.accept(p)
	if (err == proto.ErrWrongID || err == proto.ErrOutOfRange) && p.Next > 0 {
		m.files.Want(min(p.Next-1, m.db.LatestSequence()))
	}
	m.exit()
	if err != nil {
		m.syncErr.Add(1)
	} else {
		m.syncOK.Add(1)
	}
	return err
}

func (m *Master) accept(p proto.PSync) error {
	if m.settings.Load().NoLog {
		return errNoLog
	}
	if p.ID != "" {
		id, known, err := history.IDBefore(m.db, p.Next)
		if err != nil {
			m.log.Warn("the replication id cannot be read", zap.Error(err))
		}
		if known && id != p.ID {
			return proto.ErrWrongID
		}
	}
	latest := m.db.LatestSequence()
	if p.Next == latest+1 {
		return nil
	}
	if p.Next == 0 || p.Next > latest {
		return proto.ErrOutOfRange
	}
	if _, behind := m.backlog.Take(p.Next); behind > p.Next {
		return nil
	}
	if err := m.inLog(p.Next); err != nil {
		m.log.Warn("a replica must synchronise in full: the log does not contain what it needs",
			zap.Uint64("next", p.Next), zap.Error(err))
		m.files.Lacks(p.Next)
		return proto.ErrOutOfRange
	}
	return nil
}

// inLog returns why the stream cannot begin in the log at a sequence number, which was written. A batch that begins
// earlier is sent in part: one batch of the log may have been sent as two.
func (m *Master) inLog(seq uint64) error {
	log, err := m.db.WAL(seq)
	if err != nil {
		return err
	}
	defer log.Close()
	rep, _, err := log.Next()
	if err == nil && rep == nil {
		err = engine.ErrWALGap
	}
	return err
}

// enter begins a use of the database: until exit, Suspend waits.
func (m *Master) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspended > 0 {
		return engine.ErrLoading
	}
	m.users++
	return nil
}

// exit ends what enter has begun.
func (m *Master) exit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave()
}

// Feed sends the replica at the other end of a link the batches from its position on, which Accept has accepted. It
// returns when the replica has disconnected or was disconnected, and the link is closed.
func (m *Master) Feed(link Link, peer Peer, p proto.PSync) {
	f := newFeeder(m, link, peer, p.Next)
	if !m.admit(f, p) {
		link.Close()
		return
	}
	m.log.Info("a replica is connected", zap.Stringer("replica", f), zap.Uint64("from", p.Next),
		zap.Uint64("behind", f.lag()))
	m.noteAck()
	go f.send()
	err := f.receive()
	f.end(err)
	<-f.sent
	m.detach(f)
	level := m.log.Warn
	if err := f.reason(); errors.Is(err, io.EOF) || errors.Is(err, errStopped) {
		level = m.log.Info
	}
	level("a replica is disconnected", zap.Stringer("replica", f), zap.Uint64("next", f.next.Load()),
		zap.Uint64("behind", f.lag()), zap.Error(f.reason()))
}

// admit attaches a feeder, unless its replica cannot continue from its position any more: since Accept the database may
// have been replaced by one with another history.
func (m *Master) admit(f *feeder, p proto.PSync) bool {
	if m.enter() != nil {
		return false
	}
	defer m.exit()
	if err := m.accept(p); err != nil {
		m.log.Info("a replica cannot continue any more", zap.Stringer("replica", f), zap.Error(err))
		return false
	}
	return m.attach(f)
}

func (m *Master) attach(f *feeder) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.suspended > 0 {
		return false
	}
	m.users++
	all := append(slices.Clone(*m.feeders.Load()), f)
	m.feeders.Store(&all)
	f.askSync(m.wantSync.Load())
	if len(all) == 1 {
		m.db.Follow(m.written)
	}
	m.countGood()
	return true
}

func (m *Master) detach(f *feeder) {
	m.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(*m.feeders.Load()), func(o *feeder) bool { return o == f })
	m.feeders.Store(&all)
	if len(all) == 0 {
		m.db.Follow(nil)
		m.backlog.Clear()
	}
	m.lose(f.needs(), time.Now())
	m.countGood()
	m.leave()
	m.mu.Unlock()
	m.noteAck()
}

// leave ends the service of a link. m.mu must be held.
func (m *Master) leave() {
	m.users--
	m.left.Broadcast()
}

// written is called with each write batch.
func (m *Master) written(seq uint64, rep []byte) {
	m.backlog.Add(seq, rep)
	for _, f := range *m.feeders.Load() {
		f.more()
	}
}

// Connected returns the number of connected replicas.
func (m *Master) Connected() int { return len(*m.feeders.Load()) }

// ReplicaState is the state of a connected replica.
type ReplicaState struct {
	IP     string // as announced, otherwise the remote address
	Port   int    // the port on which the replica listens, 0 = unknown
	Remote string // its address, host:port
	// Offset is the sequence number that the replica has acknowledged, or otherwise that of the newest write sent to
	// it.
	Offset uint64
	Acks   bool          // the replica acknowledges
	Age    time.Duration // the age of its last acknowledgement
}

// Replicas returns the connected replicas in the order of their connections.
func (m *Master) Replicas() []ReplicaState {
	var list []ReplicaState
	for _, f := range *m.feeders.Load() {
		list = append(list, f.state())
	}
	return list
}

// noteAck notifies those that wait for acknowledgements.
func (m *Master) noteAck() {
	m.mu.Lock()
	for c := range m.heard {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	m.mu.Unlock()
	m.acked()
}

// hear returns a channel that gets a value when a replica has connected or disconnected, or has acknowledged more than
// before, until stop is called.
func (m *Master) hear() (c <-chan struct{}, stop func()) {
	heard := make(chan struct{}, 1)
	m.mu.Lock()
	m.heard[heard] = true
	m.mu.Unlock()
	return heard, func() {
		m.mu.Lock()
		delete(m.heard, heard)
		m.mu.Unlock()
	}
}

// AwaitAcks waits until at least n replicas are connected, and all that acknowledge have acknowledged a sequence
// number. It reports whether they did so in time.
func (m *Master) AwaitAcks(seq uint64, n int, timeout time.Duration) bool {
	heard, stop := m.hear()
	defer stop()
	t := time.NewTimer(timeout)
	defer t.Stop()
	lacks := func(f *feeder) bool { return f.answers.Load() && f.acked.Load() < seq }
	for {
		if all := *m.feeders.Load(); len(all) >= n && !slices.ContainsFunc(all, lacks) {
			return true
		}
		m.AskAck(seq)
		select {
		case <-heard:
		case <-t.C:
			return false
		}
	}
}

// AckedBy returns the number of replicas that have acknowledged a sequence number.
func (m *Master) AckedBy(seq uint64) (n int) {
	for _, f := range *m.feeders.Load() {
		if f.acked.Load() >= seq {
			n++
		}
	}
	return n
}

// AskAck asks the replicas to acknowledge at once when they have a sequence number.
func (m *Master) AskAck(seq uint64) {
	for _, f := range *m.feeders.Load() {
		f.ask(seq)
	}
}

// SyncedBy returns the number of replicas that have acknowledged that a sequence number is on their disks.
func (m *Master) SyncedBy(seq uint64) (n int) {
	for _, f := range *m.feeders.Load() {
		if f.synced.Load() >= seq {
			n++
		}
	}
	return n
}

// AskSync asks the replicas to write a sequence number to their disks, and to acknowledge that.
func (m *Master) AskSync(seq uint64) {
	for old := m.wantSync.Load(); old < seq && !m.wantSync.CompareAndSwap(old, seq); old = m.wantSync.Load() {
	}
	for _, f := range *m.feeders.Load() {
		f.askSync(seq)
	}
}

// GoodReplicas returns the number of replicas that have acknowledged recently.
func (m *Master) GoodReplicas() (n int) {
	age := m.settings.Load().MaxAckAge
	for _, f := range *m.feeders.Load() {
		if s := f.state(); s.Acks && (age <= 0 || s.Age <= age) {
			n++
		}
	}
	return n
}

// countGood computes the time until which the present acknowledgements allow writes, and calls Enough.
func (m *Master) countGood() {
	m.good.Lock() // so that the newest result is the last one passed on
	defer m.good.Unlock()
	s := m.settings.Load()
	if s.MinReplicas <= 0 {
		m.enough(0)
		return
	}
	var acked []int64
	for _, f := range *m.feeders.Load() {
		if at := f.ackedAt.Load(); at != 0 {
			acked = append(acked, at)
		}
	}
	slices.Sort(acked)
	switch n := len(acked) - s.MinReplicas; {
	case n < 0:
		m.enough(1) // long ago
	case s.MaxAckAge <= 0:
		m.enough(math.MaxInt64)
	default:
		m.enough(acked[n] + int64(s.MaxAckAge))
	}
}

// Stats are counters of a master.
type Stats struct {
	SyncFull, SyncPartialOK, SyncPartialErr int64
	BacklogBytes                            int64  // bytes of batches in memory
	BacklogFirst                            uint64 // the sequence number of the oldest of these batches, 0 = none
}

// Stats returns the counters.
func (m *Master) Stats() Stats {
	return Stats{m.syncFull.Load(), m.syncOK.Load(), m.syncErr.Load(), m.backlog.Bytes(), m.backlog.First()}
}

// ResetStats sets the counters to zero.
func (m *Master) ResetStats() {
	m.syncFull.Store(0)
	m.syncOK.Store(0)
	m.syncErr.Store(0)
	m.sent.Store(0)
}

// Sent returns the number of bytes sent to replicas, in streams and full syncs.
func (m *Master) Sent() int64 { return m.sent.Load() }

// keepHouse does the periodic work: silent replicas, the log files that replicas need, checkpoints that no replica
// fetches.
func (m *Master) keepHouse() {
	every := m.db.KeepLogsEvery()
	step := time.Second
	if every > 0 {
		step = min(step, every)
	}
	t := time.NewTicker(step)
	defer t.Stop()
	var kept time.Time
	for {
		select {
		case <-m.stop:
			return
		case now := <-t.C:
			m.cutSilent(now)
			if next, ok := m.files.Expire(now); ok {
				m.mu.Lock()
				m.lose(next, now)
				m.mu.Unlock()
			}
			if every > 0 && now.Sub(kept) >= every {
				kept = now
				m.keepLogs(now)
			}
		}
	}
}

// cutSilent disconnects replicas that have stopped acknowledging. The kernel may accept data for a dead replica for a
// long time. An acknowledgement of the future came before the clock was set back, and counts as one of now: otherwise a
// replica that is gone would be a good one until the clock is there again.
func (m *Master) cutSilent(now time.Time) {
	most := m.settings.Load().AckTimeout
	for _, f := range *m.feeders.Load() {
		at := f.ackedAt.Load()
		switch {
		case at > now.UnixNano() && f.ackedAt.CompareAndSwap(at, now.UnixNano()):
			m.countGood()
		case most > 0 && at != 0 && now.UnixNano()-at > int64(most):
			f.end(errSilent)
		}
	}
}

// lose records the sequence number from which a disconnected replica will need the log. m.mu must be held.
func (m *Master) lose(next uint64, now time.Time) {
	m.forget(now)
	m.lost = append(m.lost, position{next, now.Add(lostKept)})
}

// forget drops replicas that were lost long ago. m.mu must be held.
func (m *Master) forget(now time.Time) {
	m.lost = slices.DeleteFunc(m.lost, func(p position) bool { return now.After(p.until) })
}

// keepLogs keeps the log files that connected replicas, replicas that fetch files, and recently lost replicas need.
func (m *Master) keepLogs(now time.Time) {
	oldest := m.files.Needs()
	for _, f := range *m.feeders.Load() {
		oldest = min(oldest, f.needs())
	}
	m.mu.Lock()
	m.forget(now)
	for _, p := range m.lost {
		oldest = min(oldest, p.next)
	}
	m.mu.Unlock()
	if oldest == math.MaxUint64 {
		return
	}
	if err := m.db.KeepLogs(oldest); err != nil {
		m.log.Warn("the log files that replicas need may be deleted", zap.Error(err))
	}
}
