package fullsync

import (
	"sync"
	"sync/atomic"
	"time"
)

// Progress is how far a full sync is.
type Progress struct {
	Files, FilesDone int
	Bytes, BytesDone int64         // of files whose size is known; those that were there already count
	Rate             int64         // bytes a second
	Left             time.Duration // 0 = not known
}

// Meter measures how far a full sync is.
type Meter struct {
	mu     sync.Mutex
	p      Progress
	began  time.Time
	reused int64
	bytes  atomic.Int64 // received
}

// Begin notes that so many files will be fetched.
func (p *Meter) Begin(files int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p, p.began, p.reused = Progress{Files: files}, time.Now(), 0
	p.bytes.Store(0)
}

// Add notes files whose sizes are known, of which some bytes are here.
func (p *Meter) Add(total, reused int64, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p.Bytes += total
	p.reused += reused
	p.p.FilesDone += done
}

// Came notes bytes that were received.
func (p *Meter) Came(n int64) { p.bytes.Add(n) }

// End forgets everything.
func (p *Meter) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p, p.began = Progress{}, time.Time{}
}

// Get returns how far it is.
func (p *Meter) Get(now time.Time) Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.p
	if p.began.IsZero() {
		return s
	}
	got := p.bytes.Load()
	s.BytesDone = got + p.reused
	if took := now.Sub(p.began); took > 0 {
		s.Rate = int64(float64(got) / took.Seconds())
	}
	if left := s.Bytes - s.BytesDone; left > 0 && s.Rate > 0 {
		s.Left = time.Duration(float64(left) / float64(s.Rate) * float64(time.Second))
	}
	return s
}
