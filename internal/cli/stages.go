package cli

import (
	"sync"

	"github.com/basaltdb/basalt/internal/progress"
)

// stages shows the progress of work in several stages, a bar each; the next stage ends the bar of the last one.
type stages struct {
	env  *Env
	mu   sync.Mutex
	name string
	bar  *progress.Bar
	done int64
}

// add: n more of total bytes of a stage are done.
func (s *stages) add(stage string, n, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(stage, total, true)
	s.bar.Add(n)
}

// at: done of total items or bytes of a stage are done. The total may change.
func (s *stages) at(stage string, done, total int64, bytes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(stage, total, bytes)
	s.bar.SetTotal(total)
	s.bar.Add(done - s.done)
	s.done = done
}

// phase begins a stage, which may have the name of the last one, and returns a function that records progress.
func (s *stages) phase(name string, total int64, bytes bool) func(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name = ""
	s.begin(name, total, bytes)
	return s.bar.Add
}

// begin begins a stage unless it is the present one. mu must be held.
func (s *stages) begin(name string, total int64, bytes bool) {
	if name == s.name {
		return
	}
	unit := progress.Items
	if bytes {
		unit = progress.Bytes
	}
	s.bar.Stop()
	s.name, s.done, s.bar = name, 0, s.env.Progress(name, total, unit)
}

func (s *stages) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bar.Note(text)
}

// stop removes the bar.
func (s *stages) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bar.Stop()
	s.bar = nil
}
