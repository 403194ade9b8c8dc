// Package source moves slots to another node: it sends what the database holds of them and what clients write
// meanwhile, lets writes pause at the end, and hands the slots over.
package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/pace"
	"github.com/basaltdb/basalt/server/cluster/migration/peer"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
)

// Errors of a migration; those with texts of Kvrocks go to clients.
var (
	ErrBusy      = engine.NewError("ERR", "There is already a migrating job")
	errNoLog     = engine.NewError("ERR", "slots cannot be migrated without the write-ahead log (disable_wal)")
	errClosed    = errors.New("the server stops")
	errNotCaught = errors.New("the log was not read to its end")
	errLongPause = errors.New("the last writes cannot be sent in the time for which writes may pause")
)

// Settings are those of the configuration, as they are now.
type Settings struct {
	carry.Settings
	Raw      bool   // migrate-type raw-key-value; commands otherwise
	Gap      uint64 // migrate-sequence-gap: how much may be missing when writes are forbidden
	Password string // for AUTH; "" = none
}

// Slots changes what this node does with commands for slots. See package cluster, whose Map has these methods.
type Slots interface {
	// Forbid refuses writes. When it returns none is under way. An error says that writes are not refused.
	Forbid(r cf.SlotRange) error
	// Allow is the end of Forbid.
	Allow(r cf.SlotRange)
}

// Target is where slots go.
type Target struct {
	ID   string
	Addr string // host:port
	// Leaving keeps that the target may have the slots soon; Stays is the end of that.
	Leaving func(r cf.SlotRange) error
	Stays   func(r cf.SlotRange)
	// Moved sends all commands for the slots there, also after a start of the server. When it is sure to do so it calls
	// first.
	Moved func(r cf.SlotRange, first func()) error
}

// Options are what a Source needs of the server.
type Options struct {
	DB       *engine.DB
	Slots    Slots
	Settings func() Settings
	Dial     func(ctx context.Context, addr string) (net.Conn, error) // nil = TCP
	Clock    pace.Clock                                               // nil = pace.Real
	Log      *zap.Logger
	// NoLog: writes do not go to the write-ahead log.
	NoLog bool
	// Step is called before each step of a migration: tests stop there. nil = [stage.Step].
	Step func(s stage.Stage)
	// Limits are asked for at the end of each migration. nil = [StandardLimits].
	Limits func() Limits
}

// Limits are how long each part of the pause of writes may take, at the end of a migration.
type Limits struct {
	// Rest is for the last writes. When they are not sent in that time writes are allowed again, and the end is tried
	// once more. A client that is told to try again does so for about a second (go-redis less, ioredis 1.6 s), and then
	// reports an error; usually the pause takes some milliseconds.
	Rest time.Duration
	// Answer is how long after that the destination may take to say that it has the slots.
	Answer time.Duration
	// Confirm is how long the destination may take to answer that it has heard that clients will come. It would ask by
	// itself otherwise, and they would be told to try again meanwhile.
	Confirm time.Duration
}

// StandardLimits are those of a server.
var StandardLimits = Limits{Rest: 500 * time.Millisecond, Answer: 500 * time.Millisecond,
	Confirm: 100 * time.Millisecond}

// Source moves slots away. There is one migration at a time.
type Source struct {
	opt Options
	mu  sync.Mutex
	job *job // that goes on
	// last is how the last one ended.
	last   Status
	closed bool
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	done   sync.WaitGroup

	telling sync.Mutex     // held while slots are revoked at a destination
	begun   map[string]int // how many migrations have begun to each address, guarded by telling
}

// Status is what is known of a migration.
type Status struct {
	Range  cf.SlotRange
	Target string // id
	State  State
}

// State is how a migration stands.
type State string

// The states, as CLUSTER INFO names them.
const (
	StateNone    State = "none"
	StateStarted State = "start"
	StateSuccess State = "success"
	StateFailed  State = "fail"
)

