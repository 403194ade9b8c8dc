package engine

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/basaltdb/basalt/engine/wal"
	"go.uber.org/zap"
)

// When the disk is full in the middle of a write to the log, RocksDB 7.8 recovers by flushing the memtables, which
// begins a new log. But it flushes only memtables that are not empty. If the first write to a new log was the one that
// failed, and all memtables are empty, RocksDB goes on with the failed log: the next write fails again or, where
// RocksDB is built with assertions as Debian's is, aborts the process. (Later versions always begin a new log.)
//
// So this file begins a new log as soon as the disk has space: a change of wal_bytes_per_sync does that, and while
// RocksDB waits for space the old log may be left behind. RocksDB checks for space every five seconds and then
// recovers; spacePoll is so much shorter that the new log comes first. If it does not, the database cannot write again
// until it is reopened.

// noSpaceInLog finds the number of the log that a background error names.
var noSpaceInLog = regexp.MustCompile(`/(\d+)\.log`)

// failedLog returns the number of the log file whose write failed for lack of space; 0 for other errors.
func failedLog(text string) uint64 {
	m := noSpaceInLog.FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, "No space left on device") {
		return 0
	}
	n, _ := strconv.ParseUint(m[1], 10, 64)
	return n
}

// newestLog returns the highest number of the log files.
func (db *DB) newestLog() uint64 {
	numbers, _ := wal.Numbers(db.dir)
	if len(numbers) == 0 {
		return 0
	}
	return numbers[len(numbers)-1]
}

// freeSpace returns the free bytes of the disk, and whether RocksDB waits for no more.
func (db *DB) freeSpace() (free int, enough bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(db.dir, &s); err != nil {
		return 0, false
	}
	free = int(s.Bavail * uint64(s.Bsize))
	return free, free >= db.spaceNeeded
}

// logBroken reports whether a write to the current log has failed. Once a newer log exists, the failure is forgotten:
// the next error may have another cause than lack of space.
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

// replaceLog begins a new log if a write to the current log has failed and the disk has space. The pause after a failed
// attempt doubles up to maxReplacePause.
func (db *DB) replaceLog() {
	if db.events.failedLog.Load() == 0 {
		db.replaceWait, db.replacePause = 0, 0
		return
	}
	if db.replaceWait > 0 {
		db.replaceWait--
		return
	}
	if _, enough := db.freeSpace(); !enough || !db.logBroken() {
		return
	}
	db.replaceWait, db.replacePause = db.replacePause, min(2*db.replacePause+1, maxReplacePause)
	// Any change of the value will do. The big value has the same effect as 0: no syncing by size.
	value := strconv.FormatInt(1<<40*int64(db.logsReplaced&1^1), 10)
	db.logsReplaced++
	if err := db.rocks.SetDBOption("wal_bytes_per_sync", value); err != nil {
		db.log.Warn("no new log could be begun", zap.Error(err))
	}
}

// maxReplacePause is the longest pause between two attempts to begin a new log, in units of spacePoll: 5 s.
const maxReplacePause = 1000
