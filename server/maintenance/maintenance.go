// Package maintenance does the work of the background: backups, compactions, schedules, the limit of the database's
// size, and memory given back.
package maintenance

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
)

// Settings are what the work follows. They are read whenever work is due, so that changes count at once.
type Settings struct {
	BackupDir   string        // "" = there are no backups
	KeepBackups bool          // a backup is kept for longer than it takes to find it
	KeepFor     time.Duration // a backup older than that is removed; 0 = never

	SaveCron    compaction.Cron // of backups
	CompactCron compaction.Cron // of compactions of everything; without effect while the checker has a schedule
	ScanCron    compaction.Cron // of counts of all keys
	Checker     compaction.Settings
	// ExpiredPercent is from which share on a file with expired data is compacted; 0 = never.
	ExpiredPercent int

	MaxSize uint64 // bytes of the database on disk; 0 = without limit
}

// Options say what to work on.
type Options struct {
	DB       *engine.DB
	Log      *zap.Logger
	Settings func() Settings
	// DiskSize returns the size of the database on disk, in bytes.
	DiskSize func() uint64
	// SetFull hears whether the database has reached its limit, and reports whether that is news.
	SetFull func(full bool) (changed bool)
	// HeapPlanned is how many bytes are planned for Go's heap.
	HeapPlanned uint64
	// Shutdown asks for the end of the process and returns at once.
	Shutdown func()
}

// Work is the work of the background: one backup and one compaction at a time. It implements command.Maintenance.
type Work struct {
	Options

	saving     atomic.Bool
	saveBegan  atomic.Int64 // ns since the epoch; of the last backup
	compacting atomic.Bool
	lastSave   atomic.Int64 // unix seconds; when Work was made before the first backup
	saveTook   atomic.Int64 // seconds of the last backup, -1 = none
	saveFailed atomic.Bool
	saves      atomic.Int64 // that succeeded

	backup sync.Mutex // held while the backup directory changes

	tasks  []task
	firing struct{ save, compact, scan compaction.Firing } // of the goroutine that runs the tasks

	mu      sync.Mutex // held while goroutines are started
	closing atomic.Bool
	stop    chan struct{} // closed when closing is set
	wg      sync.WaitGroup
}

// task is what is done again and again.
type task struct {
	every time.Duration
	next  time.Time
	run   func(now time.Time)
}

// Tick is the shortest time between two runs of a task.
const Tick = 100 * time.Millisecond

const (
	purgeEvery = 10 * time.Second
	cronsEvery = 20 * time.Second
	sizeEvery  = 5 * time.Second
	trimEvery  = 20 * time.Second
	// reclaimEvery is the rest between two looks for files with expired data, which go over the properties of all.
	reclaimEvery = 30 * time.Second
)

// New returns work that has not begun: commands may start some, but nothing happens by itself before Start.
func New(o Options) *Work {
	w := &Work{Options: o, stop: make(chan struct{})}
	w.saveTook.Store(-1)
	w.lastSave.Store(time.Now().Unix())
	var heap heapReturn
	pace := newGCPace(o.HeapPlanned)
	w.Every(Tick, func(time.Time) {
		heap.look()
		pace.look()
	})
	w.Every(sizeEvery, func(time.Time) { w.CheckSize() })
	w.Every(trimEvery, func(time.Time) { w.spawn(func() { engine.TrimMemory() }) }) // it may take longer than a tick
	w.Every(purgeEvery, w.purgeBackup)
	w.Every(cronsEvery, w.schedules)
	return w
}

// Every lets f be called every d, the first time d after Start. All tasks run one after the other: f must not wait.
// Every must not be called after Start.
func (w *Work) Every(d time.Duration, f func(now time.Time)) {
	w.tasks = append(w.tasks, task{every: d, run: f})
}

// Start begins what happens by itself.
func (w *Work) Start() {
	w.spawn(w.runTasks)
	w.spawn(w.checker)
}

// Stop ends the work: nothing new begins, and a compaction or backup that runs is not waited for. Wait does.
func (w *Work) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing.Swap(true) {
		close(w.stop)
	}
}

// Wait waits for the end of the work. It must be called after Stop.
func (w *Work) Wait() { w.wg.Wait() }

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

// runAt runs the task if it is due. One that is due with every tick runs with every tick, however early that comes.
func (t *task) runAt(now time.Time) {
	if t.every > Tick && now.Before(t.next) {
		return
	}
	t.next = now.Add(t.every)
	t.run(now)
}

// Status is how backups and compactions stand.
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