// New returns the source of migrations.
func New(opt Options) *Source {
	if opt.Clock == nil {
		opt.Clock = pace.Real{}
	}
	if opt.Dial == nil {
		opt.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if opt.Step == nil {
		opt.Step = stage.Step
	}
	if opt.Limits == nil {
		opt.Limits = func() Limits { return StandardLimits }
	}
	s := &Source{opt: opt, last: Status{State: StateNone}, begun: map[string]int{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

const dialTimeout = 5 * time.Second

// Migrate begins to move slots. done, which may be nil, is called once with the result.
func (s *Source) Migrate(r cf.SlotRange, to Target, done func(error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return engine.ErrClosed
	case s.opt.NoLog:
		return errNoLog
	case s.job != nil:
		return ErrBusy
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	j := &job{Options: &s.opt, slots: r, to: to, ctx: ctx, cancel: cancel, flushes: s.opt.DB.Flushes()}
	j.log = s.opt.Log.With(zap.Stringer("slots", r), zap.String("destination", to.Addr))
	s.job = j
	s.done.Go(func() {
		s.telling.Lock()
		s.begun[to.Addr]++
		generation := s.begun[to.Addr]
		s.telling.Unlock()
		err := j.run()
		cancel(nil)
		s.mu.Lock()
		s.job, s.last = nil, Status{r, to.ID, StateSuccess}
		if err != nil {
			s.last.State = StateFailed
		}
		s.mu.Unlock()
		if done != nil {
			done(err)
		}
		if err != nil && j.wasHanded && !j.told {
			s.revoke(j.slots, j.to.Addr, generation)
		}
	})
	return nil
}

// Ask asks a destination whether it has slots that a former process, or the former master, has handed over. void = it
// has not, and will not have; an error = it could not be asked.
func (s *Source) Ask(r cf.SlotRange, addr string) (void bool, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
	defer cancel()
	err = s.opt.askImported(ctx, addr, r)
	if peer.IsReply(err) {
		return true, nil
	}
	return false, err
}

// Revoke tells a destination, as soon as it can be told, that slots stay here.
func (s *Source) Revoke(r cf.SlotRange, addr string) {
	s.telling.Lock()
	generation := s.begun[addr]
	s.telling.Unlock()
	s.Beside(func() { s.revoke(r, addr, generation) })
}

// Beside runs a function that ends when the Source is closed.
func (s *Source) Beside(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.done.Go(f)
	}
}

const (
	revokeEvery = time.Second
	mostRevokes = 3600
)

// revoke does that unless a later migration to the destination has begun, which deletes first what is there.
func (s *Source) revoke(r cf.SlotRange, addr string, generation int) {
	once := func() (told bool) {
		s.telling.Lock()
		defer s.telling.Unlock()
		if s.begun[addr] != generation {
			return true
		}
		ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
		defer cancel()
		p, err := s.opt.dial(ctx, addr)
		if err != nil {
			return false
		}
		defer p.Close()
		_, err = p.Do("CLUSTER", "IMPORT", r.String(), "2")
		return err == nil || peer.IsReply(err)
	}
	for range mostRevokes {
		if s.opt.Clock.Sleep(s.ctx, revokeEvery) != nil || once() {
			return
		}
	}
}

// Dial makes a connection to another node, until Close.
func (s *Source) Dial(addr string) (*peer.Peer, error) { return s.opt.dial(s.ctx, addr) }

// Sleep waits, at most until Close.
func (s *Source) Sleep(d time.Duration) { s.opt.Clock.Sleep(s.ctx, d) }

// Closed reports whether Close was called.
func (s *Source) Closed() bool { return s.ctx.Err() != nil }

// Status returns how the present migration stands, or the last one has ended.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != nil {
		return Status{s.job.slots, s.job.to.ID, StateStarted}
	}
	return s.last
}

// Forget forgets how the last migration has ended: what the master of this node does now counts.
func (s *Source) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = Status{State: StateNone}
}

// Cancel ends the present migration, if wanted says so; it fails then. It does not wait.
func (s *Source) Cancel(why error, wanted func(r cf.SlotRange, target string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != nil && wanted(s.job.slots, s.job.to.ID) {
		s.job.cancel(why)
	}
}

// Close ends the present migration and waits for its end. It is to be called before the database is closed.
func (s *Source) Close() {
	s.mu.Lock()
	s.closed = true
	s.cancel(errClosed)
	s.mu.Unlock()
	s.done.Wait()
}

// job is one migration.
type job struct {
	*Options
	slots   cf.SlotRange
	to      Target
	ctx     context.Context
	cancel  context.CancelCauseFunc
	log     *zap.Logger
	flushes uint64 // how many flushes there were when it began

	peer    *peer.Peer
	base    *slotdata.Reader
	knows   *carry.Abilities
	way     *carry.To
	wal     *engine.Log
	carrier carry.Carrier
	leaving bool
	kept    time.Time // when the logs were last kept

	paused  sync.Mutex
	writes  writes      // guarded by paused
	resumes *time.Timer // ends the pause

	verified  bool // the destination does not serve the slots before it knows that clients are sent there
	wasHanded bool // the destination may have the slots
	told      bool // it knows that the migration has failed
}

// writes is whether clients may write.
type writes int

const (
	allowed   writes = iota
	forbidden        // until the pause is too long
	handed           // until it is known what the destination has done
)

// run migrates. Whatever fails, the slots stay here.
func (j *job) run() error {
	began := j.Clock.Now()
	j.log.Info("migrating slots", zap.Bool("raw", j.Settings().Raw))
	err := j.migrate()
	if j.wal != nil {
		j.wal.Close()
	}
	if j.base != nil {
		j.base.Close()
	}
	if err == nil {
		j.peer.Close()
		j.log.Info("migrated slots", zap.Duration("took", j.Clock.Now().Sub(began)))
		j.Step(stage.Done)
		return nil
	}
	doubt := j.wasHanded && !peer.IsReply(err)
	if cause := context.Cause(j.ctx); cause != nil {
		err = cause
	}
	j.log.Error("slots were not migrated", zap.Error(err))
	j.Step(stage.Failed)
	if doubt && errors.Is(err, errClosed) {
		return err // the next process asks the destination
	}
	j.allow(true)
	if j.leaving {
		j.to.Stays(j.slots)
	}
	j.tellFailed()
	return err
}

func (j *job) migrate() error {
	j.Step(stage.Start)
	if err := j.connect(); err != nil {
		return err
	}
	j.Step(stage.Snapshot)
	if err := j.sendSnapshot(); err != nil {
		return fmt.Errorf("sending the snapshot: %w", err)
	}
	j.Step(stage.Log)
	if err := j.catchUp(); err != nil {
		return fmt.Errorf("sending what was written meanwhile: %w", err)
	}
	if err := j.to.Leaving(j.slots); err != nil {
		return fmt.Errorf("keeping that the slots are leaving: %w", err)
	}
	j.leaving = true
	for try := 1; ; try++ {
		if err := j.catchUp(); err != nil { // what came while the replicas were waited for, or since the last try
			return fmt.Errorf("sending what was written meanwhile: %w", err)
		}
		err := j.end()
		if err == nil || !errors.Is(err, errLongPause) || try == mostPauses {
			return err
		}
		j.log.Warn("writes are allowed again: the end of the migration is tried once more", zap.Error(err))
	}
}

// mostPauses is how often the end is tried.
const mostPauses = 10

// end forbids writes, sends the last ones, and hands the slots over. With errLongPause writes are allowed again, and
// the destination is as it was before.
func (j *job) end() error {
	j.Step(stage.Forbidden)
	began := j.Clock.Now()
	if err := j.forbid(); err != nil {
		return fmt.Errorf("forbidding writes: %w", err)
	}
	j.Step(stage.Rest)
	j.way.Free = true
	end := j.DB.LatestSequence()
	if err := j.sendLog(end); err != nil {
		return fmt.Errorf("sending the last writes: %w", err)
	}
	if err := j.check(); err != nil {
		return err
	}
	j.Step(stage.Success)
	sent := j.Clock.Now()
	if !j.hand() {
		return errLongPause
	}
	if err := j.handOver(); err != nil {
		return fmt.Errorf("telling the destination that it has all: %w", err)
	}
	j.Step(stage.Moved)
	taken := j.Clock.Now()
	if err := j.to.Moved(j.slots, j.confirm); err != nil {
		// Clients are sent to the destination already: it is in force, but for a crash.
		j.log.Error("that the slots have moved is not on the disk", zap.Error(err))
	}
	now := j.Clock.Now()
	j.log.Info("writes of the slots have paused", zap.Duration("for", now.Sub(began)),
		zap.Duration("to send the last ones", sent.Sub(began)), zap.Duration("to hand over", taken.Sub(sent)),
		zap.Duration("to keep it", now.Sub(taken)))
	return nil
}

// allow allows writes, also those of slots that were handed over if that is wanted.
func (j *job) allow(evenHanded bool) {
	j.paused.Lock()
	defer j.paused.Unlock()
	if j.writes == forbidden || j.writes == handed && evenHanded {
		j.writes = allowed
		j.resumes.Stop()
		j.Slots.Allow(j.slots)
	}
}

// hand makes the pause last until allow(true), and reports whether it has lasted so far.
func (j *job) hand() bool {
	j.paused.Lock()
	defer j.paused.Unlock()
	if j.writes == allowed {
		return false
	}
	j.resumes.Stop()
	j.writes, j.wasHanded = handed, true
	return true
}

// handOver tells the destination that it has all. If its answer is lost it is asked again: it has the slots or does
// not, and as long as nobody knows, nobody may write here. When it cannot be asked within the limit, writes go on
// here; what it may have done is revoked as soon as it can be told.
func (j *job) handOver() error {
	deadline := time.Now().Add(j.Limits().Answer)
	j.peer.Until = deadline
	_, err := j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "1")
	if err != nil && !peer.IsReply(err) {
		j.log.Warn("the destination has not answered whether it has the slots: asking again", zap.Error(err))
	}
	for err != nil && !peer.IsReply(err) && time.Now().Before(deadline) {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		if err = j.askImported(ctx, j.to.Addr, j.slots); err != nil && !peer.IsReply(err) {
			j.Clock.Sleep(ctx, logRetry)
		}
		cancel()
	}
	return err
}

// confirm tells the destination that clients will come.
func (j *job) confirm() {
	if j.peer.Broken() || !j.verified {
		return
	}
	j.peer.Until = time.Now().Add(j.Limits().Confirm)
	j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "65")
}

