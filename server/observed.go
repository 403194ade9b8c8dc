package server

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// observed says what is to be noted of the commands that run. Connections read it once a run, by one atomic load;
// it is replaced, never changed.
type observed struct {
	monitored  bool // somebody has sent MONITOR
	histograms bool // latency-tracking
	exact      bool // each call is measured by itself
	// From which duration on a call is noted: in the slow log, by the latency monitor, and the lesser of both.
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

// followDiagnostics makes the server follow the settings about what is noted of commands.
func (s *Server) followDiagnostics() {
	apply := func(_, _ string) error {
		s.observe(func(o *observed) {
			o.histograms = s.cfg.Bool("latency-tracking")
			o.slow, o.latency = never, never
			if us := s.cfg.Int("slowlog-log-slower-than"); us >= 0 {
				o.slow = time.Duration(us) * time.Microsecond
			}
			if ms := s.cfg.Int("latency-monitor-threshold"); ms > 0 {
				o.latency = time.Duration(ms) * time.Millisecond
			}
			o.profiling = newProfiling(int(s.cfg.Int("profiling-sample-ratio")), s.cfg.Text("profiling-sample-commands"),
				time.Duration(s.cfg.Int("profiling-sample-record-threshold-ms"))*time.Millisecond)
		})
		s.slowlog.SetLimit(int(s.cfg.Int("slowlog-max-len")))
		s.perflog.SetLimit(int(s.cfg.Int("profiling-sample-record-max-len")))
		s.tracker.SetLimit(s.cfg.Int("tracking-table-max-keys"))
		return nil
	}
	apply("", "")
	for _, name := range []string{"latency-tracking", "slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold",
		"profiling-sample-ratio", "profiling-sample-commands", "profiling-sample-record-threshold-ms", "profiling-sample-record-max-len", "tracking-table-max-keys"} {
		s.cfg.OnChange(name, apply)
	}
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

// percentiles parses latency-tracking-info-percentiles; what is no number was refused when it was set.
func (s *Server) percentiles() []float64 {
	var ps []float64
	for _, w := range strings.Fields(s.cfg.Text("latency-tracking-info-percentiles")) {
		if p, err := strconv.ParseFloat(w, 64); err == nil {
			ps = append(ps, p)
		}
	}
	return ps
}
