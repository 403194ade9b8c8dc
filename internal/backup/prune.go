package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// PruneOptions say what to keep.
type PruneOptions struct {
	KeepLast  int           // number of newest backups to keep
	KeepDaily int           // number of days (UTC) whose newest backup is kept
	KeepLog   time.Duration // time span that remains restorable; 0 = as far back as the kept backups
	DryRun    bool          // only report what would be removed
}

// Pruned reports what was removed.
type Pruned struct {
	Kept     []string `json:"kept"`    // ids
	Removed  []string `json:"removed"` // ids
	Files    int      `json:"files"`
	Segments int      `json:"segments"`
	Bytes    int64    `json:"bytes"`
}

// ErrKeepNone: the options of Prune keep no backup.
var ErrKeepNone = errors.New("nothing says which backups are kept")

// tmpAge is the age from which Prune removes leftovers of killed writers.
const tmpAge = 24 * time.Hour

// Prune removes backups that are not kept, then files that no backup needs, then the log that leads to no time that is
// kept. It refuses to work on a repository with a damaged description of a backup.
func (r *Repo) Prune(ctx context.Context, o PruneOptions) (*Pruned, error) {
	if o.KeepLast <= 0 && o.KeepDaily <= 0 {
		return nil, ErrKeepNone
	}
	ctx, lock, err := r.lock(ctx, pruneLock)
	if err != nil {
		return nil, err
	}
	defer lock.release()
	backups, err := r.Backups(ctx)
	if errors.Is(err, ErrDamaged) {
		return nil, fmt.Errorf("%w; remove the object to give up that backup", err)
	}
	if err != nil {
		return nil, err
	}
	lines, err := r.timelines(ctx)
	if err != nil {
		return nil, err
	}
	live, err := r.followed(ctx, lock.name)
	if err != nil {
		return nil, err
	}
	kept := keep(backups, lines, live, o, r.now())
	p := &Pruned{Kept: []string{}, Removed: []string{}}
	remove := func(name string) error {
		if o.DryRun {
			return nil
		}
		return r.Remove(ctx, name)
	}
	// A backup is removed before its files: a backup without files must not be found.
	for _, b := range backups {
		if slices.Contains(kept, b) {
			p.Kept = append(p.Kept, b.ID)
			continue
		}
		p.Removed = append(p.Removed, b.ID)
		if err := remove(backupObject(b.ID)); err != nil {
			return p, err
		}
	}
	needed := map[string]bool{}
	for _, b := range kept {
		for _, f := range slices.Concat(b.Files, b.Log) {
			needed[f.object()] = true
		}
	}
	var garbage []Object
	err = r.List(ctx, "files/", func(o Object) error {
		if !needed[o.Name] {
			garbage = append(garbage, o)
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	for _, g := range garbage {
		if err := remove(g.Name); err != nil {
			return p, err
		}
		p.Files++
		p.Bytes += g.Size
	}
	if err := r.pruneLog(kept, lines, live, o, p, remove); err != nil || o.DryRun {
		return p, err
	}
	return p, r.CleanUp(ctx, r.now().Add(-tmpAge))
}

// followed returns the timelines to which processes add at present. own is the name of the own lock.
func (r *Repo) followed(ctx context.Context, own string) (live map[string]bool, err error) {
	locks, err := r.locks(ctx, own)
	live = map[string]bool{}
	for _, h := range locks {
		if h.Timeline != "" {
			live[h.Timeline] = true
		}
	}
	return live, err
}

// keep returns the backups that are kept. Backups are sorted, the oldest first. Those with which the times within
// KeepLog begin are kept too, and so are the one that leads to the newest state, and the newest one of a timeline that
// grows.
func keep(backups []*Backup, lines []*Timeline, live map[string]bool, o PruneOptions, now time.Time) (kept []*Backup) {
	days := map[string]bool{}
	for i := len(backups) - 1; i >= 0; i-- {
		b := backups[i]
		day := b.Time.UTC().Format(time.DateOnly)
		daily := !days[day] && len(days) < o.KeepDaily
		if daily {
			days[day] = true
		}
		if len(backups)-i <= o.KeepLast || daily {
			kept = append(kept, b)
		}
	}
	for line := range live {
		for i := len(backups) - 1; i >= 0; i-- {
			if b := backups[i]; b.Timeline == line {
				if !slices.Contains(kept, b) {
					kept = append(kept, b)
				}
				break
			}
		}
	}
	if newest := choose(backups, lines, time.Time{}); newest != nil && !slices.Contains(kept, newest.backup) {
		kept = append(kept, newest.backup)
	}
	if o.KeepLog <= 0 {
		return kept
	}
	for _, b := range loggedSince(backups, lines, now.Add(-o.KeepLog)) {
		if !slices.Contains(kept, b) {
			kept = append(kept, b)
		}
	}
	return kept
}

// loggedSince returns the backups with which the restorable times from since on begin: of each timeline that reaches
// them, the newest backup that is not later than since, or otherwise the oldest one; and what was restorable at since
// itself.
func loggedSince(backups []*Backup, lines []*Timeline, since time.Time) (list []*Backup) {
	var before *Backup // the newest one of all timelines that is not later than since
	first := map[string]*Backup{}
	for _, b := range backups {
		if b.Timeline == "" {
			continue
		}
		if !b.Time.After(since) {
			before, first[b.Timeline] = b, b
		} else if first[b.Timeline] == nil {
			first[b.Timeline] = b
		}
	}
	for _, b := range first {
		if b == before || b.Time.After(since) {
			list = append(list, b)
		}
	}
	for _, t := range lines {
		if b := first[t.ID]; b != nil && t.Until.After(since) && !slices.Contains(list, b) {
			list = append(list, b)
		}
	}
	return list
}

// pruneLog removes segments. A timeline needs the segments after a backup: after the oldest kept one, or with KeepLog
// after the newest one that is older.
func (r *Repo) pruneLog(kept []*Backup, lines []*Timeline, live map[string]bool, o PruneOptions, p *Pruned,
	remove func(string) error) error {
	for _, t := range lines {
		from := logBegin(kept, t.ID, o, r.now())
		if from == nil && live[t.ID] { // a timeline that has just begun has no backup yet
			continue
		}
		for i, s := range t.Segments {
			// Follow compares the newest segment with the server when it continues.
			if from != nil && (s.Last > from.Sequence || i == len(t.Segments)-1) {
				continue
			}
			if err := remove(s.object()); err != nil {
				return err
			}
			p.Segments++
			p.Bytes += s.Size
		}
		if from == nil {
			if err := remove(positionObject(t.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// logBegin returns the backup after which the log of a timeline is needed: with KeepLog the newest one that is older,
// otherwise the oldest one; nil = the timeline has no backup.
func logBegin(kept []*Backup, timeline string, o PruneOptions, now time.Time) *Backup {
	var oldest, old *Backup
	for _, b := range kept {
		if b.Timeline != timeline {
			continue
		}
		if oldest == nil || b.Time.Before(oldest.Time) {
			oldest = b
		}
		if o.KeepLog > 0 && !b.Time.After(now.Add(-o.KeepLog)) && (old == nil || b.Time.After(old.Time)) {
			old = b
		}
	}
	if old != nil {
		return old
	}
	return oldest
}
