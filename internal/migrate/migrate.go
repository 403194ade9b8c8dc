package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/basaltdb/basalt/internal/transfer"
)

// Options are the options of Run.
type Options struct {
	From, To transfer.Address

	CompareOnly bool
	NoCompare   bool
	Sample      int64 // number of keys of each side to compare, 0 = all
	Replace     bool  // the target may have keys, which are deleted
	Follow      bool  // continue until the context ends
	Cutover     bool
	// WritersStopped: no client writes to the source any more, so its writes need not be paused.
	WritersStopped bool
	// AcceptDifferences: the cut-over is done even if the comparison finds differences.
	AcceptDifferences bool
	// Pause is the max time for which the source's writes wait.
	Pause time.Duration

	// Confirm, unless it is nil, is called when the target has caught up and no cut-over was requested. It returns true
	// when the writers have been stopped and the cut-over must be done.
	Confirm func() bool
	// Progress reports the progress of a stage, in bytes or other units; total is 0 if unknown. Note reports events.
	// Both may be nil.
	Progress func(stage string, done, total int64, bytes bool)
	Note     func(text string)
}

// Result describes a migration. With an error it describes the part that was done.
type Result struct {
	From string `json:"from"`
	To   string `json:"to"`
	// How is "follow" when the target follows the source by itself, "copy" when this process copies.
	How        string                        `json:"how"`
	Following  bool                          `json:"following"` // the target has caught up and keeps following
	CutOver    bool                          `json:"cut_over"`
	Copied     int64                         `json:"keys_copied"` // counting repetitions
	LeftOut    map[string]*transfer.Examples `json:"left_out,omitempty"`
	Comparison *Comparison                   `json:"comparison,omitempty"`
	Paused     float64                       `json:"paused_seconds"` // for which the writes of the source waited
	Source     string                        `json:"source,omitempty"`
	Warnings   []string                      `json:"warnings,omitempty"`
	Seconds    float64                       `json:"seconds"`
}

// status is the progress of the target.
type status struct {
	streaming   bool  // the first copy is complete, and changes follow
	done, total int64 // progress of the first copy
	keys        bool  // done and total are keys, not bytes
	offset      int64 // position of the target, in the source's count
	note        string
}

// mover copies the data of the source to the target.
type mover interface {
	status() (status, error)
	// mark returns a text that changes with every write of the source.
	mark() (string, error)
	// finish makes the target independent.
	finish() error
	// stop ends the work of this process.
	stop()
}

// migration is a running migration.
type migration struct {
	o        Options
	ctx      context.Context
	from, to *peer
	mover    mover
	copier   *copier
	follows  bool // the target has been told to follow
	result   *Result
}

// Run migrates a server.
func Run(ctx context.Context, o Options) (*Result, error) {
	begin := time.Now()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &migration{o: o, ctx: inner, result: &Result{}}
	err := m.run()
	if m.mover != nil {
		m.mover.stop()
	}
	if m.copier != nil {
		m.result.LeftOut, m.result.Copied = m.copier.left.list(), m.copier.copied.Load()
	}
	m.result.Seconds = time.Since(begin).Seconds()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		if m.follows && !m.result.Following && !m.result.CutOver {
			m.result.Warnings = append(m.result.Warnings,
				"the target goes on to follow the source: the same command continues there, REPLICAOF NO ONE ends it")
		}
	}
	return m.result, err
}

func (m *migration) run() (err error) {
	if m.from, err = connect(m.ctx, m.o.From); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	if m.to, err = connect(m.ctx, m.o.To); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	m.result.From, m.result.To = m.from.String(), m.to.String()
	if m.o.CompareOnly {
		return m.compare(m.ctx, nil)
	}
	if m.from.cluster {
		return errors.New("the source is a node of a cluster: slots move to other nodes by CLUSTERX MIGRATE, and " +
			"basalt reslot --plain --merge makes one server of several nodes")
	}
	if err := m.begin(); err != nil {
		return err
	}
	if err := m.catchUp(m.ctx, false); err != nil {
		return err
	}
	m.result.Following = true
	switch {
	case m.o.Cutover:
	case m.o.Follow:
		return m.follow()
	case m.o.Confirm != nil:
		ok, err := m.confirm()
		if err != nil || !ok {
			return err
		}
		m.o.WritersStopped = true
	default:
		return m.compare(m.ctx, m.settle)
	}
	return m.cutOver()
}

// begin chooses the mover and starts it.
func (m *migration) begin() error {
	follows := !m.to.cluster && (m.to.kind == Basalt || m.to.kind == Kvrocks && m.from.kind != Redis)
	if follows {
		if m.o.From.DB != 0 || m.o.To.DB != 0 {
			return errors.New("the target follows the whole source: an address must not name a database")
		}
		m.result.How = "follow"
		f := &follower{from: m.from, to: m.to}
		m.mover = f
		err := f.begin(m.o.Replace)
		m.follows = err == nil
		return err
	}
	m.result.How = "copy"
	if m.to.cluster && m.o.To.DB != 0 {
		return errors.New("a cluster has database 0 only")
	}
	c := &copier{from: m.from, to: m.to, databases: m.home}
	if err := m.mayCopy(); err != nil {
		return err
	}
	m.copier = c
	run := &copyRun{copier: c}
	m.mover = run
	run.start(m.ctx)
	return nil
}

