package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/internal/durable"
)

// Replacing the database with another one, as a replica does at the end of a full sync.
//
// The steps on the disk, with the names of Kvrocks, for a database in <dir>/db and the files of the new one in
// <dir>/sync_checkpoint:
//
//	1  sync_checkpoint is opened and closed again: a database that cannot be opened replaces nothing
//	2  transactions are shut out and the database is closed
//	3  db -> db.tmp
//	4  sync_checkpoint -> db
//	5  db is opened, transactions are let in
//	6  db.tmp is deleted
//
// The parent directory is synced after 3 and 4. If the process is killed before 4, the next start has the old database
// (Open undoes 3); if it is killed from 4 on, the next start has the new one (Open does 6).

// exchange is the state of Replace.
type exchange struct {
	mu       sync.Mutex // held by Replace, and Close
	under    atomic.Bool
	count    atomic.Uint64         // how often the database was closed and opened again
	failed   atomic.Pointer[error] // the database could not be reopened
	settings settings
}

// settings are the options that were changed since Open.
type settings struct {
	mu    sync.Mutex
	names []string
	apply map[string]func() error
	// under: Replace is at work, from before it waits for the users of the database until the next one is open. It does
	// not hold mu meanwhile, because a user may want to change an option.
	under bool
}

// change applies a change, and notes it for the next database. While the database is being exchanged it only notes it.
func (s *settings) change(name string, apply func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.under {
		if err := apply(); err != nil {
			return err
		}
	}
	if s.apply == nil {
		s.apply = map[string]func() error{}
	}
	if s.apply[name] == nil {
		s.names = append(s.names, name)
	}
	s.apply[name] = apply
	return nil
}

// exchanging says whether Replace is at work.
func (s *settings) exchanging(under bool) {
	s.mu.Lock()
	s.under = under
	s.mu.Unlock()
}

// again applies all changes to the next database.
func (s *settings) again(log *zap.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under = false
	for _, name := range s.names {
		if err := s.apply[name](); err != nil {
			log.Error("an option that was changed could not be set again", zap.String("option", name), zap.Error(err))
		}
	}
}

// exchangeStep is called before each step of Replace, with its number: tests kill the process there.
var exchangeStep = func(int) {}

// ending reports whether background work on the present database must end.
func (db *DB) ending() bool { return db.isClosing() || db.exchange.under.Load() }

// shutError is the error of operations while the database is closed.
func (db *DB) shutError() error {
	if failed := db.exchange.failed.Load(); failed != nil {
		return *failed
	}
	if db.closed.Load() {
		return ErrClosed
	}
	return ErrLoading
}

// Usable returns why operations on the database fail at present: it is being exchanged for another one ([ErrLoading]),
// or was closed. nil = they do not fail.
func (db *DB) Usable() error { return db.whileOpen(func() error { return nil }) }

// whileOpen runs f, which uses the native database more than once: the database is not exchanged meanwhile. What f
// begins after the exchange was asked for fails.
func (db *DB) whileOpen(f func() error) error {
	lane := db.rocks.Lane()
	if !lane.Enter() {
		return db.shutError()
	}
	defer lane.Leave()
	err := f()
	if errors.Is(err, ErrClosed) {
		return db.shutError()
	}
	return err
}

// asideDir returns the directory of the old database while it is being replaced.
func asideDir(dir string) string { return filepath.Clean(dir) + ".tmp" }

// Replace exchanges the database for the one in a directory on the same file system; that directory is gone afterwards.
// A transaction that wants a lock or begins meanwhile gets [ErrLoading]. Replace waits for the operations that have
// begun, so the caller must own no transaction, iterator, snapshot or reader of the log. All in-memory state of the old
// database is forgotten, and the keys are counted as after a start. Watched keys count as changed. Options that were
// set since Open stay set.
//
// When transactions have been shut out, wanted is called, nil = yes: with false, which becomes [ErrUnwanted], the old
// database stays. Until then transactions commit to it.
//
// After an error the old database is still in use, unless the error is [ErrClosed] or says that it could not be
// reopened.
func (db *DB) Replace(dir string, wanted func() bool) error {
	x := &db.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if db.isClosing() {
		return ErrClosed
	}
	names, err := db.prove(dir)
	if err != nil {
		return fmt.Errorf("the database in %s cannot be used: %w", dir, err)
	}
	x.under.Store(true)
	defer x.under.Store(false)
	readmit, err := db.shutOut(ErrLoading)
	if err != nil {
		return err
	}
	defer readmit()
	if wanted != nil && !wanted() {
		return ErrUnwanted
	}
	x.settings.exchanging(true)
	defer x.settings.exchanging(false)
	exchangeStep(2)
	began := time.Now()
	db.endWaitsForSpace()
	db.rocks.Stop(func(users int64) {
		db.log.Warn("replacing the database waits for those who use it", zap.Int64("users", users))
	})
	if err := db.rocks.Shut(false); err != nil {
		db.log.Error("closing the database that is replaced", zap.Error(err))
	}
	aside := asideDir(db.dir)
	unlock, err := lockFiles(db.dir) // else another process could treat the directories as left by a killed process
	if err != nil {
		unlock = func() {}
	} else {
		err = db.moveIn(dir, aside)
	}
	defer func() { unlock() }()
	if err == nil {
		exchangeStep(5)
		if err = db.openAgain(names); err != nil {
			err = errors.Join(err, db.moveBack(dir, aside))
		}
	}
	if err != nil {
		names, e := familiesToOpen(db.dir, RefuseLoss)
		if e == nil {
			unlock() // closing the file later would release RocksDB's lock on it, too
			unlock = func() {}
			e = db.openAgain(names)
		}
		if e != nil {
			e = fmt.Errorf("the database could not be opened again: %w, after: %w", e, err)
			x.failed.Store(&e)
			return e
		}
		db.useAgain()
		return err
	}
	db.useAgain()
	db.noteLogs(false)
	db.log.Info("the database was replaced", zap.Uint64("sequence", db.rocks.LatestSequence()),
		zap.Duration("closed", time.Since(began)))
	exchangeStep(6)
	db.removeAside(aside)
	return nil
}

