package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process that works on a repository writes an object that says so, and then looks for others: of two that start at
// the same time, at least one sees the other and gives up. Several may make backups at the same time. Only one may
// prune, and only while no backup is made, because it would remove files that the backup relies on. Only one may
// follow.
//
// The object is rewritten every lockRefresh. An object that was not rewritten for lockStale, by the clock of the store,
// belongs to a killed process; so does one of a process on this host that does not exist.

const (
	locksPrefix = "locks/"

	lockRefresh = time.Minute
	lockStale   = 15 * time.Minute
	// lockGiveUp is the time after which a process that cannot rewrite its lock ends: before others consider it dead.
	lockGiveUp = 10 * time.Minute
)

type lockKind string

const (
	backupLock lockKind = "backup"
	pruneLock  lockKind = "prune"
	followLock lockKind = "follow"
)

func (k lockKind) conflicts(other lockKind) bool {
	switch k {
	case backupLock:
		return other == pruneLock
	case pruneLock:
		return other == pruneLock || other == backupLock
	default:
		return other == followLock
	}
}

var ErrBusy = errors.New("the repository is in use")

// holder describes the holder of a lock.
type holder struct {
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Since    time.Time `json:"since"`
	Timeline string    `json:"timeline,omitempty"` // of a process that follows
}

// repoLock is a held lock.
type repoLock struct {
	r      *Repo
	name   string
	mu     sync.Mutex
	holder holder // guarded by mu
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// lock takes a lock. The returned context ends when the lock is lost.
func (r *Repo) lock(ctx context.Context, kind lockKind) (context.Context, *repoLock, error) {
	host, _ := os.Hostname()
	l := &repoLock{r: r, name: locksPrefix + string(kind) + "-" + randomHex(8) + ".json", done: make(chan struct{}),
		holder: holder{Host: host, PID: os.Getpid(), Since: r.now().UTC()}}
	if err := l.write(ctx); err != nil {
		return nil, nil, err
	}
	if err := r.othersHold(ctx, kind, l.name); err != nil {
		r.Remove(context.WithoutCancel(ctx), l.name)
		return nil, nil, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	go l.refresh(inner)
	return inner, l, nil
}

func (l *repoLock) write(ctx context.Context) error {
	l.mu.Lock()
	b, err := json.Marshal(l.holder)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return put(ctx, l.r, l.name, b)
}

// setTimeline records the timeline of the lock, before anything of the timeline is stored.
func (l *repoLock) setTimeline(ctx context.Context, id string) error {
	l.mu.Lock()
	l.holder.Timeline = id
	l.mu.Unlock()
	return l.write(ctx)
}

func (l *repoLock) refresh(ctx context.Context) {
	defer close(l.done)
	t := time.NewTicker(lockRefresh)
	defer t.Stop()
	written := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch err := l.write(ctx); {
		case err == nil:
			written = time.Now()
		case time.Since(written) > lockGiveUp:
			l.cancel(fmt.Errorf("the lock of the repository is lost: %w", err))
			return
		}
	}
}

func (l *repoLock) release() {
	l.cancel(nil)
	<-l.done
	l.r.Remove(context.Background(), l.name) // otherwise it becomes stale
}

// othersHold returns ErrBusy if another process holds a conflicting lock.
func (r *Repo) othersHold(ctx context.Context, kind lockKind, own string) error {
	locks, err := r.locks(ctx, own)
	if err != nil {
		return err
	}
	for name, h := range locks {
		other, _, _ := strings.Cut(path.Base(name), "-")
		if kind.conflicts(lockKind(other)) {
			return fmt.Errorf("%w: process %d on %s holds %s since %s", ErrBusy, h.PID, h.Host, name,
				h.Since.Format(time.RFC3339))
		}
	}
	return nil
}

// locks returns the locks of living processes, except own, whose modification time is the current time of the store.
func (r *Repo) locks(ctx context.Context, own string) (map[string]holder, error) {
	var all []Object
	now := r.now()
	err := r.List(ctx, locksPrefix, func(o Object) error {
		if o.Name == own {
			now = o.Modified
		} else {
			all = append(all, o)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	alive := map[string]holder{}
	for _, o := range all {
		b, err := get(ctx, r, o.Name, 64<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var h holder
		known := json.Unmarshal(b, &h) == nil
		dead := known && h.Host == host && h.PID > 0 && errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH)
		if dead || now.Sub(o.Modified) > lockStale {
			if err := r.Remove(ctx, o.Name); err != nil {
				return nil, err
			}
			continue
		}
		alive[o.Name] = h
	}
	return alive, nil
}
