package metrics

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/server/command"
)

// Latency keeps when which kind of event took longer than latency-monitor-threshold: at most one sample a second, the
// worst of it, and the last latencySamples of them, as in Redis. The zero value is ready; any number of goroutines may
// use it.
type Latency struct {
	mu     sync.Mutex
	events map[string]*latencyEvent
}

type latencyEvent struct {
	samples []command.LatencySample
	worst   int64 // milliseconds
}

const latencySamples = 160

// Add adds an event. The caller has compared its duration with the threshold.
func (m *Latency) Add(event string, now time.Time, took time.Duration) {
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

// Events returns what was noted of the events whose names match, sorted by name; nil matches all.
func (m *Latency) Events(match func(name string) bool) []command.LatencyEvent {
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

// Reset forgets events, without names all of them, and returns how many.
func (m *Latency) Reset(names ...string) (n int) {
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
