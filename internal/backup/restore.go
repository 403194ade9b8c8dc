package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/internal/progress"
	"github.com/basaltdb/basalt/server/config"
)

// RestoreOptions say what to restore.
type RestoreOptions struct {
	ID       string        // this backup without later writes
	At       time.Time     // or the state at this time
	Point    *Point        // or the state at this point; without all three, the newest state
	Parallel int           // parallel transfers; 0 = 4
	Progress *progress.Bar // nil = none
}

// Restored describes the result.
type Restored struct {
	Backup   *Backup
	Sequence uint64    // sequence number of the newest write
	Batches  int64     // batches applied to the backup
	Reached  time.Time // the time of the restored state, at most the requested time
	// Unread is set if the writes from this time until after the requested time arrived late, because no one had read
	// the log: they are not restored.
	Unread time.Time
	// Back is set if the clock was set back while the log was stored: writes with times from this one on, which is not
	// after the requested time, come behind others that are, and are not restored.
	Back time.Time
	// Damaged is set if descriptions of other backups are damaged, one of which may have been a better choice.
	Damaged error
}

var ErrNotEmpty = errors.New("the directory is not empty")

const (
	// restoring is the directory of the database's files until it is complete.
	restoring = config.Restoring
	dbDir     = "db"
)

// Restore creates a data directory with the database in db/. dir must not exist, or be empty except for the files of an
// interrupted attempt, which are reused. Damage gives ErrDamaged, and then db/ does not exist.
func (r *Repo) Restore(ctx context.Context, dir string, o RestoreOptions) (*Restored, error) {
	p, err := r.plan(ctx, o)
	if err != nil {
		return nil, err
	}
	target, err := prepareTarget(dir)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	tmp := filepath.Join(dir, restoring)
	if err := r.fetchAll(ctx, p.backup, tmp, o); err != nil {
		return nil, err
	}
	res := &Restored{Backup: p.backup, Sequence: p.backup.Sequence, Reached: p.reached, Damaged: p.damaged}
	if err := r.replay(ctx, tmp, p, res); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(tmp); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, filepath.Join(dir, dbDir)); err != nil {
		return nil, err
	}
	return res, durable.SyncDir(dir)
}

// plan is the plan of a restore.
type plan struct {
	backup   *Backup
	tail     []Segment // of the backup itself
	segments []Segment
	stored   uint64 // the sequence number up to which the log was stored; 0 = unknown
	until    limit
	reached  time.Time
	damaged  error // descriptions of backups that were left out of the choice
}

// limit says which batches are applied.
type limit struct {
	time     time.Time // those received up to this time; zero = any
	sequence uint64    // those whose records are not beyond it; 0 = any
}

// over reports whether a batch, or a segment that begins with it, is beyond the limit.
func (l *limit) over(last uint64, at time.Time) bool {
	return !l.time.IsZero() && at.After(l.time) || l.sequence > 0 && last > l.sequence
}

// passed reports whether what came after a time is beyond the limit.
func (l *limit) passed(end time.Time) bool { return !l.time.IsZero() && !l.time.After(end) }

func (r *Repo) plan(ctx context.Context, o RestoreOptions) (*plan, error) {
	if o.ID != "" {
		b, err := r.Backup(ctx, o.ID)
		if err != nil {
			return nil, err
		}
		return (&plan{backup: b, reached: b.Time}).complete()
	}
	backups, damaged := r.Backups(ctx)
	if damaged != nil && !errors.Is(damaged, ErrDamaged) {
		return nil, damaged
	}
	lines, err := r.timelines(ctx)
	if err != nil {
		return nil, err
	}
	var p *plan
	if o.Point != nil {
		p, err = choosePoint(backups, lines, *o.Point)
	} else if p = choose(backups, lines, o.At); p == nil && len(backups) == 0 {
		err = fmt.Errorf("%w: %s holds none", ErrNoBackup, r)
	} else if p == nil {
		err = fmt.Errorf("%w: the oldest one is of %s", ErrNoBackup, backups[0].Time.Format(time.RFC3339))
	}
	if err != nil {
		return nil, errors.Join(err, damaged)
	}
	p.damaged = damaged
	return p.complete()
}

// choose selects the backup and the log that reach closest to a time without passing it; the zero time means the newest
// state. If several ways lead to the same state, the newest backup has the shortest log to apply.
func choose(backups []*Backup, lines []*Timeline, at time.Time) (best *plan) {
	for _, b := range backups {
		if !at.IsZero() && b.Time.After(at) {
			continue
		}
		t := findTimeline(lines, b.Timeline)
		p := &plan{backup: b, segments: t.Segments, stored: t.Last, until: limit{time: at}, reached: t.Until}
		if pruned(t, b, at) {
			p = &plan{backup: b, reached: b.Time}
		}
		if !at.IsZero() && p.reached.After(at) {
			p.reached = at
		}
		if p.reached.Before(b.Time) {
			p.reached = b.Time
		}
		if best == nil || !p.reached.Before(best.reached) {
			best = p
		}
	}
	return best
}

