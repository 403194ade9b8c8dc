package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/rocks"
)

// events is the state that RocksDB's event listener has reported.
type events struct {
	mu       sync.Mutex
	bgError  error         // writes fail with it until RocksDB has recovered
	severity int           // of bgError
	noSpace  error         // compactions wait for space, see [DB.BackgroundError]; nil = none does
	wake     chan struct{} // an error has occurred
	healed   chan struct{} // RocksDB has ended a recovery of its own, successful or not
	once     sync.Once
	stalled  atomic.Int32
	errors   atomic.Int64
	// failedLog is the number of the log whose write failed on a full disk, 0 = none.
	failedLog atomic.Uint64
}

func (e *events) init() {
	e.once.Do(func() { e.wake, e.healed = make(chan struct{}, 1), make(chan struct{}, 1) })
}

// signal wakes the receiver of c, now or when it next receives.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// onEvent runs on RocksDB's threads: it counts and logs, and never waits.
func (db *DB) onEvent(ev rocks.Event) {
	db.events.init()
	switch ev.Kind {
	case rocks.FlushCompleted:
		db.Stats.Flushes.Add(1)
		db.counts.filesChanged()
		db.log.Debug("flush completed", zap.String("family", ev.Family), zap.String("file", ev.Text))
	case rocks.CompactionCompleted:
		db.Stats.Compactions.Add(1)
		db.counts.filesChanged()
		db.log.Debug("compaction completed", zap.String("family", ev.Family), zap.String("what", ev.Text))
	case rocks.FieldsDropped:
		db.Stats.ExpiredFields.Add(int64(ev.Code))
	case rocks.StallChanged:
		db.events.stalled.Store(int32(ev.Code))
		if ev.Code != 2 {
			db.log.Warn("writes are slowed down until compactions catch up", zap.String("family", ev.Family),
				zap.Bool("stopped", ev.Code == 1))
		}
	case rocks.BackgroundError:
		db.onBackgroundError(ev.Text, ev.Code)
	case rocks.MemtableSealed:
		signal(db.recovery.logs)
	case rocks.LogDropped:
		db.onDropped(ev.Text, ev.Code)
	case rocks.CorruptRead:
		db.onCorrupt(ev.Text)
	case rocks.Recovered:
		if ev.Code == 0 {
			db.compactionsGoOn()
		}
		signal(db.events.healed)
	}
}

// Severities of RocksDB's background errors: writes go on after a soft one, and never again after a fatal one.
const (
	severitySoft  = 1
	severityFatal = 3
)

func (db *DB) onBackgroundError(text string, severity int) {
	e := &db.events
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errors.Add(1)
	if severity == severitySoft {
		e.noSpace = NewError("ERR", "a compaction needs more space: "+text)
		db.log.Error("a compaction failed, compactions wait for space; writes go on until level 0 is full",
			zap.String("error", text))
		return
	}
	if n := failedLog(text); n != 0 {
		e.failedLog.Store(n)
	}
	switch {
	case severity >= severityFatal:
		db.log.Error("background error, writes fail until the server is restarted", zap.String("error", text))
		text = "the database cannot write before a restart: " + text
	default:
		db.log.Error("background error, writes fail until the database has recovered", zap.String("error", text))
		text = "the database cannot write: " + text
	}
	if e.bgError == nil || severity > e.severity { // what follows from the first error says less
		e.bgError, e.severity = NewError("ERR", text), severity
	}
	signal(e.wake)
}

func (db *DB) compactionsGoOn() {
	db.events.mu.Lock()
	had := db.events.noSpace != nil
	db.events.noSpace = nil
	db.events.mu.Unlock()
	if had {
		db.log.Info("compactions have space again")
	}
}

// recovered permits writes again, unless more errors have occurred than the caller has seen.
func (db *DB) recovered(seen int64) {
	db.events.mu.Lock()
	had := db.events.bgError != nil && db.events.errors.Load() == seen
	if had {
		db.events.bgError = nil
	}
	db.events.mu.Unlock()
	if had {
		db.log.Info("the database has recovered and writes again")
	}
}