// useAgain admits users to the database that the exchange has opened, and counts its keys.
func (db *DB) useAgain() {
	db.forgetAll()
	db.rocks.Admit()
	db.exchange.settings.again(db.log)
	db.exchange.under.Store(false) // work on the former database has ended
	db.startCounts(nil)
}

// prove opens the database in a directory with the options of this one, closes it, and returns its families.
func (db *DB) prove(dir string) ([]string, error) {
	if err := syncFiles(dir); err != nil {
		return nil, err
	}
	exchangeStep(1)
	o := db.options
	o.Dir, o.Force, o.Replica = dir, RefuseLoss, true
	o.RecordCache, o.DerivedState = -1, -1
	r := *o.Rocks
	r.BlockCacheSize, r.RowCacheSize, r.DisableAutoCompactions = min(r.BlockCacheSize, 8<<20), 0, true
	o.Rocks = &r
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil {
		return nil, err // Open would create it
	}
	other, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := other.Close(); err != nil {
		return nil, err
	}
	return familiesToOpen(dir, RefuseLoss)
}

// shutOut makes every transaction that wants a lock fail with err until readmit is called. No transaction holds a lock
// when it returns.
func (db *DB) shutOut(err error) (readmit func(), _ error) {
	var all lock.Set
	all.Init()
	for all.AcquireAll(db.locks) != nil {
		select { // a script that runs makes others fail
		case <-db.closing:
			return nil, ErrClosed
		case <-time.After(scanRetry):
		}
	}
	all.FailWaiters(db.locks, err)
	return func() { all.Release(db.locks) }, nil
}

// moveIn makes the files in a directory the database and puts the old files aside. If it returns an error, it has
// changed nothing, or the error includes that of the undo.
func (db *DB) moveIn(dir, aside string) error {
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	exchangeStep(3)
	if err := os.Rename(db.dir, aside); err != nil {
		return err
	}
	err := durable.SyncDir(filepath.Dir(aside))
	if err == nil {
		exchangeStep(4)
		err = os.Rename(dir, db.dir)
	}
	if err != nil {
		return errors.Join(err, os.Rename(aside, db.dir))
	}
	if err := durable.SyncDir(filepath.Dir(db.dir)); err != nil {
		return errors.Join(err, db.moveBack(dir, aside))
	}
	return nil
}

// moveBack undoes moveIn.
func (db *DB) moveBack(dir, aside string) error {
	if err := os.Rename(db.dir, dir); err != nil {
		return err
	}
	return errors.Join(os.Rename(aside, db.dir), durable.SyncDir(filepath.Dir(db.dir)))
}

// openAgain opens the native database in the directory. No transaction may use it yet.
func (db *DB) openAgain(names []string) error {
	ro := db.options.rocksOptions()
	ro.Verdict, ro.Event = db.verdict, db.onEvent
	if err := db.rocks.Reopen(db.dir, names, ro); err != nil {
		return openError(db.dir, err)
	}
	db.noteExtra(names[cf.NumFamilies:])
	return nil
}

// forgetAll forgets the in-memory state of the old database. No transaction uses the database.
func (db *DB) forgetAll() {
	db.exchange.count.Add(1)
	db.flushes.Add(1)
	db.DropCaches()
	db.presence.Clear()
	db.flushedAt.Store(0)
	db.droppedSubkeys.Store(0)
	db.reclaimed.flushed.Store(0)
	db.reclaimed.ingested.Store(0)
	db.events.mu.Lock()
	db.events.bgError, db.events.noSpace = nil, nil
	db.events.failedLog.Store(0)
	db.events.mu.Unlock()
	db.recovery.found.Store(&found{})
	c := &db.counts
	c.mu.Lock()
	for _, counter := range c.byNS { // transaction objects have references
		counter.Reset(time.Now().UnixMilli())
	}
	clear(c.last)
	c.mu.Unlock()
	c.partial.Store(false)
	c.filesChanged()
	db.replica.clock.Store(0)
	db.watches.replaced(nil, nil)
}

// removeAside deletes the old database that an exchange has put aside.
func (db *DB) removeAside(aside string) {
	if err := os.RemoveAll(aside); err != nil {
		db.log.Error("the database that was replaced cannot be removed", zap.String("dir", aside), zap.Error(err))
	}
}

// undoReplace detects that a process was killed while it replaced the database in dir. It puts the old database back if
// the new one is not in place yet. Otherwise it returns the directory of the old one, which is deleted once the new one
// is open; "" when nothing was left behind.
func undoReplace(dir string, log *zap.Logger) (aside string, err error) {
	aside = asideDir(dir)
	if _, err := os.Stat(aside); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	if lockedElsewhere(filepath.Join(aside, "LOCK")) || claimed(dir) {
		return "", fmt.Errorf("%w: %s", ErrLocked, aside)
	}
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err == nil {
		return aside, nil
	}
	if _, err := os.Stat(filepath.Join(aside, "CURRENT")); err != nil {
		return "", nil // no database
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return "", err
	}
	log.Warn("the exchange of the database was interrupted: the old one is put back", zap.String("from", aside))
	if err := os.Rename(aside, dir); err != nil {
		return "", err
	}
	return "", durable.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

// syncFiles syncs the files in a directory to the disk.
func syncFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := durable.SyncDir(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return durable.SyncDir(dir)
}
