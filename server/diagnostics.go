package server

import (
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/server/session"
)

// diagnosticSettings are the settings of the slow log, the latency monitor and command statistics.
var diagnosticSettings = []string{"latency-tracking", "slowlog-log-slower-than", "slowlog-max-len",
	"latency-monitor-threshold", "profiling-sample-ratio", "profiling-sample-commands",
	"profiling-sample-record-threshold-ms", "profiling-sample-record-max-len", "tracking-table-max-keys"}

// applyDiagnostics applies diagnosticSettings.
func (s *Server) applyDiagnostics() {
	d := session.Diagnostics{
		Histograms: s.cfg.Bool("latency-tracking"),
		Slow:       time.Duration(s.cfg.Int("slowlog-log-slower-than")) * time.Microsecond, Latency: -1,
		SlowEntries:    int(s.cfg.Int("slowlog-max-len")),
		Profile:        s.cfg.Text("profiling-sample-commands"),
		ProfileRatio:   int(s.cfg.Int("profiling-sample-ratio")),
		ProfileLeast:   time.Duration(s.cfg.Int("profiling-sample-record-threshold-ms")) * time.Millisecond,
		ProfileEntries: int(s.cfg.Int("profiling-sample-record-max-len")),
	}
	if ms := s.cfg.Int("latency-monitor-threshold"); ms > 0 {
		d.Latency = time.Duration(ms) * time.Millisecond
	}
	s.sessions.SetDiagnostics(d)
	s.sessions.Tracker.SetLimit(s.cfg.Int("tracking-table-max-keys"))
}

// percentiles parses latency-tracking-info-percentiles; CONFIG has refused invalid numbers.
func (s *Server) percentiles() []float64 {
	var ps []float64
	for _, w := range strings.Fields(s.cfg.Text("latency-tracking-info-percentiles")) {
		if p, err := strconv.ParseFloat(w, 64); err == nil {
			ps = append(ps, p)
		}
	}
	return ps
}
