package migration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Errors of a migration; those with texts of Kvrocks go to clients.
var (
	ErrBusy      = engine.NewError("ERR", "There is already a migrating job")
	errNoLog     = engine.NewError("ERR", "slots cannot be migrated without the write-ahead log (disable_wal)")
	errFlushed   = errors.New("the keys were flushed")
	errClosed    = errors.New("the server stops")
	errNotCaught = errors.New("the log was not read to its end")
)

// Settings are those of the configuration, as they are now.
type Settings struct {
	Raw        bool   // migrate-type raw-key-value; commands otherwise
	Speed      int    // migrate-speed: commands a second, 0 = no limit
	Pipeline   int    // migrate-pipeline-size: commands that are sent together
	Gap        uint64 // migrate-sequence-gap: how much may be missing when writes are forbidden
	BatchBytes int    // migrate-batch-size-kb, in bytes
	BatchRate  int64  // migrate-batch-rate-limit-mb, in bytes a second; 0 = no limit
	Password   string // for AUTH; "" = none
}

// Slots changes what this node does with commands for slots. See package cluster, whose Map has these methods.
type Slots interface {
	// Forbid refuses writes. When it returns none is under way. An error says that writes are not refused.
	Forbid(r cf.SlotRange) error
	// Allow is the end of Forbid.
	Allow(r cf.SlotRange)
	// Importing lets the migrator alone use slots of other nodes.
	Importing(r cf.SlotRange)
	// ImportEnded is the end of Importing.
	ImportEnded(r cf.SlotRange)
	// Imported lets everybody use slots of other nodes, also after a start of the server.
	Imported(r cf.SlotRange) error
	// Revoked is the end of Imported.
	Revoked(r cf.SlotRange)
}

// Target is where slots go.
type Target struct {
	ID   string
	Addr string // host:port
	// Moved sends all commands for the slots there, also after a start of the server.
	Moved func(r cf.SlotRange) error
}

// Options are what a Source needs of the server.
type Options struct {
	DB       *engine.DB
	Slots    Slots
	Settings func() Settings
	Dial     func(ctx context.Context, addr string) (net.Conn, error) // nil = TCP
	Clock    Clock                                                    // nil = RealClock
	Log      *zap.Logger
	// NoLog: writes do not go to the write-ahead log.
	NoLog bool
	// Step, which may be nil, is called before each step of a migration: tests stop there.
	Step func(s Stage)
}

// Stage is how far a migration is.
type Stage string

// The stages.
const (
	StageStart     Stage = "start"
	StageSnapshot  Stage = "snapshot"
	StageLog       Stage = "log"
	StageForbidden Stage = "forbidden"
	StageRest      Stage = "rest"
	StageSuccess   Stage = "success"
	StageMoved     Stage = "moved"
	StageDone      Stage = "done"
	StageFailed    Stage = "failed"
)

// Source moves slots away. There is one migration at a time.
type Source struct {
	opt Options
	mu  sync.Mutex
	job *job // that goes on
	// last is how the last one ended.
	last   Status
	closed bool
	done   sync.WaitGroup
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

// NewSource returns the source of migrations.
func NewSource(opt Options) *Source {
	if opt.Clock == nil {
		opt.Clock = RealClock{}
	}
	if opt.Dial == nil {
		opt.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if opt.Step == nil {
		opt.Step = func(Stage) {}
	}
	return &Source{opt: opt, last: Status{State: StateNone}}
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
	ctx, cancel := context.WithCancelCause(context.Background())
	j := &job{Options: &s.opt, slots: r, to: to, ctx: ctx, cancel: cancel, flushes: s.opt.DB.Flushes()}
	j.log = s.opt.Log.With(zap.Stringer("slots", r), zap.String("destination", to.Addr))
	s.job = j
	s.done.Go(func() {
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
	})
	return nil
}

// Status returns how the present migration stands, or the last one has ended.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != nil {
		return Status{s.job.slots, s.job.to.ID, StateStarted}
	}
	return s.last
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
	if s.job != nil {
		s.job.cancel(errClosed)
	}
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

	peer      *peer
	base      *reader
	knows     *abilities
	pace      pace
	wal       *engine.Log
	carrier   carrier
	free      func() // no limit of the rate from now on
	forbidden bool
	kept      time.Time // when the logs were last kept
}

