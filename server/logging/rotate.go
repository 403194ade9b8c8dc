package logging

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// maxFileMiB is the size at which a log file is rotated. It is rotated at midnight too, so that retention in days
// removes files of a quiet server.
const maxFileMiB = 256

// rotator is a log file that is rotated by size and by day.
type rotator struct {
	mu   sync.Mutex
	out  *lumberjack.Logger
	now  func() time.Time
	date string // of the last write
}

// openRotator opens the file for appending, so that an unusable directory is an error at start and not at the
// first message.
func openRotator(name string, retentionDays int, now func() time.Time) (*rotator, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err
	}
	date := now()
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		date = info.ModTime()
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	r := &rotator{now: now, date: date.Format(time.DateOnly)}
	r.out = newFile(name, retentionDays)
	return r, nil
}

// openFile creates a log file that is missing. A lumberjack.Logger would create a file that only its owner may read.
func openFile(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

func newFile(name string, retentionDays int) *lumberjack.Logger {
	f := &lumberjack.Logger{Filename: name, MaxSize: maxFileMiB, LocalTime: true}
	switch {
	case retentionDays == 0:
		f.MaxBackups = 1
	case retentionDays > 0:
		f.MaxAge = retentionDays
	}
	return f
}

// Write appends a line.
func (r *rotator) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if date := r.now().Format(time.DateOnly); date != r.date {
		r.date = date
		if err := r.out.Rotate(); err != nil {
			return 0, err
		}
	}
	return r.out.Write(line)
}

// Sync does nothing: lines are not buffered here.
func (r *rotator) Sync() error { return nil }

func (r *rotator) setRetention(days int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The fields of a lumberjack.Logger must not change while its goroutine may read them.
	old := r.out
	r.out = newFile(old.Filename, days)
	old.Close()
}

// reopen lets the next line go to the file that has the name then.
func (r *rotator) reopen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Close()
	if f, err := openFile(r.out.Filename); err == nil { // otherwise the next line tries to create it
		f.Close()
	}
}

func (r *rotator) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Close()
}