// pruned reports whether the log of a timeline between a backup and a later time is gone, as Prune leaves it.
func pruned(t *Timeline, b *Backup, at time.Time) bool {
	i := slices.IndexFunc(t.Segments, func(s Segment) bool { return s.Last > b.Sequence })
	return i >= 0 && t.Segments[i].First > b.Sequence+1 && !at.IsZero() && t.Segments[i].From.After(at)
}

// choosePoint selects the newest backup of a timeline that is not after a point of it.
func choosePoint(backups []*Backup, lines []*Timeline, point Point) (*plan, error) {
	var p *plan
	for _, b := range backups {
		if b.Timeline == point.Timeline && b.Sequence <= point.Sequence {
			p = &plan{backup: b, until: limit{sequence: point.Sequence}, reached: b.Time}
		}
	}
	if p == nil {
		return nil, fmt.Errorf("%w of timeline %s that is not behind sequence number %d", ErrNoBackup, point.Timeline,
			point.Sequence)
	}
	p.segments = findTimeline(lines, point.Timeline).Segments
	if n := len(p.segments); point.Sequence > p.backup.Sequence && (n == 0 || p.segments[n-1].Last < point.Sequence) {
		return nil, fmt.Errorf("%w: the log of timeline %s ends before sequence number %d", ErrNoBackup, point.Timeline,
			point.Sequence)
	}
	return p, nil
}

// complete reads the names of the segments that belong to the backup itself. They are always applied.
func (p *plan) complete() (*plan, error) {
	for _, f := range p.backup.Log {
		s, ok := parseSegment(Object{Name: f.Name, Size: f.Size})
		if !ok {
			return nil, fmt.Errorf("%w: %s: segment %q", ErrDamaged, backupObject(p.backup.ID), f.Name)
		}
		p.tail = append(p.tail, s)
	}
	return p, nil
}

// prepareTarget makes the directory, and opens it. Until it is closed, no other process restores into it, which would
// write into files that this one has already compared.
func prepareTarget(dir string) (target *os.File, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if target, err = os.Open(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			target.Close()
		}
	}()
	// A file system without locks is used without them.
	if err := syscall.Flock(int(target.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another process restores into %s", dir)
	}
	entries, err := target.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range entries {
		if name != restoring {
			return nil, fmt.Errorf("%w: %s holds %s", ErrNotEmpty, dir, name)
		}
	}
	return target, os.MkdirAll(filepath.Join(dir, restoring), 0o755)
}

// fetchAll downloads the files of a backup to a directory, and removes all other files there.
func (r *Repo) fetchAll(ctx context.Context, b *Backup, dir string, o RestoreOptions) error {
	wanted := map[string]bool{}
	var total int64
	for _, f := range b.Files {
		wanted[f.Name] = true
		total += f.Size
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !wanted[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	o.Progress.SetTotal(total)
	jobs := make([]func(context.Context) error, 0, len(b.Files))
	for _, f := range b.Files {
		jobs = append(jobs, func(ctx context.Context) error { return r.fetch(ctx, &f, dir, o.Progress) })
	}
	return parallel(ctx, o.Parallel, jobs, func(err error) error { return err })
}

// fetch downloads a file to a directory, unless it is there already.
func (r *Repo) fetch(ctx context.Context, f *File, dir string, p *progress.Bar) error {
	path := filepath.Join(dir, f.Name)
	if same(path, f) {
		p.Add(f.Size)
		return nil
	}
	p.Note(f.Name)
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	err = r.copyFile(ctx, f, io.MultiWriter(out, p))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// copyFile writes the content of a backup's file and verifies it.
func (r *Repo) copyFile(ctx context.Context, f *File, w io.Writer) error {
	in, err := r.Store.Open(ctx, f.object())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing (%s)", ErrDamaged, f.Name, f.object())
	}
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), in)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != f.Size || got != f.SHA256 {
		return fmt.Errorf("%w: %s is not what was stored (%s)", ErrDamaged, f.Name, f.object())
	}
	return nil
}

