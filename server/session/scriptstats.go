package session

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
)

// scriptCalls counts the commands that a script calls, as INFO commandstats has them. They are added to the server's
// counters when the script ends, or the transaction that runs it: what is rolled back and run again has called nothing.
type scriptCalls struct {
	byID    []callCount
	touched []int32
}

// ran counts a call.
func (s *scriptCalls) ran(spec *command.Spec, took time.Duration) {
	if s.byID == nil {
		s.byID = make([]callCount, command.NumSpecs())
	}
	n := &s.byID[spec.ID]
	if n.calls == 0 {
		s.touched = append(s.touched, int32(spec.ID))
	}
	n.calls++
	n.nsec += int64(took)
}

// settle adds the calls to the server's counters, or forgets them.
func (s *scriptCalls) settle(to *metrics.Stats, count bool) {
	var total int64
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
