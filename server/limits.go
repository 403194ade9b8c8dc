package server

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/command"
)

// limits are the settings that every connection looks at, where that costs nothing.
type limits struct {
	bulk    atomic.Int64 // proto-max-bulk-len, bytes
	clients atomic.Int64 // maxclients, 0 = no limit
	timeout atomic.Int64 // timeout, seconds, 0 = none
	out     atomic.Int64 // bytes that may wait to be sent to a client, 0 = no limit

	queued atomic.Int64 // bytes of commands that may wait for EXEC

	readOnly   atomic.Bool // a replica that takes no writes: slave-read-only
	strictKeys atomic.Bool // lua-strict-key-accessing
	full       atomic.Bool // the database has reached max-db-size
}

// refuseWrite returns why a command that writes cannot run now, nil when it can. In a full database the commands run
// that add nothing, so that there is a way out.
func (l *limits) refuseWrite(flags command.Flag) error {
	switch {
	case l.readOnly.Load():
		return command.ErrReadOnly
	case flags&command.DenyOOM != 0 && l.full.Load():
		return command.ErrDBSize
	}
	return nil
}

// idle returns after which time an idle client is disconnected, 0 = never.
func (l *limits) idle() time.Duration { return time.Duration(l.timeout.Load()) * time.Second }

func (l *limits) output() int { return int(l.out.Load()) }

// MaxBulk returns the longest string that a client may send or a command make, in bytes.
func (s *Server) MaxBulk() int64 { return s.limits.bulk.Load() }

// checkSize compares the size of the database on disk with max-db-size, which is in GiB.
func (s *Server) checkSize() {
	limit := uint64(s.cfg.Int("max-db-size")) << 30
	var used uint64
	if limit > 0 {
		used = s.diskSize()
	}
	full := limit > 0 && used >= limit
	if s.limits.full.Swap(full) == full {
		return
	}
	if full {
		s.log.Warn("max-db-size is reached: commands that add data are refused", zap.Uint64("bytes", used), zap.Uint64("limit", limit))
	} else {
		s.log.Info("the database is below max-db-size again")
	}
}