// dial opens a connection to a destination.
func (o *Options) dial(ctx context.Context, addr string) (*peer.Peer, error) {
	return peer.Dial(ctx, o.Dial, addr, o.Settings().Password)
}

// askImported asks a destination, to which all was sent, whether it has slots. nil = it has; a [peer.Error] = it has
// not, and will not have.
func (o *Options) askImported(ctx context.Context, addr string, r cf.SlotRange) error {
	p, err := o.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Do("CLUSTER", "IMPORT", r.String(), "1")
	var e peer.Error
	switch {
	case !errors.As(err, &e):
		return err
	case strings.Contains(string(e), "belongs to me"): // the controller has given them away meanwhile
		return nil
	case !strings.HasPrefix(string(e), "ERR "), strings.Contains(string(e), "Slave can't"):
		return errors.New(string(e)) // it cannot say: it is loading, or no master yet
	}
	return err
}

// check returns why the migration is to end, nil = it goes on.
func (j *job) check() error {
	if err := context.Cause(j.ctx); err != nil {
		return err
	}
	if j.DB.Flushes() != j.flushes {
		return slotdata.ErrFlushed
	}
	if every := j.DB.KeepLogsEvery(); every > 0 && j.base != nil {
		if now := j.Clock.Now(); now.Sub(j.kept) >= every {
			j.kept = now
			next := j.base.Seq + 1
			if j.wal != nil {
				next = j.wal.Sequence()
			}
			return j.DB.KeepLogs(next)
		}
	}
	return nil
}

