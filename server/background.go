package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// background is the state of the work that commands and the cron start: backups and compactions, one of each at
// a time.
type background struct {
	saving     atomic.Bool
	compacting atomic.Bool
	lastSave   atomic.Int64 // unix seconds; the start of the server before the first backup
	saveTook   atomic.Int64 // seconds of the last backup, -1 = none
	saveFailed atomic.Bool

	backup sync.Mutex // held while the backup directory changes
}

var (
	errSaving     = engine.NewError("ERR", "Background save already in progress")
	errCompacting = engine.NewError("ERR", "compact in-progress")
	errNoBackup   = engine.NewError("ERR", "backup-dir is not set")
	errClosing    = engine.NewError("ERR", "the server is shutting down")
)

// spawn runs f in the background, unless the server is being closed; Close waits for it.
func (s *Server) spawn(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return errClosing
	}
	s.wg.Go(f)
	return nil
}

// BackgroundSave starts a backup.
func (s *Server) BackgroundSave() error {
	_, err := s.startSave()
	return err
}

// Save makes a backup and waits for it.
func (s *Server) Save() error {
	done, err := s.startSave()
	if err != nil {
		return err
	}
	return <-done
}

// startSave starts a backup, whose outcome comes through the channel. A checkpoint of the database is made beside the
// backup directory and then takes its place, so that at every moment but one the directory holds a whole backup.
func (s *Server) startSave() (<-chan error, error) {
	dir := s.backupDir()
	if dir == "" {
		return nil, errNoBackup
	}
	if s.work.saving.Swap(true) {
		return nil, errSaving
	}
	done := make(chan error, 1) // nobody need receive
	err := s.spawn(func() {
		start := time.Now()
		err := s.save(dir)
		defer func() {
			s.work.saving.Store(false)
			done <- err
		}()
		took := time.Since(start)
		s.work.saveFailed.Store(err != nil)
		s.work.saveTook.Store(int64(took.Seconds()))
		if err != nil {
			s.log.Error("the backup failed", zap.String("dir", dir), zap.Error(err))
			return
		}
		s.work.lastSave.Store(time.Now().Unix())
		s.log.Info("backup made", zap.String("dir", dir), zap.Duration("took", took))
	})
	if err != nil {
		s.work.saving.Store(false)
	}
	return done, err
}

// FlushMemtables writes RocksDB's memtables to files, and waits for that if wait is set.
func (s *Server) FlushMemtables(wait bool) error {
	done := make(chan error, 1) // nobody need receive
	err := s.spawn(func() {
		var err error
		for id := range cf.NumFamilies {
			err = errors.Join(err, s.db.FlushMemtable(id))
		}
		if err != nil {
			s.log.Error("the memtables were not flushed", zap.Error(err))
		}
		done <- err
	})
	if err != nil || !wait {
		return err
	}
	return <-done
}

func (s *Server) save(dir string) error {
	s.work.backup.Lock()
	defer s.work.backup.Unlock()
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := s.db.Checkpoint(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// LastSave returns when the last backup was made, or when the server was started.
func (s *Server) LastSave() time.Time { return time.Unix(s.work.lastSave.Load(), 0) }

// FlushBackup deletes the backup in the background.
func (s *Server) FlushBackup() {
	s.spawn(func() { s.removeBackup("FLUSHBACKUP") })
}

func (s *Server) removeBackup(why string) {
	dir := s.backupDir()
	if dir == "" {
		return
	}
	s.work.backup.Lock()
	defer s.work.backup.Unlock()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		s.log.Error("the backup could not be removed", zap.String("dir", dir), zap.Error(err))
		return
	}
	s.log.Info("backup removed", zap.String("dir", dir), zap.String("why", why))
}

// purgeBackup removes a backup that is not to be kept, or is too old: its age is that of its CURRENT file.
func (s *Server) purgeBackup(now time.Time) {
	dir := s.backupDir()
	if dir == "" || s.work.saving.Load() {
		return
	}
	info, err := os.Stat(dir + "/CURRENT")
	if err != nil {
		return
	}
	hours := s.cfg.Int("max-backup-keep-hours")
	switch {
	case s.cfg.Int("max-backup-to-keep") == 0:
		s.removeBackup("max-backup-to-keep is 0")
	case hours > 0 && now.Sub(info.ModTime()) > time.Duration(hours)*time.Hour:
		s.removeBackup(fmt.Sprintf("older than %d hours", hours))
	}
}

// Compact starts a compaction of a namespace, "" = of the whole database.
func (s *Server) Compact(namespace string) error {
	if s.work.compacting.Swap(true) {
		return errCompacting
	}
	err := s.spawn(func() {
		defer s.work.compacting.Store(false)
		start := time.Now()
		switch err := s.db.CompactNamespace(namespace); {
		case err == nil:
			s.log.Info("compaction done", zap.String("namespace", namespace), zap.Duration("took", time.Since(start)))
		case s.closing.Load():
			s.log.Info("compaction cut short, the server closes", zap.String("namespace", namespace))
		default:
			s.log.Error("compaction failed", zap.String("namespace", namespace), zap.Error(err))
		}
	})
	if err != nil {
		s.work.compacting.Store(false)
	}
	return err
}
