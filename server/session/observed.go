package session

import (
	"math"
	"time"
)

// observed is a snapshot of the instrumentation settings. A session reads it once per run, by one atomic load. A
// snapshot is replaced, never changed.
type observed struct {
	monitored  bool // a client has sent MONITOR
	histograms bool // latency-tracking
	exact      bool // each call is measured by itself
	// The thresholds of the slow log and of the latency monitor, and the smaller of them.
	slow, latency, noteworthy time.Duration
	profiling                 *profiling // nil = no command is profiled
	pause                     *pause     // nil = clients are not paused
}

// never is a threshold that no duration reaches.
const never = time.Duration(math.MaxInt64)

// observe replaces the snapshot.
func (s *Shared) observe(change func(*observed)) {
	s.observing.Lock()
	defer s.observing.Unlock()
	o := observed{histograms: true, slow: never, latency: never}
	if now := s.observed.Load(); now != nil {
		o = *now
	}
	change(&o)
	o.noteworthy = min(o.slow, o.latency)
	o.exact = o.noteworthy < exactBelow
	s.observed.Store(&o)
}

// Diagnostics are the instrumentation settings of commands. A negative time = nothing is recorded.
type Diagnostics struct {
	Histograms    bool          // latency histograms of each command
	Slow, Latency time.Duration // thresholds of the slow log and of the latency monitor
	SlowEntries   int           // max number of entries of the slow log

	Profile        string        // names of the commands to profile, separated by commas; "*" = all
	ProfileRatio   int           // percentage of their calls that is profiled
	ProfileLeast   time.Duration // shorter calls are not kept
	ProfileEntries int           // max number of calls that are kept
}

// SetDiagnostics applies the instrumentation settings.
func (s *Shared) SetDiagnostics(d Diagnostics) {
	limit := func(t time.Duration) time.Duration {
		if t < 0 {
			return never
		}
		return t
	}
	s.observe(func(o *observed) {
		o.histograms, o.slow, o.latency = d.Histograms, limit(d.Slow), limit(d.Latency)
		o.profiling = newProfiling(d.ProfileRatio, d.Profile, d.ProfileLeast)
	})
	s.slowlog.SetLimit(d.SlowEntries)
	s.perflog.SetLimit(d.ProfileEntries)
}

// observeRun reports a finished command to its observers.
func (c *run) observeRun(r *request) {
	if c.track != nil {
		c.endCaching(r)
	}
	if c.seen.monitored {
		c.srv.monitors.feed(c, r, c.sess.Addr)
	}
}