func (j *job) connect() (err error) {
	if j.peer, err = j.dial(j.ctx, j.to.Addr); err != nil {
		return err
	}
	if _, err := j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "0"); err != nil {
		return fmt.Errorf("beginning the import: %w", err)
	}
	// Kvrocks does not know that: it answers with an error.
	if _, err = j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "64"); err != nil && !peer.IsReply(err) {
		return err
	}
	j.verified = err == nil
	j.knows, err = carry.Ask(j.peer)
	return err
}

// sendSnapshot sends the keys of the slots.
func (j *job) sendSnapshot() error {
	fresh := func() *slotdata.Reader { return slotdata.NewReader(j.DB, j.Clock.Now().UnixMilli()) }
	j.base = fresh()
	if j.base.Seq == 0 && j.DB.LatestSequence() != 0 {
		return engine.ErrClosed
	}
	j.wal = j.DB.Log(j.base.Seq + 1)
	j.way = &carry.To{Ctx: j.ctx, Peer: j.peer, Knows: j.knows, Clock: j.Clock, Pace: &pace.Pace{Clock: j.Clock},
		Settings: func() carry.Settings { return j.Settings().Settings }, Check: j.check}
	began, n := j.Clock.Now(), 0
	count := func(*slotdata.Key) error {
		n++
		return j.check()
	}
	raw, files := j.Settings().Raw, false
	if raw && !j.knows.ApplyBatch {
		j.log.Info("the destination has no APPLYBATCH: the slots are migrated by commands")
		raw = false
	}
	if raw {
		s := carry.NewRaw(j.way, fresh)
		j.carrier = s
		var err error
		if files, err = s.BeginFiles(j.base, j.slots, j.log); err == nil && files {
			err = s.SendFiles(j.base, j.slots, count)
		}
		if err != nil {
			return err
		}
	} else {
		j.carrier = carry.NewMirror(j.way, j.base, fresh)
	}
	if !files {
		err := j.base.Each(j.slots, func(k *slotdata.Key) error {
			if err := count(k); err != nil {
				return err
			}
			return j.carrier.Snapshot(j.base, k)
		})
		if err != nil {
			return err
		}
	}
	if err := j.carrier.Flush(); err != nil {
		return err
	}
	j.log.Info("sent the snapshot of the slots", zap.Int("keys", n), zap.Duration("took", j.Clock.Now().Sub(began)))
	return nil
}

