package session

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
)

// callCounts counts calls by command, as INFO commandstats has them, until they are added to the server's counters.
type callCounts struct {
	byID    []callCount
	touched []int32
}

type callCount struct{ calls, nsec int64 }

// add counts n calls of a command.
func (s *callCounts) add(spec *command.Spec, n int, took time.Duration) {
	if s.byID == nil {
		s.byID = make([]callCount, command.NumSpecs())
	}
	c := &s.byID[spec.ID]
	if c.calls == 0 {
		s.touched = append(s.touched, int32(spec.ID))
	}
	c.calls += int64(n)
	c.nsec += int64(took)
}

// settle adds the calls to the server's counters, or forgets them. It returns how many it has added.
func (s *callCounts) settle(to *metrics.Stats, count bool) (total int64) {
	for _, id := range s.touched {
		n := &s.byID[id]
		if count {
			to.Call(int(id), n.calls, n.nsec)
			total += n.calls
		}
		*n = callCount{}
	}
	s.touched = s.touched[:0]
	if total > 0 {
		to.Commands.Add(total)
	}
	return total
}

// Failed counts an error in the reply of a script. An error of a command that the script called was counted when the
// command failed.
func (h *scriptHost) Failed(text string, counted bool) {
	c := h.run
	c.script.failed = true
	if !counted {
		c.srv.Stats.ErrorReply(engine.NewError("", text))
	}
}
