package fullsync

import (
	"sync"
	"sync/atomic"
	"time"
)

// Progress is the progress of a full sync.
type Progress struct {
	Files, FilesDone int
	Bytes, BytesDone int64         // of files whose size is known, including files that were already there
	Rate             int64         // bytes per second
	Left             time.Duration // 0 = unknown
}

// Meter measures the progress of a full sync.
type Meter struct {
	mu     sync.Mutex
	p      Progress
	began  time.Time
	reused int64
	bytes  atomic.Int64 // received
}

// Begin sets the number of files to fetch.
func (p *Meter) Begin(files int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p, p.began, p.reused = Progress{Files: files}, time.Now(), 0
	p.bytes.Store(0)
}

// Add adds files of known size, some of whose bytes are already there.
func (p *Meter) Add(total, reused int64, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p.Bytes += total
	p.reused += reused
	p.p.FilesDone += done
}

// Came adds received bytes.
func (p *Meter) Came(n int64) { p.bytes.Add(n) }

// End forgets the progress.
func (p *Meter) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p, p.began = Progress{}, time.Time{}
}

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
