package config

import (
	"errors"
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// Errors of Redis's settings that promise something which other settings decide here.
var (
	ErrEviction = errors.New("nothing is evicted: max-db-size limits the data, memory-budget-mb the memory")
	errFsync    = errors.New("rocksdb.write_options.sync decides when the log is synced, and only at the start")
	errLogLevel = errors.New("the setting is log-level")
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

// redisLogLevel returns the value of loglevel that describes log-level: the one that CONFIG SET gave, while it does.
// Redis has no level error, which is shown as it is.
func (st *state) redisLogLevel() string {
	level := st.values[logLevel].Text
	if own := st.values[redisLogLevel].Text; setting.LogLevels[own] == level {
		return own
	}
	switch level {
	case "info":
		return "notice"
	case "fatal":
		return "nothing"
	}
	return level
}