const (
	// mostRounds is how often the log is read to its end before writes are forbidden all the same.
	mostRounds = 10
	// shortPause is how long reading the rest of the log may take, by what the last round took.
	shortPause = 10 * time.Millisecond
	// logRetry is the time between two attempts to read from the log what it should have, logRetries how many there are.
	logRetry   = 10 * time.Millisecond
	logRetries = 100
)

// catchUp sends what was written since the snapshot, until little is missing.
func (j *job) catchUp() error {
	var perRecord time.Duration
	for round := 0; ; round++ {
		end := j.DB.LatestSequence()
		gap := end + 1 - j.wal.Sequence()
		near := gap <= j.Settings().Gap && (round > 0 || gap == 0)
		if near && time.Duration(gap)*perRecord <= shortPause || round == mostRounds {
			j.log.Info("read the log", zap.Int("rounds", round), zap.Uint64("missing", gap))
			return nil
		}
		began := j.Clock.Now()
		if err := j.sendLog(end); err != nil {
			return err
		}
		perRecord = j.Clock.Now().Sub(began) / time.Duration(max(gap, 1))
	}
}

// sendLog sends what the log says up to a sequence number, and returns when the destination has it.
func (j *job) sendLog(end uint64) error {
	var c slotdata.Changes
	c.Bounds(j.slots)
	for tries := 0; j.wal.Sequence() <= end; {
		if err := j.check(); err != nil {
			return err
		}
		rep, skip, err := j.wal.Next()
		switch {
		case err != nil:
			return err
		case rep == nil:
			if tries++; tries > logRetries {
				return errNotCaught
			}
			if err := j.Clock.Sleep(j.ctx, logRetry); err != nil {
				return err
			}
			continue
		}
		tries = 0
		c.Rep, c.Skip = rep, skip
		if err := j.carrier.Change(&c); err != nil {
			return err
		}
	}
	return j.carrier.Flush()
}

// forbid refuses writes, until the limit of the rest. Scripts that do not end may hold locks: it tries for some time.
func (j *job) forbid() (err error) {
	for range logRetries {
		if err := j.check(); err != nil {
			return err
		}
		j.paused.Lock()
		j.writes = forbidden
		j.resumes = time.AfterFunc(j.Limits().Rest, func() { j.allow(false) })
		j.paused.Unlock()
		if err = j.Slots.Forbid(j.slots); err == nil {
			j.paused.Lock()
			defer j.paused.Unlock()
			if j.writes == allowed { // since then
				j.Slots.Allow(j.slots)
			}
			return nil
		}
		j.allow(false)
		if err := j.Clock.Sleep(j.ctx, logRetry); err != nil {
			return err
		}
	}
	return err
}

// tellFailed lets the destination delete what it got. The connection may be in any state: a new one is opened. The end
// of the old one tells the destination as well.
func (j *job) tellFailed() {
	if j.peer == nil {
		return
	}
	usable := j.peer.Idle() && j.ctx.Err() == nil
	ctx, cancel := context.WithTimeout(context.Background(), peer.Timeout)
	defer cancel()
	if !usable {
		j.peer.Close()
		if j.ctx.Err() != nil && errors.Is(context.Cause(j.ctx), errClosed) {
			return // the server stops: it does not wait
		}
		p, err := j.dial(ctx, j.to.Addr)
		if err != nil {
			j.log.Warn("the destination was not told that the migration has failed", zap.Error(err))
			return
		}
		j.peer = p
	}
	defer j.peer.Close()
	_, err := j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "2")
	j.told = err == nil || peer.IsReply(err)
	if err != nil {
		j.log.Warn("the destination was not told that the migration has failed", zap.Error(err))
	}
}
