package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine/rocks"
)

// events is what RocksDB has reported.
type events struct {
	mu      sync.Mutex
	bgError error // writes fail with it until RocksDB has recovered
	wake    chan struct{}
	once    sync.Once
	stalled atomic.Int32
	errors  atomic.Int64
}

func (e *events) init() { e.once.Do(func() { e.wake = make(chan struct{}, 1) }) }

// onEvent runs on RocksDB's threads: it counts, logs and never waits.
func (db *DB) onEvent(ev rocks.Event) {
	db.events.init()
	switch ev.Kind {
	case rocks.FlushCompleted:
		db.Stats.Flushes.Add(1)
		db.log.Debug("flush completed", zap.String("family", ev.Family), zap.String("file", ev.Text))
	case rocks.CompactionCompleted:
		db.Stats.Compactions.Add(1)
		db.log.Debug("compaction completed", zap.String("family", ev.Family), zap.String("what", ev.Text))
	case rocks.StallChanged:
		db.events.stalled.Store(int32(ev.Code))
		if ev.Code != 2 {
			db.log.Warn("writes are slowed down until compactions catch up", zap.String("family", ev.Family), zap.Bool("stopped", ev.Code == 1))
		}
	case rocks.BackgroundError:
		db.events.errors.Add(1)
		db.events.mu.Lock()
		db.events.bgError = NewError("ERR", "the database cannot write: "+ev.Text)
		db.events.mu.Unlock()
		db.log.Error("background error, writes fail until the database has recovered", zap.String("error", ev.Text), zap.Int("severity", ev.Code))
		select {
		case db.events.wake <- struct{}{}:
		default:
		}
	case rocks.Recovered:
		db.recovered()
	}
}

func (db *DB) recovered() {
	db.events.mu.Lock()
	had := db.events.bgError != nil
	db.events.bgError = nil
	db.events.mu.Unlock()
	if had {
		db.log.Info("the database has recovered and writes again")
	}
}

// BackgroundError returns the error that keeps the database from writing, nil when it is well.
func (db *DB) BackgroundError() error {
	db.events.mu.Lock()
	defer db.events.mu.Unlock()
	return db.events.bgError
}

// BackgroundErrors returns how many background errors there were.
func (db *DB) BackgroundErrors() int64 { return db.events.errors.Load() }

// writable is asked before every commit.
func (db *DB) writable() error {
	if db.closed.Load() {
		return ErrClosed
	}
	if db.events.errors.Load() == 0 {
		return nil
	}
	return db.BackgroundError()
}

// Time between two attempts to resume after a background error.
const (
	resumeFirst = time.Second
	resumeMost  = 15 * time.Second
)

// recoverLoop brings the database back after a background error: a full disk, for one, that has space again.
func (db *DB) recoverLoop() {
	db.events.init()
	for {
		select {
		case <-db.closing:
			return
		case <-db.events.wake:
		}
		for wait := resumeFirst; db.BackgroundError() != nil; wait = min(2*wait, resumeMost) {
			t := time.NewTimer(wait)
			select {
			case <-db.closing:
				t.Stop()
				return
			case <-t.C:
			}
			if err := db.rocks.Resume(); err != nil {
				db.log.Warn("the database cannot resume writing yet", zap.Error(err))
				continue
			}
			db.recovered()
		}
	}
}
