package config

import (
	"errors"
	"strings"
)

// What settings of Redis promise in other words than Kvrocks's.
var (
	ErrEviction = errors.New("nothing is evicted: max-db-size limits the data, memory-budget-mb the memory")
	errFsync    = errors.New("rocksdb.write_options.sync decides when the log is synced, and only at the start")
)

// checkRedis checks what depends on several settings.
func (st *state) checkRedis(i int) error {
	switch i {
	case maxMemory, maxMemoryPolicy:
		// Of volatile- policies nobody can expect that a key leaves before its time, only that it may.
		if st.values[maxMemory].Num != 0 && strings.HasPrefix(st.values[maxMemoryPolicy].Text, "allkeys-") {
			return ErrEviction
		}
	case appendFsync:
		if st.values[i].Text != st.fsync() {
			return errFsync
		}
	}
	return nil
}

// fsync is the value of appendfsync that says when the write-ahead log is synced.
func (st *state) fsync() string {
	if st.values[writeSync].Num != 0 {
		return "always"
	}
	return "no"
}
