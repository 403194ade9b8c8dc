package engine

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// openDirs holds the directories of the databases that are open in this process.
var openDirs struct {
	sync.Mutex
	m map[string]struct{}
}

// claimDir notes that this process opens the database in dir. release undoes the note. claimDir fails with [ErrLocked]
// when the database is open already, here or in another process.
//
// RocksDB checks the lock itself, but only after it has renamed the LOG of the process that holds the lock; claimDir
// changes nothing. The file LOCK must not be opened while this process has the database open: closing any descriptor of
// the file would release RocksDB's own lock (fcntl(2)).
func claimDir(dir string) (release func(), err error) {
	name, err := filepath.EvalSymlinks(dir)
	if err == nil {
		name, err = filepath.Abs(name)
	}
	if err != nil {
		return nil, err
	}
	openDirs.Lock()
	defer openDirs.Unlock()
	if _, ok := openDirs.m[name]; ok || lockedElsewhere(filepath.Join(name, "LOCK")) {
		return nil, ErrLocked
	}
	if openDirs.m == nil {
		openDirs.m = make(map[string]struct{})
	}
	openDirs.m[name] = struct{}{}
	return func() {
		openDirs.Lock()
		defer openDirs.Unlock()
		delete(openDirs.m, name)
	}, nil
}

// claimed reports whether this process has the database in dir open, even while that directory is being replaced.
func claimed(dir string) bool {
	dir = filepath.Clean(dir)
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err == nil {
		parent, err = filepath.Abs(parent)
	}
	if err != nil {
		return false
	}
	openDirs.Lock()
	defer openDirs.Unlock()
	_, ok := openDirs.m[filepath.Join(parent, filepath.Base(dir))]
	return ok
}

// lockedElsewhere reports whether another process holds a lock on a file. On an error it reports false, and RocksDB
// decides.
func lockedElsewhere(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart} // the whole file
	return syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l) == nil && l.Type != syscall.F_UNLCK
}

// lockFiles takes the lock of a directory that [claimDir] has claimed, so that its files can be changed before RocksDB
// opens it and takes the lock itself.
func lockFiles(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &l); err != nil {
		f.Close()
		return nil, ErrLocked
	}
	return func() { f.Close() }, nil
}

// LockDir keeps this and other processes from opening the database in a directory until unlock is called. It fails with
// [ErrLocked] while a process has the database open. It creates no file LOCK in a database without one, such as a
// checkpoint, and needs no right to write: a lock for reading suffices to keep RocksDB out.
func LockDir(dir string) (unlock func(), err error) {
	release, err := claimDir(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "LOCK"))
	if errors.Is(err, os.ErrNotExist) {
		return release, nil
	}
	if err != nil {
		release()
		return nil, err
	}
	l := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &l); err != nil {
		f.Close()
		release()
		return nil, ErrLocked
	}
	return func() {
		f.Close()
		release()
	}, nil
}

// InUse reports whether a process, this one or another, has the database in dir open.
func InUse(dir string) bool {
	release, err := claimDir(dir)
	if err != nil {
		return errors.Is(err, ErrLocked)
	}
	release()
	return false
}
