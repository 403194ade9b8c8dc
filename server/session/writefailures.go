package session

import (
	"sync"
	"time"
)

// writeFailures decides which failed commits are logged: while level 0 or the disk is full, each write fails.
type writeFailures struct {
	mu       sync.Mutex
	n        int64 // failures since began; 0 = writes succeed
	began    time.Time
	last     time.Time
	logged   time.Time
	text     string // of the error that was logged
	sequence uint64 // of the newest write at the time last
}

// writesCalm is how long no write may fail until writes count as succeeding, and the least time between two log lines.
const writesCalm = time.Second

// failed notes a failure, and reports whether it must be logged. sequence is that of the newest write.
func (f *writeFailures) failed(text string, now time.Time, sequence uint64) (log bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		f.began = now
	}
	log = (f.n == 0 || f.text != text) && now.Sub(f.logged) >= writesCalm
	if log {
		f.logged, f.text = now, text
	}
	f.n++
	f.last, f.sequence = now, sequence
	return log
}

// ended returns how many writes have failed, and for how long, once when writes succeed again.
func (f *writeFailures) ended(now time.Time, sequence func() uint64) (n int64, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 || now.Sub(f.last) < writesCalm || sequence() == f.sequence {
		return 0, 0
	}
	n, took = f.n, f.last.Sub(f.began)
	f.n = 0
	return n, took
}