// carrier takes the changes of the log to the destination.
type carrier interface {
	change(c *logged) error
	// flush sends what was taken, and returns when the destination has it.
	flush() error
}

func (s *rawSender) flush() error { return s.finish() }

// run migrates. Whatever fails, the slots stay here.
func (j *job) run() error {
	began := j.Clock.Now()
	j.log.Info("migrating slots", zap.Bool("raw", j.Settings().Raw))
	err := j.migrate()
	if j.wal != nil {
		j.wal.Close()
	}
	if j.base != nil {
		j.base.close()
	}
	if err == nil {
		j.peer.close()
		j.log.Info("migrated slots", zap.Duration("took", j.Clock.Now().Sub(began)))
		j.Step(StageDone)
		return nil
	}
	if cause := context.Cause(j.ctx); cause != nil {
		err = cause
	}
	j.log.Error("slots were not migrated", zap.Error(err))
	j.Step(StageFailed)
	if j.forbidden {
		j.Slots.Allow(j.slots)
	}
	j.tellFailed()
	return err
}

func (j *job) migrate() error {
	j.Step(StageStart)
	if err := j.connect(); err != nil {
		return err
	}
	j.Step(StageSnapshot)
	if err := j.sendSnapshot(); err != nil {
		return fmt.Errorf("sending the snapshot: %w", err)
	}
	j.Step(StageLog)
	if err := j.catchUp(); err != nil {
		return fmt.Errorf("sending what was written meanwhile: %w", err)
	}
	j.Step(StageForbidden)
	began := j.Clock.Now()
	if err := j.forbid(); err != nil {
		return fmt.Errorf("forbidding writes: %w", err)
	}
	j.Step(StageRest)
	j.free()
	end := j.DB.LatestSequence()
	if err := j.sendLog(end); err != nil {
		return fmt.Errorf("sending the last writes: %w", err)
	}
	if err := j.check(); err != nil {
		return err
	}
	j.Step(StageSuccess)
	if _, err := j.peer.do("CLUSTER", "IMPORT", j.slots.String(), "1"); err != nil {
		return fmt.Errorf("telling the destination that it has all: %w", err)
	}
	j.Step(StageMoved)
	if err := j.to.Moved(j.slots); err != nil {
		// Clients are sent to the destination already: it is in force, but for a crash.
		j.log.Error("that the slots have moved is not on the disk", zap.Error(err))
	}
	j.log.Info("writes of the slots have paused", zap.Duration("for", j.Clock.Now().Sub(began)))
	return nil
}

// check returns why the migration is to end, nil = it goes on.
func (j *job) check() error {
	if err := context.Cause(j.ctx); err != nil {
		return err
	}
	if j.DB.Flushes() != j.flushes {
		return errFlushed
	}
	if every := j.DB.KeepLogsEvery(); every > 0 && j.base != nil {
		if now := j.Clock.Now(); now.Sub(j.kept) >= every {
			j.kept = now
			next := j.base.seq + 1
			if j.wal != nil {
				next = j.wal.Sequence()
			}
			return j.DB.KeepLogs(next)
		}
	}
	return nil
}

// dial opens a connection to the destination.
func (j *job) dial(ctx context.Context) (*peer, error) {
	conn, err := j.Dial(ctx, j.to.Addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to the destination: %w", err)
	}
	p := newPeer(ctx, conn)
	if pass := j.Settings().Password; pass != "" {
		if _, err := p.do("AUTH", pass); err != nil {
			p.close()
			return nil, fmt.Errorf("authenticating: %w", err)
		}
	}
	return p, nil
}