// home returns the database of the target for one of the source.
func (m *migration) home(db int) (home int, ok bool) {
	switch {
	case m.o.From.DB != 0 || m.o.To.DB != 0: // one database
		return m.o.To.DB, db == m.o.From.DB
	case m.to.cluster:
		return 0, db == 0
	}
	return db, true
}

// mayCopy checks that the target is empty, or has only the keys of an earlier run.
func (m *migration) mayCopy() error {
	k, err := open(m.ctx, m.to, m.o.To.DB)
	if err != nil {
		return err
	}
	defer k.close()
	if m.to.cluster {
		if err := k.covered(); err != nil {
			return err
		}
	}
	r, err := k.do("GET", PositionKey)
	if err != nil || !r.Null || m.o.Replace {
		return err
	}
	empty := false
	if m.to.cluster || m.o.From.DB != 0 || m.o.To.DB != 0 {
		empty, err = k.empty()
	} else {
		var sizes map[int]int64
		sizes, err = m.to.databases()
		empty = len(sizes) == 0
	}
	if err == nil && !empty {
		err = errNotEmpty
	}
	return err
}

// pollEvery is the interval of status requests to both sides.
const pollEvery = 100 * time.Millisecond

func (m *migration) note(format string, args ...any) {
	if m.o.Note != nil {
		m.o.Note(fmt.Sprintf(format, args...))
	}
}

func (m *migration) progress(stage string, done, total int64, bytes bool) {
	if m.o.Progress != nil {
		m.o.Progress(stage, done, total, bytes)
	}
}

// catchUp waits until the target has all writes that the source had at the time of the call; quiet suppresses the
// progress.
func (m *migration) catchUp(ctx context.Context, quiet bool) error {
	want := int64(-1)
	first := int64(-1)
	for {
		s, err := m.mover.status()
		if err != nil {
			return err
		}
		if s.streaming && want < 0 {
			if want, err = m.from.offset(); err != nil {
				return err
			}
			first = s.offset
		}
		if s.streaming && s.offset >= want {
			return nil
		}
		switch {
		case quiet:
		case s.streaming:
			m.progress("catching up", s.offset-first, max(want-first, 0), m.from.kind == Redis)
		default:
			want = -1
			m.progress("copying", s.done, s.total, !s.keys)
			m.note("%s", oneLine(s.note))
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// lag returns the distance of the target from the source, in the source's count.
func (m *migration) lag() (int64, error) {
	at, err := m.from.offset()
	if err != nil {
		return 0, err
	}
	s, err := m.mover.status()
	return max(at-s.offset, 0), err
}

func (m *migration) lagText(lag int64) string {
	if m.from.kind == Redis {
		return fmt.Sprintf("lag %d bytes", lag)
	}
	return fmt.Sprintf("lag %d writes", lag)
}

// follow continues until the context ends.
func (m *migration) follow() error {
	var w watch
	for m.ctx.Err() == nil {
		if err := w.look(m, ""); err != nil && m.ctx.Err() == nil {
			return err
		}
		sleep(m.ctx, pollEvery)
	}
	return nil
}

// confirm shows the lag until the operator has decided.
func (m *migration) confirm() (bool, error) {
	answer := make(chan bool, 1)
	go func() { answer <- m.o.Confirm() }()
	var w watch
	for {
		select {
		case ok := <-answer:
			return ok, nil
		default:
		}
		if err := w.look(m, "; stop the writers, then press Enter to cut over, or Ctrl-C to leave it so"); err != nil {
			return false, err
		}
		if err := sleep(m.ctx, pollEvery); err != nil {
			return false, err
		}
	}
}

// watch shows the lag periodically. A server may be unreachable for some time.
type watch struct{ last time.Time }

func (w *watch) look(m *migration, hint string) error {
	lag, err := m.lag()
	var final finalError
	switch {
	case err == nil:
		w.last = time.Now()
		m.progress("following", 0, 0, false)
		m.note("%s%s", m.lagText(lag), hint)
	case errors.As(err, &final), time.Since(w.last) > retryFor:
		return err
	default:
		m.note("%s", oneLine(err.Error()))
	}
	return nil
}

func (m *migration) settle(ctx context.Context) error { return m.catchUp(ctx, true) }

// compare compares both sides and stores the result.
func (m *migration) compare(ctx context.Context, settle func(context.Context) error) error {
	if m.o.NoCompare {
		return nil
	}
	c := &comparer{ctx: ctx, from: m.from, to: m.to, sample: m.o.Sample, settle: settle, databases: map[int]int{},
		progress: func(stage string, done, total int64) { m.progress(stage, done, total, false) }}
	dbs := []int{m.o.From.DB}
	if m.o.From.DB == 0 && m.o.To.DB == 0 {
		for _, p := range []*peer{m.from, m.to} {
			has, err := p.databases()
			if err != nil {
				return err
			}
			dbs = append(dbs, sortedKeys(has)...)
		}
	}
	for _, db := range dbs {
		if home, ok := m.home(db); ok {
			c.databases[db] = home
		} else {
			m.warn("database %d was not compared: the target has no such one", db)
		}
	}
	var err error
	m.result.Comparison, err = c.run()
	for _, db := range c.skipped {
		m.warn("database %d was not compared: only one side has it", db)
	}
	return err
}

func (m *migration) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(m.result.Warnings, text) {
		m.result.Warnings = append(m.result.Warnings, text)
	}
}
