package config

import (
	"errors"
	"strings"
)

// Errors of Redis's settings that promise something which other settings decide here.
var (
	ErrEviction = errors.New("nothing is evicted: max-db-size limits the data, memory-budget-mb the memory")
	errFsync    = errors.New("rocksdb.write_options.sync decides when the log is synced, and only at the start")
)

// checkRedis checks the rules between settings.
func (st *state) checkRedis(i int) error {
	switch i {
	case maxMemory, maxMemoryPolicy:
		// A volatile- policy does not promise eviction, only permits it.
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

// fsync returns the value of appendfsync that describes when the write-ahead log is synced.
func (st *state) fsync() string {
	if st.values[writeSync].Num != 0 {
		return "always"
	}
	return "no"
}
