package acl

import (
	"sync"
	"time"
)

// FailureLimiter counts failed authentications and decides which of them are written to the server's log, so that
// guessing passwords does not fill the disk: the first ones of a second, which begins with the first one after the
// second before. Its methods may be called by several goroutines.
type FailureLimiter struct {
	mu         sync.Mutex
	perSecond  int
	window     time.Time // when the second began
	lines      int       // written in it
	suppressed int64
	total      int64
}

// NewFailureLimiter lets perSecond lines through in a second.
func NewFailureLimiter(perSecond int) *FailureLimiter { return &FailureLimiter{perSecond: perSecond} }

// Fail counts a failure. When write is true, it is to be logged, together with how many before it were not.
func (l *FailureLimiter) Fail(now time.Time) (write bool, suppressed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if since := now.Sub(l.window); since >= time.Second || since < 0 {
		l.window, l.lines = now, 0
	}
	if l.lines >= l.perSecond {
		l.suppressed++
		return false, 0
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return true, suppressed
}

// Total returns how many failures there were.
func (l *FailureLimiter) Total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
