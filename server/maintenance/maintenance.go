// Package maintenance does the background work: backups, compactions, schedules, the limit of the database's size, and
// returning memory to the system.
package maintenance

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
)

// Settings control the work. They are read whenever work is due, so changes take effect at once.
type Settings struct {
	BackupDir   string        // "" = no backups
	KeepBackups bool          // keep a backup longer than it takes to replace it
	KeepFor     time.Duration // max age of a backup; 0 = unlimited

	SaveCron    compaction.Cron // of backups
	CompactCron compaction.Cron // of full compactions; ignored while the checker has a schedule
	ScanCron    compaction.Cron // of counts of all keys
	Checker     compaction.Settings
	// ExpiredPercent is the share of expired data from which a file is compacted; 0 = never.
	ExpiredPercent int

	MaxSize uint64 // max bytes of the database on disk; 0 = no limit
}

// Options are what the work needs from the server.
type Options struct {
	DB       *engine.DB
	Log      *zap.Logger
	Settings func() Settings
	// DiskSize returns the size of the database on disk, in bytes.
	DiskSize func() uint64
	// SetFull is called with whether the database has reached its limit. It reports whether that is a change.
	SetFull func(full bool) (changed bool)
	// HeapPlanned is the planned size of Go's heap in bytes.
	HeapPlanned uint64
	// Shutdown requests the end of the process and returns at once.
	Shutdown func()
}

// Work is the background work: at most one backup and one compaction at a time. It implements command.Maintenance.
type Work struct {
	Options

	saving     atomic.Bool
	saveBegan  atomic.Int64 // ns since the epoch; of the last backup
	compacting atomic.Bool
	lastSave   atomic.Int64 // unix seconds; when Work was made before the first backup
	saveTook   atomic.Int64 // seconds of the last backup, -1 = none
	saveFailed atomic.Bool
	saves      atomic.Int64 // successful ones

	passed   uint64 // RocksDB's count of hidden entries that iterators passed, see checkTombstones
	flushing atomic.Bool

	backup sync.Mutex // held while the backup directory changes

	tasks  []task
	firing struct{ save, compact, scan compaction.Firing } // used by the goroutine that runs the tasks

	mu      sync.Mutex // held while goroutines are started
	closing atomic.Bool
	stop    chan struct{} // closed when closing is set
	wg      sync.WaitGroup
}

// task is a periodic task.
type task struct {
	every time.Duration
	next  time.Time
	run   func(now time.Time)
}

// Tick is the minimal time between two runs of a task.
const Tick = 100 * time.Millisecond

const (
	purgeEvery = 10 * time.Second
	cronsEvery = 20 * time.Second
	sizeEvery  = 5 * time.Second
	trimEvery  = 20 * time.Second
	// reclaimEvery is the pause between two searches for files with expired data, which read the properties of all
	// files.
	reclaimEvery = 30 * time.Second
)

// New returns work that has not started: commands may start jobs, but nothing happens periodically before Start.
func New(o Options) *Work {
	w := &Work{Options: o, stop: make(chan struct{})}
	w.saveTook.Store(-1)
	w.lastSave.Store(time.Now().Unix())
	heap := newHeapReturn()
	pace := newGCPace(o.HeapPlanned)
	w.Every(Tick, func(time.Time) {
		heap.tick()
		pace.adjust()
	})
	w.Every(sizeEvery, func(time.Time) { w.CheckSize() })
	w.Every(tombstonesEvery, w.checkTombstones)
	// in the background, because these may take longer than a tick
	w.Every(trimEvery, func(time.Time) { w.spawn(func() { engine.TrimMemory() }) })
	w.Every(purgeEvery, func(now time.Time) { w.spawn(func() { w.purgeBackup(now) }) })
	w.Every(cronsEvery, w.schedules)
	return w
}

// Every calls f every d, first d after Start. All tasks share one goroutine, so f must not block. Every must not be
// called after Start.
func (w *Work) Every(d time.Duration, f func(now time.Time)) {
	w.tasks = append(w.tasks, task{every: d, run: f})
}

// Start starts the periodic tasks.
func (w *Work) Start() {
	w.spawn(w.runTasks)
	w.spawn(w.checker)
}

// Stop stops starting work. It does not wait for a running compaction or backup; Wait does.
func (w *Work) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing.Swap(true) {
		close(w.stop)
	}
}

// Wait waits for the end of the work. It must be called after Stop.
func (w *Work) Wait() { w.wg.Wait() }

// cutShort reports whether an error of the engine says only that the server closes, or that the copy of a master
// replaces the database.
func (w *Work) cutShort(err error) bool {
	return w.closing.Load() || errors.Is(err, engine.ErrLoading) || errors.Is(err, engine.ErrClosed)
}

// spawn runs f in the background, unless the work is stopped; Wait waits for it.
func (w *Work) spawn(f func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.Load() {
		return errClosing
	}
	w.wg.Go(f)
	return nil
}

func (w *Work) runTasks() {
	t := time.NewTicker(Tick)
	defer t.Stop()
	begin := time.Now()
	for i := range w.tasks {
		w.tasks[i].next = begin.Add(w.tasks[i].every)
	}
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
		now := time.Now()
		for i := range w.tasks {
			w.tasks[i].runAt(now)
		}
	}
}

// runAt runs the task if it is due. A task that is due at every tick runs at every tick, even if that comes early.
func (t *task) runAt(now time.Time) {
	if t.every > Tick && now.Before(t.next) {
		return
	}
	t.next = now.Add(t.every)
	t.run(now)
}

// Status is the state of backups and compactions.
type Status struct {
	Saving, Compacting bool
	LastSave           time.Time     // the beginning of the work before the first backup
	SaveTook           time.Duration // of the last backup, in whole seconds; negative = there was none
	SaveFailed         bool          // the last backup has failed
	Saves              int64         // backups since the start that succeeded
	SaveBegan          time.Time     // of the backup that is being made
}

// Status returns how backups and compactions stand.
func (w *Work) Status() Status {
	return Status{Saving: w.saving.Load(), Compacting: w.compacting.Load(), LastSave: w.LastSave(),
		SaveTook: time.Duration(w.saveTook.Load()) * time.Second, SaveFailed: w.saveFailed.Load(),
		Saves: w.saves.Load(), SaveBegan: time.Unix(0, w.saveBegan.Load())}
}

// Shutdown asks for the end of the process and returns at once.
func (w *Work) Shutdown() { w.Options.Shutdown() }

// CheckSize compares the size of the database on disk with its limit.
func (w *Work) CheckSize() {
	limit := w.Settings().MaxSize
	var used uint64
	if limit > 0 {
		used = w.DiskSize()
	}
	full := limit > 0 && used >= limit
	switch {
	case !w.SetFull(full):
	case full:
		w.Log.Warn("max-db-size is reached: commands that add data are refused", zap.Uint64("bytes", used),
			zap.Uint64("limit", limit))
	default:
		w.Log.Info("the database is below max-db-size again")
	}
}
