// Package source moves slots to another node. It sends the data of the slots and the writes that clients make
// meanwhile, pauses writes at the end, and hands the slots over.
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
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
	"github.com/basaltdb/basalt/server/cluster/peer"
)

// Errors of a migration. Clients see those with the texts of Kvrocks.
var (
	ErrBusy      = engine.NewError("ERR", "There is already a migrating job")
	errNoLog     = engine.NewError("ERR", "slots cannot be migrated without the write-ahead log (disable_wal)")
	errClosed    = errors.New("the server stops")
	errNotCaught = errors.New("the log was not read to its end")
	errLongPause = errors.New("the last writes cannot be sent in the time for which writes may pause")
	errOutrun    = errors.New("clients write faster than the writes can be sent")
)

// Settings are the current values of the configuration.
type Settings struct {
	carry.Settings
	Raw      bool   // migrate-type raw-key-value; false = commands
	Gap      uint64 // migrate-sequence-gap: the max number of missing sequence numbers when writes are forbidden
	Password string // for AUTH; "" = none
}

// Slots changes how this node treats commands for slots. The Map of package cluster implements it.
type Slots interface {
	// Forbid refuses writes. When it returns, no write is running. After an error writes are not refused.
	Forbid(r cf.SlotRange) error
	// Allow undoes Forbid.
	Allow(r cf.SlotRange)
}

// Target is the destination of a migration.
type Target struct {
	ID   string
	Addr string // host:port
	// Leaving records that the target may soon have the slots. Stays undoes that.
	Leaving func(r cf.SlotRange) error
	Stays   func(r cf.SlotRange)
	// Moved redirects all commands for the slots to the target, also after a restart of the server. It calls first when
	// the redirection is certain. After an error the slots are here.
	Moved func(r cf.SlotRange, first func()) error
}

// Options are what a Source needs of the server.
type Options struct {
	DB       *engine.DB
	Slots    Slots
	Settings func() Settings
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	Clock    pace.Clock // nil = pace.Real
	Log      *zap.Logger
	// NoLog: writes bypass the write-ahead log.
	NoLog bool
	// Step is called before each step of a migration, so that tests can stop it there. nil = [stage.Step].
	Step func(s stage.Stage)
	// Limits is called at the end of each migration. nil = [StandardLimits].
	Limits func() Limits
}

// Limits bound the parts of the pause of writes at the end of a migration.
type Limits struct {
	// Rest is the time for sending the last writes. When it has passed, writes are allowed again, and the end is tried
	// once more. Clients repeat a command that was answered with TRYAGAIN for about a second (go-redis less, ioredis
	// 1.6 s) and then report an error. The pause usually takes some milliseconds.
	Rest time.Duration
	// Answer is the time, after Rest, for the destination to confirm that it has the slots.
	Answer time.Duration
	// Confirm is the time for the destination to answer that it knows that clients are redirected. Without that message
	// the destination would ask by itself, and answer clients with TRYAGAIN meanwhile.
	Confirm time.Duration
}

// StandardLimits are the limits of a server.
var StandardLimits = Limits{Rest: 500 * time.Millisecond, Answer: 500 * time.Millisecond,
	Confirm: 100 * time.Millisecond}

// Source moves slots to other nodes, one migration at a time.
type Source struct {
	opt Options
	mu  sync.Mutex
	job *job // the current migration
	// last is the result of the last migration.
	last   Status
	closed bool
	ctx    context.Context // canceled by Close
	cancel context.CancelCauseFunc
	done   sync.WaitGroup

	telling sync.Mutex     // held while a destination is told that its slots are revoked
	begun   map[string]int // number of migrations begun to each address; telling must be held
}

// Status describes the current or the last migration.
type Status struct {
	Range  cf.SlotRange
	Target string // id of the destination
	State  State
}

// State is the state of a migration.
type State string

// The states, with the names that CLUSTER INFO shows.
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

const askTimeout = 5 * time.Second

// Migrate begins to move slots. done, unless it is nil, is called once with the result.
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

// Ask asks a destination whether it has slots that an earlier process, or the former master, has handed over. void: the
// destination does not have them, and will not get them from that migration. An error means that the destination could
// not be asked.
func (s *Source) Ask(r cf.SlotRange, addr string) (void bool, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
	defer cancel()
	err = s.opt.askImported(ctx, addr, r)
	if peer.IsReply(err) {
		return true, nil
	}
	return false, err
}

