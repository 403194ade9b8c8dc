package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/basaltdb/basalt/internal/progress"
)

// VerifyOptions say what to verify.
type VerifyOptions struct {
	IDs      []string      // these backups without the log; empty = all backups and the log
	Parallel int           // parallel reads; 0 = 4
	Progress *progress.Bar // nil = none
}

// Verified is the result.
type Verified struct {
	Backups  int      `json:"backups"`
	Files    int      `json:"files"`
	Segments int      `json:"segments"`
	Bytes    int64    `json:"bytes"`
	Damage   []string `json:"damage"` // one line each
}

// Verify reads backups and compares them with the checksums made at the backup. Damage is not an error.
func (r *Repo) Verify(ctx context.Context, o VerifyOptions) (*Verified, error) {
	v := &Verified{Damage: []string{}}
	backups, err := r.chosen(ctx, o.IDs, v)
	if err != nil {
		return nil, err
	}
	v.Backups = len(backups)
	var jobs []func(ctx context.Context) error
	seen := map[string]bool{}
	for _, b := range backups {
		for _, f := range slices.Concat(b.Files, b.Log) {
			if seen[f.object()] {
				continue
			}
			seen[f.object()] = true
			v.Files++
			v.Bytes += f.Size
			jobs = append(jobs, func(ctx context.Context) error {
				o.Progress.Note(f.Name)
				return r.copyFile(ctx, &f, o.Progress)
			})
		}
	}
	if len(o.IDs) == 0 {
		lines, err := r.timelines(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range lines {
			v.Damage = append(v.Damage, gaps(t, backups)...)
			for _, s := range t.Segments {
				v.Segments++
				v.Bytes += s.Size
				jobs = append(jobs, func(ctx context.Context) error { return r.verifySegment(ctx, s, o.Progress) })
			}
		}
	}
	o.Progress.SetTotal(v.Bytes)
	err = parallel(ctx, o.Parallel, jobs, func(err error) error {
		if !errors.Is(err, ErrDamaged) {
			return err
		}
		v.Damage = append(v.Damage, err.Error())
		return nil
	})
	return v, err
}

// chosen returns the backups with the given ids, or all.
func (r *Repo) chosen(ctx context.Context, ids []string, v *Verified) ([]*Backup, error) {
	if len(ids) == 0 {
		all, err := r.Backups(ctx)
		if errors.Is(err, ErrDamaged) {
			v.Damage = append(v.Damage, err.Error())
			err = nil
		}
		return all, err
	}
	var some []*Backup
	for _, id := range ids {
		b, err := r.Backup(ctx, id)
		if errors.Is(err, ErrDamaged) {
			v.Damage = append(v.Damage, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		some = append(some, b)
	}
	return some, nil
}

// parallel runs jobs, n (0 = 4) at a time, and passes their errors to f one at a time; an error of f ends it.
func parallel(ctx context.Context, n int, jobs []func(context.Context) error, f func(error) error) error {
	if n <= 0 {
		n = 4
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failed error
	work := make(chan func(context.Context) error)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for job := range work {
				err := job(ctx)
				if err == nil {
					continue
				}
				mu.Lock()
				if failed == nil {
					if failed = f(err); failed != nil {
						cancel()
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, job := range jobs {
		if ctx.Err() != nil {
			break
		}
		work <- job
	}
	close(work)
	all.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// gaps describes missing writes between segments of a timeline. A backup may bridge them.
func gaps(t *Timeline, backups []*Backup) (found []string) {
	for i := 1; i < len(t.Segments); i++ {
		before, after := &t.Segments[i-1], &t.Segments[i]
		if after.First <= before.Last+1 {
			continue
		}
		bridged := slices.ContainsFunc(backups, func(b *Backup) bool {
			return b.Timeline == t.ID && b.Sequence+1 >= after.First && b.Sequence <= after.Last
		})
		if !bridged {
			found = append(found, fmt.Sprintf("the log lacks the sequence numbers %d to %d before %s", before.Last+1,
				after.First-1, after.object()))
		}
	}
	stored := func(b *Backup) bool { return b.Timeline == t.ID && b.Sequence >= t.Last }
	if t.Last > t.end() && !slices.ContainsFunc(backups, stored) {
		found = append(found, fmt.Sprintf("the log of timeline %s lacks its end, up to sequence number %d", t.ID, t.Last))
	}
	return found
}

func (r *Repo) verifySegment(ctx context.Context, s Segment, p *progress.Bar) error {
	return r.withObject(ctx, s.object(), func(in io.Reader) error {
		return readSegment(io.TeeReader(in, p), s, func([]byte, time.Time, time.Time) error { return nil })
	})
}

// withObject opens an object, which must exist.
func (r *Repo) withObject(ctx context.Context, name string, f func(io.Reader) error) error {
	in, err := r.Store.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	return f(in)
}
