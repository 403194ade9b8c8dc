package accounts

import (
	"sync"
	"time"
)

// FailureLimiter decides which failed authentications are logged, so that guessing passwords does
// not fill the disk: the first ones of each second. A second begins with the first failure after the previous second.
// Its methods are safe for concurrent use.
type FailureLimiter struct {
	mu         sync.Mutex
	perSecond  int
	window     time.Time // start of the current second
	lines      int       // lines logged in it
	suppressed int64
}

// NewFailureLimiter returns a limiter that allows perSecond lines in a second.
func NewFailureLimiter(perSecond int) *FailureLimiter { return &FailureLimiter{perSecond: perSecond} }

// Fail counts a failure. If write is true, the caller must log it, with the number of suppressed failures before it.
func (l *FailureLimiter) Fail(now time.Time) (write bool, suppressed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