// BackgroundError returns the error that keeps the database from writing, nil when it can write.
//
// RocksDB starts no compaction while one waits for space. Writes then go on until level 0 of a family has
// level0_stop_writes_trigger files, and fail from then on.
func (db *DB) BackgroundError() error {
	bgError, noSpace := db.backgroundErrors()
	if bgError == nil && noSpace != nil {
		if stopped, _ := db.FamilyIntProperty(cf.Metadata, "rocksdb.is-write-stopped"); stopped != 0 {
			return noSpace
		}
	}
	return bgError
}

// CompactionError returns the error for which compactions wait for space, nil when none does.
func (db *DB) CompactionError() error {
	_, noSpace := db.backgroundErrors()
	return noSpace
}

func (db *DB) backgroundErrors() (bgError, noSpace error) {
	db.events.mu.Lock()
	defer db.events.mu.Unlock()
	return db.events.bgError, db.events.noSpace
}

// Stopped returns the background error after which the database writes nothing until it is opened anew, or replaced;
// nil = there was none.
func (db *DB) Stopped() error {
	db.events.mu.Lock()
	defer db.events.mu.Unlock()
	if db.events.severity < severityFatal {
		return nil
	}
	return db.events.bgError
}

// BackgroundErrors returns how many background errors have occurred.
func (db *DB) BackgroundErrors() int64 { return db.events.errors.Load() }

// writable is called before every commit.
func (db *DB) writable() error {
	if db.events.errors.Load() == 0 {
		return nil
	}
	bgError, _ := db.backgroundErrors()
	return bgError
}

// Time between two attempts to resume after a background error.
const (
	resumeFirst = time.Second
	resumeMost  = 15 * time.Second
	// resumeSoon is the wait after RocksDB has ended a recovery of its own: it may not have cleaned up yet.
	resumeSoon = 50 * time.Millisecond
	// spacePoll is the time between two looks for space on a full disk (see fulldisk.go).
	spacePoll = 5 * time.Millisecond
)

// recoverLoop brings the database back after a background error, for example when a full disk has space again.
//
// RocksDB recovers from some errors by itself. Its report that it has ended a recovery is only a hint to call Resume,
// which then has nothing to do: RocksDB reports a failed recovery alike, and a new error may have occurred meanwhile.
func (db *DB) recoverLoop() {
	db.events.init()
	for {
		select {
		case <-db.closing:
			return
		case <-db.events.wake:
		}
		for wait := resumeFirst; db.resumable(); wait = min(2*wait, resumeMost) {
			if !db.pause(wait, db.events.healed) {
				return
			}
			seen := db.events.errors.Load()
			if err := db.rocks.Resume(); err != nil {
				free, _ := db.freeSpace()
				db.log.Warn("the database cannot resume writing yet", zap.Error(db.writable()),
					zap.Int("MiB free", free>>20), zap.Int("MiB needed", db.spaceNeeded>>20))
				continue
			}
			if db.logBroken() {
				db.log.Error("the log cannot be written to any more; the database must be opened anew")
				continue
			}
			db.recovered(seen)
		}
	}
}

// resumable reports whether the database cannot write, and may do so later.
func (db *DB) resumable() bool {
	db.events.mu.Lock()
	defer db.events.mu.Unlock()
	return db.events.bgError != nil && db.events.severity < severityFatal
}

// pause waits, and meanwhile polls for space on a full disk. A signal on c shortens the wait to resumeSoon. pause
// reports false when the database closes.
func (db *DB) pause(wait time.Duration, c <-chan struct{}) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	space := time.NewTicker(spacePoll)
	defer space.Stop()
	for {
		select {
		case <-db.closing:
			return false
		case <-c:
			t.Reset(min(wait, resumeSoon))
			c = nil
		case <-space.C:
			db.replaceLog()
		case <-t.C:
			return true
		}
	}
}