// Revoke tells a destination, as soon as it can be reached, that this node keeps the slots.
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

// revoke sends the message of Revoke, unless a later migration to the same destination has begun: that one first
// deletes what the destination has.
func (s *Source) revoke(r cf.SlotRange, addr string, generation int) {
	once := func() (told bool) {
		s.telling.Lock()
		defer s.telling.Unlock()
		if s.begun[addr] != generation {
			return true
		}
		ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
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

// Dial connects to another node. The connection lasts at most until Close.
func (s *Source) Dial(addr string) (*peer.Peer, error) { return s.opt.dial(s.ctx, addr) }

// Sleep waits for d, at most until Close.
func (s *Source) Sleep(d time.Duration) { s.opt.Clock.Sleep(s.ctx, d) }

// Closed reports whether Close was called.
func (s *Source) Closed() bool { return s.ctx.Err() != nil }

// Status returns the state of the current or the last migration.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != nil {
		return Status{s.job.slots, s.job.to.ID, StateStarted}
	}
	return s.last
}

// Forget forgets the result of the last migration: that of this node's master counts now.
func (s *Source) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = Status{State: StateNone}
}

// Cancel ends the current migration with the error why, if wanted returns true. It does not wait.
func (s *Source) Cancel(why error, wanted func(r cf.SlotRange, target string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != nil && wanted(s.job.slots, s.job.to.ID) {
		s.job.cancel(why)
	}
}

// Close cancels the current migration and waits for its end. It must be called before the database is closed.
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
	flushes uint64 // number of flushes when the migration began

	peer    *peer.Peer
	base    *slotdata.Reader
	knows   *carry.Abilities
	way     *carry.To
	wal     *engine.Log
	carrier carry.Carrier
	leaving bool
	grown   int       // rounds of reading the log after which more was missing than before
	kept    time.Time // when the log files were last kept

	paused  sync.Mutex
	writes  writes      // paused must be held
	resumes *time.Timer // ends the pause

	verified  bool // the destination does not serve the slots before it knows that clients are redirected
	wasHanded bool // the destination may have the slots
	told      bool // the destination knows that the migration has failed
}

// writes says whether clients may write.
type writes int

const (
	allowed   writes = iota
	forbidden        // until the limit of the pause
	handed           // until the answer of the destination is known
)

// run runs the migration. After any error the slots stay here.
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
	j.log.Error("migrating the slots failed", zap.Error(err))
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
		return fmt.Errorf("recording that the slots are leaving: %w", err)
	}
	j.leaving = true
	for try := 1; ; try++ {
		if err := j.catchUp(); err != nil { // the writes since the last round or the last attempt
			return fmt.Errorf("sending what was written meanwhile: %w", err)
		}
		err := j.end()
		switch {
		case err == nil || !errors.Is(err, errLongPause) || try == mostPauses:
			return err
		case j.grown >= mostGrown:
			return fmt.Errorf("%w: %w", errOutrun, err)
		}
		j.raise(2)
		j.log.Warn("writes are allowed again: the end of the migration is tried once more", zap.Error(err))
	}
}

// mostPauses is the max number of attempts to end a migration.
const mostPauses = 10

// end forbids writes, sends the last ones, and hands the slots over. After errLongPause writes are allowed again, and
// the destination is in its earlier state.
func (j *job) end() error {
	j.Step(stage.Forbidden)
	began := j.Clock.Now()
	if err := j.forbid(); err != nil {
		return fmt.Errorf("forbidding writes: %w", err)
	}
	j.Step(stage.Rest)
	j.way.Free = true
	defer func() { j.way.Free = false }() // clients may write again
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
		return fmt.Errorf("redirecting clients: %w", err)
	}
	now := j.Clock.Now()
	j.log.Info("writes of the slots have paused", zap.Duration("for", now.Sub(began)),
		zap.Duration("to send the last ones", sent.Sub(began)), zap.Duration("to hand over", taken.Sub(sent)),
		zap.Duration("to keep it", now.Sub(taken)))
	return nil
}

// allow allows writes. Writes to slots that were handed over stay forbidden unless evenHanded is true.
func (j *job) allow(evenHanded bool) {
	j.paused.Lock()
	defer j.paused.Unlock()
	if j.writes == forbidden || j.writes == handed && evenHanded {
		j.writes = allowed
		j.resumes.Stop()
		j.Slots.Allow(j.slots)
	}
}

