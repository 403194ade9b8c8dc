package session

import (
	"math"
	"time"
)

// observed is a snapshot of the instrumentation settings. A session reads it once a run, by one atomic load; it is
// replaced, never changed.
type observed struct {
	monitored  bool // somebody has sent MONITOR
	histograms bool // latency-tracking
	exact      bool // each call is measured by itself
	// The thresholds of the slow log and of the latency monitor, and the smaller of them.
	slow, latency, noteworthy time.Duration
	profiling                 *profiling // nil = no command is profiled
	pause                     *pause     // nil = clients are not paused
}

// never is a duration that nothing takes.
const never = time.Duration(math.MaxInt64)

// observe changes what is noted.
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

// Diagnostics are the settings about what is noted of commands. A negative time = nothing is noted.
type Diagnostics struct {
	Histograms    bool          // of the times of each command
	Slow, Latency time.Duration // from which on the slow log and the latency monitor note a call
	SlowEntries   int           // how many the slow log keeps
	// Commands, separated by commas, are profiled: so many percent of their calls, of which those are kept that take at
	// least ProfileLeast.
	Profile      string
	ProfileRatio int
	ProfileLeast time.Duration
	// ProfileEntries is how many of them are kept.
	ProfileEntries int
}

// SetDiagnostics changes what is noted of commands.
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

// observeRun shows a command that has run to those who observe it.
func (c *run) observeRun(r *request) {
	if c.track != nil {
		c.endCaching(r)
	}
	if c.seen.monitored {
		c.srv.monitors.feed(c, r, c.sess.Addr)
	}
}
