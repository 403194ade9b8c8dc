package server

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/server/command"
)

// latencyMonitor keeps when which kind of event took longer than latency-monitor-threshold: at most a sample a second,
// the worst of it, and the last latencySamples of them, as in Redis.
type latencyMonitor struct {
	mu     sync.Mutex
	events map[string]*latencyEvent
}

type latencyEvent struct {
	samples []command.LatencySample
	worst   int64 // milliseconds
}

const latencySamples = 160

func (m *latencyMonitor) add(event string, now time.Time, took time.Duration) {
	ms, at := took.Milliseconds(), now.Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = map[string]*latencyEvent{}
	}
	e := m.events[event]
	if e == nil {
		e = &latencyEvent{}
		m.events[event] = e
	}
	e.worst = max(e.worst, ms)
	if n := len(e.samples); n > 0 && e.samples[n-1].Unix == at {
		e.samples[n-1].Milliseconds = max(e.samples[n-1].Milliseconds, ms)
		return
	}
	if len(e.samples) == latencySamples {
		e.samples = append(e.samples[:0], e.samples[1:]...)
	}
	e.samples = append(e.samples, command.LatencySample{Unix: at, Milliseconds: ms})
}

// LatencyEvents returns what was noted of the events whose names match; nil matches all. Sorted by name.
func (s *Server) LatencyEvents(match func(name string) bool) []command.LatencyEvent {
	m := &s.latency
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []command.LatencyEvent
	for name, e := range m.events {
		if match == nil || match(name) {
			list = append(list, command.LatencyEvent{Name: name, Worst: e.worst, Samples: slices.Clone(e.samples)})
		}
	}
	slices.SortFunc(list, func(a, b command.LatencyEvent) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// ResetLatency forgets events, without names all of them, and returns how many.
func (s *Server) ResetLatency(names ...string) (n int) {
	m := &s.latency
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(names) == 0 {
		n = len(m.events)
		m.events = nil
	}
	for _, name := range names {
		if m.events[name] != nil {
			delete(m.events, name)
			n++
		}
	}
	return n
}

// Latencies returns the distribution of a command's times; ok is false when none was measured.
func (s *Server) Latencies(spec *command.Spec) (usec, counts []int64, calls int64, ok bool) {
	h := s.stats.calls[spec.ID].latency.Load()
	if h == nil {
		return nil, nil, 0, false
	}
	usec, counts, calls = h.cumulative()
	return usec, counts, calls, calls > 0
}

// infoLatencies is the section Latencystats of INFO.
func (s *Server) infoLatencies(w *infoWriter, _ string) {
	percentiles := s.percentiles()
	for i := range s.stats.calls {
		h := s.stats.calls[i].latency.Load()
		if h == nil || len(percentiles) == 0 {
			continue
		}
		var b strings.Builder
		for j, p := range percentiles {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString("p" + formatPercentile(p) + "=" + formatMicroseconds(h.percentile(p)))
		}
		w.field("latency_percentiles_usec_"+command.ByID(i).FullName(), b.String())
	}
}

func formatMicroseconds(d time.Duration) string {
	return trimFloat(float64(d)/1000, 3, false)
}

func formatPercentile(p float64) string { return trimFloat(p, 6, true) }

// trimFloat writes a number with digits after the point, without zeros at the end if trim.
func trimFloat(f float64, digits int, trim bool) string {
	if math.IsNaN(f) {
		return "0"
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if trim && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