// hand makes the pause last until allow(true). It reports whether the pause has lasted until now.
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

// handOver tells the destination that it has everything. If the reply is lost, it asks again: the destination has the
// slots or does not, and until that is known, no client may write here. If the destination cannot be asked within the
// limit, writes continue here, and what the destination may have done is revoked as soon as it can be reached.
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

// confirm tells the destination that clients are redirected.
func (j *job) confirm() {
	if j.peer.Broken() || !j.verified {
		return
	}
	j.peer.Until = time.Now().Add(j.Limits().Confirm)
	j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "65")
}

// dial connects to a destination.
func (o *Options) dial(ctx context.Context, addr string) (*peer.Peer, error) {
	return peer.Dial(ctx, o.Dial, addr, o.Settings().Password)
}

// askImported asks a destination, which has got everything, whether it has the slots. nil: it has. A [peer.Error]: it
// has not, and will not.
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
	case strings.Contains(string(e), "belongs to me"): // the controller has meanwhile given the slots to another node
		return nil
	case !strings.HasPrefix(string(e), "ERR "), strings.Contains(string(e), "Slave can't"):
		return errors.New(string(e)) // the destination cannot tell: it is loading, or not a master yet
	}
	return err
}

// check returns the reason why the migration must end, nil = it continues.
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
	// Kvrocks does not know this form of the command, and replies with an error.
	if _, err = j.peer.Do("CLUSTER", "IMPORT", j.slots.String(), "64"); err != nil && !peer.IsReply(err) {
		return err
	}
	j.verified = err == nil
	if j.knows, err = carry.Ask(j.peer); err != nil || !j.verified || !j.knows.ApplyBatch {
		return err
	}
	order, err := j.DB.BitOrderBatch()
	if err == nil {
		_, err = j.peer.Do("APPLYBATCH", string(order))
	}
	return err
}

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
	// mostRounds is the max number of times that the log is read to its end before writes are forbidden.
	mostRounds = 10
	// mostGrown is the max number of rounds of a migration, each longer than the one before, after which more is missing.
	mostGrown = 4
	// shortPause is the max expected time for reading the rest of the log, judged by the last round.
	shortPause = 10 * time.Millisecond
	// logRetry is the time between two attempts to read from the log what it should contain; logRetries is their
	// number.
	logRetry   = 10 * time.Millisecond
	logRetries = 100
)

// catchUp sends the writes since the snapshot, until few are missing. While clients write more than is sent, each round
// takes longer than the one before, so the limit of the rate is raised to what halves the rest. If something else holds
// the writes up, catchUp gives up after mostGrown such rounds: the pause will show whether the rest can be sent.
func (j *job) catchUp() error {
	var perRecord time.Duration
	var before uint64 // what was missing before the last round
	for round := 0; ; round++ {
		end := j.DB.LatestSequence()
		gap := end + 1 - j.wal.Sequence()
		near := gap <= j.Settings().Gap && (round > 0 || gap == 0)
		if near && time.Duration(gap)*perRecord <= shortPause || round == mostRounds ||
			j.grown >= mostGrown {
			j.log.Info("read the log", zap.Int("rounds", round), zap.Uint64("missing", gap))
			return nil
		}
		if round > 0 && gap >= before {
			if j.grown++; j.grown < mostGrown {
				j.raise(2 * float64(gap) / float64(before))
			}
		}
		before = gap
		began := j.Clock.Now()
		if err := j.sendLog(end); err != nil {
			return err
		}
		perRecord = j.Clock.Now().Sub(began) / time.Duration(max(gap, 1))
	}
}

// raise multiplies the limit of the rate, if there is one, for the rest of the migration.
func (j *job) raise(by float64) {
	if !j.way.Limited {
		return
	}
	j.way.Raised = max(j.way.Raised, 1) * by
	j.log.Warn("clients write faster than the limit of the rate lets the writes go: the limit is raised",
		zap.Float64("times", j.way.Raised))
}

// sendLog sends the log up to a sequence number, and returns when the destination has it.
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

// forbid refuses writes, for at most the limit of Rest. A script that does not end may hold locks, so it tries
// repeatedly.
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
			if j.writes == allowed { // the pause has ended meanwhile
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

// tellFailed makes the destination delete what it got. It opens a new connection, because the old one may be in any
// state. The end of the old connection has the same effect.
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
			return // the server stops and does not wait
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