func (j *job) connect() (err error) {
	if j.peer, err = j.dial(j.ctx); err != nil {
		return err
	}
	if _, err := j.peer.do("CLUSTER", "IMPORT", j.slots.String(), "0"); err != nil {
		return fmt.Errorf("beginning the import: %w", err)
	}
	j.knows, err = askAbilities(j.peer)
	return err
}

// sendSnapshot sends the keys of the slots.
func (j *job) sendSnapshot() error {
	j.base = newReader(j.DB, j.Clock.Now().UnixMilli())
	if j.base.seq == 0 && j.DB.LatestSequence() != 0 {
		return engine.ErrClosed
	}
	j.wal = j.DB.Log(j.base.seq + 1)
	j.pace.clock = j.Clock
	began, n := j.Clock.Now(), 0
	var send func(k *key) error
	raw := j.Settings().Raw
	if raw && !j.knows.applyBatch {
		j.log.Info("the destination has no APPLYBATCH: the slots are migrated by commands")
		raw = false
	}
	if raw {
		s := j.rawSender()
		send = func(k *key) error { return s.snapshot(j.base, k) }
	} else {
		c := &commander{ctx: j.ctx, p: j.peer, settings: j.Settings, pace: &j.pace, knows: j.knows, check: j.check}
		j.carrier = newMirror(c, j.base, func() *reader { return newReader(j.DB, j.Clock.Now().UnixMilli()) }, j.Clock)
		j.free = func() { c.free = true }
		send = func(k *key) error { return c.snapshot(j.base, k, j.Clock.Now().UnixMilli()) }
	}
	err := j.base.each(j.slots, func(k *key) error {
		n++
		if err := j.check(); err != nil {
			return err
		}
		return send(k)
	})
	if err == nil {
		err = j.carrier.flush()
	}
	if err != nil {
		return err
	}
	j.log.Info("sent the snapshot of the slots", zap.Int("keys", n), zap.Duration("took", j.Clock.Now().Sub(began)))
	return nil
}

func (j *job) rawSender() *rawSender {
	s := newRawSender(j.ctx, j.peer, j.Settings, &j.pace, j.knows, j.Clock, j.check)
	s.again = func(nsKey []byte) error {
		r := newReader(j.DB, j.Clock.Now().UnixMilli())
		defer r.close()
		k, err := r.find(nsKey)
		if err != nil || k == nil {
			return err
		}
		return s.snapshot(r, k)
	}
	j.carrier = s
	j.free = func() { s.free = true }
	return s
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
	var c logged
	c.bounds(j.slots)
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
		c.rep, c.skip = rep, skip
		if err := j.carrier.change(&c); err != nil {
			return err
		}
	}
	return j.carrier.flush()
}

// forbid refuses writes. Scripts that do not end may hold locks: it tries for some time.
func (j *job) forbid() (err error) {
	for range logRetries {
		if err := j.check(); err != nil {
			return err
		}
		if err = j.Slots.Forbid(j.slots); err == nil {
			j.forbidden = true
			return nil
		}
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
	usable := j.peer.err == nil && j.peer.waiting == 0 && j.ctx.Err() == nil
	ctx, cancel := context.WithTimeout(context.Background(), replyTimeout)
	defer cancel()
	if !usable {
		j.peer.close()
		if j.ctx.Err() != nil && errors.Is(context.Cause(j.ctx), errClosed) {
			return // the server stops: it does not wait
		}
		p, err := j.dial(ctx)
		if err != nil {
			j.log.Warn("the destination was not told that the migration has failed", zap.Error(err))
			return
		}
		j.peer = p
	}
	defer j.peer.close()
	if _, err := j.peer.do("CLUSTER", "IMPORT", j.slots.String(), "2"); err != nil {
		j.log.Warn("the destination was not told that the migration has failed", zap.Error(err))
	}
}
