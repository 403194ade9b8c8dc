package maintenance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/basaltdb/basalt/engine"
)

var (
	errSaving     = engine.NewError("ERR", "Background save already in progress")
	errCompacting = engine.NewError("ERR", "compact in-progress")
	errNoBackup   = engine.NewError("ERR", "backup-dir is not set")
	errClosing    = engine.NewError("ERR", "the server is shutting down")
)

// BackgroundSave starts a backup.
func (w *Work) BackgroundSave() error {
	_, err := w.startSave()
	return err
}

// Save makes a backup and waits for it.
func (w *Work) Save() error {
	done, err := w.startSave()
	if err != nil {
		return err
	}
	return <-done
}

// startSave starts a backup. The channel receives its result.
func (w *Work) startSave() (<-chan error, error) {
	dir := w.Settings().BackupDir
	if dir == "" {
		return nil, errNoBackup
	}
	if w.saving.Swap(true) {
		return nil, errSaving
	}
	w.saveBegan.Store(time.Now().UnixNano())
	done := make(chan error, 1) // nobody need receive
	err := w.spawn(func() {
		start := time.Now()
		err := w.save(dir)
		defer func() {
			w.saving.Store(false)
			done <- err
		}()
		took := time.Since(start)
		w.saveFailed.Store(err != nil)
		w.saveTook.Store(int64(took.Seconds()))
		if err != nil {
			w.Log.Error("the backup failed", zap.String("dir", dir), zap.Error(err))
			return
		}
		w.saves.Add(1)
		w.lastSave.Store(time.Now().Unix())
		w.Log.Info("backup made", zap.String("dir", dir), zap.Duration("took", took))
	})
	if err != nil {
		w.saving.Store(false)
	}
	return done, err
}

// FlushMemtables flushes RocksDB's memtables to files. With wait it waits for the end.
func (w *Work) FlushMemtables(wait bool) error {
	done := make(chan error, 1) // buffered: no one needs to receive
	err := w.spawn(func() {
		err := w.DB.FlushMemtables()
		if err != nil {
			w.Log.Error("the memtables were not flushed", zap.Error(err))
		}
		done <- err
	})
	if err != nil || !wait {
		return err
	}
	return <-done
}

// backupPlace returns a backup directory without symbolic links and without a slash at its end. A backup replaces the
// whole directory, and its removal removes the directory. backupPlace therefore refuses a database that is open, and a
// directory with files that has no CURRENT, which every backup has. Tools that open a backup leave other files in it.
func backupPlace(dir string) (string, error) {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	dir = filepath.Clean(dir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	current := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "CURRENT" })
	why := ""
	switch {
	case len(entries) > 0 && !current:
		why = "it has " + entries[0].Name() + ", and no CURRENT"
	case engine.InUse(dir):
		why = "a process has this database open"
	default:
		return dir, nil
	}
	return "", engine.NewError("ERR", "backup-dir "+dir+" is not a backup, which would replace it: "+why)
}

// save makes a checkpoint of the database next to the backup directory, with hard links on the same disk, and then
// replaces the directory by it.
func (w *Work) save(dir string) error {
	w.backup.Lock()
	defer w.backup.Unlock()
	dir, err := backupPlace(dir)
	if err != nil {
		return err
	}
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := w.DB.Checkpoint(tmp); err != nil {
		return err
	}
	return takePlace(tmp, dir)
}

// takePlace renames a directory, replacing another one if that exists. If the file system can exchange directories, one
// of the two exists completely at every moment.
func takePlace(from, to string) error {
	err := os.Rename(from, to) // to does not exist, or is empty
	if err == nil {
		return nil
	}
	if unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE) == nil {
		return os.RemoveAll(from)
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// LastSave returns the time of the last backup, or of the start of the server.
func (w *Work) LastSave() time.Time { return time.Unix(w.lastSave.Load(), 0) }

// FlushBackup deletes the backup in the background.
func (w *Work) FlushBackup() {
	w.spawn(func() {
		w.backup.Lock()
		defer w.backup.Unlock()
		w.removeBackup("FLUSHBACKUP")
	})
}

// removeBackup removes the backup. The lock backup must be held.
func (w *Work) removeBackup(why string) {
	dir := w.Settings().BackupDir
	if dir == "" {
		return
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	place, err := backupPlace(dir)
	if err == nil {
		err = os.RemoveAll(place)
	}
	if err != nil {
		w.Log.Error("the backup could not be removed", zap.String("dir", dir), zap.Error(err))
		return
	}
	w.Log.Info("backup removed", zap.String("dir", dir), zap.String("why", why))
}

// purgeBackup removes a backup that should not be kept, or is too old by the age of its CURRENT file.
func (w *Work) purgeBackup(now time.Time) {
	settings := w.Settings()
	dir := settings.BackupDir
	if dir == "" || !w.backup.TryLock() { // or it is being replaced: what comes may be kept
		return
	}
	defer w.backup.Unlock()
	info, err := os.Stat(dir + "/CURRENT")
	if err != nil {
		return
	}
	if _, err := backupPlace(dir); err != nil {
		return // the next backup reports it
	}
	switch {
	case !settings.KeepBackups:
		w.removeBackup("max-backup-to-keep is 0")
	case settings.KeepFor > 0 && now.Sub(info.ModTime()) > settings.KeepFor:
		w.removeBackup("older than " + settings.KeepFor.String())
	}
}