// same reports whether a file exists with the right content.
func same(path string, f *File) bool {
	in, err := os.Open(path)
	if err != nil {
		return false
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil || info.Size() != f.Size {
		return false
	}
	sum := sha256.New()
	_, err = io.Copy(sum, in)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == f.SHA256
}

// openForReplay opens a database for applying a log. It is opened as a replica, so that compactions keep expired keys:
// a later write may have removed the expiry.
func openForReplay(dir string) (*engine.DB, error) {
	db, err := engine.Open(engine.Options{Dir: dir, Replica: true})
	if errors.Is(err, engine.ErrSlots) {
		db, err = engine.Open(engine.Options{Dir: dir, Replica: true, Slots: true})
	}
	return db, err
}

// replayBytes is how many bytes of batches are applied together.
const replayBytes = 1 << 20

// replayer applies batches to a database.
type replayer struct {
	ctx   context.Context
	db    *engine.DB
	next  uint64
	group []*engine.ExternalBatch
	size  int
	res   *Restored
}

func (r *Repo) replay(ctx context.Context, dir string, p *plan, res *Restored) (err error) {
	if len(p.tail) == 0 && len(p.segments) == 0 && p.stored <= p.backup.Sequence {
		return nil
	}
	db, err := openForReplay(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a := &replayer{ctx: ctx, db: db, next: db.LatestSequence() + 1, res: res}
	for i, s := range p.tail {
		if err := r.applySegment(ctx, a, s, p.backup.Log[i].object(), limit{}); err != nil {
			return err
		}
	}
	enough := false
	end := p.backup.Time // of what was applied; what is missing came later
	for i, s := range p.segments {
		if s.Last < a.next {
			continue
		}
		if s.First > a.next && !p.until.passed(end) { // even if s is beyond the limit: what is missing may not be
			return a.lacks(s.object())
		}
		if enough = p.until.over(s.First, s.From); enough {
			// Writes that were received before the end of the log, but read late, may have been made earlier.
			err = r.noteUnread(ctx, s, p.until.time, res)
		} else if err = r.applySegment(ctx, a, s, s.object(), p.until); errors.Is(err, errEnough) {
			enough, err = true, nil
		}
		if err != nil {
			return err
		}
		if enough {
			p.noteBack(i, res)
			break
		}
		end = s.To
	}
	if !enough && !p.until.passed(end) && p.stored >= a.next {
		return a.lacks(fmt.Sprintf("the newest one that was stored, %d", p.stored))
	}
	if err := a.flush(); err != nil {
		return err
	}
	res.Sequence = db.LatestSequence()
	return db.SyncWAL()
}

// errEnough ends the reading of a segment.
var errEnough = errors.New("enough")

// applySegment applies the batches of a segment up to a limit. The error is errEnough when the limit was reached.
func (r *Repo) applySegment(ctx context.Context, a *replayer, s Segment, object string, until limit) error {
	err := r.withObject(ctx, object, func(in io.Reader) error {
		return readSegment(in, s, func(rep []byte, at, unread time.Time) error {
			if _, last := span(rep); until.over(last, at) {
				if !unread.IsZero() && unread.Before(until.time) {
					a.res.Unread = unread
				}
				return errEnough
			}
			if until.sequence > 0 {
				a.res.Reached = at
			}
			return a.add(rep, object)
		})
	})
	return err
}

// noteBack checks whether the clock was set back after segment i, which is beyond the limit or has what is.
func (p *plan) noteBack(i int, res *Restored) {
	for _, s := range p.segments[i+1:] {
		if !p.until.time.IsZero() && !s.From.After(p.until.time) && (res.Back.IsZero() || s.From.Before(res.Back)) {
			res.Back = s.From
		}
	}
}

// noteUnread checks whether no one had read the log before a segment.
func (r *Repo) noteUnread(ctx context.Context, s Segment, until time.Time, res *Restored) error {
	return r.withObject(ctx, s.object(), func(in io.Reader) error {
		seg, err := newSegmentReader(in, s.object())
		if err == nil && !seg.unread.IsZero() && seg.unread.Before(until) {
			res.Unread = seg.unread
		}
		return err
	})
}

func (a *replayer) add(rep []byte, object string) error {
	first, last := span(rep)
	switch {
	case last < a.next:
		return nil
	case first > a.next:
		return a.lacks(object)
	case first < a.next:
		var err error
		if rep, err = batch.Tail(rep, a.next); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, object, err)
		}
	}
	b, err := a.db.CheckUpdate(rep)
	if err != nil {
		return fmt.Errorf("%w: %s: sequence number %d: %w", ErrDamaged, object, first, err)
	}
	a.group, a.size, a.next = append(a.group, b), a.size+len(rep), last+1
	a.res.Batches++
	if a.size < replayBytes {
		return nil
	}
	return a.flush()
}

// lacks returns the error for missing writes before something.
func (a *replayer) lacks(before string) error {
	return fmt.Errorf("%w: the log lacks sequence number %d before %s", ErrDamaged, a.next, before)
}

func (a *replayer) flush() error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	_, err := a.db.ApplyUpdates(a.group, true, a.ctx.Done(), nil)
	a.group, a.size = nil, 0
	return err
}
