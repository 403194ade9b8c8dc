package server

import (
	"sync/atomic"
	"time"
)

// limits are the settings that every connection looks at, where that costs nothing.
type limits struct {
	bulk    atomic.Int64 // proto-max-bulk-len, bytes
	clients atomic.Int64 // maxclients, 0 = no limit
	timeout atomic.Int64 // timeout, seconds, 0 = none
	out     atomic.Int64 // bytes that may wait to be sent to a client, 0 = no limit
}

// idle returns after which time an idle client is disconnected, 0 = never.
func (l *limits) idle() time.Duration { return time.Duration(l.timeout.Load()) * time.Second }

func (l *limits) output() int { return int(l.out.Load()) }

// MaxBulk returns the longest string that a client may send or a command make, in bytes.
func (s *Server) MaxBulk() int64 { return s.limits.bulk.Load() }
