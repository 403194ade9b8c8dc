package metrics

import (
	"sync"
	"time"
)

// The counters of which INFO shows how fast they move.
const (
	RateCommands = iota
	RateNetIn    // bytes
	RateNetOut   // bytes
	RateReplIn   // bytes from the master
	RateReplOut  // bytes to replicas
	RatePuts     // those from here on are RocksDB's
	RateGets
	RateSeeks
	RateNexts
	RatePrevs

	NumRates
)

// A Sample is the values of the counters at one time.
type Sample struct {
	At     time.Time
	Counts [NumRates]int64
}

// SampleInterval is how far apart the samples should be.
const SampleInterval = 100 * time.Millisecond

// Samples keeps the samples of the last 1.6 seconds. The zero value is ready; any number of goroutines may use it.
type Samples struct {
	mu   sync.Mutex
	ring [16]Sample
	n    int // how many were added so far
}

// Add adds a sample, which must be later than those before it.
func (s *Samples) Add(x Sample) {
	s.mu.Lock()
	s.ring[s.n%len(s.ring)] = x
	s.n++
	s.mu.Unlock()
}

// Rates returns how much each counter grows in a second; 0 with fewer than two samples. A counter that was reset
// between the oldest and the newest sample counts as 0.
func (s *Samples) Rates() (perSecond [NumRates]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n < 2 {
		return perSecond
	}
	newest := &s.ring[(s.n-1)%len(s.ring)]
	oldest := &s.ring[max(0, s.n-len(s.ring))%len(s.ring)]
	d := newest.At.Sub(oldest.At).Seconds()
	if d <= 0 {
		return perSecond
	}
	for i := range perSecond {
		perSecond[i] = max(0, float64(newest.Counts[i]-oldest.Counts[i])/d)
	}
	return perSecond
}
