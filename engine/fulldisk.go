package engine

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// When the disk is full in the middle of a write to the log, RocksDB 7.8 recovers by flushing the memtables,
// and begins a new log with that. But it flushes only those that hold something. If the first write to a new log
// was the one that failed, and all memtables are empty, it goes on with the log that has failed: the next write
// fails again or, where RocksDB is built with assertions as Debian's is, ends the process. (Later versions always
// begin a new log.)
//
// So a new log is begun here, as soon as there is space: a change of wal_bytes_per_sync does that, and while
// RocksDB waits for space the old log may be left behind. RocksDB looks for space every five seconds and recovers
// then; spacePoll is so much shorter that this comes first. Should it not, the database does not write again
// until it is opened anew.

// noSpaceInLog finds the number of the log that a background error is about.
var noSpaceInLog = regexp.MustCompile(`/(\d+)\.log`)

// failedLog returns the number of the log file in which a write failed for want of space; 0 for other errors.
func failedLog(text string) uint64 {
	m := noSpaceInLog.FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, "No space left on device") {
		return 0
	}
	n, _ := strconv.ParseUint(m[1], 10, 64)
	return n
}

// newestLog returns the highest number of a log file.
func (db *DB) newestLog() (newest uint64) {
	files, _ := filepath.Glob(filepath.Join(db.dir, "*.log"))
	for _, f := range files {
		n, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(f), ".log"), 10, 64)
		if err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}

// hasSpace reports whether there is as much space as RocksDB waits for.
func (db *DB) hasSpace() bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(db.dir, &s); err != nil {
		return false
	}
	return s.Bavail*uint64(s.Bsize) >= uint64(db.spaceNeeded)
}

// logBroken reports whether the log that is written to is one in which a write has failed. Once there is a newer one,
// the failure is forgotten: the next error may have nothing to do with the disk's space.
func (db *DB) logBroken() bool {
	failed := db.events.failedLog.Load()
	if failed == 0 {
		return false
	}
	if db.newestLog() <= failed {
		return true
	}
	db.events.failedLog.CompareAndSwap(failed, 0)
	return false
}

// replaceLog begins a new log if the one that is written to has failed and there is space. The pause after an attempt
// in vain doubles up to maxReplacePause.
func (db *DB) replaceLog() {
	if db.events.failedLog.Load() == 0 {
		db.replaceWait, db.replacePause = 0, 0
		return
	}
	if db.replaceWait > 0 {
		db.replaceWait--
		return
	}
	if !db.hasSpace() || !db.logBroken() {
		return
	}
	db.replaceWait, db.replacePause = db.replacePause, min(2*db.replacePause+1, maxReplacePause)
	// Any change will do. The big value means as little as 0 does: no syncing by size.
	value := strconv.FormatInt(1<<40*int64(db.logsReplaced&1^1), 10)
	db.logsReplaced++
	if err := db.rocks.SetDBOption("wal_bytes_per_sync", value); err != nil {
		db.log.Warn("no new log could be begun", zap.Error(err))
	}
}

// maxReplacePause is the longest pause between two attempts to begin a new log, in units of spacePoll: 5 s.
const maxReplacePause = 1000
